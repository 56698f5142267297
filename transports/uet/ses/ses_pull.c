/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rendezvous: a message brings its first bytes, and where its receiver can read the others. It is
 * read when it has its receive, by requests of SES's own; its sender has its answer after that. So
 * a message without a receive takes no memory here.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/iov.h"
#include "transports/uet/ses/ses_impl.h"

#define PULL_KEY (SES_KEY_PROVIDER | SES_KEY_PULL)

uint64_t ses_pull_key(const struct ses_op *op)
{
    return PULL_KEY | op->number;
}

struct ses_op *ses_pulled_op(struct ses *ses, const struct pds_arrival *arrival,
                             const struct ses_request *request)
{
    struct ses_op *op = request->key >> 16 == PULL_KEY >> 16
                            ? ids_find(&ses->messages, request->key & 0xffff)
                            : NULL;

    if (!op || (void *)op == ses || !ses_is_rendezvous(op->opcode) ||
        op->target.job != request->job || !addr_equal(&op->target.to.sa, &arrival->from.sa))
        return NULL;
    return op;
}

/* Bytes of the message that its receive has room for. */
static size_t wanted(const struct ses_inbound *inbound)
{
    size_t room = iov_bytes(inbound->iov, inbound->iov_count);

    return room < inbound->length ? room : inbound->length;
}

/* The next read. False: there is no number for it. */
static bool read_next(struct ses *ses, struct ses_inbound *inbound, struct ses_op *op, size_t left)
{
    uint32_t at = inbound->carried + inbound->pull.done;

    *op = (struct ses_op){
        .target = {.to = inbound->from,
                   .job = inbound->job,
                   .pid = inbound->pull.pid,
                   .index = inbound->pull.index,
                   .generation = inbound->pull.generation,
                   .mode = PDS_MODE_RUD},
        .opcode = SES_READ,
        .offset = inbound->pull.offset + at,
        .key = inbound->pull.key,
        .pulls = inbound,
    };
    op->iov_count = (uint8_t)ses_slice(inbound->iov, inbound->iov_count, at, left, op->iov);
    op->length = (uint32_t)iov_bytes(op->iov, op->iov_count);
    return ses_start_op(ses, op);
}

void ses_pull(struct ses *ses, struct ses_inbound *inbound)
{
    size_t want = wanted(inbound), at = (size_t)inbound->carried + inbound->pull.done;
    struct ses_op *op;

    if (want <= at) {
        ses_finish(ses, inbound, RC_OK);
        return;
    }
    op = malloc(sizeof(*op));
    if (op && read_next(ses, inbound, op, want - at))
        return;
    free(op);
    list_attach(&inbound->link, &ses->pulls);
}

void ses_pulled(struct ses *ses, struct ses_op *op)
{
    struct ses_inbound *inbound = op->pulls;
    enum ses_code code = op->code;

    inbound->pull.done += op->length;
    free(op);
    if (code == RC_OK)
        ses_pull(ses, inbound);
    else
        ses_finish(ses, inbound, code);
}

void ses_pull_waiting(struct ses *ses)
{
    struct ses_inbound *inbound;

    if (list_empty(&ses->pulls))
        return;
    inbound = list_item(ses->pulls.next, struct ses_inbound, link);
    list_detach(&inbound->link);
    ses_pull(ses, inbound);
}

void ses_pull_finish(struct ses *ses)
{
    while (!list_empty(&ses->pulls))
        ses_finish(ses, list_item(ses->pulls.next, struct ses_inbound, link), RC_UNDELIVERABLE);
}
