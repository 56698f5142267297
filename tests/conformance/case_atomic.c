/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_atomic(3): every operation on every datatype, and what the manual says around them. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_atomic.h>

#include "atomic_sample.h"
#include "conf.h"
#include "offers.h"

enum {
    REGION = 64 << 10,
};

static const uint64_t kinds[] = {0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC};

/* A region of b that a may reach, and how a names its start. */
struct target {
    char *memory;
    struct fid_mr *mr;
    uint64_t base, key;
};

static struct conf_pair *open_pair(struct conf_want want)
{
    conf_need("ATOMIC");
    want.caps |= FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;
    return conf_pair_open(want);
}

static void target_open(struct conf_pair *p, struct target *t, uint64_t access)
{
    int mode = p->home.info->domain_attr->mr_mode;

    t->memory = aligned_alloc(64, REGION);
    memset(t->memory, 0, REGION);
    conf_check(!fi_mr_reg(p->home.domain, t->memory, REGION, access, 0, 0x77, 0, &t->mr, NULL),
               "fi_mr_reg");
    if (mode & FI_MR_ENDPOINT) {
        conf_check(!fi_mr_bind(t->mr, &p->b.ep->fid, 0), "fi_mr_bind");
        conf_check(!fi_mr_enable(t->mr), "fi_mr_enable");
    }
    t->base = mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)t->memory : 0;
    t->key = fi_mr_key(t->mr);
}

static void target_close(struct target *t)
{
    conf_check(!fi_close(&t->mr->fid), "fi_close(mr)");
    free(t->memory);
}

static int valid(struct fid_ep *ep, uint64_t kind, enum fi_datatype datatype, enum fi_op op,
                 size_t *count)
{
    switch (kind) {
    case FI_FETCH_ATOMIC: return fi_fetch_atomicvalid(ep, datatype, op, count);
    case FI_COMPARE_ATOMIC: return fi_compare_atomicvalid(ep, datatype, op, count);
    default: return fi_atomicvalid(ep, datatype, op, count);
    }
}

/* Operation of a kind at `offset` of t; compare and result only as the kind has them. */
static ssize_t post(struct conf_pair *p, const struct target *t, uint64_t offset, uint64_t kind,
                    enum fi_datatype datatype, enum fi_op op, size_t count, const void *operand,
                    const void *compare, void *result, void *context)
{
    uint64_t addr = t->base + offset;

    switch (kind) {
    case FI_FETCH_ATOMIC:
        return fi_fetch_atomic(p->a.ep, operand, count, NULL, result, NULL, p->a.peer, addr, t->key,
                               datatype, op, context);
    case FI_COMPARE_ATOMIC:
        return fi_compare_atomic(p->a.ep, operand, count, NULL, compare, NULL, result, NULL,
                                 p->a.peer, addr, t->key, datatype, op, context);
    default:
        return fi_atomic(p->a.ep, operand, count, NULL, p->a.peer, addr, t->key, datatype, op,
                         context);
    }
}

static struct conf_seen ended(struct conf_pair *p, void *context, uint64_t kind)
{
    struct conf_seen seen = conf_wait(p, &p->a, context);

    if (!seen.err)
        conf_check(seen.flags & FI_ATOMIC && seen.flags & (kind ? FI_READ : FI_WRITE),
                   "flags %#lx of kind %#lx", (unsigned long)seen.flags, (unsigned long)kind);
    return seen;
}

static void check_bytes(const char *what, enum fi_datatype datatype, enum fi_op op, uint64_t kind,
                        const char *got, const char *want, size_t len)
{
    for (size_t i = 0; i < len; i++)
        conf_check(got[i] == want[i],
                   "%s: datatype %d, op %d, kind %#lx: byte %zu (element %zu) is %#x, not %#x",
                   what, (int)datatype, (int)op, (unsigned long)kind, i,
                   i / atomic_size_of(datatype), (unsigned char)got[i], (unsigned char)want[i]);
}

static void check_one(struct conf_pair *p, struct target *t, enum fi_datatype datatype,
                      enum fi_op op, uint64_t kind, uint64_t offset)
{
    static struct atomic_sample s;
    static char result[ATOMIC_MANY * ATOMIC_BYTES + 1];
    size_t count = 0, len;
    struct conf_seen seen;

