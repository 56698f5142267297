/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads behind reads. Two words of the target grow together, in steps between which everybody makes
 * progress: a read that comes second has seen no less than the one before it. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_atomic.h>

#include "ends.h"

enum {
    LEN = 4 << 20,
    WORDS = LEN / sizeof(uint64_t),
    KEY = 3,
    ROUNDS = 12, /* some of which would go each way, where that is not said */
    LIMIT = 10000000,
};

static const char *const specs[] = {"shm(cma=on)", "shm(cma=off)", "shm"};

struct stage {
    struct end reader, owner;
    fi_addr_t peer;
    struct fid_mr *mr;
    uint64_t *memory; /* the last word of LEN bytes, and the one behind them, grow */
    uint64_t *first;  /* the large read's target */
    uint64_t base, second;
};

static void open_stage(struct stage *stage, const char *spec, uint64_t order)
{
    const struct end_want want = {.caps = FI_MSG | FI_RMA | FI_ATOMIC, .order = order};

    end_open_as(&stage->reader, spec, &want);
    end_open_as(&stage->owner, spec, &want);
    assert_true((stage->reader.info->tx_attr->msg_order & order) == order);
    stage->peer = end_introduce(&stage->reader, &stage->owner);
    stage->memory = calloc(WORDS + 1, sizeof(uint64_t));
    stage->first = calloc(WORDS, sizeof(uint64_t));
    assert_non_null(stage->memory);
    assert_non_null(stage->first);
    assert_int_equal(fi_mr_reg(stage->owner.domain, stage->memory, LEN + sizeof(uint64_t),
                               FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &stage->mr, NULL),
                     0);
    stage->base = stage->owner.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR
                      ? (uint64_t)(uintptr_t)stage->memory
                      : 0;
}

static void close_stage(struct stage *stage)
{
    assert_int_equal(fi_close(&stage->mr->fid), 0);
    end_close(&stage->reader);
    end_close(&stage->owner);
    free(stage->memory);
    free(stage->first);
}

/* Everybody does something, and then time goes by at the target. */
static unsigned step(struct stage *stage)
{
    struct fi_cq_tagged_entry entry;
    unsigned ended;
    ssize_t rc = fi_cq_read(stage->reader.cq, &entry, 1);

    assert_true(rc == 1 || rc == -FI_EAGAIN);
    ended = rc == 1;
    fi_cq_read(stage->owner.cq, NULL, 0);
    stage->memory[WORDS - 1]++;
    stage->memory[WORDS]++;
    return ended;
}

static unsigned post(struct stage *stage, bool fetch)
{
    const uint64_t at = stage->base + LEN;
    unsigned ended = 0;
    ssize_t rc;

    for (unsigned i = 0; i < LIMIT; i++) {
        if (fetch)
            rc = fi_fetch_atomic(stage->reader.ep, NULL, 1, NULL, &stage->second, NULL, stage->peer,
                                 at, KEY, FI_UINT64, FI_ATOMIC_READ, NULL);
        else
            rc = fi_read(stage->reader.ep, &stage->second, sizeof(uint64_t), NULL, stage->peer, at,
                         KEY, NULL);
        if (!rc)
            return ended;
        assert_int_equal(rc, -FI_EAGAIN);
        ended += step(stage);
    }
    fail_msg("nothing can be posted behind a read");
    return ended;
}

static void one_behind_the_other(struct stage *stage, bool fetch)
{
    unsigned ended = 0;

    end_post(
        &stage->reader, &stage->owner,
        fi_read(stage->reader.ep, stage->first, LEN, NULL, stage->peer, stage->base, KEY, NULL));
    ended += post(stage, fetch);
    for (unsigned i = 0; ended < 2; i++) {
        assert_true(i < LIMIT);
        ended += step(stage);
    }
    assert_true(stage->second >= stage->first[WORDS - 1]);
}

static void with_order(uint64_t order, bool fetch)
{
    for (unsigned i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        struct stage stage;

        open_stage(&stage, specs[i], order);
        for (int round = 0; round < ROUNDS; round++)
            one_behind_the_other(&stage, fetch);
        close_stage(&stage);
    }
}

static void test_reads_in_their_order(void **state)
{
    (void)state;
    with_order(FI_ORDER_RMA_RAR, false);
    with_order(FI_ORDER_RAR, false);
}

static void test_fetches_behind_reads(void **state)
{
    (void)state;
    with_order(FI_ORDER_RAR, true);
}

/* An application that does not ask may attach: the orders are not in the offer then. */
static void test_only_for_who_asks(void **state)
{
    struct end end;

    (void)state;
    end_open(&end, "shm");
    assert_false(end.info->tx_attr->msg_order &
                 (FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_WAW | FI_ORDER_SAW | FI_ORDER_RMA_RAR |
                  FI_ORDER_WAR | FI_ORDER_SAR | FI_ORDER_RMA_WAR));
    end_close(&end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_in_their_order),
        cmocka_unit_test(test_fetches_behind_reads),
        cmocka_unit_test(test_only_for_who_asks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
