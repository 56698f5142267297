/* SPDX-License-Identifier: BSD-2-Clause */
/* The owners of addresses, as far as traces tell: an endpoint's own, and those behind the numbers
 * of an address vector. */
#include <stdlib.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include "hash.h"
#include "replay_plan.h"

/* Kinds of facts in a trace, each with the fields of its key; unused fields are 0. */
enum fact_kind {
    FACT_OWNER,   /* number, the hash of an address: the endpoint of the plan */
    FACT_ADDRESS, /* file, object (an address vector), number in it: the hash of the address */
    FACT_VECTOR,  /* file, object (an endpoint): its address vector */
};

struct fact {
    struct fact_key {
        uint64_t kind, file, object, number;
    } key;
    uint64_t value;
    UT_hash_handle hh;
};

struct replay_names {
    struct fact *facts;
    const struct replay_plan *plan;
};

static const struct fact *find(const struct replay_names *names, struct fact_key key)
{
    struct fact *fact;

    HASH_FIND(hh, names->facts, &key, sizeof(key), fact);
    return fact;
}

/* The first value of a fact counts. False without memory. */
static bool learn(struct replay_names *names, struct fact_key key, uint64_t value)
{
    struct fact *fact;

    if (find(names, key))
        return true;
    fact = calloc(1, sizeof(*fact));
    if (!fact)
        return false;
    fact->key = key;
    fact->value = value;
    HASH_ADD(hh, names->facts, key, sizeof(key), fact);
    if (hash_has(fact))
        return true;
    free(fact);
    return false;
}

/* ---- Reading ---- */

static int endpoint_of(const struct replay_plan *plan, const struct trace_event *event)
{
    for (int i = 0; i < plan->endpoint_count; i++)
        if (plan->endpoints[i].process == event->file &&
            plan->endpoints[i].object == event->record.object)
            return i;
    return REPLAY_ANY;
}

static bool learn_address(struct replay_names *names, const struct trace_event *event)
{
    int ep;

    if (event->record.fclass == FI_CLASS_AV)
        return learn(names,
                     (struct fact_key){FACT_ADDRESS, (uint64_t)event->file, event->record.object,
                                       event->record.peer},
                     event->record.tag);
    ep = endpoint_of(names->plan, event);
    return ep == REPLAY_ANY ||
           learn(names, (struct fact_key){.kind = FACT_OWNER, .number = event->record.tag},
                 (uint64_t)ep);
}

static bool binds_vector(const struct trace_model *model, const struct trace_event *event)
{
    return trace_is_call(event) && !event->record.result &&
           WEFT_TRACE_CLASS(event->record.buf) == FI_CLASS_AV &&
           trace_class_of(model, event) == TRACE_OTHER;
}

static bool learn_event(struct replay_names *names, const struct trace_model *model,
                        const struct trace_event *event)
{
    if (trace_is_address(model, event))
        return learn_address(names, event);
    return !binds_vector(model, event) ||
           learn(names,
                 (struct fact_key){FACT_VECTOR, (uint64_t)event->file, event->record.object, 0},
                 WEFT_TRACE_NUMBER(event->record.buf));
}

struct replay_names *replay_names_find(const struct trace_model *model,
                                       const struct replay_plan *plan, const int *layer)
{
    struct replay_names *names = calloc(1, sizeof(*names));
    bool ok = names != NULL;

    if (ok)
        names->plan = plan;
    for (int i = 0; ok && i < model->event_count; i++)
        if (model->events[i].record.layer == layer[model->events[i].file])
            ok = learn_event(names, model, &model->events[i]);
    if (ok)
        return names;
    replay_names_free(names);
    return NULL;
}

void replay_names_free(struct replay_names *names)
{
    struct fact *fact = names ? names->facts : NULL, *next;

    if (!names)
        return;
    HASH_CLEAR(hh, names->facts);
    for (; fact; fact = next) {
        next = fact->hh.next;
        free(fact);
    }
    free(names);
}

/* ---- Asking ---- */

int replay_names_of(const struct replay_names *names, int ep, uint64_t peer)
{
    const struct replay_endpoint *endpoint = &names->plan->endpoints[ep];
    const uint64_t file = (uint64_t)endpoint->process;
    const struct fact *fact =
        find(names, (struct fact_key){FACT_VECTOR, file, endpoint->object, 0});

    if (fact)
        fact = find(names, (struct fact_key){FACT_ADDRESS, file, fact->value, peer});
    if (fact)
        fact = find(names, (struct fact_key){.kind = FACT_OWNER, .number = fact->value});
    return fact ? (int)fact->value : REPLAY_ANY;
}
