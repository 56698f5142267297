/* SPDX-License-Identifier: BSD-2-Clause */
/* Accesses of peers to memory that is registered here. */
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/iov.h"
#include "core/base/log.h"
#include "core/op/atomic.h"
#include "core/op/remote.h"
#include "transports/uet/uet.h"

int uet_error(enum ses_code code)
{
    switch (code) {
    case RC_OK: return 0;
    case RC_DISABLED:
    case RC_DISABLED_GEN:
    case RC_NO_MATCH: return FI_ENORX;
    case RC_TOO_LONG: return FI_ETRUNC;
    case RC_PERM_VIOLATION:
    case RC_OP_VIOLATION:
    case RC_BAD_JOB_ID:
    case RC_BAD_MKEY: return FI_EACCES;
    case RC_BAD_ADDR:
    case RC_AT_INVALID:
    case RC_AT_PERM:
    case RC_AT_ATS_ERROR:
    case RC_AT_NO_TRANS:
    case RC_AT_OUT_OF_RANGE:
    case RC_AMO_UNALIGNED:
    case RC_AMO_UNSUPPORTED_SIZE: return FI_EINVAL;
    case RC_UNSUPPORTED_OP:
    case RC_UNSUPPORTED_SIZE:
    case RC_AMO_UNSUPPORTED_OP:
    case RC_AMO_UNSUPPORTED_DT: return FI_EOPNOTSUPP;
    case RC_CANCELLED: return FI_ECANCELED;
    case RC_UNDELIVERABLE: return FI_ETIMEDOUT;
    case RC_UNCOR_TRANSIENT: return FI_ENOMEM;
    default: return FI_EIO;
    }
}

static enum ses_code code_of(int rc)
{
    switch (rc) {
    case 0: return RC_OK;
    case -FI_EACCES: return RC_BAD_MKEY;
    default: return RC_BAD_ADDR;
    }
}

/* ---- Registration ---- */

/* Peers know by the key that a region is idempotent. */
static int regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                   struct fid_mr **mr)
{
    const struct domain *domain = object_of(fid, struct domain, fid.fid);
    int mode = domain->info->domain_attr->mr_mode;

    if (flags & FI_UET_MR_IDEMPOTENT && mode != FI_MR_BASIC && !(mode & FI_MR_PROV_KEY) &&
        !(attr->requested_key & FI_UET_KEY_IDEMPOTENT)) {
        LOG_WARN("uet", FI_LOG_MR,
                 "the key %#llx of an idempotent region does not say so (FI_UET_KEY_IDEMPOTENT)",
                 (unsigned long long)attr->requested_key);
        return -FI_EKEYREJECTED;
    }
    return mr_ops.regattr(fid, attr, flags, mr);
}

struct fi_ops_mr uet_mr_ops = {
    .size = sizeof(uet_mr_ops),
    .reg = mr_reg,
    .regv = mr_regv,
    .regattr = regattr,
};

/* ---- Authorization ---- */

/* Is the region for that initiator? */
static bool permits(struct uet_ep *ep, const struct ses_initiator *who, const struct mr *mr)
{
    uint8_t job[UET_JOB_SIZE];
    struct mr_requester requester = {
        .ep = &ep->fid.fid, .key = job, .key_size = sizeof(job), .source = FI_ADDR_UNSPEC};

    if (!mr || (!mr->grant.ep && !mr->grant.av && !mr->grant.key_size))
        return true;
    uet_job_put(who->job, job);
    if (mr->grant.av == ep->base.av)
        requester.source = uet_av_find(ep->base.av, who->from, who->job, who->initiator);
    return mr_permits(mr, &requester);
}

/* Of a region that was found; NULL: there are no bytes to access. */
static enum ses_code check(struct uet_ep *ep, const struct ses_initiator *who, const struct mr *mr)
{
    if (mr && who->repeats && !(mr->flags & FI_UET_MR_IDEMPOTENT))
        return RC_OP_VIOLATION; /* the key was chosen so by chance */
    return permits(ep, who, mr) ? RC_OK : RC_PERM_VIOLATION;
}

/* ---- Writes and reads ---- */

