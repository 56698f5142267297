/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two namespaces with a veth for each rail, as two hosts: links go down and up, become slow, and
 * lose addresses while messages, accesses and atomics go by them, and every byte is compared; a
 * host dies; and no rail is left. Rates are printed, not judged. Skipped without the right to make
 * namespaces. WEFT_MRAIL_STACK, WEFT_MRAIL_MB (to be sent in each phase), WEFT_MRAIL_MBIT (of the
 * rails, separated by blanks) say otherwise.
 */
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "../../../support/shell.h"

enum {
    SIZE = 1 << 20,
    WINDOW = 8,
    RAILS = 4, /* at most */
    KEY = 7,
};

/* Of both hosts, and the test. */
struct shared {
    char name[2][256];
    volatile int named[2], done, failed;
    volatile int phase; /* that the sender is in */
    volatile uint64_t bytes;
    volatile unsigned downs[RAILS], ups[RAILS]; /* that the sender was told of */
    volatile unsigned errors;                   /* of the sender, where its peer is gone */
    volatile int err;                           /* the last */
};

struct host {
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_eq *eq;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_ep *ep;
    struct fid_mr *mr;
    fi_addr_t peer;
    unsigned char *memory; /* that the peer accesses: WINDOW buffers, and a number */
};

static struct shared *shared;
static unsigned rails;      /* of this course */
static const char *options; /* of its mrail */
static bool tells;          /* the sender waits for the news that rails 0, 1 and 3 are back */
static bool dies;           /* the receiver, or all rails, in the midst of it */
static unsigned errors;     /* of the sender, then */
static char space[2][32];

#define MUST(call)                                                                                 \
    do {                                                                                           \
        long must_rc = (long)(call);                                                               \
        if (must_rc) {                                                                             \
            fprintf(stderr, "%s:%d: %s: %ld\n", __FILE__, __LINE__, #call, must_rc);               \
            shared->failed = 1;                                                                    \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* ---- The network ---- */

static unsigned mbit_of(int rail)
{
    const char *text = getenv("WEFT_MRAIL_MBIT");
    char *end;
    unsigned long value = text ? strtoul(text, &end, 10) : 1000;

    for (; text && rail; rail--)
        value = strtoul(end, &end, 10);
    return (unsigned)value;
}

static bool make_rail(int rail)
{
    bool made = run("ip link add name rail%d netns %s type veth peer name rail%d netns %s", rail,
                    space[0], rail, space[1]);

    for (int i = 0; made && i < 2; i++)
        made = run("ip -n %s addr add 10.78.%d.%d/24 dev rail%d && ip -n %s link set rail%d up && "
                   "tc -n %s qdisc add dev rail%d root tbf rate %umbit burst 256k latency 50ms",
                   space[i], rail, i + 1, rail, space[i], rail, space[i], rail, mbit_of(rail));
    return made;
}

/* A link that was set up has no carrier for a moment, and carries nothing until then. */
static bool has_carrier(int rail)
{
    bool has = true;

    for (int i = 0; has && i < 2; i++)
        has =
            run("for n in $(seq 1000); do "
                "ip -n %s link show rail%d | grep -q LOWER_UP && exit 0; sleep 0.02; done; exit 1",
                space[i], rail);
    return has;
}

static bool make_hosts(void)
{
    for (int i = 0; i < 2; i++) {
        snprintf(space[i], sizeof(space[i]), "weft-mrail-%d-%d", (int)getpid(), i);
        if (!run("ip netns add %s 2>/dev/null", space[i]))
            return false;
    }
    for (unsigned i = 0; i < rails; i++) {
        if (!make_rail((int)i) || !has_carrier((int)i))
            return false;
    }
    return run("ip -n %s link set lo up && ip -n %s link set lo up", space[0], space[1]);
}

static int remove_hosts(void **state)
{
    for (int i = 0; i < 2; i++)
        run("ip netns del %s 2>/dev/null", space[i]);
    return 0;
}

static void set_rail(int rail, const char *state)
{
    assert_true(run("ip -n %s link set rail%d %s", space[0], rail, state));
}

/* ---- A host ---- */

static void enter(int index)
{
    char path[64];
    int fd;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(path, sizeof(path), "/run/netns/%s", space[index]);
    fd = open(path, O_RDONLY);
    MUST(fd < 0);
    MUST(setns(fd, CLONE_NEWNET));
    close(fd);
}

static void set_stack(void)
{
    const char *stack = getenv("WEFT_MRAIL_STACK");
    char text[256];
    size_t used = (size_t)snprintf(text, sizeof(text), "mrail(%s);[", options);

    for (unsigned i = 0; i < rails; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%srxm;tcp(iface=rail%u)",
                                 i ? "+" : "", i);
    snprintf(text + used, sizeof(text) - used, "]");
    setenv("FI_PROVIDER", stack ? stack : text, 1);
}

static struct fi_info *offer(void)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;

    set_stack();
    hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;
    hints->ep_attr->type = FI_EP_RDM;
    MUST(fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &info));
    fi_freeinfo(hints);
    return info;
}

static void open_host(struct host *host, int index)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .size = 256};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    struct fi_eq_attr eq = {.wait_obj = FI_WAIT_NONE};
    struct fi_info *info = offer();
    size_t len = sizeof(shared->name[index]), room = (WINDOW + 1) * (size_t)SIZE;

    MUST(fi_fabric(info->fabric_attr, &host->fabric, NULL));
    MUST(fi_domain(host->fabric, info, &host->domain, NULL));
    MUST(fi_cq_open(host->domain, &cq, &host->cq, NULL));
    MUST(fi_av_open(host->domain, &av, &host->av, NULL));
    MUST(fi_endpoint(host->domain, info, &host->ep, NULL));
    MUST(fi_ep_bind(host->ep, &host->cq->fid, FI_TRANSMIT | FI_RECV));
    MUST(fi_ep_bind(host->ep, &host->av->fid, 0));
    MUST(fi_eq_open(host->fabric, &eq, &host->eq, NULL));
    MUST(fi_ep_bind(host->ep, &host->eq->fid, 0));
    MUST(fi_enable(host->ep));
    host->memory = calloc(1, room);
    MUST(!host->memory);
    MUST(fi_mr_reg(host->domain, host->memory, room, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0,
                   &host->mr, NULL));
    MUST(fi_getname(&host->ep->fid, shared->name[index], &len));
    __sync_synchronize();
    shared->named[index] = 1;
    while (!shared->named[!index])
        usleep(1000);
    MUST(fi_av_insert(host->av, shared->name[!index], 1, &host->peer, 0, NULL) != 1);
    fi_freeinfo(info);
}

