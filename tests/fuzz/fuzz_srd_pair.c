/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two endpoints of srd, each of which takes a relay for its peer: the relays pass packets on in
 * any order, change, cut, repeat or lose them, and make packets of every type themselves, with
 * numbers that have passed by. Byte 0: 1 messages are ordered, 2 the lower reads and writes remote
 * memory, 4 sends have descriptors, so that packets of theirs go in bursts, 8 the lower takes and
 * tells one message in a call. Then commands. Every operation ends at most once, and nothing is
 * touched beyond receives and regions.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "compose/build.h"
#include "compose/getinfo.h"
#include "core/base/seam.h"
#include "core/info/abi.h"
#include "core/info/info.h"
#include "layers/srd/srd_wire.h"
#include "tests/fuzz/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    ENDS = 2,
    KINDS = 16, /* of endpoints: byte 0 */
    SIZE_MOST = 70000,
    OPS = 12, /* under way, of each */
    PACKET = 8192,
    BOXES = 64, /* packets that a relay can receive, and that it can send */
    QUEUE = 96, /* packets under way; others are lost */
    REGION = 4096,
    IDS = 16, /* numbers that have passed by */
    CHANGES = 8,
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

struct side {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
};

struct slot {
    bool busy, many;
    uint8_t *bytes;
};

struct end {
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_mr *mr, *out_mr; /* of the region; of out_bytes, or NULL */
    fi_addr_t peer;
    uint8_t *region;
    uint32_t connid; /* as it says it */
    struct slot slots[OPS];
};

/* The peer of the end of the same index. */
struct relay {
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    fi_addr_t end;
    struct sockaddr_in name;
    unsigned free_count, free[BOXES]; /* to send from */
};

struct packet {
    unsigned to;
    size_t len;
    uint8_t *bytes;
};

static const size_t sizes[] = {0,    1,    8,    100,   255,   256,   1000,  3000,
                               8100, 8192, 9000, 17000, 30000, 40000, 50000, SIZE_MOST};
static struct side sides[KINDS], relay_side;
static struct relay relays[ENDS];
static struct fid_mr *in_mr, *out_mr, *relay_mr;
static uint8_t in_boxes[ENDS][BOXES][PACKET], out_boxes[ENDS][BOXES][PACKET];
static uint8_t relay_region[1 << 17], out_bytes[ENDS][OPS][SIZE_MOST];
static struct end ends[ENDS];
static struct packet queue[QUEUE];
static unsigned queued, kind;
static uint32_t ids[IDS];
static unsigned id_count;

static size_t next_size(struct input *input)
{
    return sizes[next(input) % (sizeof(sizes) / sizeof(sizes[0]))];
}

/* ---- Once ---- */

static void open_side(struct side *side, const char *spec, uint64_t caps, uint64_t order, int mode)
{
    struct fi_info *hints = info_complete(NULL);

    must(hints && !info_set_string(&hints->fabric_attr->prov_name, spec));
    hints->caps = caps;
    hints->ep_attr->type = FI_EP_RDM;
    hints->addr_format = FI_SOCKADDR_IN;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = order;
    hints->domain_attr->mr_mode = mode;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = FI_PROGRESS_CONTROL_UNIFIED;
    must(!getinfo_run(FI_VERSION(2, 6), NULL, NULL, 0, hints, ABI_1_9, &side->info));
    must(!fabric_open(side->info->fabric_attr, NULL, ABI_1_9, &side->fabric, NULL));
    must(!fi_domain(side->fabric, side->info, &side->domain, NULL));
    info_free(hints);
}

static void post_box(struct relay *relay, uint8_t *box)
{
    must(!fi_recv(relay->ep, box, PACKET, fi_mr_desc(in_mr), FI_ADDR_UNSPEC, box));
}

static void open_relay(unsigned index)
{
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct relay *relay = &relays[index];
    size_t len = sizeof(relay->name);

    must(!fi_endpoint(relay_side.domain, relay_side.info, &relay->ep, NULL));
    must(!fi_cq_open(relay_side.domain, &cq_attr, &relay->cq, NULL));
    must(!fi_av_open(relay_side.domain, &av_attr, &relay->av, NULL));
    must(!fi_ep_bind(relay->ep, &relay->cq->fid, FI_TRANSMIT | FI_RECV));
    must(!fi_ep_bind(relay->ep, &relay->av->fid, 0));
    must(!fi_enable(relay->ep));
    must(!fi_getname(&relay->ep->fid, &relay->name, &len));
    for (unsigned i = 0; i < BOXES; i++) {
        post_box(relay, in_boxes[index][i]);
        relay->free[relay->free_count++] = i;
    }
}

