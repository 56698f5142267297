/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * soak SPEC SECONDS [SEED]: 16 endpoints in 4 processes send each other messages of all sizes,
 * write and read each other's memory, and add to words of it, while processes are killed and
 * started again, endpoints close and open again, and readers sleep. Every message that arrives is
 * whole, and those of one sender come in order, none twice; written bytes are read back; each
 * addition that succeeds is made once; every operation ends once; at the end each endpoint reaches
 * every other.
 *
 * A process that finds a fault says so and ends; the first process, which sees that, ends all
 * others. It waits for nothing without a limit, and the others die with it.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

enum {
    WORKERS = 4,
    EACH = 4,
    ENDS = WORKERS * EACH,
    SENDS = 6,
    RECEIVES = 8,
    ACCESSES = 4,
    PARTS = 8, /* of memory, of one slot: generations whose last writes cannot meet */
    BLOCK = 60 << 10,
    LARGEST = 256 << 10,
    DRAIN_MS = 120000,
    START_MS = 30000, /* until all are in a phase; until all have closed and ended */
    LAST_TAG = 99,
    MEMORY = 32 /* of messages of each sender */
};

enum phase {
    PHASE_RUN,
    PHASE_DRAIN,
    PHASE_LAST,
    PHASE_END
};

/* Shows every process who is where: `generation` is odd while an entry is written. */
struct board {
    _Atomic int phase;
    _Atomic unsigned drained, reached; /* workers */
    _Atomic unsigned long sent, failed, received, strays, reopened, read, added;
    struct {
        _Atomic unsigned generation;
        char address[256];
        size_t len;
    } at[ENDS];
};

struct header {
    uint32_t from, generation, sequence, size;
    uint32_t to, to_generation; /* whom the sender means */
    uint64_t address;           /* hash of where it was sent */
};

struct op {
    char *buffer;
    bool posted, last; /* of the last exchange */
    unsigned to;
    uint32_t number; /* of receives, in the order of posting; of accesses, the generation of `to` */
    uint64_t kind;   /* of accesses: FI_WRITE, FI_READ, FI_ATOMIC */
};

/* The part of an endpoint's memory that belongs to one other endpoint. */
struct part {
    uint64_t count; /* additions */
    char block[BLOCK];
};

/* An endpoint's record of its part at another. An access that failed may still be done: there are
 * no more then, until the other is a new one. */
struct place {
    struct header written; /* size 0: nothing, or it has been read back */
    uint32_t sequence;
    uint64_t count;
    bool busy, counted, off;
};

struct end {
    unsigned slot, generation;
    uint64_t address; /* hash */
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_mr *mr;
    struct part *parts;
    struct op sends[SENDS], receives[RECEIVES], accesses[ACCESSES];
    struct place places[ENDS];
    fi_addr_t addr[ENDS];
    unsigned known[ENDS], next[ENDS]; /* generation inserted, sequence to send */
    uint64_t hash[ENDS];              /* of the address inserted */
    struct {
        struct {
            uint32_t generation, sequence, number;
        } last[MEMORY];
        unsigned count;
    } seen[ENDS];
    uint32_t number; /* of receives posted */
    bool reached[ENDS], heard[ENDS];
};

static struct board *board;
static const char *spec;
static unsigned seed;
static pid_t pids[WORKERS]; /* of the first process; 0: none */

static long long now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (long long)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Says why, in one piece. No worker is left behind: it would keep open what this process's output
 * goes to. */
static _Noreturn __attribute__((format(printf, 1, 2))) void give_up(const char *format, ...)
{
    char why[512];
    va_list args;

    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    fprintf(stderr, "%s, seed %u: %s\n", spec, seed, why);
    for (int i = 0; i < WORKERS; i++) {
        if (pids[i])
            kill(pids[i], SIGKILL);
    }
    _exit(1);
}

#define CHECK(ok, ...)                                                                             \
    do {                                                                                           \
        if (!(ok))                                                                                 \
            give_up(__VA_ARGS__);                                                                  \
    } while (0)

static unsigned pick(unsigned *state, unsigned below)
{
    *state = *state * 1103515245U + 12345U;
    return (*state >> 12) % below;
}

/* ---- Messages ---- */

