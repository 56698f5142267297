/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two bytes of the file are locked, as open file descriptions own locks: they go with the process.
 *
 * HELD shared: by each writer, as long as it has the segment open. Exclusive: by the process that
 * makes or removes it. A process that gets this lock knows that no writer is left: all have died.
 * It then checks that the name still means this file. WRITES exclusive: by the writer that appends.
 *
 * Readers lock nothing: one that is stopped, or hostile, keeps no name and no writer.
 */
#include "core/av/av_segment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

enum {
    HELD,
    WRITES
};

enum {
    VERSION = 1,
    WAIT_MS = 10000, /* until the holder releases its exclusive lock, normally microseconds */
    PREFIX_MAX = 32,
};

static const char magic[8] = "weft-av";
static const char folder[] = "/dev/shm";

/* ---- Forks: what the parent holds must not live on in the child ---- */

static pthread_mutex_t all_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct list all = {&all, &all};

static void before_fork(void)
{
    pthread_mutex_lock(&all_mutex);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&all_mutex);
}

static void in_child(void)
{
    list_for_each (pos, &all) {
        struct av_segment *segment = list_item(pos, struct av_segment, all);

        close(segment->fd);
        segment->fd = -1;
    }
    pthread_mutex_unlock(&all_mutex);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, in_parent, in_child);
}

static void keep(struct av_segment *segment)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&all_mutex);
    list_attach(&segment->all, &all);
    pthread_mutex_unlock(&all_mutex);
}

/* ---- Locks ---- */

/* 0, or -FI_EAGAIN when another process holds it; F_UNLCK releases it. */
static int try_lock(int fd, int byte, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

    if (!fcntl(fd, F_OFD_SETLK, &lock))
        return 0;
    return errno == EACCES ? -FI_EAGAIN : -errno;
}

/* F_RDLCK, F_WRLCK or F_UNLCK: how others hold it. */
static short held_by_others(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = HELD, .l_len = 1};

    return fcntl(fd, F_OFD_GETLK, &lock) ? F_UNLCK : lock.l_type;
}

/* False when it has been long enough. */
static bool wait_a_little(int *waited_us)
{
    struct timespec step = {.tv_nsec = 200000};

    if (*waited_us > WAIT_MS * 1000)
        return false;
    nanosleep(&step, NULL);
    *waited_us += 200;
    return true;
}

int av_segment_lock(struct av_segment *segment)
{
    int waited = 0, rc = segment->fd < 0 ? -FI_EOPBADSTATE : -FI_EAGAIN;

    while (rc == -FI_EAGAIN) {
        rc = try_lock(segment->fd, WRITES, F_WRLCK);
        if (rc == -FI_EAGAIN && !wait_a_little(&waited))
            rc = -FI_EBUSY;
    }
    segment->locked = !rc;
    return rc;
}

void av_segment_unlock(struct av_segment *segment)
{
    if (segment->locked && segment->fd >= 0)
        try_lock(segment->fd, WRITES, F_UNLCK);
    segment->locked = false;
}

/* ---- Names ---- */

static int prefix_of(char prefix[PREFIX_MAX])
{
    return snprintf(prefix, PREFIX_MAX, "weft-av.%u.", (unsigned)geteuid());
}

static bool plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

/* The domain is spelled without dots, so that the first one ends it. */
static int make_path(const struct av_segment_want *want, char path[AV_PATH_MAX])
{
    char prefix[PREFIX_MAX];
    size_t used, start;
    int len;

    prefix_of(prefix);
    start = sizeof(folder); /* with its slash */
    used = (size_t)snprintf(path, AV_PATH_MAX, "%s/%s", folder, prefix);
    for (const char *c = want->domain ? want->domain : ""; *c && used < AV_PATH_MAX; c++)
        used += (size_t)snprintf(path + used, AV_PATH_MAX - used, plain(*c) ? "%c" : "%%%02x",
                                 (unsigned char)*c);
    if (used >= AV_PATH_MAX)
        return -FI_EINVAL;
    len = snprintf(path + used, AV_PATH_MAX - used, ".%s", want->name);
    used += (size_t)len;
    return used < AV_PATH_MAX && used - start <= NAME_MAX ? 0 : -FI_EINVAL;
}

