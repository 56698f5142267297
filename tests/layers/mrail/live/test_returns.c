/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A rail of datagrams that get lost for a while, as the kernel never gets them: what is told when
 * it is back; an address that is removed meanwhile; the order of writes.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/socket.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_eq.h>

#include "../../pair.h"
#include "events.h"

/* ---- The rail ---- */

static atomic_bool silent;

static bool is_lost(int fd)
{
    int type = 0;
    socklen_t len = sizeof(type);

    return silent && !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) && type == SOCK_DGRAM;
}

static void *next_of(const char *name)
{
    void *next = dlsym(RTLD_NEXT, name);

    assert_non_null(next);
    return next;
}

static ssize_t len_of(const struct msghdr *message)
{
    size_t len = 0;

    for (size_t i = 0; i < (size_t)message->msg_iovlen; i++)
        len += message->msg_iov[i].iov_len;
    return (ssize_t)len;
}

/* In place of the C library's, whose declarations differ from system to system. */
ssize_t lossy_sendto(int fd, const void *bytes, size_t len, int flags, const void *to,
                     socklen_t to_len) __asm__("sendto");
ssize_t lossy_sendmsg(int fd, const struct msghdr *message, int flags) __asm__("sendmsg");
int lossy_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags) __asm__("sendmmsg");

ssize_t lossy_sendto(int fd, const void *bytes, size_t len, int flags, const void *to,
                     socklen_t to_len)
{
    ssize_t (*next)(int, const void *, size_t, int, const void *, socklen_t);

    if (is_lost(fd))
        return (ssize_t)len;
    *(void **)&next = next_of("sendto");
    return next(fd, bytes, len, flags, to, to_len);
}

ssize_t lossy_sendmsg(int fd, const struct msghdr *message, int flags)
{
    ssize_t (*next)(int, const struct msghdr *, int);

    if (is_lost(fd))
        return len_of(message);
    *(void **)&next = next_of("sendmsg");
    return next(fd, message, flags);
}

int lossy_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    int (*next)(int, struct mmsghdr *, unsigned, int);

    if (is_lost(fd)) {
        for (unsigned i = 0; i < count; i++)
            messages[i].msg_len = (unsigned)len_of(&messages[i].msg_hdr);
        return (int)count;
    }
    *(void **)&next = next_of("sendmmsg");
    return next(fd, messages, count, flags);
}

/* ---- Two endpoints ---- */

static struct pair pair;
static struct fid_eq *eq;
static unsigned downs, ups; /* that the queue told of */

static void open_with_events(const char *spec)
{
    downs = ups = 0;
    pair_open_with_events(&pair, spec, &eq);
}

static void close_with_events(void)
{
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fi_close(&pair.ep[i]->fid), 0);
        pair.ep[i] = NULL;
    }
    assert_int_equal(fi_close(&eq->fid), 0);
    pair_close(&pair);
}

static bool is_ours(const struct fid *fid)
{
    return fid == &pair.ep[0]->fid || fid == &pair.ep[1]->fid;
}

/* Each is of the second rail. */
static void take_events(void)
{
    struct fi_eq_err_entry error = {.err_data_size = 0};
    struct fi_eq_entry entry;
    uint32_t event;
    ssize_t rc;

    while ((rc = fi_eq_read(eq, &event, &entry, sizeof(entry), 0)) != -FI_EAGAIN) {
        if (rc == -FI_EAVAIL) {
            assert_int_equal(fi_eq_readerr(eq, &error, 0), sizeof(error));
            assert_int_equal(error.err, FI_ENETDOWN);
            assert_int_equal(error.data, 1);
            assert_true(is_ours(error.fid) && error.context == &pair);
            downs++;
            continue;
        }
        assert_int_equal(rc, sizeof(entry));
        assert_int_equal(event, FI_NOTIFY);
        assert_int_equal(entry.data, 1);
        assert_true(is_ours(entry.fid) && entry.context == &pair);
        ups++;
    }
}

/* ---- What is told ---- */

