/* SPDX-License-Identifier: BSD-2-Clause */
/* Operations posted before their connection is there: none is refused, each ends once. An injected
 * one is, until the connection can take it. */
#include "rdm.h"

#include <sys/socket.h>
#include <unistd.h>

#include <rdma/fi_atomic.h>

#define QUICK "unreachable_timeout=200ms,retry_pause=2ms,retry_pause_max=20ms"

static const char *const specs[] = {
    "rxm(tags=pass," QUICK ");tcp",
    "rxm(tags=emulate," QUICK ");tcp",
    "rxm(tags=emulate,use_srx=no," QUICK ");tcp",
    "rxm(tags=pass," QUICK ");fault(eagain=50%);tcp",
    "rxm(tags=emulate," QUICK ");fault(eagain=50%);tcp",
    "trigger;order;coll;noop;rxm(tags=pass," QUICK ");tcp",
    "order;rxm(tags=emulate," QUICK ");tcp",
};

enum {
    SPECS = sizeof(specs) / sizeof(specs[0]),
    PLAIN = 3 /* of them without faults */
};

#define CAPS (FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV | FI_SOURCE)

struct duo {
    struct rdm_net net;
    struct rdm a, b;
    fi_addr_t to;
};

#define BOTH(duo) RDM_ENDS(&(duo)->a, &(duo)->b)

static void duo_open(struct duo *duo, const char *spec)
{
    rdm_net_open(&duo->net, spec, CAPS);
    rdm_open(&duo->a, &duo->net, 0);
    rdm_open(&duo->b, &duo->net, 0);
    duo->to = rdm_insert(&duo->a, &duo->b.name);
}

static void duo_close(struct duo *duo)
{
    rdm_close(&duo->a);
    rdm_close(&duo->b);
    rdm_net_close(&duo->net);
}

/* Where nothing listens, to the end of the process. */
static fi_addr_t nobody(struct rdm *rdm)
{
    struct sockaddr_in name;

    rdm_bind(&name);
    return rdm_insert(rdm, &name);
}

/* The post, again while it says -FI_EAGAIN; b, which no other thread drives meanwhile, reads its
 * queue. */
#define UNTIL_TAKEN(duo, post)                                                                     \
    do {                                                                                           \
        long long limit = rdm_now_ms() + RDM_LIMIT_MS;                                             \
        ssize_t rc_;                                                                               \
                                                                                                   \
        while ((rc_ = (post)) == -FI_EAGAIN) {                                                     \
            assert_true(rdm_now_ms() < limit);                                                     \
            rdm_progress(RDM_ENDS(&(duo)->b));                                                     \
        }                                                                                          \
        assert_int_equal(rc_, 0);                                                                  \
    } while (0)

/* All forms, of numbers from 0 on in one tag; buffers of injected ones are lost at once. */
enum {
    FORMS = 7
};

static void post_forms(struct duo *duo, uint32_t *values, int *contexts)
{
    struct fid_ep *ep = duo->a.ep;
    struct iovec iov[2] = {{values + 1, 2}, {(char *)(values + 1) + 2, 2}};
    struct iovec lost = {.iov_len = 4};
    struct fi_msg_tagged msg = {
        .msg_iov = &lost, .iov_count = 1, .addr = duo->to, .tag = 9, .context = contexts + 2};
    uint32_t once = 2;

    for (uint32_t i = 0; i < FORMS; i++)
        values[i] = i;
    assert_int_equal(fi_tsend(ep, values, 4, NULL, duo->to, 9, contexts), 0);
    assert_int_equal(fi_tsendv(ep, iov, NULL, 2, duo->to, 9, contexts + 1), 0);
    memset(iov, 0xff, sizeof(iov));
    lost.iov_base = &once;
    UNTIL_TAKEN(duo, fi_tsendmsg(ep, &msg, FI_INJECT | FI_COMPLETION));
    memset(&lost, 0xff, sizeof(lost));
    once = 3;
    UNTIL_TAKEN(duo, fi_tinject(ep, &once, 4, duo->to, 9));
    UNTIL_TAKEN(duo, fi_tsenddata(ep, values + 4, 4, NULL, 44, duo->to, 9, contexts + 4));
    once = 5;
    UNTIL_TAKEN(duo, fi_tinjectdata(ep, &once, 4, 55, duo->to, 9));
    once = 0xffffffff;
    UNTIL_TAKEN(duo, fi_tsend(ep, values + 6, 4, NULL, duo->to, 9, contexts + 6));
}

