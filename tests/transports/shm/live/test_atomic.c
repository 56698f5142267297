/* SPDX-License-Identifier: BSD-2-Clause */
/* Atomic operations over shm: every kind and size, what is refused, and several processes at one
 * number. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fi_atomic.h>

#include "ends.h"

enum {
    WORDS = 2048, /* 16 KiB, the most */
    KEY = 7,
    ADDERS = 3,
    ADDITIONS = 5000,
};

struct state {
    struct end from, to;
    fi_addr_t addr;
    struct fid_mr *mr;
    uint64_t target[WORDS], operand[WORDS], compare[WORDS], result[WORDS];
};

static const struct end_want want = {.caps = FI_MSG | FI_RMA | FI_ATOMIC};

static int set_up(void **state)
{
    struct state *s = calloc(1, sizeof(*s));

    end_open_as(&s->from, "shm", &want);
    end_open_as(&s->to, "shm", &want);
    s->addr = end_introduce(&s->from, &s->to);
    assert_int_equal(fi_mr_reg(s->to.domain, s->target, sizeof(s->target),
                               FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &s->mr, NULL),
                     0);
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct state *s = *state;

    assert_int_equal(fi_close(&s->mr->fid), 0);
    end_close(&s->from);
    end_close(&s->to);
    free(s);
    return 0;
}

/* How it ended. */
static int done(struct state *s, uint64_t flags)
{
    struct fi_cq_tagged_entry entry;
    int err = end_wait(&s->from, &s->to, &entry);

    assert_ptr_equal(entry.op_context, s);
    assert_true((entry.flags & flags) == flags);
    return err;
}

static void numbers_of_all_lengths(void **state)
{
    static const size_t counts[] = {1, 2, 7, 100, 128, 129, 1000, WORDS};
    struct state *s = *state;

    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        size_t n = counts[c];

        for (size_t i = 0; i < WORDS; i++) {
            s->target[i] = i;
            s->operand[i] = 1000 * i;
            s->compare[i] = i % 2 ? 1001 * i : 5;
        }
        end_post(&s->from, &s->to,
                 fi_atomic(s->from.ep, s->operand, n, NULL, s->addr, 0, KEY, FI_UINT64, FI_SUM, s));
        assert_int_equal(done(s, FI_ATOMIC | FI_WRITE), 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(s->target[i], 1001 * i);
        end_post(&s->from, &s->to,
                 fi_fetch_atomic(s->from.ep, NULL, n, NULL, s->result, NULL, s->addr, 0, KEY,
                                 FI_UINT64, FI_ATOMIC_READ, s));
        assert_int_equal(done(s, FI_ATOMIC | FI_READ), 0);
        assert_memory_equal(s->result, s->target, n * sizeof(uint64_t));
        memset(s->result, 0, sizeof(s->result));
        end_post(&s->from, &s->to,
                 fi_compare_atomic(s->from.ep, s->operand, n, NULL, s->compare, NULL, s->result,
                                   NULL, s->addr, 0, KEY, FI_UINT64, FI_CSWAP, s));
        assert_int_equal(done(s, FI_ATOMIC | FI_READ), 0);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(s->result[i], 1001 * i);
            assert_int_equal(s->target[i], i % 2 ? 1000 * i : 1001 * i);
        }
    }
}

static void every_valid_operation_ends(void **state)
{
    struct state *s = *state;
    unsigned valid = 0;

    memset(s->target, 0, sizeof(s->target));
    memset(s->operand, 0, sizeof(s->operand));
    for (int type = FI_INT8; type <= FI_UINT128; type++) {
        for (int op = FI_MIN; op <= FI_DIFF; op++) {
            size_t count;
            ssize_t rc = fi_atomic(s->from.ep, s->operand, 1, NULL, s->addr, 0, KEY,
                                   (enum fi_datatype)type, (enum fi_op)op, s);

            assert_int_equal(rc, fi_atomicvalid(s->from.ep, type, op, &count));
            valid += !rc;
            if (!rc)
                assert_int_equal(done(s, FI_ATOMIC), 0);
            rc = fi_fetch_atomic(s->from.ep, s->operand, 1, NULL, s->result, NULL, s->addr, 0, KEY,
                                 (enum fi_datatype)type, (enum fi_op)op, s);
            assert_int_equal(rc, fi_fetch_atomicvalid(s->from.ep, type, op, &count));
            valid += !rc;
            if (!rc)
                assert_int_equal(done(s, FI_ATOMIC), 0);
            rc =
                fi_compare_atomic(s->from.ep, s->operand, 1, NULL, s->compare, NULL, s->result,
                                  NULL, s->addr, 0, KEY, (enum fi_datatype)type, (enum fi_op)op, s);
            assert_int_equal(rc, fi_compare_atomicvalid(s->from.ep, type, op, &count));
            valid += !rc;
            if (!rc)
                assert_int_equal(done(s, FI_ATOMIC), 0);
        }
    }
    assert_true(valid > 300);
}