    conf_check(!valid(p->a.ep, kind, datatype, op, &count) && count,
               "datatype %d, op %d, kind %#lx is not valid", (int)datatype, (int)op,
               (unsigned long)kind);
    count = count < ATOMIC_MANY ? count : ATOMIC_MANY;
    len = count * atomic_size_of(datatype);
    atomic_sample_fill(&s, datatype, op);
    memset(t->memory, 0x5a, offset + len + 64);
    memcpy(t->memory + offset, s.old, len);
    memset(result, 0xa5, sizeof(result));
    conf_post(p, post(p, t, offset, kind, datatype, op, count,
                      op == FI_ATOMIC_READ ? NULL : s.operand, s.compare, result, result));
    seen = ended(p, result, kind);
    conf_check(!seen.err, "datatype %d, op %d, kind %#lx: %s", (int)datatype, (int)op,
               (unsigned long)kind, fi_strerror(seen.err));
    if (kind)
        check_bytes("result", datatype, op, kind, result, s.old, len);
    conf_check(result[kind ? len : 0] == (char)0xa5, "bytes behind the result were written");
    /* A plain atomic may be complete before it is done; a fetch behind it is ordered. */
    if (!kind) {
        conf_post(p, post(p, t, offset, FI_FETCH_ATOMIC, datatype, FI_ATOMIC_READ, count, NULL,
                          NULL, result, result));
        conf_check(!ended(p, result, FI_FETCH_ATOMIC).err, "read behind an atomic");
        check_bytes("read back", datatype, op, kind, result, s.now, len);
    }
    check_bytes("target", datatype, op, kind, t->memory + offset, s.now, len);
    conf_check(t->memory[offset + len] == 0x5a && (!offset || t->memory[offset - 1] == 0x5a),
               "bytes around the target were written");
}

/* The operations and datatypes that every wire has; later ones are missing in some. */
static bool is_held_to(int datatype, int op)
{
    if (datatype <= FI_FLOAT_COMPLEX && op <= FI_MSWAP)
        return true;
    if (offers_lacks(conf_offers, "wide_atomics"))
        return false;
    if (datatype == FI_LONG_DOUBLE_COMPLEX && op >= FI_CSWAP &&
        offers_lacks(conf_offers, "wide_compares"))
        return false;
    return (datatype != FI_INT128 && datatype != FI_UINT128) ||
           !offers_lacks(conf_offers, "wide_integers");
}

static void every_operation(void)
{
    struct conf_pair *p = open_pair((struct conf_want){0});
    struct target t;

    target_open(p, &t, FI_REMOTE_READ | FI_REMOTE_WRITE);
    for (int datatype = 0; datatype < ATOMIC_DATATYPES; datatype++)
        for (int op = 0; op < ATOMIC_OPS; op++)
            for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
                if (is_held_to(datatype, op) && atomic_has_meaning(datatype, op, kinds[k]))
                    check_one(p, &t, datatype, op, kinds[k], 128);
    conf_quiet(p, 5);
    target_close(&t);
    conf_pair_close(p);
}

static void unaligned(void)
{
    struct conf_pair *p = open_pair((struct conf_want){0});
    struct target t;

    target_open(p, &t, FI_REMOTE_READ | FI_REMOTE_WRITE);
    for (uint64_t offset = 129; offset < 136; offset += 2) {
        check_one(p, &t, FI_UINT64, FI_SUM, FI_FETCH_ATOMIC, offset);
        check_one(p, &t, FI_INT32, FI_CSWAP, FI_COMPARE_ATOMIC, offset);
        check_one(p, &t, FI_DOUBLE, FI_MAX, 0, offset);
        if (!valid(p->a.ep, FI_FETCH_ATOMIC, FI_UINT128, FI_BXOR, &(size_t){0}))
            check_one(p, &t, FI_UINT128, FI_BXOR, FI_FETCH_ATOMIC, offset);
    }
    target_close(&t);
    conf_pair_close(p);
}

/* ---- What the valid functions say is so ---- */

static void valid_tells_the_truth(void)
{
    struct conf_pair *p = open_pair((struct conf_want){0});
    static char local[ATOMIC_BYTES], other[ATOMIC_BYTES];
    struct fi_atomic_attr attr;
    struct target t;

    target_open(p, &t, FI_REMOTE_READ | FI_REMOTE_WRITE);
    for (int datatype = 0; datatype <= ATOMIC_DATATYPES; datatype++) {
        enum fi_datatype type = datatype == ATOMIC_DATATYPES ? FI_VOID : (enum fi_datatype)datatype;

        for (int op = 0; op <= ATOMIC_OPS; op++) {
            for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
                enum fi_op operation = op == ATOMIC_OPS ? FI_NOOP : (enum fi_op)op;
                size_t count = 0;
                int rc = valid(p->a.ep, kinds[k], type, operation, &count);
                int query = fi_query_atomic(p->home.domain, type, operation, &attr, kinds[k]);

                conf_check(rc == query, "datatype %d, op %d: valid %d, query %d", datatype, op, rc,
                           query);
                if (!rc) {
                    conf_check(attr.count == count && attr.size == atomic_size_of(type),
                               "datatype %d: count %zu and %zu, size %zu", datatype, count,
                               attr.count, attr.size);
                    continue;
                }
                conf_check(rc == -FI_EOPNOTSUPP, "datatype %d, op %d: %d", datatype, op, rc);
                do {
                    conf_drive_pair(p);
                    rc = (int)post(p, &t, 0, kinds[k], type, operation, 1, local, local, other,
                                   NULL);
                } while (rc == -FI_EAGAIN);
                conf_check(rc == -FI_EOPNOTSUPP || rc == -FI_EINVAL,
                           "datatype %d, op %d, kind %#lx is not valid, and posting it gives %d",
                           datatype, op, (unsigned long)kinds[k], rc);
            }
        }
    }
    conf_check(!fi_atomicvalid(p->a.ep, FI_UINT64, FI_SUM, &(size_t){0}), "fi_atomicvalid");
    conf_check(fi_query_atomic(p->home.domain, FI_UINT64, FI_SUM, &attr,
                               FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC) < 0,
               "both kinds at once");
    attr.count = 0;
    conf_check(fi_query_atomic(p->home.domain, FI_UINT64, FI_SUM, &attr, FI_TAGGED) < 0 ||
                   attr.count > 0,
               "atomics to tagged buffers are there or not");
    conf_quiet(p, 5);
    target_close(&t);
    conf_pair_close(p);
}

