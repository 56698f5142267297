/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/av.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/addr.h"
#include "core/av_table.h"
#include "core/eq.h"
#include "core/log.h"
#include "core/no.h"

enum {
    STR_MAX = 512
}; /* of an FI_ADDR_STR address */

static struct av *av_of(struct fid_av *fid)
{
    return object_of(fid, struct av, fid);
}

const void *av_addr(const struct av *av, fi_addr_t addr)
{
    return av_table_get(av->table, addr);
}

fi_addr_t av_find(struct av *av, const void *addr)
{
    fi_addr_t found;

    pthread_mutex_lock(&av->mutex);
    found = av_table_find(av->table, addr);
    pthread_mutex_unlock(&av->mutex);
    return found;
}

fi_addr_t av_source(const struct av *av, fi_addr_t addr)
{
    return av_table_id(av->table, addr);
}

size_t av_limit(const struct av *av)
{
    return av_table_limit(av->table);
}

void av_attach(struct av *av, struct av_listener *listener)
{
    pthread_mutex_lock(&av->mutex);
    list_attach(&listener->link, &av->listeners);
    pthread_mutex_unlock(&av->mutex);
}

void av_detach(struct av *av, struct av_listener *listener)
{
    pthread_mutex_lock(&av->mutex);
    list_detach(&listener->link);
    pthread_mutex_unlock(&av->mutex);
}

/* ---- One insertion call ---- */

/* Where the results of an insertion call go, address by address. */
struct insertion {
    struct av *av;
    fi_addr_t *fi_addr;
    int *errors; /* FI_SYNC_ERR, or NULL */
    uint64_t flags;
    void *context;
    size_t index; /* of the next address */
    size_t inserted;
};

static int begin(struct insertion *in, struct av *av, fi_addr_t *fi_addr, uint64_t flags,
                 void *context)
{
    const uint64_t known = FI_MORE | FI_SYNC_ERR | FI_AV_USER_ID | FI_FIREWALL_ADDR;

    *in = (struct insertion){.av = av, .fi_addr = fi_addr, .flags = flags, .context = context};
    if (flags & ~known)
        return -FI_EBADFLAGS;
    if (flags & FI_AV_USER_ID && (!fi_addr || av->flags & FI_AV_USER_ID))
        return -FI_EINVAL;
    if (flags & FI_SYNC_ERR) {
        if (!context || av->flags & FI_EVENT)
            return -FI_EINVAL;
        in->errors = context;
    }
    if (av->flags & FI_EVENT && !av->eq)
        return -FI_ENOEQ;
    pthread_mutex_lock(&av->mutex);
    return 0;
}

/* Records one address as failed; err is positive. */
static void failed(struct insertion *in, int err)
{
    struct fi_eq_err_entry entry = {.fid = &in->av->fid.fid, .context = in->context};

    if (in->fi_addr)
        in->fi_addr[in->index] = FI_ADDR_NOTAVAIL;
    if (in->errors)
        in->errors[in->index] = err;
    if (in->av->flags & FI_EVENT) {
        entry.data = in->index;
        entry.err = err;
        eq_write_error(in->av->eq, &entry);
    }
    in->index++;
}

static bool usable(const struct av *av, const void *addr)
{
    union addr parsed;

    if (av->format == FI_ADDR_STR) {
        size_t len = strnlen(addr, STR_MAX);

        /* Text of another part's making is that part's to read. */
        return len && len < STR_MAX &&
               (strncmp(addr, "fi_sockaddr", 11) || !addr_from_str(addr, len, &parsed));
    }
    return addr_port(addr) && !addr_is_any(addr);
}

static void tell(struct av *av, fi_addr_t addr)
{
    list_for_each_safe (pos, after, &av->listeners) {
        struct av_listener *listener = list_item(pos, struct av_listener, link);

        if (listener->inserted)
            listener->inserted(listener, addr);
    }
}

static void insert_one(struct insertion *in, const void *addr)
{
    struct av *av = in->av;
    uint64_t index;
    bool fresh = false;
    int rc;

    if (!usable(av, addr)) {
        failed(in, FI_EINVAL);
        return;
    }
    rc = av_table_insert(av->table, addr, &index, &fresh);
    if (!rc && in->flags & FI_AV_USER_ID) {
        rc = av_table_set_id(av->table, index, in->fi_addr[in->index]);
        if (rc && !av_table_remove_again(av->table, index))
            av_table_remove(av->table, index);
    }
    if (rc) {
        failed(in, -rc);
        return;
    }
    if (in->fi_addr)
        in->fi_addr[in->index] = index;
    if (in->errors)
        in->errors[in->index] = 0;
    in->index++;
    in->inserted++;
    if (fresh && !list_empty(&av->listeners))
        tell(av, index);
}

