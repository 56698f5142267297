/* SPDX-License-Identifier: BSD-2-Clause */
/* Kinds of events and their names. */
#include <stdio.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_eq.h>

#include "trace_model.h"

bool trace_is_call(const struct trace_event *event)
{
    return event->record.kind >= WEFT_TRACE_CALL;
}

bool trace_is_completion(const struct trace_event *event)
{
    return event->record.kind == WEFT_TRACE_COMPLETION || event->record.kind == WEFT_TRACE_WRITTEN;
}

bool trace_is_joined(const struct trace_event *event)
{
    return event->record.kind == WEFT_TRACE_EVENT && event->record.inside == FI_JOIN_COMPLETE &&
           !event->record.result && event->more && event->typed;
}

/* Functions of the headers that are calls of fi_control with a command of their own. */
static const char *control_name(uint64_t command, unsigned fclass)
{
    switch (command) {
    case FI_ALIAS: return fclass == FI_CLASS_EP ? "fi_ep_alias" : "fi_alias";
    case FI_ENABLE: return fclass == FI_CLASS_MR ? "fi_mr_enable" : "fi_enable";
    case FI_GET_RAW_MR: return "fi_mr_raw_attr";
    case FI_MAP_RAW_MR: return "fi_mr_map_raw";
    case FI_UNMAP_KEY: return "fi_mr_unmap_key";
    case FI_REFRESH: return "fi_mr_refresh";
    case FI_GET_VAL: return "fi_get_val";
    case FI_SET_VAL: return "fi_set_val";
    case FI_EXPORT_FID: return "fi_export_fid";
    default: return "fi_control";
    }
}

static const char *bind_name(unsigned fclass)
{
    switch (fclass) {
    case FI_CLASS_DOMAIN: return "fi_domain_bind";
    case FI_CLASS_MR: return "fi_mr_bind";
    case FI_CLASS_AV: return "fi_av_bind";
    case FI_CLASS_PEP: return "fi_pep_bind";
    case FI_CLASS_SEP: return "fi_scalable_ep_bind";
    case FI_CLASS_EP:
    case FI_CLASS_RX_CTX:
    case FI_CLASS_SRX_CTX:
    case FI_CLASS_TX_CTX: return "fi_ep_bind";
    default: return "fi_bind";
    }
}

const char *trace_call(const struct trace_model *model, const struct trace_event *event)
{
    static const char *const names[] = {
        [WEFT_TRACE_NONE] = "nothing",          [WEFT_TRACE_MORE] = "more",
        [WEFT_TRACE_COMPLETION] = "completion", [WEFT_TRACE_WRITTEN] = "completion written",
        [WEFT_TRACE_EVENT] = "event",           [WEFT_TRACE_READ] = "fi_cq_read",
    };
    unsigned kind = event->record.kind;

    if (kind < WEFT_TRACE_CALL)
        return names[kind];
    kind -= WEFT_TRACE_CALL;
    if (kind >= WEFT_TRACE_NAMES || !model->files[event->file]->header.names[kind][0])
        return "unknown call";
    return model->files[event->file]->header.names[kind];
}

bool trace_is_address(const struct trace_model *model, const struct trace_event *event)
{
    return trace_is_call(event) && !strcmp(trace_call(model, event), "address");
}

const char *trace_what(const struct trace_model *model, const struct trace_event *event)
{
    const char *call = trace_call(model, event);
    const unsigned fclass = trace_class_of_object(model, event->file, trace_object_of(event));

    if (!strcmp(call, "fi_control"))
        return control_name(event->record.tag, fclass);
    if (!strcmp(call, "fi_bind"))
        return bind_name(fclass);
    if (!strcmp(call, "fi_join") && event->record.tag & FI_COLLECTIVE)
        return "fi_join_collective";
    return call;
}

const char *trace_layer(const struct trace_model *model, const struct trace_event *event)
{
    const struct weft_trace_header *header = &model->files[event->file]->header;

    return event->record.layer < WEFT_TRACE_LAYERS ? header->layers[event->record.layer] : "?";
}

static const char *class_name(unsigned fclass)
{
    switch (fclass) {
    case FI_CLASS_FABRIC: return "fabric";
    case FI_CLASS_DOMAIN: return "domain";
    case FI_CLASS_EP: return "ep";
    case FI_CLASS_SEP: return "sep";
    case FI_CLASS_RX_CTX: return "rx";
    case FI_CLASS_SRX_CTX: return "srx";
    case FI_CLASS_TX_CTX: return "tx";
    case FI_CLASS_STX_CTX: return "stx";
    case FI_CLASS_PEP: return "pep";
    case FI_CLASS_AV: return "av";
    case FI_CLASS_AV_SET: return "av_set";
    case FI_CLASS_MR: return "mr";
    case FI_CLASS_EQ: return "eq";
    case FI_CLASS_CQ: return "cq";
    case FI_CLASS_CNTR: return "cntr";
    case FI_CLASS_MC: return "mc";
    case FI_CLASS_WAIT: return "wait_set";
    case FI_CLASS_POLL: return "poll_set";
    default: return "object";
    }
}

uint64_t trace_object_of(const struct trace_event *event)
{
    return WEFT_TRACE_NAMED(event->record.object, event->record.fclass);
}

unsigned trace_class_of_object(const struct trace_model *model, int file, uint64_t object)
{
    const uint32_t number = WEFT_TRACE_NUMBER(object);

    if (WEFT_TRACE_CLASS(object))
        return WEFT_TRACE_CLASS(object);
    if (!number || number > WEFT_TRACE_OBJECTS)
        return FI_CLASS_UNSPEC;
    return model->files[file]->header.objects[number - 1].fclass;
}

char *trace_object_name(const struct trace_model *model, int file, uint64_t object, char *text,
                        size_t size)
{
    snprintf(text, size, "%s %u", class_name(trace_class_of_object(model, file, object)),
             WEFT_TRACE_NUMBER(object));
    return text;
}

static bool starts(const char *text, const char *prefix)
{
    return !strncmp(text, prefix, strlen(prefix));
}

enum trace_class trace_class_of(const struct trace_model *model, const struct trace_event *event)
{
    const char *what = trace_what(model, event);

    if (!trace_is_call(event))
        return TRACE_OTHER;
    /* The lower found the buffer of a receive: from there on it is receiving. */
    if (starts(what, "peer get") || starts(what, "peer start"))
        return TRACE_RECV;
    if (!starts(what, "fi_"))
        return TRACE_OTHER;
    what += 3;
    if (strstr(what, "atomic"))
        return TRACE_ATOMIC;
    if (starts(what, "inject_write") || starts(what, "write"))
        return TRACE_WRITING;
    if (starts(what, "read"))
        return TRACE_READING;
    if (starts(what, "send") || starts(what, "inject") || starts(what, "tsend") ||
        starts(what, "tinject"))
        return TRACE_SEND;
    if (starts(what, "recv") || starts(what, "trecv"))
        return TRACE_RECV;
    if (starts(what, "barrier") || starts(what, "broadcast") || starts(what, "all") ||
        starts(what, "reduce") || starts(what, "scatter") || starts(what, "gather") ||
        starts(what, "collective"))
        return TRACE_COLLECTIVE;
    return TRACE_OTHER;
}