static void every_form_arrives_in_order(void **state)
{
    for (size_t i = 0; i < SPECS; i++) {
        uint32_t values[FORMS], in[FORMS];
        int contexts[FORMS], sent = 0;
        struct fi_cq_tagged_entry entry;
        struct duo duo;

        duo_open(&duo, specs[i]);
        post_forms(&duo, values, contexts);
        for (uint32_t j = 0; j < FORMS; j++) {
            assert_int_equal(fi_trecv(duo.b.ep, in + j, 4, NULL, FI_ADDR_UNSPEC, 9, 0, in + j), 0);
            assert_int_equal(rdm_next(&duo.b, BOTH(&duo), &entry, NULL, NULL), 0);
            assert_ptr_equal(entry.op_context, in + j);
            assert_int_equal(in[j], j);
            if (j == 4 || j == 5)
                assert_int_equal(entry.data, j * 11);
        }
        while (sent < FORMS - 2) { /* all but the injected ones */
            assert_int_equal(rdm_next(&duo.a, BOTH(&duo), &entry, NULL, NULL), 0);
            assert_in_range((int *)entry.op_context - contexts, 0, FORMS - 1);
            sent++;
        }
        rdm_drive(BOTH(&duo), 5);
        assert_int_equal(fi_cq_read(duo.a.cq, &entry, 1), -FI_EAGAIN);
        duo_close(&duo);
    }
}

static void messages_and_memory_arrive(void **state)
{
    for (size_t i = 0; i < SPECS; i++) {
        uint64_t memory[2] = {0, 5}, one = 1, old = 0, key, base;
        struct fi_cq_tagged_entry entry;
        struct fid_mr *mr;
        struct duo duo;
        char in[2] = "";

        duo_open(&duo, specs[i]);
        assert_int_equal(fi_mr_reg(duo.net.domain, memory, sizeof(memory),
                                   FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 7, 0, &mr, NULL),
                         0);
        key = fi_mr_key(mr);
        base =
            duo.net.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)memory : 0;
        assert_int_equal(fi_write(duo.a.ep, "written", 8, NULL, duo.to, base, key, memory), 0);
        UNTIL_TAKEN(&duo,
                    fi_inject_atomic(duo.a.ep, &one, 1, duo.to, base + 8, key, FI_UINT64, FI_SUM));
        one = 99;
        UNTIL_TAKEN(&duo, fi_fetch_atomic(duo.a.ep, NULL, 1, NULL, &old, NULL, duo.to, base + 8,
                                          key, FI_UINT64, FI_ATOMIC_READ, &old));
        UNTIL_TAKEN(&duo, fi_inject(duo.a.ep, "x", 1, duo.to));
        assert_int_equal(fi_recv(duo.b.ep, in, 1, NULL, FI_ADDR_UNSPEC, in), 0);
        for (int left = 2; left; left--)
            assert_int_equal(rdm_next(&duo.a, BOTH(&duo), &entry, NULL, NULL), 0);
        assert_int_equal(rdm_next(&duo.b, BOTH(&duo), &entry, NULL, NULL), 0);
        assert_string_equal((char *)memory, "written");
        assert_int_equal(memory[1], 6);
        assert_int_equal(old, 6);
        assert_string_equal(in, "x");
        assert_int_equal(fi_close(&mr->fid), 0);
        duo_close(&duo);
    }
}

/* Every form of what has to be on its way when the call returns. */
static ssize_t inject_as(struct duo *duo, int form)
{
    uint64_t operand = 1;
    struct iovec iov = {&operand, sizeof(operand)};
    struct fi_rma_iov remote = {.len = sizeof(operand)};
    struct fi_ioc ioc = {&operand, 1};
    struct fi_rma_ioc target = {.count = 1};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = duo->to};
    struct fi_msg_tagged tagged = {.msg_iov = &iov, .iov_count = 1, .addr = duo->to};
    struct fi_msg_rma write = {
        .msg_iov = &iov, .iov_count = 1, .addr = duo->to, .rma_iov = &remote, .rma_iov_count = 1};
    struct fi_msg_atomic atomic = {.msg_iov = &ioc,
                                   .iov_count = 1,
                                   .addr = duo->to,
                                   .rma_iov = &target,
                                   .rma_iov_count = 1,
                                   .datatype = FI_UINT64,
                                   .op = FI_SUM};
    struct fid_ep *ep = duo->a.ep;

    switch (form) {
    case 0: return fi_inject(ep, "x", 1, duo->to);
    case 1: return fi_injectdata(ep, "x", 1, 1, duo->to);
    case 2: return fi_tinject(ep, "x", 1, duo->to, 1);
    case 3: return fi_tinjectdata(ep, "x", 1, 1, duo->to, 1);
    case 4: return fi_sendmsg(ep, &msg, FI_INJECT);
    case 5: return fi_tsendmsg(ep, &tagged, FI_INJECT | FI_COMPLETION);
    case 6: return fi_inject_write(ep, "x", 1, duo->to, 0, 0);
    case 7: return fi_inject_writedata(ep, "x", 1, 1, duo->to, 0, 0);
    case 8: return fi_writemsg(ep, &write, FI_INJECT);
    case 9: return fi_inject_atomic(ep, "x", 1, duo->to, 0, 0, FI_UINT8, FI_SUM);
    case 10: return fi_atomicmsg(ep, &atomic, FI_INJECT);
    default: return 0;
    }
}

