/* SPDX-License-Identifier: BSD-2-Clause */
/* A process is killed (SIGKILL), and another one has its address: messages to that one come, and
 * messages of it, and nothing of the first. */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/end.h"

#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

enum {
    TAG = 7,
    LARGE = 200000,
    ROUNDS = 20,
    CHILDREN = 2,
};

/* Answers each message with itself. */
static struct child {
    pid_t pid;
    int to, from; /* pipes */
} children[CHILDREN];

struct order {
    uint8_t name[64], parent[64]; /* to be had; of whom it speaks to */
    size_t len;                   /* 0: any */
    bool speaks;                  /* first */
};

static const char *stack;
static struct end a;
static char out[LARGE], in[LARGE];

static void open_at(struct end *end, const uint8_t *name, size_t len)
{
    end_open_at(end, end_info(stack, FI_MSG | FI_TAGGED, FI_ORDER_SAS), FI_CQ_FORMAT_TAGGED, name,
                len);
}

/* ---- A child ---- */

static void must(bool so)
{
    if (!so)
        abort();
}

static void child_send(struct end *end, const void *bytes, size_t len)
{
    struct fi_cq_tagged_entry entry;

    while (fi_tsend(end->ep, bytes, len, NULL, end->peer, TAG, NULL) == -FI_EAGAIN) {
    }
    while (fi_cq_read(end->cq, &entry, 1) != 1) {
    }
}

static _Noreturn void serve(int from, int to)
{
    struct fi_cq_tagged_entry entry;
    struct order order;
    struct end end;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (read(from, &order, sizeof(order)) != sizeof(order))
        exit(0);
    open_at(&end, order.name, order.len);
    must(fi_av_insert(end.av, order.parent, 1, &end.peer, 0, NULL) == 1);
    must(write(to, end.name, sizeof(end.name)) == sizeof(end.name));
    must(write(to, &end.name_len, sizeof(end.name_len)) == sizeof(end.name_len));
    if (order.speaks)
        child_send(&end, "first", 5);
    for (;;) {
        must(!fi_trecv(end.ep, in, LARGE, NULL, FI_ADDR_UNSPEC, TAG, 0, in));
        while (fi_cq_read(end.cq, &entry, 1) != 1) {
        }
        child_send(&end, in, entry.len);
    }
}

static void fork_child(struct child *child)
{
    int down[2], up[2];

    assert_int_equal(pipe(down), 0);
    assert_int_equal(pipe(up), 0);
    child->pid = fork();
    if (!child->pid) {
        close(down[1]);
        close(up[0]);
        serve(down[0], up[1]);
    }
    close(down[0]);
    close(up[1]);
    child->to = down[1];
    child->from = up[0];
}

static void start(struct child *child, struct order *order)
{
    memcpy(order->parent, a.name, sizeof(order->parent));
    assert_int_equal(write(child->to, order, sizeof(*order)), sizeof(*order));
    assert_int_equal(read(child->from, order->name, sizeof(order->name)), sizeof(order->name));
    assert_int_equal(read(child->from, &order->len, sizeof(order->len)), sizeof(order->len));
}

static void stop(struct child *child)
{
    if (child->pid <= 0)
        return;
    kill(child->pid, SIGKILL);
    assert_int_equal(waitpid(child->pid, NULL, 0), child->pid);
    close(child->to);
    close(child->from);
    child->pid = 0;
}

/* ---- The end under test ---- */

/* The first one has talked, was killed, and the second one has its address. */
static void follow(struct order *order)
{
    struct order first = {.len = 0};

    start(&children[0], &first);
    assert_int_equal(fi_av_insert(a.av, first.name, 1, &a.peer, 0, NULL), 1);
    for (int i = 0; i < ROUNDS; i++) {
        struct fi_cq_tagged_entry entry;
        int wanted = 2;

        assert_int_equal(fi_trecv(a.ep, in, LARGE, NULL, FI_ADDR_UNSPEC, TAG, 0, in), 0);
        while (fi_tsend(a.ep, out, i % 2 ? LARGE : 8, NULL, a.peer, TAG, NULL) == -FI_EAGAIN)
            fi_cq_read(a.cq, NULL, 0);
        while (wanted)
            wanted -= fi_cq_read(a.cq, &entry, 1) == 1;
    }
    stop(&children[0]);
    memcpy(order->name, first.name, sizeof(order->name));
    order->len = first.len;
    start(&children[1], order);
    assert_memory_equal(order->name, first.name, first.len);
}

