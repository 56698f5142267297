/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lives: an address does not tell one endpoint from the next at the same place. Each end has a life
 * for each peer, a random number, which every introduction tells, and the view: the receiver's life
 * that the sender knows. Numbers, order and operations under way are of a pair of lives, and a peer
 * is known by a life that has answered ours. A packet of another one:
 *
 *   no view          if we know no life, this is the first. Else another endpoint may be there, or
 *                    the packet is late, or forged: it is held back, and a next life of ours is
 *                    proposed to that life, which alone can read it (RXD_PROPOSES)
 *   that next life   the proposal has come: all that was with the peer ends, and these lives begin
 *   any other view   packets of its have gone to another than us: dropped, and it is to begin
 *                    anew, too (RXD_RENEWS)
 *
 * Packets without an introduction have a number of the receiver's, which is of one life.
 */
#include <stdlib.h>
#include <sys/random.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "layers/rxd/rxd.h"

enum {
    FORGOTTEN = 4, /* lives that are over and are still known: packets of theirs may come late */
    ASK_MS = 1000,
};

/* Most peers never need it. */
struct rxd_past {
    uint32_t forgotten[FORGOTTEN];
    unsigned forgotten_count;
    uint32_t next;      /* ours, which was proposed; or 0 */
    uint32_t told;      /* the last life of the peer's that it was told to */
    uint8_t kind;       /* so it is to be told; or 0 */
    uint32_t renews;    /* the peer's, which is to hear that we have none with it; or 0 */
    uint32_t asked;     /* RXD_HERE of that id is waited for; or 0 */
    long long asked_ms; /* since when */
    bool drops;         /* not all packets were held back */
    bool left;          /* it is RXD_LEFT when this life has ended */
    unsigned held_count;
    struct list held; /* struct message_packet.link */
};

static uint32_t random_word(void)
{
    uint32_t word;

    if (getrandom(&word, sizeof(word), 0) != sizeof(word))
        word = (uint32_t)clock_ns();
    return word ? word : 1;
}

/* NULL without memory. */
static struct rxd_past *past_of(struct rxd_peer *peer)
{
    if (!peer->past) {
        peer->past = calloc(1, sizeof(*peer->past));
        if (peer->past)
            list_init(&peer->past->held);
    }
    return peer->past;
}

/* ---- Numbers ---- */

/* Another endpoint's mean nothing here, and 0 is none. */
void rxd_life_salt(struct rxd_ep *ep)
{
    ep->salt = random_word();
}

static uint32_t on_wire(const struct rxd_peer *peer, uint32_t number)
{
    return number ^ rxd_ep_of(peer->base.ep)->salt;
}

/* That a peer has when its slot is used again. */
static uint32_t next_number(const struct rxd_peer *peer)
{
    const struct ids *ids = &rxd_ep_of(peer->base.ep)->numbers;
    uint32_t step = UINT32_C(1) << ids->index_bits, number = peer->number + step;

    return on_wire(peer, number) ? number : number + step;
}

static bool take_number(struct rxd_peer *peer)
{
    uint64_t number = ids_add(&rxd_ep_of(peer->base.ep)->numbers, peer);

    peer->number = (uint32_t)number;
    return number != IDS_NONE;
}

static void renumber(struct rxd_peer *peer)
{
    uint32_t next = next_number(peer);

    do {
        ids_remove(&rxd_ep_of(peer->base.ep)->numbers, peer->number);
        take_number(peer); /* there is room: that which was just left */
    } while (peer->number != next);
}

int rxd_life_open(struct rxd_peer *peer)
{
    if (!take_number(peer))
        return -FI_ENOMEM;
    if (!on_wire(peer, peer->number))
        renumber(peer);
    peer->mine = random_word();
    return 0;
}

/* ---- Ends ---- */

static bool was_forgotten(const struct rxd_peer *peer, uint32_t life)
{
    const struct rxd_past *past = peer->past;

    for (unsigned i = 0; past && i < FORGOTTEN; i++) {
        if (past->forgotten[i] == life)
            return true;
    }
    return false;
}

void rxd_life_end(struct rxd_peer *peer, bool ours)
{
    struct rxd_past *past = peer->life ? past_of(peer) : peer->past;

    renumber(peer);
    peer->mine = past && past->next ? past->next : random_word();
    if (past) {
        if (peer->life)
            past->forgotten[past->forgotten_count++ % FORGOTTEN] = peer->life;
        past->renews = ours ? peer->life : 0;
        past->next = past->asked = 0;
        past->kind = 0;
        past->drops = false;
        past->held_count = 0;
        list_join(&past->held, &peer->base.ep->deferred); /* perhaps of lives that may begin now */
    }
    peer->life = peer->theirs = 0;
    peer->known = past && past->left ? RXD_LEFT : 0;
    peer->answer = false;
    peer->unasked = 0;
    peer->lends = peer->trains = false;
    if (past)
        past->left = false;
}

