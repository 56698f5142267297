/* SPDX-License-Identifier: BSD-2-Clause */
#include "job_model.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_read.h"

const char *const job_class_names[JOB_CLASSES] = {"receive", "send",   "read",
                                                  "write",   "atomic", "collective"};
const char *const job_band_names[JOB_BANDS] = {
    "0-63", "64-511", "512-1023", "1k-4k", "4k-64k", "64k-256k", "256k-1M", "1M-4M", "4M-", "?",
};
static const uint64_t band_starts[JOB_BANDS - 1] = {0,     64,     512,     1024,   4096,
                                                    65536, 262144, 1048576, 4194304};
enum {
    RECEIVE,
    SEND
};

/* ---- Reports ---- */

static bool same_layer(const struct json *a, const struct json *b)
{
    return json_count(a, "pid") == json_count(b, "pid") &&
           json_count(a, "layer") == json_count(b, "layer") &&
           json_real(a, "started") == json_real(b, "started") &&
           !strcmp(json_text(a, "host"), json_text(b, "host")) &&
           !strcmp(json_text(a, "over"), json_text(b, "over"));
}

static bool add_report(struct job *job, struct json *report)
{
    struct job_source *grown;

    for (int i = 0; i < job->source_count; i++) {
        if (!same_layer(job->sources[i].report, report))
            continue;
        json_free(job->sources[i].report);
        job->sources[i].report = report;
        return true;
    }
    if (job->source_count == job->source_room) {
        job->source_room = job->source_room ? job->source_room * 2 : 16;
        grown = realloc(job->sources, (size_t)job->source_room * sizeof(*grown));
        if (!grown)
            return false;
        job->sources = grown;
    }
    job->sources[job->source_count++] = (struct job_source){report, 0, 0};
    return true;
}

/* Programs that share standard error with their reports have other lines there. */
static bool looks_like_report(const char *line, size_t len)
{
    static const char begin[] = "{\"over\":";

    return len >= sizeof(begin) - 1 && !memcmp(line, begin, sizeof(begin) - 1);
}

bool job_add(struct job *job, const char *name, const char *text, size_t len,
             void (*complain)(const char *name, int line, const char *why))
{
    const char *end = text + len, *next;
    int number = 0;

    for (const char *line = text; line < end; line = next) {
        const char *why = "it is no report";
        struct json *report;

        next = memchr(line, '\n', (size_t)(end - line));
        next = next ? next + 1 : end;
        number++;
        if (!looks_like_report(line, (size_t)(next - line)))
            continue;
        report = json_read(line, (size_t)(next - line), &why);
        if (report && !json_get(report, "completions")) { /* the layer perf has none */
            json_free(report);
            continue;
        }
        if (!report)
            complain(name, number, why);
        else if (!add_report(job, report)) {
            json_free(report);
            return false;
        }
    }
    return true;
}

/* ---- Sections and processes ---- */

static int section_of(struct job *job, const char *over)
{
    struct job_section *grown;

    for (int i = 0; i < job->section_count; i++)
        if (!strcmp(job->sections[i].over, over))
            return i;
    grown = realloc(job->sections, (size_t)(job->section_count + 1) * sizeof(*grown));
    if (!grown)
        return -1;
    job->sections = grown;
    memset(&grown[job->section_count], 0, sizeof(*grown));
    grown[job->section_count].over = strdup(over);
    return grown[job->section_count].over ? job->section_count++ : -1;
}

static void name_process(struct job_process *process, const struct json *report)
{
    const struct json *rank = json_get(report, "rank");

    snprintf(process->program, sizeof(process->program), "%s", json_text(report, "program"));
    snprintf(process->host, sizeof(process->host), "%s", json_text(report, "host"));
    process->pid = json_count(report, "pid");
    process->rank = rank && json_uint(rank) < INT32_MAX ? (long)json_uint(rank) : -1;
    process->started = json_real(report, "started");
    if (process->rank >= 0)
        snprintf(process->label, sizeof(process->label), "rank %ld", process->rank);
    else
        snprintf(process->label, sizeof(process->label), "%.60s %llu", process->host,
                 (unsigned long long)process->pid);
}

static int process_of(struct job_section *section, const struct json *report)
{
    struct job_process *grown;

    for (int i = 0; i < section->count; i++)
        if (section->processes[i].pid == json_count(report, "pid") &&
            !strcmp(section->processes[i].host, json_text(report, "host")))
            return i;
    if (section->count == section->room) {
        section->room = section->room ? section->room * 2 : 8;
        grown = realloc(section->processes, (size_t)section->room * sizeof(*grown));
        if (!grown)
            return -1;
        section->processes = grown;
    }
    grown = &section->processes[section->count];
    memset(grown, 0, sizeof(*grown));
    name_process(grown, report);
    grown->times = calloc(JOB_CLASSES, sizeof(*grown->times));
    return grown->times ? section->count++ : -1;
}