static void what_is_injected_does_not_wait(void **state)
{
    for (size_t i = 0; i < SPECS; i++) {
        struct duo duo;
        int forms = 0;

        duo_open(&duo, specs[i]);
        while (inject_as(&duo, forms) == -FI_EAGAIN)
            forms++;
        assert_int_equal(forms, 11);
        duo_close(&duo);
    }
}

/* Its caller reads no queue, and closes at once. */
static void what_was_injected_outlives_its_endpoint(void **state)
{
    enum {
        COUNT = 20
    };

    for (size_t i = 0; i < SPECS; i++) {
        uint32_t in[COUNT];
        struct duo duo;

        duo_open(&duo, specs[i]);
        for (uint32_t j = 0; j < COUNT; j++)
            UNTIL_TAKEN(&duo, fi_tinject(duo.a.ep, &j, sizeof(j), duo.to, j));
        rdm_close(&duo.a);
        for (uint32_t j = 0; j < COUNT; j++) {
            assert_int_equal(fi_trecv(duo.b.ep, in + j, 4, NULL, FI_ADDR_UNSPEC, j, 0, NULL), 0);
            assert_int_equal(rdm_next(&duo.b, RDM_ENDS(&duo.b), NULL, NULL, NULL), 0);
            assert_int_equal(in[j], j);
        }
        rdm_close(&duo.b);
        rdm_net_close(&duo.net);
    }
}

/* The loop of an injecting caller ends, in the error. */
static void what_cannot_be_injected_says_so(void **state)
{
    for (size_t i = 0; i < PLAIN; i++) {
        long long limit = rdm_now_ms() + RDM_LIMIT_MS;
        struct fi_cq_tagged_entry entry;
        fi_addr_t none;
        struct duo duo;
        ssize_t rc;

        duo_open(&duo, specs[i]);
        none = nobody(&duo.a);
        while ((rc = fi_tinject(duo.a.ep, "x", 1, none, 1)) == -FI_EAGAIN)
            assert_true(rdm_now_ms() < limit);
        assert_int_equal(rc, -FI_ECONNREFUSED);
        rdm_drive(BOTH(&duo), 5);
        assert_int_equal(fi_cq_read(duo.a.cq, &entry, 1), -FI_EAGAIN);
        duo_close(&duo);
    }
}

static void failure_ends_each_once(void **state)
{
    for (size_t i = 0; i < PLAIN; i++) {
        struct fi_cq_tagged_entry entry;
        struct fi_cq_err_entry error;
        int contexts[5] = {0};
        fi_addr_t none;
        struct duo duo;

        duo_open(&duo, specs[i]);
        none = nobody(&duo.a);
        for (int j = 0; j < 5; j++)
            assert_int_equal(fi_tsend(duo.a.ep, "x", 1, NULL, none, 1, contexts + j), 0);
        for (int j = 0; j < 5; j++) {
            const char *text;

            error.err_data_size = 0;
            assert_int_equal(rdm_next(&duo.a, BOTH(&duo), NULL, NULL, &error), FI_ECONNREFUSED);
            ++*(int *)error.op_context;
            assert_true(error.flags & FI_TAGGED);
            assert_int_equal(error.prov_errno, FI_ECONNREFUSED);
            text = fi_cq_strerror(duo.a.cq, error.prov_errno, error.err_data, NULL, 0);
            assert_non_null(strstr(text, "127.0.0.1:"));
        }
        for (int j = 0; j < 5; j++)
            assert_int_equal(contexts[j], 1);
        rdm_drive(BOTH(&duo), 5);
        assert_int_equal(fi_cq_read(duo.a.cq, &entry, 1), -FI_EAGAIN);
        duo_close(&duo);
    }
}

