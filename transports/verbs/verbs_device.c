/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/verbs/verbs_device.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/fork.h"

enum {
    WHY_MAX = 200,
    INLINE_MOST = 1024, /* that the parameter allows */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct verbs_device *devices;
static unsigned forks; /* the process that opened them */

static struct verbs_device *find_locked(const char *name)
{
    struct verbs_device *device = devices;

    while (device && strcmp(device->name, name))
        device = device->next;
    return device;
}

struct verbs_device *verbs_device_find(const char *name)
{
    struct verbs_device *device;

    pthread_mutex_lock(&mutex);
    device = find_locked(name);
    pthread_mutex_unlock(&mutex);
    return device;
}

/* No attribute says how much a queue pair takes inline: one is made to find out. */
static bool takes_inline(struct ibv_pd *pd, struct ibv_cq *cq, uint32_t bytes)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 1,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = bytes},
    };
    struct ibv_qp *qp = verbs_lib.create_qp(pd, &attr);

    if (qp)
        verbs_lib.destroy_qp(qp);
    return qp;
}

static uint32_t find_inline(struct ibv_context *context)
{
    struct ibv_pd *pd = verbs_lib.alloc_pd(context);
    struct ibv_cq *cq = verbs_lib.create_cq(context, 2, NULL, NULL, 0);
    uint32_t low = 0, high = INLINE_MOST;

    while (pd && cq && low < high) {
        uint32_t middle = high == INLINE_MOST && !low ? high : (low + high + 1) / 2;

        if (takes_inline(pd, cq, middle))
            low = middle;
        else
            high = middle - 1;
    }
    if (cq)
        verbs_lib.destroy_cq(cq);
    if (pd)
        verbs_lib.dealloc_pd(pd);
    return low;
}

/* Its events are looked for with the progress domain locked: never waited for. */
static bool events_never_block(const struct ibv_context *context)
{
    int flags = fcntl(context->async_fd, F_GETFL);

    return flags >= 0 && !fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK);
}

static int take(const struct rdma_device *found, struct reasons *reasons)
{
    struct verbs_device *device;

    if (!events_never_block(found->context)) {
        reasons_add(reasons, "the RDMA device %s cannot be used: %s", found->name,
                    fi_strerror(-verbs_error(-1)));
        return 0;
    }
    device = calloc(1, sizeof(*device));
    if (!device)
        return -FI_ENOMEM;
    memcpy(device->name, found->name, sizeof(device->name));
    device->context = found->context;
    device->attr = found->attr;
    device->inline_max = find_inline(found->context);
    device->next = devices;
    devices = device;
    return 0;
}

/* Devices may come while the process runs. EFA's have no RC: they are another transport's. */
static int refresh(struct reasons *reasons)
{
    const struct rdma_device *found = rdma_devices(reasons);
    int rc = 0;

    pthread_mutex_lock(&mutex);
    if (forks != fork_generation)
        devices = NULL;
    forks = fork_generation;
    for (; !rc && found; found = found->next) {
        if (found->attr.vendor_id != RDMA_VENDOR_EFA && !find_locked(found->name))
            rc = take(found, reasons);
    }
    pthread_mutex_unlock(&mutex);
    return rc;
}

/* By prefix, as libfabric's FI_VERBS_DEVICE_NAME. */
static bool chosen(const char *choice, const char *name)
{
    if (!choice || !*choice)
        return true;
    while (*choice) {
        size_t len = strcspn(choice, ",|");

        if (len && !strncmp(choice, name, len))
            return true;
        choice += len + (choice[len] != '\0');
    }
    return false;
}

static bool fill_place(struct verbs_place *place, struct rdma_cm_id *id, const char *choice)
{
    struct verbs_device *device;

    if (!id->verbs)
        return false;
    device = verbs_device_find(verbs_lib.get_device_name(id->verbs->device));
    if (!device || !chosen(choice, device->name))
        return false;
    place->device = device;
    place->port = id->port_num;
    memset(&place->port_attr, 0, sizeof(place->port_attr));
    return !verbs_lib.query_port(device->context, id->port_num, &place->port_attr) &&
           place->port_attr.state == IBV_PORT_ACTIVE;
}

/* Which device has this address? rdma_cm knows. */
static bool look_up(struct rdma_event_channel *channel, const struct netif *netif,
                    const char *choice, struct verbs_place *place)
{
    union addr addr = netif->addr;
    struct rdma_cm_id *id;
    bool found;

    if (verbs_cm_lib.create_id(channel, &id, NULL, RDMA_PS_TCP))
        return false;
    addr_set_port(&addr.sa, 0);
    found = !verbs_cm_lib.bind_addr(id, &addr.sa) && fill_place(place, id, choice);
    verbs_cm_lib.destroy_id(id);
    place->netif = *netif;
    return found;
}

/* A name without a wildcard, not an address or a network. */
static bool is_plain_name(const char *word, size_t len)
{
    char text[INET_ADDRSTRLEN];
    struct in_addr addr;

    for (size_t i = 0; i < len; i++)
        if (strchr("/:*?[", word[i]))
            return false;
    if (!len || len >= sizeof(text))
        return len;
    memcpy(text, word, len);
    text[len] = '\0';
    return inet_pton(AF_INET, text, &addr) != 1;
}

/* Interfaces are chosen by the beginnings of their names, as by libfabric's FI_VERBS_IFACE: "ib" is
 * ib0 and ib1. The same choice in words of netif_list; NULL without memory. */
static char *widen_names(const char *choice)
{
    char *wide = malloc(2 * strlen(choice) + 2), *out = wide;

    while (wide) {
        size_t len = strcspn(choice, ",| "), sign = *choice == '!';

        memcpy(out, choice, len);
        out += len;
        if (is_plain_name(choice + sign, len - sign))
            *out++ = '*';
        choice += len;
        *out++ = *choice;
        if (!*choice++)
            break;
    }
    return wide;
}

static int list_interfaces(const char *choice, struct netif **list, size_t *count, char *why,
                           size_t why_size)
{
    char *wide = choice ? widen_names(choice) : NULL;
    int rc = choice && !wide ? -FI_ENOMEM : netif_list(wide, list, count, why, why_size);

    free(wide);
    return rc;
}

static int collect(const struct params *params, const struct netif *netifs, size_t netif_count,
                   struct verbs_place **places, size_t *count)
{
    struct rdma_event_channel *channel = verbs_cm_lib.create_event_channel();

    if (!channel)
        return 0;
    *places = calloc(netif_count, sizeof(**places));
    for (size_t i = 0; *places && i < netif_count; i++)
        *count +=
            look_up(channel, &netifs[i], params_string(params, "device_name"), &(*places)[*count]);
    verbs_cm_lib.destroy_event_channel(channel);
    return *places ? 0 : -FI_ENOMEM;
}

int verbs_places(const struct params *params, struct reasons *reasons, struct verbs_place **places,
                 size_t *count)
{
    struct netif *netifs;
    size_t netif_count;
    char why[WHY_MAX];
    int rc = refresh(reasons);

    *places = NULL;
    *count = 0;
    if (rc || !devices)
        return rc;
    rc = list_interfaces(params_string(params, "iface"), &netifs, &netif_count, why, sizeof(why));
    if (rc) {
        reasons_add(reasons, "%s", why);
        return rc == -FI_ENOMEM ? rc : 0;
    }
    rc = collect(params, netifs, netif_count, places, count);
    free(netifs);
    if (!rc && !*count)
        reasons_add(reasons, "no chosen interface has an address on an active port of a chosen "
                             "RDMA device");
    return rc;
}