static int by_rank(const void *a, const void *b)
{
    const struct job_process *x = a, *y = b;
    int hosts = strcmp(x->host, y->host);

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (hosts)
        return hosts;
    return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static void note_ranks(struct job_section *section)
{
    long largest = -1, different = 0;

    section->ranked = true;
    for (int i = 0; i < section->count; i++) {
        long rank = section->processes[i].rank;

        section->ranked = section->ranked && rank >= 0;
        different += !i || rank != section->processes[i - 1].rank;
        largest = rank > largest ? rank : largest;
    }
    section->missing = section->ranked ? largest + 1 - different : 0;
}

static bool find_processes(struct job *job)
{
    for (int i = 0; i < job->source_count; i++) {
        struct job_source *source = &job->sources[i];

        source->section = section_of(job, json_text(source->report, "over"));
        if (source->section < 0 || process_of(&job->sections[source->section], source->report) < 0)
            return false;
    }
    for (int i = 0; i < job->section_count; i++) {
        qsort(job->sections[i].processes, (size_t)job->sections[i].count,
              sizeof(struct job_process), by_rank);
        note_ranks(&job->sections[i]);
    }
    for (int i = 0; i < job->source_count; i++) {
        struct job_source *source = &job->sources[i];

        source->process = process_of(&job->sections[source->section], source->report);
    }
    return true;
}

/* ---- Counts ---- */

static struct job_call *call_of(struct job_section *section, const char *name)
{
    struct job_call *grown;

    for (int i = 0; i < section->call_count; i++)
        if (!strcmp(section->calls[i].name, name))
            return &section->calls[i];
    grown = realloc(section->calls, (size_t)(section->call_count + 1) * sizeof(*grown));
    if (!grown)
        return NULL;
    section->calls = grown;
    grown = &section->calls[section->call_count++];
    memset(grown, 0, sizeof(*grown));
    snprintf(grown->name, sizeof(grown->name), "%s", name);
    grown->receives = !strncmp(name, "fi_recv", 7) || !strncmp(name, "fi_trecv", 8);
    return grown;
}

static bool add_calls(struct job_section *section, struct job_process *process,
                      const struct json *report)
{
    const struct json *calls = json_get(report, "calls");

    for (const struct json *it = calls ? calls->first : NULL; it; it = it->next) {
        char name[32];
        uint64_t refused = json_count(it, "again") + json_count(it, "failed");
        uint64_t accepted = json_count(it, "calls") - refused;
        struct job_call *call;

        if (it->kind != JSON_OBJECT || json_count(it, "calls") < refused || !it->name)
            continue;
        snprintf(name, sizeof(name), "%s", it->name);
        call = call_of(section, name);
        if (!call)
            return false;
        call->accepted += accepted;
        call->again += json_count(it, "again");
        call->failed += json_count(it, "failed");
        call->retried += json_count(it, "retried");
        call->bytes += json_count(it, "bytes");
        process->posted += accepted;
        process->again += json_count(it, "again");
        process->failed += json_count(it, "failed");
        if (call->receives)
            continue;
        process->sent += accepted;
        process->sent_bytes += json_count(it, "bytes");
    }
    return true;
}

static void add_queue(struct job_process *process, const struct json *report)
{
    const struct json *received = json_get(report, "received");
    uint64_t most = json_count(report, "most_waiting");
    double elapsed = json_real(report, "elapsed");

    process->received += json_count(received, "messages");
    process->received_bytes += json_count(received, "bytes");
    process->knows_received = process->knows_received || received;
    process->completions += json_count(report, "completions");
    process->errors += json_count(report, "errors");
    process->reads += json_count(report, "reads");
    process->empty_reads += json_count(report, "empty_reads");
    process->knows_waits = process->knows_waits || json_get(report, "most_waiting");
    process->most_waiting = most > process->most_waiting ? most : process->most_waiting;
    process->elapsed = elapsed > process->elapsed ? elapsed : process->elapsed;
}

/* ---- Times ---- */

static unsigned bucket_of(uint64_t ns)
{
    unsigned power, bucket;

    if (ns < 32)
        return (unsigned)ns;
    power = 63 - (unsigned)__builtin_clzll(ns);
    bucket = (power - 4) * 32 + (unsigned)((ns >> (power - 5)) % 32);
    return bucket < JOB_BUCKETS ? bucket : JOB_BUCKETS - 1;
}

static uint64_t bucket_end(unsigned bucket)
{
    unsigned power = bucket / 32 + 4;

    return bucket < 32 ? bucket : ((uint64_t)(32 + bucket % 32 + 1) << (power - 5)) - 1;
}

uint64_t job_quantile(const struct job_times *times, double part)
{
    uint64_t wanted = part < 1 ? (uint64_t)((double)times->count * part) : times->count;
    uint64_t seen = 0, end = 0;

    wanted += (double)wanted < (double)times->count * part || !wanted;
    for (unsigned i = 0; times->count && i < JOB_BUCKETS && seen < wanted; i++) {
        seen += times->buckets[i];
        if (times->buckets[i])
            end = bucket_end(i);
    }
    return end;
}

static unsigned band_of(const struct json *band)
{
    const struct json *from = json_get(band, "from");
    unsigned n = JOB_BANDS - 2;

    if (!from)
        return JOB_BANDS - 1;
    while (n && json_uint(from) < band_starts[n])
        n--;
    return n;
}

static bool add_band(struct job_section *section, int class, struct job_times *process,
                     const struct json *band)
{
    struct job_times **all = &section->times[class][band_of(band)];
    const struct json *buckets = json_get(band, "buckets");

    if (!*all)
        *all = calloc(1, sizeof(**all));
    if (!*all)
        return false;
    for (const struct json *it = buckets ? buckets->first : NULL; it; it = it->next) {
        uint64_t count = it->first && it->first->next ? json_uint(it->first->next) : 0;
        unsigned bucket = bucket_of(json_uint(it->first));

        (*all)->buckets[bucket] += count;
        (*all)->count += count;
        process->buckets[bucket] += count;
        process->count += count;
    }
    (*all)->sum += json_real(band, "sum");
    process->sum += json_real(band, "sum");
    return true;
}

static bool add_times(struct job_section *section, struct job_process *process,
                      const struct json *report)
{
    const struct json *classes = json_get(report, "classes");

    for (int class = 0; class < JOB_CLASSES; class ++) {
        const struct json *it = json_get(classes, job_class_names[class]);
        const struct json *bands = json_get(it, "by_size");
        struct job_times *times = &process->times[class];

        if (json_count(it, "first_ns") > times->first_ns)
            times->first_ns = json_count(it, "first_ns");
        for (const struct json *band = bands ? bands->first : NULL; band; band = band->next)
            if (!add_band(section, class, times, band))
                return false;
    }
    return true;
}

/* ---- Senders and receivers ---- */

struct owner {
    const char *address, *host;
    int section, process;
};

static int by_address(const void *a, const void *b)
{
    const struct owner *x = a, *y = b;
    int addresses = strcmp(x->address, y->address);

    return addresses ? addresses : x->section - y->section;
}

static struct owner *find_owners(const struct job *job, size_t *ret_count)
{
    struct owner *owners = NULL, *grown;
    size_t count = 0, room = 0;

    for (int i = 0; i < job->source_count; i++) {
        const struct job_source *source = &job->sources[i];
        const struct json *addresses = json_get(source->report, "addresses");

        for (const struct json *it = addresses ? addresses->first : NULL; it; it = it->next) {
            if (it->kind != JSON_STRING)
                continue;
            if (count == room) {
                room = room ? room * 2 : 64;
                grown = realloc(owners, room * sizeof(*owners));
                if (!grown) {
                    free(owners);
                    return NULL;
                }
                owners = grown;
            }
            owners[count++] = (struct owner){it->text, json_text(source->report, "host"),
                                             source->section, source->process};
        }
    }
    if (count)
        qsort(owners, count, sizeof(*owners), by_address);
    *ret_count = count;
    return owners ? owners : calloc(1, sizeof(*owners));
}

/* Machines may have the same names for addresses of their own: the nearer one is meant. */
static int find_owner(const struct owner *owners, size_t count, const struct job_source *source,
                      const char *address)
{
    const struct owner key = {address, NULL, source->section, 0};
    const struct owner *found =
        count ? bsearch(&key, owners, count, sizeof(*owners), by_address) : NULL;
    const struct owner *at = found;

    if (!found)
        return -1;
    while (at > owners && !by_address(at - 1, &key))
        at--;
    for (found = at; at < owners + count && !by_address(at, &key); at++)
        if (!strcmp(at->host, json_text(source->report, "host")))
            return at->process;
    return found->process;
}

static bool add_peers(struct job *job, const struct owner *owners, size_t count,
                      const struct job_source *source)
{
    struct job_section *section = &job->sections[source->section];
    struct job_process *process = &section->processes[source->process];
    const struct json *peers = json_get(source->report, "peers");
    const size_t cells = (size_t)section->count * (size_t)section->count;

    if (peers && !section->matrix && section->count <= JOB_PROCESSES)
        section->matrix = calloc(cells, sizeof(*section->matrix));
    if (peers && !section->matrix)
        return section->count > JOB_PROCESSES;
    for (const struct json *it = peers ? peers->first : NULL; it; it = it->next) {
        int to = find_owner(owners, count, source, json_text(it, "address"));
        struct job_cell *cell =
            to < 0 ? &process->elsewhere : &section->matrix[source->process * section->count + to];

        cell->messages += json_count(it, "messages");
        cell->bytes += json_count(it, "bytes");
    }
    return true;
}

bool job_link(struct job *job)
{
    struct owner *owners;
    size_t count = 0;
    bool ok = find_processes(job);

    owners = ok ? find_owners(job, &count) : NULL;
    ok = owners;
    for (int i = 0; ok && i < job->source_count; i++) {
        const struct job_source *source = &job->sources[i];
        struct job_section *section = &job->sections[source->section];
        struct job_process *process = &section->processes[source->process];

        add_queue(process, source->report);
        ok = add_calls(section, process, source->report) &&
             add_times(section, process, source->report) && add_peers(job, owners, count, source);
    }
    free(owners);
    return ok;
}

void job_free(struct job *job)
{
    for (int i = 0; i < job->source_count; i++)
        json_free(job->sources[i].report);
    for (int i = 0; i < job->section_count; i++) {
        struct job_section *section = &job->sections[i];

        for (int n = 0; n < section->count; n++)
            free(section->processes[n].times);
        for (int n = 0; n < JOB_CLASSES * JOB_BANDS; n++)
            free(section->times[n / JOB_BANDS][n % JOB_BANDS]);
        free(section->processes);
        free(section->calls);
        free(section->matrix);
        free(section->over);
    }
    free(job->sections);
    free(job->sources);
    memset(job, 0, sizeof(*job));
}

/* ---- Extremes ---- */

const char *const job_figure_names[JOB_FIGURES] = {
    [JOB_SENT] = "operations sent",
    [JOB_SENT_BYTES] = "bytes sent",
    [JOB_RECEIVED_BYTES] = "bytes received",
    [JOB_AGAIN] = "-FI_EAGAIN",
    [JOB_ERRORS] = "errors",
    [JOB_MOST_WAITING] = "waiting at once",
    [JOB_SEND_P50] = "send p50, us",
    [JOB_SEND_P99] = "send p99, us",
    [JOB_RECEIVE_P50] = "receive p50, us",
    [JOB_ELAPSED] = "elapsed, s",
};

static bool quantile_of(const struct job_times *times, double part, double *value)
{
    *value = (double)job_quantile(times, part) / 1000;
    return times->count > 0;
}

static bool figure_of(const struct job_process *process, enum job_figure figure, double *value)
{
    switch (figure) {
    case JOB_SENT: *value = (double)process->sent; return true;
    case JOB_SENT_BYTES: *value = (double)process->sent_bytes; return true;
    case JOB_RECEIVED_BYTES:
        *value = (double)process->received_bytes;
        return process->knows_received;
    case JOB_AGAIN: *value = (double)process->again; return true;
    case JOB_ERRORS: *value = (double)(process->errors + process->failed); return true;
    case JOB_MOST_WAITING: *value = (double)process->most_waiting; return process->knows_waits;
    case JOB_SEND_P50: return quantile_of(&process->times[SEND], 0.5, value);
    case JOB_SEND_P99: return quantile_of(&process->times[SEND], 0.99, value);
    case JOB_RECEIVE_P50: return quantile_of(&process->times[RECEIVE], 0.5, value);
    default: *value = process->elapsed; return true;
    }
}

bool job_extremes(const struct job_section *section, enum job_figure figure,
                  struct job_extremes *extremes)
{
    memset(extremes, 0, sizeof(*extremes));
    for (int i = 0; i < section->count; i++) {
        double value;

        if (!figure_of(&section->processes[i], figure, &value))
            continue;
        if (!extremes->count || value < extremes->least) {
            extremes->least = value;
            extremes->least_at = i;
        }
        if (!extremes->count || value > extremes->most) {
            extremes->most = value;
            extremes->most_at = i;
        }
        extremes->mean += value;
        extremes->count++;
    }
    if (extremes->count)
        extremes->mean /= extremes->count;
    return extremes->count > 0;
}
