/* SPDX-License-Identifier: BSD-2-Clause */
/* Rails that fail under an endpoint, by the public interface. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../../pair.h"
#include "counted.h"
#include "events.h"

#define LOSES "arq;fault(drop=100%,seed=1);udp(iface=lo)"

static struct pair pair;
static struct fid_eq *eq;

static void open_with_events(const char *spec)
{
    pair_open_with_events(&pair, spec, &eq);
}

static void drive(void)
{
    struct fi_cq_tagged_entry entry;

    assert_int_equal(fi_cq_read(pair.cq, &entry, 1), -FI_EAGAIN);
}

/* Large messages go by all rails, and by the ones that are left. */
static void messages(unsigned count)
{
    enum {
        SIZE = 1 << 20
    };
    char *from = malloc(SIZE), *to = malloc(SIZE);

    for (unsigned i = 0; i < count; i++) {
        memset(from, (int)i + 1, SIZE);
        assert_true(pair_message(&pair, from, to, SIZE, i, from, to));
        assert_memory_equal(from, to, SIZE);
    }
    free(from);
    free(to);
}

/* Lines of the file that say that the first rail is down. */
static unsigned downs_told(FILE *file)
{
    unsigned count = 0;
    char line[512];

    rewind(file);
    while (fgets(line, sizeof(line), file)) {
        print_message("%s", line);
        count += strstr(line, "rail 1 (lo) is down: ") && strstr(line, "; others carry on\n");
    }
    return count;
}

/* One event, and one line in the log, of each endpoint. */
static void a_rail_that_loses_everything_is_down(void **state)
{
    struct fi_eq_err_entry error = {.err_data_size = 0};
    int before = dup(STDERR_FILENO), events = 1;
    FILE *log = tmpfile();
    struct fi_eq_entry entry;
    uint32_t event;
    ssize_t rc;

    assert_true(log && before >= 0);
    dup2(fileno(log), STDERR_FILENO);
    open_with_events("mrail(same=yes,rail_timeout=200ms);[" LOSES "+arq;udp(iface=lo)]");
    messages(8);
    while ((rc = fi_eq_read(eq, &event, &entry, sizeof(entry), 0)) == -FI_EAGAIN)
        drive();
    assert_int_equal(rc, -FI_EAVAIL);
    assert_int_equal(fi_eq_readerr(eq, &error, 0), sizeof(error));
    assert_int_equal(error.err, FI_ENETDOWN);
    assert_int_equal(error.data, 0);
    assert_ptr_equal(error.context, &pair);
    assert_true(error.fid == &pair.ep[0]->fid || error.fid == &pair.ep[1]->fid);
    messages(8);
    while (fi_eq_read(eq, &event, &entry, sizeof(entry), 0) == -FI_EAVAIL) {
        assert_int_equal(fi_eq_readerr(eq, &error, 0), sizeof(error));
        events++;
    }
    dup2(before, STDERR_FILENO);
    close(before);
    assert_int_equal(downs_told(log), events);
    assert_true(events <= 2);
    fclose(log);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fi_close(&pair.ep[i]->fid), 0);
    assert_int_equal(fi_close(&eq->fid), 0);
    assert_int_equal(fi_close(&pair.av->fid), 0);
    assert_int_equal(fi_close(&pair.cq->fid), 0);
    assert_int_equal(fi_close(&pair.domain->fid), 0);
    assert_int_equal(fi_close(&pair.fabric->fid), 0);
    fi_freeinfo(pair.info);
}

static void rails_of_different_parts_carry_messages(void **state)
{
    static const char *const specs[] = {
        "mrail;[rxm;tcp(iface=lo)+arq;udp(iface=lo)]",
        "mrail;[shm+rxm;tcp(iface=lo)]",
        "mrail;[loop]",
        "mrail(same=yes,packet_size=8k);[rxm;tcp(iface=lo)+rxm;tcp(iface=lo)+rxm;tcp(iface=lo)]",
        "mrail;[noop;mrail;[rxm;tcp(iface=lo)]+rxd;udp(iface=lo)]",
        /* Keys of the rails' own choice, and memory that is registered. */
        "mrail(same=yes);[loop(shape=srd)+loop(shape=srd)]",
        "mrail(same=yes);[rxm;loop(shape=rdma)+rxm;loop(shape=rdma)]",
        "mrail(same=yes,reads=no);[rxm;loop(shape=rdma)+rxm;loop(shape=rdma)]",
    };

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        print_message("%s\n", specs[i]);
        pair_open(&pair, specs[i]);
        messages(4);
        pair_close(&pair);
    }
}