enum ses_code uet_write(void *arg, const struct ses_initiator *who, uint64_t key, uint64_t offset,
                        const uint8_t *bytes, size_t len)
{
    struct uet_ep *ep = arg;
    struct iovec iov[REMOTE_PIECES];
    size_t count = REMOTE_PIECES;
    enum ses_code code;
    struct mr *mr;
    int rc = mr_resolve(ep->domain->base.mrs, key, offset, len, FI_REMOTE_WRITE, iov, &count, &mr);

    if (rc)
        return code_of(rc);
    code = check(ep, who, mr);
    for (size_t i = 0; code == RC_OK && i < count; i++) {
        memcpy(iov[i].iov_base, bytes, iov[i].iov_len);
        bytes += iov[i].iov_len;
    }
    mr_release(mr);
    return code;
}

enum ses_code uet_read(void *arg, const struct ses_initiator *who, uint64_t key, uint64_t offset,
                       size_t len, struct ses_lent *lent)
{
    struct uet_ep *ep = arg;
    enum ses_code code;
    struct mr *mr;
    int rc;

    lent->count = PDS_IOV;
    rc = mr_resolve(ep->domain->base.mrs, key, offset, len, FI_REMOTE_READ, lent->iov, &lent->count,
                    &mr);
    if (rc)
        return code_of(rc);
    code = check(ep, who, mr);
    if (code == RC_OK && mr)
        return uet_lend(ep, mr, len, lent);
    mr_release(mr);
    return code;
}

void uet_give_back(void *arg, struct ses_lent *lent)
{
    const struct uet_ep *ep = arg;

    uet_nic_forget(ep->nic);
    uet_loan_end(lent->held);
}

/* ---- Atomics ---- */

/* The request of a packet, as an op. Values of compare operations stand in its header. */
struct atomic_request {
    struct op op;
    struct fi_rma_ioc target;
    struct fi_ioc ioc[3]; /* operands, compare, results */
    uint8_t swap[16], compare[16];
};

static enum ses_code read_kind(const struct ses_request *request, struct op *op)
{
    bool compares = ses_is_compare(request->atomic.opcode);
    bool fetches =
        request->opcode == SES_FETCHING_ATOMIC || request->opcode == SES_TSEND_FETCH_ATOMIC;

    op->group = OP_GROUP_ATOMIC;
    op->function = compares ? FI_COMPARE_ATOMIC : fetches ? FI_FETCH_ATOMIC : 0;
    op->kind = FI_ATOMIC | (op->function ? FI_READ : FI_WRITE);
    if (!uet_atomic_op(request->atomic.opcode, &op->op))
        return RC_AMO_UNSUPPORTED_OP;
    if (!uet_atomic_datatype(request->atomic.datatype, &op->datatype))
        return RC_AMO_UNSUPPORTED_DT;
    if (compares && !fetches)
        return RC_AMO_UNSUPPORTED_OP;
    return atomic_valid(op->datatype, op->op, op->function) ? RC_OK : RC_AMO_UNSUPPORTED_OP;
}

/* Elements of the request; 0: its size is of none. */
static size_t count_elements(const struct ses_request *request, const struct op *op, size_t len)
{
    size_t unit = atomic_size(op->datatype);

    if (op->function == FI_COMPARE_ATOMIC)
        return !len && unit <= 16 ? 1 : 0;
    if (request->length % unit || len != (op->op == FI_ATOMIC_READ ? 0 : request->length))
        return 0;
    return request->length / unit;
}

static void set_operands(const struct ses_request *request, struct atomic_request *atomic,
                         const uint8_t *operands, size_t elements, uint8_t *result)
{
    size_t unit = atomic_size(atomic->op.datatype);
    struct op *op = &atomic->op;

    if (op->function == FI_COMPARE_ATOMIC) {
        uet_narrow(request->atomic.swap, atomic->swap, unit);
        uet_narrow(request->atomic.compare, atomic->compare, unit);
        operands = atomic->swap;
    }
    atomic->ioc[0] = (struct fi_ioc){(void *)(uintptr_t)operands, elements};
    atomic->ioc[1] = (struct fi_ioc){atomic->compare, elements};
    atomic->ioc[2] = (struct fi_ioc){result, elements};
    atomic->target =
        (struct fi_rma_ioc){.addr = request->offset, .count = elements, .key = request->key};
    op->rma_ioc = &atomic->target;
    op->rma_count = 1;
    op->ioc = &atomic->ioc[0];
    op->count = op->op != FI_ATOMIC_READ;
    op->len = elements;
    op->compare = (struct op_operand){&atomic->ioc[1], NULL, op->function == FI_COMPARE_ATOMIC};
    op->result = (struct op_operand){&atomic->ioc[2], NULL, op->function != 0};
}

