/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that scribbles over the shared memory while messages flow: whatever it does, nothing is
 * touched that should not be, every operation of the victim ends at most once, and none is left
 * when the link is gone. The input is a list of commands, see `act`; its last byte says whether the
 * victim attaches: never, always, or as it measures. It never writes into what the peer names, so
 * peer and victim may be one process.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "core/info/abi.h"
#include "core/info/info.h"
#include "core/part/part.h"
#include "transports/shm/shm_op.h"
#include "tests/fuzz/must.h"

extern const struct part shm_part;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    OPS = 24,
    ROOM = 64,
    REGION = 256,
    LARGE = 100000,
    MODES = 3,
    NEW = 240, /* commands that came later: so many low ones mean what they meant */
    BODY = 160,
    GUARD = 0x5a
};

static const char *const modes[MODES] = {"off", "on", "auto"};

static struct world {
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fi_info *info;
    struct fid_mr *mr, *far_mr;
    struct fid_av *av;
    struct fid_cq *cq;
    struct shm_ep *victim;
    fi_addr_t peer;
} worlds[MODES], *world;

static char *memory; /* of a link: behind it a page without access */
static uint8_t region[REGION + 2 * ROOM];
static uint8_t rooms[OPS][3 * ROOM];
static uint8_t large[LARGE + 2 * ROOM];
static uint8_t inbox[LARGE + 2 * ROOM]; /* for large messages and reads */
static uint8_t far[LARGE + 2 * ROOM];   /* a large region */

struct game {
    struct shm_link *link; /* the victim's */
    struct shm_tx tx;      /* the peer's end */
    struct shm_rx rx;
    uintptr_t posted;
    unsigned ended[OPS];
};

static struct params *resolve_params(const char *mode)
{
    const struct param_text texts[] = {
        {"cma", mode}, {"max_saved_size", "64k"}, {"connect_timeout", "1ms"}};
    struct params *params = NULL;
    size_t bad;
    char why[256];

    must(!params_resolve("shm", "shm", shm_part.params, texts, 3, &params, &bad, why, sizeof(why)));
    return params;
}

static void open_victim(void)
{
    const char *name = "fi_ns://peer";
    struct shm_ep *victim;
    struct fid_ep *ep;

    must(!fi_endpoint(world->domain, world->info, &ep, NULL));
    must(!fi_ep_bind(ep, &world->cq->fid, FI_TRANSMIT | FI_RECV));
    must(!fi_ep_bind(ep, &world->av->fid, 0));
    must(!fi_enable(ep));
    must(fi_av_insert(world->av, &name, 1, &world->peer, 0, NULL) == 1);
    victim = world->victim = shm_ep_of(ep);
    victim->number_count = 16;
    victim->numbers = calloc(16, sizeof(struct shm_link *));
    victim->peer_count = 1;
    victim->peers = calloc(1, sizeof(struct shm_link *));
    must(victim->numbers && victim->peers);
}

static void open_world(const char *mode)
{
    struct params *params = resolve_params(mode);
    struct fi_info *hints = info_complete(NULL);
    struct request request = {.version = FI_VERSION(2, 6), .hints = hints, .params = params};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};

    must(!shm_part.offer(&request, NULL, &world->info) && world->info);
    world->info->tx_attr->op_flags = world->info->rx_attr->op_flags = 0;
    struct open_args args = {.part = &shm_part,
                             .params = params,
                             .attr = world->info->fabric_attr,
                             .api_version = FI_VERSION(2, 6),
                             .abi = ABI_1_9};
    must(!shm_part.open_fabric(&args, &world->fabric, NULL));
    must(!fi_domain(world->fabric, world->info, &world->domain, NULL));
    must(!fi_cq_open(world->domain, &cq_attr, &world->cq, NULL));
    must(!fi_av_open(world->domain, &av_attr, &world->av, NULL));
    must(!fi_mr_reg(world->domain, region + ROOM, REGION, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0,
                    &world->mr, NULL));
    must(!fi_mr_reg(world->domain, far + ROOM, LARGE, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 2, 0,
                    &world->far_mr, NULL));
    info_free(hints);
    open_victim();
}