static void as_many_wait_as_may_be_sent(void **state)
{
    struct fi_cq_tagged_entry entry;
    size_t count = 0, size;
    struct duo duo;
    ssize_t rc;

    duo_open(&duo, specs[0]);
    size = duo.net.info->tx_attr->size;
    /* No thread drives b, so the connection does not come up. */
    while (!(rc = fi_tsend(duo.a.ep, &count, 0, NULL, duo.to, 1, NULL)) && count <= size)
        count++;
    assert_int_equal(rc, -FI_EAGAIN);
    assert_int_equal(count, size);
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(fi_trecv(duo.b.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
        assert_int_equal(rdm_next(&duo.b, BOTH(&duo), &entry, NULL, NULL), 0);
    }
    duo_close(&duo);
}

static void what_waits_can_be_cancelled_and_closed(void **state)
{
    struct fi_cq_err_entry error = {.err_data_size = 0};
    int first, second;
    struct duo duo;
    char in[2] = "";

    duo_open(&duo, specs[0]);
    assert_int_equal(fi_tsend(duo.a.ep, "1", 1, NULL, duo.to, 1, &first), 0);
    assert_int_equal(fi_tsend(duo.a.ep, "2", 1, NULL, duo.to, 1, &second), 0);
    assert_int_equal(fi_cancel(&duo.a.ep->fid, &first), 0);
    assert_int_equal(rdm_next(&duo.a, BOTH(&duo), NULL, NULL, &error), FI_ECANCELED);
    assert_ptr_equal(error.op_context, &first);
    assert_int_equal(fi_trecv(duo.b.ep, in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    assert_int_equal(rdm_next(&duo.b, BOTH(&duo), NULL, NULL, NULL), 0);
    assert_string_equal(in, "2");
    assert_int_equal(rdm_next(&duo.a, BOTH(&duo), NULL, NULL, NULL), 0);
    /* The close discards the operation that is left. */
    assert_int_equal(fi_tsend(duo.a.ep, "3", 1, NULL, nobody(&duo.a), 1, &first), 0);
    duo_close(&duo);
}

static void removed_address_ends_what_waits_for_it(void **state)
{
    struct fi_cq_err_entry error = {.err_data_size = 0};
    struct duo duo;
    int sent;

    duo_open(&duo, specs[0]);
    assert_int_equal(fi_tsend(duo.a.ep, "1", 1, NULL, duo.to, 1, &sent), 0);
    assert_int_equal(fi_av_remove(duo.a.av, &duo.to, 1, 0), 0);
    assert_int_equal(rdm_next(&duo.a, BOTH(&duo), NULL, NULL, &error), FI_ECANCELED);
    assert_ptr_equal(error.op_context, &sent);
    duo_close(&duo);
}

static void what_no_connection_takes_is_refused_at_once(void **state)
{
    static char large[1 << 20];
    struct iovec many[64] = {{large, 1}};
    struct duo duo;

    for (size_t i = 0; i < PLAIN; i++) {
        duo_open(&duo, specs[i]);
        assert_true(duo.net.info->tx_attr->inject_size < sizeof(large));
        assert_int_equal(fi_tinject(duo.a.ep, large, sizeof(large), duo.to, 1), -FI_EMSGSIZE);
        assert_int_equal(fi_tsendv(duo.a.ep, many, NULL, 64, duo.to, 1, NULL), -FI_EINVAL);
        assert_int_equal(fi_inject_atomic(duo.a.ep, large, 1, duo.to, 0, 0, FI_FLOAT, FI_BXOR),
                         -FI_EOPNOTSUPP);
        duo_close(&duo);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_arrives_in_order),
        cmocka_unit_test(messages_and_memory_arrive),
        cmocka_unit_test(what_is_injected_does_not_wait),
        cmocka_unit_test(what_was_injected_outlives_its_endpoint),
        cmocka_unit_test(what_cannot_be_injected_says_so),
        cmocka_unit_test(failure_ends_each_once),
        cmocka_unit_test(as_many_wait_as_may_be_sent),
        cmocka_unit_test(what_waits_can_be_cancelled_and_closed),
        cmocka_unit_test(removed_address_ends_what_waits_for_it),
        cmocka_unit_test(what_no_connection_takes_is_refused_at_once),
    };

    return cmocka_run_group_tests_name("rxm_wait", tests, NULL, NULL);
}
