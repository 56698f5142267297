/* SPDX-License-Identifier: BSD-2-Clause */
/* Any messages of peers about keys, between accesses of ours: what is sent is well formed, an
 * access gets the key that its peer told first, a peer the key of our region. Two branches, played
 * by hand; each step is a byte that says what it is, and what it needs (0 where the input has
 * ended). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "core/info/abi.h"
#include "layers/lnx/lnx_ep.h"
#include "layers/lnx/lnx_keys.h"
#include "layers/lnx/lnx_mr.h"
#include "layers/lnx/lnx_stranger.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    BRANCHES = 2,
    PEERS = 4,
    STRANGER = 16, /* numbers of strangers begin here */
    KEYS = 8,
    REGIONS = 4, /* that have the first of the keys */
    NAMES = 4,   /* of strangers, that the steps below use */
};

static const uint64_t key_mask = (UINT64_C(1) << LNX_KEY_BITS) - 1;

/* ---- The input ---- */

static struct {
    const uint8_t *at, *end;
} input;

static uint64_t take(size_t bytes)
{
    uint64_t value = 0;

    for (size_t i = 0; i < bytes; i++)
        value |= input.at < input.end ? (uint64_t)*input.at++ << 8 * i : 0;
    return value;
}

/* ---- What the branches are ---- */

static struct {
    struct lnx_domain domain;
    struct fabric fabric;
    struct lnx_av av;
    struct lnx_ep ep;
    struct fid_ep below[BRANCHES];
    struct fid_domain below_domain[BRANCHES];
    struct fid_av below_av[BRANCHES];
    struct fid_mr *region[REGIONS];
    bool full; /* the branches take nothing just now */
    size_t inserted, removed;
    size_t said[BRANCHES][NAMES]; /* length of the address that a stranger says */
    unsigned saying_branch;
    uint64_t saying_name;
    /* Questions to a peer, and its answers: 0, or an enum lnx_key_message, and the key. */
    struct {
        enum lnx_key_message state;
        uint64_t key;
    } told[BRANCHES][PEERS][KEYS];
} w;

static uint64_t key_of(unsigned number)
{
    return (number + 1) * UINT64_C(0x00a1b2c3d4e5f607) & key_mask;
}

static uint64_t below_key(unsigned branch, unsigned region)
{
    return UINT64_C(0xfedcba9876543210) + 16 * region + branch;
}

static unsigned branch_of(const struct fid_ep *fid)
{
    return (unsigned)(fid - w.below);
}

/* A message of ours. */
static ssize_t take_message(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                            fi_addr_t dest, uint64_t tag)
{
    enum lnx_key_message what = (tag & ~LNX_KEY_TAGS) >> LNX_KEY_BITS;
    uint64_t expected = FI_KEY_NOTAVAIL;

    must(!len && tag & LNX_KEY_TAGS && what >= LNX_KEY_ASKED && what <= LNX_KEY_ADDRESS);
    must(dest < PEERS || (dest >= STRANGER && dest < STRANGER + w.inserted));
    for (unsigned i = 0; i < REGIONS; i++) {
        if ((tag & key_mask) == key_of(i))
            expected = below_key(branch_of(fid), i);
    }
    if (what == LNX_KEY_ASKED)
        must(data && data < 1 << LNX_STRANGER_BITS);
    if (what == LNX_KEY_TOLD)
        must(expected != FI_KEY_NOTAVAIL && data == expected);
    if (what == LNX_KEY_UNKNOWN)
        must(expected == FI_KEY_NOTAVAIL && !data);
    return w.full ? -FI_EAGAIN : 0;
}

static int give_name(struct fid *fid, void *addr, size_t *len)
{
    memcpy(addr, "self", 5);
    *len = 5;
    return 0;
}

static int insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr,
                  uint64_t flags, void *context)
{
    const unsigned char *bytes = addr;

    /* A text ends where the stranger said. */
    must(!bytes[LNX_BRANCH_ADDR_MAX - 1]);
    for (size_t i = w.saying_name < NAMES ? w.said[w.saying_branch][w.saying_name]
                                          : LNX_BRANCH_ADDR_MAX;
         i < LNX_BRANCH_ADDR_MAX; i++)
        must(!bytes[i]);
    *fi_addr = STRANGER + w.inserted++;
    return 1;
}

static int remove_one(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
    must(count == 1 && *fi_addr >= STRANGER && *fi_addr < STRANGER + w.inserted);
    w.removed++;
    return 0;
}

static int close_region(struct fid *fid)
{
    free(fid);
    return 0;
}

