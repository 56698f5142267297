/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening takes longer than most inputs do, so the ends of a kind stay open for LIFE inputs, unless
 * FUZZ_FRESH is set: an input begins when all that the one before had under way has ended, since
 * new lives have begun, which are told through the relays as they are. Used numbers are all that is
 * left of those. With FUZZ_SAY it is said at the end how much of that there was.
 */
#include "tests/fuzz/srd_pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "compose/build.h"
#include "compose/getinfo.h"
#include "core/base/little_endian.h"
#include "core/base/seam.h"
#include "core/info/abi.h"
#include "core/info/info.h"
#include "layers/srd/srd_wire.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/room.h"

enum {
    LIFE = 500, /* inputs */
    DEPTH = 16, /* of queues */
};

struct side {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
};

struct relay relays[RELAYS];
struct fid_mr *relay_mr;
uint8_t relay_region[1 << 17], out_bytes[ENDS][OPS][SIZE_MOST];
struct end *ends;
struct packet queue[QUEUE];
unsigned queued, kind;
uint32_t ids[IDS];
static struct end all_ends[KINDS][ENDS];
static struct side sides[KINDS], relay_side;
static struct fid_mr *in_mr, *out_mr;
static uint8_t in_boxes[RELAYS][BOXES][PACKET], out_boxes[RELAYS][BOXES][PACKET];
static unsigned id_count;
static bool strangers_met; /* in this input */
static struct {
    unsigned long inputs, opened, arrived;
} said;

/* ---- Once ---- */

static void open_side(struct side *side, const char *spec, uint64_t caps, uint64_t order, int mode,
                      size_t depth)
{
    struct fi_info *hints = info_complete(NULL);

    must(hints && !info_set_string(&hints->fabric_attr->prov_name, spec));
    hints->caps = caps;
    hints->ep_attr->type = FI_EP_RDM;
    hints->addr_format = FI_SOCKADDR_IN;
    hints->tx_attr->size = hints->rx_attr->size = depth;
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
        "srd(medium=16k,read_size=24k,read_write_size=9k,runt_size=3k,window=2,saved_size=64k,"
        "implicit_av_size=1);loop(shape=srd)";
    static const char several[] =
        "srd(medium=16k,read_size=24k,read_write_size=9k,runt_size=3k,window=8,saved_size=64k,"
        "implicit_av_size=2);loop(shape=srd,bursts=yes)";
    const uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE;
    const int local = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

    setenv("FI_LOG_LEVEL", "none", 0);
    for (unsigned i = 0; i < KINDS; i++)
        open_side(&sides[i], i & 8 ? one : several,
                  FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_MULTI_RECV, i & 1 ? FI_ORDER_SAS : 0,
                  i & 2 ? local & ~(i & 4 ? 0 : FI_MR_LOCAL) : 0, DEPTH);
    open_side(&relay_side, "loop(shape=srd)",
              FI_MSG | FI_RMA | FI_READ | FI_REMOTE_READ | FI_SOURCE, 0, local, BOXES);
    must(!fi_mr_reg(relay_side.domain, in_boxes, sizeof(in_boxes), FI_RECV, 0, 1, 0, &in_mr, NULL));
    must(!fi_mr_reg(relay_side.domain, out_boxes, sizeof(out_boxes), FI_SEND, 0, 2, 0, &out_mr,
                    NULL));
    must(!fi_mr_reg(relay_side.domain, relay_region, sizeof(relay_region), access, 0, 3, 0,
                    &relay_mr, NULL));
    for (unsigned i = 0; i < RELAYS; i++)
        open_relay(i);
}

/* ---- Ends ---- */

void give_up(struct slot *slot)
{
    if (slot->busy)
        room_put(slot->bytes, slot->len);
    slot->busy = false;
}

