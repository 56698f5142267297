/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/enosys.h"

#include <rdma/fi_errno.h>

ssize_t enosys_ep_cancel(fid_t fid, void *context)
{
    return -FI_ENOSYS;
}

int enosys_ep_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen)
{
    return -FI_ENOPROTOOPT;
}

int enosys_ep_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen)
{
    return -FI_ENOPROTOOPT;
}

int enosys_ep_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **tx_ep,
                     void *context)
{
    return -FI_ENOSYS;
}

int enosys_ep_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **rx_ep,
                     void *context)
{
    return -FI_ENOSYS;
}

ssize_t enosys_ep_rx_size_left(struct fid_ep *ep)
{
    return -FI_ENOSYS;
}

ssize_t enosys_ep_tx_size_left(struct fid_ep *ep)
{
    return -FI_ENOSYS;
}

struct fi_ops_ep enosys_ep_ops = {
    .size = sizeof(enosys_ep_ops),
    .cancel = enosys_ep_cancel,
    .getopt = enosys_ep_getopt,
    .setopt = enosys_ep_setopt,
    NO_EP_CONTEXTS,
};

int enosys_cm_setname(fid_t fid, void *addr, size_t addrlen)
{
    return -FI_ENOSYS;
}

int enosys_cm_getname(fid_t fid, void *addr, size_t *addrlen)
{
    return -FI_ENOSYS;
}

int enosys_cm_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen)
{
    return -FI_ENOSYS;
}

int enosys_cm_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen)
{
    return -FI_ENOSYS;
}

int enosys_cm_listen(struct fid_pep *pep)
{
    return -FI_ENOSYS;
}

int enosys_cm_accept(struct fid_ep *ep, const void *param, size_t paramlen)
{
    return -FI_ENOSYS;
}

int enosys_cm_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen)
{
    return -FI_ENOSYS;
}

int enosys_cm_shutdown(struct fid_ep *ep, uint64_t flags)
{
    return -FI_ENOSYS;
}

int enosys_cm_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc,
                   void *context)
{
    return -FI_ENOSYS;
}

struct fi_ops_cm enosys_cm_ops = {
    .size = sizeof(enosys_cm_ops),
    .setname = enosys_cm_setname,
    .getname = enosys_cm_getname,
    NO_CM_CONNECTION,
};
