/* SPDX-License-Identifier: BSD-2-Clause */
/* Two endpoints of this process under trace, and fi_replay over what they did. */
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "said.h"

enum {
    SPINS = 20000000
};

static char dir[] = "/tmp/weft-recorded.XXXXXX", file[64];
static int files;
static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_mr *mr;
static struct fid_ep *eps[2];
static fi_addr_t addrs[2];
static struct fi_context2 contexts[8];
static _Alignas(64) char memory[2][4096]; /* of each endpoint; the second is registered */

static void open_fabric(uint64_t caps)
{
    struct fi_info *hints = fi_allocinfo();
    char spec[128];

    snprintf(spec, sizeof(spec), "trace(file=%s);tcp", file);
    hints->caps = caps;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup(spec);
    assert_int_equal(fi_getinfo(FI_VERSION(2, 0), "127.0.0.1", NULL, FI_SOURCE, hints, &info), 0);
    fi_freeinfo(hints);
    assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
}

/* Each test has a file of its own: layers of one process with one file share it. */
static void begin(uint64_t caps)
{
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .size = 64};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    char name[256];

    unlink(file);
    snprintf(file, sizeof(file), "%s/trace.%d", dir, ++files);
    open_fabric(caps);
    assert_int_equal(fi_av_open(domain, &av_attr, &av, NULL), 0);
    assert_int_equal(fi_cq_open(domain, &cq_attr, &cq, NULL), 0);
    for (int i = 0; i < 2; i++) {
        size_t len = sizeof(name);

        assert_int_equal(fi_endpoint(domain, info, &eps[i], NULL), 0);
        assert_int_equal(fi_ep_bind(eps[i], &av->fid, 0), 0);
        assert_int_equal(fi_ep_bind(eps[i], &cq->fid, FI_TRANSMIT | FI_RECV), 0);
        assert_int_equal(fi_enable(eps[i]), 0);
        assert_int_equal(fi_getname(&eps[i]->fid, name, &len), 0);
        assert_int_equal(fi_av_insert(av, name, 1, &addrs[i], 0, NULL), 1);
    }
    memset(memory, 0, sizeof(memory));
}

static void end(void)
{
    for (int i = 0; i < 2; i++)
        fi_close(&eps[i]->fid);
    if (mr)
        fi_close(&mr->fid);
    mr = NULL;
    fi_close(&cq->fid);
    fi_close(&av->fid);
    fi_close(&domain->fid);
    fi_close(&fabric->fid);
    fi_freeinfo(info);
}

/* Until the next completion; its error, 0 without one. */
static int next(struct fi_cq_tagged_entry *entry)
{
    struct fi_cq_err_entry error = {0};

    for (int spins = 0; spins < SPINS; spins++) {
        ssize_t rc = fi_cq_read(cq, entry, 1);

        if (rc == 1)
            return 0;
        if (rc == -FI_EAVAIL && fi_cq_readerr(cq, &error, 0) == 1)
            return error.err;
        assert_true(rc == -FI_EAGAIN || rc == -FI_EAVAIL);
    }
    fail_msg("no completion came");
    return 0;
}

static void complete(int count)
{
    struct fi_cq_tagged_entry entry;

    while (count--)
        assert_int_equal(next(&entry), 0);
}

/* So that both endpoints are in the trace. */
static void exchange(void)
{
    assert_int_equal(fi_recv(eps[1], memory[1], 8, NULL, FI_ADDR_UNSPEC, &contexts[0]), 0);
    assert_int_equal(fi_send(eps[0], memory[0], 8, NULL, addrs[1], &contexts[1]), 0);
    complete(2);
}

/* fi_replay's report on a recording; its exit status. */
static int replay(void)
{
    char arguments[128];

    snprintf(arguments, sizeof(arguments), "-t 30 -s tcp '%s'", file);
    return run(dir, "fi_replay", arguments);
}

/* ---- What is left out ---- */