static void largest_count(void)
{
    struct conf_pair *p = open_pair((struct conf_want){0});
    size_t count = 0;
    uint64_t *local, *compare, *result, *memory;
    struct target t;
    ssize_t rc;

    target_open(p, &t, FI_REMOTE_READ | FI_REMOTE_WRITE);
    memory = (uint64_t *)(void *)t.memory;
    conf_check(!valid(p->a.ep, FI_COMPARE_ATOMIC, FI_UINT64, FI_CSWAP, &count), "not valid");
    conf_check(count <= REGION / sizeof *local - 1, "count %zu", count);
    local = calloc(count + 1, sizeof *local);
    compare = calloc(count + 1, sizeof *compare);
    result = calloc(count + 1, sizeof *result);
    for (size_t i = 0; i < count; i++) {
        memory[i] = i;
        compare[i] = i % 3 ? i : i + 1;
        local[i] = ~i;
    }
    conf_post(p, post(p, &t, 0, FI_COMPARE_ATOMIC, FI_UINT64, FI_CSWAP, count, local, compare,
                      result, result));
    conf_check(!ended(p, result, FI_COMPARE_ATOMIC).err, "the largest compare-and-swap");
    for (size_t i = 0; i < count; i++)
        conf_check(result[i] == i && memory[i] == (i % 3 ? ~i : i), "element %zu", i);
    rc = post(p, &t, 0, FI_COMPARE_ATOMIC, FI_UINT64, FI_CSWAP, count + 1, local, compare, result,
              NULL);
    conf_check(rc == -FI_EMSGSIZE || rc == -FI_EINVAL, "one element too many: %zd", rc);
    rc = post(p, &t, 0, 0, FI_UINT64, FI_SUM, 0, local, NULL, NULL, NULL);
    conf_check(rc < 0 && rc != -FI_EAGAIN, "no element: %zd", rc);
    free(local);
    free(compare);
    free(result);
    target_close(&t);
    conf_pair_close(p);
}

/* ---- The forms of the calls ---- */

/* Three local segments, and two of everything else. */
struct segments {
    struct conf_pair *pair;
    struct target target;
    uint32_t local[6], compare[6], got[6];
    struct fi_ioc iov[3], comparev[2], resultv[2];
    struct fi_rma_ioc remote[2];
    struct fi_msg_atomic msg;
    uint32_t *at[6]; /* the elements of the target */
};

static struct segments *segments_open(void)
{
    struct segments *s = calloc(1, sizeof *s);
    const struct fi_tx_attr *attr;
    uint64_t offset;

    s->pair = open_pair((struct conf_want){0});
    attr = s->pair->home.info->tx_attr;
    conf_check(attr->iov_limit >= 3, "iov_limit");
    target_open(s->pair, &s->target, FI_REMOTE_READ | FI_REMOTE_WRITE);
    s->iov[0] = (struct fi_ioc){s->local, 1};
    s->iov[1] = (struct fi_ioc){s->local + 1, 3};
    s->iov[2] = (struct fi_ioc){s->local + 4, 2};
    s->comparev[0] = (struct fi_ioc){s->compare, 4};
    s->comparev[1] = (struct fi_ioc){s->compare + 4, 2};
    s->resultv[0] = (struct fi_ioc){s->got, 2};
    s->resultv[1] = (struct fi_ioc){s->got + 2, 4};
    offset = attr->rma_iov_limit > 1 ? 1024 : 64 + 16;
    s->remote[0] = (struct fi_rma_ioc){s->target.base + 64, offset == 1024 ? 4 : 6, s->target.key};
    s->remote[1] = (struct fi_rma_ioc){s->target.base + offset, 2, s->target.key};
    s->msg = (struct fi_msg_atomic){.msg_iov = s->iov,
                                    .iov_count = 3,
                                    .addr = s->pair->a.peer,
                                    .rma_iov = s->remote,
                                    .rma_iov_count = offset == 1024 ? 2 : 1,
                                    .datatype = FI_UINT32,
                                    .op = FI_SUM,
                                    .context = s->got};
    for (uint32_t i = 0; i < 6; i++) {
        s->local[i] = i + 1;
        s->at[i] = (uint32_t *)(void *)(s->target.memory + (i < 4 ? 64 : offset)) + i % 4;
        *s->at[i] = 10 * (i + 1);
    }
    return s;
}

