/* SPDX-License-Identifier: BSD-2-Clause */
/* Operations as they are posted: receives go to the matching engine, the others to SES. */
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/iov.h"
#include "core/base/log.h"
#include "core/op/atomic.h"
#include "core/op/remote.h"
#include "transports/uet/uet.h"

enum {
    KEPT = 4, /* times */
};

static struct uet_ep *ep_of(struct ep *base)
{
    return object_of(base, struct uet_ep, base);
}

/* ---- Requests of SES ---- */

static bool is_compare(const struct uet_op *op)
{
    return (op->ses.opcode == SES_FETCHING_ATOMIC || op->ses.opcode == SES_TSEND_FETCH_ATOMIC) &&
           ses_is_compare(op->ses.atomic.opcode);
}

/* The element, of these segments. */
static const uint8_t *element_at(const struct iovec *iov, size_t count, size_t at)
{
    for (size_t i = 0; i < count; at -= iov[i++].iov_len)
        if (at < iov[i].iov_len)
            return (const uint8_t *)iov[i].iov_base + at;
    return NULL;
}

/* One element of a compare operation. */
static void set_element(struct uet_op *op)
{
    struct ses_op *ses = &op->ses;
    size_t at = op->at * op->unit, len = op->unit;

    ses->length = UET_COMPARE_LENGTH;
    ses->key = op->rma[0].key;
    ses->offset = op->rma[0].addr + at;
    for (size_t i = 0, before = 0; i + 1 < UET_RMA && before + op->rma[i].len <= at; i++) {
        before += op->rma[i].len;
        ses->key = op->rma[i + 1].key;
        ses->offset = op->rma[i + 1].addr + at - before;
    }
    ses->atomic.swap = uet_widen(element_at(op->iov, op->iov_count, at), len);
    ses->atomic.compare = uet_widen(element_at(op->compare, op->compare_count, at), len);
    ses->result_count = (uint8_t)ses_slice(op->result, op->result_count, at, len, ses->result);
}

/* One place of remote memory, and what of the local memory belongs there. */
static void set_place(struct uet_op *op)
{
    struct ses_op *ses = &op->ses;
    const struct fi_rma_iov *rma = &op->rma[op->at];

    ses->target.mode =
        op->repeats && rma->key & SES_KEY_IDEMPOTENT ? (uint8_t)PDS_MODE_RUDI : op->mode;
    ses->key = rma->key;
    ses->offset = rma->addr;
    ses->length = (uint32_t)rma->len;
    ses->iov_count = (uint8_t)ses_slice(op->iov, op->iov_count, op->done, rma->len, ses->iov);
    ses->result_count =
        (uint8_t)ses_slice(op->result, op->result_count, op->done, rma->len, ses->result);
    op->done += rma->len;
}

static void set_request(struct uet_op *op)
{
    bool last = op->at + 1 == op->parts;

    if (is_compare(op))
        set_element(op);
    else
        set_place(op);
    op->ses.flags = last ? op->flags : op->flags & (uint8_t)~SES_HD;
    if (!(op->kind & (FI_RMA | FI_ATOMIC)))
        op->ses.key = op->tag;
    op->at++;
}

/* The application hears no more of its success. */
static bool is_owed(const struct uet_op *op)
{
    return op->early || !op->wanted;
}

/* The next request of an operation. False: SES has no room. */
static bool start_request(struct uet_ep *ep, struct uet_op *op)
{
    struct uet_op before = {.at = op->at, .done = op->done};

    set_request(op);
    if (ses_start_op(ep->ses, &op->ses))
        return true;
    op->at = before.at;
    op->done = before.done;
    return false;
}

/* The peer has a region whose key looks like one of RUDI, and is none: nothing was carried out, and
 * the request goes by a PDC. */
static bool start_anew(struct uet_ep *ep, struct uet_op *op)
{
    op->repeats = false;
    op->at--;
    op->done -= op->rma[op->at].len;
    return start_request(ep, op);
}

/* ---- Reports ---- */