static void set_up(void)
{
    for (int i = 0; i < MODES; i++) {
        world = &worlds[i];
        open_world(modes[i]);
    }
}

static void drain(struct game *game)
{
    struct fi_cq_tagged_entry done;
    struct fi_cq_err_entry error;
    ssize_t rc;

    while ((rc = fi_cq_read(world->cq, &done, 1)) != -FI_EAGAIN) {
        uintptr_t context = (uintptr_t)done.op_context;

        if (rc != 1) {
            memset(&error, 0, sizeof(error));
            must(fi_cq_readerr(world->cq, &error, 0) == 1);
            context = (uintptr_t)error.op_context;
        }
#ifdef FUZZ_PLANTED
        /* As if a message with an odd tag were never told to be complete. */
        must(rc != 1 || !(done.flags & FI_RECV) || !(done.flags & FI_TAGGED) || !(done.tag & 1));
#endif
        must(context < OPS);
        if (context)
            must(++game->ended[context] == 1);
    }
}

/* ---- The commands ---- */

struct input {
    const uint8_t *at, *end;
};

static unsigned next(struct input *input)
{
    return input->at < input->end ? *input->at++ : 0;
}

/* A message of any kind and content. */
static void forge(struct game *game, struct input *input)
{
    struct shm_head head = {.op = (uint8_t)(next(input) % 12), .flags = (uint8_t)next(input)};
    char *body;

    head.bytes = (uint16_t)(next(input) % BODY);
    body = shm_tx_reserve(&game->tx, head.bytes);
    if (!body)
        return;
    for (unsigned i = 0; i < head.bytes; i++)
        body[i] = (char)next(input);
    shm_tx_publish(&game->tx, head);
}

/* Segments of memory that is there, is not, or ends too soon. */
static void *place(struct input *input, uint64_t *len)
{
    static const uint64_t lens[] = {LARGE,     ROOM,       0,         SHM_CHUNK + 1,
                                    LARGE / 2, 1ull << 40, UINT64_MAX};
    uint8_t *const places[] = {
        large + ROOM, inbox + ROOM,    (uint8_t *)memory + SHM_REGION,
        far + ROOM,   (uint8_t *)NULL, (uint8_t *)memory + SHM_REGION - ROOM};

    *len = lens[next(input) % (sizeof(lens) / sizeof(lens[0]))];
    return places[next(input) % (sizeof(places) / sizeof(places[0]))];
}

/* Messages up to the attaching, well formed: a message, a write, or the answer to a read. */
static void announce(struct game *game, struct input *input)
{
    unsigned what = next(input) % 3, count = 1 + next(input) % SHM_IOV_LIMIT;
    uint64_t words[3 + 2 + 2 * SHM_IOV_LIMIT], id = next(input);
    struct shm_head head = {0};
    unsigned at = 0;
    char *body;

    if (what == 0) {
        head.op = SHM_RTS;
        words[at++] = id | (uint64_t)count << 32;
        words[at++] = LARGE;
    } else if (what == 1) {
        head.op = SHM_FETCH;
        words[at++] = id | 1ull << 32 | (uint64_t)count << 40;
        words[at++] = 0;
        words[at++] = LARGE;
        words[at++] = 2;
    } else {
        head.op = SHM_WHERE;
        words[at++] = id | (uint64_t)count << 32;
        words[at++] = next(input);
    }
    for (unsigned i = 0; i < count; i++, at += 2)
        words[at] = (uint64_t)(uintptr_t)place(input, &words[at + 1]);
    head.bytes = (uint16_t)(at * sizeof(words[0]));
    body = shm_tx_reserve(&game->tx, head.bytes);
    if (!body)
        return;
    memcpy(body, words, head.bytes);
    shm_tx_publish(&game->tx, head);
}

