/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers that the application has not inserted, of which an endpoint keeps two
 * (FI_EFA_IMPLICIT_AV_SIZE); over loop, or with the argument efa over an EFA device, and with a
 * second one as many as the variable says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "tests/support/end.h"
#include "tests/support/patience.h"

enum {
    SENDERS = 6,
    ROUNDS = 5,
    SEVERAL = 40000, /* bytes of a message of several packets */
    LARGE = 200000,  /* of one that is asked for */
};

static struct end a, senders[SENDERS];
static const char *stack = "srd;loop(shape=srd,seed=3)";
static const char *limited = "srd(implicit_av_size=2);loop(shape=srd,seed=3)";
static char out[LARGE], in[LARGE];

static void open_one(struct end *end, const char *spec)
{
    const uint64_t caps = FI_MSG | FI_TAGGED | FI_RMA | FI_DIRECTED_RECV | FI_SOURCE;

    end_open(end, end_info(spec, caps, FI_ORDER_SAS), FI_CQ_FORMAT_TAGGED);
}

static int open_all(void **state)
{
    open_one(&a, limited);
    for (int i = 0; i < SENDERS; i++) {
        open_one(&senders[i], stack);
        assert_int_equal(fi_av_insert(senders[i].av, a.name, 1, &senders[i].peer, 0, NULL), 1);
    }
    return 0;
}

static int close_all(void **state)
{
    for (int i = 0; i < SENDERS; i++)
        end_close(&senders[i]);
    end_close(&a);
    return 0;
}

static bool take(struct end *end, fi_addr_t *source)
{
    struct fi_cq_tagged_entry entry;

    return fi_cq_readfrom(end->cq, &entry, 1, source) == 1;
}

/* Until both have a completion; whose message it is, to `to`. */
static fi_addr_t both(struct end *from, struct end *to)
{
    fi_addr_t source = 0, none;
    bool sent = false, came = false;

    for (struct patience p = {0}; patience_lasts(&p) && !(sent && came);) {
        sent = sent || take(from, &none);
        came = came || take(to, &source);
    }
    assert_true(sent && came);
    return source;
}

static void pass(struct end *from, struct end *to, size_t len, char mark)
{
    memset(out, mark, len);
    memset(in, 0, len);
    assert_int_equal(fi_tsend(from->ep, out, len, NULL, from->peer, 1, NULL), 0);
    both(from, to);
    assert_memory_equal(in, out, len);
}

static void receive(struct end *to, fi_addr_t from)
{
    assert_int_equal(fi_trecv(to->ep, in, sizeof(in), NULL, from, 1, 0, NULL), 0);
}

static void no_more(void)
{
    struct fi_cq_tagged_entry entry;

    for (int i = 0; i < 1000; i++) {
        assert_int_equal(fi_cq_read(a.cq, &entry, 1), -FI_EAGAIN);
        for (int j = 0; j < SENDERS; j++)
            fi_cq_read(senders[j].cq, NULL, 0);
    }
}

/* ---- What an application sees ---- */

static void each_message_comes_once_and_in_order(void **state)
{
    static const size_t sizes[] = {8, SEVERAL, LARGE};

    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < SENDERS; i++) {
            receive(&a, FI_ADDR_UNSPEC);
            pass(&senders[i], &a, sizes[round % 3], (char)(round * SENDERS + i + 1));
        }
    }
    no_more();
}

static void a_message_that_waits_keeps_its_sender(void **state)
{
    fi_addr_t source, first;

    memset(out, 7, SEVERAL);
    assert_int_equal(fi_tsend(senders[0].ep, out, SEVERAL, NULL, senders[0].peer, 2, NULL), 0);
    for (int i = 0; i < 2000; i++) {
        fi_cq_read(a.cq, NULL, 0);
        fi_cq_read(senders[0].cq, NULL, 0);
    }
    assert_true(take(&senders[0], &source));
    for (int i = 1; i < SENDERS; i++) {
        receive(&a, FI_ADDR_UNSPEC);
        pass(&senders[i], &a, 8, (char)i);
    }
    assert_int_equal(fi_av_insert(a.av, senders[0].name, 1, &first, 0, NULL), 1);
    memset(in, 0, SEVERAL);
    assert_int_equal(fi_trecv(a.ep, in, SEVERAL, NULL, first, 2, 0, NULL), 0);
    source = FI_ADDR_NOTAVAIL;
    for (struct patience p = {0}; patience_lasts(&p) && source == FI_ADDR_NOTAVAIL;)
        take(&a, &source);
    assert_int_equal(source, first);
    for (int i = 0; i < SEVERAL; i++)
        assert_int_equal(in[i], 7);
    no_more();
}

