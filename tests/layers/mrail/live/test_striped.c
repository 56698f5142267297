/* SPDX-License-Identifier: BSD-2-Clause */
/* Large accesses and messages of several segments and places in stripes of all rails: their bytes,
 * their order, and by profile's counts that rails read them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../../pair.h"
#include "counted.h"

enum {
    SIZE = 8 << 20,
    SEGMENTS = 4,
    REGIONS = 2,
};

static struct pair pair;
static char path[2][64];
static struct fid_mr *mr[REGIONS];
static char *region[REGIONS], *ours, *pattern;
static enum fi_threading threading_before;

static void open_pair(bool stripes, bool safe)
{
    char spec[256];

    pair_threading = safe ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
    for (int i = 0; i < 2; i++)
        snprintf(path[i], sizeof(path[i]), "/tmp/weft-striped-%d-%d", (int)getpid(), i);
    snprintf(spec, sizeof(spec),
             "mrail(same=yes,reads=%s);[profile(file=\"%s\",format=json);rxm;tcp(iface=lo)+"
             "profile(file=\"%s\",format=json);rxm;tcp(iface=lo)]",
             stripes ? "yes" : "no", path[0], path[1]);
    pair_open(&pair, spec);
    for (unsigned i = 0; i < REGIONS; i++)
        assert_int_equal(fi_mr_reg(pair.domain, region[i], SIZE, FI_REMOTE_READ | FI_REMOTE_WRITE,
                                   0, 1 + i, 0, &mr[i], NULL),
                         0);
}

static void close_pair(bool stripes)
{
    unsigned long count[2];

    for (unsigned i = 0; i < REGIONS; i++)
        assert_int_equal(fi_close(&mr[i]->fid), 0);
    pair_close(&pair);
    for (int i = 0; i < 2; i++)
        count[i] = reads_of(path[i]);
    print_message("%lu and %lu stripes\n", count[0], count[1]);
    if (stripes)
        assert_true(count[0] && count[1]);
    else
        assert_int_equal(count[0] + count[1], 0);
}

static uint64_t addr_of(const char *at)
{
    unsigned i = at >= region[1] && at <= region[1] + SIZE;
    bool virtual = pair.info->domain_attr->mr_mode & (FI_MR_VIRT_ADDR | FI_MR_BASIC);

    return virtual ? (uint64_t)(uintptr_t)at : (uint64_t)(at - region[i]);
}

/* An access of `len` bytes: our segments and the peer's places, of lengths of their own. */
struct shape {
    size_t local[SEGMENTS], remote[SEGMENTS];
};

static const struct shape shapes[] = {
    {{5 << 20}, {5 << 20}},
    {{1 << 20, 3 << 20, 100000, 7}, {1 << 20, 3 << 20, 100000, 7}},
    {{3000001, 0, 2000003}, {5000004}},
    {{5 << 20}, {2 << 20, 1, 0, (3 << 20) - 1}},
    {{2 << 20, 2 << 20, 1 << 20}, {1 << 20, 3 << 20, 1 << 20}},
};

struct access {
    struct iovec iov[SEGMENTS];
    struct fi_rma_iov rma[SEGMENTS];
    char *at[SEGMENTS]; /* of rma */
    struct fi_msg_rma msg;
};

static void set(struct access *access, const struct shape *shape)
{
    size_t local = 11, remote = 13;

    *access = (struct access){.msg = {.addr = pair.to[1], .context = access}};
    for (unsigned i = 0; i < SEGMENTS; i++) {
        access->iov[i] = (struct iovec){ours + local, shape->local[i]};
        local += shape->local[i] + 5;
        if (shape->local[i])
            access->msg.iov_count = i + 1;
    }
    for (unsigned i = 0; i < SEGMENTS; i++) {
        access->at[i] = region[i % REGIONS] + remote;
        access->rma[i] = (struct fi_rma_iov){addr_of(access->at[i]), shape->remote[i],
                                             fi_mr_key(mr[i % REGIONS])};
        remote += shape->remote[i] + 3;
        if (shape->remote[i])
            access->msg.rma_iov_count = i + 1;
    }
    access->msg.msg_iov = access->iov;
    access->msg.rma_iov = access->rma;
}

