/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lives, over lowers whose addresses do not tell one endpoint from the next at the same place. Each
 * end has a life for each peer, a random number, which is the connid that it tells that peer. A
 * packet that introduces its sender also says which life of ours the sender knows, its view. Of a
 * packet of another life than the peer's present one:
 *
 *   the view is our life   the peer has begun anew, and we go on
 *   there is none          if we know no life either, this is the first. Else the sender may be
 *                          another endpoint, or the packet is late, or forged: it is held back, and
 *                          a next life of ours is proposed to that life, which alone can read it
 *   it is that next life   the proposal has come: the present lives end, and these begin
 *   it is any other        the packet is dropped, and a next life is proposed; the sender's life
 *                          has lost packets, and ends, too
 *
 * Packets that do not introduce their sender count in the peer's present life alone. Over EFA a
 * life is of an address, and all of this is the address's affair.
 */
#include <stdlib.h>
#include <sys/random.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "layers/srd/srd.h"

enum {
    HELD_MOST = 4 << 20 /* bytes that are held back for lives that are not there yet, of a peer */
};

/* Lives that may begin. */
struct srd_change {
    uint32_t next;    /* ours */
    uint32_t told;    /* the last one of the peer's that it was proposed to */
    bool drops;       /* not all packets were held back */
    size_t bytes;     /* of held */
    struct list held; /* struct message_packet.link */
};

static bool is_efa(const struct srd_peer *peer)
{
    return srd_ep_of(peer->base.ep)->efa;
}

static uint32_t new_life(void)
{
    uint32_t life;

    if (getrandom(&life, sizeof(life), 0) != sizeof(life))
        life = (uint32_t)clock_ns();
    life &= SRD_VIEW_LIFE;
    return life ? life : 1;
}

void srd_life_open(struct srd_peer *peer)
{
    peer->mine = is_efa(peer) ? srd_ep_of(peer->base.ep)->connid : new_life();
}

uint32_t srd_life_view(const struct srd_peer *peer)
{
    return is_efa(peer) || !peer->known ? 0 : peer->connid & SRD_VIEW_LIFE;
}

/* ---- Ends ---- */

/* Packets of lives that may have begun. */
static void look_again(struct srd_peer *peer)
{
    list_join(&peer->change->held, &peer->base.ep->deferred);
    peer->change->bytes = 0;
}

static void begin_next(struct srd_peer *peer)
{
    struct srd_change *change = peer->change;

    look_again(peer);
    peer->mine = change->next;
    peer->change = NULL;
    free(change);
}

void srd_life_end(struct srd_peer *peer)
{
    peer->greeted = peer->forced = peer->introduced = false;
    peer->left = peer->doubted = peer->leaving; /* the lower may have the closed one still */
    peer->leaving = false;
    if (is_efa(peer))
        return;
    if (peer->known)
        peer->forgotten[peer->forgotten_count++ % SRD_FORGOTTEN] = peer->connid;
    peer->known = false;
    if (peer->change)
        begin_next(peer);
    else
        peer->mine = new_life();
}

void srd_life_close(struct srd_peer *peer)
{
    if (!peer->change)
        return;
    message_packets_put(&peer->change->held);
    free(peer->change);
    peer->change = NULL;
}

bool srd_life_is_over(struct srd_peer *peer)
{
    if (list_empty(&peer->base.flying))
        message_peer_break(&peer->base, FI_ECONNRESET, NULL);
    else
        message_peer_stall(&peer->base);
    return true;
}

void srd_bye(struct message_ep *ep)
{
    if (srd_ep_of(ep)->efa)
        return;
    for (size_t i = 0; i < MESSAGE_BUCKETS; i++) {
        for (struct message_peer *base = ep->buckets[i]; base; base = base->next) {
            if (srd_peer_of(base)->known && !srd_peer_of(base)->leaving && !base->gone)
                srd_out_bye(srd_peer_of(base));
        }
    }
}

