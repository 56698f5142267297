/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Four ranks that all speak with each other, of which one ends or stops in the middle, by the
 * public interface; the stack is FI_PROVIDER's.
 *   ranks killed     the others' messages arrive, and what goes to the dead one ends
 *   ranks stopped    the others' messages arrive, and they close while it owes them everything
 * Each rank is this program again, with its number: it says its address on its standard output,
 * reads those of all from its standard input, says when it is through, and goes on until that
 * input ends.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "tests/support/end.h"

#include "ask.h"

enum {
    NAME = 32,
    RANKS = 4,
    VICTIM = RANKS - 1,
    MESSAGES = 20, /* from each to each */
    LARGE = 1 << 20,
};

static const size_t sizes[] = {8, 3000, 20000, LARGE, 200000};

static struct end own;
static unsigned me;
static bool killed; /* else stopped */
static char names[RANKS][NAME];

/* With one other rank; `ended` counts what was sent, with or without success, `failed` without. */
static struct talk {
    fi_addr_t peer;
    size_t posted, sent, ended, came, failed;
    char *out[MESSAGES], *in[MESSAGES];
} talks[RANKS];

static size_t size_of(size_t i)
{
    return sizes[i % (sizeof(sizes) / sizeof(*sizes))];
}

static char byte_of(unsigned from, unsigned to, size_t i, size_t at)
{
    return (char)(at * 7 + at / 251 + i * 29 + from * 101 + to * 57);
}

static void begin(unsigned rank)
{
    struct talk *talk = &talks[rank];

    *talk = (struct talk){.peer = FI_ADDR_NOTAVAIL};
    assert_int_equal(fi_av_insert(own.av, names[rank], 1, &talk->peer, 0, NULL), 1);
    for (size_t i = 0; i < MESSAGES; i++) {
        talk->out[i] = malloc(size_of(i));
        talk->in[i] = calloc(1, size_of(i));
        assert_true(talk->out[i] && talk->in[i]);
        for (size_t at = 0; at < size_of(i); at++)
            talk->out[i][at] = byte_of(me, rank, i, at);
    }
}

static void expect(unsigned rank)
{
    const struct talk *talk = &talks[rank];

    for (size_t i = 0; i < MESSAGES; i++)
        for (size_t at = 0; at < size_of(i); at++)
            if (talk->in[i][at] != byte_of(rank, me, i, at))
                fail_msg("from rank %u, message %zu: byte %zu is wrong", rank, i, at);
}

static ssize_t send_next(struct talk *talk, uint64_t flags)
{
    size_t i = talk->sent % MESSAGES;
    struct iovec iov = {talk->out[i], size_of(i)};
    struct fi_msg_tagged msg = {.msg_iov = &iov,
                                .iov_count = 1,
                                .addr = talk->peer,
                                .tag = (uint64_t)me << 32 | i,
                                .context = talk};

    return fi_tsendmsg(own.ep, &msg, FI_COMPLETION | flags);
}

static void post(unsigned rank)
{
    struct talk *talk = &talks[rank];
    size_t i = talk->posted;
    ssize_t rc;

    if (i < MESSAGES && end_took(fi_trecv(own.ep, talk->in[i], size_of(i), NULL, FI_ADDR_UNSPEC,
                                          (uint64_t)rank << 32 | i, 0, talk)))
        talk->posted++;
    if (talk->sent == MESSAGES)
        return;
    /* every other one asks its receiver for an answer */
    rc = send_next(talk, talk->sent % 2 ? FI_DELIVERY_COMPLETE : 0);
    if (rc == -FI_EAGAIN)
        return;
    if (rc && rank != VICTIM)
        fail_msg("rank %u sends to %u: %s", me, rank, fi_strerror((int)-rc));
    talk->sent++;
    talk->ended += rc != 0;
    talk->failed += rc != 0;
}

/* Of the victim alone operations fail. */
static void take_error(void)
{
    struct fi_cq_err_entry error = {.err_data_size = 0};
    struct talk *talk;

    assert_int_equal(fi_cq_readerr(own.cq, &error, 0), 1);
    talk = error.op_context;
    if (talk != &talks[VICTIM])
        fail_msg("rank %u and another that lives: %s (%d)", me, fi_strerror(error.err),
                 error.prov_errno);
    if (error.flags & FI_RECV)
        return;
    talk->failed++;
    talk->ended++;
}

static void take_one(void)
{
    struct fi_cq_tagged_entry entry;
    ssize_t rc = fi_cq_read(own.cq, &entry, 1);
    struct talk *talk = entry.op_context;

    if (rc == -FI_EAVAIL)
        take_error();
    if (rc == -FI_EAGAIN)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    if (rc != 1)
        return;
    if (entry.flags & FI_RECV)
        talk->came++;
    else
        talk->ended++;
}

/* Its messages with those that live are there; and, if one was killed, those to it have ended. */
static bool is_through(void)
{
    for (unsigned rank = 0; rank < RANKS; rank++) {
        const struct talk *talk = &talks[rank];

        if (rank == me)
            continue;
        if (rank == VICTIM && !killed)
            continue;
        if (talk->ended < MESSAGES || (rank != VICTIM && talk->came < MESSAGES))
            return false;
    }
    return true;
}

