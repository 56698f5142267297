/* SPDX-License-Identifier: BSD-2-Clause */
/* Extensions of the library itself (import of logging and memory monitors), and options of single
 * providers: fi_provider(3), fi_mr(3), fi_peer(3), fi_efa(7). */
#ifndef RDMA_FI_EXT_H
#define RDMA_FI_EXT_H

#include <rdma/fabric.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bases of provider-specific fi_control commands (positive) and endpoint options (negative). */
#define FI_PROV_SPECIFIC_EFA (0xEFA << 16)
#define FI_PROV_SPECIFIC_TCP (0x7CB << 16)

/* Options of FI_OPT_ENDPOINT that only efa has. */
enum {
    FI_OPT_EFA_RNR_RETRY = -FI_PROV_SPECIFIC_EFA,
    FI_OPT_EFA_EMULATED_READ,
    FI_OPT_EFA_EMULATED_WRITE,
    FI_OPT_EFA_EMULATED_ATOMICS,
    FI_OPT_EFA_USE_DEVICE_RDMA,
    FI_OPT_EFA_SENDRECV_IN_ORDER_ALIGNED_128_BYTES,
    FI_OPT_EFA_WRITE_IN_ORDER_ALIGNED_128_BYTES,
    FI_OPT_EFA_HOMOGENEOUS_PEERS,
    FI_OPT_EFA_USE_UNSOLICITED_WRITE_RECV
};

/* ---- Export and import ---- */

struct fi_fid_export {
    struct fid **fid;
    uint64_t flags;
    void *context;
};

static inline int fi_export_fid(struct fid *fid, uint64_t flags, struct fid **expfid, void *context)
{
    struct fi_fid_export exp;

    exp.fid = expfid;
    exp.flags = flags;
    exp.context = context;
    return fi_control(fid, FI_EXPORT_FID, &exp);
}

static inline int fi_import_fid(struct fid *fid, struct fid *expfid, uint64_t flags)
{
    return fid->ops->bind(fid, expfid, flags);
}

/* Opens a well-known object of the library and imports fid into it. */
static inline int fi_import(uint32_t version, const char *name, void *attr, size_t attr_len,
                            uint64_t flags, struct fid *fid, void *context)
{
    struct fid *object = NULL;
    int rc = fi_open(version, name, attr, attr_len, flags, &object, context);

    if (rc)
        return rc;
    rc = fi_import_fid(object, fid, flags);
    fi_close(object);
    return rc;
}

/* ---- Logging ---- */

/* fi_ops_log flags: the provider is filtered out by FI_LOG_PROV. */
#define FI_LOG_PROV_FILTERED (1ULL << 0)

struct fi_ops_log {
    size_t size;
    int (*enabled)(const struct fi_provider *prov, enum fi_log_level level,
                   enum fi_log_subsys subsys, uint64_t flags);
    int (*ready)(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
                 uint64_t flags, uint64_t *showtime);
    void (*log)(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
                const char *func, int line, const char *msg);
};

struct fid_logging {
    struct fid fid;
    struct fi_ops_log *ops;
};

static inline int fi_import_log(uint32_t version, uint64_t flags, struct fid_logging *log_fid)
{
    log_fid->fid.fclass = FI_CLASS_LOG;
    log_fid->ops->size = sizeof(struct fi_ops_log);
    return fi_import(version, "logging", NULL, 0, flags, &log_fid->fid, log_fid);
}

/* ---- Memory monitors ---- */

struct fid_mem_monitor;

/* Set by the importer, called by the library. */
struct fi_ops_mem_monitor {
    size_t size;
    int (*start)(struct fid_mem_monitor *monitor);
    void (*stop)(struct fid_mem_monitor *monitor);
    int (*subscribe)(struct fid_mem_monitor *monitor, const void *addr, size_t len);
    void (*unsubscribe)(struct fid_mem_monitor *monitor, const void *addr, size_t len);
    bool (*valid)(struct fid_mem_monitor *monitor, const void *addr, size_t len);
};

/* Set by the library, called by the importer when a mapping has changed. */
struct fi_ops_mem_notify {
    size_t size;
    void (*notify)(struct fid_mem_monitor *monitor, const void *addr, size_t len);
};

struct fid_mem_monitor {
    struct fid fid;
    struct fi_ops_mem_monitor *export_ops;
    struct fi_ops_mem_notify *import_ops;
};

#ifdef __cplusplus
}
#endif

#endif