/* ---- Addresses that were removed ---- */

void srd_life_removed(struct message_peer *base)
{
    struct srd_peer *peer = srd_peer_of(base);

    if (is_efa(peer) || !(peer->known || peer->next_msg))
        return;
    peer->doubted = true;
    peer->forced = false;
}

/* Once; -FI_EAGAIN. */
static int ask_handshake(struct srd_peer *peer)
{
    if (!peer->forced)
        srd_out_force(&peer->base);
    srd_flush(&peer->base, false);
    return -FI_EAGAIN;
}

int srd_life_admit(struct srd_peer *peer)
{
    if (peer->leaving)
        return -FI_EAGAIN;
    if (!peer->known && peer->next_msg) { /* it may be one that expects number 0 */
        peer->leaving = true;
        message_peer_attend(&peer->base);
        return -FI_EAGAIN;
    }
    peer->introduced = false;
    return ask_handshake(peer);
}

int srd_life_await(struct srd_peer *peer)
{
    int err = peer->unanswered;

    peer->unanswered = 0;
    if (peer->introduced)
        return 0;
    if (err)
        return -err;
    peer->awaited = true;
    return ask_handshake(peer);
}

void srd_life_ask(struct srd_peer *peer)
{
    if (!peer->introduced || peer->asked_in == peer->base.ep->seconds)
        return;
    peer->asked_in = peer->base.ep->seconds;
    srd_out_force(&peer->base);
}

/* ---- Beginnings ---- */

static bool was_forgotten(const struct srd_peer *peer, uint32_t connid)
{
    unsigned count = peer->forgotten_count < SRD_FORGOTTEN ? peer->forgotten_count : SRD_FORGOTTEN;

    for (unsigned i = 0; i < count; i++) {
        if (peer->forgotten[i] == connid)
            return true;
    }
    return false;
}

static enum srd_hearing begin(struct srd_peer *peer, uint32_t connid)
{
    peer->known = true;
    peer->connid = connid;
    peer->dead = 0;
    peer->left = peer->leaving = false;
    if (__builtin_expect(peer->change && peer->change->bytes, 0))
        look_again(peer);
    return SRD_HEARD;
}

/* A life of the peer's follows that knows ours: what we have sent goes on. */
static void turn(struct srd_peer *peer)
{
    if (!peer->known)
        return;
    peer->forgotten[peer->forgotten_count++ % SRD_FORGOTTEN] = peer->connid;
    peer->greeted = peer->introduced = false;
    srd_peer_turn(peer, FI_ECONNRESET);
}

static bool asks(const struct srd_header *header)
{
    return header->type == SRD_EAGER_RTW && !header->place_count;
}

/* NULL without memory. */
static struct srd_change *change_of(struct srd_peer *peer)
{
    struct srd_change *change = peer->change;

    if (change)
        return change;
    change = calloc(1, sizeof(*change));
    if (!change)
        return NULL;
    list_init(&change->held);
    change->next = new_life();
    peer->change = change;
    return change;
}

static enum srd_hearing hold(struct srd_change *change, struct message_packet *packet)
{
    if (change->bytes + packet->len > HELD_MOST) {
        change->drops = true;
        return SRD_LATE;
    }
    change->bytes += packet->len;
    list_attach(&packet->link, &change->held);
    return SRD_HELD;
}

/* We know none of its lives, and it may think that we do. */
static enum srd_hearing tell(struct srd_peer *peer)
{
    if (!peer->known && !peer->forced && !peer->left)
        srd_out_force(&peer->base);
    return SRD_LATE;
}

/* It may have overtaken the packet that introduces its sender. */
static enum srd_hearing await(struct srd_peer *peer, struct message_packet *packet)
{
    struct srd_change *change = change_of(peer);

    tell(peer);
    return change ? hold(change, packet) : SRD_AGAIN;
}