/* ---- Accesses ---- */

static struct fid_mr *region_of(char *memory, size_t len, uint64_t *addr)
{
    struct fid_mr *mr;

    assert_int_equal(
        fi_mr_reg(pair.domain, memory, len, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL),
        0);
    *addr = pair.info->domain_attr->mr_mode & (FI_MR_VIRT_ADDR | FI_MR_BASIC)
                ? (uint64_t)(uintptr_t)memory
                : 0;
    return mr;
}

/* A write with data, and a message behind a fence: the bytes are there when the target is told of
 * them, and when the message has come. */
static void write_and_tell(char *from, char *region, size_t len, uint64_t addr, uint64_t key)
{
    struct iovec iov = {from, len}, word = {from, 8};
    struct fi_rma_iov to = {addr, len, key};
    struct fi_msg_rma write = {.msg_iov = &iov,
                               .iov_count = 1,
                               .addr = pair.to[1],
                               .rma_iov = &to,
                               .rma_iov_count = 1,
                               .context = from,
                               .data = 77};
    struct fi_msg message = {
        .msg_iov = &word, .iov_count = 1, .addr = pair.to[1], .context = &message};
    struct fi_cq_tagged_entry entry;
    char got[8];
    unsigned came = 0;

    assert_int_equal(fi_recv(pair.ep[1], got, sizeof(got), NULL, FI_ADDR_UNSPEC, got), 0);
    assert_int_equal(
        fi_writemsg(pair.ep[0], &write, FI_COMPLETION | FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE),
        0);
    assert_int_equal(fi_sendmsg(pair.ep[0], &message, FI_COMPLETION | FI_FENCE), 0);
    while (came != 15) {
        ssize_t rc = fi_cq_read(pair.cq, &entry, 1);
        bool data = rc == 1 && entry.flags & FI_REMOTE_CQ_DATA;

        if (rc == -FI_EAGAIN)
            continue;
        assert_int_equal(rc, 1);
        if (entry.op_context != &message)
            assert_memory_equal(from, region, len);
        if (data)
            assert_int_equal(entry.data, 77);
        came += data ? 1u : entry.op_context == from ? 2u : entry.op_context == got ? 4u : 8u;
    }
}

/* By the rails' own reads, or where those are not wanted in packets. */
static void large_writes_go_by_all_rails(void **state)
{
    enum {
        SIZE = 8 << 20,
        WRITES = 8,
    };
    char *from = malloc(SIZE), *region = malloc(SIZE), spec[256], path[2][64];
    enum fi_threading before = pair_threading;
    struct fid_mr *mr;
    uint64_t addr;

    assert_true(from && region);
    for (unsigned round = 0; round < 4; round++) {
        bool reads = round & 1;
        unsigned long count[2];

        pair_threading = round & 2 ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
        for (int i = 0; i < 2; i++)
            snprintf(path[i], sizeof(path[i]), "/tmp/weft-rails-%d-%d", (int)getpid(), i);
        snprintf(spec, sizeof(spec),
                 "mrail(same=yes,reads=%s);[profile(file=\"%s\",format=json);rxm;tcp(iface=lo)+"
                 "profile(file=\"%s\",format=json);rxm;tcp(iface=lo)]",
                 reads ? "yes" : "no", path[0], path[1]);
        pair_open(&pair, spec);
        mr = region_of(region, SIZE, &addr);
        for (int i = 0; i < WRITES; i++) {
            for (size_t at = 0; at < SIZE; at++)
                from[at] = (char)(at * 7 + at / 251 + (size_t)i + round);
            write_and_tell(from, region, SIZE, addr, fi_mr_key(mr));
        }
        assert_int_equal(fi_close(&mr->fid), 0);
        pair_close(&pair);
        for (int i = 0; i < 2; i++)
            count[i] = reads_of(path[i]);
        print_message("reads=%s: %lu and %lu stripes\n", reads ? "yes" : "no", count[0], count[1]);
        assert_true(reads ? count[0] && count[1] : !count[0] && !count[1]);
    }
    pair_threading = before;
    free(from);
    free(region);
}