static void segments_close(struct segments *s)
{
    conf_quiet(s->pair, 5);
    target_close(&s->target);
    conf_pair_close(s->pair);
    free(s);
}

static void segments_of_messages(void)
{
    struct segments *s = segments_open();
    struct conf_pair *p = s->pair;

    conf_post(p, fi_fetch_atomicmsg(p->a.ep, &s->msg, s->resultv, NULL, 2, FI_COMPLETION));
    conf_check(!ended(p, s->got, FI_FETCH_ATOMIC).err, "fi_fetch_atomicmsg");
    for (uint32_t i = 0; i < 6; i++)
        conf_check(s->got[i] == 10 * (i + 1), "fetched element %u: %u", i, s->got[i]);
    conf_post(p, fi_atomicmsg(p->a.ep, &s->msg, FI_COMPLETION | FI_DELIVERY_COMPLETE));
    conf_check(!ended(p, s->got, 0).err, "fi_atomicmsg");
    for (uint32_t i = 0; i < 6; i++)
        conf_check(*s->at[i] == 12 * (i + 1), "summed element %u", i);
    for (uint32_t i = 0; i < 6; i++)
        s->compare[i] = i % 2 ? 12 * (i + 1) : 0;
    s->msg.op = FI_CSWAP;
    conf_post(p, fi_compare_atomicmsg(p->a.ep, &s->msg, s->comparev, NULL, 2, s->resultv, NULL, 2,
                                      FI_COMPLETION | (conf_offers->caps & FI_FENCE)));
    conf_check(!ended(p, s->got, FI_COMPARE_ATOMIC).err, "fi_compare_atomicmsg");
    for (uint32_t i = 0; i < 6; i++)
        conf_check(*s->at[i] == (i % 2 ? i + 1 : 12 * (i + 1)) && s->got[i] == 12 * (i + 1),
                   "swapped element %u", i);
    s->msg.rma_iov_count = 1;
    s->remote[0].count = 5;
    s->msg.op = FI_SUM;
    conf_check(fi_atomicmsg(p->a.ep, &s->msg, 0) == -FI_EINVAL, "other lengths here and there");
    segments_close(s);
}

static void segments_of_vectors(void)
{
    struct segments *s = segments_open();
    struct conf_pair *p = s->pair;
    uint64_t addr = s->target.base + 4096, key = s->target.key;

    conf_post(
        p, fi_atomicv(p->a.ep, s->iov, NULL, 3, p->a.peer, addr, key, FI_UINT32, FI_BOR, s->got));
    conf_check(!ended(p, s->got, 0).err, "fi_atomicv");
    conf_post(p, fi_fetch_atomicv(p->a.ep, NULL, NULL, 0, s->resultv, NULL, 2, p->a.peer, addr, key,
                                  FI_UINT32, FI_ATOMIC_READ, s->got));
    conf_check(!ended(p, s->got, FI_FETCH_ATOMIC).err, "fi_fetch_atomicv");
    conf_check(!memcmp(s->got, s->local, sizeof s->got), "read back");
    memset(s->compare, 0xff, 12);
    memset(s->local, 0x55, sizeof s->local);
    conf_post(p, fi_compare_atomicv(p->a.ep, s->iov, NULL, 3, s->comparev, NULL, 2, s->resultv,
                                    NULL, 2, p->a.peer, addr, key, FI_UINT32, FI_MSWAP, s->got));
    conf_check(!ended(p, s->got, FI_COMPARE_ATOMIC).err, "fi_compare_atomicv");
    for (uint32_t i = 0; i < 6; i++) {
        uint32_t now = ((uint32_t *)(void *)(s->target.memory + 4096))[i];

        conf_check(s->got[i] == i + 1 && now == (i < 3 ? 0x55555555 : i + 1), "element %u: %u", i,
                   now);
    }
    segments_close(s);
}