/* One address that a call computed, in the AV's format. */
static void insert_sockaddr(struct insertion *in, const union addr *addr)
{
    char text[ADDR_TEXT_MAX];

    if (in->av->format != FI_ADDR_STR) {
        insert_one(in, addr);
        return;
    }
    addr_to_str(&addr->sa, text, sizeof(text));
    insert_one(in, text);
}

static int end(struct insertion *in)
{
    struct av *av = in->av;
    struct fi_eq_entry entry = {.fid = &av->fid.fid, .context = in->context};

    pthread_mutex_unlock(&av->mutex);
    if (!(av->flags & FI_EVENT))
        return (int)in->inserted;
    entry.data = in->inserted;
    return eq_write(av->eq, FI_AV_COMPLETE, &entry, sizeof(entry));
}

/* Bytes of the address at the front of an array of sockaddrs. */
static size_t element_size(const struct av *av, const struct sockaddr *sa)
{
    if (av->format == FI_SOCKADDR_IN)
        return sizeof(struct sockaddr_in);
    if (av->format == FI_SOCKADDR_IN6)
        return sizeof(struct sockaddr_in6);
    /* Behind garbage, the place of the next address is a guess. */
    return addr_size(sa) ? addr_size(sa) : sizeof(struct sockaddr_in);
}

static void insert_sockaddrs(struct insertion *in, const char *next, size_t count)
{
    union addr addr;

    for (size_t i = 0; i < count; i++) {
        size_t size = element_size(in->av, (const void *)next);

        if (addr_import(in->av->format, next, size, &addr))
            failed(in, FI_EINVAL);
        else
            insert_one(in, &addr);
        next += size;
    }
}

/*
 * fi_av(3) has an array of pointers to strings. What fi_getname gave, passed as it is, is also
 * understood, since programs do that (strings one behind the other): the first bytes of a pointer
 * are never eight printable characters.
 */
static bool is_plain_text(const char *addr)
{
    for (size_t i = 0; i < sizeof(char *); i++) {
        if (!isgraph((unsigned char)addr[i]))
            return false;
    }
    return true;
}

static void insert_texts(struct insertion *in, const char *text, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        insert_one(in, text);
        text += strnlen(text, STR_MAX) + 1;
    }
}

static void insert_strings(struct insertion *in, const char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        insert_one(in, texts[i] ? texts[i] : "");
}

static int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr,
                     uint64_t flags, void *context)
{
    struct av *av = av_of(fid);
    struct insertion in;
    int rc;

    if (count && !addr)
        return -FI_EINVAL;
    rc = begin(&in, av, fi_addr, flags, context);
    if (rc)
        return rc;
    av_table_reserve(av->table, count);
    if (av->format == FI_ADDR_STR && count && is_plain_text(addr))
        insert_texts(&in, addr, count);
    else if (av->format == FI_ADDR_STR)
        insert_strings(&in, addr, count);
    else
        insert_sockaddrs(&in, addr, count);
    return end(&in);
}

static int av_insertsvc(struct fid_av *fid, const char *node, const char *service,
                        fi_addr_t *fi_addr, uint64_t flags, void *context)
{
    struct av *av = av_of(fid);
    bool text = av->format == FI_ADDR_STR && node && strstr(node, "://");
    struct insertion in;
    union addr addr;
    size_t count = 1;
    char why[200];
    int resolved = 0, rc;

    if (!node || (!service && !strstr(node, "://")))
        return -FI_EINVAL;
    if (!text)
        resolved = addr_resolve(node, service, 0, av->format, &addr, &count, why, sizeof(why));
    if (resolved)
        LOG_WARN(av->domain->fabric->part, FI_LOG_AV, "fi_av_insertsvc: %s", why);
    rc = begin(&in, av, fi_addr, flags, context);
    if (rc)
        return rc;
    if (resolved)
        failed(&in, -resolved);
    else if (text)
        insert_one(&in, node);
    else
        insert_sockaddr(&in, &addr);
    return end(&in);
}

/* ---- Symmetric insertion: ranges of nodes and services ---- */