void rxd_life_close(struct message_peer *base)
{
    struct rxd_peer *peer = rxd_peer_of(base);

    rxd_owe_nothing(peer);
    if (!peer->past)
        return;
    message_packets_put(&peer->past->held);
    free(peer->past);
    peer->past = NULL;
}

/* All that was with the peer ends, and both begin anew. */
static void end_present(struct rxd_peer *peer)
{
    rxd_peer_reset(&peer->base, FI_ECONNRESET);
    peer->base.gone = false;
}

/* ---- Introductions ---- */

bool rxd_life_tells(const struct rxd_peer *peer)
{
    return peer->past && (peer->past->kind || (peer->past->renews && !peer->life));
}

void rxd_life_put(const struct rxd_peer *peer, bool tells, struct rxd_head *head)
{
    const struct rxd_past *past = peer->past;

    head->flags |= RXD_INTRO;
    head->life = peer->mine;
    head->view = peer->life;
    head->giving = on_wire(peer, peer->number);
    if (!tells)
        return;
    head->number = 0;
    if (!past->kind) {
        head->flags |= RXD_RENEWS;
        head->view = past->renews;
        return;
    }
    head->flags |= past->kind;
    head->life = past->next;
    head->view = past->told;
    head->giving = on_wire(peer, next_number(peer));
    head->ack = 0;
}

void rxd_life_told(struct rxd_peer *peer)
{
    if (peer->past->kind) {
        peer->past->kind = 0;
        return;
    }
    peer->past->renews = 0;
    peer->answer = false;
}

static void answer(struct rxd_peer *peer)
{
    peer->answer = true;
    message_peer_attend(&peer->base);
}

static enum rxd_hearing begin(struct rxd_peer *peer, const struct rxd_head *head)
{
    peer->known &= (uint8_t)~RXD_LEFT;
    peer->life = head->life;
    peer->theirs = head->giving;
    peer->unasked = head->unasked;
    peer->lends = head->abilities & RXD_LENDS;
    peer->trains = head->abilities & RXD_TRAINS;
    return RXD_HEARD;
}

/* The next packet of that life says whether the proposal came to it. */
static enum rxd_hearing propose(struct rxd_peer *peer, const struct rxd_head *head, uint8_t kind,
                                bool content)
{
    struct rxd_past *past = past_of(peer);

    if (!past)
        return RXD_UNTOLD;
    if (!past->next)
        past->next = random_word();
    if (past->told != head->life || kind == RXD_RENEWS || !content) {
        past->told = head->life;
        past->kind = kind;
        message_peer_attend(&peer->base);
    }
    return kind == RXD_PROPOSES && content ? RXD_HELD : RXD_LATE;
}

/* It knows another of our lives, so packets of its went elsewhere. */
static enum rxd_hearing hear_stale(struct rxd_peer *peer, const struct rxd_head *head)
{
    struct rxd_past *past = past_of(peer);

    if (!past)
        return RXD_UNTOLD;
    if (peer->life)
        return was_forgotten(peer, head->life) ? RXD_LATE : propose(peer, head, RXD_RENEWS, false);
    past->renews = head->life;
    message_peer_attend(&peer->base);
    return RXD_LATE;
}

/* The peer has answered what was proposed to it. */
static enum rxd_hearing agree(struct rxd_peer *peer, const struct rxd_head *head)
{
    struct rxd_past *past = peer->past;

    if (past->drops) { /* packets of it: it begins anew */
        message_packets_put(&past->held);
        past->held_count = 0;
        past->drops = false;
        past->next = random_word();
        return propose(peer, head, RXD_RENEWS, false);
    }
    if (past->told != head->life)
        message_packets_put(&past->held);
    end_present(peer);
    peer->known = RXD_KNOWS_US;
    answer(peer); /* it introduces itself until it hears of us */
    return begin(peer, head);
}

/* A life that may be the peer's next one, or has left the one that knew ours. */
static enum rxd_hearing hear_proposal(struct rxd_peer *peer, const struct rxd_head *head)
{
    if (head->view != peer->mine) {
        if (head->life == peer->life)
            answer(peer);
        return RXD_LATE;
    }
    if (head->flags & RXD_RENEWS || (peer->life && peer->life != head->life))
        end_present(peer);
    answer(peer);
    return begin(peer, head);
}

/* We have left that life, since the lower had lost the peer perhaps, and the peer may be in it
 * still. It may have taken requests of our present one for those of its first, and answers to
 * either are lost: both begin anew. */
