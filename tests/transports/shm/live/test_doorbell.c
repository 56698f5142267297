/* SPDX-License-Identifier: BSD-2-Clause */
/* A bell that is lost delays what it announced, and nothing else. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ends.h"

enum {
    PAGES_MAX = 8,
    PAGE = 4096,   /* nothing but bits, as transports/shm/shm_doorbell.h has it */
    COLD = 5000,   /* rounds until the receiver has stopped to poll a ring */
    PATIENCE = 60, /* s */
    SLEEPS = 100,
    AWAKE = 100, /* rounds without a message before a sleep, at least */
};

struct game {
    struct end from, to;
    fi_addr_t peer;
    void *bells[PAGES_MAX];
    unsigned count;
};

static void find_bells(struct game *game)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long start;
    char line[512];

    assert_non_null(maps);
    game->count = 0;
    while (fgets(line, sizeof(line), maps)) {
        if (!strstr(line, "memfd:weft-shm-bell"))
            continue;
        assert_true(game->count < PAGES_MAX);
        assert_int_equal(sscanf(line, "%lx", &start), 1);
        game->bells[game->count++] = (void *)start;
    }
    fclose(maps);
}

static void lose_bells(struct game *game)
{
    find_bells(game); /* those of a link that was cut off are gone */
    for (unsigned i = 0; i < game->count; i++)
        memset(game->bells[i], 0, PAGE);
}

static int set_up(void **state)
{
    struct game *game = calloc(1, sizeof(*game));
    struct fi_cq_tagged_entry entry;
    char in;

    end_open(&game->from, "shm(cma=off)");
    end_open(&game->to, "shm(cma=off)");
    game->peer = end_introduce(&game->from, &game->to);
    assert_int_equal(fi_trecv(game->to.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    end_post(&game->from, &game->to, fi_tinject(game->from.ep, "x", 1, game->peer, 1));
    assert_int_equal(end_wait(&game->to, &game->from, &entry), 0);
    find_bells(game);
    assert_true(game->count > 0);
    *state = game;
    return 0;
}

static int tear_down(void **state)
{
    struct game *game = *state;

    end_close(&game->from);
    end_close(&game->to);
    free(game);
    return 0;
}

/* The reader of a receive's completion may never make progress again: the answer that the sender
 * waits for has left, even when the receiver found the message by looking at a silent ring. */
static void test_the_sender_is_told_at_once(void **state)
{
    struct game *game = *state;
    struct fi_cq_tagged_entry entry;
    char out = 'y', in = 0;
    struct iovec iov = {&out, 1};
    struct fi_msg_tagged msg = {.msg_iov = &iov, .iov_count = 1, .tag = 2};
    double begin;

    for (unsigned i = 0; i < COLD; i++)
        end_drive(&game->to, NULL);
    assert_int_equal(fi_trecv(game->to.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 2, 0, NULL), 0);
    msg.addr = game->peer;
    end_post(&game->from, NULL,
             fi_tsendmsg(game->from.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE));
    lose_bells(game);
    begin = end_seconds();
    while (fi_cq_read(game->to.cq, &entry, 1) == -FI_EAGAIN)
        assert_true(end_seconds() - begin < PATIENCE);
    assert_int_equal(in, 'y');
    while (fi_cq_read(game->from.cq, &entry, 1) == -FI_EAGAIN)
        assert_true(end_seconds() - begin < PATIENCE);
}

/* Another peer that scribbles on the bell cannot let an endpoint sleep while there is a message. */
static void test_who_sleeps_is_woken(void **state)
{
    const struct end_want waits = {.wait = FI_WAIT_FD};
    struct fi_cq_tagged_entry entry;
    struct pollfd pollfd = {.events = POLLIN};
    struct game game = {.count = 0};
    struct fid *fids[1];
    unsigned got = 0;
    fi_addr_t peer;
    char in = 0;

    (void)state;
    end_open(&game.from, "shm");
    end_open_as(&game.to, "shm", &waits);
    peer = end_introduce(&game.from, &game.to);
    fids[0] = &game.to.cq->fid;
    assert_int_equal(fi_control(fids[0], FI_GETWAIT, &pollfd.fd), 0);
    for (unsigned i = 0; i < SLEEPS; i++) {
        assert_int_equal(fi_trecv(game.to.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
        while (fi_trywait(game.to.fabric, fids, 1))
            end_drive(&game.to, NULL);
        lose_bells(&game);
        end_post(&game.from, NULL, fi_tinject(game.from.ep, "x", 1, peer, 1));
        lose_bells(&game);
        /* Asleep, or with a message. */
        for (got = 0; !got;) {
            assert_int_equal(poll(&pollfd, 1, 0), 1);
            do {
                got = fi_cq_read(game.to.cq, &entry, 1) == 1;
                lose_bells(&game);
            } while (!got && fi_trywait(game.to.fabric, fids, 1));
        }
        end_drive(&game.from, NULL);
    }
    end_close(&game.from);
    end_close(&game.to);
}

/* The next message mostly comes sooner than a sleeper wakes up. */
static void test_nobody_sleeps_right_after_a_message(void **state)
{
    const struct end_want waits = {.wait = FI_WAIT_FD};
    struct end from, to;
    struct fi_cq_tagged_entry entry;
    struct fid *fids[1];
    unsigned refused = 0;
    fi_addr_t peer;
    char in = 0;

    (void)state;
    end_open(&from, "shm");
    end_open_as(&to, "shm", &waits);
    peer = end_introduce(&from, &to);
    fids[0] = &to.cq->fid;
    assert_int_equal(fi_trecv(to.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    end_post(&from, &to, fi_tinject(from.ep, "x", 1, peer, 1));
    assert_int_equal(end_wait(&to, &from, &entry), 0);
    for (; fi_trywait(to.fabric, fids, 1); refused++) {
        assert_true(refused < COLD);
        end_drive(&to, NULL);
    }
    assert_true(refused > AWAKE);
    end_close(&from);
    end_close(&to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_sender_is_told_at_once, set_up, tear_down),
        cmocka_unit_test(test_who_sleeps_is_woken),
        cmocka_unit_test(test_nobody_sleeps_right_after_a_message),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
