/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two endpoints of srd, each of which takes a relay for its peer: the relays pass packets on in
 * any order, change, cut, repeat or lose them, and make packets of every type themselves, with
 * numbers and lives that have passed by. So do strangers, whom the ends insert, and remove, later.
 * Byte 0: 1 messages are ordered, 2 the lower reads and writes remote memory, 4 sends have
 * descriptors, so that packets of theirs go in bursts, 8 the lower takes and tells one message in a
 * call. Then commands. Every operation ends at most once, and nothing is touched beyond receives
 * and regions.
 */
#include "tests/fuzz/srd_pair.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "layers/srd/srd_wire.h"
#include "tests/fuzz/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    CHANGES = 8 /* of bytes of a packet, fewer than */
};

enum {
    DO_SEND,
    DO_RECEIVE,
    DO_WRITE,
    DO_READ,
    DO_ATOMIC,
    DO_DELIVER,
    DO_CHANGE,
    DO_FORGE,
    DO_OTHER,
    COMMANDS,
};

static const size_t sizes[] = {0,    1,    8,    100,   255,   256,   1000,  3000,
                               8100, 8192, 9000, 17000, 30000, 40000, 50000, SIZE_MOST};

static size_t next_size(struct input *input)
{
    return sizes[next(input) % (sizeof(sizes) / sizeof(sizes[0]))];
}

/* ---- Operations ---- */

/* Where it goes to: mostly the relay. */
static fi_addr_t next_peer(const struct end *end, uint8_t word)
{
    unsigned stranger = word >> 4;

    return stranger < STRANGERS && end->knows[stranger] ? end->strangers[stranger] : end->peer;
}

/* Bits: tagged, delivered, with data. */
static void post_send(unsigned index, uint8_t bits, struct input *input)
{
    struct end *end = &ends[index];
    fi_addr_t to = next_peer(end, input->at < input->end ? *input->at : 255);
    size_t len = next_size(input);
    uint64_t flags =
        FI_COMPLETION | (bits & 2 ? FI_DELIVERY_COMPLETE : 0) | (bits & 4 ? FI_REMOTE_CQ_DATA : 0);
    void *context;
    struct slot *slot = slot_of(end, len, &context);
    struct iovec iov[2];
    size_t count = bits & 8 ? 1 : 2, first = bits & 8 ? len : len / 3;
    uint8_t *bytes;
    void *desc[2];
    ssize_t rc;

    if (!slot)
        return;
    bytes = end->out_mr ? out_bytes[index][slot - end->slots] : slot->bytes;
    desc[0] = desc[1] = end->out_mr ? fi_mr_desc(end->out_mr) : NULL;
    iov[0] = (struct iovec){bytes, first};
    iov[1] = (struct iovec){bytes + first, len - first};
    if (bits & 1) {
        struct fi_msg_tagged msg = {.msg_iov = iov,
                                    .desc = desc,
                                    .iov_count = count,
                                    .addr = to,
                                    .tag = 1,
                                    .context = context,
                                    .data = 5};

        rc = fi_tsendmsg(end->ep, &msg, flags);
    } else {
        struct fi_msg msg = {.msg_iov = iov,
                             .desc = desc,
                             .iov_count = count,
                             .addr = to,
                             .context = context,
                             .data = 5};

        rc = fi_sendmsg(end->ep, &msg, flags);
    }
    if (rc)
        give_up(slot);
}

/* Bits: tagged, for many messages. */
static void post_receive(struct end *end, uint8_t bits, struct input *input)
{
    size_t len = next_size(input);
    void *context;
    struct slot *slot = slot_of(end, len, &context);
    struct iovec iov;
    ssize_t rc;

    if (!slot)
        return;
    iov = (struct iovec){slot->bytes, len};
    slot->many = !(bits & 1) && bits & 2 && len >= 1000;
    if (bits & 1) {
        rc = fi_trecv(end->ep, slot->bytes, len, NULL, FI_ADDR_UNSPEC, 1, 0, context);
    } else {
        struct fi_msg msg = {
            .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = context};

        rc = fi_recvmsg(end->ep, &msg, FI_COMPLETION | (slot->many ? FI_MULTI_RECV : 0));
    }
    if (rc)
        give_up(slot);
}

/* Of the other end, by packets, or of the relay by the device. Bits: 1 the relay's. */
static struct fi_rma_iov target(unsigned index, uint8_t bits, size_t len, struct input *input)
{
    const struct end *other = &ends[1 - index];
    uint64_t at = next(input) * 16u;

    if (kind & 2 && bits & 1)
        return (struct fi_rma_iov){(uintptr_t)relay_region + at, len, fi_mr_key(relay_mr)};
    if (kind & 2)
        at += (uintptr_t)other->region;
    return (struct fi_rma_iov){at, len, fi_mr_key(other->mr)};
}

