/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/monitor/monitor_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/fork.h"
#include "core/base/hash.h"

/* ---- Identity ---- */

static uint64_t process_start(void)
{
    char text[1024], *field;
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    if (len <= 0)
        return 0;
    text[len] = 0;
    field = strrchr(text, ')'); /* of a name that may hold anything */
    for (int i = 2; field && i < 22; i++)
        field = strchr(field + 1, ' ');
    return field ? strtoull(field, NULL, 10) : 0;
}

static uint64_t boot_id(void)
{
    char text[64];
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text));

    if (fd >= 0)
        close(fd);
    return hash_bytes(HASH_START, text, len > 0 ? (size_t)len : 0);
}

static uint64_t pid_space(void)
{
    struct stat space;

    return stat("/proc/self/ns/pid", &space) ? 0 : space.st_ino;
}

static const char *job_id(void)
{
    const char *job = getenv("SLURM_JOB_ID");

    if (!job || !*job || strlen(job) > 24)
        return "0";
    for (const char *c = job; *c; c++)
        if (!isalnum((unsigned char)*c))
            return "0";
    return job;
}

static void describe(struct weft_monitor_header *header, const struct monitor_place_wanted *wanted,
                     const char *stack)
{
    struct timespec wall;

    clock_gettime(CLOCK_REALTIME, &wall);
    memcpy(header->magic, WEFT_MONITOR_MAGIC, sizeof(header->magic));
    header->version = WEFT_MONITOR_VERSION;
    header->header_size = sizeof(*header);
    header->block_size = sizeof(struct weft_monitor_block);
    header->pid = (uint32_t)getpid();
    header->ppid = (uint32_t)getppid();
    header->pid_space = pid_space();
    header->process_start = process_start();
    header->boot = boot_id();
    header->opened_ns = (uint64_t)wall.tv_sec * 1000000000 + (uint64_t)wall.tv_nsec;
    gethostname(header->host, sizeof(header->host) - 1);
    snprintf(header->program, sizeof(header->program), "%s", program_invocation_short_name);
    snprintf(header->job, sizeof(header->job), "%s", job_id());
    snprintf(header->stack, sizeof(header->stack), "%s", stack);
    snprintf(header->whole, sizeof(header->whole), "%s", wanted->whole);
    header->call_count = MONITOR_CALLS;
    for (int i = 0; i < OP_CALLS; i++)
        snprintf(header->names[i], sizeof(header->names[i]), "%s", op_name((enum op_call)i));
    snprintf(header->names[MONITOR_MR_REG], sizeof(header->names[0]), "fi_mr_reg");
    snprintf(header->names[MONITOR_CQ_READ], sizeof(header->names[0]), "fi_cq_read");
    __atomic_store_n(&header->state, WEFT_MONITOR_OPEN, __ATOMIC_RELEASE);
}

/* ---- Folders ---- */

static int fail(char *why, size_t size, int error, const char *what, const char *path)
{
    snprintf(why, size, "cannot %s '%s': %s (parameter basepath)", what, path, strerror(error));
    return -error;
}

/* The folder and those above it; only the last one gets the mode. */
static int make_base(const char *base, unsigned mode, char *why, size_t why_size)
{
    char path[4096];
    size_t len = strlen(base);

    if (!len || len >= sizeof(path) - 200)
        return fail(why, why_size, len ? ENAMETOOLONG : EINVAL, "use the folder", base);
    memcpy(path, base, len + 1);
    for (char *c = path + 1; *c; c++) {
        if (*c != '/')
            continue;
        *c = 0;
        if (mkdir(path, 0755) && errno != EEXIST)
            return fail(why, why_size, errno, "make the folder", path);
        *c = '/';
    }
    if (!mkdir(path, 0700)) /* then as asked, whatever the umask says */
        return chmod(path, mode) ? fail(why, why_size, errno, "set the mode of", path) : 0;
    return errno == EEXIST ? 0 : fail(why, why_size, errno, "make the folder", path);
}