/* Rails that are down, and back. */
static void read_events(struct host *host, int index)
{
    struct fi_eq_err_entry error = {.err_data_size = 0};
    struct fi_eq_entry entry;
    uint32_t event;
    ssize_t n;

    while ((n = fi_eq_read(host->eq, &event, &entry, sizeof(entry), 0)) != -FI_EAGAIN) {
        if (n == -FI_EAVAIL) {
            MUST(fi_eq_readerr(host->eq, &error, 0) < 0);
            MUST(error.err != FI_ENETDOWN || error.fid != &host->ep->fid || error.data >= RAILS);
            shared->downs[error.data] += !index;
            continue;
        }
        MUST(n != sizeof(entry) || event != FI_NOTIFY || entry.data >= RAILS);
        MUST(entry.fid != &host->ep->fid);
        shared->ups[entry.data] += !index;
    }
}

static void drive(struct host *host, unsigned *left)
{
    struct fi_cq_tagged_entry entries[16];
    struct fi_cq_err_entry error = {.err_data_size = 0};
    ssize_t n = fi_cq_read(host->cq, entries, 16);

    if (n == -FI_EAVAIL) {
        fi_cq_readerr(host->cq, &error, 0);
        if (dies) {
            errors++;
            shared->err = error.err;
            --*left;
            return;
        }
        fprintf(stderr, "an operation ended with %s\n", fi_strerror(error.err));
        MUST(error.err);
    }
    MUST(n < 0 && n != -FI_EAGAIN);
    if (n > 0)
        *left -= (unsigned)n;
}

