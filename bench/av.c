/* SPDX-License-Identifier: BSD-2-Clause */
/* A million addresses: time and memory of an insertion, one call for all and one call for each. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stack.h"

enum {
    ADDRESSES = 1000000
};

static struct sockaddr_in peer(uint32_t number)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};

    addr.sin_addr.s_addr = htonl(0x0a000000 + number / 64);
    addr.sin_port = htons((uint16_t)(1024 + number % 64));
    return addr;
}

/* The address of an endpoint of lnx on 127.0.0.1 (layers/lnx/lnx_addr.h) as that of a peer of
 * another node: another token of the first branch, and its IPv4 address. */
static void make_joined(unsigned char *raw, size_t size, uint32_t number)
{
    struct sockaddr_in addr = peer(number);
    unsigned char *at = memmem(raw, size, "\x7f\0\0\1", 4);

    if (!at)
        bench_die("the address has no IPv4 address");
    if (raw[5] & 63)
        raw[6] ^= 0xff;
    memcpy(at - 2, &addr.sin_port, 2);
    memcpy(at, &addr.sin_addr, 4);
    raw[1] = (unsigned char)size;
    for (size_t i = 0; i < size; i++)
        raw[1] = (unsigned char)(raw[1] + (i == 1 ? 0 : raw[i]));
}

/* "fi_shm://..." with another number at its end. */
static void make_named(unsigned char *raw, size_t size, uint32_t number)
{
    char digits[16];
    size_t len = (size_t)snprintf(digits, sizeof digits, "%07u", number);

    if (size < len + sizeof "fi_shm://")
        bench_die("the address '%.*s' has no room for a number", (int)size, (const char *)raw);
    memcpy(raw + size - 1 - len, digits, len);
}

/* ADDRESSES of the form that the stack has, each of *size bytes. */
static unsigned char *make_addresses(struct bench_stack *stack, size_t *size)
{
    struct fid_ep *ep = bench_stack_ep(stack, NULL);
    unsigned char name[256], *all;

    *size = sizeof name;
    bench_check(stack, "fi_getname", fi_getname(&ep->fid, name, size));
    all = malloc(ADDRESSES * *size);
    if (!all)
        bench_die("out of memory");
    for (uint32_t i = 0; i < ADDRESSES; i++) {
        struct sockaddr_in addr = peer(i);

        memcpy(all + i * *size, name, *size);
        if (stack->info->addr_format == FI_SOCKADDR_IN)
            memcpy(all + i * *size, &addr, sizeof addr);
        else if (stack->info->addr_format == FI_ADDR_STR)
            make_named(all + i * *size, *size, i);
        else
            make_joined(all + i * *size, *size, i);
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

static void insert(struct bench_stack *stack, const unsigned char *all, size_t size, size_t batch)
{
    struct fi_av_attr attr = {.type = FI_AV_TABLE};
    struct fid_av *av;
    long before = bench_resident();
    double start;

    bench_check(stack, "fi_av_open", fi_av_open(stack->domain, &attr, &av, NULL));
    start = cpu_ns();
    for (size_t i = 0; i < ADDRESSES; i += batch)
        if (fi_av_insert(av, all + i * size, batch, NULL, 0, NULL) != (int)batch)
            bench_die("%s: fi_av_insert fails", stack->spec);
    printf("av         %-32s %d addresses, %zu a call: %.0f ns of CPU and %.1f bytes each\n",
           stack->spec, ADDRESSES, batch, (cpu_ns() - start) / ADDRESSES,
           (double)(bench_resident() - before) * 1024 / ADDRESSES);
    fi_close(&av->fid);
}

int bench_av(const char *library, char **specs, int count)
{
    bench_load(library);
    for (int s = 0; s < count; s++) {
        struct bench_stack stack = {0};
        unsigned char *all;
        size_t size;

        bench_stack_open(&stack, specs[s], "127.0.0.1");
        all = make_addresses(&stack, &size);
        insert(&stack, all, size, ADDRESSES);
        insert(&stack, all, size, 1);
        free(all);
    }
    return 0;
}