static void message(uint64_t tag)
{
    enum {
        SIZE = 1 << 20
    };
    char *from = malloc(SIZE), *to = malloc(SIZE);
    struct fi_cq_tagged_entry entry;

    assert_true(from && to);
    memset(from, (int)tag + 1, SIZE);
    PAIR_POST(&pair, fi_trecv(pair.ep[1], to, SIZE, NULL, FI_ADDR_UNSPEC, tag, 0, to));
    PAIR_POST(&pair, fi_tsend(pair.ep[0], from, SIZE, NULL, pair.to[1], tag, from));
    for (int left = 2; left;) {
        ssize_t rc = fi_cq_read(pair.cq, &entry, 1);

        assert_true(rc == 1 || rc == -FI_EAGAIN);
        left -= rc == 1;
    }
    assert_memory_equal(from, to, SIZE);
    free(from);
    free(to);
}

static unsigned lines_with(FILE *log, const char *text)
{
    unsigned count = 0;
    char line[512];

    rewind(log);
    while (fgets(line, sizeof(line), log))
        count += strstr(line, text) != NULL;
    return count;
}

/* One event, and one line in the log, of each endpoint that it was down to. */
static void a_rail_that_is_back_is_told_of(void **state)
{
    int before = dup(STDERR_FILENO);
    FILE *log = tmpfile();

    assert_true(log && before >= 0);
    dup2(fileno(log), STDERR_FILENO);
    open_with_events("mrail(rail_timeout=200ms);[rxm;tcp(iface=lo)+arq;udp(iface=lo)]");
    message(0);
    silent = true;
    for (uint64_t tag = 1; !downs; tag++) {
        message(tag);
        take_events();
    }
    assert_int_equal(ups, 0);
    silent = false;
    while (ups < downs) {
        assert_int_equal(fi_cq_read(pair.cq, NULL, 0), -FI_EAGAIN);
        take_events();
    }
    message(0);
    close_with_events();
    dup2(before, STDERR_FILENO);
    close(before);
    print_message("down %u times, back %u times\n", downs, ups);
    assert_true(ups <= 2);
    assert_int_equal(lines_with(log, "rail 2 (lo) is down: it is silent; others carry on\n"),
                     downs);
    assert_int_equal(lines_with(log, "rail 2 (lo) is back\n"), ups);
    fclose(log);
}

/* ---- An address that is removed ---- */

enum {
    MANY = 4, /* of each kind */
    PART = 2 << 20,
    OPS = 5 * MANY, /* writes, reads, sends, receives, atomics */
};

static struct {
    char *bytes, *written, *read, *received; /* MANY parts each */
    uint64_t one, sum;
    struct fid_mr *source, *target, *number; /* of bytes, written, sum */
    unsigned ends[OPS];
    bool failed[OPS];
} all;

static void take_one_end(void)
{
    struct fi_cq_err_entry error = {.err_data_size = 0};
    struct fi_cq_tagged_entry entry;
    ssize_t rc = fi_cq_read(pair.cq, &entry, 1);
    bool failed = rc == -FI_EAVAIL;
    unsigned *end;

    take_events();
    if (rc == -FI_EAGAIN)
        return;
    assert_int_equal(failed ? fi_cq_readerr(pair.cq, &error, 0) : rc, 1);
    end = failed ? error.op_context : entry.op_context;
    assert_true(end >= all.ends && end < all.ends + OPS);
    ++*end;
    all.failed[end - all.ends] = failed;
}

static unsigned ended(void)
{
    unsigned count = 0;

    for (unsigned i = 0; i < OPS; i++)
        count += all.ends[i] > 0;
    return count;
}

static void open_memory(unsigned seed)
{
    memset(&all, 0, sizeof(all));
    all.bytes = malloc(MANY * PART);
    all.written = calloc(MANY, PART);
    all.read = calloc(MANY, PART);
    all.received = calloc(MANY, PART);
    all.one = 1;
    assert_true(all.bytes && all.written && all.read && all.received);
    for (size_t i = 0; i < MANY * PART; i++)
        all.bytes[i] = (char)(i * 11 + i / 253 + seed);
    assert_int_equal(
        fi_mr_reg(pair.domain, all.bytes, MANY * PART, FI_REMOTE_READ, 0, 1, 0, &all.source, NULL),
        0);
    assert_int_equal(fi_mr_reg(pair.domain, all.written, MANY * PART, FI_REMOTE_WRITE, 0, 2, 0,
                               &all.target, NULL),
                     0);
    assert_int_equal(fi_mr_reg(pair.domain, &all.sum, sizeof(all.sum), FI_REMOTE_WRITE, 0, 3, 0,
                               &all.number, NULL),
                     0);
}

