/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/uet/ses/ses.h"

#include <stdlib.h>
#include <string.h>

#include "transports/uet/ses/ses_impl.h"

enum {
    INDEX_BITS = 12,
    ID_BITS = 16,
    TOKEN_BITS = 32,
};

/* ---- Pieces of memory ---- */

void ses_scatter(const struct iovec *iov, size_t count, size_t at, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < count && len; i++) {
        size_t room;

        if (at >= iov[i].iov_len) {
            at -= iov[i].iov_len;
            continue;
        }
        room = iov[i].iov_len - at < len ? iov[i].iov_len - at : len;
        memcpy((uint8_t *)iov[i].iov_base + at, bytes, room);
        bytes += room;
        len -= room;
        at = 0;
    }
}

size_t ses_slice(const struct iovec *iov, size_t count, size_t at, size_t len,
                 struct iovec out[PDS_IOV])
{
    size_t used = 0;

    for (size_t i = 0; i < count && len && used < PDS_IOV; i++) {
        size_t room;

        if (at >= iov[i].iov_len) {
            at -= iov[i].iov_len;
            continue;
        }
        room = iov[i].iov_len - at < len ? iov[i].iov_len - at : len;
        out[used++] = (struct iovec){(uint8_t *)iov[i].iov_base + at, room};
        len -= room;
        at = 0;
    }
    return used;
}

/* ---- Below ---- */

static void transmit(void *arg, const union addr *to, const struct iovec *iov, size_t count,
                     bool control)
{
    const struct ses *ses = arg;

    ses->ops->transmit(ses->arg, to, iov, count, control);
}

static void closed(void *arg, struct pds_ref pdc, bool failed)
{
    ses_out_closed(arg, pdc);
    ses_in_closed(arg, pdc, failed);
}

static const struct pds_ops pds_ops = {
    .transmit = transmit,
    .fill = ses_fill,
    .done = ses_done,
    .failed = ses_failed,
    .request = ses_request,
    .closed = closed,
};

/* ---- Life ---- */

static void start_lists(struct list *lists, size_t count)
{
    for (struct list *list = lists; list != lists + count; list++)
        list_init(list);
}

struct ses *ses_create(const struct ses_settings *settings, const struct ses_ops *ops, void *arg,
                       uint64_t seed)
{
    struct ses *ses = calloc(1, sizeof(*ses));

    if (!ses)
        return NULL;
    ses->settings = *settings;
    ses->ops = ops;
    ses->arg = arg;
    list_init(&ses->busy);
    list_init(&ses->pulls);
    list_init(&ses->replies);
    start_lists(ses->inbound, SES_BUCKETS);
    start_lists(ses->reads, SES_READ_BUCKETS);
    pool_init(&ses->inbounds, sizeof(struct ses_inbound), 0);
    ids_init(&ses->messages, INDEX_BITS, ID_BITS);
    ids_init(&ses->tokens, INDEX_BITS, TOKEN_BITS);
    ses->scratch = malloc(settings->mtu);
    ses->pds = pds_create(&settings->pds, &pds_ops, ses, seed);
    /* Message id 0 means that there is none. */
    if (!ses->pds || !ses->scratch || ids_add(&ses->messages, ses) == IDS_NONE ||
        ids_add(&ses->tokens, ses) == IDS_NONE) {
        ses_destroy(ses);
        return NULL;
    }
    return ses;
}

void ses_destroy(struct ses *ses)
{
    if (!ses)
        return;
    pds_destroy(ses->pds);
    while (!list_empty(&ses->busy))
        ses_op_fail(ses, list_item(ses->busy.next, struct ses_op, link), RC_UNDELIVERABLE);
    ses_pull_finish(ses);
    for (size_t i = 0; ses->tracked && i < SES_BUCKETS; i++)
        list_for_each_safe (pos, after, &ses->inbound[i])
            free(list_item(pos, struct ses_inbound, link)->saved);
    pool_finish(&ses->inbounds);
    ids_finish(&ses->messages);
    ids_finish(&ses->tokens);
    free(ses->scratch);
    free(ses);
}

void ses_receive(struct ses *ses, uint64_t now, const union addr *from, const uint8_t *bytes,
                 size_t len, bool marked)
{
    pds_receive(ses->pds, now, from, bytes, len, marked);
}

void ses_run(struct ses *ses, uint64_t now)
{
    pds_run(ses->pds, now);
}

void ses_push(struct ses *ses, uint64_t now, const struct ses_op *op)
{
    pds_push(ses->pds, now, op->source.pdc);
}

uint64_t ses_deadline(const struct ses *ses)
{
    return pds_deadline(ses->pds);
}

void ses_set_generation(struct ses *ses, uint8_t generation, bool disabled)
{
    ses->settings.self.generation = generation;
    ses->disabled = disabled;
}

size_t ses_busy(const struct ses *ses)
{
    return ses->busy_count;
}

const struct ses_counters *ses_counters(const struct ses *ses)
{
    return &ses->counters;
}

struct pds *ses_pds(struct ses *ses)
{
    return ses->pds;
}
