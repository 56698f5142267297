/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file grows by a ring at a time. Its blocks are reserved before it is mapped: a store into a
 * mapped page that has no room on its disk would be a SIGBUS.
 *
 * Rings of threads that have ended are taken over when the file has as many as it may have. After a
 * fork the file is the parent's: the child has no ring and gets none.
 */
#include "layers/trace/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <rdma/fi_errno.h>

#include "core/base/fork.h"
#include "core/base/log.h"
#include "core/base/path.h"
#include "core/op/op.h"
#include "layers/trace/trace_names.h"

struct trace_file {
    struct trace_file *next;
    char *path;   /* as asked for */
    char *opened; /* NULL, or what is written instead */
    int fd;       /* locked */
    size_t header_size, ring_bytes;
    unsigned threads, generation;
    struct weft_trace_header *header;
    struct trace_ring *all, *free; /* free: of threads that have ended, oldest first */
    bool over;                     /* the process ends */
    bool refused;                  /* it has been said */
    atomic_flag reading;           /* the clocks */
    unsigned layer_users[WEFT_TRACE_LAYERS];
};

struct trace_ring trace_no_ring;
_Thread_local struct trace_ring *trace_ring_last = &trace_no_ring;
static _Thread_local struct trace_ring *rings; /* of this thread, through next */
static _Thread_local unsigned rings_generation;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static struct trace_file *files;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_made;

/* ---- Clocks ---- */

/* Does the time stamp counter run at one rate, in every state of the processor? */
static bool tsc_is_constant(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;

    if (__get_cpuid(0x80000000, &a, &b, &c, &d) && a >= 0x80000007 &&
        __get_cpuid(0x80000007, &a, &b, &c, &d))
        return d & (1u << 8);
#endif
    return false;
}

/* Of three tries the one in which the two clocks were read closest together; written at once, since
 * a crash may come at any time. */
static void read_clocks(struct weft_trace_header *header, struct weft_trace_clocks *ret_clocks)
{
    bool tsc = header->clock == WEFT_TRACE_CLOCK_TSC;
    struct weft_trace_clocks clocks = {0};
    uint64_t best = UINT64_MAX;
    struct timespec wall;

    for (int i = 0; i < 3; i++) {
        uint64_t before = trace_ticks(tsc), ns = clock_ns(), after = trace_ticks(tsc);

        if (after - before < best) {
            best = after - before;
            clocks.ticks = before + (after - before) / 2;
            clocks.monotonic_ns = ns;
        }
    }
    clock_gettime(CLOCK_REALTIME, &wall);
    clocks.realtime_ns = (uint64_t)wall.tv_sec * 1000000000 + (uint64_t)wall.tv_nsec;
    *ret_clocks = clocks;
}

#define FIRST_CALIBRATION_NS 200000

/* The second reading gets better with every object; this one serves when a crash comes first. */
static void calibrate(struct weft_trace_header *header)
{
    header->clock = tsc_is_constant() ? WEFT_TRACE_CLOCK_TSC : WEFT_TRACE_CLOCK_MONOTONIC;
    read_clocks(header, &header->clocks[0]);
    while (clock_ns() - header->clocks[0].monotonic_ns < FIRST_CALIBRATION_NS)
        ;
    read_clocks(header, &header->clocks[1]);
}

void trace_file_clock(struct trace_file *file)
{
    if (atomic_flag_test_and_set_explicit(&file->reading, memory_order_acquire))
        return;
    read_clocks(file->header, &file->header->clocks[1]);
    atomic_flag_clear_explicit(&file->reading, memory_order_release);
}

/* ---- Rings ---- */

static void ring_unmap(struct trace_ring *ring)
{
    munmap(ring->shared, ring->size);
    free(ring);
}

/* Reserves and maps ring number `index`. */
static int ring_map(struct trace_file *file, uint32_t index, struct trace_ring **ret_ring)
{
    size_t size = WEFT_TRACE_RING_HEAD + file->ring_bytes;
    off_t offset = (off_t)(file->header_size + index * size);
    struct trace_ring *ring = calloc(1, sizeof(*ring));
    int rc = ring ? -posix_fallocate(file->fd, offset, (off_t)size) : -ENOMEM;
    void *mapped = MAP_FAILED;

    if (!rc) {
        mapped =
            mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file->fd, offset);
        rc = mapped == MAP_FAILED ? -errno : 0;
    }
    if (rc) {
        free(ring);
        return rc;
    }
    ring->file = file;
    ring->shared = mapped;
    ring->records = (struct weft_trace_record *)((char *)mapped + WEFT_TRACE_RING_HEAD);
    ring->mask = file->ring_bytes / sizeof(struct weft_trace_record) - 1;
    ring->tsc = file->header->clock == WEFT_TRACE_CLOCK_TSC;
    ring->size = size;
    ring->clock_due = trace_ticks(ring->tsc) + TRACE_CLOCK_TICKS;
    ring->shared->capacity = ring->mask + 1;
    *ret_ring = ring;
    return 0;
}

