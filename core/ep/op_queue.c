/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/ep/op_queue.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/op/op_copy.h"
#include "core/queue/cq.h"

void op_queue_init(struct op_queue *queue, struct binding *binding)
{
    list_init(&queue->all);
    queue->count = 0;
    queue->binding = binding;
}

void op_queue_finish(struct op_queue *queue)
{
    list_for_each_safe (pos, after, &queue->all) {
        struct queued_op *queued = list_item(pos, struct queued_op, of_ep);

        op_queue_take(queued);
        op_queue_posted(queue, queued);
    }
}

struct queued_op *op_queue_add(struct op_queue *queue, const struct op *op, struct list *peer)
{
    struct queued_op *queued = malloc(sizeof(*queued) + op_copy_size(op, false));

    if (!queued)
        return NULL;
    op_copy(op, false, &queued->op, queued->memory);
    queued->op.peer = FI_ADDR_UNSPEC;
    list_attach(&queued->of_peer, peer);
    list_attach(&queued->of_ep, &queue->all);
    queue->count++;
    return queued;
}

void op_queue_take(struct queued_op *queued)
{
    list_detach(&queued->of_peer);
    list_detach(&queued->of_ep);
}

void op_queue_return(struct op_queue *queue, struct queued_op *queued, struct list *peer)
{
    list_attach_before(&queued->of_peer, peer->next);
    list_attach_before(&queued->of_ep, queue->all.next);
}

void op_queue_posted(struct op_queue *queue, struct queued_op *queued)
{
    queue->count--;
    free(queued);
}

void op_queue_fail(struct op_queue *queue, struct queued_op *queued, int err, const char *why)
{
    const struct fi_cq_err_entry entry = {
        .op_context = queued->op.context,
        .flags = queued->op.kind,
        .err = err,
        .prov_errno = why ? CQ_ERR_TEXT + err : err,
        .err_data = (void *)(uintptr_t)why,
        .err_data_size = why ? strlen(why) + 1 : 0,
        .src_addr = FI_ADDR_NOTAVAIL,
    };

    op_queue_take(queued);
    op_queue_posted(queue, queued);
    complete_error(queue->binding, binding_kind_of(entry.flags), &entry);
}

void op_queue_fail_peer(struct op_queue *queue, struct list *peer, int err, const char *why)
{
    struct list failed;

    list_init(&failed);
    list_join(peer, &failed);
    while (!list_empty(&failed))
        op_queue_fail(queue, op_queue_first(&failed), err, why);
}

int op_queue_cancel(struct op_queue *queue, const void *context)
{
    list_for_each (item, &queue->all) {
        struct queued_op *queued = list_item(item, struct queued_op, of_ep);

        if (queued->op.context != context)
            continue;
        op_queue_fail(queue, queued, FI_ECANCELED, NULL);
        return 0;
    }
    return -FI_ENOENT;
}