static void set_up(void)
{
    static const char one[] =
        "srd(medium=16k,read_size=24k,read_write_size=9k,runt_size=3k,window=2,saved_size=64k);"
        "loop(shape=srd)";
    static const char several[] =
        "srd(medium=16k,read_size=24k,read_write_size=9k,runt_size=3k,window=8,saved_size=64k);"
        "loop(shape=srd,bursts=yes)";
    const uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE;
    const int local = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

    setenv("FI_LOG_LEVEL", "none", 0);
    for (unsigned i = 0; i < KINDS; i++)
        open_side(&sides[i], i & 8 ? one : several,
                  FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_MULTI_RECV, i & 1 ? FI_ORDER_SAS : 0,
                  i & 2 ? local & ~(i & 4 ? 0 : FI_MR_LOCAL) : 0);
    open_side(&relay_side, "loop(shape=srd)", FI_MSG | FI_RMA | FI_READ | FI_REMOTE_READ, 0, local);
    must(!fi_mr_reg(relay_side.domain, in_boxes, sizeof(in_boxes), FI_RECV, 0, 1, 0, &in_mr, NULL));
    must(!fi_mr_reg(relay_side.domain, out_boxes, sizeof(out_boxes), FI_SEND, 0, 2, 0, &out_mr,
                    NULL));
    must(!fi_mr_reg(relay_side.domain, relay_region, sizeof(relay_region), access, 0, 3, 0,
                    &relay_mr, NULL));
    for (unsigned i = 0; i < ENDS; i++)
        open_relay(i);
}

/* ---- Ends ---- */

static void open_end(unsigned index)
{
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    const struct side *side = &sides[kind];
    struct end *end = &ends[index];
    uint32_t wait = 0;
    struct sockaddr_in name;
    size_t len = sizeof(name);

    memset(end, 0, sizeof(*end));
    end->region = get(REGION);
    must(!fi_endpoint(side->domain, side->info, &end->ep, NULL));
    must(!fi_cq_open(side->domain, &cq_attr, &end->cq, NULL));
    must(!fi_av_open(side->domain, &av_attr, &end->av, NULL));
    must(!fi_setopt(&end->ep->fid, FI_OPT_ENDPOINT, OPT_CLOSE_WAIT, &wait, sizeof(wait)));
    must(!fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV));
    must(!fi_ep_bind(end->ep, &end->av->fid, 0));
    must(!fi_enable(end->ep));
    must(!fi_mr_reg(side->domain, end->region, REGION, FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
                    10 + index, 0, &end->mr, NULL));
    if (kind & 2 && kind & 4)
        must(!fi_mr_reg(side->domain, out_bytes[index], sizeof(out_bytes[index]), FI_SEND, 0, 0, 0,
                        &end->out_mr, NULL));
    must(!fi_getname(&end->ep->fid, &name, &len));
    must(fi_av_insert(end->av, &relays[index].name, 1, &end->peer, 0, NULL) == 1);
    must(fi_av_insert(relays[index].av, &name, 1, &relays[index].end, 0, NULL) == 1);
}

static void close_end(unsigned index)
{
    struct end *end = &ends[index];

    must(!fi_close(&end->ep->fid));
    must(!fi_close(&end->mr->fid));
    if (end->out_mr)
        must(!fi_close(&end->out_mr->fid));
    must(!fi_close(&end->av->fid));
    must(!fi_close(&end->cq->fid));
    must(!fi_av_remove(relays[index].av, &relays[index].end, 1, 0));
    for (unsigned i = 0; i < OPS; i++)
        free(end->slots[i].bytes);
    free(end->region);
}

static void end_slot(struct end *end, uintptr_t context, bool more)
{
    struct slot *slot = &end->slots[context - 1];

    must(context >= 1 && context <= OPS && slot->busy);
    if (more)
        return;
    slot->busy = false;
    free(slot->bytes);
    slot->bytes = NULL;
}

