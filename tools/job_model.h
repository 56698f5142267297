/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports of the layer `profile` (format=json) of all processes of a job, put together: one section
 * for each place of the stack, with its processes, their counts, and the traffic between them. The
 * contents of files are not trusted.
 */
#ifndef WEFT_JOB_MODEL_H
#define WEFT_JOB_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    JOB_BUCKETS = 1920, /* of times, as the layer has them: 1/32 wide */
    JOB_CLASSES = 6,
    JOB_BANDS = 10,       /* of sizes; the last: not known */
    JOB_PROCESSES = 1024, /* of which a matrix is made */
};

extern const char *const job_class_names[JOB_CLASSES];
extern const char *const job_band_names[JOB_BANDS];

struct job_times {
    uint64_t count, first_ns; /* first_ns: the longest of those that may have had to connect */
    double sum;
    uint64_t buckets[JOB_BUCKETS];
};

struct job_call {
    char name[32];
    uint64_t accepted, again, failed, retried, bytes;
    bool receives;
};

struct job_cell {
    uint64_t messages, bytes;
};

struct job_process {
    char program[64], host[64], label[96]; /* "rank 3", or "host 4711" */
    uint64_t pid;
    long rank; /* -1: not known */
    double started, elapsed;
    uint64_t posted, sent, sent_bytes; /* posted: receives too */
    uint64_t received, received_bytes;
    uint64_t again, failed, errors, completions, reads, empty_reads, most_waiting;
    bool knows_waits, knows_received;
    struct job_times *times;   /* of each class */
    struct job_cell elsewhere; /* to addresses that no report has as its own */
};

struct job_section {
    char *over;
    struct job_process *processes; /* by rank, host, pid */
    int count, room;
    struct job_call *calls;
    int call_count;
    struct job_times *times[JOB_CLASSES][JOB_BANDS]; /* of all; NULL: none was timed */
    struct job_cell *matrix; /* [from * count + to]; NULL: too many processes, or nothing known */
    bool ranked;             /* all have a rank */
    long missing;            /* ranks below the largest without a report */
};

struct job_source {
    struct json *report;
    int section, process;
};

struct job {
    struct job_section *sections;
    int section_count;
    struct job_source *sources;
    int source_count, source_room;
};

/* All reports in a text, one a line; lines that are none are skipped, of several of one layer and
 * process the last counts. name: for `complain`, which is called for incomplete reports. False: no
 * memory. */
bool job_add(struct job *job, const char *name, const char *text, size_t len,
             void (*complain)(const char *name, int line, const char *why));
/* When all are added. False without memory. */
bool job_link(struct job *job);
void job_free(struct job *job);

/* ns that `part` (0 to 1) of them took at most. */
uint64_t job_quantile(const struct job_times *times, double part);

/* A figure of each process, and which have the least and the most. */
enum job_figure {
    JOB_SENT,
    JOB_SENT_BYTES,
    JOB_RECEIVED_BYTES,
    JOB_AGAIN,
    JOB_ERRORS,
    JOB_MOST_WAITING,
    JOB_SEND_P50,
    JOB_SEND_P99,
    JOB_RECEIVE_P50,
    JOB_ELAPSED,
    JOB_FIGURES,
};
struct job_extremes {
    double least, mean, most;
    int least_at, most_at, count; /* count: processes that have the figure */
};
extern const char *const job_figure_names[JOB_FIGURES];
/* False: no process has it. */
bool job_extremes(const struct job_section *section, enum job_figure figure,
                  struct job_extremes *extremes);

#endif
