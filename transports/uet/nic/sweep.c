/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/uet/nic/sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/log.h"

#ifndef F_OFD_SETLK
#define F_OFD_SETLK 37
#endif

#define FOLDER "/dev/shm/"

enum {
    PATH_SIZE = 300
};

void uet_sweep_prefix(char *path, size_t size)
{
    snprintf(path, size, FOLDER "weft-uet-%u-", (unsigned)geteuid());
}

/* All of it, whatever its locks mean: it is no process's. An opener waits meanwhile, and finds that
 * the file at the path is another one. */
static bool lock_whole(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return !fcntl(fd, F_OFD_SETLK, &lock);
}

static bool is_still_at(int fd, const char *path)
{
    struct stat opened, named;

    return !fstat(fd, &opened) && S_ISREG(opened.st_mode) && opened.st_uid == geteuid() &&
           !lstat(path, &named) && named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
}

static void take_away(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0)
        return;
    if (lock_whole(fd) && is_still_at(fd, path) && !unlink(path))
        LOG_INFO("uet", FI_LOG_EP_CTRL, "%s was of processes that were killed", path);
    close(fd);
}

void uet_sweep(const char *kept)
{
    char prefix[64], path[PATH_SIZE];
    DIR *folder = opendir(FOLDER);
    struct dirent *entry;

    uet_sweep_prefix(prefix, sizeof(prefix));
    while (folder && (entry = readdir(folder))) {
        int len = snprintf(path, sizeof(path), FOLDER "%s", entry->d_name);

        if (len < PATH_SIZE && !strncmp(path, prefix, strlen(prefix)) && strcmp(path, kept))
            take_away(path);
    }
    if (folder)
        closedir(folder);
}