enum {
    PLACES = 4,
    PLACED = 10 << 20,
};

/* One write to four places, in two regions, one of which has few bytes; then it is read back. */
static void write_to_places(char *from, char *back, const struct fi_rma_iov *places)
{
    struct iovec iov = {from, PLACED};
    struct fi_msg_rma msg = {.msg_iov = &iov,
                             .iov_count = 1,
                             .addr = pair.to[1],
                             .rma_iov = places,
                             .rma_iov_count = PLACES,
                             .context = from};
    struct fi_cq_tagged_entry entry;

    for (int read = 0; read < 2; read++) {
        ssize_t rc = read ? fi_readmsg(pair.ep[0], &msg, FI_COMPLETION)
                          : fi_writemsg(pair.ep[0], &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE);

        assert_int_equal(rc, 0);
        while ((rc = fi_cq_read(pair.cq, &entry, 1)) == -FI_EAGAIN)
            ;
        assert_int_equal(rc, 1);
        assert_ptr_equal(entry.op_context, from);
        iov.iov_base = back;
    }
}

static void set_places(struct fi_rma_iov *places, struct fid_mr **mr, char *const *memory)
{
    static const struct {
        unsigned region;
        size_t at, len;
    } place[PLACES] = {{0, 100, 3 << 20}, {1, 0, 1000}, {1, 5 << 20, 2 << 20}, {0, 4 << 20, 0}};
    size_t left = PLACED;

    for (unsigned i = 0; i < PLACES; i++) {
        size_t len = place[i].len ? place[i].len : left;
        bool virtual = pair.info->domain_attr->mr_mode & (FI_MR_VIRT_ADDR | FI_MR_BASIC);
        uint64_t base = virtual ? (uint64_t)(uintptr_t)memory[place[i].region] : 0;

        places[i] = (struct fi_rma_iov){base + place[i].at, len, fi_mr_key(mr[place[i].region])};
        left -= len;
    }
}

static void a_large_write_to_several_places_goes_by_all_rails(void **state)
{
    char *from = malloc(PLACED), *back = calloc(1, PLACED), *memory[2], spec[256], path[2][64];
    struct fi_rma_iov places[PLACES];
    unsigned long count[2];
    struct fid_mr *mr[2];

    for (int i = 0; i < 2; i++)
        snprintf(path[i], sizeof(path[i]), "/tmp/weft-rails-%d-%d", (int)getpid(), i);
    snprintf(spec, sizeof(spec),
             "mrail(same=yes);[profile(file=\"%s\",format=json);rxm;tcp(iface=lo)+"
             "profile(file=\"%s\",format=json);rxm;tcp(iface=lo)]",
             path[0], path[1]);
    pair_open(&pair, spec);
    for (int i = 0; i < 2; i++) {
        memory[i] = calloc(1, PLACED);
        assert_non_null(memory[i]);
        assert_int_equal(fi_mr_reg(pair.domain, memory[i], PLACED, FI_REMOTE_READ | FI_REMOTE_WRITE,
                                   0, 1 + (uint64_t)i, 0, &mr[i], NULL),
                         0);
    }
    for (size_t at = 0; at < PLACED; at++)
        from[at] = (char)(at * 7 + at / 251);
    set_places(places, mr, memory);
    write_to_places(from, back, places);
    assert_memory_equal(from, back, PLACED);
    assert_memory_equal(from, memory[0] + 100, 3 << 20);
    assert_memory_equal(from + (3 << 20), memory[1], 1000);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fi_close(&mr[i]->fid), 0);
        free(memory[i]);
    }
    pair_close(&pair);
    for (int i = 0; i < 2; i++)
        count[i] = reads_of(path[i]);
    print_message("%lu and %lu stripes\n", count[0], count[1]);
    assert_true(count[0] && count[1]);
    free(from);
    free(back);
}