static int check_name(const struct av_segment_want *want, char path[AV_PATH_MAX],
                      char why[AV_WHY_MAX])
{
    size_t len = strnlen(want->name, AV_NAME_MAX + 1);

    if (!len || len > AV_NAME_MAX) {
        snprintf(why, AV_WHY_MAX, "name: '%.*s%s' has %s, 1 to %d bytes are possible", 40,
                 want->name, len > 40 ? "..." : "", len ? "too many" : "none", AV_NAME_MAX);
        return -FI_EINVAL;
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)want->name[i];

        if (c != '/' && c >= ' ' && c != 127)
            continue;
        snprintf(why, AV_WHY_MAX, "name: '%s' has a %s, which a name cannot have", want->name,
                 c == '/' ? "slash" : "control character");
        return -FI_EINVAL;
    }
    if (!make_path(want, path))
        return 0;
    snprintf(why, AV_WHY_MAX, "name: '%s' is too long together with that of the domain, '%.100s'",
             want->name, want->domain);
    return -FI_EINVAL;
}

/* ---- Files ---- */

/* Does the path still lead to the file that is open? */
static bool is_at(const char *path, int fd)
{
    struct stat there, here;

    return !lstat(path, &there) && !fstat(fd, &here) && there.st_ino == here.st_ino &&
           there.st_dev == here.st_dev;
}

static int open_file(const char *path, int flags, int *ret_fd, char why[AV_WHY_MAX])
{
    int fd = open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600), err = errno;
    struct stat st;

    if (fd < 0) {
        snprintf(why, AV_WHY_MAX, "%s: %s", path,
                 err == ENOENT && !(flags & O_CREAT) ? "there is no address vector of this name"
                                                     : strerror(err));
        return err == ELOOP ? -FI_EACCES : -err;
    }
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 077) {
        snprintf(why, AV_WHY_MAX, "%s: not a file of this user alone", path);
        close(fd);
        return -FI_EACCES;
    }
    *ret_fd = fd;
    return 0;
}

/* Removes files that no writer holds any more. Each process that makes a file does this. */
static void sweep(void)
{
    char prefix[PREFIX_MAX], path[AV_PATH_MAX], why[AV_WHY_MAX];
    size_t len = (size_t)prefix_of(prefix);
    DIR *dir = opendir(folder);
    struct dirent *entry;
    int fd = -1;

    while (dir && (entry = readdir(dir))) {
        if (strncmp(entry->d_name, prefix, len) ||
            snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) >= (int)sizeof(path) ||
            open_file(path, O_RDWR, &fd, why))
            continue;
        if (!try_lock(fd, HELD, F_WRLCK) && is_at(path, fd))
            unlink(path);
        close(fd);
    }
    if (dir)
        closedir(dir);
}

static int write_header(int fd, const struct av_segment_want *want)
{
    struct av_segment_header header = {
        .version = VERSION,
        .format = want->format,
    };
    ssize_t written;

    memcpy(header.magic, magic, sizeof(magic));
    written = pwrite(fd, &header, sizeof(header), 0);
    if (written < 0)
        return -errno;
    return written == (ssize_t)sizeof(header) ? 0 : -FI_ENOSPC;
}