static void what_is_left_out_is_said_by_kind(void **state)
{
    struct fi_msg_tagged peek = {.addr = FI_ADDR_UNSPEC, .context = &contexts[2]};
    struct fi_cq_tagged_entry entry;

    begin(FI_MSG | FI_TAGGED);
    assert_int_equal(fi_trecvmsg(eps[1], &peek, FI_PEEK), 0);
    assert_int_equal(next(&entry), FI_ENOMSG);
    assert_int_equal(fi_trecv(eps[1], memory[1], 8, NULL, FI_ADDR_UNSPEC, 5, 0, &contexts[0]), 0);
    assert_int_equal(fi_tsend(eps[0], memory[0], 8, NULL, addrs[1], 5, &contexts[1]), 0);
    complete(2);
    end();
    assert_int_equal(replay(), 0);
    must_say("1 process, 2 operations");
    must_say("left out: 1 peeks and discards: ");
    must_not_say("atomics");
}

/* ---- Atomics ---- */

static void register_memory(void)
{
    assert_int_equal(fi_mr_reg(domain, memory[1], sizeof(memory[1]),
                               FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL),
                     0);
}

static void atomics_are_done_again(void **state)
{
    uint64_t to = 0, key, *local = (uint64_t *)memory[0];

    begin(FI_MSG | FI_ATOMIC);
    register_memory();
    exchange();
    key = fi_mr_key(mr);
    to = info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)memory[1] : 0;
    assert_int_equal(
        fi_atomic(eps[0], local, 4, NULL, addrs[1], to, key, FI_UINT64, FI_SUM, &contexts[0]), 0);
    assert_int_equal(fi_fetch_atomic(eps[0], NULL, 3, NULL, local + 4, NULL, addrs[1], to + 64, key,
                                     FI_INT32, FI_ATOMIC_READ, &contexts[1]),
                     0);
    complete(2);
    assert_int_equal(fi_compare_atomic(eps[0], local, 1, NULL, local + 8, NULL, local + 9, NULL,
                                       addrs[1], to + 128, key, FI_DOUBLE, FI_CSWAP, &contexts[2]),
                     0);
    complete(1);
    assert_int_equal(fi_inject_atomic(eps[0], local, 1, addrs[1], to + 3, key, FI_UINT8, FI_BXOR),
                     0);
    assert_int_equal(fi_fetch_atomic(eps[0], local, 1, NULL, local + 4, NULL, addrs[1], to, key,
                                     FI_UINT64, FI_SUM, &contexts[1]),
                     0);
    complete(1);
    end();
    assert_int_equal(replay(), 0);
    must_say("1 process, 7 operations");
    must_say("\natomic   tcp                                         2 ");
    must_say("\nfetch    tcp                                         2 ");
    must_say("\ncompare  tcp                                         1 ");
    must_not_say("left out");
}

/* The version of a file stands behind its magic. */
static void atomics_of_old_files_are_left_out(void **state)
{
    FILE *it = fopen(file, "r+");
    uint32_t version = 1;

    assert_non_null(it);
    assert_int_equal(fseek(it, 8, SEEK_SET), 0);
    assert_int_equal(fwrite(&version, sizeof(version), 1, it), 1);
    fclose(it);
    assert_int_equal(replay(), 0);
    must_say("1 process, 2 operations");
    must_say("left out: 5 atomics: a trace of version 1 ");
}

/* ---- Receives for several messages ---- */

static void post_multi(char *buf, size_t len, void *context)
{
    struct iovec iov = {buf, len};
    struct fi_msg msg = {
        .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = context};

    assert_int_equal(fi_recvmsg(eps[1], &msg, FI_MULTI_RECV), 0);
}

/* Two buffers for messages of 100 bytes; each is posted again when it comes back, at the end both
 * are cancelled. */