/* Bits: the relay's memory; with data; delivered. */
static void post_access(unsigned index, bool reads, uint8_t bits, struct input *input)
{
    struct end *end = &ends[index];
    size_t len = next_size(input);
    struct fi_rma_iov rma = target(index, bits, len, input);
    void *context;
    struct slot *slot = slot_of(end, len, &context);
    struct iovec iov;
    struct fi_msg_rma msg = {.msg_iov = &iov,
                             .iov_count = 1,
                             .addr = end->peer,
                             .rma_iov = &rma,
                             .rma_iov_count = 1,
                             .data = 6};
    ssize_t rc;

    if (!slot)
        return;
    iov = (struct iovec){slot->bytes, len};
    msg.context = context;
    if (reads)
        rc = fi_readmsg(end->ep, &msg, FI_COMPLETION);
    else
        rc = fi_writemsg(end->ep, &msg,
                         FI_COMPLETION | (bits & 2 ? FI_REMOTE_CQ_DATA : 0) |
                             (bits & 4 ? FI_DELIVERY_COMPLETE : 0));
    if (rc)
        give_up(slot);
}

/* Bits: fetches, compares. */
static void post_atomic(unsigned index, uint8_t bits, struct input *input)
{
    enum {
        ELEMENTS = 4
    };
    struct end *end = &ends[index];
    struct fi_rma_iov rma = target(index, 0, 8 * ELEMENTS, input);
    void *context;
    struct slot *slot = slot_of(end, 3 * 8 * ELEMENTS, &context);
    uint8_t *bytes;
    ssize_t rc;

    if (!slot)
        return;
    bytes = slot->bytes;
    if (bits & 2)
        rc = fi_compare_atomic(end->ep, bytes, ELEMENTS, NULL, bytes + 32, NULL, bytes + 64, NULL,
                               end->peer, rma.addr, rma.key, FI_UINT64, FI_CSWAP, context);
    else if (bits & 1)
        rc = fi_fetch_atomic(end->ep, bytes, ELEMENTS, NULL, bytes + 64, NULL, end->peer, rma.addr,
                             rma.key, FI_UINT64, FI_SUM, context);
    else
        rc = fi_atomic(end->ep, bytes, ELEMENTS, NULL, end->peer, rma.addr, rma.key, FI_UINT64,
                       FI_SUM, context);
    if (rc)
        give_up(slot);
}

/* ---- Packets ---- */

static void arrive(unsigned from, unsigned to, const uint8_t *bytes, size_t len)
{
    send_from(from, to, bytes, len);
    drive();
}

static struct packet take(unsigned at)
{
    struct packet packet = queue[at];

    queued--;
    memmove(queue + at, queue + at + 1, (queued - at) * sizeof(*queue));
    return packet;
}

/* Bits: the last one first, so many. */
static void deliver(uint8_t bits)
{
    for (unsigned i = 0; queued && i <= (unsigned)bits >> 1; i++) {
        struct packet packet = take(bits & 1 ? queued - 1 : 0);

        arrive(packet.to, packet.to, packet.bytes, packet.len);
        free(packet.bytes);
    }
}

/* All at once, so that an end takes several in a turn. */
static void deliver_all(void)
{
    while (queued) {
        struct packet packet = take(0);

        send_from(packet.to, packet.to, packet.bytes, packet.len);
        free(packet.bytes);
    }
}

/* Bits: changed bytes; or it is lost, or comes twice, or is cut. */
static void change(uint8_t bits, struct input *input)
{
    struct packet packet;
    size_t len;

    if (!queued)
        return;
    packet = take(next(input) % queued);
    len = packet.len;
    for (unsigned i = 0; i < bits % CHANGES && len; i++) {
        size_t at = next(input) % (len < 64 ? len : 64);

        packet.bytes[at] ^= next(input);
    }
    if (bits / CHANGES == 1)
        len = next(input) % (len + 1);
    if (bits / CHANGES == 2)
        arrive(packet.to, packet.to, packet.bytes, len);
    if (bits / CHANGES != 3)
        arrive(packet.to, packet.to, packet.bytes, len);
    free(packet.bytes);
}

static uint32_t next_id(struct input *input)
{
    uint8_t which = next(input);

    return which < IDS ? ids[which] : which;
}

static void next_places(unsigned to, struct input *input, unsigned *count,
                        struct fi_rma_iov *places)
{
    uint8_t word = next(input);
    const uint64_t base = kind & 2 ? (uintptr_t)ends[to].region : 0;

    *count = word % (SRD_PLACES + 1);
    for (unsigned i = 0; i < *count; i++)
        places[i] = (struct fi_rma_iov){base + next(input) * 17u, next_size(input),
                                        word & 128 ? next(input) : fi_mr_key(ends[to].mr)};
}

