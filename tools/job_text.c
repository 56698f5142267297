/* SPDX-License-Identifier: BSD-2-Clause */
/* A job as text. */
#include <inttypes.h>
#include <string.h>

#include "job_print.h"

enum {
    SHOWN = 32, /* processes of a table */
};

char *job_human(double value, char *text, size_t size)
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

static int hosts_of(const struct job_section *section)
{
    int hosts = 0;

    for (int i = 0; i < section->count; i++) {
        int before = 0;

        while (before < i && strcmp(section->processes[before].host, section->processes[i].host))
            before++;
        hosts += before == i;
    }
    return hosts;
}

char *job_title(const struct job_section *section, char *text, size_t size)
{
    const char *program = section->processes[0].program;
    const int hosts = hosts_of(section);
    double elapsed = 0;

    for (int i = 0; i < section->count; i++) {
        if (strcmp(section->processes[i].program, program) != 0)
            program = "several programs";
        if (section->processes[i].elapsed > elapsed)
            elapsed = section->processes[i].elapsed;
    }
    snprintf(text, size, "%d %s of %s over %s, on %d %s, %.3f s", section->count,
             section->count == 1 ? "process" : "processes", program, section->over, hosts,
             hosts == 1 ? "machine" : "machines", elapsed);
    return text;
}

struct job_process job_total(const struct job_section *section)
{
    struct job_process total = {0};

    for (int i = 0; i < section->count; i++) {
        const struct job_process *it = &section->processes[i];

        total.posted += it->posted;
        total.sent += it->sent;
        total.sent_bytes += it->sent_bytes;
        total.received += it->received;
        total.received_bytes += it->received_bytes;
        total.again += it->again;
        total.failed += it->failed;
        total.errors += it->errors;
        total.completions += it->completions;
        total.reads += it->reads;
        total.empty_reads += it->empty_reads;
        total.knows_received = total.knows_received || it->knows_received;
        total.elsewhere.messages += it->elsewhere.messages;
        total.elsewhere.bytes += it->elsewhere.bytes;
    }
    return total;
}

bool job_has_matrix(const struct job_section *section)
{
    for (int i = 0; section->matrix && i < section->count * section->count; i++)
        if (section->matrix[i].messages)
            return true;
    return false;
}

static void print_total(const struct job_section *section, FILE *out)
{
    const struct job_process total = job_total(section);

    fprintf(out, "sent: %" PRIu64 " operations, %" PRIu64 " bytes; ", total.sent, total.sent_bytes);
    if (total.knows_received)
        fprintf(out, "received: %" PRIu64 " messages, %" PRIu64 " bytes\n", total.received,
                total.received_bytes);
    else
        fputs("what was received is not known (queues without lengths)\n", out);
    fprintf(out,
            "completions: %" PRIu64 ", and %" PRIu64
            " in error; calls answered -FI_EAGAIN: %" PRIu64 ", failed: %" PRIu64 "\n",
            total.completions, total.errors, total.again, total.failed);
    if (section->missing)
        fprintf(out, "not complete: %ld lower %s no report\n", section->missing,
                section->missing == 1 ? "rank has" : "ranks have");
}

static void print_calls(const struct job_section *section, FILE *out)
{
    fprintf(out, "\n%-22s %14s %14s %14s %14s %18s\n", "call", "accepted", "FI_EAGAIN", "retried",
            "failed", "bytes");
    for (int i = 0; i < section->call_count; i++) {
        const struct job_call *call = &section->calls[i];

        fprintf(out, "%-22s %14" PRIu64 " %14" PRIu64 " %14" PRIu64 " %14" PRIu64, call->name,
                call->accepted, call->again, call->retried, call->failed);
        if (call->receives)
            fprintf(out, " %18s\n", "-");
        else
            fprintf(out, " %18" PRIu64 "\n", call->bytes);
    }
}

static void print_time(const struct job_times *times, double part, FILE *out)
{
    if (times->count)
        fprintf(out, " %10.2f", (double)job_quantile(times, part) / 1000);
    else
        fprintf(out, " %10s", "-");
}

static void print_processes(const struct job_section *section, FILE *out)
{
    fprintf(out, "\n%-16s %-16s %8s %9s %10s %14s %10s %14s %10s %10s %10s\n", "process", "machine",
            "pid", "elapsed s", "sent", "bytes", "received", "bytes", "send p50", "p99 us",
            "EAGAIN");
    for (int i = 0; i < section->count && i < SHOWN; i++) {
        const struct job_process *it = &section->processes[i];

        fprintf(out,
                "%-16.40s %-16.40s %8" PRIu64 " %9.3f %10" PRIu64 " %14" PRIu64 " %10" PRIu64
                " %14" PRIu64,
                it->label, it->host, it->pid, it->elapsed, it->sent, it->sent_bytes, it->received,
                it->received_bytes);
        print_time(&it->times[1], 0.5, out);
        print_time(&it->times[1], 0.99, out);
        fprintf(out, " %10" PRIu64 "\n", it->again);
    }
    if (section->count > SHOWN)
        fprintf(out, "and %d more: see --json\n", section->count - SHOWN);
}