static void close_memory(void)
{
    assert_int_equal(fi_close(&all.source->fid), 0);
    assert_int_equal(fi_close(&all.target->fid), 0);
    assert_int_equal(fi_close(&all.number->fid), 0);
    free(all.bytes);
    free(all.written);
    free(all.read);
    free(all.received);
}

static uint64_t addr_of(const void *bytes, size_t at)
{
    bool virtual = pair.info->domain_attr->mr_mode & (FI_MR_VIRT_ADDR | FI_MR_BASIC);

    return at + (virtual ? (uint64_t)(uintptr_t)bytes : 0);
}

#define POST_ALL(call)                                                                             \
    do {                                                                                           \
        ssize_t post_rc;                                                                           \
        while ((post_rc = (call)) == -FI_EAGAIN)                                                   \
            take_one_end();                                                                        \
        assert_int_equal(post_rc, 0);                                                              \
    } while (0)

static void post_all(void)
{
    struct fid_ep *from = pair.ep[0], *to = pair.ep[1];
    fi_addr_t peer = pair.to[1];

    for (unsigned i = 0; i < MANY; i++) {
        size_t at = (size_t)i * PART;
        unsigned *end = &all.ends[i];

        POST_ALL(fi_trecv(to, all.received + at, PART, NULL, FI_ADDR_UNSPEC, i, 0, end + 3 * MANY));
        POST_ALL(fi_write(from, all.bytes + at, PART, NULL, peer, addr_of(all.written, at),
                          fi_mr_key(all.target), end));
        POST_ALL(fi_read(from, all.read + at, PART, NULL, peer, addr_of(all.bytes, at),
                         fi_mr_key(all.source), end + MANY));
        POST_ALL(fi_tsend(from, all.bytes + at, PART, NULL, peer, i, end + 2 * MANY));
        POST_ALL(fi_atomic(from, &all.one, 1, NULL, peer, addr_of(&all.sum, 0),
                           fi_mr_key(all.number), FI_UINT64, FI_SUM, end + 4 * MANY));
    }
}

/* Receives that met no message wait for others. */
static void end_all(void)
{
    while (ended() < OPS) {
        unsigned left = OPS - ended();

        for (unsigned i = 0; i < OPS; i++)
            left -= !all.ends[i] && i / MANY == 3;
        if (!left) {
            for (unsigned i = 3 * MANY; i < 4 * MANY; i++)
                fi_cancel(&pair.ep[1]->fid, &all.ends[i]);
        }
        take_one_end();
    }
    for (unsigned i = 0; i < 1000; i++)
        take_one_end();
}

/* Once each, and with its bytes where it did not fail. */
static unsigned check_all(void)
{
    unsigned failed = 0, summed = 0;

    for (unsigned i = 0; i < OPS; i++) {
        const char *const arrived[] = {all.written, all.read, NULL, all.received, NULL};
        const char *bytes = arrived[i / MANY];
        size_t at = (size_t)(i % MANY) * PART;

        assert_int_equal(all.ends[i], 1);
        failed += all.failed[i];
        summed += i / MANY == 4 && !all.failed[i];
        if (!all.failed[i] && bytes)
            assert_memory_equal(bytes + at, all.bytes + at, PART);
    }
    assert_true(all.sum >= summed && all.sum <= MANY);
    return failed;
}

static void remove_under_transfers(const char *spec, unsigned round)
{
    unsigned char name[256];
    size_t len = sizeof(name);
    unsigned before;

    open_with_events(spec);
    assert_int_equal(fi_getname(&pair.ep[1]->fid, name, &len), 0);
    message(MANY);
    open_memory(round);
    silent = true;
    post_all();
    for (unsigned i = 0; round % 2 ? !downs && ended() < OPS : i < round * 8; i++)
        take_one_end();
    before = ended();
    assert_int_equal(fi_av_remove(pair.av, &pair.to[1], 1, 0), 0);
    end_all();
    print_message("%u had ended, then %u failed; down %u times, back %u times\n", before,
                  check_all(), downs, ups);
    silent = false;
    assert_int_equal(fi_av_insert(pair.av, name, 1, &pair.to[1], 0, NULL), 1);
    message(MANY);
    close_memory();
    close_with_events();
}

