/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/info/abi.h"

#include <pthread.h>
#include <search.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_eq.h>

#include "core/info/info.h"
#include "core/info/nic.h"

/* Where a struct ends that has `last` as its last field. */
#define UP_TO(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

/* Bytes of each struct by level, up to the end of its last field: padding follows, where the next
 * level may have put a field. */
struct layout {
    size_t info, tx, ep, domain, fabric, cq_err, eq_err, mr;
};

static const struct layout layouts[] = {
    [ABI_1_0] = {UP_TO(struct fi_info, fabric_attr), UP_TO(struct fi_tx_attr, rma_iov_limit),
                 UP_TO(struct fi_ep_attr, rx_ctx_cnt), UP_TO(struct fi_domain_attr, max_ep_srx_ctx),
                 UP_TO(struct fi_fabric_attr, prov_version),
                 UP_TO(struct fi_cq_err_entry, err_data), UP_TO(struct fi_eq_err_entry, err_data),
                 UP_TO(struct fi_mr_attr, context)},
    [ABI_1_1] = {UP_TO(struct fi_info, fabric_attr), UP_TO(struct fi_tx_attr, rma_iov_limit),
                 UP_TO(struct fi_ep_attr, auth_key), UP_TO(struct fi_domain_attr, mr_cnt),
                 UP_TO(struct fi_fabric_attr, api_version),
                 UP_TO(struct fi_cq_err_entry, err_data_size),
                 UP_TO(struct fi_eq_err_entry, err_data_size), UP_TO(struct fi_mr_attr, auth_key)},
    [ABI_1_2] = {UP_TO(struct fi_info, nic), UP_TO(struct fi_tx_attr, rma_iov_limit),
                 UP_TO(struct fi_ep_attr, auth_key), UP_TO(struct fi_domain_attr, mr_cnt),
                 UP_TO(struct fi_fabric_attr, api_version),
                 UP_TO(struct fi_cq_err_entry, err_data_size),
                 UP_TO(struct fi_eq_err_entry, err_data_size), UP_TO(struct fi_mr_attr, auth_key)},
    [ABI_1_3] = {UP_TO(struct fi_info, nic), UP_TO(struct fi_tx_attr, tclass),
                 UP_TO(struct fi_ep_attr, auth_key), UP_TO(struct fi_domain_attr, tclass),
                 UP_TO(struct fi_fabric_attr, api_version),
                 UP_TO(struct fi_cq_err_entry, err_data_size),
                 UP_TO(struct fi_eq_err_entry, err_data_size), UP_TO(struct fi_mr_attr, device)},
    [ABI_1_7] = {UP_TO(struct fi_info, nic), UP_TO(struct fi_tx_attr, tclass),
                 UP_TO(struct fi_ep_attr, auth_key), UP_TO(struct fi_domain_attr, max_ep_auth_key),
                 UP_TO(struct fi_fabric_attr, api_version), UP_TO(struct fi_cq_err_entry, src_addr),
                 UP_TO(struct fi_eq_err_entry, err_data_size), UP_TO(struct fi_mr_attr, hmem_data)},
    [ABI_1_8] = {UP_TO(struct fi_info, nic), UP_TO(struct fi_tx_attr, tclass),
                 UP_TO(struct fi_ep_attr, auth_key), UP_TO(struct fi_domain_attr, max_group_id),
                 UP_TO(struct fi_fabric_attr, api_version), UP_TO(struct fi_cq_err_entry, src_addr),
                 UP_TO(struct fi_eq_err_entry, err_data_size),
                 UP_TO(struct fi_mr_attr, sub_mr_cnt)},
    [ABI_1_9] = {sizeof(struct fi_info), sizeof(struct fi_tx_attr), sizeof(struct fi_ep_attr),
                 sizeof(struct fi_domain_attr), sizeof(struct fi_fabric_attr),
                 sizeof(struct fi_cq_err_entry), sizeof(struct fi_eq_err_entry),
                 sizeof(struct fi_mr_attr)},
};

/* An info seen in the current layout: the caller's fields in front, zero behind. Its pointers are
 * the caller's, but for the attrs, which are in here. */
struct view {
    struct fi_info info;
    struct fi_tx_attr tx;
    struct fi_rx_attr rx;
    struct fi_ep_attr ep;
    struct fi_domain_attr domain;
    struct fi_fabric_attr fabric;
};

static void view_init(struct view *view, const struct fi_info *theirs, enum abi_level level)
{
    const struct layout *layout = &layouts[level];
    struct fi_info *info = &view->info;

    memset(view, 0, sizeof(*view));
    memcpy(info, theirs, layout->info);
    info->next = NULL;
    if (info->tx_attr)
        info->tx_attr = memcpy(&view->tx, info->tx_attr, layout->tx);
    if (info->rx_attr)
        info->rx_attr = memcpy(&view->rx, info->rx_attr, sizeof(view->rx));
    if (info->ep_attr)
        info->ep_attr = memcpy(&view->ep, info->ep_attr, layout->ep);
    if (info->domain_attr)
        info->domain_attr = memcpy(&view->domain, info->domain_attr, layout->domain);
    if (info->fabric_attr)
        info->fabric_attr = memcpy(&view->fabric, info->fabric_attr, layout->fabric);
}