enum {
    CLOSED = 32 << 20,
};

static bool is_whole(const char *bytes, char value)
{
    return bytes[0] == value && !memcmp(bytes, bytes + 1, CLOSED - 1);
}

/* Of some places: stripes come in any order. It looks while they are written, perhaps by a thread
 * of the library. */
__attribute__((no_sanitize("thread"))) static bool has_begun(const char *bytes, char value)
{
    for (size_t at = 100000; at < CLOSED; at += 50000)
        if (bytes[at] == value)
            return true;
    return false;
}

/* The region is closed when the first bytes are there; one look may bring all of them, and the end.
 * True: the end is to come; *whole: all bytes of a write are there. */
static bool close_under_an_access(bool reads, char *from, char *region, bool *whole)
{
    struct fi_cq_tagged_entry entry;
    ssize_t rc = -FI_EAGAIN;
    struct fid_mr *mr;
    uint64_t addr;

    memset(region, reads ? 2 : 0, CLOSED);
    memset(from, 1, CLOSED);
    mr = region_of(region, CLOSED, &addr);
    if (reads)
        assert_int_equal(
            fi_read(pair.ep[0], from, CLOSED, NULL, pair.to[1], addr, fi_mr_key(mr), from), 0);
    else
        assert_int_equal(
            fi_write(pair.ep[0], from, CLOSED, NULL, pair.to[1], addr, fi_mr_key(mr), from), 0);
    while (rc == -FI_EAGAIN && !has_begun(reads ? from : region, reads ? 2 : 1))
        rc = fi_cq_read(pair.cq, &entry, 1);
    assert_true(rc == -FI_EAGAIN || rc == 1);
    assert_int_equal(fi_close(&mr->fid), 0);
    *whole = !reads && is_whole(region, 1);
    return rc == -FI_EAGAIN;
}

/* Once; beside an error (the state of the other end ends, too) may come an error of another
 * operation. True: with an error. */
static bool ends_once(void *context)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {.err_data_size = 0};
    ssize_t rc;

    while ((rc = fi_cq_read(pair.cq, &entry, 1)) == -FI_EAGAIN)
        ;
    assert_true(rc == 1 || rc == -FI_EAVAIL);
    if (rc == -FI_EAVAIL)
        assert_int_equal(fi_cq_readerr(pair.cq, &error, 0), 1);
    assert_ptr_equal(rc == 1 ? entry.op_context : error.op_context, context);
    for (int i = 0; i < 1000; i++)
        drive();
    return rc != 1;
}

/* The access goes by both rails. Bytes that come after the region was closed touch nothing: stripes
 * that its target reads, or packets. Half of the time the region is freed at once. */
static void a_region_closed_under_an_access_ends_it(void **state)
{
    static const char *const specs[] = {
        "mrail(same=yes);[rxm;tcp(iface=lo)+rxm;tcp(iface=lo)]",
        "mrail(same=yes,reads=no);[rxm;tcp(iface=lo)+rxm;tcp(iface=lo)]",
        "mrail(same=yes);[rxm;loop(shape=rdma)+rxm;loop(shape=rdma)]",
    };
    enum fi_threading before = pair_threading;
    char *from = malloc(CLOSED), *then = malloc(CLOSED);
    unsigned failed = 0;

    assert_true(from && then);
    for (unsigned i = 0; i < 12; i++) {
        char *region = malloc(CLOSED);
        bool reads = i & 1, whole, waits;

        assert_non_null(region);
        pair_threading = i & 2 ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
        pair_open(&pair, specs[i / 4]);
        messages(2);
        waits = close_under_an_access(reads, from, region, &whole);
        if (i & 2) {
            free(region);
        } else {
            memset(region, 3, CLOSED);
            memcpy(then, region, CLOSED);
        }
        if (waits && ends_once(from))
            failed++;
        else
            assert_true(whole || (reads && is_whole(from, 2)));
        if (!(i & 2)) {
            assert_memory_equal(region, then, CLOSED);
            free(region);
        }
        messages(2);
        pair_close(&pair);
    }
    print_message("%u of 12 failed\n", failed);
    assert_true(failed);
    pair_threading = before;
    free(from);
    free(then);
}

