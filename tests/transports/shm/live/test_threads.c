/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads: one for each endpoint, several at one endpoint, and progress without a call. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ends.h"

enum {
    ROUNDS = 2000,
    SENDERS = 3,
    LARGE = 100000,
};

static const struct end_want safe = {.threading = FI_THREAD_SAFE};
static const struct end_want automatic = {
    .threading = FI_THREAD_SAFE, .progress = FI_PROGRESS_AUTO, .wait = FI_WAIT_FD};

/* ---- A thread for each end ---- */

struct side {
    struct end *end;
    fi_addr_t peer;
    bool first;
};

static void wait_one(struct end *end, void *context)
{
    struct fi_cq_tagged_entry entry;

    assert_int_equal(end_wait(end, NULL, &entry), 0);
    assert_ptr_equal(entry.op_context, context);
}

static void *ping_pong(void *arg)
{
    struct side *side = arg;
    struct end *end = side->end;
    char *memory = calloc(1, LARGE);

    for (int i = 0; i < ROUNDS; i++) {
        size_t size = i % 100 ? 8 : LARGE;

        if (side->first) {
            end_post(end, NULL, fi_tsend(end->ep, memory, size, NULL, side->peer, 1, memory));
            wait_one(end, memory);
        }
        assert_int_equal(fi_trecv(end->ep, memory, LARGE, NULL, FI_ADDR_UNSPEC, 1, 0, end), 0);
        wait_one(end, end);
        if (!side->first) {
            end_post(end, NULL, fi_tsend(end->ep, memory, size, NULL, side->peer, 1, memory));
            wait_one(end, memory);
        }
    }
    free(memory);
    return NULL;
}

static void a_thread_for_each_end(void **state)
{
    struct end a, b;
    struct side sides[2] = {{&a, 0, true}, {&b, 0, false}};
    pthread_t thread;

    end_open_as(&a, "shm", &safe);
    end_open_as(&b, "shm", &safe);
    sides[0].peer = end_introduce(&a, &b);
    sides[1].peer = end_introduce(&b, &a);
    assert_int_equal(pthread_create(&thread, NULL, ping_pong, &sides[1]), 0);
    ping_pong(&sides[0]);
    pthread_join(thread, NULL);
    end_close(&a);
    end_close(&b);
}

/* ---- Several at one end ---- */

static void *send_numbers(void *arg)
{
    struct side *side = arg;

    for (uint64_t i = 0; i < ROUNDS; i++)
        end_post(side->end, NULL,
                 fi_tinject(side->end->ep, &i, sizeof(i), side->peer, (uint64_t)(side->first + 1)));
    return NULL;
}

static void several_threads_at_one_end(void **state)
{
    struct end from, to;
    struct side side = {.end = &from};
    pthread_t threads[SENDERS];
    struct fi_cq_tagged_entry entry;
    uint64_t in, sum = 0;

    end_open_as(&from, "shm", &safe);
    end_open_as(&to, "shm", &safe);
    side.peer = end_introduce(&from, &to);
    for (int i = 0; i < SENDERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, send_numbers, &side), 0);
    for (int i = 0; i < SENDERS * ROUNDS; i++) {
        assert_int_equal(fi_trecv(to.ep, &in, sizeof(in), NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
        assert_int_equal(end_wait(&to, NULL, &entry), 0);
        sum += in;
    }
    for (int i = 0; i < SENDERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(sum, (uint64_t)SENDERS * ROUNDS * (ROUNDS - 1) / 2);
    end_close(&from);
    end_close(&to);
}

/* ---- Progress without a call ---- */

static void progress_without_a_call(void **state)
{
    struct end from, to;
    struct fi_cq_tagged_entry entry;
    char *out = calloc(1, LARGE), *in = calloc(1, LARGE);
    fi_addr_t peer;

    end_open_as(&from, "shm", &automatic);
    end_open_as(&to, "shm", &automatic);
    peer = end_introduce(&from, &to);
    for (int i = 0; i < 50; i++) {
        size_t size = i % 2 ? 8 : LARGE;

        memset(out, i, size);
        end_post(&from, NULL, fi_tsend(from.ep, out, size, NULL, peer, 1, out));
        if (i % 10 == 0)
            usleep(2000);
        assert_int_equal(fi_trecv(to.ep, in, LARGE, NULL, FI_ADDR_UNSPEC, 1, 0, in), 0);
        assert_int_equal(fi_cq_sread(to.cq, &entry, 1, NULL, 60000), 1);
        assert_memory_equal(in, out, size);
        assert_int_equal(fi_cq_sread(from.cq, &entry, 1, NULL, 60000), 1);
    }
    end_close(&from);
    end_close(&to);
    free(out);
    free(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_for_each_end),
        cmocka_unit_test(several_threads_at_one_end),
        cmocka_unit_test(progress_without_a_call),
    };

    alarm(END_ALARM);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
