/* SPDX-License-Identifier: BSD-2-Clause */
#include "top_view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>

const char *const top_sort_names[TOP_SORTS + 1] = {"calls", "bytes", "latency", "queue",
                                                   "again", "pid",   NULL};

/* The figures of a line, of a process or of an object; rates where there was a reading before. */
struct line {
    double calls, sent, received, again, done;
    uint64_t errors;
    int64_t tx, rx;    /* -1: unknown */
    uint64_t p50, p99; /* ns; 0: none timed */
};

struct item {
    const struct mon_file *file, *before;
    struct line line;
    double key;
};

static uint64_t since(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

static uint64_t done(const struct mon_sum *sum)
{
    return sum->counts[WEFT_MONITOR_DONE_TX] + sum->counts[WEFT_MONITOR_DONE_RX] +
           sum->counts[WEFT_MONITOR_DONE] + sum->counts[WEFT_MONITOR_REMOTE];
}

static struct line line_of(const struct mon_page *page, const struct mon_sum *sum,
                           const struct mon_sum *before, double seconds)
{
    static const struct mon_sum none;
    const struct mon_sum *from = before ? before : &none;
    double by = before && seconds > 0 ? seconds : 1;

    return (struct line){
        .calls = (double)since(sum->calls, from->calls) / by,
        .sent = (double)since(sum->sent, from->sent) / by,
        .received = (double)since(sum->received, from->received) / by,
        .again = (double)since(sum->again, from->again) / by,
        .done = (double)since(done(sum), done(from)) / by,
        .errors = sum->counts[WEFT_MONITOR_ERRORS] + sum->failed,
        .tx = mon_depth(page, sum, false),
        .rx = mon_depth(page, sum, true),
    };
}

/* Of all classes but receives, whose time is mostly that of their senders; where nothing else was
 * timed, of receives. */
static void latencies(const struct mon_page *page, const struct mon_page *before, struct line *line)
{
    struct weft_monitor_times now = {0}, then = {0};

    for (int class = WEFT_MONITOR_CLASSES - 1; class >= 0; class --) {
        if (class == WEFT_MONITOR_RECEIVE && mon_timed(&now, &then))
            break;
        for (int i = 0; i < WEFT_MONITOR_BUCKETS; i++) {
            now.buckets[i] += page->header.times[class].buckets[i];
            then.buckets[i] += before ? before->header.times[class].buckets[i] : 0;
        }
    }
    if (!mon_timed(&now, &then))
        return;
    line->p50 = mon_quantile(&now, &then, 0.5);
    line->p99 = mon_quantile(&now, &then, 0.99);
}

static const struct mon_file *same(const struct top_reading *before, const struct mon_file *file)
{
    for (int i = 0; before && i < before->count; i++)
        if (before->files[i].page && !strcmp(before->files[i].path, file->path) &&
            before->files[i].page->header.process_start == file->page->header.process_start)
            return &before->files[i];
    return NULL;
}

static double key_of(const struct top_view *view, const struct item *item)
{
    switch (view->sort) {
    case TOP_BY_BYTES: return item->line.sent + item->line.received;
    case TOP_BY_LATENCY: return (double)item->line.p99;
    case TOP_BY_QUEUE: return (double)item->line.tx;
    case TOP_BY_AGAIN: return item->line.again;
    case TOP_BY_PID: return -(double)item->file->page->header.pid;
    default: return item->line.calls;
    }
}

static int compare(const void *a, const void *b)
{
    const struct item *one = a, *two = b;

    /* Ended processes come last. */
    if ((one->file->life == MON_RUNS) != (two->file->life == MON_RUNS))
        return one->file->life == MON_RUNS ? -1 : 1;
    if (one->key != two->key)
        return one->key < two->key ? 1 : -1;
    return strcmp(one->file->path, two->file->path);
}

/* ---- Numbers ---- */

static const char *human(double value, char *text, size_t size)
{
    static const char units[] = " kMGTP";
    int unit = 0;

    while (value >= 999.5 && units[unit + 1]) {
        value /= 1000;
        unit++;
    }
    if (!unit)
        snprintf(text, size, "%.0f", value);
    else
        snprintf(text, size, value < 9.95 ? "%.1f%c" : "%.0f%c", value, units[unit]);
    return text;
}

static const char *time_text(uint64_t ns, char *text, size_t size)
{
    if (!ns)
        snprintf(text, size, "-");
    else if (ns < 1000)
        snprintf(text, size, "%.2fus", (double)ns / 1000);
    else if (ns < 1000000)
        snprintf(text, size, "%.1fus", (double)ns / 1000);
    else if (ns < 1000000000)
        snprintf(text, size, "%.1fms", (double)ns / 1000000);
    else
        snprintf(text, size, "%.1fs", (double)ns / 1e9);
    return text;
}

static const char *depth_text(int64_t depth, char *text, size_t size)
{
    if (depth < 0)
        snprintf(text, size, "?");
    else
        snprintf(text, size, "%" PRId64, depth);
    return text;
}

/* ---- Lines ---- */

static void cut(FILE *out, const struct top_view *view, const char *line)
{
    int len = (int)strlen(line);

    if (view->columns && len > view->columns)
        len = view->columns;
    fprintf(out, "%.*s\n", len, line);
}

static void print_line(FILE *out, const struct top_view *view, const char *who, const char *life,
                       const struct line *line, const char *what)
{
    char calls[24], sent[24], received[24], again[24], complete[24], errors[24], p50[24], p99[24];
    char tx[24], rx[24], text[1024];

    snprintf(text, sizeof(text), "%-24.24s %-5s %7s %7s %7s %7s %7s %6s %7s %7s %8s %8s  %s", who,
             life, human(line->calls, calls, sizeof(calls)),
             human(line->done, complete, sizeof(complete)), human(line->sent, sent, sizeof(sent)),
             human(line->received, received, sizeof(received)),
             human(line->again, again, sizeof(again)),
             human((double)line->errors, errors, sizeof(errors)),
             depth_text(line->tx, tx, sizeof(tx)), depth_text(line->rx, rx, sizeof(rx)),
             time_text(line->p50, p50, sizeof(p50)), time_text(line->p99, p99, sizeof(p99)), what);
    cut(out, view, text);
}

static const char *class_name(uint32_t fclass)
{
    switch (fclass) {
    case FI_CLASS_DOMAIN: return "domain";
    case FI_CLASS_EP: return "ep";
    case FI_CLASS_SEP: return "sep";
    case FI_CLASS_RX_CTX: return "rx";
    case FI_CLASS_SRX_CTX: return "srx";
    case FI_CLASS_TX_CTX: return "tx";
    case FI_CLASS_CQ: return "cq";
    default: return "object";
    }
}

static const char *life_text(enum mon_life life)
{
    switch (life) {
    case MON_RUNS: return "runs";
    case MON_CLOSED: return "done";
    case MON_GONE: return "STALE";
    default: return "?";
    }
}

/* Counts that move to the closed ones are of before. */
static bool shows(const struct mon_page *page, uint32_t object, bool rates)
{
    const struct mon_object *it = &page->objects[object];

    if (!object)
        return !rates && (it->sum.calls || done(&it->sum));
    return it->serial != 0;
}

static void print_objects(FILE *out, const struct top_view *view, const struct item *item,
                          double seconds, int *left)
{
    const struct mon_page *page = item->file->page;

    for (uint32_t i = 0; i <= page->header.object_count && *left > 0; i++) {
        const struct mon_object *object = &page->objects[i];
        const struct mon_object *then = NULL;
        char who[64];
        struct line line;

        if (!shows(page, i, item->before))
            continue;
        if (item->before && item->before->page->objects[i].serial == object->serial)
            then = &item->before->page->objects[i];
        line = line_of(page, &object->sum, then ? &then->sum : NULL, seconds);
        /* Endpoints know the posts, queues the completions. */
        line.tx = line.rx = -1;
        snprintf(who, sizeof(who), "  %s %u", i ? class_name(object->fclass) : "closed", i);
        print_line(out, view, who, "", &line, object->name);
        --*left;
    }
}

static void print_item(FILE *out, const struct top_view *view, const struct item *item)
{
    const struct weft_monitor_header *header = &item->file->page->header;
    char who[96], over[sizeof(header->stack) + sizeof(header->whole) + 8];

    snprintf(who, sizeof(who), "%7" PRIu32 " %s", header->pid, header->program);
    if (header->whole[0] && strcmp(header->whole, header->stack) != 0)
        snprintf(over, sizeof(over), "%s in %s", header->stack, header->whole);
    else
        snprintf(over, sizeof(over), "%s", header->stack);
    print_line(out, view, who, life_text(item->file->life), &item->line, over);
}

/* ---- Exact counts, one "key=value ..." line for each process and function ---- */

static void print_raw(FILE *out, const struct mon_file *file)
{
    const struct mon_page *page = file->page;
    const struct weft_monitor_header *header = &page->header;
    const struct mon_sum *sum = &page->sum;

    fprintf(out,
            "process pid=%" PRIu32 " state=%s threads=%" PRIu32 " calls=%" PRIu64
            " completions=%" PRIu64 " errors=%" PRIu64 " cancelled=%" PRIu64 " again=%" PRIu64
            " failed=%" PRIu64 " bytes=%" PRIu64 " tx_queue=%" PRId64 " rx_queue=%" PRId64
            " unexpected=%" PRIu64 " lost=%" PRIu64 " program=%s stack=%s whole=%s\n",
            header->pid, life_text(file->life), page->threads, sum->calls, done(sum),
            sum->counts[WEFT_MONITOR_ERRORS], sum->counts[WEFT_MONITOR_CANCELLED], sum->again,
            sum->failed, sum->bytes, mon_depth(page, sum, false), mon_depth(page, sum, true),
            sum->counts[WEFT_MONITOR_UNEXPECTED], header->lost, header->program, header->stack,
            header->whole);
    for (uint32_t call = 0; call < header->call_count; call++) {
        uint64_t count = 0, bytes = 0;

        for (int size = 0; size < WEFT_MONITOR_SIZES; size++) {
            count += page->cells[call][size].count;
            bytes += page->cells[call][size].bytes;
        }
        if (count || page->again[call] || page->failed[call])
            fprintf(out,
                    "call pid=%" PRIu32 " name=%s count=%" PRIu64 " bytes=%" PRIu64
                    " again=%" PRIu64 " failed=%" PRIu64 "\n",
                    header->pid, header->names[call], count, bytes, page->again[call],
                    page->failed[call]);
    }
}

/* ---- All of it ---- */

static int collect(const struct top_view *view, const struct top_reading *before,
                   const struct top_reading *now, struct item *items)
{
    double seconds = before ? now->seconds - before->seconds : 0;
    int count = 0;

    for (int i = 0; i < now->count; i++) {
        const struct mon_file *file = &now->files[i];
        struct item *item = &items[count];

        if (!file->page || (view->pid && file->page->header.pid != view->pid))
            continue;
        item->file = file;
        item->before = same(before, file);
        item->line = line_of(file->page, &file->page->sum,
                             item->before ? &item->before->page->sum : NULL, seconds);
        latencies(file->page, item->before ? item->before->page : NULL, &item->line);
        item->key = key_of(view, item);
        count++;
    }
    qsort(items, (size_t)count, sizeof(*items), compare);
    return count;
}

static void print_head(FILE *out, const struct top_view *view, bool rates, int processes)
{
    char text[256];

    snprintf(text, sizeof(text), "fi_top: %d %s, %s, by %s", processes,
             processes == 1 ? "process" : "processes", rates ? "a second" : "since the start",
             top_sort_names[view->sort]);
    cut(out, view, text);
    snprintf(text, sizeof(text), "%-24s %-5s %7s %7s %7s %7s %7s %6s %7s %7s %8s %8s  %s",
             "    PID PROGRAM", "STATE", "CALLS", "DONE", "SENT B", "RECV B", "EAGAIN", "ERRORS",
             "TX OPEN", "RX OPEN", "P50", "P99", "OVER");
    cut(out, view, text);
}

static int bad_files(FILE *out, const struct top_view *view, const struct top_reading *now)
{
    char text[4096];
    int bad = 0;

    for (int i = 0; i < now->count; i++) {
        if (now->files[i].page)
            continue;
        snprintf(text, sizeof(text), "not read: %s: %s", now->files[i].path, now->files[i].why);
        cut(out, view, text);
        bad++;
    }
    return bad;
}

void top_print(const struct top_view *view, const struct top_reading *before,
               const struct top_reading *now, const char *path, FILE *out)
{
    struct item *items = calloc((size_t)now->count + 1, sizeof(*items));
    int count = items ? collect(view, before, now, items) : 0;
    int left = view->rows ? view->rows - 3 : INT32_MAX;

    if (!count) {
        fprintf(out, "fi_top: nothing to show in %s: run a program with FI_HOOK=monitor\n", path);
    } else if (view->raw) {
        for (int i = 0; i < count; i++)
            print_raw(out, items[i].file);
    } else {
        print_head(out, view, before, count);
    }
    for (int i = 0; i < count && !view->raw && left > 0; i++, left--) {
        print_item(out, view, &items[i]);
        if (view->objects)
            print_objects(out, view, &items[i], before ? now->seconds - before->seconds : 0, &left);
    }
    if (left > 0)
        bad_files(out, view, now);
    free(items);
}
