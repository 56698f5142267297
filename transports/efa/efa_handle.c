/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address handles: one of the device for each GID that addresses have, as long as the device has
 * room. Where it has no more, the one that was sent to longest ago goes, of those that no endpoint
 * has pinned. Endpoints pin what they send to: no request under way loses its handle.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "transports/efa/efa.h"

enum {
    PIN_BITS = 64, /* of a word */
};

/* ---- Of the device ---- */

static bool note_number(struct efa_domain *domain, struct efa_handle *handle, unsigned number)
{
    size_t count = domain->number_count;

    if (number >= count) {
        struct efa_number *grown;

        for (count = count ? count : PIN_BITS; count <= number;)
            count *= 2;
        grown = realloc(domain->by_number, count * sizeof(*grown));
        if (!grown)
            return false;
        memset(grown + domain->number_count, 0, (count - domain->number_count) * sizeof(*grown));
        domain->by_number = grown;
        domain->number_count = count;
    }
    domain->by_number[number].handle = handle;
    return true;
}

static bool is_since(unsigned changes, unsigned since)
{
    return (int)(changes - since) > 0;
}

/* The number may be another one's soon. */
static void lose_number(struct efa_domain *domain, const struct efa_handle *handle)
{
    struct efa_number *number = &domain->by_number[handle->number];

    memmove(number->former + 1, number->former, sizeof(number->former) - sizeof(*number->former));
    memmove(number->until + 1, number->until, sizeof(number->until) - sizeof(*number->until));
    memcpy(number->former, handle->gid, sizeof(handle->gid));
    number->until[0] = atomic_fetch_add(&domain->changes, 1) + 1;
    number->handle = NULL;
}

static void unmake(struct efa_domain *domain, struct efa_handle *handle)
{
    lose_number(domain, handle);
    verbs_lib.destroy_ah(handle->ah);
    handle->ah = NULL;
    __atomic_store_n(&handle->number, EFA_NO_HANDLE, __ATOMIC_RELAXED);
    list_detach(&handle->link);
    domain->made--;
}

static int create(struct efa_domain *domain, struct efa_handle *handle)
{
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
    struct efadv_ah_attr efa = {.ahn = 0};
    struct ibv_ah *ah;
    int rc = 0;

    if (domain->made_most && domain->made >= domain->made_most)
        return -FI_ENOMEM;
    memcpy(&attr.grh.dgid, handle->gid, sizeof(attr.grh.dgid));
    ah = verbs_lib.create_ah(domain->pd, &attr);
    if (!ah)
        return verbs_error(-1);
    if (efa_direct.query_ah(ah, &efa, sizeof(efa)))
        rc = verbs_error(-1);
    else if (efa.ahn == EFA_NO_HANDLE || !note_number(domain, handle, efa.ahn))
        rc = -FI_ENOMEM;
    if (rc) {
        verbs_lib.destroy_ah(ah);
        return rc;
    }
    handle->ah = ah;
    __atomic_store_n(&handle->number, efa.ahn, __ATOMIC_RELAXED);
    list_attach(&handle->link, &domain->recent);
    domain->made++;
    atomic_fetch_add(&domain->changes, 1);
    return 0;
}

/* False: all of them are pinned, or their numbers have changed too often since. */
static bool take_one_away(struct efa_domain *domain, unsigned since)
{
    list_for_each (item, &domain->recent) {
        struct efa_handle *handle = list_item(item, struct efa_handle, link);

        if (handle->pins ||
            is_since(domain->by_number[handle->number].until[EFA_FORMERS - 1], since))
            continue;
        unmake(domain, handle);
        return true;
    }
    return false;
}

/* take: another one's, where there is no room, that the caller still knows by its number `since`.
 * -FI_ENOMEM: there is none now. */
static int make(struct efa_domain *domain, struct efa_handle *handle, bool take, unsigned since)
{
    int rc = create(domain, handle);

    while (rc == -FI_ENOMEM && take && take_one_away(domain, since))
        rc = create(domain, handle);
    if (rc == -FI_ENOMEM) {
        if (!atomic_exchange(&domain->pressed, true))
            LOG_INFO("efa", FI_LOG_AV,
                     "%s gives no more than %zu address handles: addresses that are sent to take "
                     "those of others",
                     domain->device->name, domain->made);
    } else if (rc) {
        LOG_WARN("efa", FI_LOG_AV, "%s gives no address handle: %s", domain->device->name,
                 fi_strerror(-rc));
    }
    return rc;
}

/* ---- Of addresses ---- */

static void destroy(struct efa_domain *domain, struct efa_handle *handle)
{
    if (handle->ah)
        unmake(domain, handle);
    assert(domain->by_gid); /* which it is in */
    HASH_DEL(domain->by_gid, handle);
    free(handle);
}