static unsigned char pattern(const struct header *header, size_t i)
{
    return (unsigned char)(i * 31 + header->from * 7 + header->generation * 3 + header->sequence);
}

static void make_message(char *buffer, const struct header *header)
{
    memcpy(buffer, header, sizeof *header);
    for (size_t i = sizeof *header; i < header->size; i++)
        buffer[i] = (char)pattern(header, i);
}

/* Messages of one sender match receives in the order of their posting. A small one may complete
 * before a large one that was sent before it. */
static void in_order(struct end *end, const struct header *header, uint32_t number)
{
    unsigned *count = &end->seen[header->from].count;

    for (unsigned i = 0; i < *count && i < MEMORY; i++) {
        uint32_t sequence = end->seen[header->from].last[i].sequence;

        if (end->seen[header->from].last[i].generation == header->generation)
            CHECK(sequence != header->sequence &&
                      (sequence < header->sequence) ==
                          (end->seen[header->from].last[i].number < number),
                  "message %u of %u in receive %u, message %u in receive %u", header->sequence,
                  header->from, number, sequence, end->seen[header->from].last[i].number);
    }
    end->seen[header->from].last[*count % MEMORY].generation = header->generation;
    end->seen[header->from].last[*count % MEMORY].sequence = header->sequence;
    end->seen[header->from].last[*count % MEMORY].number = number;
    ++*count;
}

/* Was the message meant for a former endpoint? The kernel may give a closed endpoint's port to the
 * next one, which then receives what was on its way, as with any sockets. It must have been sent to
 * that very address. */
static bool stray(const struct end *end, const struct header *header)
{
    if (header->to == end->slot && header->to_generation == end->generation)
        return false;
    CHECK(header->address == end->address,
          "message %u of %u to %u (generation %u) reaches %u (generation %u) at another address",
          header->sequence, header->from, header->to, header->to_generation, end->slot,
          end->generation);
    return true;
}

static void take_message(struct end *end, const char *buffer, size_t len, uint32_t number)
{
    struct header header;

    CHECK(len >= sizeof header, "a message of %zu bytes", len);
    memcpy(&header, buffer, sizeof header);
    CHECK(header.from < ENDS && header.size == len, "from %u, %u of %zu bytes", header.from,
          header.size, len);
    for (size_t i = sizeof header; i < len; i++)
        CHECK((unsigned char)buffer[i] == pattern(&header, i), "byte %zu of %zu", i, len);
    if (stray(end, &header)) {
        atomic_fetch_add(&board->strays, 1);
        return;
    }
    in_order(end, &header, number);
    atomic_fetch_add(&board->received, 1);
}

/* ---- Endpoints ---- */

static struct fi_info *getinfo(void)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;
    const char *node = strstr(spec, "shm") ? NULL : "127.0.0.1";
    int rc;

    CHECK(hints != NULL, "no memory");
    hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    rc = fi_getinfo(FI_VERSION(2, 6), node, NULL, node ? FI_SOURCE : 0, hints, &info);
    CHECK(!rc, "fi_getinfo: %s", fi_strerror(-rc));
    fi_freeinfo(hints);
    return info;
}

static uint64_t key_of(unsigned slot, unsigned generation)
{
    return (uint64_t)slot << 32 | generation;
}

/* Zeros, under the key of the generation that will be announced; a page for what is touched. */
static void open_memory(struct end *end, struct fid_domain *domain)
{
    unsigned next = (atomic_load(&board->at[end->slot].generation) | 1U) + 1;
    size_t size = sizeof(struct part) * PARTS * ENDS;

    end->parts = calloc(1, size);
    CHECK(end->parts != NULL, "no memory");
    CHECK(!fi_mr_reg(domain, end->parts, size, FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
                     key_of(end->slot, next), 0, &end->mr, NULL),
          "fi_mr_reg");
}

static uint64_t hash(const char *address, size_t len)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < len; i++)
        sum = sum * 1099511628211U + (unsigned char)address[i];
    return sum;
}