static void fill_local(const struct access *access)
{
    size_t at = 0;

    for (size_t i = 0; i < access->msg.iov_count; at += access->iov[i++].iov_len)
        memcpy(access->iov[i].iov_base, pattern + at, access->iov[i].iov_len);
}

static void check_local(const struct access *access)
{
    size_t at = 0;

    for (size_t i = 0; i < access->msg.iov_count; at += access->iov[i++].iov_len)
        assert_memory_equal(access->iov[i].iov_base, pattern + at, access->iov[i].iov_len);
}

static void check_remote(const struct access *access)
{
    size_t at = 0;

    for (size_t i = 0; i < access->msg.rma_iov_count; at += access->rma[i++].len)
        assert_memory_equal(access->at[i], pattern + at, access->rma[i].len);
}

static void ends(const void *context)
{
    struct fi_cq_tagged_entry entry;
    ssize_t rc;

    while ((rc = fi_cq_read(pair.cq, &entry, 1)) == -FI_EAGAIN)
        ;
    assert_int_equal(rc, 1);
    assert_ptr_equal(entry.op_context, context);
}

static void both_end(const void *one, const void *other)
{
    struct fi_cq_tagged_entry entry;
    unsigned ended = 0;

    while (ended != 3) {
        ssize_t rc = fi_cq_read(pair.cq, &entry, 1);

        if (rc == -FI_EAGAIN)
            continue;
        assert_int_equal(rc, 1);
        assert_true(entry.op_context == one || entry.op_context == other);
        ended |= entry.op_context == one ? 1U : 2U;
    }
}

static void clear(void)
{
    memset(ours, 0, SIZE);
    for (unsigned i = 0; i < REGIONS; i++)
        memset(region[i], 0, SIZE);
}

/* The pattern has none: what was written beside an access, too. */
static size_t zeros(const char *bytes)
{
    size_t count = 0;

    for (size_t i = 0; i < SIZE; i++)
        count += !bytes[i];
    return count;
}

static void write_and_read(const struct shape *shape)
{
    struct access access;
    size_t len = 0, before;

    clear();
    set(&access, shape);
    for (unsigned i = 0; i < SEGMENTS; i++)
        len += shape->local[i];
    fill_local(&access);
    before = zeros(ours);
    assert_int_equal(before, SIZE - len);
    assert_int_equal(fi_writemsg(pair.ep[0], &access.msg, FI_COMPLETION | FI_DELIVERY_COMPLETE), 0);
    ends(&access);
    check_remote(&access);
    assert_int_equal(zeros(region[0]) + zeros(region[1]), SIZE + before);
    memset(ours, 0, SIZE);
    assert_int_equal(fi_readmsg(pair.ep[0], &access.msg, FI_COMPLETION), 0);
    ends(&access);
    check_local(&access);
    assert_int_equal(zeros(ours), before);
}

/* From our segments into a receive that has the places as its segments. */
static void send(const struct shape *shape, bool tagged, bool waits)
{
    struct iovec into[SEGMENTS];
    struct access access;
    struct fi_msg_tagged out, in;

    clear();
    set(&access, shape);
    fill_local(&access);
    for (unsigned i = 0; i < SEGMENTS; i++)
        into[i] = (struct iovec){access.at[i], shape->remote[i]};
    out = (struct fi_msg_tagged){.msg_iov = access.iov,
                                 .iov_count = access.msg.iov_count,
                                 .addr = pair.to[1],
                                 .tag = 5,
                                 .context = &out};
    in = (struct fi_msg_tagged){.msg_iov = into,
                                .iov_count = access.msg.rma_iov_count,
                                .addr = FI_ADDR_UNSPEC,
                                .tag = 5,
                                .context = &in};
    for (int i = 0; i < 2; i++) {
        struct fi_msg_tagged *msg = i == waits ? &out : &in;
        struct fi_msg plain = {msg->msg_iov, NULL, msg->iov_count, msg->addr, msg->context, 0};
        ssize_t rc;

        if (i == waits)
            rc = tagged ? fi_tsendmsg(pair.ep[0], msg, FI_COMPLETION)
                        : fi_sendmsg(pair.ep[0], &plain, FI_COMPLETION);
        else
            rc = tagged ? fi_trecvmsg(pair.ep[1], msg, FI_COMPLETION)
                        : fi_recvmsg(pair.ep[1], &plain, FI_COMPLETION);
        assert_int_equal(rc, 0);
        for (int turns = 100; !i && turns; turns--) /* it comes before its receive, or not */
            fi_cq_read(pair.cq, NULL, 0);
    }
    both_end(&out, &in);
    check_remote(&access);
}

