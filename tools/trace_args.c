/* SPDX-License-Identifier: BSD-2-Clause */
/* Arguments of the calls of the control path: the meaning of their few words, by the call. */
#include <inttypes.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include "trace_print.h"

/* The meaning of a record's `tag`. */
enum word {
    WORD_FLAGS,
    WORD_BIND, /* flags of fi_bind */
    WORD_COMMAND,
    WORD_OPTION,
    WORD_FORMAT,
    WORD_KEY,
    WORD_TAG,
    WORD_HANDLE,
    WORD_INDEX, /* 0 is one */
    WORD_VALUE,
};

/* A call begins so; the first that fits. */
static const struct meaning {
    const char *call, *len;
    enum word word;
} meanings[] = {
    {"peer ", "len", WORD_TAG},
    {"fi_control", "len", WORD_COMMAND},
    {"fi_bind", "len", WORD_BIND},
    {"fi_cq_open", "size", WORD_FORMAT},
    {"fi_eq_open", "size", WORD_FLAGS},
    {"fi_av_", "count", WORD_FLAGS},
    {"fi_eq_write", "len", WORD_VALUE},
    {"fi_trywait", "count", WORD_FLAGS},
    {"fi_tx_context", "len", WORD_INDEX},
    {"fi_rx_context", "len", WORD_INDEX},
    {"fi_mr_reg", "len", WORD_KEY},
    {"fi_getopt", "len", WORD_OPTION},
    {"fi_setopt", "len", WORD_OPTION},
    {"fi_reject", "len", WORD_HANDLE},
    {"fi_cntr_open", "len", WORD_FLAGS},
    {"fi_cntr_", "len", WORD_VALUE},
    {"", "len", WORD_FLAGS},
};

static const struct meaning *meaning_of(const char *call)
{
    const struct meaning *meaning = meanings;

    while (strncmp(call, meaning->call, strlen(meaning->call)) != 0)
        meaning++;
    return meaning;
}

static const char *bind_flag(uint64_t bit, unsigned fclass)
{
    switch (bit) {
    case FI_SEND: return fclass == FI_CLASS_CQ ? "FI_TRANSMIT" : "FI_SEND";
    case FI_RECV: return "FI_RECV";
    case FI_READ: return "FI_READ";
    case FI_WRITE: return "FI_WRITE";
    case FI_REMOTE_READ: return "FI_REMOTE_READ";
    case FI_REMOTE_WRITE: return "FI_REMOTE_WRITE";
    case FI_SELECTIVE_COMPLETION: return "FI_SELECTIVE_COMPLETION";
    default: return NULL;
    }
}

static void print_bind_flags(uint64_t flags, unsigned fclass, FILE *out)
{
    const char *between = "";

    for (uint64_t bit = 1; bit; bit <<= 1) {
        const char *name = flags & bit ? bind_flag(bit, fclass) : NULL;

        if (name) {
            fprintf(out, "%s%s", between, name);
            flags &= ~bit;
            between = ", ";
        }
    }
    if (flags)
        fprintf(out, "%sflags 0x%" PRIx64, between, flags);
}

void trace_print_flags(uint64_t flags, FILE *out)
{
    const char *between = "";
    uint64_t unknown = 0;

    for (uint64_t bit = 1; bit; bit <<= 1) {
        uint64_t one = flags & bit;
        const char *name = one ? fi_tostr(&one, FI_TYPE_OP_FLAGS) : "";

        if (one && !*name)
            name = fi_tostr(&one, FI_TYPE_CAPS);
        if (*name)
            fprintf(out, "%s%s", between, name);
        else
            unknown |= one;
        if (*name)
            between = ", ";
    }
    if (unknown)
        fprintf(out, "%sflags 0x%" PRIx64, between, unknown);
}

static void print_option(uint64_t option, FILE *out)
{
    static const char *const names[] = {
        [FI_OPT_MIN_MULTI_RECV] = "FI_OPT_MIN_MULTI_RECV",
        [FI_OPT_CM_DATA_SIZE] = "FI_OPT_CM_DATA_SIZE",
        [FI_OPT_BUFFERED_MIN] = "FI_OPT_BUFFERED_MIN",
        [FI_OPT_BUFFERED_LIMIT] = "FI_OPT_BUFFERED_LIMIT",
        [FI_OPT_SEND_BUF_SIZE] = "FI_OPT_SEND_BUF_SIZE",
        [FI_OPT_RECV_BUF_SIZE] = "FI_OPT_RECV_BUF_SIZE",
        [FI_OPT_TX_SIZE] = "FI_OPT_TX_SIZE",
        [FI_OPT_RX_SIZE] = "FI_OPT_RX_SIZE",
        [FI_OPT_FI_HMEM_P2P] = "FI_OPT_FI_HMEM_P2P",
        [FI_OPT_XPU_TRIGGER] = "FI_OPT_XPU_TRIGGER",
        [FI_OPT_CUDA_API_PERMITTED] = "FI_OPT_CUDA_API_PERMITTED",
        [FI_OPT_SHARED_MEMORY_PERMITTED] = "FI_OPT_SHARED_MEMORY_PERMITTED",
        [FI_OPT_MAX_MSG_SIZE] = "FI_OPT_MAX_MSG_SIZE",
        [FI_OPT_MAX_TAGGED_SIZE] = "FI_OPT_MAX_TAGGED_SIZE",
        [FI_OPT_MAX_RMA_SIZE] = "FI_OPT_MAX_RMA_SIZE",
        [FI_OPT_MAX_ATOMIC_SIZE] = "FI_OPT_MAX_ATOMIC_SIZE",
        [FI_OPT_INJECT_MSG_SIZE] = "FI_OPT_INJECT_MSG_SIZE",
        [FI_OPT_INJECT_TAGGED_SIZE] = "FI_OPT_INJECT_TAGGED_SIZE",
        [FI_OPT_INJECT_RMA_SIZE] = "FI_OPT_INJECT_RMA_SIZE",
        [FI_OPT_INJECT_ATOMIC_SIZE] = "FI_OPT_INJECT_ATOMIC_SIZE",
        [FI_OPT_FIREWALL_ADDR] = "FI_OPT_FIREWALL_ADDR",
    };

    if (option < sizeof(names) / sizeof(*names))
        fputs(names[option], out);
    else
        fprintf(out, "option %" PRId64, (int64_t)option);
}

