/* SPDX-License-Identifier: BSD-2-Clause */
/* Each order of fi_endpoint(3) asked alone, small and large; other orders that the info hands back
 * are held to as well. Memory holds stamps, words that all have one value, which only grows. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_atomic.h>

#include "conf.h"

enum {
    REGION = 8 << 20, /* more than sockets and rings take at once */
    LARGE = 1 << 20,
    SMALL = 8,
    MANY = 60, /* rounds of small accesses, and of large ones */
    FEW = 6,
    TAG = 7
};

enum kind {
    RMA,
    ATOMIC,
    KINDS
};

/* The three orders that hold for two accesses. */
struct orders {
    uint64_t all, rma, atomic;
};

static const struct orders rar = {FI_ORDER_RAR, FI_ORDER_RMA_RAR, FI_ORDER_ATOMIC_RAR};
static const struct orders raw = {FI_ORDER_RAW, FI_ORDER_RMA_RAW, FI_ORDER_ATOMIC_RAW};
static const struct orders war = {FI_ORDER_WAR, FI_ORDER_RMA_WAR, FI_ORDER_ATOMIC_WAR};
static const struct orders waw = {FI_ORDER_WAW, FI_ORDER_RMA_WAW, FI_ORDER_ATOMIC_WAW};

struct scene {
    struct conf_pair *p;
    struct conf_region t;
    uint64_t order;
    uint64_t
        *local[2 * MANY]; /* the first of REGION bytes, then some of LARGE, the rest of SMALL */
    size_t largest[KINDS];
};

static void scene_open(struct scene *s, uint64_t order, uint64_t op_flags)
{
    size_t count = 0;

    s->p = conf_pair_open((struct conf_want){
        .caps = FI_MSG | FI_TAGGED | FI_RMA | (conf_offers->caps & FI_ATOMIC),
        .op_flags = op_flags,
        .msg_order = order,
    });
    s->order = s->p->home.info->tx_attr->msg_order;
    conf_check((s->order & order) == order, "%#lx is not there", (unsigned long)order);
    conf_region_open(s->p, &s->t, REGION, FI_REMOTE_READ | FI_REMOTE_WRITE);
    for (int i = 0; i < 2 * MANY; i++) {
        s->local[i] = malloc(!i ? REGION : i < 2 * FEW ? LARGE : SMALL);
        conf_check(s->local[i] != NULL, "no memory");
    }
    s->largest[RMA] = LARGE;
    s->largest[ATOMIC] = 0;
    if (conf_offers->caps & FI_ATOMIC &&
        !fi_fetch_atomicvalid(s->p->a.ep, FI_UINT64, FI_ATOMIC_READ, &count))
        s->largest[ATOMIC] = count * 8 < LARGE ? count * 8 : LARGE;
}

static void scene_close(struct scene *s)
{
    conf_quiet(s->p, 2);
    conf_region_close(&s->t);
    conf_pair_close(s->p);
    for (int i = 0; i < 2 * MANY; i++)
        free(s->local[i]);
}

static bool ordered(const struct scene *s, const struct orders *of, enum kind first,
                    enum kind second)
{
    return s->order & of->all || (first == RMA && second == RMA && s->order & of->rma) ||
           (first == ATOMIC && second == ATOMIC && s->order & of->atomic);
}

static void stamp(uint64_t *words, size_t len, uint64_t value)
{
    for (size_t i = 0; i < len / 8; i++)
        words[i] = value;
}

/* The least and the greatest of what is there. */
static void range(const uint64_t *words, size_t len, uint64_t *least, uint64_t *most)
{
    *least = UINT64_MAX;
    *most = 0;
    for (size_t i = 0; i < len / 8; i++) {
        *least = words[i] < *least ? words[i] : *least;
        *most = words[i] > *most ? words[i] : *most;
    }
}

static uint64_t *memory(const struct scene *s)
{
    return (uint64_t *)(void *)s->t.memory;
}

/* From and to the memory at `offset`; the context is the local memory. */
static void reads(struct scene *s, enum kind kind, uint64_t *to, size_t offset, size_t len)
{
    struct conf_ep *a = &s->p->a;
    uint64_t from = s->t.base + offset;

    if (kind == RMA)
        conf_post(s->p, fi_read(a->ep, to, len, NULL, a->peer, from, s->t.key, to));
    else
        conf_post(s->p, fi_fetch_atomic(a->ep, NULL, len / 8, NULL, to, NULL, a->peer, from,
                                        s->t.key, FI_UINT64, FI_ATOMIC_READ, to));
}