static enum rxd_hearing hear_forgotten(struct rxd_peer *peer, const struct rxd_head *head)
{
    if (peer->life || peer->known & RXD_LEFT)
        return RXD_LATE;
    return propose(peer, head, RXD_RENEWS, false);
}

/* Another life than the present one. */
static enum rxd_hearing hear_other(struct rxd_peer *peer, const struct rxd_head *head, bool content)
{
    if (peer->past && peer->past->next && head->view == peer->past->next)
        return agree(peer, head);
    if (head->view && (head->view != peer->mine || peer->life))
        return hear_stale(peer, head);
    if (was_forgotten(peer, head->life))
        return hear_forgotten(peer, head);
    if (peer->life)
        return propose(peer, head, RXD_PROPOSES, content);
    if (head->view)
        peer->known |= RXD_KNOWS_US;
    else
        answer(peer);
    return begin(peer, head);
}

enum rxd_hearing rxd_life_hear(struct rxd_peer *peer, const struct rxd_head *head, bool content)
{
    if (head->flags & (RXD_PROPOSES | RXD_RENEWS))
        return hear_proposal(peer, head);
    if (head->life != peer->life)
        return hear_other(peer, head, content);
    if (head->view == peer->mine)
        peer->known |= RXD_KNOWS_US;
    else if (!head->view)
        answer(peer);
    else
        return hear_stale(peer, head);
    return RXD_HEARD;
}

bool rxd_life_may_hold(struct rxd_peer *peer)
{
    if (peer->past->held_count < RXD_WINDOW)
        return true;
    peer->past->drops = true;
    return false;
}

void rxd_life_hold(struct rxd_peer *peer, struct message_packet *packet, fi_addr_t src)
{
    packet->src = src;
    packet->tries = MESSAGE_TRIES - 1;
    peer->past->held_count++;
    list_attach(&packet->link, &peer->past->held);
}

/* ---- Who is there ---- */

static void ask(struct rxd_peer *peer)
{
    struct rxd_past *past = past_of(peer);
    struct rxd_record record = {.kind = RXD_ASK};

    if (!past)
        return;
    record.id = random_word();
    past->asked = rxd_out_try(peer, &record) ? record.id : 0; /* without memory: later */
    past->asked_ms = clock_ms();
    peer->known &= (uint8_t)~RXD_KNOWS_US; /* another endpoint is to know who asks */
}

void rxd_life_here(struct rxd_peer *peer, uint32_t id)
{
    if (!peer->past || peer->past->asked != id)
        return;
    peer->past->asked = 0;
    peer->known &= (uint8_t)~RXD_DOUBTED;
}

/* Ends what is under way, with what the lower may have for it. */
void rxd_life_left(struct rxd_peer *peer)
{
    struct rxd_past *past = past_of(peer);

    if (past)
        past->left = true;
    rxd_out_acked(peer);
    message_peer_break(&peer->base, FI_ECONNRESET, NULL);
}

void rxd_life_removed(struct message_peer *base)
{
    struct rxd_peer *peer = rxd_peer_of(base);

    if (!peer->life && !peer->next_out)
        return;
    peer->known |= RXD_DOUBTED;
    if (peer->past)
        peer->past->asked = 0; /* an answer to that says nothing of now */
}

/* Has nothing gone to it that it may answer? */
static bool is_to_be_asked(const struct rxd_peer *peer)
{
    const struct rxd_past *past = peer->past;

    return !past || !past->asked ||
           (list_empty(&peer->base.flying) && clock_ms() - past->asked_ms >= ASK_MS);
}

ssize_t rxd_life_admit(struct rxd_peer *peer)
{
    if (peer->known & RXD_DOUBTED && !peer->life) {
        /* It was sent to, and never heard: another endpoint expects number 0. */
        if (list_empty(&peer->base.flying))
            rxd_life_left(peer);
        return -FI_EAGAIN;
    }
    if (is_to_be_asked(peer))
        ask(peer);
    rxd_flush(&peer->base, false);
    return -FI_EAGAIN;
}

/* Packets that it has not acknowledged for a second may have gone to another endpoint, which knows
 * no address to answer to. */
static void look_after(struct rxd_peer *peer)
{
    bool old = (int32_t)(peer->seen_out - peer->acked) > 0;

    peer->seen_out = peer->next_out;
    if (peer->life && old && !(peer->past && peer->past->asked))
        ask(peer);
}

void rxd_life_second(struct message_ep *ep)
{
    for (size_t i = 0; i < MESSAGE_BUCKETS; i++) {
        for (struct message_peer *base = ep->buckets[i]; base; base = base->next)
            look_after(rxd_peer_of(base));
    }
}
