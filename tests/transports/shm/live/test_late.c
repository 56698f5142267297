/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters and shared transmit contexts bound to endpoints that are enabled already, as Sandia
 * OpenSHMEM does. */
#include "ends.h"

enum {
    KEY = 1
};

static struct fid_cntr *counter(struct end *end)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
    struct fid_cntr *cntr;

    assert_int_equal(fi_cntr_open(end->domain, &attr, &cntr, NULL), 0);
    return cntr;
}

static void counters_count_from_then_on(void **state)
{
    const struct end_want want = {.caps = FI_MSG | FI_TAGGED | FI_RMA};
    struct fi_cq_tagged_entry entry;
    struct fid_cntr *written, *received;
    struct end a, b;
    fi_addr_t peer;
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_NONE};
    struct fid_eq *eq;
    struct fid_mr *mr;
    char memory[8] = {0}, in;

    end_open_as(&a, "shm", &want);
    end_open_as(&b, "shm", &want);
    peer = end_introduce(&a, &b);
    assert_int_equal(
        fi_mr_reg(b.domain, memory, sizeof(memory), FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL), 0);
    written = counter(&a);
    received = counter(&b);
    end_post(&a, &b, fi_write(a.ep, "before", 7, NULL, peer, 0, KEY, NULL));
    assert_int_equal(end_wait(&a, &b, &entry), 0);
    assert_int_equal(fi_ep_bind(a.ep, &written->fid, FI_WRITE), 0);
    assert_int_equal(fi_ep_bind(b.ep, &received->fid, FI_RECV), 0);
    assert_int_equal(fi_ep_bind(a.ep, &written->fid, FI_WRITE), -FI_EINVAL);
    assert_int_equal(fi_eq_open(a.fabric, &eq_attr, &eq, NULL), 0);
    assert_int_equal(fi_ep_bind(a.ep, &eq->fid, 0), 0);
    assert_int_equal(fi_ep_bind(a.ep, &a.cq->fid, FI_TRANSMIT), -FI_EOPBADSTATE);
    assert_int_equal(fi_ep_bind(a.ep, &a.av->fid, 0), -FI_EOPBADSTATE);
    end_post(&a, &b, fi_write(a.ep, "after", 6, NULL, peer, 0, KEY, NULL));
    assert_int_equal(end_wait(&a, &b, &entry), 0);
    assert_int_equal(fi_cntr_read(written), 1);
    assert_int_equal(fi_trecv(b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, &in), 0);
    end_post(&a, &b, fi_tinject(a.ep, "x", 1, peer, 1));
    assert_int_equal(end_wait(&b, &a, &entry), 0);
    assert_int_equal(fi_cntr_read(received), 1);
    assert_int_equal(fi_close(&written->fid), -FI_EBUSY);
    fi_close(&mr->fid);
    fi_close(&a.ep->fid);
    fi_close(&b.ep->fid);
    a.ep = b.ep = NULL;
    assert_int_equal(fi_close(&written->fid), 0);
    assert_int_equal(fi_close(&received->fid), 0);
    assert_int_equal(fi_close(&eq->fid), 0);
    end_close(&a);
    end_close(&b);
}

/* Also to one that did not ask for it: there is nothing in it that an endpoint lacks. */
static void a_transmit_context_is_bound_late(void **state)
{
    struct fid_stx *stx;
    struct end end;

    end_open(&end, "shm");
    assert_int_equal(fi_stx_context(end.domain, end.info->tx_attr, &stx, NULL), 0);
    assert_int_equal(fi_ep_bind(end.ep, &stx->fid, 0), 0);
    assert_int_equal(fi_close(&stx->fid), 0);
    end_close(&end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_count_from_then_on),
        cmocka_unit_test(a_transmit_context_is_bound_late),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
