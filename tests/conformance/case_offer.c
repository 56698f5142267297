/* SPDX-License-Identifier: BSD-2-Clause */
/* Does the stack offer what the table of offers says? */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "conf.h"

static struct fi_info *hints_of_table(void)
{
    struct fi_info *hints = fi_allocinfo();

    conf_check(hints != NULL, "no memory");
    hints->caps = conf_offers->caps;
    hints->mode = conf_offers->mode;
    hints->ep_attr->type = conf_offers->type;
    hints->addr_format = (uint32_t)conf_offers->address;
    hints->domain_attr->mr_mode = (int)conf_offers->mr_mode;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    return hints;
}

/* fi_getinfo as the hints are, which it frees; NULL when nothing comes back. */
static struct fi_info *ask(struct fi_info *hints)
{
    const char *node = conf_host();
    struct fi_info *info = NULL;
    int rc = fi_getinfo(FI_VERSION(2, 6), node, NULL, node ? FI_SOURCE : 0, hints, &info);

    conf_check(!rc || rc == -FI_ENODATA, "fi_getinfo: %s", fi_strerror(-rc));
    fi_freeinfo(hints);
    return rc ? NULL : info;
}

static void need_table(void)
{
    conf_check(conf_offers->known, "the table of offers has no block for this stack");
}

static void at_least(const char *what, uint64_t offered, uint64_t granted)
{
    conf_check((offered & granted) == granted, "%s: %#" PRIx64 " of %#" PRIx64 " are not offered",
               what, granted & ~offered, granted);
}

static void no_less(const char *what, uint64_t offered, uint64_t granted)
{
    conf_check(offered >= granted, "%s: %" PRIu64 ", and %" PRIu64 " is promised", what, offered,
               granted);
}

/* Capabilities, orders, modes, sizes, format and protocol, in one fi_info. */
static void all_together(void)
{
    struct fi_info *hints, *info;

    need_table();
    hints = hints_of_table();
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = conf_offers->msg_order;
    hints->tx_attr->comp_order = hints->rx_attr->comp_order = conf_offers->comp_order;
    hints->tx_attr->inject_size = (size_t)conf_offers->inject_size;
    hints->tx_attr->iov_limit = hints->rx_attr->iov_limit = (size_t)conf_offers->iov_limit;
    hints->tx_attr->rma_iov_limit = (size_t)conf_offers->rma_iov_limit;
    hints->tx_attr->size = (size_t)conf_offers->tx_size;
    hints->rx_attr->size = (size_t)conf_offers->rx_size;
    hints->ep_attr->max_msg_size = (size_t)conf_offers->max_msg_size;
    hints->ep_attr->protocol = (uint32_t)conf_offers->protocol;
    hints->domain_attr->cq_data_size = (size_t)conf_offers->cq_data_size;
    info = ask(hints);
    conf_check(info != NULL, "what the table says is not offered all together");
    at_least("caps", info->caps, conf_offers->caps);
    at_least("tx msg_order", info->tx_attr->msg_order, conf_offers->msg_order);
    at_least("rx msg_order", info->rx_attr->msg_order, conf_offers->msg_order);
    at_least("tx comp_order", info->tx_attr->comp_order, conf_offers->comp_order);
    at_least("rx comp_order", info->rx_attr->comp_order, conf_offers->comp_order);
    at_least("mode, of those allowed", conf_offers->mode, info->mode);
    at_least("mr_mode, of those allowed", conf_offers->mr_mode,
             (uint64_t)info->domain_attr->mr_mode);
    no_less("inject_size", info->tx_attr->inject_size, conf_offers->inject_size);
    no_less("tx iov_limit", info->tx_attr->iov_limit, conf_offers->iov_limit);
    no_less("rx iov_limit", info->rx_attr->iov_limit, conf_offers->iov_limit);
    no_less("rma_iov_limit", info->tx_attr->rma_iov_limit, conf_offers->rma_iov_limit);
    no_less("mr_iov_limit", info->domain_attr->mr_iov_limit, conf_offers->mr_iov_limit);
    no_less("tx size", info->tx_attr->size, conf_offers->tx_size);
    no_less("rx size", info->rx_attr->size, conf_offers->rx_size);
    no_less("max_msg_size", info->ep_attr->max_msg_size, conf_offers->max_msg_size);
    no_less("max_order_raw_size", info->ep_attr->max_order_raw_size,
            conf_offers->max_order_raw_size);
    no_less("max_order_waw_size", info->ep_attr->max_order_waw_size,
            conf_offers->max_order_waw_size);
    no_less("cq_data_size", info->domain_attr->cq_data_size, conf_offers->cq_data_size);
    no_less("mr_key_size", info->domain_attr->mr_key_size, conf_offers->mr_key_size);
    conf_check(info->addr_format == conf_offers->address, "addr_format %u", info->addr_format);
    conf_check(info->ep_attr->protocol == conf_offers->protocol, "protocol %u",
               info->ep_attr->protocol);
    conf_check(info->ep_attr->mem_tag_format == conf_offers->tag_format, "mem_tag_format %#" PRIx64,
               info->ep_attr->mem_tag_format);
    conf_check(info->domain_attr->resource_mgmt == FI_RM_ENABLED, "resource_mgmt");
    fi_freeinfo(info);
}