static void turn(void)
{
    for (unsigned rank = 0; rank < RANKS; rank++) {
        if (rank != me)
            post(rank);
        take_one();
    }
}

/* One more message to the dead rank is refused, or fails. It asks for an answer: all that were sent
 * may have ended well before. */
static void expect_dead(void)
{
    struct talk *talk = &talks[VICTIM];
    size_t failed = talk->failed;
    ssize_t rc = -FI_EAGAIN;

    while (rc == -FI_EAGAIN) {
        rc = send_next(talk, FI_DELIVERY_COMPLETE);
        take_one();
    }
    while (!rc && talk->failed == failed) {
        assert_int_equal(talk->ended, MESSAGES);
        take_one();
    }
}

static void end_all(void)
{
    for (unsigned rank = 0; rank < VICTIM; rank++)
        if (rank != me)
            expect(rank);
    end_close(&own);
    for (unsigned rank = 0; rank < RANKS; rank++)
        for (size_t i = 0; i < MESSAGES; i++) {
            free(talks[rank].out[i]);
            free(talks[rank].in[i]);
        }
}

/* ---- A rank but the first ---- */

static int be_rank(void)
{
    char end;

    end_open(&own, ask(FI_MSG | FI_TAGGED), FI_CQ_FORMAT_TAGGED);
    assert_int_equal(write(STDOUT_FILENO, own.name, NAME), NAME);
    assert_int_equal(read(STDIN_FILENO, names, sizeof(names)), sizeof(names));
    for (unsigned rank = 0; rank < RANKS; rank++)
        if (rank != me)
            begin(rank);
    while (me == VICTIM || !is_through())
        turn();
    if (killed)
        expect_dead();
    assert_int_equal(write(STDOUT_FILENO, "", 1), 1);
    assert_int_equal(fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK), 0);
    while (read(STDIN_FILENO, &end, 1) < 0)
        take_one();
    end_all();
    return 0;
}

/* ---- The first ---- */

static struct rank {
    pid_t pid;
    int in, out; /* its standard input and output */
} ranks[RANKS];

static void start_rank(unsigned number)
{
    char text[16];
    int to[2], from[2];

    snprintf(text, sizeof(text), "%u", number);
    assert_int_equal(pipe2(to, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from, O_CLOEXEC), 0);
    ranks[number].pid = fork();
    assert_true(ranks[number].pid >= 0);
    if (!ranks[number].pid) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        setenv("WEFT_EMULATOR_HOST", number % 2 ? "2" : "1", 1);
        execl("/proc/self/exe", "ranks", killed ? "killed" : "stopped", text, (char *)NULL);
        _exit(1);
    }
    close(to[0]);
    close(from[1]);
    ranks[number].in = to[1];
    ranks[number].out = from[0];
    assert_int_equal(read(from[0], names[number], NAME), NAME);
}

/* The victim has sent a part of its messages, and others are on their way in both directions. */
static void end_victim(void)
{
    while (talks[VICTIM].came < MESSAGES / 4)
        turn();
    assert_int_equal(kill(ranks[VICTIM].pid, killed ? SIGKILL : SIGSTOP), 0);
    if (killed)
        assert_int_equal(waitpid(ranks[VICTIM].pid, NULL, 0), ranks[VICTIM].pid);
}

/* The others are through, which they may need our answers for. */
static void await_others(void)
{
    char byte;

    for (unsigned rank = 1; rank < VICTIM; rank++) {
        ssize_t rc;

        assert_int_equal(fcntl(ranks[rank].out, F_SETFL, O_NONBLOCK), 0);
        while ((rc = read(ranks[rank].out, &byte, 1)) < 0)
            take_one();
        assert_int_equal(rc, 1);
    }
    for (unsigned rank = 1; rank < VICTIM; rank++)
        close(ranks[rank].in);
}

static void the_others_go_on(void **state)
{
    (void)state;
    end_open(&own, ask(FI_MSG | FI_TAGGED), FI_CQ_FORMAT_TAGGED);
    memcpy(names[0], own.name, NAME);
    for (unsigned rank = 1; rank < RANKS; rank++)
        start_rank(rank);
    for (unsigned rank = 1; rank < RANKS; rank++) {
        begin(rank);
        assert_int_equal(write(ranks[rank].in, names, sizeof(names)), sizeof(names));
    }
    end_victim();
    while (!is_through())
        turn();
    if (killed)
        expect_dead();
    await_others();
    end_all();
    for (unsigned rank = 1; rank < VICTIM; rank++) {
        int status = -1;

        assert_int_equal(waitpid(ranks[rank].pid, &status, 0), ranks[rank].pid);
        assert_int_equal(status, 0);
    }
    if (!killed) {
        assert_int_equal(kill(ranks[VICTIM].pid, SIGKILL), 0);
        assert_int_equal(waitpid(ranks[VICTIM].pid, NULL, 0), ranks[VICTIM].pid);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_others_go_on)};

    killed = argc > 1 && !strcmp(argv[1], "killed");
    me = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
    if (me)
        return be_rank();
    return cmocka_run_group_tests_name("efa: ranks", tests, NULL, NULL);
}