/* 1: a message has come, 0: nothing of use, -1: an error. */
static int look(size_t *len)
{
    struct fi_cq_err_entry error = {0};
    struct fi_cq_tagged_entry entry;
    ssize_t rc = fi_cq_read(a.cq, &entry, 1);

    if (rc == -FI_EAVAIL) {
        assert_int_equal(fi_cq_readerr(a.cq, &error, 0), 1);
        return -1;
    }
    *len = entry.len;
    return rc == 1 && entry.flags & FI_RECV;
}

static void receive(void)
{
    memset(in, 0, sizeof(in));
    assert_int_equal(fi_trecv(a.ep, in, LARGE, NULL, FI_ADDR_UNSPEC, TAG, 0, in), 0);
}

static void talk(size_t len)
{
    size_t got = 0;
    int rc;

    receive();
    out[0]++;
    while (fi_tsend(a.ep, out, len, NULL, a.peer, TAG, NULL) == -FI_EAGAIN)
        assert_true(look(&got) >= 0);
    while (!(rc = look(&got))) {
    }
    assert_int_equal(rc, 1);
    assert_int_equal(got, len);
    assert_memory_equal(in, out, len);
}

static int open_all(void **state)
{
    for (int i = 0; i < CHILDREN; i++)
        fork_child(&children[i]);
    for (size_t i = 0; i < LARGE; i++)
        out[i] = (char)(i * 3 + i / 255);
    open_at(&a, NULL, 0);
    return 0;
}

static int close_all(void **state)
{
    end_close(&a);
    for (int i = 0; i < CHILDREN; i++)
        stop(&children[i]);
    return 0;
}

/* ---- Cases ---- */

static void the_address_is_removed_and_inserted(void **state)
{
    struct order order = {.speaks = false};

    follow(&order);
    assert_int_equal(fi_av_remove(a.av, &a.peer, 1, 0), 0);
    assert_int_equal(fi_av_insert(a.av, order.name, 1, &a.peer, 0, NULL), 1);
    talk(8);
    talk(LARGE);
    talk(8);
}

static void the_next_one_speaks_first(void **state)
{
    struct order order = {.speaks = true};
    size_t len = 0;
    int rc;

    follow(&order);
    receive();
    while (!(rc = look(&len))) {
    }
    assert_int_equal(rc, 1);
    assert_int_equal(len, 5);
    assert_memory_equal(in, "first", 5);
    talk(LARGE);
    talk(8);
}

/* Messages to the address meanwhile end, or are lost, and later ones come. */
static void the_address_stays(void **state)
{
    struct order order = {.speaks = false};
    size_t len = 0;
    char word[2] = {0};

    follow(&order);
    receive();
    do {
        fi_tinject(a.ep, word, sizeof(word), a.peer, TAG);
        word[1] += !word[0]++;
    } while (look(&len) != 1);
    assert_int_equal(len, sizeof(word));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void)
{
    static const char *const stacks[] = {"rxd;udp(iface=lo)", "rxd;uet(profile=ai-base,iface=lo)"};
    const struct CMUnitTest tests[] = {
        CASE(the_address_is_removed_and_inserted),
        CASE(the_next_one_speaks_first),
        CASE(the_address_stays),
    };
    int failed = 0;

    for (size_t i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++) {
        struct fi_info *hints = fi_allocinfo(), *info = NULL;

        stack = stacks[i];
        assert_non_null(hints);
        hints->fabric_attr->prov_name = strdup(stack);
        if (!fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info))
            failed += cmocka_run_group_tests_name(stack, tests, NULL, NULL);
        fi_freeinfo(info);
        fi_freeinfo(hints);
    }
    return failed;
}