static struct trace_ring *take_free(struct trace_file *file)
{
    struct trace_ring *ring = file->free;

    if (ring) {
        file->free = ring->next;
        ring->head = 0;
        ring->shared->head = 0;
        file->header->rings_reused++;
    }
    return ring;
}

static void refuse(struct trace_file *file, const char *cause)
{
    file->header->rings_refused++;
    if (!file->refused)
        log_user("trace: a thread is not recorded in '%s': %s",
                 file->opened ? file->opened : file->path, cause);
    file->refused = true;
}

static struct trace_ring *ring_create(struct trace_file *file)
{
    struct weft_trace_header *header = file->header;
    struct trace_ring *ring = NULL;
    int rc;

    if (header->rings >= file->threads) {
        ring = take_free(file);
        if (!ring)
            refuse(file, "all its rings are in use (parameter threads)");
    } else {
        rc = ring_map(file, header->rings, &ring);
        if (rc)
            refuse(file, strerror(-rc));
        else
            header->rings++;
    }
    if (ring && !ring->shared->thread) {
        ring->sibling = file->all;
        file->all = ring;
    }
    if (ring)
        ring->shared->thread = (uint64_t)gettid();
    return ring;
}

static void thread_ends(void *first)
{
    pthread_mutex_lock(&mutex);
    for (struct trace_ring *ring = first, *next; ring; ring = next) {
        struct trace_ring **end = &ring->file->free;

        next = ring->next;
        while (*end)
            end = &(*end)->next;
        ring->next = NULL;
        *end = ring;
    }
    pthread_mutex_unlock(&mutex);
    rings = NULL;
    trace_ring_last = &trace_no_ring;
}

static void prepare_fork(void)
{
    pthread_mutex_lock(&mutex);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&mutex);
}

/* The mappings of the thread are still written by the parent. */
static void child_of_fork(void)
{
    trace_ring_last = &trace_no_ring;
    pthread_mutex_unlock(&mutex);
}

static void start(void)
{
    fork_watch();
    pthread_atfork(prepare_fork, after_fork, child_of_fork);
    key_made = !pthread_key_create(&key, thread_ends);
}

struct trace_ring *trace_ring_find(struct trace_file *file)
{
    struct trace_ring *ring;

    if (rings_generation != fork_generation)
        rings = NULL;
    rings_generation = fork_generation;
    if (file->generation != fork_generation)
        return NULL;
    for (ring = rings; ring && ring->file != file; ring = ring->next)
        ;
    if (!ring) {
        pthread_mutex_lock(&mutex);
        ring = file->over ? NULL : ring_create(file);
        pthread_mutex_unlock(&mutex);
        if (!ring)
            return NULL;
        ring->next = rings;
        rings = ring;
        if (key_made)
            pthread_setspecific(key, rings);
    }
    trace_ring_last = ring;
    return ring;
}

/* ---- Files ---- */

static void read_text(const char *path, char *out, size_t size)
{
    FILE *file = fopen(path, "re");

    if (!file)
        return;
    if (!fgets(out, (int)size, file))
        out[0] = 0;
    out[strcspn(out, "\n")] = 0;
    fclose(file);
}

