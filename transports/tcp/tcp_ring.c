/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_ring.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "transports/tcp/tcp_conn.h"
#include "transports/tcp/tcp_domain.h"
#include "transports/tcp/tcp_poller.h"
#include "transports/tcp/tcp_ring_kind.h"

enum {
    SQ_ENTRIES = 256,
    CQ_ENTRIES = 4096,
    PROBED = 256, /* operations that a kernel may have */
};

/* ---- Buffers ---- */

static size_t buffers_size(void)
{
    return (size_t)RING_BUFFERS * RING_BUFFER + RING_BUFFERS * sizeof(struct io_uring_buf);
}

static void give(struct tcp_ring *ring, uint16_t id, int offset)
{
    io_uring_buf_ring_add(ring->entries, ring->buffers + (size_t)id * RING_BUFFER, RING_BUFFER, id,
                          io_uring_buf_ring_mask(RING_BUFFERS), offset);
}

static int buffers_open(struct tcp_ring *ring)
{
    void *memory =
        mmap(NULL, buffers_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return -errno;
    /* A child has no use for it, and the parent's pages are not to be copied. */
    madvise(memory, buffers_size(), MADV_DONTFORK);
    ring->buffers = memory;
    ring->entries = (void *)(ring->buffers + (size_t)RING_BUFFERS * RING_BUFFER);
    struct io_uring_buf_reg reg = {
        .ring_addr = (uint64_t)(uintptr_t)ring->entries,
        .ring_entries = RING_BUFFERS,
        .bgid = RING_GROUP,
    };
    int rc = io_uring_register_buf_ring(&ring->io, &reg, 0);
    if (rc) {
        munmap(memory, buffers_size());
        ring->buffers = NULL;
        return rc;
    }
    io_uring_buf_ring_init(ring->entries);
    for (unsigned i = 0; i < RING_BUFFERS; i++)
        give(ring, (uint16_t)i, (uint16_t)i);
    io_uring_buf_ring_advance(ring->entries, RING_BUFFERS);
    return 0;
}

void ring_return_first(struct tcp_ring *ring, struct tcp_uring *uring)
{
    uint16_t id = uring->first;

    if (id == uring->last)
        uring->chained = false;
    uring->first = ring->next[id];
    give(ring, id, 0);
    io_uring_buf_ring_advance(ring->entries, 1);
}

/* ---- The ring ---- */

/* Multishot receives came with the release that brought sends without a copy. */
static int check_features(struct tcp_ring *ring, const char **why)
{
    struct io_uring_probe *probe =
        calloc(1, sizeof(*probe) + PROBED * sizeof(struct io_uring_probe_op));

    *why = "io_uring_register (probe)";
    if (!probe)
        return -ENOMEM;
    int rc = io_uring_register_probe(&ring->io, probe, PROBED);
    bool have = io_uring_opcode_supported(probe, IORING_OP_SEND_ZC);
    ring->zero_copy = io_uring_opcode_supported(probe, IORING_OP_SENDMSG_ZC);
    free(probe);
    if (rc)
        return rc;
    *why = "multishot receives, which came with Linux 6.0";
    return have ? 0 : -EOPNOTSUPP;
}

static int setup(struct tcp_ring *ring, const char **why)
{
    struct io_uring_params params = {
        .flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP,
        .cq_entries = CQ_ENTRIES,
    };

    if (!progress_has_thread(ring->poller->progress))
        params.flags |= IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
    *why = "io_uring_setup";
    int rc = io_uring_queue_init_params(SQ_ENTRIES, &ring->io, &params);
    if (rc)
        return rc;
    rc = check_features(ring, why);
    if (!rc) {
        *why = "io_uring_register (a ring of provided buffers)";
        rc = buffers_open(ring);
    }
    if (rc)
        io_uring_queue_exit(&ring->io);
    return rc;
}

int ring_open(struct tcp_poller *poller, struct tcp_ring **result, const char **why)
{
    struct tcp_ring *ring = calloc(1, sizeof(*ring));

    *why = "memory";
    if (!ring)
        return -ENOMEM;
    ring->poller = poller;
    list_init(&ring->members);
    int rc = setup(ring, why);
    if (rc) {
        free(ring);
        return rc;
    }
    pool_init(&ring->flights, sizeof(struct tcp_flight), 0);
    pool_init(&ring->directs, sizeof(struct tcp_direct), 0);
    *result = ring;
    return 0;
}

void ring_close(struct tcp_ring *ring)
{
    /* The buffers go last: the kernel may know them until then. In a child they are not mapped. */
    io_uring_queue_exit(&ring->io);
    if (!progress_forked(ring->poller->progress))
        munmap(ring->buffers, buffers_size());
    pool_finish(&ring->flights);
    pool_finish(&ring->directs);
    free(ring);
}

/* ---- A kernel that refuses ---- */

static bool passes(int rc)
{
    switch (-rc) {
    case EAGAIN:
    case EBUSY:
    case EINTR:
    case ENOMEM:
    case ETIME:
    case ENOENT:
    case EALREADY: return true;
    default: return rc >= 0;
    }
}

/* A program may have forbidden itself the call since, or closed a descriptor that is not its own.
 * The kernel's completions can no longer be read, so all connections end. */
void ring_judge(struct tcp_ring *ring, const char *what, int rc)
{
    if (passes(rc) || ring->refused)
        return;
    ring->refused = rc;
    LOG_WARN(ring->poller->domain->base.fabric->part, FI_LOG_EP_DATA,
             "io=uring: %s is refused now, but was not when the ring was made; its connections "
             "end: %s",
             what, fi_strerror(-rc));
    list_for_each (pos, &ring->members)
        tcp_poller_work(list_item(pos, struct tcp_uring, member)->conn);
}

/* ---- Calls ---- */

void ring_submit(struct tcp_ring *ring)
{
    if (!ring->refused && io_uring_sq_ready(&ring->io))
        ring_judge(ring, "io_uring_enter", io_uring_submit(&ring->io));
}

void ring_collect(struct tcp_ring *ring)
{
    unsigned flags = IO_URING_READ_ONCE(*ring->io.sq.kflags);

    if (!ring->refused && flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW))
        ring_judge(ring, "io_uring_enter", io_uring_get_events(&ring->io));
}

void ring_wait(struct tcp_ring *ring, int wait_ms)
{
    struct __kernel_timespec time = {.tv_sec = wait_ms / 1000,
                                     .tv_nsec = wait_ms % 1000 * 1000000LL};
    struct io_uring_cqe *cqe;

    ring_submit(ring);
    if (!ring->refused)
        ring_judge(ring, "io_uring_enter", io_uring_wait_cqe_timeout(&ring->io, &cqe, &time));
    ring_reap(ring);
}
