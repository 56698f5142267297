/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two nodes with packet delivery and semantics of uet, in virtual time, among hostile packets. The
 * input is a list of commands: operations, packets that arrive, arrive changed or get lost, packets
 * made of any bytes, closed ports, time. Every operation ends once, lent memory comes back, and no
 * byte is touched beyond receives and regions.
 */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "transports/uet/ses/ses.h"
#include "transports/uet/wire/address.h"
#include "tests/fuzz/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    NODES = 2,
    OPS = 16, /* under way, of each */
    MTU = 256,
    UNIT = 16,  /* of lengths */
    PAGE = 256, /* of offsets */
    MEMORY = 1 << 15,
    QUEUE = 64,   /* packets under way; others are lost */
    PACKET = 512, /* bytes */
    KEY = 7,
    STRANGER = NODES,
};

enum {
    DO_SEND,
    DO_WRITE,
    DO_READ,
    DO_ATOMIC,
    DO_DELIVER,
    DO_CHANGE,
    DO_WAIT,
    DO_FORGE,
    COMMANDS,
};

struct posted {
    struct ses_op op;
    bool busy;
    uint8_t *bytes;
    uint8_t result[64];
};

struct node {
    struct ses *ses;
    unsigned index, lent;
    bool refuses; /* messages */
    uint8_t *memory;
    struct posted ops[OPS];
};

struct packet {
    unsigned from, to;
    size_t len;
    uint8_t *bytes;
};

static struct node nodes[NODES];
static struct packet queue[QUEUE];
static unsigned queued;
static uint64_t now;

static union addr addr_of(unsigned index)
{
    union addr addr;

    memset(&addr, 0, sizeof(addr));
    addr.in.sin_family = AF_INET;
    addr.in.sin_addr.s_addr = htonl(0x0a000001 + index);
    addr.in.sin_port = htons(UET_PORT);
    return addr;
}

/* ---- Upcalls ---- */

static void up_transmit(void *arg, const union addr *to, const struct iovec *iov, size_t count,
                        bool control)
{
    const struct node *node = arg;
    struct packet *packet = &queue[queued];
    unsigned target = ntohl(to->in.sin_addr.s_addr) - 0x0a000001;
    size_t len = 0;

    for (size_t i = 0; i < count; i++)
        len += iov[i].iov_len;
    must(len <= PACKET);
    if (queued == QUEUE || target >= NODES)
        return;
    queued++;
    *packet = (struct packet){node->index, target, 0, get(len)};
    for (size_t i = 0; i < count; packet->len += iov[i++].iov_len)
        if (iov[i].iov_len)
            memcpy(packet->bytes + packet->len, iov[i].iov_base, iov[i].iov_len);
}

static void up_ended(void *arg, struct ses_op *op, enum ses_code code)
{
    struct posted *posted = list_item(op, struct posted, op);

    must(posted->busy);
    posted->busy = false;
    free(posted->bytes);
    posted->bytes = NULL;
}

/* A receive has exactly the bytes of its message, in two places, or fewer. */
struct receive {
    struct iovec iov[2];
};

static enum ses_match up_message(void *arg, struct ses_inbound *inbound)
{
    const struct node *node = arg;
    size_t room = inbound->length < MEMORY ? inbound->length : MEMORY;
    struct receive *receive;

    if (node->refuses)
        return SES_NO_ROOM;
    receive = get(sizeof(*receive));
    receive->iov[0] = (struct iovec){get(room / 3), room / 3};
    receive->iov[1] = (struct iovec){get(room - room / 3), room - room / 3};
    inbound->entry = receive;
    inbound->iov = receive->iov;
    inbound->iov_count = 2;
    return SES_MATCHED;
}

static void up_received(void *arg, struct ses_inbound *inbound, enum ses_code code)
{
    struct receive *receive = inbound->entry;

    free(receive->iov[0].iov_base);
    free(receive->iov[1].iov_base);
    free(receive);
}

static enum ses_code may(uint64_t key, uint64_t offset, size_t len)
{
    if ((key & ~SES_KEY_IDEMPOTENT) != KEY)
        return RC_BAD_MKEY;
#ifdef FUZZ_PLANTED
    must(offset <= MEMORY && len <= MEMORY - offset); /* as if none had to check it */
#endif
    return offset > MEMORY || len > MEMORY - offset ? RC_BAD_ADDR : RC_OK;
}

static enum ses_code up_write(void *arg, const struct ses_initiator *who, uint64_t key,
                              uint64_t offset, const uint8_t *bytes, size_t len)
{
    const struct node *node = arg;
    enum ses_code code = may(key, offset, len);

    if (code == RC_OK && len)
        memcpy(node->memory + offset, bytes, len);
    return code;
}

