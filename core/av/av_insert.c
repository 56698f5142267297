/* SPDX-License-Identifier: BSD-2-Clause */
/* Insertion: single addresses, arrays of them, names, ranges. */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/av/av_impl.h"
#include "core/av/av_shared.h"
#include "core/av/av_table.h"
#include "core/base/log.h"
#include "core/net/addr.h"
#include "core/queue/eq.h"

/* ---- One call ---- */

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
    const uint64_t known = FI_MORE | FI_SYNC_ERR | FI_AV_USER_ID | FI_FIREWALL_ADDR | FI_AUTH_KEY;

    *in = (struct insertion){.av = av, .fi_addr = fi_addr, .flags = flags, .context = context};
    if (flags & ~known)
        return -FI_EBADFLAGS;
    if (flags & FI_AV_USER_ID && (!fi_addr || av->flags & FI_AV_USER_ID))
        return -FI_EINVAL;
    if (av->keys ? !(flags & FI_AUTH_KEY) || flags & FI_AV_USER_ID || !fi_addr
                 : flags & FI_AUTH_KEY) {
        LOG_WARN(av->domain->fabric->part, FI_LOG_AV, "fi_av_insert: %s",
                 av->keys ? "each address needs a key (FI_AUTH_KEY)"
                          : "the domain is not of FI_AV_AUTH_KEY");
        return -FI_EINVAL;
    }
    if (flags & FI_SYNC_ERR) {
        if (!context || av->flags & FI_EVENT)
            return -FI_EINVAL;
        in->errors = context;
    }
    if (av->flags & FI_EVENT && !av->eq)
        return -FI_ENOEQ;
    return av_lock_for_change(av, "fi_av_insert");
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

static inline bool usable(const struct av *av, const void *addr)
{
    union addr parsed;

    if (av->kind)
        return av->kind->usable(av, addr);
    if (av->format == FI_ADDR_STR) {
        size_t len = strnlen(addr, AV_STR_MAX);

        /* Text of another part's making is that part's to read. */
        return len && len < AV_STR_MAX &&
               (strncmp(addr, "fi_sockaddr", 11) || !addr_from_str(addr, len, &parsed));
    }
    return addr_port(addr) && !addr_is_any(addr);
}

bool av_usable(const struct av *av, const void *addr)
{
    return usable(av, addr);
}

/* No listener has been told of it. */
static __attribute__((noinline)) void withdraw(struct av *av, uint64_t index)
{
    if (av->shared && av_shared_removed(av, index))
        return;
    if (av_table_remove_again(av->table, index))
        return;
    if (av->keys)
        av_key_use(av, index, -1);
    av_table_remove(av->table, index);
}

/* Completes the insertion of an address that has its index: its user ID, and the part's own
 * state. */
static inline int take_in(const struct insertion *in, uint64_t index, bool fresh, const void *addr)
{
    struct av *av = in->av;
    int rc = 0;

    if (in->flags & FI_AV_USER_ID)
        rc = av_identify(av, index, in->fi_addr[in->index]);
    if (rc || !av->kind)
        return rc;
    if (fresh)
        return av->kind->inserted(av, index, addr);
    if (in->flags & FI_AV_USER_ID)
        av->kind->identified(av, index);
    return 0;
}

