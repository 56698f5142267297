/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/info/info.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/info/abi.h"
#include "core/info/nic.h"

struct fi_info *info_alloc(void)
{
    struct fi_info *info = calloc(1, sizeof(*info));

    if (!info)
        return NULL;
    info->tx_attr = calloc(1, sizeof(*info->tx_attr));
    info->rx_attr = calloc(1, sizeof(*info->rx_attr));
    info->ep_attr = calloc(1, sizeof(*info->ep_attr));
    info->domain_attr = calloc(1, sizeof(*info->domain_attr));
    info->fabric_attr = calloc(1, sizeof(*info->fabric_attr));
    if (info->tx_attr && info->rx_attr && info->ep_attr && info->domain_attr && info->fabric_attr)
        return info;
    info_free(info);
    return NULL;
}

static void free_one(struct fi_info *info)
{
    if (info->ep_attr)
        free(info->ep_attr->auth_key);
    if (info->domain_attr) {
        free(info->domain_attr->name);
        free(info->domain_attr->auth_key);
    }
    if (info->fabric_attr) {
        abi_forget(info->fabric_attr);
        free(info->fabric_attr->name);
        free(info->fabric_attr->prov_name);
    }
    free(info->src_addr);
    free(info->dest_addr);
    free(info->tx_attr);
    free(info->rx_attr);
    free(info->ep_attr);
    free(info->domain_attr);
    free(info->fabric_attr);
    nic_close(info->nic);
    free(info);
}

void info_free(struct fi_info *info)
{
    while (info) {
        struct fi_info *next = info->next;

        free_one(info);
        info = next;
    }
}

/* Copies `size` bytes to *copy; nothing to copy is success. False without memory. */
static bool copy_bytes(void *copy, const void *bytes, size_t size)
{
    void *memory = NULL;

    if (bytes && size) {
        memory = malloc(size);
        if (!memory)
            return false;
        memcpy(memory, bytes, size);
    }
    memcpy(copy, &memory, sizeof(memory));
    return true;
}

static bool copy_text(char **copy, const char *text)
{
    return copy_bytes(copy, text, text ? strlen(text) + 1 : 0);
}

/* Size of the bytes behind an auth key: FI_AV_AUTH_KEY says where keys come from, and has none. */
static size_t key_bytes(size_t auth_key_size)
{
    return auth_key_size == FI_AV_AUTH_KEY ? 0 : auth_key_size;
}

static bool copy_ep_attr(struct fi_info *copy, const struct fi_info *info)
{
    if (!info->ep_attr)
        return true;
    if (!copy_bytes(&copy->ep_attr, info->ep_attr, sizeof(*info->ep_attr)))
        return false;
    copy->ep_attr->auth_key = NULL;
    return copy_bytes(&copy->ep_attr->auth_key, info->ep_attr->auth_key,
                      key_bytes(info->ep_attr->auth_key_size));
}

static bool copy_domain_attr(struct fi_info *copy, const struct fi_info *info)
{
    const struct fi_domain_attr *attr = info->domain_attr;

    if (!attr)
        return true;
    if (!copy_bytes(&copy->domain_attr, attr, sizeof(*attr)))
        return false;
    copy->domain_attr->name = NULL;
    copy->domain_attr->auth_key = NULL;
    return copy_text(&copy->domain_attr->name, attr->name) &&
           copy_bytes(&copy->domain_attr->auth_key, attr->auth_key, key_bytes(attr->auth_key_size));
}

static bool copy_fabric_attr(struct fi_info *copy, const struct fi_info *info)
{
    const struct fi_fabric_attr *attr = info->fabric_attr;

    if (!attr)
        return true;
    if (!copy_bytes(&copy->fabric_attr, attr, sizeof(*attr)))
        return false;
    copy->fabric_attr->name = NULL;
    copy->fabric_attr->prov_name = NULL;
    return copy_text(&copy->fabric_attr->name, attr->name) &&
           copy_text(&copy->fabric_attr->prov_name, attr->prov_name);
}

static bool copy_all(struct fi_info *copy, const struct fi_info *info)
{
    if (!copy_bytes(&copy->src_addr, info->src_addr, info->src_addrlen) ||
        !copy_bytes(&copy->dest_addr, info->dest_addr, info->dest_addrlen) ||
        !copy_bytes(&copy->tx_attr, info->tx_attr, sizeof(*info->tx_attr)) ||
        !copy_bytes(&copy->rx_attr, info->rx_attr, sizeof(*info->rx_attr)) ||
        !copy_ep_attr(copy, info) || !copy_domain_attr(copy, info) || !copy_fabric_attr(copy, info))
        return false;
    if (!info->nic)
        return true;
    copy->nic = nic_dup(info->nic);
    return copy->nic != NULL;
}