static void segments_on_both_sides(void **state)
{
    struct state *s = *state;
    struct fi_ioc operands[] = {{s->operand, 3}, {s->operand + 10, 2}};
    struct fi_ioc results[] = {{s->result, 1}, {s->result + 20, 4}};
    struct fi_rma_ioc remote[] = {{80, 1, KEY}, {800, 4, KEY}};
    struct fi_msg_atomic msg = {.msg_iov = operands,
                                .iov_count = 2,
                                .addr = s->addr,
                                .rma_iov = remote,
                                .rma_iov_count = 2,
                                .datatype = FI_UINT64,
                                .op = FI_ATOMIC_WRITE,
                                .context = s};

    for (size_t i = 0; i < WORDS; i++) {
        s->operand[i] = i + 1;
        s->target[i] = 100 + i;
    }
    end_post(&s->from, &s->to, fi_fetch_atomicmsg(s->from.ep, &msg, results, NULL, 2, 0));
    assert_int_equal(done(s, FI_ATOMIC), 0);
    assert_int_equal(s->target[10], 1);
    assert_int_equal(s->target[100], 2);
    assert_int_equal(s->target[101], 3);
    assert_int_equal(s->target[102], 11);
    assert_int_equal(s->target[103], 12);
    assert_int_equal(s->result[0], 110);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(s->result[20 + i], 200 + i);
}

static void what_cannot_be_is_refused(void **state)
{
    struct state *s = *state;
    struct fid_ep *ep = s->from.ep;
    struct fi_atomic_attr attr;
    struct fid_mr *read_only;
    size_t count;

    assert_int_equal(fi_atomic(ep, s->operand, 1, NULL, s->addr, 0, KEY, FI_DOUBLE, FI_BOR, s),
                     -FI_EOPNOTSUPP);
    assert_int_equal(
        fi_atomic(ep, s->operand, WORDS + 1, NULL, s->addr, 0, KEY, FI_UINT64, FI_SUM, s),
        -FI_EMSGSIZE);
    assert_int_equal(fi_atomic(ep, s->operand, 0, NULL, s->addr, 0, KEY, FI_UINT64, FI_SUM, s),
                     -FI_EINVAL);
    assert_int_equal(fi_inject_atomic(ep, s->operand, 513, s->addr, 0, KEY, FI_UINT64, FI_SUM),
                     -FI_EMSGSIZE);
    assert_int_equal(fi_atomicvalid(ep, FI_UINT64, FI_SUM, &count), 0);
    assert_int_equal(count, WORDS);
    assert_int_equal(fi_query_atomic(s->from.domain, FI_FLOAT, FI_SUM, &attr, FI_FETCH_ATOMIC), 0);
    assert_int_equal(attr.count, 2 * WORDS);
    end_post(&s->from, &s->to,
             fi_atomic(ep, s->operand, 1, NULL, s->addr, 0, KEY + 1, FI_UINT64, FI_SUM, s));
    assert_int_equal(done(s, FI_ATOMIC), FI_EACCES);
    end_post(&s->from, &s->to,
             fi_fetch_atomic(ep, s->operand, 2, NULL, s->result, NULL, s->addr,
                             sizeof(s->target) - 8, KEY, FI_UINT64, FI_SUM, s));
    assert_int_not_equal(done(s, FI_ATOMIC), 0);
    assert_int_equal(
        fi_mr_reg(s->to.domain, s->target, 64, FI_REMOTE_READ, 0, KEY + 2, 0, &read_only, NULL), 0);
    end_post(&s->from, &s->to,
             fi_fetch_atomic(ep, s->operand, 1, NULL, s->result, NULL, s->addr, 0, KEY + 2,
                             FI_UINT64, FI_SUM, s));
    assert_int_equal(done(s, FI_ATOMIC), FI_EACCES);
    end_post(&s->from, &s->to,
             fi_fetch_atomic(ep, NULL, 1, NULL, s->result, NULL, s->addr, 0, KEY + 2, FI_UINT64,
                             FI_ATOMIC_READ, s));
    assert_int_equal(done(s, FI_ATOMIC), 0);
    assert_int_equal(fi_close(&read_only->fid), 0);
}

/* ---- Several processes ---- */

static void add(const char *name)
{
    static const uint64_t one = 1;
    struct end end;
    struct fi_cq_tagged_entry entry;
    uint64_t old;
    fi_addr_t to;

    alarm(END_ALARM);
    end_open_as(&end, "shm", &want);
    to = end_know(&end, name);
    for (int i = 0; i < ADDITIONS; i++)
        end_post(&end, NULL, fi_inject_atomic(end.ep, &one, 1, to, 0, KEY, FI_UINT64, FI_SUM));
    end_post(
        &end, NULL,
        fi_fetch_atomic(end.ep, &one, 1, NULL, &old, NULL, to, 8, KEY, FI_UINT64, FI_SUM, &end));
    if (end_wait(&end, NULL, &entry) || old > ADDERS)
        _exit(1);
    end_close(&end);
    _exit(0);
}

static void processes_add_to_one_number(void **state)
{
    struct state *s = *state;
    pid_t pids[ADDERS];
    char name[END_NAME];
    int status;

    memset(s->target, 0, sizeof(s->target));
    end_name(&s->to, name);
    for (int i = 0; i < ADDERS; i++) {
        pids[i] = fork();
        if (!pids[i])
            add(name);
    }
    while (__atomic_load_n(&s->target[1], __ATOMIC_ACQUIRE) < ADDERS)
        end_drive(&s->to, NULL);
    assert_int_equal(s->target[0], ADDERS * ADDITIONS);
    for (int i = 0; i < ADDERS; i++) {
        while (!waitpid(pids[i], &status, WNOHANG))
            end_drive(&s->to, NULL);
        assert_int_equal(status, 0);
    }
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH(numbers_of_all_lengths),      WITH(every_valid_operation_ends),
        WITH(segments_on_both_sides),      WITH(what_cannot_be_is_refused),
        WITH(processes_add_to_one_number),
    };

    alarm(END_ALARM);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