struct fi_info *abi_info_import(const struct fi_info *theirs, enum abi_level level)
{
    struct view view;

    if (!theirs)
        return info_alloc();
    view_init(&view, theirs, level);
    return info_dup(&view.info);
}

/* ---- The levels of fabric attrs ---- */

struct noted {
    const struct fi_fabric_attr *attr;
    enum abi_level level;
};

static pthread_mutex_t noted_lock = PTHREAD_MUTEX_INITIALIZER;
static void *noted_tree;
static enum abi_level lowest = ABI_1_9;

static int noted_compare(const void *a, const void *b)
{
    const struct noted *x = a, *y = b;

    return x->attr < y->attr ? -1 : x->attr > y->attr;
}

/* The entry of attr, or NULL. Lock held. */
static struct noted *noted_find(const struct fi_fabric_attr *attr)
{
    struct noted key = {.attr = attr};
    struct noted **node = tfind(&key, &noted_tree, noted_compare);

    return node ? *node : NULL;
}

void abi_bound(enum abi_level level)
{
    pthread_mutex_lock(&noted_lock);
    if (level < lowest)
        lowest = level;
    pthread_mutex_unlock(&noted_lock);
}

void abi_note(const struct fi_fabric_attr *attr, enum abi_level level)
{
    struct noted *noted;

    if (!attr)
        return;
    pthread_mutex_lock(&noted_lock);
    noted = noted_find(attr);
    if (!noted) {
        noted = malloc(sizeof(*noted));
        if (noted) {
            noted->attr = attr;
            if (!tsearch(noted, &noted_tree, noted_compare)) {
                free(noted);
                noted = NULL;
            }
        }
    }
    /* Without memory the attr counts as the application's: the lowest level is safe for it too. */
    if (noted)
        noted->level = level;
    pthread_mutex_unlock(&noted_lock);
}

/* Removes attr's entry. True if there was one. */
static bool noted_remove(const struct fi_fabric_attr *attr)
{
    struct noted *noted;

    pthread_mutex_lock(&noted_lock);
    noted = noted_find(attr);
    if (noted)
        tdelete(noted, &noted_tree, noted_compare);
    pthread_mutex_unlock(&noted_lock);
    free(noted);
    return noted != NULL;
}

void abi_forget(const struct fi_fabric_attr *attr)
{
    noted_remove(attr);
}

enum abi_level abi_of(const struct fi_fabric_attr *attr)
{
    struct noted *noted;
    enum abi_level level;

    pthread_mutex_lock(&noted_lock);
    noted = noted_find(attr);
    level = noted ? noted->level : lowest;
    pthread_mutex_unlock(&noted_lock);
    return level;
}

/* ---- Infos out, and back to be freed ---- */

void abi_info_export(struct fi_info *list, enum abi_level level)
{
    for (struct fi_info *info = list; info; info = info->next) {
        abi_note(info->fabric_attr, level);
        if (level < ABI_1_2) {
            nic_close(info->nic);
            info->nic = NULL;
        }
    }
}

/* Frees an info whose memory the application allocated: its attrs may be shorter than ours. */
static void free_theirs(struct fi_info *theirs, enum abi_level level)
{
    struct view view;

    view_init(&view, theirs, level);
    free(view.info.src_addr);
    free(view.info.dest_addr);
    nic_close(view.info.nic);
    free(view.ep.auth_key);
    free(view.domain.name);
    free(view.domain.auth_key);
    free(view.fabric.name);
    free(view.fabric.prov_name);
    free(theirs->tx_attr);
    free(theirs->rx_attr);
    free(theirs->ep_attr);
    free(theirs->domain_attr);
    free(theirs->fabric_attr);
    free(theirs);
}

void abi_info_free(struct fi_info *list, enum abi_level level)
{
    while (list) {
        struct fi_info *next = list->next;

        list->next = NULL;
        if (noted_remove(list->fabric_attr) || level == ABI_1_9)
            info_free(list);
        else
            free_theirs(list, level);
        list = next;
    }
}

/* ---- Structs without a symbol version ---- */

size_t abi_cq_err_entry_size(enum abi_level level)
{
    return layouts[level].cq_err;
}

size_t abi_eq_err_entry_size(enum abi_level level)
{
    return layouts[level].eq_err;
}

size_t abi_tx_attr_size(enum abi_level level)
{
    return layouts[level].tx;
}

void abi_fabric_attr_import(const struct fi_fabric_attr *theirs, enum abi_level level,
                            struct fi_fabric_attr *out)
{
    memset(out, 0, sizeof(*out));
    memcpy(out, theirs, layouts[level].fabric);
}

void abi_mr_attr_import(const struct fi_mr_attr *theirs, enum abi_level level,
                        struct fi_mr_attr *out)
{
    memset(out, 0, sizeof(*out));
    memcpy(out, theirs, layouts[level].mr);
}