static void writes(struct scene *s, enum kind kind, uint64_t *from, size_t offset, size_t len)
{
    struct conf_ep *a = &s->p->a;
    uint64_t to = s->t.base + offset;

    if (kind == RMA)
        conf_post(s->p, fi_write(a->ep, from, len, NULL, a->peer, to, s->t.key, from));
    else
        conf_post(s->p, fi_atomic(a->ep, from, len / 8, NULL, a->peer, to, s->t.key, FI_UINT64,
                                  FI_ATOMIC_WRITE, from));
}

static void ends(struct scene *s, void *context, const char *what)
{
    struct conf_seen seen = conf_wait(s->p, &s->p->a, context);

    conf_check(!seen.err, "%s: %s", what, fi_strerror(seen.err));
}

/* ---- Accesses ---- */

/* Two accesses in turn, all outstanding together; the smaller one is of the end of the larger,
 * which comes last. */
struct turns {
    enum kind kind[2];
    size_t len[2], offset[2], common, rounds;
};

/* reader: which of the two. */
static void read_and_write(struct scene *s, const struct turns *t, int reader)
{
    const struct fi_ep_attr *attr = s->p->home.info->ep_attr;
    int writer = !reader;
    bool sees =
        ordered(s, &raw, t->kind[writer], t->kind[reader]) && t->common <= attr->max_order_raw_size;
    bool spares =
        ordered(s, &war, t->kind[reader], t->kind[writer]) && t->common <= attr->max_order_war_size;
    size_t skip = t->len[reader] - t->common;
    uint64_t least, most;

    stamp(memory(s), LARGE, 0);
    for (size_t i = 0; i < t->rounds; i++) {
        stamp(s->local[2 * i + 1], t->len[writer], i + 1);
        if (reader)
            writes(s, t->kind[0], s->local[2 * i + 1], t->offset[0], t->len[0]);
        reads(s, t->kind[reader], s->local[2 * i], t->offset[reader], t->len[reader]);
        if (!reader)
            writes(s, t->kind[1], s->local[2 * i + 1], t->offset[1], t->len[1]);
    }
    for (size_t i = 0; i < 2 * t->rounds; i++)
        ends(s, s->local[i], "an access");
    for (size_t i = 0; i < t->rounds; i++) {
        uint64_t before = i + (uint64_t)reader;

        range(s->local[2 * i] + skip / 8, t->common, &least, &most);
        conf_check(!sees || least >= before, "%zu and %zu B, kinds %d %d: read %zu saw write %lu",
                   t->len[0], t->len[1], (int)t->kind[0], (int)t->kind[1], i, (unsigned long)least);
        conf_check(!spares || most <= before,
                   "%zu and %zu B, kinds %d %d: read %zu saw write %lu behind it", t->len[0],
                   t->len[1], (int)t->kind[0], (int)t->kind[1], i, (unsigned long)most);
    }
}

/* The last of the writes stays. */
static void write_and_write(struct scene *s, const struct turns *t)
{
    const uint64_t *common = memory(s) + (t->offset[0] + t->len[0] - t->common) / 8;
    long long end = conf_now_ms() + CONF_TIMEOUT_MS;
    uint64_t least, most;

    if (t->common > s->p->home.info->ep_attr->max_order_waw_size)
        return;
    for (size_t i = 0; i < 2 * t->rounds; i++) {
        stamp(s->local[i], t->len[i % 2], i + 1);
        writes(s, t->kind[i % 2], s->local[i], t->offset[i % 2], t->len[i % 2]);
    }
    for (size_t i = 0; i < 2 * t->rounds; i++)
        ends(s, s->local[i], "a write");
    /* They may be complete before they are there. */
    do {
        conf_drive_pair(s->p);
        range(common, t->common, &least, &most);
    } while (least != 2 * t->rounds && conf_now_ms() < end);
    conf_check(least == 2 * t->rounds && most == least,
               "%zu and %zu B, kinds %d %d: write %lu came last", t->len[0], t->len[1],
               (int)t->kind[0], (int)t->kind[1], (unsigned long)least);
}