static void several_messages(int count, size_t least)
{
    struct fi_cq_tagged_entry entry;

    assert_int_equal(
        fi_setopt(&eps[1]->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof(least)), 0);
    for (int i = 0; i < 2; i++)
        post_multi(memory[1] + 1024 * i, 1024, &contexts[i]);
    while (count--) {
        bool received = false, sent = false;

        assert_int_equal(fi_send(eps[0], memory[0], 100, NULL, addrs[1], &contexts[2]), 0);
        while (!received || !sent) {
            assert_int_equal(next(&entry), 0);
            sent |= (entry.flags & FI_SEND) != 0;
            received |= (entry.flags & FI_RECV) != 0;
            if (entry.flags & FI_MULTI_RECV)
                post_multi(memory[1] + 1024 * (entry.op_context == &contexts[1]), 1024,
                           entry.op_context);
        }
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fi_cancel(&eps[1]->fid, &contexts[i]), 0);
        assert_int_equal(next(&entry), FI_ECANCELED);
    }
}

/* least: what the program wants of room; fi_replay chooses another. */
static void replay_several(size_t least)
{
    begin(FI_MSG | FI_MULTI_RECV);
    several_messages(60, least);
    end();
    assert_int_equal(replay(), 0);
    must_say("\nsend     tcp                                        60 ");
    must_say("\nreceive  tcp ");
    must_not_say("left out");
    must_not_say("could cancel");
}

static void receives_for_several_messages_are_done_again(void **state)
{
    replay_several(100);
}

/* They come back later in the replay. */
static void receives_that_came_back_early_are_done_again(void **state)
{
    replay_several(700);
}

/* In the replay room for the largest must be left: the receive comes back after the first. */
static void receives_that_come_back_early_are_posted_again(void **state)
{
    static const size_t lens[] = {900, 100, 20};
    struct fi_cq_tagged_entry entry;
    size_t least = 1;

    begin(FI_MSG | FI_MULTI_RECV);
    assert_int_equal(
        fi_setopt(&eps[1]->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof(least)), 0);
    post_multi(memory[1], 1024, &contexts[0]);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fi_send(eps[0], memory[0], lens[i], NULL, addrs[1], &contexts[2]), 0);
        complete(2);
    }
    assert_int_equal(fi_cancel(&eps[1]->fid, &contexts[0]), 0);
    assert_int_equal(next(&entry), FI_ECANCELED);
    end();
    assert_int_equal(replay(), 0);
    must_say("1 process, 4 operations");
    must_say("\nreceive  tcp                                         1 ");
}

/* ---- Cancels ---- */

static void cancels_are_done_again(void **state)
{
    struct fi_cq_tagged_entry entry;

    begin(FI_MSG | FI_TAGGED);
    /* Both would take the message, were they not cancelled. */
    for (int i = 0; i < 2; i++)
        assert_int_equal(fi_trecv(eps[1], memory[1], 8, NULL, FI_ADDR_UNSPEC, 5, 0, &contexts[i]),
                         0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fi_cancel(&eps[1]->fid, &contexts[i]), 0);
        assert_int_equal(next(&entry), FI_ECANCELED);
    }
    assert_int_equal(fi_trecv(eps[1], memory[1], 8, NULL, FI_ADDR_UNSPEC, 5, 0, &contexts[0]), 0);
    assert_int_equal(fi_tsend(eps[0], memory[0], 8, NULL, addrs[1], 5, &contexts[1]), 0);
    complete(2);
    fi_cancel(&eps[1]->fid, &contexts[0]); /* too late */
    end();
    assert_int_equal(replay(), 0);
    must_say("1 process, 4 operations");
    must_say("\nreceive  tcp                                         1 ");
    must_say("left out: 1 cancels that came too late");
    must_not_say("could cancel");
}

static int setup(void **state)
{
    assert_non_null(mkdtemp(dir));
    return 0;
}

static int teardown(void **state)
{
    unlink(file);
    rmdir(dir);
    return 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_out_is_said_by_kind),
        cmocka_unit_test(receives_for_several_messages_are_done_again),
        cmocka_unit_test(receives_that_came_back_early_are_done_again),
        cmocka_unit_test(receives_that_come_back_early_are_posted_again),
        cmocka_unit_test(cancels_are_done_again),
        cmocka_unit_test(atomics_are_done_again),
        cmocka_unit_test(atomics_of_old_files_are_left_out), /* of the file before */
    };

    return tools_are_built() ? cmocka_run_group_tests(tests, setup, teardown) : 77;
}