#define POST(host, left, call)                                                                     \
    do {                                                                                           \
        long post_rc;                                                                              \
        while ((post_rc = (call)) == -FI_EAGAIN)                                                   \
            drive(host, left);                                                                     \
        MUST(post_rc);                                                                             \
        ++*(left);                                                                                 \
    } while (0)

static void wait_all(struct host *host, unsigned *left)
{
    while (*left)
        drive(host, left);
}

/* The bytes of one buffer, of one round. */
static void fill(unsigned char *bytes, unsigned round, unsigned slot)
{
    uint64_t value = (uint64_t)round * 1000003 + slot * 7919 + 1;

    for (size_t i = 0; i < SIZE; i += sizeof(value), value = value * 6364136223846793005u + 1)
        memcpy(bytes + i, &value, sizeof(value));
}

static void compare(const unsigned char *bytes, unsigned round, unsigned slot, const char *what)
{
    unsigned char *want = malloc(SIZE);

    fill(want, round, slot);
    if (memcmp(bytes, want, SIZE)) {
        fprintf(stderr, "round %u, slot %u: %s differs\n", round, slot, what);
        MUST(1);
    }
    free(want);
}

/* Messages, half of them with tags, and writes of the same bytes. */
static void post_out(struct host *host, unsigned char *out, unsigned round, unsigned *left)
{
    for (unsigned slot = 0; slot < WINDOW; slot++) {
        unsigned char *bytes = out + (size_t)slot * SIZE;

        fill(bytes, round, slot);
        if (slot % 2)
            POST(host, left, fi_tsend(host->ep, bytes, SIZE, NULL, host->peer, slot, NULL));
        else
            POST(host, left, fi_send(host->ep, bytes, SIZE, NULL, host->peer, NULL));
    }
    for (unsigned slot = 0; slot < WINDOW; slot++)
        POST(host, left,
             fi_write(host->ep, out + (size_t)slot * SIZE, SIZE, NULL, host->peer,
                      (size_t)slot * SIZE, KEY, NULL));
}

/* Reads of all that was written, and one is added to the number behind it. */
static void post_in(struct host *host, unsigned char *in, unsigned *left)
{
    static const uint64_t one = 1;

    for (unsigned slot = 0; slot < WINDOW; slot++)
        POST(host, left,
             fi_read(host->ep, in + (size_t)slot * SIZE, SIZE, NULL, host->peer,
                     (size_t)slot * SIZE, KEY, NULL));
    POST(host, left,
         fi_atomic(host->ep, &one, 1, NULL, host->peer, (uint64_t)WINDOW * SIZE, KEY, FI_UINT64,
                   FI_SUM, NULL));
}

static void send_round(struct host *host, unsigned char *out, unsigned char *in, unsigned round)
{
    unsigned left = 0;

    post_out(host, out, round, &left);
    wait_all(host, &left);
    memset(in, 0, (size_t)WINDOW * SIZE);
    post_in(host, in, &left);
    wait_all(host, &left);
    for (unsigned slot = 0; slot < WINDOW; slot++)
        compare(in + (size_t)slot * SIZE, round, slot, "what was written and read");
    shared->bytes += 3ull * WINDOW * SIZE;
}

static void be_sender(int index, unsigned rounds)
{
    unsigned char *out = malloc((size_t)WINDOW * SIZE), *in = malloc((size_t)WINDOW * SIZE);
    struct host host = {NULL};
    unsigned left = 0;
    uint64_t value = 0;

    enter(index);
    open_host(&host, index);
    for (unsigned round = 0; round < rounds; round++) {
        send_round(&host, out, in, round);
        read_events(&host, index);
    }
    while (tells && !(shared->ups[0] && shared->ups[1] && shared->ups[3])) {
        drive(&host, &left);
        read_events(&host, index);
    }
    POST(&host, &left,
         fi_read(host.ep, &value, sizeof(value), NULL, host.peer, (uint64_t)WINDOW * SIZE, KEY,
                 NULL));
    wait_all(&host, &left);
    MUST(value != rounds);
    shared->done = 1;
    _exit(0);
}

