/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/reach.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

static uint64_t hash(uint64_t seed, const void *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        seed = (seed ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3ull;
    return seed ^ seed >> 29;
}

static void set(struct reach *reach, uint64_t value)
{
    reach->len = sizeof(value);
    memcpy(reach->token, &value, sizeof(value));
}

static bool read_boot(char *text, size_t size, size_t *len)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t ret = fd < 0 ? -1 : read(fd, text, size);

    if (fd >= 0)
        close(fd);
    *len = ret > 0 ? (size_t)ret : 0;
    return ret > 0;
}

/* Once drawn it is the process's; its child, which has another pid, draws its own. */
static uint64_t process_value(pid_t pid)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t value;
    static pid_t owner;
    struct timespec now;

    pthread_mutex_lock(&mutex);
    if (owner != pid) {
        clock_gettime(CLOCK_BOOTTIME, &now);
        value =
            hash(hash(0xcbf29ce484222325ull, &pid, sizeof(pid)), &now.tv_nsec, sizeof(now.tv_nsec));
        value = hash(value, &now.tv_sec, sizeof(now.tv_sec));
        owner = pid;
    }
    pthread_mutex_unlock(&mutex);
    return value;
}

void reach_of_process(struct reach *reach)
{
    set(reach, process_value(getpid()));
}

void reach_of_node(struct reach *reach)
{
    char boot[64];
    struct stat net;
    uid_t user = geteuid();
    uint64_t value;
    size_t len;

    if (!read_boot(boot, sizeof(boot), &len) || stat("/proc/self/ns/net", &net)) {
        reach_of_process(reach);
        return;
    }
    value = hash(0xcbf29ce484222325ull, boot, len);
    value = hash(value, &net.st_dev, sizeof(net.st_dev));
    value = hash(value, &net.st_ino, sizeof(net.st_ino));
    set(reach, hash(value, &user, sizeof(user)));
}

int reach_control(const struct reach *own, int command, void *arg)
{
    const struct reach *peer = arg;

    switch (command) {
    case CONTROL_REACH: *(struct reach *)arg = *own; return 0;
    case CONTROL_REACHES:
        return peer->len == own->len && !memcmp(peer->token, own->token, own->len)
                   ? 0
                   : -FI_EHOSTUNREACH;
    default: return -FI_ENOSYS;
    }
}