static void announce(struct end *end)
{
    char address[256] = {0};
    size_t len = sizeof address;

    CHECK(!fi_getname(&end->ep->fid, address, &len), "fi_getname");
    end->address = hash(address, len);
    atomic_fetch_or(&board->at[end->slot].generation, 1U);
    memcpy(board->at[end->slot].address, address, sizeof address);
    board->at[end->slot].len = len;
    end->generation = atomic_fetch_add(&board->at[end->slot].generation, 1U) + 1;
}

static void end_open(struct end *end, unsigned slot, struct fid_domain *domain,
                     struct fi_info *info)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
    struct fi_av_attr av = {.type = FI_AV_TABLE};

    memset(end, 0, sizeof *end);
    end->slot = slot;
    CHECK(!fi_cq_open(domain, &cq, &end->cq, NULL), "fi_cq_open");
    CHECK(!fi_av_open(domain, &av, &end->av, NULL), "fi_av_open");
    CHECK(!fi_endpoint(domain, info, &end->ep, NULL), "fi_endpoint");
    CHECK(!fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    CHECK(!fi_ep_bind(end->ep, &end->av->fid, 0) && !fi_enable(end->ep), "fi_enable");
    for (int i = 0; i < SENDS; i++)
        end->sends[i].buffer = malloc(LARGEST);
    for (int i = 0; i < RECEIVES; i++)
        end->receives[i].buffer = malloc(LARGEST);
    for (int i = 0; i < ACCESSES; i++)
        end->accesses[i].buffer = malloc(BLOCK);
    open_memory(end, domain);
    announce(end);
}

static void end_close(struct end *end)
{
    CHECK(!fi_close(&end->ep->fid), "fi_close of an endpoint with work outstanding");
    CHECK(!fi_close(&end->cq->fid) && !fi_close(&end->av->fid), "fi_close");
    CHECK(!fi_close(&end->mr->fid), "fi_close of memory");
    free(end->parts);
    for (int i = 0; i < SENDS; i++)
        free(end->sends[i].buffer);
    for (int i = 0; i < RECEIVES; i++)
        free(end->receives[i].buffer);
    for (int i = 0; i < ACCESSES; i++)
        free(end->accesses[i].buffer);
}

/* Looks up the endpoint that the board shows at the slot; false while the slot is empty. */
static bool look_up(struct end *end, unsigned slot)
{
    unsigned generation = atomic_load(&board->at[slot].generation);
    char address[256];

    if (!generation || generation & 1)
        return false;
    if (generation == end->known[slot])
        return true;
    memcpy(address, board->at[slot].address, sizeof address);
    if (atomic_load(&board->at[slot].generation) != generation)
        return false;
    if (end->known[slot])
        CHECK(!fi_av_remove(end->av, &end->addr[slot], 1, 0), "fi_av_remove");
    CHECK(fi_av_insert(end->av, address, 1, &end->addr[slot], 0, NULL) == 1, "fi_av_insert");
    end->known[slot] = generation;
    end->hash[slot] = hash(address, board->at[slot].len);
    end->next[slot] = 1;
    end->places[slot] = (struct place){0};
    return true;
}

static void send_to(struct end *end, unsigned slot, size_t size, bool last)
{
    struct header header = {.from = end->slot, .generation = end->generation, .to = slot};
    struct op *op = end->sends;
    ssize_t rc;

    while (op < end->sends + SENDS && op->posted)
        op++;
    if (op == end->sends + SENDS || !look_up(end, slot))
        return;
    header.sequence = end->next[slot];
    header.size = (uint32_t)size;
    header.to_generation = end->known[slot];
    header.address = end->hash[slot];
    make_message(op->buffer, &header);
    rc = fi_tsend(end->ep, op->buffer, size, NULL, end->addr[slot], last ? LAST_TAG : 1, op);
    CHECK(!rc || rc == -FI_EAGAIN, "fi_tsend: %s", fi_strerror((int)-rc));
    if (rc)
        return;
    op->posted = true;
    op->last = last;
    op->to = slot;
    end->next[slot]++;
    atomic_fetch_add(&board->sent, 1);
}

static ssize_t write_block(struct end *end, struct op *op, uint64_t at, size_t size)
{
    struct iovec iov = {op->buffer, size};
    struct fi_rma_iov rma = {at, size, key_of(op->to, op->number)};
    struct fi_msg_rma msg = {&iov, NULL, 1, end->addr[op->to], &rma, 1, op, 0};

    return fi_writemsg(end->ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE);
}