static enum ses_code up_read(void *arg, const struct ses_initiator *who, uint64_t key,
                             uint64_t offset, size_t len, struct ses_lent *lent)
{
    struct node *node = arg;
    enum ses_code code = may(key, offset, len);

    if (code != RC_OK)
        return code;
    lent->iov[0] = (struct iovec){node->memory + offset, len};
    lent->count = 1;
    lent->held = node->memory;
    node->lent++;
    return RC_OK;
}

static void up_give_back(void *arg, struct ses_lent *lent)
{
    struct node *node = arg;

    if (!lent->held)
        return;
    must(node->lent > 0 && lent->held == node->memory);
    node->lent--;
}

static enum ses_code up_atomic(void *arg, const struct ses_initiator *who,
                               const struct ses_request *request, const uint8_t *operands,
                               size_t len, uint8_t *result, size_t *result_len)
{
    const struct node *node = arg;
    enum ses_code code = may(request->key, request->offset, len);

    if (code != RC_OK || len > MTU)
        return code == RC_OK ? RC_AMO_UNSUPPORTED_SIZE : code;
    memcpy(result, node->memory + request->offset, len);
    *result_len = len;
    if (len)
        memcpy(node->memory + request->offset, operands, len);
    return RC_OK;
}

/* The operand goes to the receive. */
static enum ses_code up_tagged_atomic(void *arg, const struct ses_request *request,
                                      const uint8_t *operands, size_t len, const struct iovec *iov,
                                      size_t count, uint8_t *result, size_t *result_len)
{
    *result_len = len;
    if (!len || len > MTU)
        return RC_AMO_UNSUPPORTED_SIZE;
    if (!iov)
        return RC_OK;
    must(count == 2 && iov[0].iov_len + iov[1].iov_len == len);
    if (request->offset)
        return RC_TOO_LONG;
    memset(result, 0, len);
    memcpy(iov[1].iov_base, operands, iov[1].iov_len);
    return RC_OK;
}

static void up_accessed(void *arg, const struct ses_access *access)
{
}

static const struct ses_ops ops = {
    .transmit = up_transmit,
    .ended = up_ended,
    .message = up_message,
    .received = up_received,
    .write = up_write,
    .read = up_read,
    .give_back = up_give_back,
    .atomic = up_atomic,
    .tagged_atomic = up_tagged_atomic,
    .accessed = up_accessed,
};

/* ---- Commands ---- */

static void post(struct node *node, unsigned kind, uint8_t bits, struct input *input)
{
    static const uint8_t opcodes[] = {SES_SEND, SES_WRITE, SES_READ, SES_FETCHING_ATOMIC};
    struct posted *posted = NULL;
    struct ses_op *op;

    for (unsigned i = 0; i < OPS && !posted; i++)
        if (!node->ops[i].busy)
            posted = &node->ops[i];
    if (!posted)
        return;
    memset(posted, 0, sizeof(*posted));
    op = &posted->op;
    op->target = (struct ses_target){.to = addr_of(1 - node->index), .job = 1, .mode = bits & 1};
    op->opcode = kind == DO_SEND && bits & 2 ? SES_TAGGED_SEND : opcodes[kind];
    op->flags = bits & 4 ? SES_DC : 0;
    op->length = kind == DO_ATOMIC ? 8 : next(input) * UNIT;
    op->key = KEY;
    op->offset = kind == DO_SEND ? 0 : next(input) * PAGE;
    if (kind == DO_SEND && bits & 8) {
        op->opcode = bits & 2 ? SES_RENDEZVOUS_TSEND : SES_RENDEZVOUS_SEND;
        op->eager = op->length / 2;
    } else if (kind == DO_SEND && bits & 16) {
        op->opcode = bits & 2 ? SES_DEFERRABLE_TSEND : SES_DEFERRABLE_SEND;
    }
    op->target.brief = kind == DO_SEND ? bits & 4 : bits & 2; /* bits: to 31 */
    if (bits & 8 && kind == DO_ATOMIC) {
        op->opcode = SES_TSEND_FETCH_ATOMIC;
    } else if (bits & 8 && kind != DO_SEND) {
        op->target.mode = PDS_MODE_RUDI;
        op->key = KEY | SES_KEY_IDEMPOTENT;
    }
    posted->bytes = get(op->length);
    op->iov[0] = (struct iovec){posted->bytes, op->length};
    op->iov_count = 1;
    op->result[0] = (struct iovec){posted->result, 8};
    op->result_count = 1;
    posted->busy = true;
    must(ses_start_op(node->ses, op));
}

static void arrive(unsigned from, unsigned to, const uint8_t *bytes, size_t len)
{
    const union addr addr = addr_of(from);

    ses_receive(nodes[to].ses, now, &addr, bytes, len, false);
}