/* The node `step` places after a numeric one. false when it would wrap. */
static bool next_node(const union addr *first, size_t step, union addr *addr)
{
    uint64_t low;
    uint32_t host;

    *addr = *first;
    if (first->sa.sa_family == AF_INET) {
        host = ntohl(first->in.sin_addr.s_addr);
        addr->in.sin_addr.s_addr = htonl(host + (uint32_t)step);
        return step <= UINT32_MAX - host;
    }
    memcpy(&low, &first->in6.sin6_addr.s6_addr[8], 8);
    low = be64toh(low);
    if (step > UINT64_MAX - low)
        return false;
    low = htobe64(low + step);
    memcpy(&addr->in6.sin6_addr.s6_addr[8], &low, 8);
    return true;
}

/* "host09" and step 1 give "host10". -FI_EINVAL without a number at the end. */
static int next_name(const char *node, size_t step, char *name, size_t size)
{
    size_t len = strlen(node), digits = 0;
    unsigned long number;

    while (digits < len && isdigit((unsigned char)node[len - digits - 1]))
        digits++;
    if (step && (!digits || digits > 18))
        return -FI_EINVAL;
    if (!step)
        return snprintf(name, size, "%s", node) < (int)size ? 0 : -FI_EINVAL;
    number = strtoul(node + len - digits, NULL, 10) + step;
    return snprintf(name, size, "%.*s%0*lu", (int)(len - digits), node, (int)digits, number) <
                   (int)size
               ? 0
               : -FI_EINVAL;
}

static int symmetric_node(const struct av *av, const char *node, const char *service, size_t step,
                          union addr *addr)
{
    union addr first;
    char name[256], why[200];
    size_t count = 1;
    int rc;

    if (!addr_resolve(node, service, FI_NUMERICHOST, av->format, &first, &count, why, sizeof(why)))
        return next_node(&first, step, addr) ? 0 : -FI_EINVAL;
    rc = next_name(node, step, name, sizeof(name));
    if (!rc)
        rc = addr_resolve(name, service, 0, av->format, addr, &count, why, sizeof(why));
    else
        snprintf(why, sizeof(why), "'%s' has no number at its end to count on", node);
    if (rc)
        LOG_WARN(av->domain->fabric->part, FI_LOG_AV, "fi_av_insertsym: %s", why);
    return rc;
}

static int av_insertsym(struct fid_av *fid, const char *node, size_t nodecnt, const char *service,
                        size_t svccnt, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
    struct insertion in;
    union addr addr;
    int rc;

    if (!node || !service || strstr(node, "://"))
        return -FI_EINVAL;
    rc = begin(&in, av_of(fid), fi_addr, flags, context);
    if (rc)
        return rc;
    for (size_t i = 0; i < nodecnt; i++) {
        int resolved = symmetric_node(in.av, node, service, i, &addr);
        uint16_t first = resolved ? 0 : addr_port(&addr.sa);

        for (size_t j = 0; j < svccnt; j++) {
            if (!resolved && j <= (size_t)(UINT16_MAX - first)) {
                addr_set_port(&addr.sa, (uint16_t)(first + j));
                insert_sockaddr(&in, &addr);
            } else {
                failed(&in, resolved ? -resolved : FI_EINVAL);
            }
        }
    }
    return end(&in);
}

/* ---- The rest of the calls ---- */

static int av_remove(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
    struct av *av = av_of(fid);
    int rc = 0;

    if (flags)
        return -FI_EBADFLAGS;
    if (count && !fi_addr)
        return -FI_EINVAL;
    pthread_mutex_lock(&av->mutex);
    for (size_t i = 0; i < count; i++) {
        if (!av_addr(av, fi_addr[i])) {
            rc = -FI_EINVAL;
            continue;
        }
        if (av_table_remove_again(av->table, fi_addr[i]))
            continue;
        list_for_each_safe (pos, after, &av->listeners) {
            struct av_listener *listener = list_item(pos, struct av_listener, link);

            if (listener->removed)
                listener->removed(listener, fi_addr[i]);
        }
        av_table_remove(av->table, fi_addr[i]);
    }
    pthread_mutex_unlock(&av->mutex);
    return rc;
}

static int av_lookup(struct fid_av *fid, fi_addr_t fi_addr, void *addr, size_t *addrlen)
{
    const struct av *av = av_of(fid);
    const void *stored = av_addr(av, fi_addr);
    size_t room, need;

    if (!stored || !addrlen || (!addr && *addrlen))
        return -FI_EINVAL;
    room = *addrlen;
    need = av->format == FI_ADDR_STR ? strlen(stored) + 1 : addr_size(stored);
    if (room)
        memcpy(addr, stored, room < need ? room : need);
    *addrlen = need;
    return 0;
}

