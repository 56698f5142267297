/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_version and fi_open (fi_provider(3)): the library's own answers. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>

#include "core/base/fid.h"
#include "core/base/log.h"
#include "core/hook/hook.h"

#define EXPORT __attribute__((visibility("default")))

/* The object behind fi_open("logging"): importing into it is all that it can do. */
static int logging_import(struct fid *fid, struct fid *imported, uint64_t flags)
{
    if (flags)
        return -FI_EBADFLAGS;
    if (imported->fclass != FI_CLASS_LOG)
        return -FI_EINVAL;
    return log_import((struct fid_logging *)imported);
}

static int logging_close(struct fid *fid)
{
    free(fid);
    return 0;
}

static struct fi_ops logging_ops = {
    .size = sizeof(struct fi_ops),
    .close = logging_close,
    .bind = logging_import,
    .control = enosys_control,
    .ops_open = enosys_ops_open,
    .ops_set = enosys_ops_set,
};

static int open_logging(struct fid **fid, void *context)
{
    struct fid *object = calloc(1, sizeof(*object));

    if (!object)
        return -FI_ENOMEM;
    fid_init(object, FI_CLASS_LOG, context, &logging_ops);
    *fid = object;
    return 0;
}

EXPORT uint32_t fi_version(void)
{
    return FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
}

EXPORT int fi_open(uint32_t version, const char *name, void *attr, size_t attr_len, uint64_t flags,
                   struct fid **fid, void *context)
{
    if (!name || !fid || attr_len)
        return -FI_EINVAL;
    if (FI_VERSION_LT(fi_version(), version))
        return -FI_ENOSYS;
    if (flags)
        return -FI_EBADFLAGS;
    if (!strcmp(name, "logging"))
        return open_logging(fid, context);
    /* A registration cache to import a memory monitor into. There is none, and Open MPI, which asks
     * each time that it starts, goes on without. */
    if (!strcmp(name, "mr_cache"))
        return -FI_ENOSYS;
    LOG_WARN("core", FI_LOG_CORE, "fi_open: there is no object '%s'", name);
    return -FI_ENOSYS;
}