static int read_header(struct av_segment *segment, const struct av_segment_want *want,
                       char why[AV_WHY_MAX])
{
    struct av_segment_header header;

    if (pread(segment->fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
        memcmp(header.magic, magic, sizeof(magic)) || header.version != VERSION) {
        snprintf(why, AV_WHY_MAX, "%s: not the file of an address vector of this version",
                 segment->path);
        return -FI_EINVAL;
    }
    if (header.format != want->format) {
        snprintf(why, AV_WHY_MAX, "name: '%s' holds addresses of format %u, the domain's are %u",
                 want->name, header.format, want->format);
        return -FI_EINVAL;
    }
    return 0;
}

/* ---- Opening ---- */

/* Held exclusively. -FI_EAGAIN: the file is gone, or belongs to other writers by now. */
static int make(struct av_segment *segment, const struct av_segment_want *want,
                char why[AV_WHY_MAX])
{
    struct stat st;
    int rc;

    if (!is_at(segment->path, segment->fd) || fstat(segment->fd, &st))
        return -FI_EAGAIN;
    if (st.st_size) {
        unlink(segment->path); /* not cut off: readers may still have it */
        return -FI_EAGAIN;
    }
    rc = write_header(segment->fd, want);
    if (!rc)
        rc = try_lock(segment->fd, HELD, F_RDLCK);
    if (rc) {
        unlink(segment->path);
        snprintf(why, AV_WHY_MAX, "%s: %s", segment->path, fi_strerror(-rc));
        return rc;
    }
    sweep();
    return 0;
}

static int try_writer(struct av_segment *segment, const struct av_segment_want *want,
                      char why[AV_WHY_MAX])
{
    int rc = open_file(segment->path, O_RDWR | O_CREAT, &segment->fd, why);

    if (rc)
        return rc;
    rc = try_lock(segment->fd, HELD, F_WRLCK);
    if (!rc) {
        rc = make(segment, want, why);
    } else {
        rc = try_lock(segment->fd, HELD, F_RDLCK);
        if (!rc)
            rc = is_at(segment->path, segment->fd) ? read_header(segment, want, why) : -FI_EAGAIN;
    }
    if (rc)
        close(segment->fd);
    return rc;
}

static int try_reader(struct av_segment *segment, const struct av_segment_want *want,
                      char why[AV_WHY_MAX])
{
    int rc = open_file(segment->path, O_RDONLY, &segment->fd, why);

    if (rc)
        return rc;
    switch (held_by_others(segment->fd)) {
    case F_RDLCK: rc = read_header(segment, want, why); break;
    case F_WRLCK: rc = -FI_EAGAIN; break;
    default:
        snprintf(why, AV_WHY_MAX, "%s: left behind, its makers are gone", segment->path);
        rc = is_at(segment->path, segment->fd) ? -FI_ENOENT : -FI_EAGAIN;
    }
    if (rc)
        close(segment->fd);
    return rc;
}

int av_segment_open(struct av_segment *segment, const struct av_segment_want *want,
                    char why[AV_WHY_MAX])
{
    int waited = 0, rc;

    *segment = (struct av_segment){.fd = -1, .writer = !want->reader};
    list_init(&segment->all);
    rc = check_name(want, segment->path, why);
    if (rc)
        return rc;
    snprintf(why, AV_WHY_MAX, "%s: cannot be locked", segment->path);
    do {
        rc = want->reader ? try_reader(segment, want, why) : try_writer(segment, want, why);
    } while (rc == -FI_EAGAIN && wait_a_little(&waited));
    if (rc == -FI_EAGAIN) {
        snprintf(why, AV_WHY_MAX, "%s: is being made or removed all the time", segment->path);
        rc = -FI_EBUSY;
    }
    if (rc)
        segment->fd = -1;
    else
        keep(segment);
    return rc;
}

void av_segment_close(struct av_segment *segment)
{
    pthread_mutex_lock(&all_mutex);
    list_detach(&segment->all);
    pthread_mutex_unlock(&all_mutex);
    if (segment->fd < 0)
        return;
    av_segment_unlock(segment);
    if (segment->writer && !try_lock(segment->fd, HELD, F_WRLCK) &&
        is_at(segment->path, segment->fd))
        unlink(segment->path);
    try_lock(segment->fd, HELD, F_UNLCK); /* a child that did not run our handler has it open */
    close(segment->fd);
    segment->fd = -1;
}