static bool serves(unsigned relay, unsigned index)
{
    return relay == index || relay >= ENDS;
}

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
    end->inputs = 1;
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
    for (unsigned i = 0; i < RELAYS; i++) {
        if (serves(i, index))
            must(fi_av_insert(relays[i].av, &name, 1, &end->at[i], 0, NULL) == 1);
    }
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
    for (unsigned i = 0; i < RELAYS; i++) {
        if (serves(i, index))
            must(!fi_av_remove(relays[i].av, &end->at[i], 1, 0));
    }
    for (unsigned i = 0; i < OPS; i++)
        give_up(&end->slots[i]);
    free(end->region);
    end->inputs = 0;
}

static void end_slot(struct end *end, uintptr_t context, bool more)
{
    struct slot *slot = &end->slots[context - 1];

    must(context >= 1 && context <= OPS && slot->busy);
    if (!more)
        give_up(slot);
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

static void put_name(unsigned relay, uint8_t *addr)
{
    const struct sockaddr_in *name = &relays[relay].name;
    uint16_t port = ntohs(name->sin_port);

    memset(addr, 0, 20);
    addr[10] = addr[11] = 0xff;
    memcpy(addr + 12, &name->sin_addr, 4);
    addr[16] = (uint8_t)port;
    addr[17] = (uint8_t)(port >> 8);
}

void put_address(unsigned relay, uint32_t connid, uint32_t view, uint8_t *addr)
{
    put_name(relay, addr);
    put32(addr + 20, connid);
    put32(addr + 24, 0);
    put32(addr + 28, view);
}

void ask(unsigned relay, unsigned to, uint32_t connid, uint32_t view)
{
    uint8_t addr[SRD_ADDR_SIZE], bytes[2 * SRD_ADDR_SIZE];
    struct srd_header header = {
        .type = SRD_EAGER_RTW, .flags = SRD_RAW_ADDR, .raw_addr = addr, .raw_len = sizeof(addr)};

    put_address(relay, connid, view, addr);
    send_from(relay, to, bytes, (size_t)(srd_header_put(&header, bytes) - bytes));
}

/* The life of the end that sends the packet, if it tells it. */
static void note_life(struct relay *relay, unsigned from, const struct srd_header *header)
{
    bool introduces = srd_is_request(header->type) && header->flags & SRD_RAW_ADDR;
    uint32_t life = introduces ? get32(header->raw_addr + 20) : header->connid;
    uint32_t *told = relay->told[from];

    if (!(introduces || header->flags & SRD_CONNID) || told[0] == life)
        return;
    memmove(told + 1, told, (LIVES - 1) * sizeof(*told));
    told[0] = life;
    if (relay == &relays[from])
        relays[1 - from].connid = life;
}

/* The relay says that it is the sender, in its lives, and that the sender's memory is its own. */
static void rewrite(unsigned from, uint8_t *bytes, const struct srd_header *header)
{
    uint8_t *place;

    if (srd_is_request(header->type) && header->flags & SRD_RAW_ADDR)
        put_name(1 - from, bytes + (header->raw_addr - bytes));
    if (!header->read_count || !header->payload)
        return;
    place = bytes + (header->payload - bytes) - header->read_count * (size_t)SRD_PLACE_SIZE;
    for (unsigned i = 0; i < header->read_count; i++, place += SRD_PLACE_SIZE) {
        uint64_t addr = (uintptr_t)relay_region, key = fi_mr_key(relay_mr);

        memcpy(place, &addr, 8);
        memcpy(place + 16, &key, 8);
    }
}

/* A stranger only looks at what has come to it. */
static void take_packet(unsigned index, unsigned from, uint8_t *bytes, size_t len)
{
    struct srd_header header;
    bool wrong = srd_header_get(bytes, len, &header);

    if (!wrong) {
        note_life(&relays[index], from, &header);
        ids[id_count++ % IDS] = header.send_id;
        ids[id_count++ % IDS] = header.recv_id;
    }
    if (index >= ENDS || queued == QUEUE)
        return;
    queue[queued] = (struct packet){1 - index, len, get(len)};
    memcpy(queue[queued].bytes, bytes, len);
    if (!wrong && !srd_header_get(queue[queued].bytes, len, &header))
        rewrite(index, queue[queued].bytes, &header);
    queued++;
}

static void take_packets(unsigned index)
{
    struct relay *relay = &relays[index];
    struct fi_cq_tagged_entry done;
    struct fi_cq_err_entry error;
    fi_addr_t src;
    ssize_t rc;

    while ((rc = fi_cq_readfrom(relay->cq, &done, 1, &src)) != -FI_EAGAIN) {
        memset(&error, 0, sizeof(error));
        if (rc != 1)
            must(fi_cq_readerr(relay->cq, &error, 0) == 1);
        if (!((rc == 1 ? done.flags : error.flags) & FI_RECV)) {
            relay->free[relay->free_count++] =
                (unsigned)(uintptr_t)(rc == 1 ? done.op_context : error.op_context);
            continue;
        }
        must(rc == 1);
        take_packet(index, index < ENDS ? index : src != ends[0].at[index], done.op_context,
                    done.len);
        post_box(relay, done.op_context);
    }
}

void drive(void)
{
    for (unsigned i = 0; i < ENDS; i++)
        take_ends(&ends[i]);
    for (unsigned i = 0; i < (strangers_met ? RELAYS : ENDS); i++)
        take_packets(i);
}

void send_from(unsigned from, unsigned to, const uint8_t *bytes, size_t len)
{
    struct relay *relay = &relays[from];
    uint8_t *box;

    if (!relay->free_count || len > PACKET)
        return;
    box = out_boxes[from][relay->free[relay->free_count - 1]];
    if (len)
        memcpy(box, bytes, len);
    said.arrived++;
    if (from >= ENDS)
        strangers_met = ends[to].heard[from - ENDS] = true;
    if (!fi_send(relay->ep, box, len, fi_mr_desc(out_mr), ends[to].at[from],
                 (void *)(uintptr_t)relay->free[relay->free_count - 1]))
        relay->free_count--;
}

void meet_or_part(unsigned index, unsigned stranger)
{
    struct end *end = &ends[index];

    if (end->knows[stranger])
        must(!fi_av_remove(end->av, &end->strangers[stranger], 1, 0));
    else
        must(fi_av_insert(end->av, &relays[ENDS + stranger].name, 1, &end->strangers[stranger], 0,
                          NULL) == 1);
    end->knows[stranger] = !end->knows[stranger];
    strangers_met = true;
}

struct slot *slot_of(struct end *end, size_t len, void **context)
{
    for (uintptr_t i = 0; i < OPS; i++) {
        if (end->slots[i].busy)
            continue;
        end->slots[i] = (struct slot){.busy = true, .len = len, .bytes = room_get(len)};
        *context = (void *)(i + 1);
        return &end->slots[i];
    }
    return NULL;
}

/* ---- Inputs ---- */

static void drop_queue(void)
{
    while (queued)
        free(queue[--queued].bytes);
}

/* All but the last HANDSHAKE to each. */
static void keep_handshakes(void)
{
    struct packet kept[ENDS] = {{0}};

    while (queued) {
        struct packet packet = queue[--queued];

        if (packet.len && packet.bytes[0] == SRD_HANDSHAKE && !kept[packet.to].bytes)
            kept[packet.to] = packet;
        else
            free(packet.bytes);
    }
    for (unsigned i = 0; i < ENDS; i++) {
        if (kept[i].bytes)
            queue[queued++] = kept[i];
    }
}

static uint32_t new_life(void)
{
    static uint32_t lives;

    return ++lives;
}

/* The relay is in a life that the end does not know: it tells its own, or proposes the next one. */
static void introduce(unsigned relay, unsigned to)
{
    ask(relay, to, new_life(), 0);
    for (int i = 0; i < 2; i++)
        drive();
}

/* Both begin that life of the relay's, with which all that the end has under way with it ends. */
static void begin_life(unsigned relay, unsigned to, uint32_t connid)
{
    ask(relay, to, connid, relays[relay].told[to][0]);
    for (int i = 0; i < 2; i++)
        drive();
}

/* Both ends begin the lives that they have told, each with the other. */
static void agree(void)
{
    uint32_t lives[ENDS];

    for (unsigned i = 0; i < ENDS; i++) {
        introduce(i, i);
        lives[i] = relays[i].told[i][0];
    }
    for (unsigned i = 0; i < ENDS; i++)
        begin_life(i, i, lives[1 - i]);
}

static void forget_strangers(unsigned index)
{
    struct end *end = &ends[index];

    for (unsigned i = 0; i < STRANGERS; i++) {
        if (end->heard[i] || end->knows[i]) {
            introduce(ENDS + i, index);
            begin_life(ENDS + i, index, new_life());
        }
        if (end->knows[i])
            meet_or_part(index, i);
        end->heard[i] = false;
    }
}

/* Takes what has come for no receive, or some of it. */
static void take_unexpected(struct end *end, bool tagged)
{
    void *context;
    struct slot *slot;
    ssize_t rc;

    for (int i = 0; i < QUEUE && (slot = slot_of(end, 0, &context)); i++) {
        if (tagged)
            rc = fi_trecv(end->ep, slot->bytes, 0, NULL, FI_ADDR_UNSPEC, 0, UINT64_MAX, context);
        else
            rc = fi_recv(end->ep, slot->bytes, 0, NULL, FI_ADDR_UNSPEC, context);
        must(!rc);
        take_ends(end);
        if (slot->busy)
            break;
    }
}

/* False: something is left. */
static bool reset_end(unsigned index)
{
    struct end *end = &ends[index];

    forget_strangers(index);
    take_unexpected(end, false);
    take_unexpected(end, true);
    for (unsigned i = 0; i < OPS; i++) {
        if (end->slots[i].busy)
            fi_cancel(&end->ep->fid, (void *)(uintptr_t)(i + 1));
    }
    for (int i = 0; i < 2; i++)
        drive();
    for (unsigned i = 0; i < OPS; i++) {
        if (end->slots[i].busy)
            return false;
    }
    memset(end->region, 0, REGION);
    for (unsigned i = 0; i < RELAYS; i++) {
        if (serves(i, index) && relays[i].free_count != BOXES)
            return false;
    }
    return true;
}

static void open_ends(void)
{
    said.opened++;
    for (unsigned i = 0; i < ENDS && ends[i].inputs; i++)
        close_end(i);
    for (unsigned i = 0; i < RELAYS; i++)
        take_packets(i);
    drop_queue();
    for (unsigned i = 0; i < ENDS; i++)
        open_end(i);
    agree();
}

void reopen_end(unsigned index)
{
    close_end(index);
    open_end(index);
}

static void say(void)
{
    fprintf(stderr, "%lu inputs, for %lu of which ends were opened; %lu packets\n", said.inputs,
            said.opened, said.arrived);
}

void begin_input(unsigned of_kind)
{
    static bool ready, fresh;
    bool open;

    if (!ready) {
        set_up();
        fresh = getenv("FUZZ_FRESH");
        if (getenv("FUZZ_SAY"))
            atexit(say);
    }
    ready = true;
    kind = of_kind;
    ends = all_ends[kind];
    open = ends[0].inputs && ends[0].inputs++ < LIFE && !fresh;
    if (open)
        agree();
    for (unsigned i = 0; i < ENDS && open; i++)
        open = reset_end(i);
    said.inputs++;
    if (!open)
        open_ends();
    keep_handshakes();
    memset(ids, 0, sizeof(ids));
    id_count = 0;
    strangers_met = false;
}

void end_input(void)
{
    for (unsigned i = 0; i < RELAYS; i++)
        take_packets(i);
    drop_queue();
}