static void scribble(struct game *game, struct input *input)
{
    unsigned at = next(input) << 8;

    at |= next(input);
    memory[at % (2 * SHM_HALF)] = (char)next(input);
}

static void victim_posts(struct game *game, struct input *input)
{
    struct fid_ep *ep = &world->victim->fid;
    uintptr_t op = game->posted + 1;
    uint8_t *room;
    unsigned what = next(input);

    if (op >= OPS)
        return;
    game->posted++;
    room = rooms[op] + ROOM;
    switch (what < NEW ? what % 9 : what) {
    case NEW: fi_recv(ep, inbox + ROOM, LARGE, NULL, FI_ADDR_UNSPEC, (void *)op); break;
    case NEW + 1: fi_read(ep, inbox + ROOM, LARGE, NULL, world->peer, 0, 1, (void *)op); break;
    case NEW + 2: fi_write(ep, large + ROOM, LARGE, NULL, world->peer, 0, 1, (void *)op); break;
    case 0: fi_recv(ep, room, ROOM, NULL, FI_ADDR_UNSPEC, (void *)op); break;
    case 1:
        fi_trecv(ep, room, ROOM, NULL, FI_ADDR_UNSPEC, what >> 3, what & 128 ? UINT64_MAX : 0,
                 (void *)op);
        break;
    case 2: fi_send(ep, room, ROOM, NULL, world->peer, (void *)op); break;
    case 3: fi_tsend(ep, large + ROOM, LARGE, NULL, world->peer, 7, (void *)op); break;
    case 4: fi_write(ep, room, ROOM, NULL, world->peer, 0, 1, (void *)op); break;
    case 5: fi_read(ep, room, ROOM, NULL, world->peer, 0, 1, (void *)op); break;
    case 6: {
        struct iovec iov = {room, ROOM};
        struct fi_msg msg = {
            .msg_iov = &iov, .iov_count = 1, .addr = world->peer, .context = (void *)op};

        fi_sendmsg(ep, &msg, FI_DELIVERY_COMPLETE);
        break;
    }
    case 7:
        fi_fetch_atomic(ep, room, 4, NULL, room, NULL, world->peer, 0, 1, FI_UINT64, FI_SUM,
                        (void *)op);
        break;
    default: fi_cancel(&ep->fid, (void *)(uintptr_t)(what >> 3)); break;
    }
}

/* Behaves: takes all that the victim sends, and says so. */
static void peer_reads(struct game *game)
{
    struct shm_head head = {0};
    const char *body;

    while (shm_rx_head(&game->rx, &head, &body) && shm_rx_fits(&game->rx, head)) {
        if (head.flags & SHM_IN_BULK) {
            game->rx.bulk_pos = game->link->tx.bulk_pos;
            atomic_store(&game->rx.credits->bulk, game->rx.bulk_pos);
        }
        shm_rx_consume(&game->rx, head);
    }
}

static void act(struct game *game, struct input *input)
{
    struct shm_credits *credits = game->rx.credits;
    unsigned command = next(input);

    switch (command < NEW ? command % 8 : NEW) {
    case NEW: announce(game, input); break;
    case 0:
    case 1: forge(game, input); break;
    case 2: scribble(game, input); break;
    case 3: victim_posts(game, input); break;
    case 4: drain(game); break;
    case 5: peer_reads(game); break;
    case 6: atomic_store(&credits->lines, atomic_load(&credits->lines) + next(input)); break;
    default: atomic_store(&credits->bulk, atomic_load(&credits->bulk) + 64 * next(input)); break;
    }
}

/* ---- One game ---- */

