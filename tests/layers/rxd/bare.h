/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An endpoint of rxd and a peer as rooms of it see them, over a lower of the test's own, which
 * reads and knows options: nothing is run, and nothing is sent. The caller sets what else is to be
 * other than 0.
 */
#ifndef WEFT_TESTS_LAYERS_RXD_BARE_H
#define WEFT_TESTS_LAYERS_RXD_BARE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/enosys.h"
#include "layers/rxd/rxd.h"

struct bare_lower {
    ssize_t (*take_read)(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags);
    int (*set_option)(fid_t fid, int level, int name, const void *value, size_t len);
};

static struct rxd_ep ep;
static struct rxd_peer peer;

static inline void bare_set_lower(const struct bare_lower *to)
{
    static struct fi_ops_rma rma = {.size = sizeof(rma)};
    static struct fi_ops fid_ops = {.size = sizeof(fid_ops), .ops_open = enosys_ops_open};
    static struct fi_ops_ep ep_ops = {.size = sizeof(ep_ops)};
    static struct fid_ep lower = {
        .fid = {.fclass = FI_CLASS_EP, .ops = &fid_ops}, .ops = &ep_ops, .rma = &rma};

    rma.readmsg = to->take_read;
    ep_ops.setopt = to->set_option;
    ep.base.lower = &lower;
    ep.base.target = op_target_of(&lower);
}

static inline void bare_init_lists(void)
{
    list_init(&ep.reading);
    list_init(&ep.owing);
    list_init(&ep.base.stalled);
    list_init(&ep.base.spare);
    list_init(&ep.base.attention);
    list_init(&ep.base.moving);
    list_init(&ep.base.broken);
    list_init(&peer.base.attended);
    list_init(&peer.base.broken);
    list_init(&peer.base.inbounds);
    list_init(&peer.base.accesses);
    list_init(&peer.base.ops);
    list_init(&peer.base.out);
    list_init(&peer.base.flying);
    list_init(&peer.ordered);
}

/* With so many packets, of so many bytes beside the struct. */
static inline void bare_open(const struct message_wire *wire, const struct bare_lower *lower,
                             size_t room, unsigned packets)
{
    static struct fi_domain_attr attr = {.threading = FI_THREAD_DOMAIN,
                                         .control_progress = FI_PROGRESS_CONTROL_UNIFIED,
                                         .data_progress = FI_PROGRESS_MANUAL,
                                         .mr_mode = FI_MR_VIRT_ADDR};
    static struct fi_info info = {.domain_attr = &attr};

    bare_set_lower(lower);
    bare_init_lists();
    ep.base.wire = wire;
    ep.base.lower_info = &info;
    ep.base.own.top = true;
    ep.base.running = true; /* nothing is run here */
    ep.reads = true;
    ep.room = room;
    peer.base.ep = &ep.base;
    assert_int_equal(progress_create(&attr, "test", NULL, &ep.base.progress), 0);
    ids_init(&ep.base.ids, 8, 32);
    mr_pool_init(&ep.base.packets, "rxd", NULL, sizeof(struct rxd_packet) + room, packets, packets);
    pool_init(&ep.base.ops, sizeof(struct rxd_op), 8);
}

static inline int bare_close(void **state)
{
    progress_release(ep.base.progress);
    mr_pool_finish(&ep.base.packets);
    pool_finish(&ep.base.ops);
    ids_finish(&ep.base.ids);
    return 0;
}

#endif