static void print_command(uint64_t command, FILE *out)
{
    static const char *const names[] = {
        [FI_GETFIDFLAG] = "FI_GETFIDFLAG",
        [FI_SETFIDFLAG] = "FI_SETFIDFLAG",
        [FI_GETOPSFLAG] = "FI_GETOPSFLAG",
        [FI_SETOPSFLAG] = "FI_SETOPSFLAG",
        [FI_GETWAIT] = "FI_GETWAIT",
        [FI_BACKLOG] = "FI_BACKLOG",
        [FI_DUP] = "FI_DUP",
        [FI_QUEUE_WORK] = "FI_QUEUE_WORK",
        [FI_CANCEL_WORK] = "FI_CANCEL_WORK",
        [FI_FLUSH_WORK] = "FI_FLUSH_WORK",
        [FI_GETWAITOBJ] = "FI_GETWAITOBJ",
        [FI_GET_FD] = "FI_GET_FD",
    };

    if (command < sizeof(names) / sizeof(*names) && names[command])
        fputs(names[command], out);
    else
        fprintf(out, "command %" PRId64, (int64_t)command);
}

static void print_word(enum word word, uint64_t value, unsigned fclass, FILE *out)
{
    enum fi_cq_format format = (enum fi_cq_format)value;

    switch (word) {
    case WORD_FLAGS: trace_print_flags(value, out); break;
    case WORD_BIND: print_bind_flags(value, fclass, out); break;
    case WORD_COMMAND: print_command(value, out); break;
    case WORD_OPTION: print_option(value, out); break;
    case WORD_FORMAT: fputs(fi_tostr(&format, FI_TYPE_CQ_FORMAT), out); break;
    case WORD_KEY: fprintf(out, "key 0x%" PRIx64, value); break;
    case WORD_TAG: fprintf(out, "tag 0x%" PRIx64, value); break;
    case WORD_HANDLE: fprintf(out, "handle 0x%" PRIx64, value); break;
    case WORD_INDEX: fprintf(out, "index %" PRIu64, value); break;
    case WORD_VALUE: fprintf(out, "%" PRIu64, value); break;
    }
}

/* Zero is said where it means something, and a command unless the function is named after it. */
static bool has_word(const struct weft_trace_record *record, enum word word, bool renamed)
{
    if (word == WORD_COMMAND)
        return !renamed;
    return record->tag || word >= WORD_INDEX || word == WORD_OPTION || word == WORD_FORMAT;
}

static bool has_addr(const struct weft_trace_record *record, const char *call)
{
    if (strcmp(call, "fi_av_open") == 0 || strncmp(call, "fi_av_", strlen("fi_av_")) != 0)
        return false;
    return record->peer != FI_ADDR_NOTAVAIL && record->result >= 0;
}

static const char *print_memory(const struct trace_event *event, const char *comma, FILE *out)
{
    uint64_t access = event->key, rest = event->flags & ~(FI_MR_DMABUF | FI_MR_SINGLE_USE);

    fprintf(out, "%sbuf 0x%" PRIx64, comma, event->data);
    if (access)
        fprintf(out, ", %s", fi_tostr(&access, FI_TYPE_CAPS));
    if (event->flags & FI_MR_DMABUF)
        fputs(", FI_MR_DMABUF", out);
    if (event->flags & FI_MR_SINGLE_USE)
        fputs(", FI_MR_SINGLE_USE", out);
    if (rest) {
        fputs(", ", out);
        trace_print_flags(rest, out);
    }
    return ", ";
}

void trace_print_control(const struct trace_model *model, const struct trace_event *event,
                         FILE *out)
{
    const struct weft_trace_record *record = &event->record;
    const char *call = trace_call(model, event), *comma = "";
    const struct meaning *meaning = meaning_of(call);
    bool renamed = strcmp(call, trace_what(model, event)) != 0;
    char object[32];

    fputc('(', out);
    if (record->buf && (record->result >= 0 || meaning->word == WORD_BIND)) {
        fputs(trace_object_name(model, event->file, record->buf, object, sizeof(object)), out);
        comma = ", ";
    }
    if (record->len) {
        fprintf(out, "%s%s %" PRIu64, comma, meaning->len, record->len);
        comma = ", ";
    }
    if (has_addr(record, call)) {
        fprintf(out, "%saddr 0x%" PRIx64, comma, record->peer);
        comma = ", ";
    }
    if (has_word(record, meaning->word, renamed)) {
        fputs(comma, out);
        print_word(meaning->word, record->tag,
                   trace_class_of_object(model, event->file, record->buf), out);
        comma = ", ";
    }
    if (event->more && meaning->word == WORD_KEY)
        comma = print_memory(event, comma, out);
    if (record->context)
        fprintf(out, "%scontext 0x%" PRIx64, comma, record->context);
    fputc(')', out);
}