/* The write goes to two regions, one after the other. The second is closed when bytes of the first
 * are there, and freed: nothing lands in it, and the write ends, in an error. */
static void a_region_of_a_later_place_is_closed(void **state)
{
    char *from = malloc(2 * (size_t)CLOSED), *region = malloc(CLOSED), *then = malloc(CLOSED);
    unsigned failed = 0;

    assert_true(from && region && then);
    memset(from, 1, 2 * (size_t)CLOSED);
    for (unsigned i = 0; i < 4; i++) {
        struct iovec iov = {from, 2 * (size_t)CLOSED};
        struct fi_rma_iov places[2] = {{0, CLOSED, 1}, {0, CLOSED, 2}};
        struct fi_msg_rma msg = {.msg_iov = &iov, .iov_count = 1, .rma_iov = places};
        struct fi_cq_tagged_entry entry;
        struct fid_mr *mr[2];
        ssize_t rc = -FI_EAGAIN;

        pair_open(&pair, "mrail(same=yes);[rxm;tcp(iface=lo)+rxm;tcp(iface=lo)]");
        memset(region, 0, CLOSED);
        memset(then, 0, CLOSED);
        assert_int_equal(
            fi_mr_reg(pair.domain, region, CLOSED, FI_REMOTE_WRITE, 0, 1, 0, &mr[0], NULL), 0);
        assert_int_equal(
            fi_mr_reg(pair.domain, then, CLOSED, FI_REMOTE_WRITE, 0, 2, 0, &mr[1], NULL), 0);
        msg.addr = pair.to[1];
        msg.rma_iov_count = 2;
        msg.context = from;
        assert_int_equal(fi_writemsg(pair.ep[0], &msg, FI_COMPLETION), 0);
        while (rc == -FI_EAGAIN && !has_begun(region, 1))
            rc = fi_cq_read(pair.cq, &entry, 1);
        assert_true(rc == -FI_EAGAIN || rc == 1);
        assert_int_equal(fi_close(&mr[1]->fid), 0);
        memset(then, 3, CLOSED);
        if (rc == -FI_EAGAIN && ends_once(from))
            failed++;
        assert_true(is_whole(then, 3));
        assert_int_equal(fi_close(&mr[0]->fid), 0);
        messages(2);
        pair_close(&pair);
    }
    print_message("%u of 4 failed\n", failed);
    assert_true(failed);
    free(from);
    free(region);
    free(then);
}

/* ---- Many under way ---- */

enum {
    MANY = 4,
    PART = 2 << 20,
    OPS = 3 * MANY, /* writes into the region, sends, receives */
};

static struct {
    char *from, *to; /* MANY parts each */
    char *region;
    unsigned ends[OPS];
    bool failed[OPS], closed;
} many;

static void check_bytes(unsigned op)
{
    unsigned i = op % MANY;

    if (op < MANY && !many.closed)
        assert_memory_equal(many.region + i * PART, many.from + i * PART, PART);
    if (op >= 2 * MANY)
        assert_memory_equal(many.to + i * PART, many.from + i * PART, PART);
}

static void take_one_end(void)
{
    struct fi_cq_err_entry error = {.err_data_size = 0};
    struct fi_cq_tagged_entry entry;
    ssize_t rc = fi_cq_read(pair.cq, &entry, 1);
    bool failed = rc == -FI_EAVAIL;
    unsigned *end;

    if (rc == -FI_EAGAIN)
        return;
    if (failed)
        assert_int_equal(fi_cq_readerr(pair.cq, &error, 0), 1);
    else
        assert_int_equal(rc, 1);
    end = failed ? error.op_context : entry.op_context;
    assert_true(end >= many.ends && end < many.ends + OPS);
    ++*end;
    many.failed[end - many.ends] = failed;
    if (!failed)
        check_bytes((unsigned)(end - many.ends));
}