static ssize_t post_access(struct end *end, struct op *op, size_t size)
{
    static const uint64_t one = 1;
    struct place *place = &end->places[op->to];
    uint64_t at = (end->slot * PARTS + end->generation / 2 % PARTS) * sizeof(struct part);
    uint64_t block = at + offsetof(struct part, block), key = key_of(op->to, op->number);
    struct header header = {.from = end->slot,
                            .generation = end->generation,
                            .sequence = place->sequence + 1,
                            .size = (uint32_t)size,
                            .to = op->to};

    switch (op->kind) {
    case FI_WRITE:
        make_message(op->buffer, &header);
        place->written = header;
        return write_block(end, op, block, size);
    case FI_READ:
        return fi_read(end->ep, op->buffer, place->written.size, NULL, end->addr[op->to], block,
                       key, op);
    default:
        return fi_fetch_atomic(end->ep, &one, 1, NULL, op->buffer, NULL, end->addr[op->to], at, key,
                               FI_UINT64, FI_SUM, op);
    }
}

/* One at a time for each of the others; the next access reads the written bytes. */
static void access_to(struct end *end, unsigned slot, size_t size, bool adds)
{
    struct place *place = &end->places[slot];
    struct op *op = end->accesses;
    ssize_t rc;

    while (op < end->accesses + ACCESSES && op->posted)
        op++;
    if (op == end->accesses + ACCESSES || !look_up(end, slot) || place->busy || place->off)
        return;
    op->to = slot;
    op->number = end->known[slot];
    op->kind = place->written.size ? FI_READ : adds ? FI_ATOMIC : FI_WRITE;
    rc = post_access(end, op, size);
    CHECK(!rc || rc == -FI_EAGAIN, "an access: %s", fi_strerror((int)-rc));
    if (rc && op->kind == FI_WRITE)
        place->written.size = 0;
    if (rc)
        return;
    place->busy = op->posted = true;
    place->sequence += op->kind == FI_WRITE;
}

static void accessed(struct end *end, const struct op *op, int err)
{
    struct place *place = &end->places[op->to];
    uint64_t count;

    atomic_fetch_add(&board->failed, err != 0);
    if (op->number != end->known[op->to])
        return; /* of one that is no more */
    place->busy = false;
    place->off = err != 0;
    if (err || op->kind == FI_WRITE)
        return;
    if (op->kind == FI_READ) {
        CHECK(!memcmp(op->buffer, &place->written, sizeof place->written),
              "%u reads something else from %u than block %u", end->slot, op->to,
              place->written.sequence);
        for (size_t i = sizeof place->written; i < place->written.size; i++)
            CHECK((unsigned char)op->buffer[i] == pattern(&place->written, i),
                  "byte %zu of %u that was written to %u", i, place->written.size, op->to);
        place->written.size = 0;
        atomic_fetch_add(&board->read, 1);
        return;
    }
    memcpy(&count, op->buffer, sizeof count);
    CHECK(!place->counted || count == place->count, "%u finds %lu at %u, and made it %lu",
          end->slot, (unsigned long)count, op->to, (unsigned long)place->count);
    place->counted = true;
    place->count = count + 1;
    atomic_fetch_add(&board->added, 1);
}

static void completed(struct end *end, const struct fi_cq_tagged_entry *entry, int err)
{
    struct op *op = entry->op_context;

    CHECK(op && op->posted, "an operation ends twice");
    op->posted = false;
    if (op >= end->accesses && op < end->accesses + ACCESSES) {
        accessed(end, op, err);
    } else if (op >= end->sends && op < end->sends + SENDS) {
        atomic_fetch_add(&board->failed, err != 0);
        if (op->last)
            end->reached[op->to] = !err;
    } else if (!err) {
        struct header header;

        take_message(end, op->buffer, entry->len, op->number);
        memcpy(&header, op->buffer, sizeof header);
        if (entry->tag == LAST_TAG && !stray(end, &header))
            end->heard[header.from] = true;
    }
}

