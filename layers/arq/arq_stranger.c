/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets of no session. An OPEN is answered by a token, and when that comes back, by a session:
 * until then nothing is remembered but, to be able to answer, the last ARQ_STRANGERS addresses. No
 * answer is larger than what it answers, and there are at most ARQ_ANSWERS a second.
 */
#include <string.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "layers/arq/arq_ep.h"

#define SECOND UINT64_C(1000000000)
#define NOTES_NS (10 * SECOND) /* between two lines of the log */

/* ---- Where it came from ---- */

/* As the lower says; else as the OPEN says, whose token goes there and nowhere else. */
static bool source_of(struct arq_ep *ep, const struct arq_buffer *buffer,
                      const struct arq_header *header, struct arq_addr *addr)
{
    _Alignas(union addr) uint8_t raw[ARQ_ADDR_MAX];
    size_t len = sizeof(raw);

    if (buffer->from.len) {
        *addr = buffer->from;
        return true;
    }
    if (buffer->src != FI_ADDR_NOTAVAIL && buffer->src != FI_ADDR_UNSPEC)
        return !fi_av_lookup(ep->lower.av, buffer->src, raw, &len) && len <= sizeof(raw) &&
               arq_addr_take(ep->lower.format, raw, len, addr);
    if (!header || header->type != ARQ_OPEN)
        return false;
    len = arq_open_name(buffer->packet, buffer->len, raw, sizeof(raw));
    return len && arq_addr_take(ep->lower.format, raw, len, addr);
}

/* The lower's number of a source, or FI_ADDR_NOTAVAIL. */
static fi_addr_t number_of(struct arq_ep *ep, const struct arq_addr *addr)
{
    struct arq_stranger *stranger;
    const struct arq_peer *peer = arq_peers_find(&ep->peers, addr);

    if (peer && peer->lower != FI_ADDR_NOTAVAIL)
        return peer->lower;
    for (size_t i = 0; i < ARQ_STRANGERS; i++) {
        if (arq_addr_equal(&ep->strangers[i].addr, addr))
            return ep->strangers[i].lower;
    }
    stranger = &ep->strangers[ep->next_stranger++ % ARQ_STRANGERS];
    if (stranger->addr.len)
        arq_lower_forget(ep, stranger->lower);
    stranger->addr = *addr;
    stranger->lower = arq_lower_insert(ep, addr);
    if (stranger->lower == FI_ADDR_NOTAVAIL)
        stranger->addr.len = 0;
    return stranger->lower;
}

static void answer(struct arq_ep *ep, const struct arq_addr *to, const uint8_t *bytes, size_t len,
                   uint64_t now)
{
    fi_addr_t lower;

    if (now - ep->answers_from >= SECOND) {
        ep->answers_from = now;
        ep->answers = 0;
    }
    if (ep->answers++ >= ARQ_ANSWERS)
        return;
    lower = number_of(ep, to);
    if (lower != FI_ADDR_NOTAVAIL)
        arq_send_bare(ep, lower, bytes, len);
}

/* ---- The log ---- */

static bool may_tell(struct arq_ep *ep, uint64_t now)
{
    if (now < ep->notes.next)
        return false;
    ep->notes.next = now + NOTES_NS;
    return true;
}

void arq_note_fault(struct arq_ep *ep, const struct arq_buffer *buffer, enum arq_fault fault,
                    uint64_t now)
{
    struct arq_addr from = {.len = 0};
    char text[ADDR_TEXT_MAX];
    uint64_t count = ++ep->notes.counts[fault];

    if (!may_tell(ep, now))
        return;
    source_of(ep, buffer, NULL, &from);
    LOG_WARN("arq", FI_LOG_EP_DATA, "%s sends %s (%zu bytes; the %llu. of the kind)",
             arq_addr_text(ep->lower.format, &from, text), arq_fault_text(fault), buffer->len,
             (unsigned long long)count);
}

static void note_refusal(struct arq_ep *ep, const struct arq_addr *from, int err, uint64_t now)
{
    char text[ADDR_TEXT_MAX];

    if (may_tell(ep, now))
        LOG_WARN("arq", FI_LOG_EP_CTRL, "a session for %s cannot be opened: %s",
                 arq_addr_text(ep->lower.format, from, text),
                 err == -FI_EAGAIN ? "there are max_sessions" : fi_strerror(-err));
}

/* ---- Answers ---- */

static void send_token(struct arq_ep *ep, const struct arq_addr *to, const struct arq_header *asked,
                       uint64_t now)
{
    struct arq_header header = {.type = ARQ_TOKEN_, .to = asked->from, .from = asked->from};
    uint8_t bytes[ARQ_HEADER + ARQ_TOKEN];

    arq_header_put(&header, bytes);
    gate_make(&ep->gate, now, to->bytes, to->len, asked->from, bytes + ARQ_HEADER);
    answer(ep, to, bytes, sizeof(bytes), now);
}

static void send_reset(struct arq_ep *ep, const struct arq_addr *to, const struct arq_header *asked,
                       uint64_t now)
{
    struct arq_header header = {.type = ARQ_RESET, .to = asked->from, .from = asked->to};
    uint8_t bytes[ARQ_HEADER];

    if (asked->type == ARQ_RESET || asked->type == ARQ_CLOSE || asked->type == ARQ_TOKEN_ ||
        !asked->to || asked->brief) /* which does not say whom to tell */
        return;
    arq_header_put(&header, bytes);
    answer(ep, to, bytes, sizeof(bytes), now);
}

/* Its token, made at `asked`, has shown that it receives there. */
static void open_for(struct arq_ep *ep, const struct arq_addr *from,
                     const struct arq_header *header, uint64_t asked, uint64_t now)
{
    struct arq_peer *peer = arq_peer_get(ep, from);
    int rc = -FI_ENOMEM;

    if (!peer) {
        note_refusal(ep, from, rc, now);
        return;
    }
    if (header->flags & ARQ_MARKS)
        arq_lower_watch_marks(ep);
    if (peer->link && session_asked(&peer->link->session, now, header)) {
        arq_ready(peer->link);
        return;
    }
    if (peer->link && peer->link->session.state == SESSION_OPEN && asked < peer->link->opened)
        return; /* it is of a session before this one, repeated */
    if (peer->link) {
        /* The peer has begun anew, and what it had of us is gone. */
        struct arq_link *old = peer->link;

        peer->link = NULL;
        old->peer = NULL;
        session_end(&old->session, FI_ECONNRESET, false);
        arq_ready(old);
    }
    rc = peer->link ? 0 : arq_link_open(ep, peer, header->from, now);
    if (rc) {
        note_refusal(ep, from, rc, now);
        arq_peer_drop_unused(ep, peer);
        return;
    }
    session_asked(&peer->link->session, now, header);
    arq_ready(peer->link);
}

void arq_take_stranger(struct arq_ep *ep, const struct arq_buffer *buffer,
                       const struct arq_header *header, uint64_t now)
{
    const uint8_t *token = buffer->packet + ARQ_HEADER;
    struct arq_addr from;

    if (!source_of(ep, buffer, header, &from))
        return;
    if (header->type != ARQ_OPEN)
        send_reset(ep, &from, header, now);
    else if (!gate_check(&ep->gate, now, from.bytes, from.len, header->from, token))
        send_token(ep, &from, header, now);
    else
        open_for(ep, &from, header, gate_time(token), now);
}