/* Does the receive that this ended a message of take others? */
static bool takes_more(const struct end *end, const void *context, uint64_t flags)
{
    uintptr_t index = (uintptr_t)context;

    return index >= 1 && index <= OPS && end->slots[index - 1].many && !(flags & FI_MULTI_RECV);
}

static void take_error(struct end *end)
{
    struct fi_cq_err_entry error;

    memset(&error, 0, sizeof(error));
    must(fi_cq_readerr(end->cq, &error, 0) == 1);
#ifdef FUZZ_PLANTED
    /* As if no peer broke the protocol. */
    must(error.err != FI_EPROTO);
#endif
    end_slot(end, (uintptr_t)error.op_context,
             error.err != FI_ECANCELED && takes_more(end, error.op_context, error.flags));
}

static void take_ends(struct end *end)
{
    struct fi_cq_tagged_entry done;
    ssize_t rc;

    while ((rc = fi_cq_read(end->cq, &done, 1)) != -FI_EAGAIN) {
        if (rc != 1)
            take_error(end);
        else if (!(done.flags & FI_REMOTE_WRITE)) /* that is data of the peer's */
            end_slot(end, (uintptr_t)done.op_context, takes_more(end, done.op_context, done.flags));
    }
}

/* ---- Relays ---- */

static void put_address(unsigned index, uint8_t *addr)
{
    const struct sockaddr_in *name = &relays[index].name;
    uint16_t port = ntohs(name->sin_port);

    memset(addr, 0, 20);
    addr[10] = addr[11] = 0xff;
    memcpy(addr + 12, &name->sin_addr, 4);
    addr[16] = (uint8_t)port;
    addr[17] = (uint8_t)(port >> 8);
}

/* The relay says that it is the sender, and that the sender's memory is its own. */
static void rewrite(unsigned from, uint8_t *bytes, size_t len)
{
    struct srd_header header;
    uint8_t *place;

    if (srd_header_get(bytes, len, &header))
        return;
    if (header.connid)
        ends[from].connid = header.connid;
    if (header.flags & SRD_RAW_ADDR && header.raw_addr && header.raw_len >= SRD_ADDR_SIZE) {
        memcpy(&ends[from].connid, header.raw_addr + 20, 4);
        put_address(1 - from, bytes + (header.raw_addr - bytes));
    }
    ids[id_count++ % IDS] = header.send_id;
    ids[id_count++ % IDS] = header.recv_id;
    if (!header.read_count || !header.payload)
        return;
    place = bytes + (header.payload - bytes) - header.read_count * (size_t)SRD_PLACE_SIZE;
    for (unsigned i = 0; i < header.read_count; i++, place += SRD_PLACE_SIZE) {
        uint64_t addr = (uintptr_t)relay_region, key = fi_mr_key(relay_mr);

        memcpy(place, &addr, 8);
        memcpy(place + 16, &key, 8);
    }
}

static void take_packets(unsigned index)
{
    struct relay *relay = &relays[index];
    struct fi_cq_tagged_entry done;
    struct fi_cq_err_entry error;
    ssize_t rc;

    while ((rc = fi_cq_read(relay->cq, &done, 1)) != -FI_EAGAIN) {
        memset(&error, 0, sizeof(error));
        if (rc != 1)
            must(fi_cq_readerr(relay->cq, &error, 0) == 1);
        if (!((rc == 1 ? done.flags : error.flags) & FI_RECV)) {
            relay->free[relay->free_count++] =
                (unsigned)(uintptr_t)(rc == 1 ? done.op_context : error.op_context);
            continue;
        }
        must(rc == 1);
        if (queued < QUEUE) {
            struct packet *packet = &queue[queued++];

            *packet = (struct packet){1 - index, done.len, get(done.len)};
            memcpy(packet->bytes, done.op_context, done.len);
            rewrite(index, packet->bytes, packet->len);
        }
        post_box(relay, done.op_context);
    }
}

static void drive(void)
{
    for (unsigned i = 0; i < ENDS; i++) {
        take_packets(i);
        take_ends(&ends[i]);
    }
}

static void send_to(unsigned to, const uint8_t *bytes, size_t len)
{
    struct relay *relay = &relays[to];
    uint8_t *box;

    if (!relay->free_count || len > PACKET)
        return;
    box = out_boxes[to][relay->free[relay->free_count - 1]];
    if (len)
        memcpy(box, bytes, len);
    if (!fi_send(relay->ep, box, len, fi_mr_desc(out_mr), relay->end,
                 (void *)(uintptr_t)relay->free[relay->free_count - 1]))
        relay->free_count--;
}