static unsigned ended(void)
{
    unsigned count = 0;

    for (unsigned i = 0; i < OPS; i++)
        count += many.ends[i] > 0;
    return count;
}

static void post_many(uint64_t addr, uint64_t key)
{
    for (unsigned i = 0; i < MANY; i++) {
        char *from = many.from + i * PART, *to = many.to + i * PART;

        assert_int_equal(
            fi_trecv(pair.ep[1], to, PART, NULL, FI_ADDR_UNSPEC, i, 0, &many.ends[2 * MANY + i]),
            0);
        assert_int_equal(
            fi_tsend(pair.ep[0], from, PART, NULL, pair.to[1], i, &many.ends[MANY + i]), 0);
        assert_int_equal(
            fi_write(pair.ep[0], from, PART, NULL, pair.to[1], addr + i * PART, key, &many.ends[i]),
            0);
    }
}

/* Receives that met no message wait for others. */
static void end_all(void)
{
    while (many.ends[0] + many.ends[1] + many.ends[2] + many.ends[3] < MANY || ended() < OPS - MANY)
        take_one_end();
    for (unsigned i = 2 * MANY; i < OPS; i++) {
        ssize_t rc = many.ends[i] ? 0 : fi_cancel(&pair.ep[1]->fid, &many.ends[i]);

        assert_true(!rc || rc == -FI_ENOENT); /* it has its message, and ends with that */
    }
    while (ended() < OPS)
        take_one_end();
    for (int i = 0; i < 1000; i++)
        take_one_end();
    for (unsigned i = 0; i < OPS; i++)
        assert_int_equal(many.ends[i], 1);
}

/* At any time: each ends once, with its bytes or an error, and nothing touches the region, which is
 * gone, or a receive that has ended. */
static void a_region_closed_under_many_ends_each_once(void **state)
{
    enum fi_threading before = pair_threading;
    unsigned failed = 0;

    for (unsigned round = 0; round < 16; round++) {
        struct fid_mr *mr;
        uint64_t addr;

        memset(&many, 0, sizeof(many));
        many.from = malloc(MANY * PART);
        many.to = calloc(MANY, PART);
        many.region = calloc(MANY, PART);
        assert_true(many.from && many.to && many.region);
        for (size_t i = 0; i < MANY * PART; i++)
            many.from[i] = (char)(i * 11 + i / 253 + round);
        pair_threading = round & 1 ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
        pair_open(&pair, round & 2 ? "mrail(same=yes);[rxm;loop(shape=rdma)+rxm;loop(shape=rdma)]"
                                   : "mrail(same=yes);[rxm;tcp(iface=lo)+rxm;tcp(iface=lo)]");
        messages(1);
        mr = region_of(many.region, MANY * PART, &addr);
        post_many(addr, fi_mr_key(mr));
        for (unsigned turn = 0; turn < round / 4 * 40 + round && ended() < OPS; turn++)
            take_one_end();
        assert_int_equal(fi_close(&mr->fid), 0);
        many.closed = true;
        free(many.region);
        end_all();
        for (unsigned i = 0; i < OPS; i++)
            failed += many.failed[i];
        free(many.from);
        free(many.to);
        messages(1);
        pair_close(&pair);
    }
    print_message("%u failed\n", failed);
    pair_threading = before;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rail_that_loses_everything_is_down),
        cmocka_unit_test(rails_of_different_parts_carry_messages),
        cmocka_unit_test(large_writes_go_by_all_rails),
        cmocka_unit_test(a_large_write_to_several_places_goes_by_all_rails),
        cmocka_unit_test(a_region_closed_under_an_access_ends_it),
        cmocka_unit_test(a_region_of_a_later_place_is_closed),
        cmocka_unit_test(a_region_closed_under_many_ends_each_once),
    };

    setenv("FI_LOG_LEVEL", "warn", 1);

    return cmocka_run_group_tests(tests, NULL, NULL);
}