/* Its next packet says whether the proposal came to that life. */
static enum srd_hearing propose(struct srd_peer *peer, const struct srd_header *header,
                                const struct srd_lives *lives, struct message_packet *packet)
{
    struct srd_change *change = change_of(peer);
    bool stale = lives->view & SRD_VIEW_LIFE;

    if (!change)
        return SRD_AGAIN;
    if (change->told != lives->connid || stale || asks(header)) {
        const struct srd_lives ours = {change->next,
                                       lives->connid | (stale ? SRD_RENEWS : SRD_PROPOSES)};

        change->told = lives->connid;
        srd_out_proposal(peer, &ours);
    }
    return stale || asks(header) ? SRD_LATE : hold(change, packet);
}

/* A proposal of ours has come to a life of the peer's. */
static enum srd_hearing agree(struct srd_peer *peer, uint32_t connid)
{
    struct srd_change *change = peer->change;

    if (change->drops) { /* packets of it: it begins anew */
        const struct srd_lives ours = {new_life(), connid | SRD_RENEWS};

        change->next = ours.connid;
        change->told = connid;
        change->drops = false;
        srd_out_proposal(peer, &ours);
        return SRD_LATE;
    }
    srd_peer_reset(&peer->base, FI_ECONNRESET);
    return begin(peer, connid);
}

/* A packet that introduces its sender, who is not the peer's present life. */
static enum srd_hearing hear_other(struct srd_peer *peer, const struct srd_header *header,
                                   const struct srd_lives *lives, struct message_packet *packet)
{
    uint32_t view = lives->view & SRD_VIEW_LIFE, kind = lives->view & ~SRD_VIEW_LIFE;

    if (kind == SRD_LEAVES)
        return SRD_LATE;
    if (view == peer->mine) {
        if (kind == SRD_RENEWS)
            srd_peer_reset(&peer->base, FI_ECONNRESET);
        else
            turn(peer);
        return begin(peer, lives->connid);
    }
    if (kind == SRD_PLAIN && peer->change && view == peer->change->next)
        return agree(peer, lives->connid);
    if (kind != SRD_PLAIN)
        return SRD_LATE;
    if (peer->dead && peer->known && !view)
        srd_peer_reset(&peer->base, FI_ECONNRESET);
    if (!peer->known)
        return view || header->type == SRD_HANDSHAKE ? tell(peer) : begin(peer, lives->connid);
    return header->type == SRD_HANDSHAKE ? SRD_LATE : propose(peer, header, lives, packet);
}

/* A packet of the peer's present life that introduces it. */
static enum srd_hearing hear_again(struct srd_peer *peer, const struct srd_header *header,
                                   uint32_t view)
{
    bool ours = (view & SRD_VIEW_LIFE) == peer->mine;

    if (header->type != SRD_HANDSHAKE) {
        if (ours && asks(header))
            peer->greeted = false; /* it waits for an answer */
        return SRD_HEARD;
    }
    if (!ours)
        return SRD_LATE;
    if ((view & ~SRD_VIEW_LIFE) != SRD_LEAVES)
        return SRD_HEARD;
    peer->leaving = true;
    message_peer_attend(&peer->base);
    return SRD_LATE;
}

enum srd_hearing srd_life_hear(struct srd_peer *peer, const struct srd_header *header,
                               const struct srd_lives *lives, struct message_packet *packet)
{
    bool begins = header->flags & SRD_RAW_ADDR || header->type == SRD_HANDSHAKE;

    if (peer->known && peer->connid == lives->connid)
        return begins && !is_efa(peer) ? hear_again(peer, header, lives->view) : SRD_HEARD;
    if (is_efa(peer))
        return SRD_LATE;
    if (!lives->connid || was_forgotten(peer, lives->connid))
        return tell(peer);
    if (!begins)
        return peer->known ? SRD_LATE : await(peer, packet);
    return hear_other(peer, header, lives, packet);
}
