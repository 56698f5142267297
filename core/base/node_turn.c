/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/node_turn.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum {
    TURNS = 1024
};

static unsigned turn;

static void take(void)
{
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/dev/shm/weft-turns-%u", (unsigned)geteuid());
    fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    for (unsigned i = 0; fd >= 0 && i < TURNS; i++) {
        struct flock lock = {
            .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)i, .l_len = 1};

        if (!fcntl(fd, F_OFD_SETLK, &lock)) {
            turn = i;
            return; /* the descriptor stays open: it holds the lock */
        }
    }
    if (fd >= 0)
        close(fd);
}

unsigned node_turn(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, take);
    return turn;
}