static void describe(struct weft_trace_header *header)
{
    char boot[64] = "";

    header->version = WEFT_TRACE_VERSION;
    header->record_size = sizeof(struct weft_trace_record);
    header->pid = (uint32_t)getpid();
    gethostname(header->host, sizeof(header->host) - 1);
    read_text("/proc/self/comm", header->program, sizeof(header->program));
    read_text("/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
    header->boot = (uint32_t)strtoul(boot, NULL, 16);
    for (int i = 0; i < OP_CALLS; i++)
        snprintf(header->names[i], sizeof(header->names[i]), "%s", op_name(i));
    trace_names(header);
    calibrate(header);
    memcpy(header->magic, WEFT_TRACE_MAGIC, sizeof(header->magic));
}

static void file_destroy(struct trace_file *file)
{
    if (file->header)
        munmap(file->header, file->header_size);
    if (file->fd >= 0)
        close(file->fd);
    free(file->opened);
    free(file->path);
    free(file);
}

/* Nothing is lost with it: there is none, it is an older trace, or has no bytes. */
static bool may_replace(const char *path)
{
    static const char begun[sizeof(WEFT_TRACE_MAGIC)]; /* one whose writer did not get far */
    char magic[sizeof(WEFT_TRACE_MAGIC)];
    struct stat old;
    ssize_t len;
    int fd;

    if (lstat(path, &old))
        return true;
    if (!S_ISREG(old.st_mode))
        return false;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT; /* another process has just replaced it */
    len = read(fd, magic, sizeof(magic));
    close(fd);
    return len == 0 || (len == sizeof(magic) && (!memcmp(magic, WEFT_TRACE_MAGIC, sizeof(magic)) ||
                                                 !memcmp(magic, begun, sizeof(magic))));
}

enum {
    IN_USE = 1 /* no errno: another process records into it */
};

/* The file that is there, or a new one, locked for as long as this process has it open: two at once
 * do not get the same. 0, IN_USE or a negative errno. */
static int open_locked(const char *path, int *ret_fd)
{
    struct stat by_fd, by_name;
    int fd, rc;

    if (!may_replace(path))
        return -EEXIST;
    fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        close(fd);
        return IN_USE;
    }
    rc = fstat(fd, &by_fd) || lstat(path, &by_name) || by_fd.st_ino != by_name.st_ino ||
                 by_fd.st_dev != by_name.st_dev
             ? -EAGAIN
             : 0;
    if (!rc && by_fd.st_size) { /* older: no process records into it, but one may read it */
        unlink(path);
        rc = -EAGAIN;
    }
    if (!rc && (by_fd.st_mode & 0777) != 0600 && fchmod(fd, 0600))
        rc = -errno;
    if (rc)
        close(fd);
    else
        *ret_fd = fd;
    return rc;
}

static int open_new(const char *path, int *ret_fd)
{
    int rc = -EAGAIN;

    for (int tries = 0; tries < 100 && rc == -EAGAIN; tries++)
        rc = open_locked(path, ret_fd);
    return rc;
}

/* A file that another process records into is left to it: ours gets our number. */
static int open_own(struct trace_file *file)
{
    size_t size = strlen(file->path) + 16;
    int rc = open_new(file->path, &file->fd);
    char *other;

    if (rc != IN_USE)
        return rc;
    other = malloc(size);
    if (!other)
        return -ENOMEM;
    snprintf(other, size, "%s.%d", file->path, (int)getpid());
    rc = open_new(other, &file->fd);
    if (rc) {
        free(other);
        return rc == IN_USE ? -EBUSY : rc;
    }
    log_user("trace: another process records into '%s': this one into '%s' (parameter file)",
             file->path, other);
    file->opened = other;
    return 0;
}

/* The header and a first ring's room: a full disk is found now. */
static int file_make(struct trace_file *file)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *mapped;
    int rc;

    rc = open_own(file);
    if (rc)
        return rc;
    file->header_size = (sizeof(*file->header) + page - 1) / page * page;
    rc = -posix_fallocate(file->fd, 0,
                          (off_t)(file->header_size + WEFT_TRACE_RING_HEAD + file->ring_bytes));
    mapped = rc ? MAP_FAILED
                : mmap(NULL, file->header_size, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
    if (mapped == MAP_FAILED) {
        rc = rc ? rc : -errno;
        unlink(file->opened ? file->opened : file->path);
        return rc;
    }
    file->header = mapped;
    file->header->header_size = file->header_size;
    file->header->ring_size = WEFT_TRACE_RING_HEAD + file->ring_bytes;
    describe(file->header);
    return 0;
}

static int file_create(const char *path, size_t bytes, unsigned threads, struct trace_file **ret)
{
    struct trace_file *file = calloc(1, sizeof(*file));
    int rc = -FI_ENOMEM;

    if (!file)
        return rc;
    file->fd = -1;
    atomic_flag_clear(&file->reading);
    file->threads = threads;
    file->generation = fork_generation;
    file->ring_bytes = 4096;
    while (file->ring_bytes < bytes)
        file->ring_bytes *= 2;
    file->path = strdup(path);
    if (file->path)
        rc = file_make(file);
    if (rc) {
        file_destroy(file);
        return rc;
    }
    file->next = files;
    files = file;
    *ret = file;
    return 0;
}

