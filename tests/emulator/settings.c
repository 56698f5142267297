/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "report.h"
#include "settings.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t random_state;
static struct settings values = {
    .devices = "emu0",
    .faults = "",
    .capture = "",
    .host = 1,
    .misorder = 1,
    .limits =
        {
            .max_qp = 8192,
            .max_qp_wr = 16384,
            .max_sge = 30,
            .max_sge_rd = 30,
            .max_cq = 16384,
            .max_cqe = 4194303,
            .max_mr = 65536,
            .max_pd = 4096,
            .max_qp_rd_atom = 16,
            .max_ah = 65536,
            .max_srq = 4096,
            .max_srq_wr = 32767,
            .max_srq_sge = 30,
            .max_inline = 512,
            .max_msg_sz = 1L << 30,
            .max_mr_bytes = 1L << 46,
            .max_mcast_grp = 1024,
            .wr_api = 1,
            .cq_ex = 1,
            .rdma_opcodes = 1,
            .td = 1,
            .levels = 8,
            .place_bits = 6,
        },
};

static const struct {
    const char *name;
    size_t offset;
} limit_names[] = {
#define LIMIT(name)                                                                                \
    {                                                                                              \
#name, offsetof(struct limits, name)                                                       \
    }
    LIMIT(max_qp),
    LIMIT(max_qp_wr),
    LIMIT(max_sge),
    LIMIT(max_sge_rd),
    LIMIT(max_cq),
    LIMIT(max_cqe),
    LIMIT(max_mr),
    LIMIT(max_pd),
    LIMIT(max_ah),
    LIMIT(max_qp_rd_atom),
    LIMIT(max_srq),
    LIMIT(max_srq_wr),
    LIMIT(max_srq_sge),
    LIMIT(max_inline),
    LIMIT(max_msg_sz),
    LIMIT(max_mr_bytes),
    LIMIT(max_mcast_grp),
    LIMIT(wr_api),
    LIMIT(cq_ex),
    LIMIT(td),
    LIMIT(rdma),
    LIMIT(rdma_opcodes),
    LIMIT(unsolicited),
    LIMIT(levels),
    LIMIT(place_bits),
    LIMIT(reuse),
    LIMIT(in_order),
    LIMIT(counters)
#undef LIMIT
};

/* The number in text, or `otherwise` with a line that says what would be right. */
static long number(const char *name, const char *text, long otherwise)
{
    char *end;

    errno = 0;
    long value = strtol(text, &end, 0);
    if (end == text || *end || errno || value < 0) {
        report_say("%s='%s' is not a number; %ld is used", name, text, otherwise);
        return otherwise;
    }
    return value;
}

static void set_limit(char *entry)
{
    char *value = strchr(entry, '=');

    if (value) {
        *value++ = '\0';
        for (size_t i = 0; i < sizeof(limit_names) / sizeof(*limit_names); i++) {
            if (strcmp(entry, limit_names[i].name) == 0) {
                long *slot = (long *)(void *)((char *)&values.limits + limit_names[i].offset);
                *slot = number(entry, value, *slot);
                return;
            }
        }
    }
    report_say("WEFT_EMULATOR_LIMITS: no limit '%s'; entries are NAME=NUMBER, with names as "
               "max_qp, max_cqe, max_sge_rd",
               entry);
}

static void read_limits(const char *text)
{
    char *copy = strdup(text), *rest = copy;

    for (char *entry; copy && (entry = strsep(&rest, ","));)
        if (*entry)
            set_limit(entry);
    free(copy);
}

static void read_environment(void)
{
    const char *text = getenv("WEFT_EMULATOR_NET");
    if (text && *text && strlen(text) < sizeof(values.net))
        snprintf(values.net, sizeof(values.net), "%s", text);
    else
        snprintf(values.net, sizeof(values.net), "u%u", (unsigned)getuid());
    if (text && strlen(text) >= sizeof(values.net))
        report_say("WEFT_EMULATOR_NET has %zu characters, at most %zu; '%s' is used", strlen(text),
                   sizeof(values.net) - 1, values.net);
    if ((text = getenv("WEFT_EMULATOR_VERBOSE")))
        values.verbose = number("WEFT_EMULATOR_VERBOSE", text, 0) > 0;
    if ((text = getenv("WEFT_EMULATOR_LEAKS")))
        values.leaks = number("WEFT_EMULATOR_LEAKS", text, 0) > 0;
    if ((text = getenv("WEFT_EMULATOR_JITTER")))
        values.jitter_us = (unsigned)number("WEFT_EMULATOR_JITTER", text, 0);
    if ((text = getenv("WEFT_EMULATOR_HOST")))
        values.host = (unsigned)number("WEFT_EMULATOR_HOST", text, 1);
    if ((text = getenv("WEFT_EMULATOR_MISORDER")))
        values.misorder = (unsigned)number("WEFT_EMULATOR_MISORDER", text, 1);
    if ((text = getenv("WEFT_EMULATOR_DEVICES")))
        values.devices = text;
    if ((text = getenv("WEFT_EMULATOR_FAULTS")))
        values.faults = text;
    if ((text = getenv("WEFT_EMULATOR_PCAP")))
        values.capture = text;
    if ((text = getenv("WEFT_EMULATOR_LIMITS")))
        read_limits(text);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    values.seed = ((uint64_t)now.tv_nsec ^ (uint64_t)getpid()) % 1000000;
    text = getenv("WEFT_EMULATOR_SEED");
    if (text)
        values.seed = (uint64_t)number("WEFT_EMULATOR_SEED", text, (long)values.seed);
    else if (values.jitter_us || values.misorder > 1 || *values.faults)
        report_say("WEFT_EMULATOR_SEED=%llu repeats this run's choices",
                   (unsigned long long)values.seed);
    random_state = values.seed * 2654435761u + 1;
}

const struct settings *settings(void)
{
    pthread_once(&once, read_environment);
    return &values;
}

uint32_t settings_random(void)
{
    settings();
    random_state += 0x9e3779b97f4a7c15u;
    uint64_t mixed = random_state;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)(mixed >> 32);
}