static void print_number(double value, FILE *out)
{
    fprintf(out, value < 1000 && value != (double)(int64_t)value ? " %14.2f" : " %14.0f", value);
}

static void print_extremes(const struct job_section *section, FILE *out)
{
    fprintf(out, "\n%-18s %14s %-16s %14s %14s  %s\n", "of each process", "least", "", "mean",
            "most", "");
    for (int figure = 0; figure < JOB_FIGURES; figure++) {
        struct job_extremes it;

        if (!job_extremes(section, (enum job_figure)figure, &it))
            continue;
        fprintf(out, "%-18s", job_figure_names[figure]);
        print_number(it.least, out);
        fprintf(out, " %-16.40s", it.least < it.most ? section->processes[it.least_at].label : "");
        print_number(it.mean, out);
        print_number(it.most, out);
        if (it.least < it.most)
            fprintf(out, "  %.40s\n", section->processes[it.most_at].label);
        else
            fputs("  all the same\n", out);
    }
}

static void print_times(const struct job_section *section, FILE *out)
{
    bool any = false;

    for (int class = 0; class < JOB_CLASSES; class ++) {
        for (int band = 0; band < JOB_BANDS; band++) {
            const struct job_times *times = section->times[class][band];

            if (!times || !times->count)
                continue;
            if (!any)
                fprintf(out, "\n%-11s %10s %8s %10s %10s %10s %10s %10s\n", "to complete", "bytes",
                        "timed", "p50 us", "p90", "p99", "p99.9", "max");
            any = true;
            fprintf(out, "%-11s %10s %8" PRIu64, job_class_names[class], job_band_names[band],
                    times->count);
            print_time(times, 0.5, out);
            print_time(times, 0.9, out);
            print_time(times, 0.99, out);
            print_time(times, 0.999, out);
            print_time(times, 1, out);
            fputc('\n', out);
        }
    }
    for (int class = 0; class < JOB_CLASSES; class ++) {
        uint64_t most = 0;

        for (int i = 0; i < section->count; i++)
            if (section->processes[i].times[class].first_ns > most)
                most = section->processes[i].times[class].first_ns;
        if (most)
            fprintf(out,
                    "first %s: %.2f us at most; not counted above, it may have had to connect\n",
                    job_class_names[class], (double)most / 1000);
    }
}

static const char *short_label(const struct job_section *section, int process, char *text,
                               size_t size)
{
    const struct job_process *it = &section->processes[process];

    if (it->rank >= 0)
        snprintf(text, size, "%ld", it->rank);
    else
        snprintf(text, size, "%" PRIu64, it->pid);
    return text;
}

static void print_matrix(const struct job_section *section, bool bytes, FILE *out)
{
    char text[32];

    fprintf(out, "\n%s from (row) to (column)\n%-8s", bytes ? "bytes" : "operations", "");
    for (int to = 0; to < section->count && to < SHOWN; to++)
        fprintf(out, " %6s", short_label(section, to, text, sizeof(text)));
    fprintf(out, " %9s\n", "elsewhere");
    for (int from = 0; from < section->count && from < SHOWN; from++) {
        const struct job_cell *elsewhere = &section->processes[from].elsewhere;

        fprintf(out, "%-8s", short_label(section, from, text, sizeof(text)));
        for (int to = 0; to < section->count && to < SHOWN; to++) {
            const struct job_cell *cell = &section->matrix[from * section->count + to];

            if (cell->messages)
                fprintf(
                    out, " %6s",
                    job_human((double)(bytes ? cell->bytes : cell->messages), text, sizeof(text)));
            else
                fprintf(out, " %6s", "-");
        }
        fprintf(out, " %9s\n",
                elsewhere->messages
                    ? job_human((double)(bytes ? elsewhere->bytes : elsewhere->messages), text,
                                sizeof(text))
                    : "-");
    }
    if (section->count > SHOWN)
        fprintf(out, "and %d more: see --json\n", section->count - SHOWN);
}

void job_print_text(const struct job *job, FILE *out)
{
    char title[512];

    for (int i = 0; i < job->section_count; i++) {
        const struct job_section *section = &job->sections[i];

        fprintf(out, "%s%s\n", i ? "\n\n" : "", job_title(section, title, sizeof(title)));
        print_total(section, out);
        print_calls(section, out);
        print_times(section, out);
        print_processes(section, out);
        if (section->count > 1)
            print_extremes(section, out);
        if (job_has_matrix(section)) {
            print_matrix(section, true, out);
            print_matrix(section, false, out);
        } else if (section->count > JOB_PROCESSES) {
            fprintf(out, "\nwhat went to whom is shown of %d processes at most\n", JOB_PROCESSES);
        }
    }
}