static void report(struct uet_ep *ep, const struct uet_op *op, enum ses_code code)
{
    struct fi_cq_err_entry error = {
        .op_context = op->context,
        .flags = op->kind,
        .err = uet_error(code),
        .prov_errno = (int)code,
        .src_addr = FI_ADDR_NOTAVAIL,
    };

    if (ep->closing)
        return;
    if (code == RC_OK)
        complete(&ep->base.binding, binding_kind_of(op->kind), op->wanted, op->context, op->kind, 0,
                 NULL, 0, 0, FI_ADDR_NOTAVAIL);
    else
        complete_error(&ep->base.binding, binding_kind_of(op->kind), &error);
}

static void report_early(struct uet_ep *ep, struct uet_op *op)
{
    ep->owed += op->wanted;
    op->early = true;
    report(ep, op, RC_OK);
}

/* Its packet leaves with others, and is acknowledged with others. While packets wait for company,
 * so do the reports: a caller that waits for one makes the packets leave. */
static void end_early(struct uet_ep *ep, struct uet_op *op)
{
    op->ses.patient = true;
    if (ep->gathers || !list_empty(&ep->gathered))
        list_attach(&op->link, &ep->gathered);
    else
        report_early(ep, op);
}

void uet_report_gathered(struct uet_ep *ep)
{
    while (!list_empty(&ep->gathered)) {
        struct uet_op *op = list_item(ep->gathered.next, struct uet_op, link);

        list_detach(&op->link);
        report_early(ep, op);
    }
}

/* ---- In turn ---- */

/* False: SES has no room. */
static bool start_first(struct uet_ep *ep, struct uet_op *op)
{
    if (!start_request(ep, op))
        return false;
    ep->started++;
    if (op->parts > 1)
        ep->stepwise = op;
    if (op->brief && pds_is_established(ses_pds(ep->ses), op->ses.source.pdc))
        end_early(ep, op);
    return true;
}

/* In their order; a fence waits for all before it, and the others for one of several requests. */
static void start_waiting(struct uet_ep *ep)
{
    while (!list_empty(&ep->waiting) && !ep->stepwise) {
        struct uet_op *op = list_item(ep->waiting.next, struct uet_op, link);

        if (op->fence && ep->started)
            return;
        list_detach(&op->link);
        if (start_first(ep, op))
            continue;
        list_attach_before(&op->link, ep->waiting.next);
        return;
    }
}

/* One that was posted, in its turn. */
static void start_now(struct uet_ep *ep, struct uet_op *op)
{
    if (list_empty(&ep->waiting) && !ep->stepwise && !(op->fence && ep->started) &&
        start_first(ep, op))
        return;
    list_attach(&op->link, &ep->waiting);
    start_waiting(ep);
}

/* ---- Company ---- */

/* A message or a write that one packet holds. */
static bool is_short(const struct uet_ep *ep, const struct uet_op *op)
{
    enum ses_opcode opcode = op->ses.opcode;

    return (opcode == SES_SEND || opcode == SES_TAGGED_SEND || opcode == SES_WRITE) &&
           op->parts == 1 && op->rma[0].len <= ep->mtu;
}

/* The second of several short ones between two polls, and those behind it, wait for the poll where
 * that has followed at once the last few times. The caller waits for a completion, which comes when
 * the packet has left, or later; so there is a poll. */
static bool waits_for_company(struct uet_ep *ep, const struct uet_op *op)
{
    bool first = !ep->company.posts++;

    return !first && ep->company.kept >= KEPT && op->wanted && is_short(ep, op) &&
           !progress_has_thread(ep->base.binding.progress);
}

/* ---- The end ---- */