/* Sends until that ends in an error; then everything that was accepted has ended, once. */
static void be_abandoned(int index)
{
    unsigned char *out = calloc(WINDOW, SIZE), *in = calloc(WINDOW, SIZE);
    struct host host = {NULL};
    unsigned left = 0;

    enter(index);
    open_host(&host, index);
    for (unsigned round = 0; !errors; round++) {
        post_out(&host, out, round, &left);
        post_in(&host, in, &left);
        wait_all(&host, &left);
        shared->bytes += 3ull * WINDOW * SIZE;
    }
    shared->errors = errors;
    for (int i = 0; i < 100; i++, usleep(1000)) {
        left = 1; /* that it would take */
        drive(&host, &left);
        MUST(left != 1);
    }
    MUST(fi_close(&host.ep->fid));
    shared->done = 1;
    _exit(0);
}

static void be_receiver(int index, unsigned rounds)
{
    unsigned char *in = malloc((size_t)WINDOW * SIZE);
    struct host host = {NULL};
    unsigned left = 0;

    enter(index);
    open_host(&host, index);
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned slot = 0; slot < WINDOW; slot++) {
            unsigned char *bytes = in + (size_t)slot * SIZE;

            if (slot % 2)
                POST(&host, &left,
                     fi_trecv(host.ep, bytes, SIZE, NULL, FI_ADDR_UNSPEC, slot, 0, NULL));
            else
                POST(&host, &left, fi_recv(host.ep, bytes, SIZE, NULL, FI_ADDR_UNSPEC, NULL));
        }
        wait_all(&host, &left);
        while (errors) /* without its peer, which will not come back */
            pause();
        for (unsigned slot = 0; slot < WINDOW; slot++)
            compare(in + (size_t)slot * SIZE, round, slot, "a message");
    }
    while (!shared->done)
        drive(&host, &left);
    _exit(0);
}

/* ---- The course ---- */

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

enum {
    PHASE_MB = 48, /* of a phase; WEFT_MRAIL_MB says otherwise */
    PHASE_SECONDS = 250,
};

static uint64_t phase_mb(void)
{
    const char *text = getenv("WEFT_MRAIL_MB");

    return text ? strtoull(text, NULL, 10) : PHASE_MB;
}

static double phase_seconds(void)
{
    double more = (double)phase_mb() / PHASE_MB;

    return PHASE_SECONDS * (more > 1 ? more : 1);
}

/* Until so many bytes more have been transferred, or it is done; prints the rate of each half
 * second. */
static void watch(const char *what, uint64_t bytes)
{
    uint64_t begin = shared->bytes, last = begin;
    double from = seconds(), since = from;

    while (shared->bytes - begin < bytes && !shared->done && !shared->failed) {
        double now;

        usleep(10000);
        now = seconds();
        if (now - since < 0.5)
            continue;
        print_message("%-24s %5.1f s %7.0f Mbit/s\n", what, now - from,
                      (double)(shared->bytes - last) * 8e-6 / (now - since));
        since = now;
        last = shared->bytes;
        assert_true(now - from < phase_seconds());
    }
    assert_false(shared->failed);
}

static uint64_t phase_bytes(void)
{
    return phase_mb() << 20;
}

static pid_t hosts[2];

/* Two hosts that transfer so many phases. */
static bool start(unsigned count, const char *with, unsigned phases)
{
    unsigned rounds = (unsigned)(phases * phase_bytes() / (3ull * WINDOW * SIZE)) + 1;

    rails = count;
    options = with;
    memset(shared, 0, sizeof(*shared));
    if (!make_hosts())
        return false;
    for (int i = 0; i < 2; i++) {
        hosts[i] = fork();
        assert_true(hosts[i] >= 0);
        if (!hosts[i] && !i && dies)
            be_abandoned(i);
        if (!hosts[i] && !i)
            be_sender(i, rounds);
        if (!hosts[i])
            be_receiver(i, rounds);
    }
    return true;
}

static void finish(void)
{
    int status;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(waitpid(hosts[i], &status, 0), hosts[i]);
        assert_int_equal(status, 0);
    }
}

static void links_go_and_return(void **state)
{
    uint64_t each = phase_bytes();

    if (!start(2, "rail_timeout=1s", 6))
        skip();
    watch("all rails", each);
    set_rail(1, "down");
    watch("rail 1 is down", each);
    set_rail(1, "up");
    watch("rail 1 is back", each);
    set_rail(0, "down");
    set_rail(1, "down");
    usleep(1500000);
    set_rail(0, "up");
    watch("only rail 0 is back", each);
    set_rail(1, "up");
    watch("all are back", UINT64_MAX);
    finish();
}