static struct shm_link *make_link(void)
{
    struct shm_ep *victim = world->victim;
    struct shm_link *link = aligned_alloc(64, (sizeof(*link) + 63) & ~(size_t)63);
    void *bell = mmap(NULL, SHM_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    must(link && bell != MAP_FAILED);
    memory = mmap(NULL, SHM_REGION + SHM_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                  -1, 0);
    must(memory != MAP_FAILED && !mprotect(memory + SHM_REGION, SHM_PAGE, PROT_NONE));
    memset(link, 0, sizeof(*link));
    link->ep = victim;
    link->doorbell = bell;
    link->fd = -1;
    link->addr = FI_ADDR_UNSPEC;
    link->refs = 1;
    link->pid = getpid();
    link->cross_read = link->cross_tells = true;
    /* As if one way had been measured: the other one is next. */
    link->fetching.samples[SHM_STREAM] = link->reading.samples[SHM_STREAM] = 1;
    link->name = strdup("fi_ns://peer");
    link->region = memory;
    list_init(&link->busy);
    list_init(&link->controls);
    list_init(&link->backlog);
    list_init(&link->streams);
    list_init(&link->ops);
    list_init(&link->held);
    list_init(&link->unasked);
    list_init(&link->undecided);
    list_init(&link->named);
    list_attach(&link->all, &victim->links);
    shm_tx_init(&link->tx, memory, 1);
    shm_rx_init(&link->rx, memory, 0);
    victim->numbers[0] = victim->peers[0] = link;
    shm_heat(link);
    return link;
}

/* As if the endpoint were new. */
static void reset(void)
{
    struct shm_ep *victim = world->victim;
    struct match_attr attr = {.size = 1024, .iov_limit = SHM_IOV_LIMIT};

    match_source_finish(&victim->base.source);
    match_destroy(victim->base.match);
    must(!match_create(&attr, &victim->base.match));
    match_set_binding(victim->base.match, &victim->base.binding);
    if (victim->direct)
        victim->direct = victim->base.match;
    match_source_init(&victim->base.source, victim->base.match, FI_ADDR_NOTAVAIL);
    victim->base.source.many = true;
    victim->base.source.srx.peer_ops = &shm_srx_peer_ops;
    must(list_empty(&victim->saved) && !victim->saved_bytes && !victim->tx_used);
    must(list_empty(&victim->held) && list_empty(&victim->crosses) && list_empty(&victim->busy) &&
         !victim->hot_count);
    shm_ops_finish(victim);
    shm_ops_init(victim);
}

static void set_guards(uint8_t *bytes, size_t len)
{
    memset(bytes, GUARD, ROOM);
    memset(bytes + ROOM + len, GUARD, ROOM);
}

static void check_guards(void)
{
    for (size_t i = 0; i < ROOM; i++) {
        must(region[i] == GUARD && region[ROOM + REGION + i] == GUARD);
        must(large[i] == GUARD && large[ROOM + LARGE + i] == GUARD);
        must(inbox[i] == GUARD && inbox[ROOM + LARGE + i] == GUARD);
        must(far[i] == GUARD && far[ROOM + LARGE + i] == GUARD);
        for (size_t op = 0; op < OPS; op++)
            must(rooms[op][i] == GUARD && rooms[op][2 * ROOM + i] == GUARD);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, data + size};
    struct game game = {.posted = 0};

    if (!world)
        set_up();
    world = &worlds[size ? data[size - 1] % MODES : 0];
    memset(region, GUARD, sizeof(region));
    memset(rooms, GUARD, sizeof(rooms));
    set_guards(large, LARGE);
    set_guards(inbox, LARGE);
    set_guards(far, LARGE);
    game.link = make_link();
    shm_tx_init(&game.tx, memory, 0);
    shm_rx_init(&game.rx, memory, 1);
    while (input.at < input.end && !list_empty(&world->victim->links))
        act(&game, &input);
    drain(&game);
    if (!list_empty(&world->victim->links))
        shm_link_fail(game.link, FI_ECONNRESET);
    drain(&game);
    must(list_empty(&world->victim->links) && list_empty(&world->victim->dead));
    munmap(memory + SHM_REGION, SHM_PAGE);
    reset();
    drain(&game);
    check_guards();
    return 0;
}