void uet_ended(void *arg, struct ses_op *ses_op, enum ses_code code)
{
    struct uet_ep *ep = arg;
    struct uet_op *op = object_of(ses_op, struct uet_op, ses);

    /* A repetition of a packet may wait, and names the memory of the operation. */
    uet_nic_forget(ep->nic);
    if (code == RC_OP_VIOLATION && ses_op->target.mode == PDS_MODE_RUDI && !ep->closing &&
        start_anew(ep, op))
        return;
    if (code == RC_OK && op->at < op->parts && !ep->closing) {
        if (start_request(ep, op))
            return;
        code = RC_UNCOR_TRANSIENT;
    }
    if (ep->stepwise == op)
        ep->stepwise = NULL;
    list_detach(&op->link); /* of the gathered ones */
    ep->started--;
    ep->used--;
    ep->owed -= is_owed(op);
    if (!op->early)
        report(ep, op, code);
    else if (code != RC_OK && !ep->closing)
        LOG_WARN("uet", FI_LOG_EP_DATA,
                 "a message that was reported as complete may not have reached its peer: %s",
                 fi_strerror(uet_error(code)));
    pool_put(&ep->ops, op);
    start_waiting(ep);
}

void uet_drop_waiting(struct uet_ep *ep)
{
    while (!list_empty(&ep->waiting)) {
        struct uet_op *op = list_item(ep->waiting.next, struct uet_op, link);

        list_detach(&op->link);
        ep->used--;
        ep->owed -= is_owed(op);
        pool_put(&ep->ops, op);
    }
}

/* ---- Checks ---- */

static ssize_t check_rma(const struct op *op, size_t len)
{
    size_t remote = 0;

    if (!op->rma_count || op->rma_count > UET_RMA)
        return -FI_EINVAL;
    for (size_t i = 0; i < op->rma_count; i++)
        remote += op->rma[i].len;
    return remote == len ? 0 : -FI_EINVAL;
}

/* Of a receive as the target: the whole of it is one request, which takes one receive. */
static bool is_tagged_atomic(const struct op *op)
{
    return op->group == OP_GROUP_ATOMIC && op->flags & FI_TAGGED;
}

static int check_tagged(const struct uet_ep *ep, const struct op *op, size_t elements)
{
    if ((ep->base.caps & (FI_TAGGED | FI_ATOMIC)) != (FI_TAGGED | FI_ATOMIC) ||
        !(ep->self.caps & UET_HPC))
        return -FI_EOPNOTSUPP;
    if (op->rma_count != 1)
        return -FI_EINVAL;
    return op->function == FI_COMPARE_ATOMIC && elements > 1 ? -FI_EMSGSIZE : 0;
}

static ssize_t check_atomic(const struct uet_ep *ep, const struct op *op, size_t *len)
{
    struct op plain = *op;
    size_t elements, most;
    int rc;

    plain.flags &= ~FI_TAGGED;
    rc = atomic_check_op(&plain, ep->mtu < REMOTE_OPERAND ? ep->mtu : REMOTE_OPERAND, UET_IOV,
                         &elements);
    if (!rc && is_tagged_atomic(op))
        rc = check_tagged(ep, op, elements);
    if (rc)
        return rc;
    rc = uet_atomic_count(ep->mtu, op->function, op->datatype, op->op, &most);
    if (rc)
        return rc;
    *len = elements * atomic_size(op->datatype);
    return elements > most ? -FI_EMSGSIZE : 0;
}

static ssize_t check(const struct uet_ep *ep, const struct op *op)
{
    size_t len = op->len;
    ssize_t rc = 0;

    if (op->group == OP_GROUP_ATOMIC)
        rc = check_atomic(ep, op, &len);
    else if (op->count > UET_IOV || !iov_total(op->iov, op->count, &len))
        rc = -FI_EINVAL;
    else if (op->group == OP_GROUP_RMA)
        rc = check_rma(op, len);
    if (rc)
        return rc;
    if (op->flags & FI_INJECT && len > UET_INJECT)
        return -FI_EMSGSIZE;
    return len > UET_MESSAGE_MAX ? -FI_EMSGSIZE : 0;
}

/* ---- An operation as it is kept ---- */