static const char *av_straddr(struct fid_av *fid, const void *addr, char *buf, size_t *len)
{
    char text[STR_MAX];
    int need;

    if (av_of(fid)->format == FI_ADDR_STR)
        snprintf(text, sizeof(text), "%s", (const char *)addr);
    else
        addr_to_str(addr, text, sizeof(text));
    need = snprintf(buf, *len, "%s", text);
    *len = (size_t)need + 1;
    return buf;
}

static int av_set_user_id(struct fid_av *fid, fi_addr_t fi_addr, fi_addr_t user_id, uint64_t flags)
{
    struct av *av = av_of(fid);
    int rc = -FI_EINVAL;

    if (flags)
        return -FI_EBADFLAGS;
    pthread_mutex_lock(&av->mutex);
    if (av->flags & FI_AV_USER_ID && av_addr(av, fi_addr))
        rc = av_table_set_id(av->table, fi_addr, user_id);
    pthread_mutex_unlock(&av->mutex);
    return rc;
}

static struct fi_ops_av av_ops = {
    .size = sizeof(struct fi_ops_av),
    .insert = av_insert,
    .insertsvc = av_insertsvc,
    .insertsym = av_insertsym,
    .remove = av_remove,
    .lookup = av_lookup,
    .straddr = av_straddr,
    .av_set = no_av_av_set,
    .insert_auth_key = no_av_insert_auth_key,
    .lookup_auth_key = no_av_lookup_auth_key,
    .set_user_id = av_set_user_id,
};

static int av_close(struct fid *fid)
{
    struct av *av = object_of(fid, struct av, fid.fid);

    if (children_any(&av->children))
        return -FI_EBUSY;
    if (av->eq)
        children_release(&av->eq->children);
    children_release(&av->domain->children);
    av_table_destroy(av->table);
    pthread_mutex_destroy(&av->mutex);
    free(av);
    return 0;
}

static int av_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    struct av *av = object_of(fid, struct av, fid.fid);

    if (flags)
        return -FI_EBADFLAGS;
    if (bfid->fclass != FI_CLASS_EQ || !eq_of(bfid) || !(av->flags & FI_EVENT) || av->eq)
        return -FI_EINVAL;
    av->eq = eq_of(bfid);
    children_hold(&av->eq->children);
    return 0;
}

static struct fi_ops av_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = av_close,
    .bind = av_bind,
    .control = no_control,
    .ops_open = no_ops_open,
    .tostr = no_tostr,
    .ops_set = no_ops_set,
};

static int check_attr(const struct domain *domain, const struct fi_av_attr *attr)
{
    const uint64_t known = FI_EVENT | FI_SYMMETRIC | FI_AV_USER_ID;

    if (attr->type != FI_AV_UNSPEC && attr->type != FI_AV_MAP && attr->type != FI_AV_TABLE)
        return -FI_EINVAL;
    if (attr->name || attr->flags & FI_READ) {
        LOG_WARN(domain->fabric->part, FI_LOG_AV, "fi_av_open: no named (shared) address vectors");
        return -FI_ENOSYS;
    }
    if (attr->rx_ctx_bits < 0 || attr->rx_ctx_bits > AV_CONTEXT_BITS) {
        LOG_WARN(domain->fabric->part, FI_LOG_AV, "fi_av_open: rx_ctx_bits %d, not 0 to %d",
                 attr->rx_ctx_bits, AV_CONTEXT_BITS);
        return -FI_EINVAL;
    }
    return attr->flags & ~known ? -FI_EBADFLAGS : 0;
}

int av_open(struct domain *domain, struct fi_av_attr *attr, struct fid_av **fid, void *context)
{
    pthread_mutexattr_t recursive;
    struct av *av;
    int rc = attr ? check_attr(domain, attr) : -FI_EINVAL;

    if (rc)
        return rc;
    av = calloc(1, sizeof(*av));
    if (!av)
        return -FI_ENOMEM;
    rc = av_table_create(domain->info->addr_format, attr->count, &av->table);
    if (rc) {
        free(av);
        return rc;
    }
    fid_init(&av->fid.fid, FI_CLASS_AV, context, &av_fid_ops);
    av->fid.ops = &av_ops;
    av->domain = domain;
    av->format = domain->info->addr_format;
    av->flags = attr->flags;
    av->rx_ctx_bits = (unsigned)attr->rx_ctx_bits;
    if (av->flags & FI_AV_USER_ID)
        av_table_require_ids(av->table);
    list_init(&av->listeners);
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&av->mutex, &recursive);
    pthread_mutexattr_destroy(&recursive);
    children_hold(&domain->children);
    if (attr->type == FI_AV_UNSPEC)
        attr->type = FI_AV_TABLE;
    *fid = &av->fid;
    return 0;
}
