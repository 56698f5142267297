/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that each keep to the queue of their context, as FI_THREAD_COMPLETION allows: contexts of
 * one scalable endpoint share what is below them. */
#ifndef WEFT_TESTS_CONTEXT_THREADS_H
#define WEFT_TESTS_CONTEXT_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "end.h"
#include "patience.h"

enum {
    CONTEXTS = 2,
    BITS = 2,
    SIDES = 2,
    MESSAGES = 300,
    LARGE = 200000, /* more than a packet */
    EVERY = 50,     /* so manyth messages are large */
};

struct side {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_ep *sep;
    fi_addr_t peer;
};

/* A thread with a transmit and a receive context of one side, both on one queue of its own. */
struct player {
    struct side *side;
    int index;
    bool first; /* it begins */
    pthread_t thread;
    struct fid_ep *tx, *rx;
    struct fid_cq *cq;
    unsigned sent, received;
    char in[LARGE], out[LARGE];
};

static struct side sides[SIDES];
static struct player players[SIDES][CONTEXTS];

static struct fi_info *find(const char *stack)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;

    assert_non_null(hints);
    hints->caps = FI_MSG | FI_TAGGED | FI_NAMED_RX_CTX;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_COMPLETION;
    hints->fabric_attr->prov_name = strdup(stack);
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), "127.0.0.1", NULL, FI_SOURCE, hints, &info), 0);
    fi_freeinfo(hints);
    return info;
}

static void open_player(struct player *player, struct side *side, int index)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};

    player->side = side;
    player->index = index;
    player->first = side == sides;
    player->sent = player->received = 0;
    assert_int_equal(fi_cq_open(side->domain, &attr, &player->cq, NULL), 0);
    assert_int_equal(fi_tx_context(side->sep, index, NULL, &player->tx, NULL), 0);
    assert_int_equal(fi_rx_context(side->sep, index, NULL, &player->rx, NULL), 0);
    assert_int_equal(fi_ep_bind(player->tx, &player->cq->fid, FI_TRANSMIT), 0);
    assert_int_equal(fi_ep_bind(player->rx, &player->cq->fid, FI_RECV), 0);
    assert_int_equal(fi_enable(player->tx), 0);
    assert_int_equal(fi_enable(player->rx), 0);
}

static void open_side(int number, const char *stack)
{
    struct fi_av_attr attr = {.type = FI_AV_TABLE, .rx_ctx_bits = BITS};
    struct side *side = &sides[number];

    side->info = find(stack);
    assert_int_equal(side->info->domain_attr->threading, FI_THREAD_COMPLETION);
    side->info->ep_attr->tx_ctx_cnt = side->info->ep_attr->rx_ctx_cnt = CONTEXTS;
    assert_int_equal(fi_fabric(side->info->fabric_attr, &side->fabric, NULL), 0);
    assert_int_equal(fi_domain(side->fabric, side->info, &side->domain, NULL), 0);
    assert_int_equal(fi_av_open(side->domain, &attr, &side->av, NULL), 0);
    assert_int_equal(fi_scalable_ep(side->domain, side->info, &side->sep, NULL), 0);
    assert_int_equal(fi_scalable_ep_bind(side->sep, &side->av->fid, 0), 0);
    assert_int_equal(fi_enable(side->sep), 0);
    for (int i = 0; i < CONTEXTS; i++)
        open_player(&players[number][i], side, i);
}

static void introduce(struct side *to, const struct side *other)
{
    char name[64];
    size_t len = sizeof(name);

    assert_int_equal(fi_getname(&other->sep->fid, name, &len), 0);
    assert_int_equal(fi_av_insert(to->av, name, 1, &to->peer, 0, NULL), 1);
}

static void close_side(int number)
{
    struct side *side = &sides[number];

    for (int i = 0; i < CONTEXTS; i++) {
        assert_int_equal(fi_close(&players[number][i].tx->fid), 0);
        assert_int_equal(fi_close(&players[number][i].rx->fid), 0);
        assert_int_equal(fi_close(&players[number][i].cq->fid), 0);
    }
    assert_int_equal(fi_close(&side->sep->fid), 0);
    assert_int_equal(fi_close(&side->av->fid), 0);
    assert_int_equal(fi_close(&side->domain->fid), 0);
    assert_int_equal(fi_close(&side->fabric->fid), 0);
    fi_freeinfo(side->info);
}

static size_t length(int message)
{
    return message % EVERY ? 8 : LARGE;
}

/* Until so many sends and receives have ended. False: an error, or nothing comes. */
static bool reach(struct player *player, unsigned sent, unsigned received)
{
    struct fi_cq_tagged_entry entry;
    struct patience patience = {0};

    while (player->sent < sent || player->received < received) {
        ssize_t rc = fi_cq_read(player->cq, &entry, 1);

        if ((rc < 0 && rc != -FI_EAGAIN) || !patience_lasts(&patience))
            return false;
        if (rc != 1)
            continue;
        if (entry.flags & FI_RECV)
            player->received++;
        else
            player->sent++;
    }
    return true;
}

static bool give(struct player *player, int message)
{
    fi_addr_t to = fi_rx_addr(player->side->peer, player->index, BITS);
    ssize_t rc;

    memset(player->out, message, length(message));
    while ((rc = fi_tsend(player->tx, player->out, length(message), NULL, to, (uint64_t)message,
                          NULL)) == -FI_EAGAIN)
        reach(player, 0, 0);
    return !rc && reach(player, (unsigned)message + 1, 0);
}

static bool take(struct player *player, int message)
{
    size_t len = length(message);

    return reach(player, 0, (unsigned)message + 1) && player->in[0] == (char)message &&
           player->in[len - 1] == (char)message;
}

static bool post(struct player *player, int message)
{
    return !fi_trecv(player->rx, player->in, LARGE, NULL, FI_ADDR_UNSPEC, (uint64_t)message, 0,
                     NULL);
}

/* Returns the message that it got no further with, or NULL. */
static void *play(void *arg)
{
    struct player *player = arg;

    for (int i = 0; i < MESSAGES; i++) {
        bool fine = post(player, i);

        if (player->first)
            fine = fine && give(player, i) && take(player, i);
        else
            fine = fine && take(player, i) && give(player, i);
        if (!fine)
            return &player->out[i];
    }
    return NULL;
}

/* Of two scalable endpoints over that stack. */
static void threads_keep_to_their_queues(const char *stack)
{
    void *failed = NULL, *result;

    for (int i = 0; i < SIDES; i++)
        open_side(i, stack);
    introduce(&sides[0], &sides[1]);
    introduce(&sides[1], &sides[0]);
    for (int i = 0; i < SIDES * CONTEXTS; i++) {
        struct player *player = &players[i / CONTEXTS][i % CONTEXTS];

        assert_int_equal(pthread_create(&player->thread, NULL, play, player), 0);
    }
    for (int i = 0; i < SIDES * CONTEXTS; i++) {
        pthread_join(players[i / CONTEXTS][i % CONTEXTS].thread, &result);
        failed = result ? result : failed;
    }
    assert_null(failed);
    for (int i = 0; i < SIDES; i++)
        close_side(i);
}

#endif