/* A new one, with the device's if there is room. */
static int add(struct efa_domain *domain, const uint8_t *gid, struct efa_handle **ret_handle)
{
    struct efa_handle *handle = calloc(1, sizeof(*handle));
    int rc;

    if (!handle)
        return -FI_ENOMEM;
    memcpy(handle->gid, gid, sizeof(handle->gid));
    handle->number = EFA_NO_HANDLE;
    list_init(&handle->link);
    rc = make(domain, handle, false, 0);
    if (rc && rc != -FI_ENOMEM) {
        free(handle);
        return rc;
    }
    HASH_ADD(hh, domain->by_gid, gid, sizeof(handle->gid), handle);
    if (!hash_has(handle)) {
        if (handle->ah)
            unmake(domain, handle);
        free(handle);
        return -FI_ENOMEM;
    }
    *ret_handle = handle;
    return 0;
}

static struct efa_handle *find(struct efa_domain *domain, const uint8_t *gid)
{
    struct efa_handle *handle;

    HASH_FIND(hh, domain->by_gid, gid, sizeof(handle->gid), handle);
    return handle;
}

int efa_handle_hold(struct efa_domain *domain, const uint8_t *gid, struct efa_handle **ret_handle)
{
    struct efa_handle *handle;
    int rc = 0;

    pthread_mutex_lock(&domain->mutex);
    handle = find(domain, gid);
    if (!handle)
        rc = add(domain, gid, &handle);
    if (!rc) {
        handle->users++;
        *ret_handle = handle;
    }
    pthread_mutex_unlock(&domain->mutex);
    return rc;
}

void efa_handle_release(struct efa_domain *domain, struct efa_handle *handle)
{
    pthread_mutex_lock(&domain->mutex);
    if (!--handle->users && !handle->pins)
        destroy(domain, handle);
    pthread_mutex_unlock(&domain->mutex);
}

struct efa_handle *efa_handle_of(struct efa_domain *domain, unsigned number, const uint8_t *gid)
{
    struct efa_handle *handle = NULL;

    pthread_mutex_lock(&domain->mutex);
    if (gid)
        handle = find(domain, gid);
    else if (number < domain->number_count)
        handle = domain->by_number[number].handle;
    pthread_mutex_unlock(&domain->mutex);
    return handle;
}

struct efa_handle *efa_handle_former(struct efa_domain *domain, unsigned number, unsigned i,
                                     unsigned since)
{
    struct efa_handle *handle = NULL;

    pthread_mutex_lock(&domain->mutex);
    if (number < domain->number_count && is_since(domain->by_number[number].until[i], since))
        handle = find(domain, domain->by_number[number].former[i]);
    pthread_mutex_unlock(&domain->mutex);
    return handle;
}

/* ---- Of endpoints ---- */

/* A handle that the endpoint has pinned keeps its number, and no other has that. */
static bool has_pinned(const struct efa_pins *pins, unsigned number)
{
    size_t word = number / PIN_BITS;

    return word < pins->words && pins->bits[word] >> number % PIN_BITS & 1;
}

static bool make_room(struct efa_pins *pins, unsigned number)
{
    size_t words = number / PIN_BITS + 1;
    uint64_t *grown;

    if (words <= pins->words)
        return true;
    grown = realloc(pins->bits, words * sizeof(*grown));
    if (!grown)
        return false;
    memset(grown + pins->words, 0, (words - pins->words) * sizeof(*grown));
    pins->bits = grown;
    pins->words = words;
    return true;
}

int efa_handle_pin(struct efa_domain *domain, struct efa_handle *handle, struct efa_pins *pins,
                   unsigned since)
{
    int rc = 0;

    if (has_pinned(pins, __atomic_load_n(&handle->number, __ATOMIC_RELAXED)))
        return 0;
    pthread_mutex_lock(&domain->mutex);
    if (!handle->ah)
        rc = make(domain, handle, true, since);
    if (!rc && !make_room(pins, handle->number))
        rc = -FI_ENOMEM;
    if (!rc) {
        handle->pins++;
        pins->bits[handle->number / PIN_BITS] |= UINT64_C(1) << handle->number % PIN_BITS;
        pins->any = true;
    }
    pthread_mutex_unlock(&domain->mutex);
    return rc == -FI_ENOMEM ? -FI_EAGAIN : rc;
}

static void unpin(struct efa_domain *domain, unsigned number)
{
    struct efa_handle *handle = domain->by_number[number].handle;

    if (--handle->pins)
        return;
    list_detach(&handle->link);
    list_attach(&handle->link, &domain->recent);
    if (!handle->users)
        destroy(domain, handle);
}

void efa_handle_unpin_all(struct efa_domain *domain, struct efa_pins *pins)
{
    if (!pins->any)
        return;
    pthread_mutex_lock(&domain->mutex);
    for (size_t word = 0; word < pins->words; word++) {
        for (uint64_t bits = pins->bits[word]; bits; bits &= bits - 1)
            unpin(domain, (unsigned)(word * PIN_BITS) + (unsigned)__builtin_ctzll(bits));
        pins->bits[word] = 0;
    }
    pthread_mutex_unlock(&domain->mutex);
    pins->any = false;
}