/* Segments, or a copy of what they hold. */
static void set_segments(struct uet_op *own, const struct iovec *iov, size_t count, size_t len,
                         bool inject)
{
    own->iov_count = (uint8_t)count;
    for (size_t i = 0; i < count; i++)
        own->iov[i] = iov[i];
    if (!inject)
        return;
    for (size_t i = 0, at = 0; i < count; at += iov[i++].iov_len)
        if (iov[i].iov_len)
            memcpy(own->inject + at, iov[i].iov_base, iov[i].iov_len);
    own->iov[0] = (struct iovec){own->inject, len};
    own->iov_count = 1;
}

static void set_rma(struct uet_op *own, const struct op *op)
{
    own->ses.opcode = op->kind & FI_READ ? SES_READ : SES_WRITE;
    own->parts = (uint32_t)op->rma_count;
    for (size_t i = 0; i < op->rma_count; i++)
        own->rma[i] = op->rma[i];
    set_segments(own, op->iov, op->count, op->len, op->flags & FI_INJECT);
}

/* A short message is copied, and its end does not depend on when the peer looks: one that has what
 * it waited for may not look for long. An application may ask for more (FI_TRANSMIT_COMPLETE).
 * Whether there is a peer at all is waited for. */
static void set_message(struct uet_op *own, const struct op *op, bool packets)
{
    const uint64_t more = FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_COMMIT_COMPLETE;

    own->ses.opcode = op->group == OP_GROUP_TSEND ? SES_TAGGED_SEND : SES_SEND;
    own->tag = op->group == OP_GROUP_TSEND ? op->tag : 0;
    own->parts = 1;
    own->rma[0] = (struct fi_rma_iov){.len = op->len};
    own->brief = op->len <= UET_INJECT && !(op->flags & more) && !packets;
    set_segments(own, op->iov, op->count, op->len, op->flags & FI_INJECT || own->brief);
}

/* Elements as bytes; how many segments. */
static uint8_t to_bytes(const struct fi_ioc *ioc, size_t count, size_t unit, struct iovec *iov)
{
    for (size_t i = 0; i < count; i++)
        iov[i] = (struct iovec){ioc[i].addr, ioc[i].count * unit};
    return (uint8_t)count;
}

static void set_atomic(struct uet_op *own, const struct op *op)
{
    size_t unit = atomic_size(op->datatype), elements = 0;
    struct iovec iov[UET_IOV];

    own->ses.opcode = op->function ? SES_FETCHING_ATOMIC : SES_ATOMIC;
    if (is_tagged_atomic(op)) /* offset and key of its target are those of a receive, and its tag */
        own->ses.opcode = op->function ? SES_TSEND_FETCH_ATOMIC : SES_TSEND_ATOMIC;
    uet_atomic_opcode(op->op, &own->ses.atomic.opcode);
    uet_atomic_type(op->datatype, &own->ses.atomic.datatype);
    own->unit = unit;
    for (size_t i = 0; i < op->rma_count; i++) {
        own->rma[i] = (struct fi_rma_iov){.addr = op->rma_ioc[i].addr,
                                          .len = op->rma_ioc[i].count * unit,
                                          .key = op->rma_ioc[i].key};
        elements += op->rma_ioc[i].count;
    }
    own->parts = (uint32_t)(op->function == FI_COMPARE_ATOMIC ? elements : op->rma_count);
    to_bytes(op->ioc, op->count, unit, iov);
    set_segments(own, iov, op->count, elements * unit, op->flags & FI_INJECT && op->count);
    own->compare_count = to_bytes(op->compare.ioc, op->compare.count, unit, own->compare);
    own->result_count = to_bytes(op->result.ioc, op->result.count, unit, own->result);
}