static void injected(void)
{
    struct conf_pair *p = open_pair((struct conf_want){.cq_flags = FI_SELECTIVE_COMPLETION});
    struct fi_rma_ioc remote = {.count = 1};
    uint64_t value, sum = 0, got = 0;
    struct fi_ioc iov = {&value, 1};
    struct fi_msg_atomic msg = {.msg_iov = &iov,
                                .iov_count = 1,
                                .rma_iov = &remote,
                                .rma_iov_count = 1,
                                .datatype = FI_UINT64,
                                .op = FI_SUM};
    struct target t;
    ssize_t rc;

    target_open(p, &t, FI_REMOTE_READ | FI_REMOTE_WRITE);
    remote.addr = t.base;
    remote.key = t.key;
    msg.addr = p->a.peer;
    for (uint64_t i = 1; i <= 200; i++) {
        value = i;
        sum += i;
        if (i % 2)
            conf_post(p, fi_inject_atomic(p->a.ep, &value, 1, p->a.peer, t.base, t.key, FI_UINT64,
                                          FI_SUM));
        else
            conf_post(p, fi_atomicmsg(p->a.ep, &msg, FI_INJECT));
        value = UINT64_MAX / 2;
    }
    msg.context = &got;
    msg.op = FI_ATOMIC_READ;
    conf_post(p,
              fi_fetch_atomicmsg(p->a.ep, &msg, &(struct fi_ioc){&got, 1}, NULL, 1, FI_COMPLETION));
    conf_check(!ended(p, &got, FI_FETCH_ATOMIC).err, "read");
    conf_check(got == sum, "sum %lu, not %lu", (unsigned long)got, (unsigned long)sum);
    do {
        static char large[REGION];

        conf_drive_pair(p);
        rc = fi_inject_atomic(p->a.ep, large, p->home.info->tx_attr->inject_size + 1, p->a.peer,
                              t.base, t.key, FI_UINT8, FI_BOR);
    } while (rc == -FI_EAGAIN);
    conf_check(rc < 0, "an inject larger than inject_size is taken");
    conf_quiet(p, 5); /* no completion of any of them */
    target_close(&t);
    conf_pair_close(p);
}

/* ---- Together with others ---- */

enum {
    ROUNDS = 300
};

/* Fetch-and-adds of two initiators on one word: every value once, each initiator's growing. */
static void two_initiators(void)
{
    struct conf_pair *p = open_pair((struct conf_want){0});
    struct conf_ep *c = calloc(1, sizeof *c), *ends[2] = {&p->a, c};
    static uint64_t got[2][ROUNDS], one = 1;
    static char taken[2 * ROUNDS];
    size_t posted[2] = {0}, done[2] = {0};
    struct target t;

    conf_ep_open(c, &p->home, &p->want);
    conf_introduce(c, &p->b);
    target_open(p, &t, FI_REMOTE_READ | FI_REMOTE_WRITE);
    for (long long end = conf_now_ms() + CONF_TIMEOUT_MS; done[0] + done[1] < 2 * ROUNDS;) {
        conf_check(conf_now_ms() < end, "%zu and %zu of %d done", done[0], done[1], ROUNDS);
        conf_drive_pair(p);
        conf_drive(c);
        for (int i = 0; i < 2; i++) {
            for (size_t s = 0; s < ends[i]->seen_count; s++)
                conf_check(!ends[i]->seen[s].err, "%s", fi_strerror(ends[i]->seen[s].err));
            done[i] += ends[i]->seen_count;
            ends[i]->seen_count = 0;
            if (posted[i] < ROUNDS &&
                !fi_fetch_atomic(ends[i]->ep, &one, 1, NULL, &got[i][posted[i]], NULL,
                                 ends[i]->peer, t.base, t.key, FI_UINT64, FI_SUM, NULL))
                posted[i]++;
        }
    }
    for (int i = 0; i < 2; i++) {
        for (size_t r = 0; r < ROUNDS; r++) {
            conf_check(got[i][r] < 2 * ROUNDS && !taken[got[i][r]], "%lu was fetched twice",
                       (unsigned long)got[i][r]);
            taken[got[i][r]] = 1;
        }
    }
    conf_check(*(uint64_t *)(void *)t.memory == 2 * ROUNDS, "sum %lu",
               (unsigned long)*(uint64_t *)(void *)t.memory);
    target_close(&t);
    conf_ep_close(c);
    free(c);
    conf_pair_close(p);
}

/* The same of an element larger than what a CPU adds at once. */
static void two_initiators_wide(void)
{
    uint64_t wide[2] = {UINT64_MAX, 0}, now[2] = {0};
    struct conf_ep *c = calloc(1, sizeof *c), *ends[2] = {NULL, c};
    struct conf_pair *p;
    size_t done = 0;
    struct target t;

    conf_need("wide_atomics");
    conf_need("wide_integers");
    p = open_pair((struct conf_want){0});
    ends[0] = &p->a;
    conf_ep_open(c, &p->home, &p->want);
    conf_introduce(c, &p->b);
    target_open(p, &t, FI_REMOTE_READ | FI_REMOTE_WRITE);
    for (int i = 0; i < 2 * ROUNDS; i++) {
        struct conf_ep *end = ends[i % 2];
        ssize_t rc;

        while ((rc = fi_atomic(end->ep, wide, 1, NULL, end->peer, t.base, t.key, FI_UINT128, FI_SUM,
                               NULL)) == -FI_EAGAIN) {
            conf_drive_pair(p);
            conf_drive(c);
        }
        conf_check(!rc, "fi_atomic: %zd", rc);
    }
    for (long long limit = conf_now_ms() + CONF_TIMEOUT_MS; done < 2 * ROUNDS;) {
        conf_check(conf_now_ms() < limit, "%zu of %d done", done, 2 * ROUNDS);
        conf_drive_pair(p);
        conf_drive(c);
        done = p->a.seen_count + c->seen_count;
    }
    for (size_t i = 0; i < done; i++)
        conf_check(!(i < p->a.seen_count ? p->a.seen[i] : c->seen[i - p->a.seen_count]).err, "sum");
    p->a.seen_count = 0;
    conf_post(p,
              post(p, &t, 0, FI_FETCH_ATOMIC, FI_UINT128, FI_ATOMIC_READ, 1, NULL, NULL, now, now));
    conf_check(!ended(p, now, FI_FETCH_ATOMIC).err, "read");
    conf_check(now[1] == 2 * ROUNDS - 1 && now[0] == (uint64_t)-2 * ROUNDS, "sum %#lx %#lx",
               (unsigned long)now[1], (unsigned long)now[0]);
    target_close(&t);
    conf_ep_close(c);
    free(c);
    conf_pair_close(p);
}