static void threading_levels(void)
{
    need_table();
    for (int level = FI_THREAD_SAFE; level <= FI_THREAD_ENDPOINT; level++) {
        struct fi_info *hints = hints_of_table(), *info;

        hints->domain_attr->threading = (enum fi_threading)level;
        info = ask(hints);
        conf_check(info || !(conf_offers->threading >> level & 1), "threading level %d", level);
        conf_check(!info || (int)info->domain_attr->threading == level,
                   "asked threading %d, returned %d", level,
                   info ? (int)info->domain_attr->threading : 0);
        fi_freeinfo(info);
    }
}

static void progress_levels(void)
{
    need_table();
    for (int level = FI_PROGRESS_AUTO; level <= FI_PROGRESS_MANUAL; level++) {
        struct fi_info *hints = hints_of_table(), *info;

        hints->domain_attr->control_progress = hints->domain_attr->data_progress =
            (enum fi_progress)level;
        info = ask(hints);
        conf_check(info || !(conf_offers->progress >> level & 1), "progress %d", level);
        conf_check(!info || (int)info->domain_attr->data_progress == level,
                   "asked progress %d, returned %d", level,
                   info ? (int)info->domain_attr->data_progress : 0);
        fi_freeinfo(info);
    }
}

static void completion_levels(void)
{
    need_table();
    for (int bit = 0; bit < 64; bit++) {
        struct fi_info *hints, *info;

        if (!(conf_offers->op_flags >> bit & 1))
            continue;
        hints = hints_of_table();
        hints->tx_attr->op_flags = 1ULL << bit;
        info = ask(hints);
        conf_check(info != NULL, "tx op_flags %#llx", 1ULL << bit);
        at_least("tx op_flags", info->tx_attr->op_flags, 1ULL << bit);
        fi_freeinfo(info);
    }
}

static void registration_modes(void)
{
    need_table();
    for (int bit = 0; bit < 16; bit++) {
        struct fi_info *hints, *info;

        if (!(conf_offers->mr_asked >> bit & 1))
            continue;
        hints = hints_of_table();
        hints->domain_attr->mr_mode |= 1 << bit;
        info = ask(hints);
        conf_check(info != NULL, "mr_mode %#x", 1 << bit);
        conf_check(!(info->domain_attr->mr_mode & ~(1 << bit | (int)conf_offers->mr_mode)),
                   "mr_mode %#x became %#x", 1 << bit, (unsigned)info->domain_attr->mr_mode);
        fi_freeinfo(info);
    }
}

static void av_types(void)
{
    need_table();
    for (int type = FI_AV_MAP; type <= FI_AV_TABLE; type++) {
        struct fi_info *hints = hints_of_table(), *info;

        hints->domain_attr->av_type = (enum fi_av_type)type;
        info = ask(hints);
        conf_check(info || !(conf_offers->av >> type & 1), "av_type %d", type);
        conf_check(!info || (int)info->domain_attr->av_type == type, "av_type %d became %d", type,
                   info ? (int)info->domain_attr->av_type : 0);
        fi_freeinfo(info);
    }
}

static void wait_objects(void)
{
    struct fi_wait_attr set_attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct conf_fabric home;
    struct fid_wait *set = NULL;

    need_table();
    conf_fabric_open(&home, &(struct conf_want){0});
    if (conf_offers->wait >> FI_WAIT_SET & 1)
        conf_check(!fi_wait_open(home.fabric, &set_attr, &set), "fi_wait_open");
    for (int wait = FI_WAIT_NONE; wait <= FI_WAIT_POLLFD; wait++) {
        struct fi_cq_attr cq_attr = {.wait_obj = (enum fi_wait_obj)wait, .wait_set = set};
        struct fi_cntr_attr cntr_attr = {.wait_obj = (enum fi_wait_obj)wait, .wait_set = set};
        struct fid_cntr *cntr;
        struct fid_cq *cq;
        int rc;

        if (!(conf_offers->wait >> wait & 1))
            continue;
        rc = fi_cq_open(home.domain, &cq_attr, &cq, NULL);
        conf_check(!rc, "a queue with wait object %d: %s", wait, fi_strerror(-rc));
        conf_check(!fi_close(&cq->fid), "fi_close");
        rc = fi_cntr_open(home.domain, &cntr_attr, &cntr, NULL);
        conf_check(!rc, "a counter with wait object %d: %s", wait, fi_strerror(-rc));
        conf_check(!fi_close(&cntr->fid), "fi_close");
    }
    if (set)
        conf_check(!fi_close(&set->fid), "fi_close");
    conf_fabric_close(&home);
}

/* A line of `lacks` about a capability that is offered by now hides cases. */
static void lacks_are_true(void)
{
    need_table();
    for (int i = 0; conf_offers->lacks[i].word; i++) {
        uint64_t cap = offers_cap(conf_offers->lacks[i].word);
        struct fi_info *hints, *info;

        if (!cap)
            continue;
        hints = hints_of_table();
        hints->caps = cap;
        info = ask(hints);
        conf_check(info == NULL, "%s is offered: put it into `caps` of tests/conformance/offers",
                   conf_offers->lacks[i].word);
    }
}

const struct conf_case conf_offer_cases[] = {
    {"offer: all capabilities, orders, sizes together", all_together},
    {"offer: threading levels, as asked", threading_levels},
    {"offer: progress, as asked", progress_levels},
    {"offer: completion levels", completion_levels},
    {"offer: registration modes", registration_modes},
    {"offer: types of address vectors", av_types},
    {"offer: wait objects of queues and counters", wait_objects},
    {"offer: what the table lacks is not offered", lacks_are_true},
    {0},
};