static void drive(struct end *end)
{
    struct fi_cq_tagged_entry entry;
    ssize_t n;

    for (int i = 0; i < RECEIVES; i++) {
        struct op *op = &end->receives[i];

        if (op->posted)
            continue;
        op->number = ++end->number;
        op->posted = true;
        if (fi_trecv(end->ep, op->buffer, LARGEST, NULL, FI_ADDR_UNSPEC, 0, ~0ULL, op))
            op->posted = false;
    }
    while ((n = fi_cq_read(end->cq, &entry, 1)) == 1)
        completed(end, &entry, 0);
    if (n == -FI_EAVAIL) {
        struct fi_cq_err_entry error = {0};

        CHECK(fi_cq_readerr(end->cq, &error, 0) == 1, "fi_cq_readerr");
        entry.op_context = error.op_context;
        completed(end, &entry, error.err);
    } else {
        CHECK(n == -FI_EAGAIN, "fi_cq_read: %zd", n);
    }
}

static bool sends_left(const struct end *end)
{
    for (int i = 0; i < ACCESSES; i++)
        if (end->accesses[i].posted)
            return true;
    for (int i = 0; i < SENDS; i++)
        if (end->sends[i].posted)
            return true;
    return false;
}

/* ---- A worker ---- */

static void disturb(struct end *ends, unsigned first, unsigned *state, struct fid_domain *domain,
                    struct fi_info *info)
{
    if (pick(state, 4000) == 0) {
        unsigned i = pick(state, EACH);

        end_close(&ends[i]);
        end_open(&ends[i], first + i, domain, info);
        atomic_fetch_add(&board->reopened, 1);
    }
    if (pick(state, 3000) == 0)
        usleep(1000 * pick(state, 60));
}

static void drive_until(struct end *ends, int phase)
{
    long long end = now_ms() + DRAIN_MS + START_MS;

    while (atomic_load(&board->phase) < phase) {
        for (int i = 0; i < EACH; i++)
            drive(&ends[i]);
        CHECK(now_ms() < end, "phase %d does not come", phase);
    }
}

/* Outstanding operations end; then each endpoint sends to every other until it has reached all, and
 * has heard of all. */
static void finish_worker(struct end *ends)
{
    long long end = now_ms() + DRAIN_MS;
    bool left;

    do {
        left = false;
        for (int i = 0; i < EACH; i++) {
            drive(&ends[i]);
            left |= sends_left(&ends[i]);
        }
        CHECK(now_ms() < end, "sends do not end");
    } while (left);
    atomic_fetch_add(&board->drained, 1);
    drive_until(ends, PHASE_LAST);
    end = now_ms() + DRAIN_MS;
    do {
        left = false;
        for (int i = 0; i < EACH; i++) {
            unsigned missing = ENDS, unheard = ENDS;

            drive(&ends[i]);
            for (unsigned to = 0; to < ENDS; to++) {
                if (!ends[i].reached[to])
                    missing = to;
                if (!ends[i].heard[to])
                    unheard = to;
            }
            if (missing < ENDS && !sends_left(&ends[i]))
                send_to(&ends[i], missing, 3000, true);
            left |= missing < ENDS || unheard < ENDS;
            CHECK(now_ms() < end, "%u does not reach %u, or has not heard of %u", ends[i].slot,
                  missing, unheard);
        }
    } while (left);
    atomic_fetch_add(&board->reached, 1);
    drive_until(ends, PHASE_END);
}

static _Noreturn void work(unsigned first, unsigned state)
{
    struct fi_info *info = getinfo();
    struct end *ends = calloc(EACH, sizeof *ends);
    struct fid_fabric *fabric;
    struct fid_domain *domain;

    CHECK(!fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
    CHECK(!fi_domain(fabric, info, &domain, NULL), "fi_domain");
    for (unsigned i = 0; i < EACH; i++)
        end_open(&ends[i], first + i, domain, info);
    while (atomic_load(&board->phase) == PHASE_RUN) {
        struct end *end = &ends[pick(&state, EACH)];
        size_t size = sizeof(struct header) + pick(&state, pick(&state, 8) ? 3000 : LARGEST - 64);

        send_to(end, pick(&state, ENDS), size, false);
        size = sizeof(struct header) + pick(&state, BLOCK - (unsigned)sizeof(struct header));
        access_to(end, pick(&state, ENDS), size, pick(&state, 2));
        for (int i = 0; i < EACH; i++)
            drive(&ends[i]);
        disturb(ends, first, &state, domain, info);
    }
    finish_worker(ends);
    for (int i = 0; i < EACH; i++)
        end_close(&ends[i]);
    CHECK(!fi_close(&domain->fid) && !fi_close(&fabric->fid), "fi_close");
    fi_freeinfo(info);
    free(ends);
    exit(0);
}

/* ---- The one that kills ---- */

static void start(unsigned worker, unsigned number)
{
    pid_t pid, parent = getpid();

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        memset(pids, 0, sizeof pids);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        work(worker * EACH, seed * 977 + number * 31 + worker);
    }
    CHECK(pid > 0, "fork");
    pids[worker] = pid;
}