/* Rails that are silent for an hour before they are down: only the link tells. */
static void a_link_tells_of_its_rail(void **state)
{
    uint64_t each = phase_bytes();

    tells = true;
    if (!start(4, "rail_timeout=60m", 6))
        skip();
    watch("four rails", each / 2);
    set_rail(1, "down");
    watch("rail 1 is down", each);
    set_rail(3, "down");
    watch("so is rail 3", each);
    set_rail(1, "up");
    set_rail(3, "up");
    watch("both are back", each);
    set_rail(0, "down");
    watch("rail 0 is down", each);
    set_rail(0, "up");
    watch("all are back", UINT64_MAX);
    finish();
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(shared->downs[i] != 0, i != 2);
        assert_int_equal(shared->ups[i], shared->downs[i]);
    }
    tells = false;
}

static void a_slowed_rail_slows_itself(void **state)
{
    uint64_t each = phase_bytes();

    if (!start(2, "rail_timeout=1s", 3))
        skip();
    watch("all rails", each);
    for (int i = 0; i < 2; i++)
        assert_true(run("tc -n %s qdisc change dev rail1 root tbf rate %umbit burst 256k latency "
                        "50ms",
                        space[i], mbit_of(1) / 100));
    watch("rail 1 has a hundredth", UINT64_MAX);
    finish();
}

static void an_address_goes_with_its_link(void **state)
{
    uint64_t each = phase_bytes();

    if (!start(2, "rail_timeout=1s", 5))
        skip();
    watch("all rails", each);
    set_rail(1, "down");
    assert_true(run("ip -n %s addr flush dev rail1", space[0]));
    watch("rail 1 has no address", each);
    set_rail(1, "up");
    watch("it has a link again", each);
    assert_true(run("ip -n %s addr add 10.78.1.1/24 dev rail1", space[0]));
    watch("and its address", UINT64_MAX);
    finish();
}

static void what_was_sent_to_a_killed_peer_ends(void **state)
{
    int status;

    dies = true;
    if (!start(2, "rail_timeout=1s", 1000))
        skip();
    watch("all rails", phase_bytes());
    assert_int_equal(kill(hosts[1], SIGKILL), 0);
    watch("the peer is dead", UINT64_MAX);
    assert_int_equal(waitpid(hosts[1], &status, 0), hosts[1]);
    assert_int_equal(waitpid(hosts[0], &status, 0), hosts[0]);
    assert_int_equal(status, 0);
    dies = false;
}

/* They wait for `patience`; then each ends once, as be_abandoned sees. */
static void with_no_rail_left_operations_wait_and_end(void **state)
{
    const double patience = 5;
    int status;
    double from;

    dies = true;
    if (!start(2, "rail_timeout=500ms,patience=5s", 1000))
        skip();
    watch("all rails", phase_bytes());
    from = seconds();
    set_rail(0, "down");
    set_rail(1, "down");
    watch("no rail", UINT64_MAX);
    print_message("%u errors, the last %s, after %.1f s\n", shared->errors,
                  fi_strerror(shared->err), seconds() - from);
    assert_true(seconds() - from > patience / 2); /* it was heard some time before */
    assert_true(shared->errors > 0);
    assert_int_equal(kill(hosts[1], SIGKILL), 0);
    assert_int_equal(waitpid(hosts[1], &status, 0), hosts[1]);
    assert_int_equal(waitpid(hosts[0], &status, 0), hosts[0]);
    assert_int_equal(status, 0);
    dies = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(links_go_and_return, remove_hosts),
        cmocka_unit_test_teardown(a_link_tells_of_its_rail, remove_hosts),
        cmocka_unit_test_teardown(a_slowed_rail_slows_itself, remove_hosts),
        cmocka_unit_test_teardown(an_address_goes_with_its_link, remove_hosts),
        cmocka_unit_test_teardown(what_was_sent_to_a_killed_peer_ends, remove_hosts),
        cmocka_unit_test_teardown(with_no_rail_left_operations_wait_and_end, remove_hosts),
    };

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
