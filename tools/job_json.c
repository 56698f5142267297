/* SPDX-License-Identifier: BSD-2-Clause */
/* A job as JSON. */
#include <ctype.h>
#include <inttypes.h>

#include "job_print.h"

static void print_string(const char *text, FILE *out)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(isprint((unsigned char)*text) ? *text : '?', out);
    }
    fputc('"', out);
}

static void print_counts(const struct job_process *it, FILE *out)
{
    fprintf(out,
            "\"posted\":%" PRIu64 ",\"sent\":%" PRIu64 ",\"sent_bytes\":%" PRIu64
            ",\"again\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"completions\":%" PRIu64
            ",\"errors\":%" PRIu64 ",\"reads\":%" PRIu64 ",\"empty_reads\":%" PRIu64,
            it->posted, it->sent, it->sent_bytes, it->again, it->failed, it->completions,
            it->errors, it->reads, it->empty_reads);
    if (it->knows_received)
        fprintf(out, ",\"received\":%" PRIu64 ",\"received_bytes\":%" PRIu64, it->received,
                it->received_bytes);
    if (it->knows_waits)
        fprintf(out, ",\"most_waiting\":%" PRIu64, it->most_waiting);
}

static void print_quantiles(const struct job_times *times, FILE *out)
{
    static const double parts[] = {0.5, 0.9, 0.99, 0.999, 1};

    fprintf(out, "\"timed\":%" PRIu64 ",\"ns\":{", times->count);
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        fprintf(out, "%s\"%g\":%" PRIu64, i ? "," : "", parts[i], job_quantile(times, parts[i]));
    fputc('}', out);
}

static void print_process(const struct job_process *it, FILE *out)
{
    const char *comma = "";

    fputs("{\"program\":", out);
    print_string(it->program, out);
    fputs(",\"host\":", out);
    print_string(it->host, out);
    fprintf(out, ",\"pid\":%" PRIu64, it->pid);
    if (it->rank >= 0)
        fprintf(out, ",\"rank\":%ld", it->rank);
    fprintf(out, ",\"started\":%.6f,\"elapsed\":%.6f,", it->started, it->elapsed);
    print_counts(it, out);
    fputs(",\"classes\":{", out);
    for (int class = 0; class < JOB_CLASSES; class ++) {
        if (!it->times[class].count)
            continue;
        fprintf(out, "%s\"%s\":{", comma, job_class_names[class]);
        print_quantiles(&it->times[class], out);
        fputc('}', out);
        comma = ",";
    }
    fputs("}}", out);
}

static void print_calls(const struct job_section *section, FILE *out)
{
    fputs(",\"calls\":{", out);
    for (int i = 0; i < section->call_count; i++) {
        const struct job_call *call = &section->calls[i];

        fputs(i ? "," : "", out);
        print_string(call->name, out);
        fprintf(out,
                ":{\"accepted\":%" PRIu64 ",\"again\":%" PRIu64 ",\"retried\":%" PRIu64
                ",\"failed\":%" PRIu64,
                call->accepted, call->again, call->retried, call->failed);
        if (!call->receives)
            fprintf(out, ",\"bytes\":%" PRIu64, call->bytes);
        fputc('}', out);
    }
    fputc('}', out);
}

static void print_latency(const struct job_section *section, FILE *out)
{
    const char *comma = "";

    fputs(",\"latency\":[", out);
    for (int n = 0; n < JOB_CLASSES * JOB_BANDS; n++) {
        const struct job_times *times = section->times[n / JOB_BANDS][n % JOB_BANDS];

        if (!times || !times->count)
            continue;
        fprintf(out, "%s{\"class\":\"%s\",\"bytes\":\"%s\",", comma, job_class_names[n / JOB_BANDS],
                job_band_names[n % JOB_BANDS]);
        print_quantiles(times, out);
        fputc('}', out);
        comma = ",";
    }
    fputc(']', out);
}

static void print_extremes(const struct job_section *section, FILE *out)
{
    const char *comma = "";

    fputs(",\"extremes\":[", out);
    for (int figure = 0; figure < JOB_FIGURES; figure++) {
        struct job_extremes it;

        if (!job_extremes(section, (enum job_figure)figure, &it))
            continue;
        fprintf(out,
                "%s{\"what\":\"%s\",\"least\":%.3f,\"least_process\":%d,\"mean\":%.3f,"
                "\"most\":%.3f,\"most_process\":%d}",
                comma, job_figure_names[figure], it.least, it.least_at, it.mean, it.most,
                it.most_at);
        comma = ",";
    }
    fputc(']', out);
}

static void print_matrix(const struct job_section *section, bool bytes, FILE *out)
{
    fprintf(out, ",\"%s\":[", bytes ? "bytes" : "messages");
    for (int from = 0; from < section->count; from++) {
        fputs(from ? ",[" : "[", out);
        for (int to = 0; to < section->count; to++) {
            const struct job_cell *cell = &section->matrix[from * section->count + to];

            fprintf(out, "%s%" PRIu64, to ? "," : "", bytes ? cell->bytes : cell->messages);
        }
        fputc(']', out);
    }
    fputs("],", out);
    fprintf(out, "\"%s_elsewhere\":[", bytes ? "bytes" : "messages");
    for (int from = 0; from < section->count; from++) {
        const struct job_cell *cell = &section->processes[from].elsewhere;

        fprintf(out, "%s%" PRIu64, from ? "," : "", bytes ? cell->bytes : cell->messages);
    }
    fputc(']', out);
}

void job_print_json(const struct job *job, FILE *out)
{
    fputs("{\"sections\":[", out);
    for (int i = 0; i < job->section_count; i++) {
        const struct job_section *section = &job->sections[i];
        const struct job_process total = job_total(section);

        fputs(i ? ",\n{\"over\":" : "\n{\"over\":", out);
        print_string(section->over, out);
        fprintf(out, ",\"missing_ranks\":%ld,\"total\":{", section->missing);
        print_counts(&total, out);
        fputs("},\"processes\":[", out);
        for (int n = 0; n < section->count; n++) {
            fputs(n ? ",\n" : "\n", out);
            print_process(&section->processes[n], out);
        }
        fputc(']', out);
        print_calls(section, out);
        print_latency(section, out);
        print_extremes(section, out);
        if (section->matrix) {
            print_matrix(section, true, out);
            print_matrix(section, false, out);
        }
        fputc('}', out);
    }
    fputs("\n]}\n", out);
}
