/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/info/nic.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"

static void destroy(struct fid_nic *nic)
{
    if (nic->device_attr) {
        free(nic->device_attr->name);
        free(nic->device_attr->device_id);
        free(nic->device_attr->device_version);
        free(nic->device_attr->vendor_id);
        free(nic->device_attr->driver);
        free(nic->device_attr->firmware);
    }
    if (nic->link_attr) {
        free(nic->link_attr->address);
        free(nic->link_attr->network_type);
    }
    free(nic->device_attr);
    free(nic->bus_attr);
    free(nic->link_attr);
    free(nic);
}

static int close_fid(struct fid *fid)
{
    destroy(container_of(fid, struct fid_nic, fid));
    return 0;
}

static int control_fid(struct fid *fid, int command, void *arg)
{
    struct fid_nic *copy;

    if (command != FI_DUP)
        return -FI_ENOSYS;
    copy = nic_dup(container_of(fid, struct fid_nic, fid));
    if (!copy)
        return -FI_ENOMEM;
    *(struct fid_nic **)arg = copy;
    return 0;
}

static struct fi_ops nic_ops = {
    .size = offsetof(struct fi_ops, tostr),
    .close = close_fid,
    .bind = enosys_bind,
    .control = control_fid,
    .ops_open = enosys_ops_open,
};

struct fid_nic *nic_create(void)
{
    struct fid_nic *nic = calloc(1, sizeof(*nic));

    if (!nic)
        return NULL;
    nic->fid.fclass = FI_CLASS_NIC;
    nic->fid.ops = &nic_ops;
    nic->device_attr = calloc(1, sizeof(*nic->device_attr));
    nic->bus_attr = calloc(1, sizeof(*nic->bus_attr));
    nic->link_attr = calloc(1, sizeof(*nic->link_attr));
    if (nic->device_attr && nic->bus_attr && nic->link_attr)
        return nic;
    destroy(nic);
    return NULL;
}

static bool copy_text(char **copy, const char *text)
{
    *copy = text ? strdup(text) : NULL;
    return *copy || !text;
}

static bool copy_device(struct fi_device_attr *copy, const struct fi_device_attr *attr)
{
    return copy_text(&copy->name, attr->name) && copy_text(&copy->device_id, attr->device_id) &&
           copy_text(&copy->device_version, attr->device_version) &&
           copy_text(&copy->vendor_id, attr->vendor_id) && copy_text(&copy->driver, attr->driver) &&
           copy_text(&copy->firmware, attr->firmware);
}

static bool copy_link(struct fi_link_attr *copy, const struct fi_link_attr *attr)
{
    copy->mtu = attr->mtu;
    copy->speed = attr->speed;
    copy->state = attr->state;
    return copy_text(&copy->address, attr->address) &&
           copy_text(&copy->network_type, attr->network_type);
}

static struct fid_nic *dup_foreign(const struct fid_nic *nic)
{
    struct fid_nic *copy = NULL;

    if (!nic->fid.ops || nic->fid.ops == &nic_ops ||
        !FI_CHECK_OP(nic->fid.ops, struct fi_ops, control) ||
        nic->fid.ops->control((struct fid *)&nic->fid, FI_DUP, &copy))
        return NULL;
    return copy;
}

struct fid_nic *nic_dup(const struct fid_nic *nic)
{
    struct fid_nic *copy = dup_foreign(nic);

    if (copy)
        return copy;
    copy = nic_create();
    if (!copy)
        return NULL;
    if (nic->bus_attr)
        *copy->bus_attr = *nic->bus_attr;
    if ((!nic->device_attr || copy_device(copy->device_attr, nic->device_attr)) &&
        (!nic->link_attr || copy_link(copy->link_attr, nic->link_attr)))
        return copy;
    destroy(copy);
    return NULL;
}

void nic_close(struct fid_nic *nic)
{
    if (!nic)
        return;
    if (nic->fid.ops && FI_CHECK_OP(nic->fid.ops, struct fi_ops, close))
        nic->fid.ops->close(&nic->fid);
    else
        destroy(nic);
}
