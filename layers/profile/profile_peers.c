/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/profile/profile_peers.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>

#include "core/net/addr.h"
#include "layers/profile/profile_count.h"

enum {
    OWN_MAX = 256, /* addresses of ours in a report */
    RAW_MAX = 512  /* bytes of an address */
};

void profile_peers_init(struct profile_peers *peers, struct profile *profile)
{
    pthread_mutex_init(&peers->mutex, NULL);
    for (unsigned i = 0; i <= PROFILE_AVS; i++) {
        peers->seats[i].profile = profile;
        peers->seats[i].first = i ? 1 + (i - 1) * (PROFILE_PEERS + 1) : 0;
        peers->seats[i].room = i ? PROFILE_PEERS : 0;
    }
}

void profile_peers_free(struct profile_peer *found, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(found[i].address);
    free(found);
}

void profile_peers_finish(struct profile_peers *peers)
{
    profile_peers_free(peers->list, peers->count);
    for (size_t i = 0; i < peers->own_count; i++)
        free(peers->own[i]);
    free(peers->own);
    pthread_mutex_destroy(&peers->mutex);
}

/* ---- Addresses ---- */

/* Characters that JSON and Prometheus take without an escape. */
static bool is_plain(const char *raw, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isprint((unsigned char)raw[i]) || strchr("\"\\<>&", raw[i]))
            return false;
    return len > 0;
}

static char *text_of(const void *raw, size_t len)
{
    char text[PROFILE_ADDRESS] = "";
    union addr addr;
    size_t used = 0;

    memset(&addr, 0, sizeof(addr));
    memcpy(&addr, raw, len < sizeof(addr) ? len : sizeof(addr));
    if (len >= sizeof(addr.in) && addr_size(&addr.sa) == len) {
        addr_text(&addr.sa, text, sizeof(text));
        return strdup(text);
    }
    len = len && !((const char *)raw)[len - 1] ? strnlen(raw, len) : len;
    if (is_plain(raw, len) && len < sizeof(text)) {
        memcpy(text, raw, len);
        return strdup(text);
    }
    for (size_t i = 0; i < len && used + 3 < sizeof(text); i++)
        used += (size_t)snprintf(text + used, 3, "%02x", ((const unsigned char *)raw)[i]);
    return strdup(text);
}

void profile_own_address(struct profile_peers *peers, struct fid_ep *ep)
{
    char raw[RAW_MAX], **grown, *text;
    size_t len = sizeof(raw);

    if (fi_getname(&ep->fid, raw, &len) || !len || len > sizeof(raw))
        return;
    text = text_of(raw, len);
    pthread_mutex_lock(&peers->mutex);
    for (size_t i = 0; text && i < peers->own_count; i++) {
        if (!strcmp(peers->own[i], text)) {
            free(text);
            text = NULL;
        }
    }
    grown = text && peers->own_count < OWN_MAX
                ? realloc(peers->own, (peers->own_count + 1) * sizeof(*grown))
                : NULL;
    if (grown) {
        peers->own = grown;
        peers->own[peers->own_count++] = text;
        text = NULL;
    }
    pthread_mutex_unlock(&peers->mutex);
    free(text);
}

/* ---- Vectors ---- */

struct profile_seat *profile_seat_take(struct profile_peers *peers)
{
    struct profile_seat *seat = &peers->seats[0];

    pthread_mutex_lock(&peers->mutex);
    for (int i = 1; i <= PROFILE_AVS && !seat->room; i++)
        if (!peers->seats[i].taken)
            seat = &peers->seats[i];
    seat->taken = true;
    pthread_mutex_unlock(&peers->mutex);
    return seat;
}

/* Of all threads; 0: nothing goes there. */
static struct profile_cell cell_sum(struct profile *profile, uint64_t index, bool clear)
{
    struct profile_cell sum = {0};

    for (struct block *block = profile->per_thread.first; block; block = block->next) {
        struct profile_cell *cell = &((struct profile_block *)block)->peers[index];

        sum.messages += __atomic_load_n(&cell->messages, __ATOMIC_RELAXED);
        sum.bytes += __atomic_load_n(&cell->bytes, __ATOMIC_RELAXED);
        if (clear)
            *cell = (struct profile_cell){0};
    }
    return sum;
}

static char *address_of(struct fid_av *av, fi_addr_t peer)
{
    char raw[RAW_MAX];
    size_t len = sizeof(raw);

    return fi_av_lookup(av, peer, raw, &len) || !len || len > sizeof(raw) ? NULL
                                                                          : text_of(raw, len);
}

struct profile_peer *profile_seat_read(struct profile_seat *seat, struct fid_av *av,
                                       size_t *ret_count)
{
    struct profile_peer *found = NULL, *grown;
    size_t count = 0, room = 0;

    for (uint64_t i = 0; i <= seat->room && seat->room; i++) {
        struct profile_cell sum;

        per_thread_lock();
        sum = cell_sum(seat->profile, seat->first + i, false);
        per_thread_unlock();
        if (!sum.messages)
            continue;
        if (count == room) {
            room = room ? room * 2 : 16;
            grown = realloc(found, room * sizeof(*found));
            if (!grown)
                break;
            found = grown;
        }
        found[count++] = (struct profile_peer){i < seat->room ? address_of(av, i) : NULL, sum};
    }
    *ret_count = count;
    return found;
}

static bool is_same(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

/* Mutex held. Takes the address. */
static void add(struct profile_peers *peers, struct profile_peer *more)
{
    struct profile_peer *grown = NULL;
    size_t i = 0;

    while (i < peers->count && !is_same(peers->list[i].address, more->address))
        i++;
    if (i < peers->count) {
        peers->list[i].counts.messages += more->counts.messages;
        peers->list[i].counts.bytes += more->counts.bytes;
        return;
    }
    if (peers->count == peers->room) {
        grown = realloc(peers->list, (peers->room * 2 + 16) * sizeof(*grown));
        if (!grown)
            return;
        peers->list = grown;
        peers->room = peers->room * 2 + 16;
    }
    peers->list[peers->count++] = *more;
    more->address = NULL;
}

void profile_seat_forget(struct profile_seat *seat, struct fid_av *av, fi_addr_t peer)
{
    struct profile_peers *peers = &seat->profile->peers;
    struct profile_peer found = {0};

    if (peer >= seat->room)
        return;
    per_thread_lock();
    found.counts = cell_sum(seat->profile, seat->first + peer, true);
    per_thread_unlock();
    if (!found.counts.messages)
        return;
    found.address = address_of(av, peer);
    pthread_mutex_lock(&peers->mutex);
    add(peers, &found);
    pthread_mutex_unlock(&peers->mutex);
    free(found.address);
}

void profile_seat_leave(struct profile_seat *seat, struct profile_peer *found, size_t count)
{
    struct profile_peers *peers = &seat->profile->peers;

    per_thread_lock();
    for (uint64_t i = 0; i <= seat->room && seat->room && count; i++)
        cell_sum(seat->profile, seat->first + i, true);
    per_thread_unlock();
    pthread_mutex_lock(&peers->mutex);
    for (size_t i = 0; i < count; i++)
        add(peers, &found[i]);
    seat->taken = false;
    pthread_mutex_unlock(&peers->mutex);
    profile_peers_free(found, count);
}
