/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of core/av. The caller holds the AV's lock unless a function says
 * otherwise. */
#ifndef WEFT_CORE_AV_AV_IMPL_H
#define WEFT_CORE_AV_AV_IMPL_H

#include "core/av/av.h"
#include "core/net/addr.h"

enum {
    AV_STR_MAX = 512
}; /* of an FI_ADDR_STR address, with its 0 */

/* Can an endpoint have this address? */
bool av_usable(const struct av *av, const void *addr);
/* Bytes of an address in the AV's format, strings with their 0. */
size_t av_addr_size(const struct av *av, const void *addr);
void av_tell_inserted(struct av *av, fi_addr_t addr);
void av_tell_removed(struct av *av, fi_addr_t addr);

static inline struct av *av_of(struct fid_av *fid)
{
    return object_of(fid, struct av, fid);
}

/* ---- Changing. Named AVs have files of their own; the others do not pay for them. ---- */

int av_lock_shared(struct av *av, const char *call);
int av_unlock_shared(struct av *av);

/* Locks an AV that is not, for what `call` changes. */
static inline int av_lock_for_change(struct av *av, const char *call)
{
    if (av->shared)
        return av_lock_shared(av, call);
    pthread_mutex_lock(&av->mutex);
    return 0;
}

static inline int av_unlock_changed(struct av *av)
{
    if (av->shared)
        return av_unlock_shared(av);
    pthread_mutex_unlock(&av->mutex);
    return 0;
}

/* ---- av_insert.c: calls of fi_ops_av, of an AV that is not locked ---- */

int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr,
              uint64_t flags, void *context);
int av_insertsvc(struct fid_av *fid, const char *node, const char *service, fi_addr_t *fi_addr,
                 uint64_t flags, void *context);
int av_insertsym(struct fid_av *fid, const char *node, size_t nodecnt, const char *service,
                 size_t svccnt, fi_addr_t *fi_addr, uint64_t flags, void *context);

/* ---- av_symmetric.c ---- */

/* The address of the node `step` places after node. Negative: there is none; it has been said. */
int av_symmetric_node(const struct av *av, const char *node, const char *service, size_t step,
                      union addr *addr);

#endif
