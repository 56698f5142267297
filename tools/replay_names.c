/* SPDX-License-Identifier: BSD-2-Clause */
/* The owners of addresses, as far as traces tell: an endpoint's own, and those behind the numbers
 * of an address vector. */
#include <stdlib.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include "replay_plan.h"

struct replay_names {
    struct name {
        uint64_t hash;
        int ep; /* of the plan */
    } * names;  /* sorted */
    struct inserted {
        int file;
        uint32_t av;
        uint64_t number, hash;
    } * inserted; /* sorted */
    struct home {
        int file;
        uint32_t ep, av;
    } * homes; /* address vectors of endpoints; sorted */
    int name_count, inserted_count, home_count;
    const struct replay_plan *plan;
};

static int by_hash(const void *a, const void *b)
{
    const struct name *one = a, *two = b;

    return one->hash < two->hash ? -1 : one->hash > two->hash;
}

static int by_number(const void *a, const void *b)
{
    const struct inserted *one = a, *two = b;

    if (one->file != two->file)
        return one->file - two->file;
    if (one->av != two->av)
        return one->av < two->av ? -1 : 1;
    return one->number < two->number ? -1 : one->number > two->number;
}

static int by_endpoint(const void *a, const void *b)
{
    const struct home *one = a, *two = b;

    if (one->file != two->file)
        return one->file - two->file;
    return one->ep < two->ep ? -1 : one->ep > two->ep;
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

static void add_address(struct replay_names *names, const struct trace_event *event)
{
    if (event->record.fclass == FI_CLASS_AV) {
        names->inserted[names->inserted_count++] = (struct inserted){
            event->file, event->record.object, event->record.peer, event->record.tag};
        return;
    }
    names->names[names->name_count].hash = event->record.tag;
    names->names[names->name_count].ep = endpoint_of(names->plan, event);
    names->name_count += names->names[names->name_count].ep != REPLAY_ANY;
}

static bool is_home(const struct trace_model *model, const struct trace_event *event)
{
    return trace_is_call(event) && !event->record.result &&
           WEFT_TRACE_CLASS(event->record.buf) == FI_CLASS_AV &&
           trace_class_of(model, event) == TRACE_OTHER;
}

static void read_events(struct replay_names *names, const struct trace_model *model,
                        const int *layer)
{
    for (int i = 0; i < model->event_count; i++) {
        const struct trace_event *event = &model->events[i];

        if (event->record.layer != layer[event->file])
            continue;
        if (trace_is_address(model, event))
            add_address(names, event);
        else if (is_home(model, event))
            names->homes[names->home_count++] = (struct home){event->file, event->record.object,
                                                              WEFT_TRACE_NUMBER(event->record.buf)};
    }
}

/* As many as each may have. */
static bool make_room(struct replay_names *names, const struct trace_model *model)
{
    size_t addresses = 1, homes = 1;

    for (int i = 0; i < model->event_count; i++) {
        addresses += trace_is_address(model, &model->events[i]);
        homes += is_home(model, &model->events[i]);
    }
    names->names = calloc(addresses, sizeof(*names->names));
    names->inserted = calloc(addresses, sizeof(*names->inserted));
    names->homes = calloc(homes, sizeof(*names->homes));
    return names->names && names->inserted && names->homes;
}

struct replay_names *replay_names_find(const struct trace_model *model,
                                       const struct replay_plan *plan, const int *layer)
{
    struct replay_names *names = calloc(1, sizeof(*names));

    if (!names)
        return NULL;
    names->plan = plan;
    if (!make_room(names, model)) {
        replay_names_free(names);
        return NULL;
    }
    read_events(names, model, layer);
    qsort(names->names, (size_t)names->name_count, sizeof(*names->names), by_hash);
    qsort(names->inserted, (size_t)names->inserted_count, sizeof(*names->inserted), by_number);
    qsort(names->homes, (size_t)names->home_count, sizeof(*names->homes), by_endpoint);
    return names;
}

void replay_names_free(struct replay_names *names)
{
    if (!names)
        return;
    free(names->names);
    free(names->inserted);
    free(names->homes);
    free(names);
}

/* ---- Asking ---- */

int replay_names_of(const struct replay_names *names, int ep, uint64_t peer)
{
    const struct replay_endpoint *endpoint = &names->plan->endpoints[ep];
    const struct home at = {.file = endpoint->process, .ep = endpoint->object};
    const struct home *home =
        bsearch(&at, names->homes, (size_t)names->home_count, sizeof(at), by_endpoint);
    struct inserted asked = {.file = endpoint->process, .number = peer};
    const struct inserted *inserted = NULL;
    const struct name *name = NULL;

    if (home) {
        asked.av = home->av;
        inserted = bsearch(&asked, names->inserted, (size_t)names->inserted_count, sizeof(asked),
                           by_number);
    }
    if (inserted) {
        const struct name wanted = {.hash = inserted->hash};

        name = bsearch(&wanted, names->names, (size_t)names->name_count, sizeof(wanted), by_hash);
    }
    return name ? name->ep : REPLAY_ANY;
}