/* One that was put aside, and one that was not, move into the address vector. */
static void insertion_makes_them_known(void **state)
{
    fi_addr_t addrs[SENDERS];

    for (int i = 0; i < SENDERS; i++) {
        receive(&a, FI_ADDR_UNSPEC);
        pass(&senders[i], &a, 8, (char)(i + 1));
    }
    for (int i = 0; i < SENDERS; i++)
        assert_int_equal(fi_av_insert(a.av, senders[i].name, 1, &addrs[i], 0, NULL), 1);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < SENDERS; i++) {
            receive(&a, addrs[i]);
            assert_int_equal(fi_tsend(senders[i].ep, out, 8, NULL, senders[i].peer, 1, NULL), 0);
            assert_int_equal(both(&senders[i], &a), addrs[i]);
            receive(&senders[i], FI_ADDR_UNSPEC);
            a.peer = addrs[i];
            pass(&a, &senders[i], round & 1 ? LARGE : 8, (char)(i + 9));
        }
    }
    no_more();
}

static void removal_and_insertion_keep_the_order(void **state)
{
    fi_addr_t addrs[SENDERS];

    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < SENDERS; i++) {
            assert_int_equal(fi_av_insert(a.av, senders[i].name, 1, &addrs[i], 0, NULL), 1);
            receive(&a, addrs[i]);
            pass(&senders[i], &a, 8, (char)(round + 1));
            assert_int_equal(fi_av_remove(a.av, &addrs[i], 1, 0), 0);
        }
        for (int i = 0; i < SENDERS; i++) {
            receive(&a, FI_ADDR_UNSPEC);
            pass(&senders[i], &a, SEVERAL, (char)(round + 2));
        }
    }
    no_more();
}

/* The others' sessions with our endpoint go on, too. */
static void accesses_go_on(void **state)
{
    struct fid_mr *mr;

    assert_int_equal(fi_mr_reg(a.domain, in, sizeof(in), FI_REMOTE_WRITE, 0, 9, 0, &mr, NULL), 0);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < SENDERS; i++) {
            ssize_t rc = -FI_EAGAIN;
            fi_addr_t none;
            bool ended = false;

            memset(out, round * SENDERS + i + 1, SEVERAL);
            for (struct patience p = {0}; patience_lasts(&p) && rc == -FI_EAGAIN;) {
                rc = fi_write(senders[i].ep, out, SEVERAL, NULL, senders[i].peer, (uintptr_t)in,
                              fi_mr_key(mr), NULL);
                fi_cq_read(senders[i].cq, NULL, 0);
                fi_cq_read(a.cq, NULL, 0);
            }
            assert_int_equal(rc, 0);
            for (struct patience p = {0}; patience_lasts(&p) && !ended;) {
                ended = take(&senders[i], &none);
                fi_cq_read(a.cq, NULL, 0);
            }
            assert_true(ended);
            for (struct patience p = {0}; patience_lasts(&p) && memcmp(in, out, SEVERAL);)
                fi_cq_read(a.cq, NULL, 0);
            assert_memory_equal(in, out, SEVERAL);
        }
    }
    assert_int_equal(fi_close(&mr->fid), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(each_message_comes_once_and_in_order),
        CASE(a_message_that_waits_keeps_its_sender),
        CASE(insertion_makes_them_known),
        CASE(removal_and_insertion_keep_the_order),
        CASE(accesses_go_on),
    };

    if (argc > 1 && !strcmp(argv[1], "efa")) {
        stack = "srd;efa";
        limited = argc > 2 ? stack : "srd(implicit_av_size=2);efa";
    }
    return cmocka_run_group_tests_name("srd: implicit", tests, NULL, NULL);
}