/* By which both ends learn of each other. */
static const struct shape little = {{8}, {8}};

static void each_shape(bool stripes, bool safe)
{
    open_pair(stripes, safe);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        write_and_read(&shapes[i]);
    close_pair(stripes);
    open_pair(stripes, safe);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        send(&shapes[i], i % 2, safe);
    close_pair(stripes);
    open_pair(stripes, safe); /* and those of several segments by themselves */
    send(&little, safe, safe);
    send(&shapes[1], safe, safe);
    send(&shapes[3], !safe, safe);
    close_pair(stripes);
}

static void segments_and_places_go_by_all_rails(void **state)
{
    each_shape(true, false);
    each_shape(true, true);
}

static void without_reads_they_go_in_packets(void **state)
{
    each_shape(false, false);
}

/* Many small segments are no stripes. */
static void small_segments_go_in_packets(void **state)
{
    static const struct shape small = {{20000, 20000, 20000, 20000}, {20000, 20000, 20000, 20000}};

    open_pair(true, false);
    write_and_read(&small);
    for (unsigned i = 0; i < REGIONS; i++)
        assert_int_equal(fi_close(&mr[i]->fid), 0);
    pair_close(&pair);
    for (int i = 0; i < 2; i++)
        assert_int_equal(reads_of(path[i]), 0);
}

/* A read between two writes of the same bytes sees the first, and not the second. */
static void accesses_are_carried_out_in_their_order(void **state)
{
    enum {
        TURNS = 6,
        PART = 2 << 20,
    };
    char *back = malloc((size_t)TURNS * PART);
    struct fi_cq_tagged_entry entry;

    assert_non_null(back);
    open_pair(true, true);
    for (unsigned i = 0; i < TURNS; i++) {
        char *from = ours + (i % 4) * PART;

        /* The source of a write that is under way is not touched. */
        if (i == 4)
            while (fi_cq_read(pair.cq, &entry, 1) != 1 || entry.op_context != back + 3 * PART)
                ;
        memset(from, (int)i + 1, PART);
        assert_int_equal(fi_write(pair.ep[0], from, PART, NULL, pair.to[1], addr_of(region[0]),
                                  fi_mr_key(mr[0]), NULL),
                         0);
        assert_int_equal(fi_read(pair.ep[0], back + (size_t)i * PART, PART, NULL, pair.to[1],
                                 addr_of(region[0]), fi_mr_key(mr[0]), back + (size_t)i * PART),
                         0);
    }
    while (fi_cq_read(pair.cq, &entry, 1) != 1 || entry.op_context != back + 5 * PART)
        ;
    for (size_t i = 0; i < (size_t)TURNS * PART; i++)
        assert_int_equal(back[i], i / PART + 1);
    close_pair(true);
    free(back);
}

static int open_memory(void **state)
{
    ours = malloc(SIZE);
    pattern = malloc(SIZE);
    for (unsigned i = 0; i < REGIONS; i++)
        region[i] = malloc(SIZE);
    threading_before = pair_threading;
    if (!ours || !pattern || !region[0] || !region[1])
        return -1;
    for (size_t i = 0; i < SIZE; i++)
        pattern[i] = (char)((i * 7 + i / 251) % 255 + 1);
    return 0;
}

static int close_memory(void **state)
{
    pair_threading = threading_before;
    free(ours);
    free(pattern);
    for (unsigned i = 0; i < REGIONS; i++)
        free(region[i]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_and_places_go_by_all_rails),
        cmocka_unit_test(without_reads_they_go_in_packets),
        cmocka_unit_test(small_segments_go_in_packets),
        cmocka_unit_test(accesses_are_carried_out_in_their_order),
    };

    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