/* Of all operations to a peer. */
static int find_target(struct uet_ep *ep, fi_addr_t peer, struct ses_target *target, uint8_t *caps)
{
    const void *raw = av_addr(ep->base.av, peer);
    struct uet_address address;
    uint32_t job;

    if (!raw || !uet_address_get(raw, &address))
        return -FI_EINVAL;
    if (!uet_job_to(ep, peer, &job)) {
        LOG_WARN("uet", FI_LOG_EP_DATA,
                 "the peer's authorization key was inserted after the endpoint was enabled");
        return -FI_EINVAL;
    }
    *target = (struct ses_target){
        .to = address.host,
        .job = job,
        .absolute = address.flags & UET_ABSOLUTE,
        .pid = address.pid,
        .index = address.index,
        .generation = address.generation,
    };
    target->brief = ep->self.caps & address.caps & UET_OPTIMIZED;
    /* One that does not say what it can is as this one. */
    *caps = address.flags & UET_HAS_CAPS ? ep->self.caps & address.caps : ep->self.caps;
    return 0;
}

int uet_target(struct uet_ep *ep, const struct op *op, struct ses_target *target, uint8_t *caps)
{
    int rc = 0;

    /* The last one again, mostly; but the AV may have changed. */
    if (op->peer != ep->aimed.fi_addr || op->peer == FI_ADDR_UNSPEC ||
        atomic_load_explicit(&ep->stale, memory_order_relaxed)) {
        uet_leave_gone(ep);
        ep->aimed.fi_addr = FI_ADDR_UNSPEC;
        rc = find_target(ep, op->peer, &ep->aimed.target, &ep->aimed.caps);
        if (rc)
            return rc;
        ep->aimed.fi_addr = op->peer;
    }
    *target = ep->aimed.target;
    target->mode = uet_is_ordered(ep->orders, op) ? PDS_MODE_ROD : PDS_MODE_RUD;
    *caps = ep->aimed.caps;
    return 0;
}

/* Is it something that both ends have? */
static ssize_t check_profile(const struct uet_ep *ep, const struct uet_op *own, uint8_t caps)
{
    bool fetches = own->ses.opcode == SES_READ || own->ses.opcode == SES_FETCHING_ATOMIC;

    if (ses_is_tagged_atomic(own->ses.opcode) && !(caps & UET_HPC))
        return -FI_EOPNOTSUPP;
    if (uet_is_full(caps))
        return 0;
    if (fetches)
        return -FI_EOPNOTSUPP;
    if (own->kind & (FI_RMA | FI_ATOMIC))
        return 0;
    return own->rma[0].len > ep->mtu ? -FI_EMSGSIZE : 0;
}

/* May the accesses come more than once, if their keys say so, too? Nothing must be told of them at
 * the target, and no order kept. */
static bool may_repeat(const struct uet_op *own, uint8_t caps)
{
    return caps & UET_HPC && own->kind & FI_RMA && own->mode == PDS_MODE_RUD &&
           !(own->flags & SES_HD);
}

/* Long messages are read by their receiver, or wait for its receive, which may not come for long.
 */
static void set_rendezvous(const struct uet_ep *ep, struct uet_op *own, uint8_t caps)
{
    const struct uet_settings *settings = &ep->domain->fabric->settings;
    bool tagged = own->ses.opcode == SES_TAGGED_SEND;
    size_t len = own->rma[0].len;

    if ((!tagged && own->ses.opcode != SES_SEND) || len <= settings->rendezvous[tagged] ||
        !(caps & (UET_HPC | UET_AI_FULL)))
        return;
    own->brief = false;
    if (!(caps & UET_HPC)) {
        own->ses.opcode = tagged ? SES_DEFERRABLE_TSEND : SES_DEFERRABLE_SEND;
        return;
    }
    own->ses.opcode = tagged ? SES_RENDEZVOUS_TSEND : SES_RENDEZVOUS_SEND;
    own->ses.eager = (uint32_t)(len < settings->eager ? len : settings->eager);
}