/* The message behind an atomic is there after it; a fetch behind a write sees it. */
static void in_order(void)
{
    struct conf_pair *p = open_pair((struct conf_want){0});
    static uint64_t got[ROUNDS], one = 1, in[ROUNDS], out = 7;
    uint64_t order = p->home.info->tx_attr->msg_order, *word;
    struct target t;

    target_open(p, &t, FI_REMOTE_READ | FI_REMOTE_WRITE);
    word = (uint64_t *)(void *)t.memory;
    for (size_t i = 0; i < ROUNDS; i++) {
        conf_post(p, fi_recv(p->b.ep, &in[i], 8, NULL, FI_ADDR_UNSPEC, &in[i]));
        conf_post(p, fi_atomic(p->a.ep, &one, 1, NULL, p->a.peer, t.base, t.key, FI_UINT64, FI_SUM,
                               NULL));
        conf_post(p, fi_send(p->a.ep, &out, 8, NULL, p->a.peer, NULL));
        conf_wait(p, &p->b, &in[i]);
        conf_check(!(order & FI_ORDER_SAW) || __atomic_load_n(word, __ATOMIC_SEQ_CST) == i + 1,
                   "the message came before atomic %zu", i);
        conf_wait(p, &p->a, NULL);
        conf_wait(p, &p->a, NULL);
    }
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t *value = &in[i];

        *value = 1000 * (i + 1);
        conf_post(p, fi_write(p->a.ep, value, 8, NULL, p->a.peer, t.base + 8, t.key, NULL));
        conf_post(p, fi_fetch_atomic(p->a.ep, &one, 1, NULL, &got[i], NULL, p->a.peer, t.base + 8,
                                     t.key, FI_UINT64, FI_SUM, &got[i]));
        conf_check(!ended(p, &got[i], FI_FETCH_ATOMIC).err, "fetch");
        conf_wait(p, &p->a, NULL);
        conf_check(!(order & FI_ORDER_RAW) || got[i] == *value, "a fetch saw %lu, not %lu",
                   (unsigned long)got[i], (unsigned long)*value);
    }
    /* All outstanding together. */
    *word = 0;
    for (size_t i = 0; i < ROUNDS; i++)
        conf_post(p, fi_fetch_atomic(p->a.ep, &one, 1, NULL, &got[i], NULL, p->a.peer, t.base,
                                     t.key, FI_UINT64, FI_SUM, &got[i]));
    for (size_t i = 0; i < ROUNDS; i++) {
        conf_check(!ended(p, &got[i], FI_FETCH_ATOMIC).err, "fetch");
        conf_check(!(order & FI_ORDER_ATOMIC_RAR) || got[i] == i, "fetch %zu got %lu", i,
                   (unsigned long)got[i]);
    }
    conf_quiet(p, 5);
    target_close(&t);
    conf_pair_close(p);
}

static void full_queue(void)
{
    struct conf_pair *p = open_pair((struct conf_want){.tx_size = 16});
    enum {
        OPERATIONS = 500
    };
    static uint64_t one = 1, got[OPERATIONS];
    size_t refused = 0, posted = 0, done = 0;
    struct target t;

    target_open(p, &t, FI_REMOTE_READ | FI_REMOTE_WRITE);
    for (long long end = conf_now_ms() + CONF_TIMEOUT_MS; done < OPERATIONS;) {
        conf_check(conf_now_ms() < end, "%zu of %zu posted are done", done, posted);
        while (posted < OPERATIONS) {
            ssize_t rc = fi_fetch_atomic(p->a.ep, &one, 1, NULL, &got[posted], NULL, p->a.peer,
                                         t.base, t.key, FI_UINT64, FI_SUM, NULL);

            conf_check(!rc || rc == -FI_EAGAIN, "%s", fi_strerror((int)-rc));
            if (rc) {
                refused++;
                break;
            }
            posted++;
        }
        conf_drive_pair(p);
        for (size_t i = 0; i < p->a.seen_count; i++)
            conf_check(!p->a.seen[i].err, "%s", fi_strerror(p->a.seen[i].err));
        done += p->a.seen_count;
        p->a.seen_count = 0;
    }
    conf_check(refused, "the queue was never full");
    conf_check(*(uint64_t *)(void *)t.memory == OPERATIONS, "sum %lu",
               (unsigned long)*(uint64_t *)(void *)t.memory);
    conf_quiet(p, 5);
    target_close(&t);
    conf_pair_close(p);
}