/* Under the key that the caller's fi_addr names. */
static __attribute__((noinline)) int insert_keyed(struct insertion *in, const void *addr,
                                                  uint64_t *index, bool *fresh)
{
    uint8_t entry[AV_KEYED_MAX];
    int rc = av_keyed_entry(in->av, addr, in->fi_addr[in->index], entry);

    if (!rc)
        rc = av_table_insert(in->av->table, entry, index, fresh);
    if (!rc && *fresh)
        av_key_use(in->av, *index, 1);
    return rc;
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
    if (av->shared)
        rc = av_shared_insert(av, addr, &index, &fresh);
    else if (av->keys)
        rc = insert_keyed(in, addr, &index, &fresh);
    else
        rc = av_table_insert(av->table, addr, &index, &fresh);
    if (!rc) {
        rc = take_in(in, index, fresh, addr);
        if (rc)
            withdraw(av, index);
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
        av_tell_inserted(av, index);
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
    int rc = av_unlock_changed(av);

    if (rc)
        return rc;
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
 * fi_av(3) has an array of pointers to strings. Texts one behind the other, as fi_getname gives
 * them, are understood too, since programs pass them. `addr` points to a pointer if its target can
 * be read as one: aligned, and the kernel says that there is memory where it points to. A text is
 * seldom any of these, and the first byte of most pointers is no printable character.
 */

/* Bytes that a text starts with, before its end or what no text has. */
static size_t printable(const char *addr)
{
    size_t len = 0;

    while (len < sizeof(char *) && isgraph((unsigned char)addr[len]))
        len++;
    return len;
}

/* An aligned word lies in one page, so it can be read wherever its first byte can, even behind the
 * end of the caller's buffer. */
__attribute__((no_sanitize("address"))) static uintptr_t word_at(const void *addr)
{
    return *(const volatile uintptr_t *)addr;
}

/* The kernel reads the set before it looks at what is to be done with it, and refuses that. */
static bool is_readable(uintptr_t place)
{
    enum {
        NO_SUCH_HOW = -1,
        SET_SIZE = 8
    };
    int saved = errno;
    bool fault = syscall(SYS_rt_sigprocmask, NO_SUCH_HOW, place & ~(uintptr_t)(SET_SIZE - 1), NULL,
                         SET_SIZE) < 0 &&
                 errno == EFAULT;

    errno = saved;
    return !fault;
}

static bool is_plain_text(const char *addr)
{
    size_t len = printable(addr);

    if ((uintptr_t)addr % _Alignof(char *))
        return true;
    if (len < sizeof(char *) && (!len || addr[len]))
        return false;
    /* Eight characters are beyond what user space has; four may well be a pointer. */
    return len == sizeof(uint64_t) || !is_readable(word_at(addr));
}

static void insert_texts(struct insertion *in, const char *text, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        insert_one(in, text);
        text += strnlen(text, AV_STR_MAX) + 1;
    }
}

static void insert_opaque(struct insertion *in, const char *next, size_t count)
{
    for (size_t i = 0; i < count; i++, next += in->av->kind->size)
        insert_one(in, next);
}

static void insert_strings(struct insertion *in, const char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        insert_one(in, texts[i] ? texts[i] : "");
}

int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr,
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
    if (av->kind)
        insert_opaque(&in, addr, count);
    else if (av->format == FI_ADDR_STR && count && is_plain_text(addr))
        insert_texts(&in, addr, count);
    else if (av->format == FI_ADDR_STR)
        insert_strings(&in, addr, count);
    else
        insert_sockaddrs(&in, addr, count);
    return end(&in);
}

int av_insertsvc(struct fid_av *fid, const char *node, const char *service, fi_addr_t *fi_addr,
                 uint64_t flags, void *context)
{
    struct av *av = av_of(fid);
    bool text = av->format == FI_ADDR_STR && node && strstr(node, "://");
    struct insertion in;
    union addr addr;
    size_t count = 1;
    char why[200];
    int resolved = 0, rc;

    if (av->kind)
        return -FI_ENOSYS;
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

int av_insertsym(struct fid_av *fid, const char *node, size_t nodecnt, const char *service,
                 size_t svccnt, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
    struct insertion in;
    union addr addr;
    int rc;

    if (av_of(fid)->kind)
        return -FI_ENOSYS;
    if (!node || !service || strstr(node, "://"))
        return -FI_EINVAL;
    rc = begin(&in, av_of(fid), fi_addr, flags, context);
    if (rc)
        return rc;
    for (size_t i = 0; i < nodecnt; i++) {
        int resolved = av_symmetric_node(in.av, node, service, i, &addr);
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