/* While the library may read it. */
__attribute__((no_sanitize("thread"), noinline)) static void add_one(uint64_t *word)
{
    ++*(volatile uint64_t *)word;
}

/* The first word changes meanwhile; a later read sees no older one. */
static void read_and_read(struct scene *s, const struct turns *t)
{
    uint64_t last = 0;

    *memory(s) = 0;
    for (size_t i = 0; i < 2 * t->rounds; i++) {
        reads(s, t->kind[i % 2], s->local[i], 0, t->len[i % 2]);
        add_one(memory(s));
        conf_drive_pair(s->p);
    }
    for (size_t i = 0; i < 2 * t->rounds; i++)
        ends(s, s->local[i], "a read");
    for (size_t i = 0; i < 2 * t->rounds; i++) {
        conf_check(s->local[i][0] >= last, "%zu and %zu B, kinds %d %d: read %zu saw %lu after %lu",
                   t->len[0], t->len[1], (int)t->kind[0], (int)t->kind[1], i,
                   (unsigned long)s->local[i][0], (unsigned long)last);
        last = s->local[i][0];
    }
}

/* The target takes all requests before the answer to the first has left; the word changes with each
 * look at what arrives. */
static void fetch_behind_large_reads(struct scene *s)
{
    uint64_t *first = s->local[0], *second = s->local[1], *fetched = s->local[2];

    *memory(s) = 0;
    reads(s, RMA, first, 0, REGION);
    reads(s, RMA, second, 0, LARGE);
    reads(s, ATOMIC, fetched, 0, SMALL);
    while (!conf_has(&s->p->a, first) || !conf_has(&s->p->a, second) ||
           !conf_has(&s->p->a, fetched)) {
        add_one(memory(s));
        conf_drive_pair(s->p);
    }
    ends(s, first, "a read");
    ends(s, second, "a read");
    ends(s, fetched, "a fetch");
    conf_check(*fetched >= *second, "the fetch saw %lu, the read before it %lu",
               (unsigned long)*fetched, (unsigned long)*second);
}

/* Small and large, in all ways. */
static void two_kinds(struct scene *s, const struct orders *of, enum kind first, enum kind second)
{
    for (int sizes = 0; sizes < 4; sizes++) {
        struct turns t = {.kind = {first, second}, .rounds = sizes ? FEW : MANY};
        size_t larger;

        t.len[0] = sizes & 1 ? s->largest[first] : SMALL;
        t.len[1] = sizes & 2 ? s->largest[second] : SMALL;
        larger = t.len[0] > t.len[1] ? t.len[0] : t.len[1];
        t.common = t.len[0] + t.len[1] - larger;
        t.offset[0] = larger - t.len[0];
        t.offset[1] = larger - t.len[1];
        if (of == &rar)
            read_and_read(s, &t);
        else if (of == &waw)
            write_and_write(s, &t);
        else
            read_and_write(s, &t, of == &raw);
    }
}

/* All pairs of accesses that the order is of. A fault that delays messages, and no accesses of
 * memory, takes atomics in packets of rxm out of their order with these. */
static void accesses(const struct orders *of, uint64_t order)
{
    struct scene s;

    conf_need("DELIVERY_COMPLETE");
    scene_open(&s, order, FI_DELIVERY_COMPLETE);
    for (int first = RMA; first < KINDS; first++)
        for (int second = RMA; second < KINDS; second++)
            if (s.largest[first] && s.largest[second] &&
                (first == second || !strstr(conf_spec, "delay=")) &&
                ordered(&s, of, (enum kind)first, (enum kind)second))
                two_kinds(&s, of, (enum kind)first, (enum kind)second);
    if (of == &rar && s.largest[ATOMIC] && ordered(&s, of, RMA, ATOMIC) &&
        !strstr(conf_spec, "delay="))
        fetch_behind_large_reads(&s);
    scene_close(&s);
}

static void accesses_alone(const struct orders *of)
{
    const uint64_t each[] = {of->all, of->rma, of->atomic};

    for (int i = 0; i < 3; i++)
        if (conf_offers->msg_order & each[i])
            accesses(of, each[i]);
}

static void read_after_read(void)
{
    accesses_alone(&rar);
}