/* ---- Refusals of the target ---- */

static void refused(uint64_t access, uint64_t offset, uint64_t key_change, uint64_t kind,
                    enum fi_op op, int err)
{
    struct conf_pair *p = open_pair((struct conf_want){0});
    uint64_t operand[2] = {1, 2}, compare[2] = {0, 0}, result[2] = {5, 5}, in = 0, out = 9;
    struct target t;
    int seen;

    target_open(p, &t, access);
    t.key += key_change;
    conf_post(p, post(p, &t, offset, kind, FI_UINT64, op, 2, operand, compare, result, result));
    seen = ended(p, result, kind).err;
    conf_check(seen == err, "an atomic that is not allowed: %s", fi_strerror(seen));
    for (size_t i = 0; i < REGION; i++)
        conf_check(!t.memory[i], "byte %zu of the region was written", i);
    conf_check(result[0] == 5 && result[1] == 5, "a result came");
    conf_post(p, fi_recv(p->b.ep, &in, 8, NULL, FI_ADDR_UNSPEC, &in));
    conf_post(p, fi_send(p->a.ep, &out, 8, NULL, p->a.peer, &out));
    conf_check(!conf_wait(p, &p->a, &out).err && !conf_wait(p, &p->b, &in).err && in == 9,
               "the message behind it does not come");
    conf_quiet(p, 5);
    target_close(&t);
    conf_pair_close(p);
}

static void bad_key(void)
{
    refused(FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0x123, 0, FI_SUM, FI_EACCES);
    refused(FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0x123, FI_FETCH_ATOMIC, FI_ATOMIC_READ, FI_EACCES);
    refused(FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0x123, FI_COMPARE_ATOMIC, FI_CSWAP, FI_EACCES);
}

static void bad_access(void)
{
    refused(FI_REMOTE_READ, 0, 0, 0, FI_SUM, FI_EACCES);
    refused(FI_REMOTE_READ, 0, 0, FI_FETCH_ATOMIC, FI_SUM, FI_EACCES);
    refused(FI_REMOTE_WRITE, 0, 0, FI_FETCH_ATOMIC, FI_SUM, FI_EACCES);
    refused(FI_REMOTE_WRITE, 0, 0, FI_FETCH_ATOMIC, FI_ATOMIC_READ, FI_EACCES);
    refused(FI_REMOTE_WRITE, 0, 0, FI_COMPARE_ATOMIC, FI_CSWAP, FI_EACCES);
}

static void bad_range(void)
{
    refused(FI_REMOTE_READ | FI_REMOTE_WRITE, REGION - 8, 0, 0, FI_SUM, FI_EINVAL);
    refused(FI_REMOTE_READ | FI_REMOTE_WRITE, REGION, 0, FI_FETCH_ATOMIC, FI_SUM, FI_EINVAL);
    refused(FI_REMOTE_READ | FI_REMOTE_WRITE, UINT64_MAX - 7, 0, FI_COMPARE_ATOMIC, FI_CSWAP,
            FI_EINVAL);
}

/* Rights are asked one by one: an operation that only reads needs no right to write, and the other
 * way round. */
static void least_access(void)
{
    struct conf_pair *p = open_pair((struct conf_want){0});
    uint64_t one = 1, got = 9;
    struct target t;

    target_open(p, &t, FI_REMOTE_WRITE);
    conf_post(p, post(p, &t, 0, 0, FI_UINT64, FI_SUM, 1, &one, NULL, NULL, &one));
    conf_check(!ended(p, &one, 0).err, "a sum into memory that may be written");
    target_close(&t);
    target_open(p, &t, FI_REMOTE_READ);
    t.memory[0] = 3;
    conf_post(
        p, post(p, &t, 0, FI_FETCH_ATOMIC, FI_UINT64, FI_ATOMIC_READ, 1, NULL, NULL, &got, &got));
    conf_check(!ended(p, &got, FI_FETCH_ATOMIC).err && got == 3, "a read of what may be read");
    target_close(&t);
    conf_pair_close(p);
}

/* ---- Counters ---- */