struct fi_info *info_dup(const struct fi_info *info)
{
    struct fi_info *copy = calloc(1, sizeof(*copy));

    if (!copy)
        return NULL;
    copy->caps = info->caps;
    copy->mode = info->mode;
    copy->addr_format = info->addr_format;
    copy->src_addrlen = info->src_addr ? info->src_addrlen : 0;
    copy->dest_addrlen = info->dest_addr ? info->dest_addrlen : 0;
    copy->handle = info->handle;
    if (copy_all(copy, info))
        return copy;
    info_free(copy);
    return NULL;
}

struct fi_info *info_for_lower(const struct fi_info *info)
{
    struct fi_info *need = info_dup(info);

    if (!need || !need->fabric_attr || !need->domain_attr ||
        info_set_string(&need->fabric_attr->prov_name, NULL)) {
        info_free(need);
        return NULL;
    }
    need->handle = NULL;
    need->fabric_attr->fabric = NULL;
    need->domain_attr->domain = NULL;
    need->domain_attr->threading = FI_THREAD_DOMAIN;
    need->domain_attr->progress = FI_PROGRESS_MANUAL;
    need->domain_attr->control_progress = FI_PROGRESS_CONTROL_UNIFIED;
    return need;
}

void info_set_limits(struct fi_domain_attr *attr, size_t objects)
{
    attr->mr_key_size = sizeof(uint64_t);
    attr->cq_data_size = sizeof(uint64_t);
    attr->cq_cnt = objects;
    attr->cntr_cnt = objects;
    attr->ep_cnt = objects;
    attr->mr_cnt = objects;
    attr->tx_ctx_cnt = objects;
    attr->rx_ctx_cnt = objects;
    attr->max_ep_tx_ctx = 1;
    attr->max_ep_rx_ctx = 1;
    attr->max_ep_stx_ctx = objects;
    attr->max_ep_srx_ctx = objects;
}

size_t info_count(const struct fi_info *list)
{
    size_t count = 0;

    for (; list; list = list->next)
        count++;
    return count;
}

void info_append(struct fi_info **list, struct fi_info *more)
{
    while (*list)
        list = &(*list)->next;
    *list = more;
}

int info_set_string(char **field, const char *text)
{
    char *copy;

    if (!copy_text(&copy, text))
        return -FI_ENOMEM;
    free(*field);
    *field = copy;
    return 0;
}

static int set_addr(void **addr, size_t *addrlen, const void *from, size_t len)
{
    void *copy;

    if (!copy_bytes(&copy, from, len))
        return -FI_ENOMEM;
    free(*addr);
    *addr = copy;
    *addrlen = copy ? len : 0;
    return 0;
}

int info_set_src(struct fi_info *info, const void *addr, size_t len)
{
    return set_addr(&info->src_addr, &info->src_addrlen, addr, len);
}

int info_set_dest(struct fi_info *info, const void *addr, size_t len)
{
    return set_addr(&info->dest_addr, &info->dest_addrlen, addr, len);
}

/* Moves the fields and attrs of `given` to `whole`, which keeps its empty attrs where given has
 * none. Frees the rest. */
static void fill(struct fi_info *whole, struct fi_info *given)
{
    struct fi_info empty = *whole;

    *whole = *given;
    if (!whole->tx_attr)
        whole->tx_attr = empty.tx_attr, empty.tx_attr = NULL;
    if (!whole->rx_attr)
        whole->rx_attr = empty.rx_attr, empty.rx_attr = NULL;
    if (!whole->ep_attr)
        whole->ep_attr = empty.ep_attr, empty.ep_attr = NULL;
    if (!whole->domain_attr)
        whole->domain_attr = empty.domain_attr, empty.domain_attr = NULL;
    if (!whole->fabric_attr)
        whole->fabric_attr = empty.fabric_attr, empty.fabric_attr = NULL;
    free(empty.tx_attr);
    free(empty.rx_attr);
    free(empty.ep_attr);
    free(empty.domain_attr);
    free(empty.fabric_attr);
    free(given);
}

struct fi_info *info_complete(const struct fi_info *hints)
{
    struct fi_info *whole = info_alloc(), *given;

    if (!whole)
        return NULL;
    if (!hints) {
        whole->mode = INFO_ANY_MODE;
        whole->domain_attr->mr_mode = INFO_ANY_MR_MODE;
        return whole;
    }
    given = info_dup(hints);
    if (!given) {
        info_free(whole);
        return NULL;
    }
    fill(whole, given);
    return whole;
}