/* The next process that has ended, or 0. */
static pid_t reap(int *status)
{
    pid_t pid = waitpid(-1, status, WNOHANG);

    for (int i = 0; pid > 0 && i < WORKERS; i++) {
        if (pids[i] == pid)
            pids[i] = 0;
    }
    return pid > 0 ? pid : 0;
}

static void none_has_ended(const char *when)
{
    int status;

    CHECK(!reap(&status), "a process ended with %#x while %s", (unsigned)status, when);
}

static void wait_for(_Atomic unsigned *count, const char *what)
{
    for (long long end = now_ms() + DRAIN_MS + START_MS; atomic_load(count) < WORKERS;) {
        none_has_ended(what);
        CHECK(now_ms() < end, "%u of %d processes %s", atomic_load(count), WORKERS, what);
        usleep(2000);
    }
}

/* On a busy machine none lived long enough. */
static void wait_for_accesses(void)
{
    for (long long end = now_ms() + DRAIN_MS; !board->read || !board->added;) {
        none_has_ended("all run");
        CHECK(now_ms() < end, "nothing was read, or nothing added");
        usleep(2000);
    }
}

static void wait_for_ends(void)
{
    long long end = now_ms() + DRAIN_MS + START_MS;

    for (int ended = 0; ended < WORKERS;) {
        int status;

        if (reap(&status)) {
            CHECK(!status, "the end of a process: %#x", (unsigned)status);
            ended++;
            continue;
        }
        CHECK(now_ms() < end, "%d of %d processes end", ended, WORKERS);
        usleep(2000);
    }
}

/* Until then processes are killed and started; how many. */
static unsigned disturb_all(long long end)
{
    unsigned state = seed, kills = 0;

    while (now_ms() < end) {
        unsigned victim = pick(&state, WORKERS);

        usleep(1000 * (100 + pick(&state, 700)));
        none_has_ended("all run");
        kill(pids[victim], SIGKILL);
        waitpid(pids[victim], NULL, 0);
        pids[victim] = 0;
        start(victim, ++kills);
    }
    return kills;
}

int main(int argc, char **argv)
{
    unsigned kills;

    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: soak SPEC SECONDS [SEED]\n");
        return 2;
    }
    spec = argv[1];
    seed = argc == 4 ? (unsigned)atoi(argv[3]) : (unsigned)getpid();
    setenv("FI_PROVIDER", spec, 1);
    setenv("FI_RXM_CONNECT_TIMEOUT", "2s", 1);
    setenv("FI_LOG_LEVEL", "none", 0);
    printf("%s: seed %u\n", spec, seed);
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(board != MAP_FAILED, "no memory");
    for (unsigned i = 0; i < WORKERS; i++)
        start(i, 0);
    kills = disturb_all(now_ms() + atoi(argv[2]) * 1000LL);
    usleep(300000);
    wait_for_accesses();
    atomic_store(&board->phase, PHASE_DRAIN);
    wait_for(&board->drained, "drain");
    atomic_store(&board->phase, PHASE_LAST);
    wait_for(&board->reached, "reach everybody");
    atomic_store(&board->phase, PHASE_END);
    wait_for_ends();
    printf(
        "%s: %lu sends, %lu received, %lu strays, %lu blocks written and read, %lu additions, %lu "
        "operations failed, %u kills, %lu endpoints reopened\n",
        spec, board->sent, board->received, board->strays, board->read, board->added, board->failed,
        kills, board->reopened);
    return 0;
}
