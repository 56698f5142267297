/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers are never lost: what finds no room in the ring waits in the link. */
#include <rdma/fi_errno.h>

#include "transports/shm/shm_op.h"

enum {
    WORDS = 2 + 2 * SHM_IOV_LIMIT
};

struct control {
    struct list list;
    struct shm_head head;
    uint64_t words[WORDS];
};

void shm_controls_init(struct shm_ep *ep)
{
    pool_init(&ep->controls, sizeof(struct control), 0);
}

void shm_link_busy(struct shm_link *link)
{
    if (list_empty(&link->busy))
        list_attach(&link->busy, &link->ep->busy);
    if (!link->ep->in_progress)
        shm_wake(link->ep);
}

static bool write_now(struct shm_link *link, struct shm_head head, const uint64_t *words)
{
    char *body = shm_tx_reserve(&link->tx, head.bytes);

    if (!body)
        return false;
    for (unsigned i = 0; i < head.bytes / sizeof(*words); i++)
        body = shm_put(body, words[i]);
    shm_tx_publish(&link->tx, head);
    shm_link_notify(link);
    return true;
}

static void write_words(struct shm_link *link, uint8_t op, const uint64_t *words, unsigned count)
{
    struct shm_head head = {.op = op, .bytes = (uint16_t)(count * sizeof(*words))};
    struct control *control;

    if (link->dead || (list_empty(&link->controls) && write_now(link, head, words)))
        return;
    control = link->control_count < SHM_MOST_SERVED ? pool_get(&link->ep->controls) : NULL;
    if (!control) {
        shm_link_fail(link, link->control_count < SHM_MOST_SERVED ? FI_ENOMEM : FI_EIO);
        return;
    }
    link->control_count++;
    control->head = head;
    for (unsigned i = 0; i < count; i++)
        control->words[i] = words[i];
    list_attach(&control->list, &link->controls);
    shm_link_busy(link);
}

void shm_control_cts(struct shm_op *op)
{
    uint64_t words[] = {op->remote, op->id, op->len};

    write_words(op->link, SHM_CTS, words, 3);
}

void shm_control_where(struct shm_op *op)
{
    uint64_t words[WORDS] = {op->remote | (uint64_t)op->count << 32, op->id};
    unsigned count = 2;

    for (size_t i = 0; i < op->count; i++) {
        words[count++] = (uint64_t)(uintptr_t)op->iov[i].iov_base;
        words[count++] = op->iov[i].iov_len;
    }
    write_words(op->link, SHM_WHERE, words, count);
}

void shm_control_error(struct shm_link *link, uint32_t remote, int err)
{
    uint64_t words[] = {remote, (uint64_t)err};

    write_words(link, SHM_ERROR, words, 2);
}

static bool flush_fins(struct shm_link *link)
{
    struct shm_head head = {.op = SHM_FIN};
    char *body;

    if (!link->fin_count)
        return true;
    head.bytes = (uint16_t)(link->fin_count * sizeof(link->fins[0]));
    body = shm_tx_reserve(&link->tx, head.bytes);
    if (!body)
        return false;
    __builtin_memcpy(body, link->fins, head.bytes);
    link->fin_count = 0;
    shm_tx_publish(&link->tx, head);
    shm_link_notify(link);
    return true;
}

void shm_control_fin(struct shm_link *link, uint32_t remote)
{
    uint64_t pair;

    if (link->dead)
        return;
    if (link->fin_count == SHM_FINS && !flush_fins(link)) {
        /* One line holds more FINs than a queued answer does words: they queue in pairs. */
        for (unsigned i = 0; i < SHM_FINS; i += 2) {
            pair = link->fins[i] | (uint64_t)link->fins[i + 1] << 32;
            write_words(link, SHM_FIN, &pair, 1);
        }
        link->fin_count = 0;
    }
    link->fins[link->fin_count++] = remote;
    if (link->ep->in_progress || !shm_control_flush(link))
        shm_link_busy(link);
}

bool shm_control_flush(struct shm_link *link)
{
    while (!list_empty(&link->controls)) {
        struct control *control = list_item(link->controls.next, struct control, list);

        if (!write_now(link, control->head, control->words))
            return false;
        list_detach(&control->list);
        link->control_count--;
        pool_put(&link->ep->controls, control);
    }
    return flush_fins(link);
}

/* ---- What the peer answers ---- */

bool shm_take_fin(struct shm_link *link, struct shm_head head, const char *body)
{
    uint32_t ids[SHM_FINS];
    unsigned count = head.bytes / sizeof(ids[0]);

    if (count > SHM_FINS) {
        shm_link_fail(link, FI_EIO);
        return false;
    }
    __builtin_memcpy(ids, body, count * sizeof(ids[0]));
    shm_rx_consume(&link->rx, head);
    for (unsigned i = 0; i < count; i++) {
        struct shm_op *op = shm_op_find(link, ids[i], SHM_OUT, SHM_IN);
        struct shm_op *told = op ? NULL : shm_op_find(link, ids[i], SHM_GIVER, SHM_GIVER);

        if (!op && (!told || told->streaming)) {
            shm_link_fail(link, FI_EIO);
            return false;
        }
        if (op)
            shm_op_end(op, 0);
        else
            shm_remote_done(link->ep, told);
    }
    return true;
}

bool shm_take_error(struct shm_link *link, struct shm_head head, const char *body)
{
    struct shm_words words = shm_words(body, head);
    uint32_t id = (uint32_t)shm_get(&words);
    uint64_t err = shm_get(&words);
    struct shm_op *op = shm_op_find(link, id, SHM_OUT, SHM_IN);

    if (words.bad || !op || !err || err >= FI_ERRNO_MAX) {
        shm_link_fail(link, FI_EIO);
        return false;
    }
    shm_rx_consume(&link->rx, head);
    shm_op_end(op, (int)err);
    return true;
}
