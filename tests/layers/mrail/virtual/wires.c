/* SPDX-License-Identifier: BSD-2-Clause */
#include "wires.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fi_errno.h>

#include "core/base/node_turn.h"
#include "core/hook/hook.h"
#include "core/op/op_copy.h"
#include "core/part/part.h"
#include "transports/loop/device/loop_device.h"

enum {
    LOOK_NS = 200, /* that the clock goes on by with each look, so that loops end */
    REQUEST = 64,  /* bytes of what asks for a read */
};

/* An operation on its way: `back`, the bytes of a read are. */
struct travelling {
    struct list link;
    uint64_t at;
    size_t len;
    struct hook_ep *ep; /* that posted it; NULL: it has been closed (wires_late) */
    bool back;
    struct op op;
    _Alignas(16) uint8_t memory[];
};

struct wire {
    enum wire_state state;
    uint64_t delay, free;
    double rate;
    struct list ops;
};

uint64_t wires_now;
unsigned wires_side;
bool wires_late;
unsigned wires_lost, wires_failed, wires_kept, wires_dropped, wires_reads;

static struct wire wires[WIRES_RAILS][2];
static unsigned rails;

int clock_gettime(clockid_t clock, struct timespec *now)
{
    wires_now += LOOK_NS;
    now->tv_sec = (time_t)(wires_now / 1000000000);
    now->tv_nsec = (long)(wires_now % 1000000000);
    return 0;
}

/* As the only process of the node: a seed is the same run each time. */
unsigned node_turn(void)
{
    return 0;
}

/* ---- What is on them ---- */

static struct wire *wire_of(const struct hook_ep *ep, bool from_peer)
{
    uintptr_t rail = (uintptr_t)ep->domain->fabric->own - 1;
    uintptr_t side = (uintptr_t)ep->domain->own - 1;

    return &wires[rail][from_peer ? !side : side];
}

static void put_on(struct wire *wire, struct travelling *one)
{
    if (wire->free < wires_now)
        wire->free = wires_now;
    wire->free += (uint64_t)((double)one->len / wire->rate);
    one->at = wire->free + wire->delay;
    list_attach(&one->link, &wire->ops);
}

static void drop(struct travelling *one)
{
    list_detach(&one->link);
    free(one);
}

/* The lower of mrail says how an operation ended, or the wire in its place. */
static void tell(const struct travelling *one, int err)
{
    struct fid_peer_cq *sink = one->ep ? ((struct hook_cq *)one->ep->own)->owner : NULL;
    const struct fi_cq_err_entry entry = {
        .op_context = one->op.context, .flags = one->op.kind, .err = err};

    if (!sink || op_is_inject(&one->op))
        return;
    if (err)
        sink->owner_ops->writeerr(sink, &entry);
    else
        sink->owner_ops->write(sink, one->op.context, one->op.kind, 0, NULL, 0, 0,
                               FI_ADDR_NOTAVAIL);
}

/* A wire that loses sends has taken them; a read has no end. */
static void lose(struct travelling *one)
{
    wires_lost++;
    if (!(one->op.kind & FI_READ))
        tell(one, 0);
    drop(one);
}

static void fail(struct travelling *one)
{
    wires_failed++;
    tell(one, FI_ECONNRESET);
    drop(one);
}

/* Bytes for an end that is not there any more. */
static void land_late(struct travelling *one)
{
    memcpy(one->op.iov->iov_base, (const void *)(uintptr_t)one->op.rma->addr, one->op.len);
    drop(one);
}

/* False: loop takes no more for now. */
static bool arrive(struct travelling *one)
{
    ssize_t rc;

    if (one->op.kind & FI_READ && !one->back) {
        one->back = true;
        one->len = one->op.len;
        list_detach(&one->link);
        put_on(wire_of(one->ep, true), one);
        return true;
    }
    if (!one->ep) {
        land_late(one);
        return true;
    }
    rc = hook_post(&one->ep->base, &one->op);
    if (rc == -FI_EAGAIN)
        return false;
    if (rc)
        tell(one, (int)-rc);
    drop(one);
    return true;
}

static void move(struct wire *wire)
{
    list_for_each_safe (pos, after, &wire->ops) {
        struct travelling *one = list_item(pos, struct travelling, link);

        if (wire->state == WIRE_KEEPS || (one->at > wires_now && wire->state != WIRE_FAILS))
            return;
        if (wire->state == WIRE_LOSES)
            lose(one);
        else if (wire->state == WIRE_FAILS)
            fail(one);
        else if (!arrive(one))
            return;
    }
}

static struct wire *wire_at(unsigned index)
{
    return &wires[index / 2][index % 2];
}

void wires_move(void)
{
    for (unsigned i = 0; i < 2 * rails; i++)
        move(wire_at(i));
}

uint64_t wires_next(void)
{
    uint64_t next = UINT64_MAX;

    for (unsigned i = 0; i < 2 * rails; i++) {
        struct wire *wire = wire_at(i);

        if (wire->state != WIRE_KEEPS && !list_empty(&wire->ops)) {
            uint64_t at = list_item(wire->ops.next, struct travelling, link)->at;

            next = at < next ? at : next;
        }
    }
    return next;
}