static void arrive(unsigned to, const uint8_t *bytes, size_t len)
{
    send_to(to, bytes, len);
    drive();
}

/* ---- Operations ---- */

static struct slot *slot_of(struct end *end, size_t len, void **context)
{
    for (uintptr_t i = 0; i < OPS; i++) {
        if (end->slots[i].busy)
            continue;
        end->slots[i] = (struct slot){.busy = true, .bytes = get(len)};
        *context = (void *)(i + 1);
        return &end->slots[i];
    }
    return NULL;
}

static void give_up(struct slot *slot)
{
    slot->busy = false;
    free(slot->bytes);
    slot->bytes = NULL;
}

/* Bits: tagged, delivered, with data. */
static void post_send(unsigned index, uint8_t bits, struct input *input)
{
    struct end *end = &ends[index];
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
                                    .addr = end->peer,
                                    .tag = 1,
                                    .context = context,
                                    .data = 5};

        rc = fi_tsendmsg(end->ep, &msg, flags);
    } else {
        struct fi_msg msg = {.msg_iov = iov,
                             .desc = desc,
                             .iov_count = count,
                             .addr = end->peer,
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

        arrive(packet.to, packet.bytes, packet.len);
        free(packet.bytes);
    }
}

/* All at once, so that an end takes several in a turn. */
static void deliver_all(void)
{
    while (queued) {
        struct packet packet = take(0);

        send_to(packet.to, packet.bytes, packet.len);
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
        arrive(packet.to, packet.bytes, len);
    if (bits / CHANGES != 3)
        arrive(packet.to, packet.bytes, len);
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

/* Bits: to which end; with an address; of another life; any bytes. */
static void forge(uint8_t bits, struct input *input)
{
    static const uint8_t types[] = {3,   4,   5,   7,   8,   9,   10,  11,  12,  64,  65,  66,
                                    67,  68,  69,  70,  71,  72,  73,  74,  75,  76,  128, 129,
                                    130, 133, 134, 135, 136, 137, 138, 139, 140, 141, 145, 146};
    unsigned to = bits & 1;
    uint8_t addr[SRD_ADDR_SIZE] = {0}, *bytes = get(2 * PACKET), type = next(input);
    struct srd_header header;
    size_t len, left = (size_t)(input->end - input->at);

    if (bits & 8) {
        len = type < left ? type : left;
        if (len)
            memcpy(bytes, input->at, len);
        input->at += len;
        arrive(to, bytes, len);
        free(bytes);
        return;
    }
    make(to, types[type % sizeof(types)], &header, input);
    header.connid = ends[1 - to].connid + (bits & 4 ? 1 : 0);
    put_address(to, addr);
    memcpy(addr + 20, &header.connid, 4);
    header.raw_addr = addr;
    header.raw_len = sizeof(addr);
    if (srd_is_request(header.type) && bits & 2)
        header.flags |= SRD_RAW_ADDR;
    else
        header.flags |= SRD_CONNID;
    len = (size_t)(srd_header_put(&header, bytes) - bytes) + header.len;
    if (next(input) & 128)
        len = next(input) % (len + 1);
    arrive(to, bytes, len);
    free(bytes);
}

/* Bits: what. */
static void do_other(unsigned index, uint8_t bits)
{
    struct end *end = &ends[index];

    switch (bits % 4) {
    case 0: fi_cancel(&end->ep->fid, (void *)(uintptr_t)(1 + bits / 4 % OPS)); break;
    case 1:
        close_end(index);
        open_end(index);
        break;
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
    default: do_other(index, bits); break;
    }
    drive();
    drive();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool ready;
    struct input input = {data, data + size};

    if (!ready)
        set_up();
    ready = true;
    kind = next(&input) % KINDS;
    memset(ids, 0, sizeof(ids));
    id_count = 0;
    for (unsigned i = 0; i < ENDS; i++)
        open_end(i);
    while (input.at < input.end)
        obey(&input);
    for (unsigned i = 0; i < ENDS; i++)
        close_end(i);
    for (unsigned i = 0; i < ENDS; i++)
        take_packets(i);
    while (queued)
        free(queue[--queued].bytes);
    return 0;
}