static struct fi_ops region_ops = {.size = sizeof(region_ops), .close = close_region};

static int register_region(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                           struct fid_mr **mr)
{
    unsigned branch = (unsigned)(object_of(fid, struct fid_domain, fid) - w.below_domain);
    unsigned region = 0;

    while (key_of(region) != attr->requested_key)
        region++;
    *mr = calloc(1, sizeof(**mr));
    must(*mr != NULL);
    fid_init(&(*mr)->fid, FI_CLASS_MR, NULL, &region_ops);
    (*mr)->key = below_key(branch, region);
    return 0;
}

static struct fi_ops_tagged tagged_ops = {.size = sizeof(tagged_ops), .injectdata = take_message};
static struct fi_ops_cm cm_ops = {.size = sizeof(cm_ops), .getname = give_name};
static struct fi_ops_av av_ops = {.size = sizeof(av_ops), .insert = insert, .remove = remove_one};
static struct fi_ops_mr mr_ops = {.size = sizeof(mr_ops), .regattr = register_region};

static void open_world(void)
{
    struct fi_domain_attr manual = {.threading = FI_THREAD_DOMAIN,
                                    .progress = FI_PROGRESS_MANUAL,
                                    .control_progress = FI_PROGRESS_CONTROL_UNIFIED};
    static char bytes[8];

    memset(&w, 0, sizeof(w));
    w.domain.base.fabric = &w.fabric;
    w.fabric.abi = ABI_1_9;
    w.domain.count = BRANCHES;
    w.domain.face = SIZE_MAX;
    w.domain.own_keys = true;
    must(!progress_create(&manual, "lnx", NULL, &w.domain.progress));
    must(!lnx_keys_init(&w.domain.keys, w.domain.progress));
    w.domain.base.fid.fid.fclass = FI_CLASS_DOMAIN;
    w.domain.base.fid.mr = &lnx_mr_ops;
    lnx_answers_init(&w.av.answers);
    list_init(&w.av.strangers);
    w.ep.domain = &w.domain;
    w.ep.av = &w.av;
    w.ep.count = BRANCHES;
    for (unsigned i = 0; i < BRANCHES; i++) {
        w.below[i].tagged = &tagged_ops;
        w.below[i].cm = &cm_ops;
        w.ep.branch[i].ep = &w.below[i];
        w.ep.branch[i].target = (struct op_target){.fid = &w.below[i]};
        w.below_domain[i].mr = &mr_ops;
        w.domain.branch[i].domain = &w.below_domain[i];
        w.below_av[i].ops = &av_ops;
        w.av.branch[i].av = &w.below_av[i];
    }
    for (unsigned i = 0; i < REGIONS; i++)
        must(!fi_mr_reg(&w.domain.base.fid, bytes, sizeof(bytes), FI_REMOTE_WRITE, 0, key_of(i), 0,
                        &w.region[i], NULL));
}

static void close_world(void)
{
    must(w.domain.keys.asked_count <= LNX_KEYS_WAITING);
    must(w.av.stranger_count <= LNX_STRANGERS);
    must(w.av.answers.count <= LNX_KEYS_KNOWN);
    lnx_keys_leave(&w.ep);
    must(list_empty(&w.domain.keys.asked) && !w.domain.keys.asked_count);
    for (unsigned i = 0; i < REGIONS; i++)
        must(!fi_close(&w.region[i]->fid));
    lnx_strangers_finish(&w.av);
    must(w.removed == w.inserted);
    lnx_answers_finish(&w.av.answers);
    lnx_keys_finish(&w.domain.keys, w.domain.progress);
    progress_release(w.domain.progress);
    for (unsigned i = 0; i < BRANCHES; i++)
        free(w.av.branch[i].up);
}

/* ---- Steps ---- */

/* The first answer counts, to a question of ours. */
static void note_told(unsigned branch, fi_addr_t addr, uint64_t tag, uint64_t data)
{
    enum lnx_key_message what = (tag & ~LNX_KEY_TAGS) >> LNX_KEY_BITS;

    for (unsigned i = 0; i < KEYS && addr < PEERS; i++) {
        bool open = w.told[branch][addr][i].state == LNX_KEY_ASKED;

#ifdef FUZZ_PLANTED
        /* As if the last answer counted. */
        open = open || w.told[branch][addr][i].state == LNX_KEY_TOLD;
#endif
        if ((tag & key_mask) != key_of(i) || !open ||
            (what != LNX_KEY_TOLD && what != LNX_KEY_UNKNOWN))
            continue;
        w.told[branch][addr][i].state = what;
        w.told[branch][addr][i].key = data;
    }
}