void wires_set_rate(unsigned rail, unsigned from, uint64_t delay_ns, double bytes_per_ns)
{
    wires[rail][from].delay = delay_ns;
    wires[rail][from].rate = bytes_per_ns;
}

void wires_set_state(unsigned rail, unsigned from, enum wire_state state)
{
    struct wire *wire = &wires[rail][from];

    if (state == WIRE_KEEPS && wire->state == WIRE_ALIVE)
        wires_kept++;
    wire->state = state;
}

void wires_reset(void)
{
    for (unsigned i = 0; i < 2 * WIRES_RAILS; i++) {
        struct wire *wire = wire_at(i);

        while (wire->ops.next && !list_empty(&wire->ops)) /* those without an end */
            drop(list_item(wire->ops.next, struct travelling, link));
        *wire = (struct wire){.rate = 1};
        list_init(&wire->ops);
    }
    rails = 0;
    wires_lost = wires_failed = wires_kept = wires_dropped = wires_reads = 0;
}

/* ---- The hook ---- */

static ssize_t wire_post(struct ep *base, struct op *op)
{
    struct hook_ep *ep = hook_ep_of(base);
    bool bytes = op_is_inject(op) || op->flags & FI_INJECT;
    struct travelling *one;

    if (op->group != OP_GROUP_SEND && op->group != OP_GROUP_RMA)
        return hook_post(base, op);
    one = calloc(1, sizeof(*one) + op_copy_size(op, bytes));
    if (!one)
        return -FI_ENOMEM;
    op_copy(op, bytes, &one->op, one->memory);
    one->ep = ep;
    wires_reads += op->kind & FI_READ ? 1 : 0;
    one->len = op->kind & FI_READ ? REQUEST : op->len;
    list_init(&one->link);
    put_on(wire_of(ep, false), one);
    return 0;
}

static int wire_bind(struct fid *fid, struct fid *to, uint64_t flags)
{
    if (to->fclass == FI_CLASS_CQ)
        *hook_own(fid) = object_of(to, struct hook_cq, fid.fid);
    return hook_bind(fid, to, flags);
}

/* Nothing that it posted lands from now on. */
static int wire_close(struct fid *fid)
{
    for (unsigned i = 0; i < 2 * rails; i++) {
        list_for_each_safe (pos, after, &wire_at(i)->ops) {
            struct travelling *one = list_item(pos, struct travelling, link);

            if (!one->ep || &one->ep->fid.fid != fid)
                continue;
            wires_dropped++;
            if (wires_late && one->back)
                one->ep = NULL;
            else
                drop(one);
        }
    }
    return hook_ep_fid_ops.close(fid);
}

static int wire_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                       void *context)
{
    int rc = hook_fabric_ops.domain(fabric, info, domain, context);

    if (!rc)
        *hook_own(&(*domain)->fid) = (void *)(uintptr_t)(wires_side + 1);
    return rc;
}

static int close_lower(struct lower *lower)
{
    int rc = fi_close(&lower->fabric->fid);

    if (!rc)
        free(lower);
    return rc;
}

static int open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context)
{
    static struct fi_ops ep_fid = {.size = sizeof(ep_fid), .bind = wire_bind, .close = wire_close};
    static struct fi_ops_fabric fabric_ops = {.size = sizeof(fabric_ops), .domain = wire_domain};
    const struct hook_ops ops = {.ep_fid = &ep_fid, .fabric = &fabric_ops, .post = wire_post};
    struct lower *lower = calloc(1, sizeof(*lower));
    struct open_args over = *args, under = *args;
    struct lower **lowers = calloc(1, sizeof(struct lower *));
    int rc;

    *lower = (struct lower){.peer = true, .close = close_lower};
    *lowers = lower;
    under.params = NULL;
    over.lowers = lowers;
    over.lower_count = 1;
    rc = loop_open_fabric(&under, &lower->fabric, NULL);
    if (!rc)
        rc = hook_open_fabric(&over, fabric, context, &ops);
    free(lowers);
    if (!rc)
        *hook_own(&(*fabric)->fid) = (void *)(uintptr_t)++rails;
    return rc;
}

const struct part loop_part = {
    .name = "loop",
    .prov_name = "loop",
    .summary = "loop, behind wires of a test",
    .kind = PART_TRANSPORT,
    .peer = loop_device_traits,
    .hidden = true,
    .provides_ep = EP_SET(FI_EP_RDM),
    .params = (const struct param_def[]){{.key = "shape",
                                          .type = PARAM_CHOICE,
                                          .selects = true,
                                          .choices = loop_shapes,
                                          .default_text = "full",
                                          .help = "As loop's."},
                                         {.key = NULL}},
    .offer = loop_offer,
    .atomics = ATOMICS_CPU,
    .open_fabric = open_fabric,
};