/* The op of a request; bytes: of the target, whole elements. */
static enum ses_code read_request(const struct uet_ep *ep, const struct ses_request *request,
                                  const uint8_t *operands, size_t len, uint8_t *result,
                                  struct atomic_request *atomic, size_t *bytes)
{
    enum ses_code code = read_kind(request, &atomic->op);
    size_t elements;

    if (code != RC_OK)
        return code;
    elements = count_elements(request, &atomic->op, len);
    *bytes = elements * atomic_size(atomic->op.datatype);
    if (!elements || *bytes > ep->most || *bytes > REMOTE_OPERAND)
        return RC_AMO_UNSUPPORTED_SIZE;
    set_operands(request, atomic, operands, elements, result);
    return RC_OK;
}

enum ses_code uet_atomic(void *arg, const struct ses_initiator *who,
                         const struct ses_request *request, const uint8_t *operands, size_t len,
                         uint8_t *result, size_t *result_len)
{
    struct uet_ep *ep = arg;
    struct atomic_request atomic = {.op = {.group = OP_GROUP_ATOMIC}};
    enum ses_code code = read_request(ep, request, operands, len, result, &atomic, result_len);
    struct remote remote;
    int rc;

    if (code != RC_OK)
        return code;
    rc = remote_resolve(ep->domain->base.mrs, &atomic.op, &remote);
    if (rc)
        return code_of(rc);
    if (permits(ep, who, remote.mr_count ? remote.mrs[0] : NULL))
        remote_access(&atomic.op, &remote);
    else
        code = RC_PERM_VIOLATION;
    remote_release(&remote);
    return code;
}

enum ses_code uet_tagged_atomic(void *arg, const struct ses_request *request,
                                const uint8_t *operands, size_t len, const struct iovec *iov,
                                size_t count, uint8_t *result, size_t *result_len)
{
    const struct uet_ep *ep = arg;
    struct atomic_request atomic = {.op = {.group = OP_GROUP_ATOMIC}};
    struct remote remote = {.count = 0};
    size_t room = iov_bytes(iov, count);
    enum ses_code code = RC_UNSUPPORTED_OP;

    if (ep->caps & UET_HPC && (ep->base.caps & (FI_TAGGED | FI_ATOMIC)) == (FI_TAGGED | FI_ATOMIC))
        code = read_request(ep, request, operands, len, result, &atomic, result_len);
    if (code != RC_OK || !iov)
        return code;
    if (request->offset > room || *result_len > room - request->offset)
        return RC_TOO_LONG;
    remote.count = ses_slice(iov, count, (size_t)request->offset, *result_len, remote.iov);
    if (!atomic_is_whole(atomic.op.datatype, remote.iov, remote.count))
        return RC_AMO_UNALIGNED;
    remote_access(&atomic.op, &remote);
    return RC_OK;
}

/* ---- Reports of them ---- */

void uet_accessed(void *arg, const struct ses_access *access)
{
    struct uet_ep *ep = arg;
    bool reads = access->opcode == SES_READ || access->fetching, counted = true;
    uint64_t rights =
        (reads ? FI_REMOTE_READ : FI_REMOTE_WRITE) | (access->changes ? FI_REMOTE_WRITE : 0);
    size_t count = REMOTE_PIECES;
    struct iovec iov[REMOTE_PIECES];
    struct mr *mr = NULL;

    if (ep->closing)
        return;
    if (!mr_resolve(ep->domain->base.mrs, access->key, access->offset, 0, 0, iov, &count, &mr) &&
        mr) {
        mr_accessed(&mr, 1, rights);
        counted = mr_counted(&mr, 1);
        mr_release(mr);
    }
    if (counted || access->has_data)
        complete(
            &ep->base.binding, reads ? BIND_REMOTE_READ : BIND_REMOTE_WRITE, access->has_data, NULL,
            FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, access->length, NULL, access->data, 0,
            av_source(ep->base.av, uet_source(ep, &access->from, access->job, access->initiator)));
}