static void note_said(unsigned branch, uint64_t tag)
{
    uint64_t name = tag >> 32 & ((1 << LNX_STRANGER_BITS) - 1);
    uint32_t len = (uint32_t)tag;

    w.saying_branch = branch;
    w.saying_name = name;
    if (name < NAMES && !(tag >> 49 & 0x7f) && len && len < LNX_BRANCH_ADDR_MAX &&
        lnx_stranger_addr(&w.av, branch, (uint32_t)name) == FI_ADDR_UNSPEC)
        w.said[branch][name] = len;
}

static void come(unsigned branch, uint64_t tag, uint64_t data)
{
    uint64_t from = take(1) % (PEERS + 2);
    struct fi_peer_rx_entry message = {
        .addr = from < PEERS    ? from
                : from == PEERS ? FI_ADDR_UNSPEC
                                : FI_ADDR_NOTAVAIL,
        .tag = tag | LNX_KEY_TAGS,
        .cq_data = data,
    };

    if ((message.tag & ~LNX_KEY_TAGS) >> LNX_KEY_BITS == LNX_KEY_ADDRESS)
        note_said(branch, tag);
    note_told(branch, message.addr, message.tag, data);
    lnx_keys_message(&w.ep, branch, &message);
}

static void come_likely(unsigned branch)
{
    uint64_t what = take(1) % (LNX_KEY_ADDRESS + 2), key = key_of(take(1) % KEYS);

    come(branch, what << LNX_KEY_BITS | key, take(1) % 2 ? take(1) % NAMES : take(8));
}

static void come_address(unsigned branch)
{
    uint32_t name = (uint32_t)take(1) % NAMES;
    unsigned number = (unsigned)take(1) % 128;
    uint64_t tag = lnx_stranger_message(name, number, (uint32_t)take(number ? 4 : 1));

    come(branch, (uint64_t)LNX_KEY_ADDRESS << LNX_KEY_BITS | tag, 0);
}

static void access_memory(unsigned branch)
{
    unsigned peer = (unsigned)take(1) % PEERS, key = (unsigned)take(1) % KEYS;
    const struct lnx_path path = {.addr = peer, .branch = branch};
    struct fi_rma_iov rma = {.key = key_of(key)};
    struct op op = {.group = OP_GROUP_RMA, .rma = &rma, .rma_count = 1};
    enum lnx_key_message state = w.told[branch][peer][key].state;
    ssize_t rc = lnx_keys_translate(&w.ep, &path, &op, &w.ep.remote);

    if (!state || state == LNX_KEY_ASKED) {
        must(rc == -FI_EAGAIN);
        if (!state && !w.full)
            w.told[branch][peer][key].state = LNX_KEY_ASKED;
        return;
    }
    must(!rc && op.rma_count == 1);
    must(op.rma->key == (state == LNX_KEY_TOLD ? w.told[branch][peer][key].key : rma.key));
    if (state == LNX_KEY_UNKNOWN)
        w.told[branch][peer][key].state = 0;
}

static void forget(unsigned branch)
{
    unsigned peer = (unsigned)take(1) % PEERS;

    lnx_answers_forget(&w.av.answers, branch, peer);
    memset(w.told[branch][peer], 0, sizeof(w.told[branch][peer]));
}

static void know(unsigned branch)
{
    unsigned char addr[LNX_BRANCH_ADDR_MAX] = {0};
    size_t len = take(1);

    for (size_t i = 0; i < len; i++)
        addr[i] = (unsigned char)take(1);
    lnx_stranger_forget(&w.av, branch, addr);
}

static void step(void)
{
    unsigned what = (unsigned)take(1), branch = what >> 7;
    uint64_t tag;

    switch (what % 8) {
    case 0:
        tag = take(8);
        come(branch, tag, take(8));
        break;
    case 1: come_likely(branch); break;
    case 2: come_address(branch); break;
    case 3: access_memory(branch); break;
    case 4: progress_poll(w.domain.progress); break;
    case 5: forget(branch); break;
    case 6: know(branch); break;
    default: w.full = !w.full; break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* An exact copy, so that a read past the end is seen. */
    uint8_t *copy = calloc(size ? size : 1, 1);

    must(!!copy);
    if (size)
        memcpy(copy, data, size);
    input.at = copy;
    input.end = copy + size;
    open_world();
    while (input.at < input.end)
        step();
    close_world();
    free(copy);
    return 0;
}