static void set_op(struct uet_ep *ep, struct uet_op *own, const struct op *op)
{
    own->context = op->context;
    own->kind = op->kind;
    own->wanted = !op_is_inject(op) && completion_wanted(ep->base.binding.tx_selective, op->flags);
    own->fence = op->flags & FI_FENCE;
    own->flags = (uint8_t)((op->flags & OP_DELIVERED ? SES_DC : 0) |
                           (op->flags & FI_REMOTE_CQ_DATA ? SES_HD : 0));
    own->ses.data = op->data;
    switch (op->group) {
    case OP_GROUP_RMA: set_rma(own, op); break;
    case OP_GROUP_ATOMIC: set_atomic(own, op); break;
    default: set_message(own, op, ep->packets); break;
    }
}

bool uet_is_inherited(struct uet_ep *ep)
{
    if (!progress_forked(ep->base.binding.progress))
        return false;
    if (!ep->fork_told)
        LOG_WARN("uet", FI_LOG_EP_DATA,
                 "the endpoint belongs to the process that this one was forked from, and sends "
                 "nothing here");
    ep->fork_told = true;
    return true;
}

static ssize_t start(struct uet_ep *ep, const struct op *op)
{
    struct uet_op *own;
    uint8_t caps;
    ssize_t rc;

    if (uet_is_inherited(ep))
        return -FI_EOPBADSTATE;
    if (ep->used >= ep->base.tx_size)
        return -FI_EAGAIN;
    own = pool_get(&ep->ops);
    if (!own)
        return -FI_ENOMEM;
    memset(own, 0, offsetof(struct uet_op, iov));
    rc = uet_target(ep, op, &own->ses.target, &caps);
    if (!rc) {
        set_op(ep, own, op);
        own->mode = own->ses.target.mode;
        own->repeats = may_repeat(own, caps);
        rc = check_profile(ep, own, caps);
        set_rendezvous(ep, own, caps);
    }
    if (rc) {
        pool_put(&ep->ops, own);
        return rc;
    }
    list_init(&own->link);
    ep->used++;
    ep->owed += is_owed(own);
    ep->gathers = op->flags & FI_MORE || waits_for_company(ep, own);
    start_now(ep, own);
    uet_ep_push(ep, &own->ses);
    ep->gathers = false;
    return 0;
}

/* ---- The call ---- */

int uet_atomic_valid(struct ep *base, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                     size_t *count)
{
    const struct uet_ep *ep = ep_of(base);

    if (!(ep->base.caps & FI_ATOMIC) || (function && !uet_is_full(ep->self.caps)))
        return -FI_EOPNOTSUPP;
    return uet_atomic_count(ep->mtu, function, datatype, op, count);
}

static ssize_t post_receive(struct uet_ep *ep, const struct op *op)
{
    ssize_t rc = -FI_EOPBADSTATE;

    if (!ep->base.enabled)
        return rc;
    if (op->group == OP_GROUP_TRECV && op->ignore && !uet_is_full(ep->self.caps))
        return -FI_EOPNOTSUPP; /* AI Base compares whole tags */
    progress_lock(ep->base.binding.progress);
    if (ep->base.match && !progress_forked(ep->base.binding.progress)) {
        rc = match_receive(ep->base.match, op);
        /* The sender of a message that was kept may wait for its delivery. */
        if (ep->ses && pds_is_urgent(ses_pds(ep->ses)))
            uet_ep_run(ep);
    }
    progress_unlock(ep->base.binding.progress);
    return rc;
}

ssize_t uet_post(struct ep *base, struct op *op)
{
    struct uet_ep *ep = ep_of(base);
    ssize_t rc;

    if (op->group & (OP_GROUP_RECV | OP_GROUP_TRECV))
        return post_receive(ep, op);
    rc = endpoint_settle(&ep->base, op);
    if (!rc && !ep->datagrams)
        rc = check(ep, op);
    if (!rc && !ep->base.enabled)
        rc = -FI_EOPBADSTATE;
    if (rc)
        return rc;
    progress_lock(ep->base.binding.progress);
    rc = ep->datagrams ? uet_datagram_post(ep, op) : start(ep, op);
    if (rc == -FI_EAGAIN) /* a poster that does nothing but try again makes progress too */
        progress_poll(ep->base.binding.progress);
    progress_unlock(ep->base.binding.progress);
    return rc;
}
