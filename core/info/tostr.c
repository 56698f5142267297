/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/info/tostr.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include "core/info/abi.h"
#include "core/info/info.h"
#include "core/info/names.h"

#define EXPORT __attribute__((visibility("default")))

enum {
    THREAD_BUFFER = 16384,
    INDENT = 4
};

struct out {
    char *text;
    size_t size, used; /* used < size: the 0 is not counted */
};

static void put(struct out *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void put(struct out *out, const char *fmt, ...)
{
    va_list args;
    int len;

    va_start(args, fmt);
    len = vsnprintf(out->text + out->used, out->size - out->used, fmt, args);
    va_end(args);
    if (len < 0)
        return;
    out->used += (size_t)len;
    if (out->used >= out->size)
        out->used = out->size - 1;
}

/* ---- Values ---- */

static void put_flags(struct out *out, const struct name *names, uint64_t value, bool hex_rest)
{
    const char *separator = "";

    for (; names->text; names++) {
        if (!names->value || (value & names->value) != names->value)
            continue;
        put(out, "%s%s", separator, names->text);
        separator = ", ";
        value &= ~names->value;
    }
    if (hex_rest && value)
        put(out, "%s0x%" PRIx64, separator, value);
}

static void put_value(struct out *out, enum fi_type type, uint64_t value)
{
    const struct name_table *table = names_of(type);
    const char *name;

    if (table->flags) {
        put_flags(out, table->names, value, false);
        return;
    }
    name = names_text(type, value);
    put(out, "%s", name ? name : "Unknown");
}

char *tostr_value(char *text, size_t size, enum fi_type type, uint64_t value)
{
    const struct name_table *table = names_of(type);
    struct out out = {.text = text, .size = size};
    const char *name = names_text(type, value);

    *text = 0;
    if (table && table->flags && value)
        put_flags(&out, table->names, value, true);
    else if (table && table->flags)
        put(&out, "none");
    else if (name)
        put(&out, "%s", name);
    else
        put(&out, "%" PRIu64, value);
    return text;
}

/* ---- Lines of structs ---- */

/* Where a struct is printed: `depth` is that of its title, and its fields are one deeper. */
struct block {
    struct out *out;
    int depth;
};

static struct block title(struct out *out, int depth, const char *name)
{
    put(out, "%*s%s:\n", depth * INDENT, "", name);
    return (struct block){.out = out, .depth = depth + 1};
}

static void line(struct block *block, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void line(struct block *block, const char *name, const char *fmt, ...)
{
    char text[TOSTR_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    put(block->out, "%*s%s: %s\n", block->depth * INDENT, "", name, text);
}

static void size_line(struct block *block, const char *name, uint64_t value)
{
    line(block, name, "%" PRIu64, value);
}

static void text_line(struct block *block, const char *name, const char *value)
{
    line(block, name, "%s", value ? value : "(null)");
}

static void pointer_line(struct block *block, const char *name, const void *value)
{
    line(block, name, value ? "%p" : "(nil)", value);
}

static void value_line(struct block *block, const char *name, enum fi_type type, uint64_t value)
{
    bool flags = names_of(type)->flags;

    put(block->out, "%*s%s: %s", block->depth * INDENT, "", name, flags ? "[ " : "");
    put_value(block->out, type, value);
    put(block->out, "%s\n", flags ? " ]" : "");
}

/* ---- Addresses ---- */

/* An unsigned field of an address that may be shorter than its format should be. */
static uint64_t field(const void *addr, size_t len, size_t offset, size_t size)
{
    uint64_t value = 0;

    if (offset + size <= len)
        memcpy(&value, (const char *)addr + offset, size);
    return value;
}

static const char *ipv6_text(const void *addr, size_t len, size_t offset,
                             char text[INET6_ADDRSTRLEN])
{
    *text = 0;
    if (offset + sizeof(struct in6_addr) <= len)
        inet_ntop(AF_INET6, (const char *)addr + offset, text, INET6_ADDRSTRLEN);
    return text;
}

static void put_sockaddr(struct out *out, const void *addr, size_t len)
{
    struct sockaddr_in6 in6;
    struct sockaddr_in in;
    char text[INET6_ADDRSTRLEN];
    sa_family_t family = (sa_family_t)field(addr, len, 0, sizeof(family));

    if (family == AF_INET && len >= sizeof(in)) {
        memcpy(&in, addr, sizeof(in));
        put(out, "fi_sockaddr_in://%s:%u", inet_ntop(AF_INET, &in.sin_addr, text, sizeof(text)),
            ntohs(in.sin_port));
    } else if (family == AF_INET6 && len >= sizeof(in6)) {
        memcpy(&in6, addr, sizeof(in6));
        put(out, "fi_sockaddr_in6://[%s]:%u", ipv6_text(&in6.sin6_addr, 16, 0, text),
            ntohs(in6.sin6_port));
    } else {
        put(out, "fi_sockaddr://family %u, %zu bytes", family, len);
    }
}

/* Formats of other providers, which an external one may return, in the text forms that programs
 * know. */
static bool put_foreign_addr(struct out *out, uint32_t format, const void *addr, size_t len)
{
    char text[INET6_ADDRSTRLEN];
    uint64_t words[4];

    for (size_t i = 0; i < 4; i++)
        words[i] = field(addr, len, i * 8, 8);
    switch (format) {
    case FI_SOCKADDR_IB:
        put(out, "fi_sockaddr_ib://[%s]:0x%x", ipv6_text(addr, len, 8, text),
            ntohs((uint16_t)field(addr, len, 2, 2)));
        break;
    case FI_ADDR_IB_UD:
        put(out, "fi_addr_ib_ud://%s:%x/%x/%x/%x", ipv6_text(addr, len, 0, text),
            (unsigned)field(addr, len, 16, 4), (unsigned)field(addr, len, 20, 2),
            (unsigned)field(addr, len, 22, 2), (unsigned)field(addr, len, 26, 1));
        break;
    case FI_ADDR_EFA:
        put(out, "fi_addr_efa://[%s]:%u:%u", ipv6_text(addr, len, 0, text),
            (unsigned)field(addr, len, 16, 2), (unsigned)field(addr, len, 20, 4));
        break;
    case FI_ADDR_PSMX2: put(out, "fi_addr_psmx2://%" PRIx64 ":%" PRIx64, words[0], words[1]); break;
    case FI_ADDR_PSMX3:
        put(out, "fi_addr_psmx3://%" PRIx64 ":%" PRIx64 ":%" PRIx64 ":%" PRIx64, words[0], words[1],
            words[2], words[3]);
        break;
    case FI_ADDR_OPX: put(out, "fi_addr_opx://%016" PRIx64, words[0]); break;
    case FI_ADDR_CXI: put(out, "fi_addr_cxi://0x%08x", (unsigned)field(addr, len, 0, 4)); break;
    default: return false;
    }
    return true;
}

bool tostr_addr(uint32_t format, const void *addr, size_t len, char *text, size_t size)
{
    struct out out = {.text = text, .size = size};

    *text = 0;
    return put_foreign_addr(&out, format, addr, len);
}

static void put_bytes(struct out *out, const unsigned char *bytes, size_t len)
{
    put(out, "%zu bytes: ", len);
    for (size_t i = 0; i < len && i < 64; i++)
        put(out, "%02x", bytes[i]);
}

static void addr_line(struct block *block, const char *name, uint32_t format, const void *addr,
                      size_t len)
{
    if (!addr || !len) {
        text_line(block, name, NULL);
        return;
    }
    put(block->out, "%*s%s: ", block->depth * INDENT, "", name);
    if (format == FI_SOCKADDR || format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6 ||
        format == FI_SOCKADDR_IP)
        put_sockaddr(block->out, addr, len);
    else if (format == FI_ADDR_STR)
        put(block->out, "%.*s", (int)len, (const char *)addr);
    else if (!put_foreign_addr(block->out, format, addr, len))
        put_bytes(block->out, addr, len);
    put(block->out, "\n");
}

/* ---- fi_info and what hangs from it ---- */

static void put_tx_attr(struct out *out, int depth, const struct fi_tx_attr *attr)
{
    struct block b = title(out, depth, "fi_tx_attr");

    value_line(&b, "caps", FI_TYPE_CAPS, attr->caps);
    value_line(&b, "mode", FI_TYPE_MODE, attr->mode);
    value_line(&b, "op_flags", FI_TYPE_OP_FLAGS, attr->op_flags);
    value_line(&b, "msg_order", FI_TYPE_MSG_ORDER, attr->msg_order);
    size_line(&b, "inject_size", attr->inject_size);
    size_line(&b, "size", attr->size);
    size_line(&b, "iov_limit", attr->iov_limit);
    size_line(&b, "rma_iov_limit", attr->rma_iov_limit);
    line(&b, "tclass", "0x%x", attr->tclass);
}

static void put_rx_attr(struct out *out, int depth, const struct fi_rx_attr *attr)
{
    struct block b = title(out, depth, "fi_rx_attr");

    value_line(&b, "caps", FI_TYPE_CAPS, attr->caps);
    value_line(&b, "mode", FI_TYPE_MODE, attr->mode);
    value_line(&b, "op_flags", FI_TYPE_OP_FLAGS, attr->op_flags);
    value_line(&b, "msg_order", FI_TYPE_MSG_ORDER, attr->msg_order);
    size_line(&b, "size", attr->size);
    size_line(&b, "iov_limit", attr->iov_limit);
}

static void put_ep_attr(struct out *out, int depth, const struct fi_ep_attr *attr)
{
    struct block b = title(out, depth, "fi_ep_attr");

    value_line(&b, "type", FI_TYPE_EP_TYPE, attr->type);
    value_line(&b, "protocol", FI_TYPE_PROTOCOL, attr->protocol);
    size_line(&b, "protocol_version", attr->protocol_version);
    size_line(&b, "max_msg_size", attr->max_msg_size);
    size_line(&b, "msg_prefix_size", attr->msg_prefix_size);
    size_line(&b, "max_order_raw_size", attr->max_order_raw_size);
    size_line(&b, "max_order_war_size", attr->max_order_war_size);
    size_line(&b, "max_order_waw_size", attr->max_order_waw_size);
    line(&b, "mem_tag_format", "0x%016" PRIx64, attr->mem_tag_format);
    size_line(&b, "tx_ctx_cnt", attr->tx_ctx_cnt);
    size_line(&b, "rx_ctx_cnt", attr->rx_ctx_cnt);
    size_line(&b, "auth_key_size", attr->auth_key_size);
}

static const char *resource_name(enum fi_resource_mgmt value)
{
    static const char *const names[] = {"FI_RM_UNSPEC", "FI_RM_DISABLED", "FI_RM_ENABLED"};

    return (unsigned)value < sizeof(names) / sizeof(*names) ? names[value] : "Unknown";
}

static void put_domain_attr(struct out *out, int depth, const struct fi_domain_attr *attr)
{
    struct block b = title(out, depth, "fi_domain_attr");

    line(&b, "domain", "0x%" PRIxPTR, (uintptr_t)attr->domain);
    text_line(&b, "name", attr->name);
    value_line(&b, "threading", FI_TYPE_THREADING, attr->threading);
    value_line(&b, "control_progress", FI_TYPE_PROGRESS, attr->control_progress);
    value_line(&b, "progress", FI_TYPE_PROGRESS, attr->progress);
    text_line(&b, "resource_mgmt", resource_name(attr->resource_mgmt));
    value_line(&b, "av_type", FI_TYPE_AV_TYPE, attr->av_type);
    value_line(&b, "mr_mode", FI_TYPE_MR_MODE, (unsigned)attr->mr_mode);
    size_line(&b, "mr_key_size", attr->mr_key_size);
    size_line(&b, "cq_data_size", attr->cq_data_size);
    size_line(&b, "cq_cnt", attr->cq_cnt);
    size_line(&b, "ep_cnt", attr->ep_cnt);
    size_line(&b, "tx_ctx_cnt", attr->tx_ctx_cnt);
    size_line(&b, "rx_ctx_cnt", attr->rx_ctx_cnt);
    size_line(&b, "max_ep_tx_ctx", attr->max_ep_tx_ctx);
    size_line(&b, "max_ep_rx_ctx", attr->max_ep_rx_ctx);
    size_line(&b, "max_ep_stx_ctx", attr->max_ep_stx_ctx);
    size_line(&b, "max_ep_srx_ctx", attr->max_ep_srx_ctx);
    size_line(&b, "cntr_cnt", attr->cntr_cnt);
    size_line(&b, "mr_iov_limit", attr->mr_iov_limit);
    value_line(&b, "caps", FI_TYPE_CAPS, attr->caps);
    value_line(&b, "mode", FI_TYPE_MODE, attr->mode);
    size_line(&b, "auth_key_size", attr->auth_key_size);
    size_line(&b, "max_err_data", attr->max_err_data);
    size_line(&b, "mr_cnt", attr->mr_cnt);
    line(&b, "tclass", "0x%x", attr->tclass);
    size_line(&b, "max_ep_auth_key", attr->max_ep_auth_key);
    size_line(&b, "max_group_id", attr->max_group_id);
    size_line(&b, "max_cntr_value", attr->max_cntr_value);
    size_line(&b, "max_err_cntr_value", attr->max_err_cntr_value);
}

static void put_fabric_attr(struct out *out, int depth, const struct fi_fabric_attr *attr)
{
    struct block b = title(out, depth, "fi_fabric_attr");

    text_line(&b, "name", attr->name);
    text_line(&b, "prov_name", attr->prov_name);
    line(&b, "prov_version", "%u.%u", FI_MAJOR(attr->prov_version), FI_MINOR(attr->prov_version));
    line(&b, "api_version", "%u.%u", FI_MAJOR(attr->api_version), FI_MINOR(attr->api_version));
}

static void put_device_attr(struct out *out, int depth, const struct fi_device_attr *attr)
{
    struct block b = title(out, depth, "fi_device_attr");

    text_line(&b, "name", attr->name);
    text_line(&b, "device_id", attr->device_id);
    text_line(&b, "device_version", attr->device_version);
    text_line(&b, "vendor_id", attr->vendor_id);
    text_line(&b, "driver", attr->driver);
    text_line(&b, "firmware", attr->firmware);
}

static void put_bus_attr(struct out *out, int depth, const struct fi_bus_attr *attr)
{
    struct block b = title(out, depth, "fi_bus_attr");
    struct block pci;

    text_line(&b, "bus_type", attr->bus_type == FI_BUS_PCI ? "FI_BUS_PCI" : "FI_BUS_UNKNOWN");
    if (attr->bus_type != FI_BUS_PCI)
        return;
    pci = title(out, depth + 1, "fi_pci_attr");
    size_line(&pci, "domain_id", attr->attr.pci.domain_id);
    size_line(&pci, "bus_id", attr->attr.pci.bus_id);
    size_line(&pci, "device_id", attr->attr.pci.device_id);
    size_line(&pci, "function_id", attr->attr.pci.function_id);
}

static void put_link_attr(struct out *out, int depth, const struct fi_link_attr *attr)
{
    static const char *const states[] = {"FI_LINK_UNKNOWN", "FI_LINK_DOWN", "FI_LINK_UP"};
    struct block b = title(out, depth, "fi_link_attr");

    text_line(&b, "address", attr->address);
    size_line(&b, "mtu", attr->mtu);
    size_line(&b, "speed", attr->speed);
    text_line(&b, "state", (unsigned)attr->state < 3 ? states[attr->state] : "Unknown");
    text_line(&b, "network_type", attr->network_type);
}

static void put_nic(struct out *out, int depth, const struct fid_nic *nic)
{
    struct block b = {.out = out, .depth = depth};

    if (!nic) {
        text_line(&b, "nic", "(nil)");
        return;
    }
    title(out, depth, "nic");
    if (nic->device_attr)
        put_device_attr(out, depth + 1, nic->device_attr);
    if (nic->bus_attr)
        put_bus_attr(out, depth + 1, nic->bus_attr);
    if (nic->link_attr)
        put_link_attr(out, depth + 1, nic->link_attr);
}

static void put_whole_info(struct out *out, const struct fi_info *info)
{
    struct block b = title(out, 0, "fi_info");

    value_line(&b, "caps", FI_TYPE_CAPS, info->caps);
    value_line(&b, "mode", FI_TYPE_MODE, info->mode);
    value_line(&b, "addr_format", FI_TYPE_ADDR_FORMAT, info->addr_format);
    size_line(&b, "src_addrlen", info->src_addrlen);
    size_line(&b, "dest_addrlen", info->dest_addrlen);
    addr_line(&b, "src_addr", info->addr_format, info->src_addr, info->src_addrlen);
    addr_line(&b, "dest_addr", info->addr_format, info->dest_addr, info->dest_addrlen);
    pointer_line(&b, "handle", info->handle);
    if (info->tx_attr)
        put_tx_attr(out, 1, info->tx_attr);
    if (info->rx_attr)
        put_rx_attr(out, 1, info->rx_attr);
    if (info->ep_attr)
        put_ep_attr(out, 1, info->ep_attr);
    if (info->domain_attr)
        put_domain_attr(out, 1, info->domain_attr);
    if (info->fabric_attr)
        put_fabric_attr(out, 1, info->fabric_attr);
    put_nic(out, 1, info->nic);
}

/* An info in the layout that its caller has. */
static void put_info(struct out *out, const struct fi_info *theirs)
{
    enum abi_level level = abi_of(theirs->fabric_attr);
    struct fi_info *info;

    if (level == ABI_1_9) {
        put_whole_info(out, theirs);
        return;
    }
    info = abi_info_import(theirs, level);
    if (info)
        put_whole_info(out, info);
    info_free(info);
}

/* One attr alone does not tell its layout: it is taken for the oldest that this process has bound.
 */
static void put_attr(struct out *out, const void *data, enum fi_type type)
{
    struct fi_info theirs = {0}, *info = &theirs;
    enum abi_level level = abi_of(type == FI_TYPE_FABRIC_ATTR ? data : NULL);

    switch (type) {
    case FI_TYPE_TX_ATTR: theirs.tx_attr = (void *)data; break;
    case FI_TYPE_EP_ATTR: theirs.ep_attr = (void *)data; break;
    case FI_TYPE_DOMAIN_ATTR: theirs.domain_attr = (void *)data; break;
    default: theirs.fabric_attr = (void *)data; break;
    }
    if (level != ABI_1_9)
        info = abi_info_import(&theirs, level);
    if (!info)
        return;
    if (info->tx_attr)
        put_tx_attr(out, 0, info->tx_attr);
    if (info->ep_attr)
        put_ep_attr(out, 0, info->ep_attr);
    if (info->domain_attr)
        put_domain_attr(out, 0, info->domain_attr);
    if (info->fabric_attr)
        put_fabric_attr(out, 0, info->fabric_attr);
    if (info != &theirs)
        info_free(info);
}

/* ---- Attributes of other objects: fields that every caller's header has ---- */

static void put_av_attr(struct out *out, const struct fi_av_attr *attr)
{
    struct block b = title(out, 0, "fi_av_attr");

    value_line(&b, "type", FI_TYPE_AV_TYPE, attr->type);
    line(&b, "rx_ctx_bits", "%d", attr->rx_ctx_bits);
    size_line(&b, "count", attr->count);
    size_line(&b, "ep_per_node", attr->ep_per_node);
    text_line(&b, "name", attr->name);
    pointer_line(&b, "map_addr", attr->map_addr);
    value_line(&b, "flags", FI_TYPE_OP_FLAGS, attr->flags);
}

static void put_cq_attr(struct out *out, const struct fi_cq_attr *attr)
{
    struct block b = title(out, 0, "fi_cq_attr");

    size_line(&b, "size", attr->size);
    value_line(&b, "flags", FI_TYPE_OP_FLAGS, attr->flags);
    value_line(&b, "format", FI_TYPE_CQ_FORMAT, attr->format);
    value_line(&b, "wait_obj", FI_TYPE_WAIT_OBJ, attr->wait_obj);
    line(&b, "signaling_vector", "%d", attr->signaling_vector);
    value_line(&b, "wait_cond", FI_TYPE_CQ_WAIT_COND, attr->wait_cond);
    pointer_line(&b, "wait_set", attr->wait_set);
}

static void put_mr_attr(struct out *out, const struct fi_mr_attr *attr)
{
    struct block b = title(out, 0, "fi_mr_attr");

    pointer_line(&b, "mr_iov", attr->mr_iov);
    size_line(&b, "iov_count", attr->iov_count);
    value_line(&b, "access", FI_TYPE_CAPS, attr->access);
    size_line(&b, "offset", attr->offset);
    size_line(&b, "requested_key", attr->requested_key);
    pointer_line(&b, "context", attr->context);
    size_line(&b, "auth_key_size", attr->auth_key_size);
    value_line(&b, "iface", FI_TYPE_HMEM_IFACE, attr->iface);
}

static void put_cntr_attr(struct out *out, const struct fi_cntr_attr *attr)
{
    struct block b = title(out, 0, "fi_cntr_attr");

    text_line(&b, "events",
              attr->events == FI_CNTR_EVENTS_COMP    ? "FI_CNTR_EVENTS_COMP"
              : attr->events == FI_CNTR_EVENTS_BYTES ? "FI_CNTR_EVENTS_BYTES"
                                                     : "Unknown");
    value_line(&b, "wait_obj", FI_TYPE_WAIT_OBJ, attr->wait_obj);
    pointer_line(&b, "wait_set", attr->wait_set);
    value_line(&b, "flags", FI_TYPE_OP_FLAGS, attr->flags);
}

static void put_cq_err_entry(struct out *out, const struct fi_cq_err_entry *entry)
{
    struct block b = title(out, 0, "fi_cq_err_entry");

    pointer_line(&b, "op_context", entry->op_context);
    value_line(&b, "flags", FI_TYPE_CQ_EVENT_FLAGS, entry->flags);
    size_line(&b, "len", entry->len);
    pointer_line(&b, "buf", entry->buf);
    size_line(&b, "data", entry->data);
    line(&b, "tag", "0x%" PRIx64, entry->tag);
    size_line(&b, "olen", entry->olen);
    line(&b, "err", "%d (%s)", entry->err, fi_strerror(entry->err));
    line(&b, "prov_errno", "%d", entry->prov_errno);
    pointer_line(&b, "err_data", entry->err_data);
}

static void put_fid(struct out *out, const struct fid *fid)
{
    if (fid->ops && FI_CHECK_OP(fid->ops, struct fi_ops, tostr)) {
        fid->ops->tostr(fid, out->text, out->size);
        out->text[out->size - 1] = 0;
        out->used = strlen(out->text);
        return;
    }
    put(out, "fid: %p\n", (const void *)fid);
}

/* False: not a type of a struct. */
static bool put_struct(struct out *out, const void *data, enum fi_type type)
{
    switch (type) {
    case FI_TYPE_INFO: put_info(out, data); return true;
    case FI_TYPE_RX_ATTR: put_rx_attr(out, 0, data); return true;
    case FI_TYPE_TX_ATTR:
    case FI_TYPE_EP_ATTR:
    case FI_TYPE_DOMAIN_ATTR:
    case FI_TYPE_FABRIC_ATTR: put_attr(out, data, type); return true;
    case FI_TYPE_AV_ATTR: put_av_attr(out, data); return true;
    case FI_TYPE_CQ_ATTR: put_cq_attr(out, data); return true;
    case FI_TYPE_MR_ATTR: put_mr_attr(out, data); return true;
    case FI_TYPE_CNTR_ATTR: put_cntr_attr(out, data); return true;
    case FI_TYPE_CQ_ERR_ENTRY: put_cq_err_entry(out, data); return true;
    case FI_TYPE_FID: put_fid(out, data); return true;
    default: return false;
    }
}

EXPORT char *fi_tostr_r(char *buf, size_t len, const void *data, enum fi_type datatype)
{
    struct out out = {.text = buf, .size = len};
    const struct name_table *table = names_of(datatype);
    uint64_t value = 0;
    uint32_t word;

    if (!buf || !len)
        return NULL;
    *buf = 0;
    if (datatype == FI_TYPE_VERSION) {
        put(&out, "%d.%d.%d", FI_MAJOR_VERSION, FI_MINOR_VERSION, FI_REVISION_VERSION);
    } else if (!data) {
        put(&out, "(null)");
    } else if (table) {
        if (table->size == sizeof(word))
            value = *(const uint32_t *)data;
        else
            value = *(const uint64_t *)data;
        put_value(&out, datatype, value);
    } else if (!put_struct(&out, data, datatype)) {
        put(&out, "Unknown type");
    }
    return buf;
}

static pthread_key_t text_key;
static pthread_once_t text_once = PTHREAD_ONCE_INIT;
static bool text_key_made;

static void make_text_key(void)
{
    text_key_made = !pthread_key_create(&text_key, free);
}

/* Not _Thread_local: a program that loads the library late has little room for such variables. */
static char *thread_text(void)
{
    char *text;

    pthread_once(&text_once, make_text_key);
    if (!text_key_made)
        return NULL;
    text = pthread_getspecific(text_key);
    if (text)
        return text;
    text = malloc(THREAD_BUFFER);
    if (text && pthread_setspecific(text_key, text)) {
        free(text);
        return NULL;
    }
    return text;
}

EXPORT char *fi_tostr(const void *data, enum fi_type datatype)
{
    static char none[] = "";
    char *text = thread_text();

    /* Callers print the result as it is. */
    return text ? fi_tostr_r(text, THREAD_BUFFER, data, datatype) : none;
}