static void read_after_write(void)
{
    accesses_alone(&raw);
}

static void write_after_read(void)
{
    accesses_alone(&war);
}

static void write_after_write(void)
{
    accesses_alone(&waw);
}

/* ---- Accesses and messages ---- */

static void receives(struct scene *s, void *in, size_t len)
{
    conf_post(s->p, fi_trecv(s->p->b.ep, in, len, NULL, FI_ADDR_UNSPEC, TAG, 0, in));
}

static void sends(struct scene *s, void *out, size_t len)
{
    conf_post(s->p, fi_tsend(s->p->a.ep, out, len, NULL, s->p->a.peer, TAG, out));
}

static void arrives(struct scene *s, void *in, const char *what)
{
    conf_check(!conf_wait(s->p, &s->p->b, in).err, "%s", what);
}

/* The receiver of the message changes the memory that the read before it fetches, and finds all of
 * the write. */
static void message_behind(struct scene *s, enum kind kind, size_t len, size_t message)
{
    uint64_t *access = s->local[0], *out = s->local[1], *in = s->local[2], least, most;

    if (s->order & FI_ORDER_SAR) {
        stamp(memory(s), len, 1);
        receives(s, in, message);
        reads(s, kind, access, 0, len);
        sends(s, out, message);
        arrives(s, in, "fi_trecv");
        stamp(memory(s), len, 2);
        ends(s, access, "a read");
        ends(s, out, "fi_tsend");
        range(access, len, &least, &most);
        conf_check(most == 1, "%zu B, kind %d: the read saw what came of the message of %zu B", len,
                   (int)kind, message);
    }
    if (s->order & FI_ORDER_SAW) {
        stamp(memory(s), len, 3);
        stamp(access, len, 4);
        receives(s, in, message);
        writes(s, kind, access, 0, len);
        sends(s, out, message);
        arrives(s, in, "fi_trecv");
        range(memory(s), len, &least, &most);
        conf_check(least == 4, "%zu B, kind %d: the message of %zu B came before the write", len,
                   (int)kind, message);
        ends(s, access, "a write");
        ends(s, out, "fi_tsend");
    }
}

/* A message that is received into the same memory: a read finds it there, a write stays over it. */
static void access_behind_small(struct scene *s, enum kind kind, size_t len)
{
    uint64_t *access = s->local[0], *out = s->local[1], least, most;

    if (s->order & FI_ORDER_RAS) {
        stamp(memory(s), len, 5);
        stamp(out, len, 6);
        receives(s, s->t.memory, len);
        sends(s, out, len);
        reads(s, kind, access, 0, len);
        ends(s, access, "a read");
        ends(s, out, "fi_tsend");
        arrives(s, s->t.memory, "fi_trecv");
        range(access, len, &least, &most);
        conf_check(least == 6, "%zu B, kind %d: the read overtook the message", len, (int)kind);
    }
    if (s->order & FI_ORDER_WAS) {
        stamp(out, len, 7);
        stamp(access, len, 8);
        receives(s, s->t.memory, len);
        sends(s, out, len);
        writes(s, kind, access, 0, len);
        arrives(s, s->t.memory, "fi_trecv");
        ends(s, access, "a write");
        ends(s, out, "fi_tsend");
        range(memory(s), len, &least, &most);
        conf_check(least == 8, "%zu B, kind %d: the message came after the write", len, (int)kind);
    }
}

/* The receiver knows of it, without another look at what arrives. */
static void peek(struct scene *s, const char *what)
{
    struct fi_msg_tagged msg = {.addr = FI_ADDR_UNSPEC, .tag = TAG, .context = s};

    conf_post(s->p, fi_trecvmsg(s->p->b.ep, &msg, FI_PEEK));
    conf_check(!conf_wait(s->p, &s->p->b, s).err, "%s", what);
}

static void become(struct scene *s, const volatile uint64_t *word, uint64_t value)
{
    for (long long end = conf_now_ms() + CONF_TIMEOUT_MS; *word != value;) {
        conf_drive_pair(s->p);
        conf_check(conf_now_ms() < end, "a word does not become %lu", (unsigned long)value);
    }
}

/* Of a large one only the header is in order (docs/decisions/order.md): when the access is done,
 * the message waits for its receive. */