/* Makes a folder of ours, or takes the one that is there; fails if that is another user's. */
static int make_own(const char *path, unsigned mode, char *why, size_t why_size)
{
    struct stat info;

    if (!mkdir(path, 0700))
        return chmod(path, mode) ? fail(why, why_size, errno, "set the mode of", path) : 0;
    if (errno != EEXIST)
        return fail(why, why_size, errno, "make the folder", path);
    if (lstat(path, &info))
        return fail(why, why_size, errno, "use the folder", path);
    if (!S_ISDIR(info.st_mode))
        return fail(why, why_size, ENOTDIR, "use the folder", path);
    if (info.st_uid != geteuid()) {
        snprintf(why, why_size, "the folder '%s' belongs to another user (parameter basepath)",
                 path);
        return -EPERM;
    }
    return 0;
}

static int make_folders(const struct monitor_place_wanted *wanted, char *folder, size_t size,
                        char *why, size_t why_size)
{
    char host[64] = "";
    int rc = make_base(wanted->base, wanted->base_mode, why, why_size);

    if (rc)
        return rc;
    gethostname(host, sizeof(host) - 1);
    snprintf(folder, size, "%s/%u", wanted->base, (unsigned)geteuid());
    rc = make_own(folder, wanted->dir_mode, why, why_size);
    if (rc)
        return rc;
    snprintf(folder, size, "%s/%u/%s", wanted->base, (unsigned)geteuid(), host);
    return make_own(folder, wanted->dir_mode, why, why_size);
}

/* ---- The file ---- */

/* <ppid>_<pid>_<sequential id>_<job id>_<provider name>; what lingers from a process that had our
 * numbers is left alone. */
static int create(const char *folder, const char *stack, unsigned mode, char *path, size_t size)
{
    static unsigned sequence; /* a race costs a second try */
    char name[64];
    size_t len = 0;
    int fd = -1;

    for (const char *c = stack; *c && len < sizeof(name) - 1; c++)
        name[len++] = isalnum((unsigned char)*c) || strchr(";.-", *c) ? *c : '_';
    name[len] = 0;
    for (int tries = 0; tries < 1000; tries++) {
        snprintf(path, size, "%s/%d_%d_%u_%s_%s", folder, (int)getppid(), (int)getpid(),
                 __atomic_fetch_add(&sequence, 1, __ATOMIC_RELAXED), job_id(), name);
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST)
            break;
    }
    if (fd >= 0 && fchmod(fd, mode)) {
        int error = errno;

        close(fd);
        unlink(path);
        errno = error;
        return -1;
    }
    return fd;
}

/* The header's memory is reserved at once, that of blocks with their first use. */
static int map(struct monitor_page *page)
{
    int rc = posix_fallocate(page->fd, 0, sizeof(*page->header));

    page->size = sizeof(struct weft_monitor_header) +
                 (size_t)WEFT_MONITOR_BLOCKS * sizeof(struct weft_monitor_block);
    if (rc)
        return -rc;
    if (ftruncate(page->fd, (off_t)page->size))
        return -errno;
    page->header =
        mmap(NULL, page->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, page->fd, 0);
    return page->header == MAP_FAILED ? -errno : 0;
}

int monitor_file_open(const struct monitor_place_wanted *wanted, const char *stack,
                      struct monitor_page *page, char *why, size_t why_size)
{
    char folder[4400], path[4600];
    int rc = make_folders(wanted, folder, sizeof(folder), why, why_size);

    if (rc)
        return rc;
    page->fd = create(folder, stack, wanted->file_mode, path, sizeof(path));
    if (page->fd < 0)
        return fail(why, why_size, errno, "write the file", path);
    rc = map(page);
    page->path = rc ? NULL : strdup(path);
    if (!rc && !page->path) {
        munmap(page->header, page->size);
        rc = -ENOMEM;
    }
    if (rc) {
        close(page->fd);
        unlink(path);
        return fail(why, why_size, -rc, "write the file", path);
    }
    describe(page->header, wanted, stack);
    return 0;
}

void monitor_file_close(struct monitor_page *page)
{
    __atomic_store_n(&page->header->state, WEFT_MONITOR_CLOSED, __ATOMIC_RELEASE);
    if (!page->lingers && page->generation == fork_generation)
        unlink(page->path);
    munmap(page->header, page->size);
    close(page->fd);
    free(page->path);
}
