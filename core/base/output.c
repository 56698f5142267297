/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/base/path.h"

enum {
    NAME_MAX_LEN = 4096
};

int output_open(const char *part, const char *path, char **ret_name)
{
    char name[NAME_MAX_LEN], why[NAME_MAX_LEN + 100];
    int rc = path_expand(path, name, sizeof(name), why, sizeof(why)), fd;

    if (rc) {
        log_user("%s: file: %s", part, why);
        return rc;
    }
    fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) {
        rc = -errno;
        log_user("%s: cannot write the file '%s': %s (parameter file)", part, name, strerror(-rc));
        return rc;
    }
    close(fd);
    *ret_name = strdup(name);
    return *ret_name ? 0 : -FI_ENOMEM;
}

static int write_all(int fd, const char *text, size_t len)
{
    while (len) {
        ssize_t rc = write(fd, text, len);

        if (rc < 0 && errno != EINTR)
            return -errno;
        if (rc > 0) {
            text += rc;
            len -= (size_t)rc;
        }
    }
    return 0;
}

int output_append(const char *name, const char *text, size_t len)
{
    int fd = name ? open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : STDERR_FILENO;
    int rc;

    if (fd < 0)
        return -errno;
    rc = write_all(fd, text, len);
    if (name)
        close(fd);
    return rc;
}

int output_replace(const char *name, const char *text, size_t len)
{
    char real[PATH_MAX], new_name[PATH_MAX + 24];
    struct stat old;
    int fd, rc;

    if (!stat(name, &old) && !S_ISREG(old.st_mode))
        return output_append(name, text, len);
    if (!realpath(name, real))
        return -errno;
    snprintf(new_name, sizeof(new_name), "%s.new.%d", real, (int)gettid());
    unlink(new_name); /* of one that had our number */
    fd = open(new_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return -errno;
    rc = write_all(fd, text, len);
    close(fd);
    if (!rc && rename(new_name, real))
        rc = -errno;
    if (rc)
        unlink(new_name);
    return rc;
}