/* A packet of the type, from the relay. */
static void make(unsigned to, uint8_t type, struct srd_header *header, struct input *input)
{
    unsigned count;

    *header = (struct srd_header){.type = type, .msg_id = next(input), .tag = 1};
    header->send_id = next_id(input);
    header->recv_id = next_id(input);
    header->total = next_size(input);
    header->len = next_size(input) % 4096;
    header->offset = next_size(input);
    header->window = next_size(input);
    header->runt = next_size(input);
    header->datatype = next(input) % 32;
    header->op = next(input) % 32;
    header->error = SRD_VERSION + next(input);
    header->features = next(input) | (uint64_t)(next(input) & 3) << 8;
    header->flags =
        (uint16_t)((next(input) & 1 ? SRD_CTS_READ : 0) | (next(input) & 1 ? SRD_AFTER_NACK : 0));
    next_places(to, input, &count, header->places);
    header->place_count = srd_layouts[type].places ? (uint8_t)count : 0;
    next_places(to, input, &count, header->reads);
    header->read_count = srd_layouts[type].reads ? (uint8_t)count : 0;
    for (unsigned i = 0; i < header->read_count; i++)
        header->reads[i] =
            (struct fi_rma_iov){(uintptr_t)relay_region, header->reads[i].len, fi_mr_key(relay_mr)};
}

/* Of lives that have passed by, or none; and what a packet may say of it. */
static uint32_t next_view(unsigned from, unsigned to, struct input *input)
{
    uint8_t which = next(input);
    uint32_t life = which & 4 ? 0 : relays[from].told[to][which % LIVES];

    return (life & SRD_VIEW_LIFE) | (uint32_t)(which >> 6) << 30;
}

/* Bits: to which end; with an address; of another life; any bytes; from a stranger. */
static void forge(uint8_t bits, struct input *input)
{
    static const uint8_t types[] = {3,   4,   5,   7,   8,   9,   10,  11,  12,  64,  65,  66,
                                    67,  68,  69,  70,  71,  72,  73,  74,  75,  76,  128, 129,
                                    130, 133, 134, 135, 136, 137, 138, 139, 140, 141, 145, 146};
    unsigned to = bits & 1, from = to;
    static uint8_t bytes[2 * PACKET];
    uint8_t addr[SRD_ADDR_SIZE] = {0}, type = next(input);
    struct srd_header header;
    size_t len, left;

    if (bits & 16)
        from = ENDS + next(input) % STRANGERS;
    memset(bytes, 0, PACKET);
    if (bits & 8) {
        left = (size_t)(input->end - input->at);
        len = type < left ? type : left;
        if (len)
            memcpy(bytes, input->at, len);
        input->at += len;
        arrive(from, to, bytes, len);
        return;
    }
    make(to, types[type % sizeof(types)], &header, input);
    header.connid = relays[from].connid + (bits & 4 ? 1 : 0);
    header.view = next_view(from, to, input);
    put_address(from, header.connid, header.view, addr);
    header.view = header.type == SRD_HANDSHAKE ? header.view : 0;
    header.raw_addr = addr;
    header.raw_len = sizeof(addr);
    if (srd_is_request(header.type) && bits & 2)
        header.flags |= SRD_RAW_ADDR;
    else
        header.flags |= SRD_CONNID;
    len = (size_t)(srd_header_put(&header, bytes) - bytes) + header.len;
    if (next(input) & 128)
        len = next(input) % (len + 1);
    arrive(from, to, bytes, len);
}

/* Bits: what. Opening takes long. */
static void do_life(unsigned index, uint8_t bits, struct input *input)
{
    unsigned stranger = next(input) % STRANGERS;
    uint32_t view = next_view(ENDS + stranger, index, input);

    switch (bits % 4) {
    case 0:
        if (stranger == 1)
            reopen_end(index);
        break;
    case 1: meet_or_part(index, stranger); break;
    case 2: ask(ENDS + stranger, index, relays[ENDS + stranger].connid, view); break;
    default:
        relays[ENDS + stranger].connid++;
        ask(ENDS + stranger, index, relays[ENDS + stranger].connid, view);
        break;
    }
}

/* Bits: what. */
static void do_other(unsigned index, uint8_t bits, struct input *input)
{
    struct end *end = &ends[index];

    switch (bits % 4) {
    case 0: fi_cancel(&end->ep->fid, (void *)(uintptr_t)(1 + bits / 4 % OPS)); break;
    case 1: do_life(index, bits / 4, input); break;
    case 2:
        must(!fi_av_remove(end->av, &end->peer, 1, 0));
        must(fi_av_insert(end->av, &relays[index].name, 1, &end->peer, 0, NULL) == 1);
        break;
    default: deliver_all(); break;
    }
}

static void obey(struct input *input)
{
    uint8_t word = next(input), bits = word / COMMANDS;
    unsigned index = bits >> 4 & 1;

    switch (word % COMMANDS) {
    case DO_SEND: post_send(index, bits, input); break;
    case DO_RECEIVE: post_receive(&ends[index], bits, input); break;
    case DO_WRITE: post_access(index, false, bits, input); break;
    case DO_READ: post_access(index, true, bits, input); break;
    case DO_ATOMIC: post_atomic(index, bits, input); break;
    case DO_DELIVER: deliver(bits); break;
    case DO_CHANGE: change(bits, input); break;
    case DO_FORGE: forge(bits, input); break;
    default: do_other(index, bits, input); break;
    }
    drive();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, data + size};

    begin_input(next(&input) % KINDS);
    while (input.at < input.end)
        obey(&input);
    end_input();
    return 0;
}