static void access_behind_large(struct scene *s, enum kind kind)
{
    uint64_t *access = s->local[0], *out = s->local[1], *in = s->local[2];

    if (s->order & FI_ORDER_RAS) {
        *memory(s) = 11;
        *access = 12;
        sends(s, out, LARGE);
        reads(s, kind, access, 0, SMALL);
        become(s, access, 11); /* told of it may be later, where completions are in order */
        peek(s, "the read overtook the large message");
        receives(s, in, LARGE);
        ends(s, access, "a read");
        arrives(s, in, "fi_trecv");
        ends(s, out, "fi_tsend");
    }
    if (s->order & FI_ORDER_WAS) {
        *memory(s) = 9;
        *access = 10;
        sends(s, out, LARGE);
        writes(s, kind, access, 0, SMALL);
        become(s, memory(s), 10);
        peek(s, "the write overtook the large message");
        receives(s, in, LARGE);
        arrives(s, in, "fi_trecv");
        ends(s, access, "a write");
        ends(s, out, "fi_tsend");
    }
}

static void with_messages(uint64_t order)
{
    static const size_t messages[] = {0, 8, 20000, 300000};
    struct scene s;

    if (!(conf_offers->msg_order & order))
        return;
    conf_need("DELIVERY_COMPLETE");
    scene_open(&s, order, FI_DELIVERY_COMPLETE);
    for (int kind = RMA; kind < KINDS; kind++) {
        if (!s.largest[kind])
            continue;
        for (int i = 0; i < 4; i++) {
            message_behind(&s, (enum kind)kind, SMALL, messages[i]);
            message_behind(&s, (enum kind)kind, s.largest[kind], messages[i]);
        }
        if (kind == RMA)
            message_behind(&s, RMA, REGION, SMALL);
        access_behind_small(&s, (enum kind)kind, SMALL);
        access_behind_small(&s, (enum kind)kind, s.largest[kind] < 1024 ? s.largest[kind] : 1024);
        access_behind_large(&s, (enum kind)kind);
    }
    scene_close(&s);
}

static void messages_behind_accesses(void)
{
    with_messages(FI_ORDER_SAR);
    with_messages(FI_ORDER_SAW);
}

static void accesses_behind_messages(void)
{
    with_messages(FI_ORDER_RAS);
    with_messages(FI_ORDER_WAS);
}

/* Large and small in turn, the receives of the first half posted before, of the others after. */
static void messages_behind_messages(void)
{
    static const size_t sizes[] = {300000, 8, 20000, 8, 0, 3000};
    enum {
        COUNT = 2 * FEW
    };
    struct scene s;

    scene_open(&s, FI_ORDER_SAS, 0);
    for (int posted = 0; posted < 2; posted++) {
        char *in = malloc((size_t)COUNT * LARGE);

        conf_check(in != NULL, "no memory");
        for (size_t i = 0; posted && i < COUNT; i++)
            receives(&s, in + i * LARGE, LARGE);
        for (size_t i = 0; i < COUNT; i++) {
            conf_fill(s.local[i], sizes[i % 6], (unsigned)i);
            sends(&s, s.local[i], sizes[i % 6]);
        }
        for (size_t i = 0; !posted && i < COUNT; i++)
            receives(&s, in + i * LARGE, LARGE);
        for (size_t i = 0; i < COUNT; i++) {
            struct conf_seen seen = conf_wait(s.p, &s.p->b, in + i * LARGE);

            conf_check(!seen.err && seen.len == sizes[i % 6] &&
                           conf_holds(in + i * LARGE, seen.len, (unsigned)i),
                       "receive %zu: %zu B", i, (size_t)seen.len);
        }
        for (size_t i = 0; i < COUNT; i++)
            ends(&s, s.local[i], "fi_tsend");
        free(in);
    }
    scene_close(&s);
}

const struct conf_case conf_each_order_cases[] = {
    {"order: reads behind reads, each order alone", read_after_read},
    {"order: reads behind writes, each order alone", read_after_write},
    {"order: writes behind reads, each order alone", write_after_read},
    {"order: writes behind writes, each order alone", write_after_write},
    {"order: messages behind accesses, each order alone", messages_behind_accesses},
    {"order: accesses behind messages, each order alone", accesses_behind_messages},
    {"order: messages behind messages, large and small", messages_behind_messages},
    {0},
};
