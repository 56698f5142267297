/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/queue/cntr.h"
#include "core/queue/cq.h"
#include "core/queue/poll_set.h"
#include "tests/core/objects.h"

static struct bare bare;
static char contexts[4];

static struct fid_poll *open_set(void)
{
    struct fid_poll *set;

    bare_init(&bare, true);
    assert_int_equal(poll_set_open(&bare.domain, NULL, &set), 0);
    return set;
}

static struct cq *open_cq(struct domain *domain, void *context)
{
    struct fid_cq *cq;

    assert_int_equal(cq_open(domain, NULL, &cq, context), 0);
    return object_of(cq, struct cq, fid);
}

static int poll_once(struct fid_poll *set, void **out, int count)
{
    return set->ops->poll(set, out, count);
}

static void put(struct cq *cq)
{
    cq_write(cq, NULL, FI_SEND, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
}

static void queues_are_told_until_they_are_empty(void **state)
{
    const struct fi_cq_err_entry error = {.err = FI_EIO};
    struct fid_poll *set = open_set();
    struct cq *a = open_cq(&bare.domain, &contexts[0]), *b = open_cq(&bare.domain, &contexts[1]);
    struct fi_cq_err_entry entry = {0};
    void *out[2];

    assert_int_equal(set->ops->poll_add(set, &a->fid.fid, 0), 0);
    assert_int_equal(set->ops->poll_add(set, &b->fid.fid, 0), 0);
    assert_int_equal(poll_once(set, out, 2), 0);
    put(b);
    assert_int_equal(poll_once(set, out, 2), 1);
    assert_ptr_equal(out[0], &contexts[1]);
    cq_write_error(a, &error);
    assert_int_equal(poll_once(set, out, 2), 2);
    assert_int_equal(fi_cq_readerr(&a->fid, &entry, 0), 1);
    assert_int_equal(fi_cq_read(&b->fid, &entry, 1), 1);
    assert_int_equal(poll_once(set, out, 2), 0);
    assert_int_equal(fi_close(&a->fid.fid), -FI_EBUSY);
    assert_int_equal(fi_close(&set->fid), -FI_EBUSY);
    assert_int_equal(set->ops->poll_del(set, &a->fid.fid, 0), 0);
    assert_int_equal(set->ops->poll_del(set, &b->fid.fid, 0), 0);
    assert_int_equal(fi_close(&a->fid.fid), 0);
    assert_int_equal(fi_close(&b->fid.fid), 0);
    assert_int_equal(fi_close(&set->fid), 0);
    assert_false(children_any(&bare.domain.children));
}

static void with_little_room_all_have_their_turn(void **state)
{
    struct fid_poll *set = open_set();
    struct cq *cq[3];
    void *out[1];
    int told[3] = {0};

    for (int i = 0; i < 3; i++) {
        cq[i] = open_cq(&bare.domain, &contexts[i]);
        put(cq[i]);
        assert_int_equal(set->ops->poll_add(set, &cq[i]->fid.fid, 0), 0);
    }
    assert_int_equal(poll_once(set, NULL, 0), 0);
    for (int round = 0; round < 6; round++) {
        assert_int_equal(poll_once(set, out, 1), 1);
        told[(char *)out[0] - contexts]++;
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(told[i], 2);
        assert_int_equal(set->ops->poll_del(set, &cq[i]->fid.fid, 0), 0);
        assert_int_equal(fi_close(&cq[i]->fid.fid), 0);
    }
    assert_int_equal(fi_close(&set->fid), 0);
}

static void counters_are_told_of_each_change_that_is_not_the_applications(void **state)
{
    struct fid_poll *set = open_set();
    struct fid_cntr *fid;
    struct cntr *cntr;
    void *out[2];

    assert_int_equal(cntr_open(&bare.domain, NULL, &fid, &contexts[2]), 0);
    cntr = object_of(fid, struct cntr, fid);
    assert_int_equal(set->ops->poll_add(set, &fid->fid, 0), 0);
    assert_int_equal(poll_once(set, out, 2), 0);
    cntr_add_one(cntr);
    assert_int_equal(poll_once(set, out, 0), 0); /* not told yet */
    assert_int_equal(poll_once(set, out, 2), 1);
    assert_ptr_equal(out[0], &contexts[2]);
    assert_int_equal(poll_once(set, out, 2), 0);
    cntr_add_error(cntr);
    assert_int_equal(poll_once(set, out, 2), 1);
    fi_cntr_add(fid, 3);
    fi_cntr_adderr(fid, 4);
    assert_int_equal(poll_once(set, out, 2), 0);
    fi_cntr_set(fid, 0);
    fi_cntr_seterr(fid, 0);
    assert_int_equal(poll_once(set, out, 2), 0);
    cntr_add_one(cntr);
    fi_cntr_set(fid, 0); /* what it counted before is news all the same */
    assert_int_equal(poll_once(set, out, 2), 1);
    assert_int_equal(set->ops->poll_del(set, &fid->fid, 0), 0);
    assert_int_equal(fi_close(&fid->fid), 0);
    assert_int_equal(fi_close(&set->fid), 0);
}

static void what_cannot_be_in_the_set_is_refused(void **state)
{
    struct fid_poll *set = open_set(), *other;
    struct fi_poll_attr attr = {.flags = 1};
    struct bare elsewhere;
    struct cq *cq = open_cq(&bare.domain, NULL), *foreign;
    struct fid_peer_cq owner;
    struct fi_peer_cq_context context = {.size = sizeof(context), .cq = &owner};
    struct fi_cq_attr peer_attr = {.flags = FI_PEER};
    struct fid_cq *peer;
    void *out[1];

    bare_init(&elsewhere, true);
    foreign = open_cq(&elsewhere.domain, NULL);
    assert_int_equal(cq_open(&bare.domain, &peer_attr, &peer, &context), 0);
    assert_int_equal(poll_set_open(&bare.domain, &attr, &other), -FI_EINVAL);
    assert_int_equal(set->ops->poll_add(set, &foreign->fid.fid, 0), -FI_EINVAL);
    assert_int_equal(set->ops->poll_add(set, &peer->fid, 0), -FI_EINVAL);
    assert_int_equal(set->ops->poll_add(set, &bare.domain.fid.fid, 0), -FI_EINVAL);
    assert_int_equal(set->ops->poll_add(set, NULL, 0), -FI_EINVAL);
    assert_int_equal(set->ops->poll_add(set, &cq->fid.fid, FI_PEEK), -FI_EINVAL);
    assert_int_equal(set->ops->poll_add(set, &cq->fid.fid, 0), 0);
    assert_int_equal(set->ops->poll_add(set, &cq->fid.fid, 0), -FI_EINVAL);
    assert_int_equal(set->ops->poll_del(set, &cq->fid.fid, FI_PEEK), -FI_EINVAL);
    assert_int_equal(set->ops->poll_del(set, &foreign->fid.fid, 0), -FI_EINVAL);
    assert_int_equal(poll_once(set, out, -1), -FI_EINVAL);
    assert_int_equal(poll_once(set, NULL, 1), -FI_EINVAL);
    assert_int_equal(set->ops->poll_del(set, &cq->fid.fid, 0), 0);
    assert_int_equal(set->ops->poll_del(set, &cq->fid.fid, 0), -FI_EINVAL);
    assert_int_equal(fi_close(&peer->fid), 0);
    assert_int_equal(fi_close(&foreign->fid.fid), 0);
    assert_int_equal(fi_close(&cq->fid.fid), 0);
    assert_int_equal(fi_close(&set->fid), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queues_are_told_until_they_are_empty),
        cmocka_unit_test(with_little_room_all_have_their_turn),
        cmocka_unit_test(counters_are_told_of_each_change_that_is_not_the_applications),
        cmocka_unit_test(what_cannot_be_in_the_set_is_refused),
    };

    return cmocka_run_group_tests_name("poll_set", tests, NULL, NULL);
}