static void wait_count(struct conf_pair *p, struct fid_cntr *cntr, uint64_t want, const char *what)
{
    for (long long end = conf_now_ms() + CONF_TIMEOUT_MS; fi_cntr_read(cntr) < want;) {
        conf_drive_pair(p);
        conf_check(conf_now_ms() < end, "%s: %lu of %lu", what, (unsigned long)fi_cntr_read(cntr),
                   (unsigned long)want);
    }
    conf_check(fi_cntr_read(cntr) == want, "%s: %lu, not %lu", what,
               (unsigned long)fi_cntr_read(cntr), (unsigned long)want);
}

static struct fid_cntr *open_cntr(struct conf_pair *p)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
    struct fid_cntr *cntr;

    conf_check(!fi_cntr_open(p->home.domain, &attr, &cntr, NULL), "fi_cntr_open");
    return cntr;
}

/* Of a region: base atomics count as writes, those that fetch as reads: fi_endpoint(3). */
static void counted(void)
{
    struct conf_pair *p;
    struct fid_cntr *writes, *reads;
    uint64_t local[2] = {1, 2}, got[2];
    size_t compared = offers_lacks(conf_offers, "ranges_as_one") ? 1 : 2;
    struct target t;

    conf_need("RMA_EVENT");
    p = open_pair((struct conf_want){.caps = FI_RMA_EVENT});
    writes = open_cntr(p);
    reads = open_cntr(p);
    target_open(p, &t, FI_REMOTE_READ | FI_REMOTE_WRITE);
    conf_check(!fi_mr_bind(t.mr, &writes->fid, FI_REMOTE_WRITE), "fi_mr_bind");
    conf_check(!fi_mr_bind(t.mr, &reads->fid, FI_REMOTE_READ), "fi_mr_bind");
    for (uint64_t i = 1; i <= 10; i++) {
        conf_post(p, post(p, &t, 0, 0, FI_UINT64, FI_SUM, 2, local, NULL, NULL, local));
        wait_count(p, writes, i, "remote writes");
        conf_check(((uint64_t *)(void *)t.memory)[1] == 2 * i, "counted before it was done");
        conf_check(!ended(p, local, 0).err, "sum");
    }
    conf_post(p, post(p, &t, 0, FI_FETCH_ATOMIC, FI_UINT64, FI_SUM, 2, local, NULL, got, got));
    conf_post(
        p, post(p, &t, 0, FI_COMPARE_ATOMIC, FI_UINT64, FI_CSWAP, compared, local, got, got, got));
    wait_count(p, reads, 2, "remote reads");
    wait_count(p, writes, 12, "remote writes"); /* of the region: they change it */
    conf_wait(p, &p->a, got);
    conf_wait(p, &p->a, got);
    target_close(&t);
    conf_check(!fi_close(&writes->fid) && !fi_close(&reads->fid), "fi_close(cntr)");
    conf_pair_close(p);
}

/* An atomic behind messages without a posted receive. */
static void behind_unexpected(void)
{
    struct conf_pair *p = open_pair((struct conf_want){0});
    static char large[100000], in[100000];
    uint64_t one = 1, got = 7;
    struct target t;

    target_open(p, &t, FI_REMOTE_READ | FI_REMOTE_WRITE);
    conf_fill(large, sizeof large, 3);
    conf_post(p, fi_tsend(p->a.ep, large, sizeof large, NULL, p->a.peer, 5, large));
    conf_post(p, post(p, &t, 0, FI_FETCH_ATOMIC, FI_UINT64, FI_SUM, 1, &one, NULL, &got, &got));
    if (!conf_strict())
        conf_check(!ended(p, &got, FI_FETCH_ATOMIC).err && got == 0, "fetch behind a message");
    conf_post(p, fi_trecv(p->b.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, 5, 0, in));
    if (conf_strict())
        conf_check(!ended(p, &got, FI_FETCH_ATOMIC).err && got == 0, "fetch behind a message");
    conf_check(!conf_wait(p, &p->b, in).err && conf_holds(in, sizeof in, 3), "the message");
    conf_check(!conf_wait(p, &p->a, large).err, "its send");
    conf_quiet(p, 5);
    target_close(&t);
    conf_pair_close(p);
}

const struct conf_case conf_atomic_cases[] = {
    {"atomic: every operation on every datatype", every_operation},
    {"atomic: unaligned targets", unaligned},
    {"atomic: what is valid works, the rest is refused", valid_tells_the_truth},
    {"atomic: the largest count, and one more", largest_count},
    {"atomic: segments of messages", segments_of_messages},
    {"atomic: segments of vectors", segments_of_vectors},
    {"atomic: inject", injected},
    {"atomic: two initiators lose no update", two_initiators},
    {"atomic: two initiators, 128 bits", two_initiators_wide},
    {"atomic: order with messages, writes and atomics", in_order},
    {"atomic: a full queue says try again", full_queue},
    {"atomic: a wrong key is refused", bad_key},
    {"atomic: a missing right is refused", bad_access},
    {"atomic: out of range is refused", bad_range},
    {"atomic: rights that suffice", least_access},
    {"atomic: counters of a region", counted},
    {"atomic: behind an unexpected message", behind_unexpected},
    {0},
};
