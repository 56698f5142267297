/* SPDX-License-Identifier: BSD-2-Clause */
/* Which page files there are, and whether their processes are. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mon_page.h"

enum {
    DEPTH = 3, /* <base>/<uid>/<host>/<file> */
    FILES_MAX = 65536
};

/* ---- Processes ---- */

static uint64_t boot_id(void)
{
    char text[64];
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text));
    uint64_t hash = 0xcbf29ce484222325u;

    if (fd >= 0)
        close(fd);
    for (ssize_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    return hash;
}

/* Since when process pid runs; 0: it does not. One that is dead and not yet waited for does not. */
static uint64_t start_of(uint32_t pid)
{
    char path[64], text[1024], *field;
    ssize_t len;
    int fd;

    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    if (len <= 0)
        return 0;
    text[len] = 0;
    field = strrchr(text, ')');
    if (!field || field[1] != ' ' || field[2] == 'Z' || field[2] == 'X')
        return 0;
    for (int i = 2; field && i < 22; i++)
        field = strchr(field + 1, ' ');
    return field ? strtoull(field, NULL, 10) : 0;
}

enum mon_life mon_life(const struct weft_monitor_header *header)
{
    struct stat space;

    if (header->state == WEFT_MONITOR_CLOSED)
        return MON_CLOSED;
    if (header->boot != boot_id() || stat("/proc/self/ns/pid", &space) ||
        header->pid_space != space.st_ino)
        return MON_UNKNOWN;
    return start_of(header->pid) == header->process_start ? MON_RUNS : MON_GONE;
}

/* ---- Files ---- */

struct list_of_files {
    struct mon_file *files;
    int count, room;
};

static void read_one(int fd, struct mon_file *file)
{
    struct mon_source source = mon_source_fd(fd);
    struct stat info;

    if (fstat(fd, &info) || !S_ISREG(info.st_mode)) {
        snprintf(file->why, sizeof(file->why), "it is no plain file");
        return;
    }
    file->page = malloc(sizeof(*file->page));
    if (!file->page) {
        snprintf(file->why, sizeof(file->why), "there is no memory for it");
    } else if (!mon_page_read(&source, file->page, file->why, sizeof(file->why))) {
        free(file->page);
        file->page = NULL;
    } else {
        file->life = mon_life(&file->page->header);
    }
}

/* One that is gone meanwhile is no file. */
static bool add_file(struct list_of_files *list, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int error = errno;
    struct mon_file *file;

    if (fd < 0 && error == ENOENT)
        return true;
    if (list->count == list->room) {
        int room = list->room ? list->room * 2 : 16;
        struct mon_file *files = realloc(list->files, (size_t)room * sizeof(*files));

        if (!files || room > FILES_MAX) {
            if (files)
                list->files = files;
            if (fd >= 0)
                close(fd);
            return false;
        }
        list->files = files;
        list->room = room;
    }
    file = &list->files[list->count];
    memset(file, 0, sizeof(*file));
    file->path = strdup(path);
    if (fd >= 0 && file->path)
        read_one(fd, file);
    else
        snprintf(file->why, sizeof(file->why), "%s", strerror(error));
    if (fd >= 0)
        close(fd);
    list->count += file->path != NULL;
    return file->path;
}

static bool add_folder(struct list_of_files *list, const char *path, int depth);

static bool add_entry(struct list_of_files *list, const char *path, int depth)
{
    struct stat info;

    if (lstat(path, &info))
        return true;
    if (S_ISDIR(info.st_mode))
        return depth >= DEPTH || add_folder(list, path, depth);
    return !S_ISREG(info.st_mode) || add_file(list, path);
}

static bool add_folder(struct list_of_files *list, const char *path, int depth)
{
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort);
    bool ok = true;

    for (int i = 0; i < count; i++) {
        char name[4096];
        int len = snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name);

        if (ok && entries[i]->d_name[0] != '.' && len < (int)sizeof(name))
            ok = add_entry(list, name, depth + 1);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return ok;
}

int mon_files_read(const char *path, struct mon_file **files)
{
    struct list_of_files list = {0};
    struct stat info;
    bool ok;

    if (stat(path, &info))
        return -1;
    if (S_ISDIR(info.st_mode)) {
        if (access(path, R_OK | X_OK))
            return -1;
        ok = add_folder(&list, path, 0);
    } else {
        ok = add_file(&list, path);
    }
    if (!ok) {
        mon_files_free(list.files, list.count);
        errno = ENOMEM;
        return -1;
    }
    *files = list.files;
    return list.count;
}

void mon_files_free(struct mon_file *files, int count)
{
    for (int i = 0; i < count; i++) {
        free(files[i].path);
        free(files[i].page);
    }
    free(files);
}

void mon_default_path(char *path, size_t size, bool all_users)
{
    const char *base = getenv("FI_OFI_HOOK_MONITOR_BASEPATH");

    if (!base)
        base = getenv("FI_MONITOR_BASEPATH");
    if (!base)
        base = "/dev/shm/ofi";
    if (all_users)
        snprintf(path, size, "%s", base);
    else
        snprintf(path, size, "%s/%u", base, (unsigned)geteuid());
}