/* While a rail loses everything, in odd rounds when it is said to be down. */
static void what_is_under_way_to_a_removed_address_ends_once(void **state)
{
    static const char *const specs[] = {
        "mrail(rail_timeout=200ms);[rxm;tcp(iface=lo)+arq;udp(iface=lo)]",
        "mrail(rail_timeout=200ms);[rxm;tcp(iface=lo)+rxd;udp(iface=lo)]",
    };

    pair_caps = FI_ATOMIC;
    for (unsigned round = 0; round < 8; round++)
        remove_under_transfers(specs[round / 2 % 2], round);
    pair_caps = 0;
}

/* ---- Order ---- */

enum {
    PLACES = 4, /* in all.written: that many writes are under way at most */
    WRITES = 60,
    DEATHS = 3,
};

static struct {
    uint64_t seed;
    unsigned posted, told; /* writes; those that the target was told of */
} fenced;

static unsigned draw(unsigned below)
{
    fenced.seed = fenced.seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(fenced.seed >> 33) % below;
}

/* A large write, and behind a fence a small one that the target is told of. */
static void post_fenced(unsigned n)
{
    size_t at = (size_t)(n % PLACES) * PART;
    struct iovec iov = {&all.one, sizeof(all.one)};
    struct fi_rma_iov to = {addr_of(&all.sum, 0), sizeof(all.sum), fi_mr_key(all.number)};
    struct fi_msg_rma flag = {.msg_iov = &iov,
                              .iov_count = 1,
                              .addr = pair.to[1],
                              .rma_iov = &to,
                              .rma_iov_count = 1,
                              .data = n};

    memset(all.bytes + at, (int)n, PART);
    PAIR_POST(&pair, fi_writemsg(pair.ep[0],
                                 &(struct fi_msg_rma){
                                     .msg_iov = &(struct iovec){all.bytes + at, PART},
                                     .iov_count = 1,
                                     .addr = pair.to[1],
                                     .rma_iov = &(struct fi_rma_iov){addr_of(all.written, at), PART,
                                                                     fi_mr_key(all.target)},
                                     .rma_iov_count = 1,
                                 },
                                 0));
    PAIR_POST(&pair, fi_writemsg(pair.ep[0], &flag, FI_FENCE | FI_REMOTE_CQ_DATA));
}

/* The target is told in the order of the posts, and by then has all bytes from before. */
static void look_at_fenced(void)
{
    struct fi_cq_tagged_entry entry;
    ssize_t rc = fi_cq_read(pair.cq, &entry, 1);

    take_events();
    if (rc == -FI_EAGAIN)
        return;
    assert_int_equal(rc, 1);
    if (!(entry.flags & FI_REMOTE_CQ_DATA))
        return;
    assert_int_equal(entry.data, fenced.told);
    for (size_t at = 0; at < PART; at++)
        assert_int_equal(all.written[(entry.data % PLACES) * PART + at], (char)entry.data);
    fenced.told++;
}

/* Until the rail has been down a few times. */
static void write_under_deaths(const char *spec)
{
    open_with_events(spec);
    open_memory(0);
    message(0);
    fenced.posted = fenced.told = 0;
    while (fenced.told < fenced.posted || fenced.posted < WRITES || downs < DEATHS) {
        unsigned before = fenced.told;

        if (fenced.posted < fenced.told + PLACES && (fenced.posted < WRITES || downs < DEATHS))
            post_fenced(fenced.posted++);
        look_at_fenced();
        if (!silent && before != fenced.told && downs == ups && !draw(4))
            silent = true;
        else if (silent && downs > ups && !draw(100))
            silent = false;
    }
    silent = false;
    print_message("%u writes; down %u times, back %u times\n", fenced.told, downs, ups);
    close_memory();
    close_with_events();
}

static void writes_keep_their_order_behind_fences(void **state)
{
    const char *seed = getenv("WEFT_SEED");

    fenced.seed = seed ? strtoull(seed, NULL, 0) : (uint64_t)getpid();
    print_message("WEFT_SEED=%llu\n", (unsigned long long)fenced.seed);
    write_under_deaths("mrail(rail_timeout=100ms);[rxm;tcp(iface=lo)+arq;udp(iface=lo)]");
    write_under_deaths("mrail(rail_timeout=100ms);[rxm;tcp(iface=lo)+rxd;udp(iface=lo)]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rail_that_is_back_is_told_of),
        cmocka_unit_test(what_is_under_way_to_a_removed_address_ends_once),
        cmocka_unit_test(writes_keep_their_order_behind_fences),
    };

    setenv("FI_LOG_LEVEL", "warn", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