static struct packet take(unsigned at)
{
    struct packet packet = queue[at];

    queued--;
    memmove(queue + at, queue + at + 1, (queued - at) * sizeof(*queue));
    return packet;
}

/* Bits: out of order, so many at once. */
static void deliver(uint8_t bits)
{
    for (unsigned i = 0; queued && i <= bits >> 1; i++) {
        struct packet packet = take(bits & 1 ? queued - 1 : 0);

        arrive(packet.from, packet.to, packet.bytes, packet.len);
        free(packet.bytes);
    }
}

/* Bits: changed bytes, and whether it is cut; or it is lost. */
static void change(uint8_t bits, struct input *input)
{
    struct packet packet;
    uint8_t *exact;
    size_t len;

    if (!queued)
        return;
    packet = take(0);
    for (unsigned i = 0; i < (bits & 7u) && packet.len; i++) {
        size_t at = next(input) % packet.len;

        packet.bytes[at] ^= next(input);
    }
    len = bits & 8 ? next(input) % (packet.len + 1) : packet.len;
    exact = get(len);
    if (len)
        memcpy(exact, packet.bytes, len);
    if (!(bits & 16))
        arrive(packet.from, packet.to, exact, len);
    free(exact);
    free(packet.bytes);
}

/* Bits: at which node, from the peer or a stranger, or as what a closed port quotes. */
static void forge(uint8_t bits, struct input *input)
{
    unsigned to = bits & 1;
    const union addr addr = addr_of(bits & 2 ? STRANGER : 1 - to);
    size_t len = next(input), left = (size_t)(input->end - input->at);
    uint8_t *exact;

    len = len < left ? len : left;
    exact = get(len);
    if (len)
        memcpy(exact, input->at, len);
    input->at += len;
    if (bits & 4 && queued)
        pds_unreachable(ses_pds(nodes[queue[0].from].ses), now, &addr, queue[0].bytes,
                        queue[0].len);
    else if (bits & 8)
        pds_unreachable(ses_pds(nodes[to].ses), now, &addr, exact, len);
    else
        ses_receive(nodes[to].ses, now, &addr, exact, len, bits & 16);
    free(exact);
}

/* Its region is closed, and the memory used for something else; another one is there at once. */
static void change_memory(struct node *node)
{
    ses_take_back(node->ses, node->memory);
    must(!node->lent);
    free(node->memory);
    node->memory = get(MEMORY);
    memset(node->memory, 0, MEMORY);
}

static void wait(uint8_t bits)
{
    if (bits >= 24)
        change_memory(&nodes[bits & 1]);
    now += UINT64_C(1) << (10 + bits % 24); /* 1 us to 8 s */
    nodes[0].refuses = bits & 24;
    for (unsigned i = 0; i < NODES; i++)
        ses_run(nodes[i].ses, now);
}

static void obey(struct input *input)
{
    uint8_t word = next(input), bits = word / COMMANDS;
    unsigned command = word % COMMANDS;

    switch (command) {
    case DO_DELIVER: deliver(bits); break;
    case DO_CHANGE: change(bits, input); break;
    case DO_WAIT: wait(bits); break;
    case DO_FORGE: forge(bits, input); break;
    default: post(&nodes[bits >> 4 & 1], command, bits, input); break;
    }
    for (unsigned i = 0; i < NODES; i++)
        if (ses_deadline(nodes[i].ses) <= now)
            ses_run(nodes[i].ses, now);
}

/* ---- One input ---- */

static void begin(void)
{
    struct ses_settings settings = {
        .pds = pds_defaults, .self = {.job = 1}, .mtu = MTU, .ack_data = 16, .saved = 1 << 16};

    now = 1000000;
    settings.pds.mpr = 128;
    settings.pds.stored = 8;
    settings.pds.pdcs = 16;
    settings.pds.ids = 1; /* a small table is quickly made */
    for (unsigned i = 0; i < NODES; i++) {
        uint8_t *memory = nodes[i].memory ? nodes[i].memory : get(MEMORY); /* the last input's */

        nodes[i] = (struct node){.index = i, .memory = memory};
        memset(memory, 0, MEMORY);
        settings.self.initiator = 100 + i;
        nodes[i].ses = ses_create(&settings, &ops, &nodes[i], i + 1);
        must(nodes[i].ses != NULL);
    }
}

static void finish(void)
{
    for (unsigned i = 0; i < NODES; i++) {
        ses_destroy(nodes[i].ses);
        must(!nodes[i].lent);
        for (unsigned j = 0; j < OPS; j++)
            must(!nodes[i].ops[j].busy);
    }
    while (queued)
        free(queue[--queued].bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, data + size};

    begin();
    while (input.at < input.end)
        obey(&input);
    finish();
    return 0;
}
