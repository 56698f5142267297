/* SPDX-License-Identifier: BSD-2-Clause */
/* A million addresses: time and memory of an insertion, one call for all and one call for each. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "stack.h"

enum {
    ADDRESSES = 1000000
};

static struct sockaddr_in *make_addresses(void)
{
    struct sockaddr_in *all = calloc(ADDRESSES, sizeof *all);

    if (!all)
        bench_die("out of memory");
    for (uint32_t i = 0; i < ADDRESSES; i++) {
        all[i].sin_family = AF_INET;
        all[i].sin_addr.s_addr = htonl(0x0a000000 + i / 64);
        all[i].sin_port = htons((uint16_t)(1024 + i % 64));
    }
    return all;
}

/* Of this process: what others do on the machine does not count. */
static double cpu_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static void insert(struct bench_stack *stack, const struct sockaddr_in *all, size_t batch)
{
    struct fi_av_attr attr = {.type = FI_AV_TABLE};
    struct fid_av *av;
    long before = bench_resident();
    double start;

    bench_check(stack, "fi_av_open", fi_av_open(stack->domain, &attr, &av, NULL));
    start = cpu_ns();
    for (size_t i = 0; i < ADDRESSES; i += batch)
        if (fi_av_insert(av, &all[i], batch, NULL, 0, NULL) != (int)batch)
            bench_die("%s: fi_av_insert fails", stack->spec);
    printf("av         %-32s %d addresses, %zu a call: %.0f ns of CPU and %.1f bytes each\n",
           stack->spec, ADDRESSES, batch, (cpu_ns() - start) / ADDRESSES,
           (double)(bench_resident() - before) * 1024 / ADDRESSES);
    fi_close(&av->fid);
}

int bench_av(const char *library, char **specs, int count)
{
    struct sockaddr_in *all = make_addresses();

    bench_load(library);
    for (int s = 0; s < count; s++) {
        struct bench_stack stack = {0};

        bench_stack_open(&stack, specs[s], "127.0.0.1");
        insert(&stack, all, ADDRESSES);
        insert(&stack, all, 1);
    }
    free(all);
    return 0;
}