int trace_file_open(const char *path, size_t bytes, unsigned threads, struct trace_file **ret_file,
                    char *why, size_t why_size)
{
    char name[4096];
    struct trace_file *file;
    int rc = path_expand(path, name, sizeof(name), why, why_size);

    if (rc)
        return rc;
    pthread_once(&once, start);
    pthread_mutex_lock(&mutex);
    for (file = files; file; file = file->next)
        if (file->generation == fork_generation && !strcmp(file->path, name))
            break;
    if (!file)
        rc = file_create(name, bytes, threads, &file);
    pthread_mutex_unlock(&mutex);
    if (rc)
        snprintf(why, why_size, "cannot write the file '%s': %s (parameter file)", name,
                 rc == -EEXIST ? "it is there, and is no trace" : strerror(-rc));
    else
        *ret_file = file;
    return rc;
}

/* Best a number that is free and has that name, then a new one, then any of that name. */
static unsigned find_layer(const struct trace_file *file, const char *below)
{
    const struct weft_trace_header *header = file->header;
    unsigned other = WEFT_TRACE_LAYERS - 1;

    for (unsigned i = 0; i < header->layer_count; i++) {
        if (strncmp(header->layers[i], below, sizeof(header->layers[i]) - 1) != 0)
            continue;
        if (!file->layer_users[i])
            return i;
        other = i;
    }
    return header->layer_count < WEFT_TRACE_LAYERS ? header->layer_count : other;
}

unsigned trace_file_layer(struct trace_file *file, const char *below)
{
    struct weft_trace_header *header = file->header;
    unsigned layer;

    pthread_mutex_lock(&mutex);
    layer = find_layer(file, below);
    if (layer == header->layer_count) {
        snprintf(header->layers[layer], sizeof(header->layers[layer]), "%s", below);
        header->layer_count++;
    }
    file->layer_users[layer]++;
    pthread_mutex_unlock(&mutex);
    return layer;
}

void trace_file_layer_done(struct trace_file *file, unsigned layer)
{
    pthread_mutex_lock(&mutex);
    file->layer_users[layer]--;
    pthread_mutex_unlock(&mutex);
}

uint32_t trace_file_object(struct trace_file *file, unsigned layer, size_t fclass, uint32_t parent)
{
    struct weft_trace_header *header = file->header;
    uint32_t number;

    if (file->generation != fork_generation)
        return 0;
    pthread_mutex_lock(&mutex);
    number = header->object_count + 1;
    if (number <= WEFT_TRACE_OBJECTS)
        header->objects[number - 1] =
            (struct weft_trace_object){(uint16_t)layer, (uint16_t)fclass, parent};
    header->object_count = number;
    trace_file_clock(file);
    pthread_mutex_unlock(&mutex);
    return number;
}

/* The threads that still run may be writing to their rings; in the child of a fork there are none
 * of them. */
static void unmap_rings(struct trace_file *file)
{
    bool child = file->generation != fork_generation;
    struct trace_ring *ring = child ? file->all : file->free, *next;

    for (; ring; ring = next) {
        next = child ? ring->sibling : ring->next;
        ring_unmap(ring);
    }
}

/* Something is open that is traced: with it a progress thread may run on while the process ends. */
static bool has_layers(const struct trace_file *file)
{
    for (size_t i = 0; i < sizeof(file->layer_users) / sizeof(file->layer_users[0]); i++) {
        if (file->layer_users[i])
            return file->generation == fork_generation;
    }
    return false;
}

__attribute__((destructor)) static void unload(void)
{
    static struct trace_file *left; /* where a leak checker finds them */

    if (key_made)
        pthread_key_delete(key);
    pthread_mutex_lock(&mutex);
    while (files) {
        struct trace_file *file = files;

        files = file->next;
        unmap_rings(file);
        if (file->generation == fork_generation)
            trace_file_clock(file);
        file->over = true;
        file->free = NULL;
        if (has_layers(file)) {
            file->next = left;
            left = file;
        } else {
            file_destroy(file);
        }
    }
    pthread_mutex_unlock(&mutex);
}
