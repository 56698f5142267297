/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "pp.h"

/* Message number k (of one direction, over all sizes) holds this text from character 7k on. */
static const char pattern[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

enum {
    PATTERN_LEN = sizeof(pattern) - 1,
    PATTERN_STEP = 7
};

size_t run_sizes(const struct pp_options *options, size_t sizes[PP_SIZES_MAX])
{
    static const size_t usual[] = {64, 256, 1024, 4096, 65536, 1048576};
    size_t count = 0;

    if (options->sizes == PP_ONE_SIZE) {
        sizes[0] = options->size;
        return 1;
    }
    if (options->sizes == PP_USUAL_SIZES) {
        memcpy(sizes, usual, sizeof(usual));
        return sizeof(usual) / sizeof(*usual);
    }
    sizes[count++] = 0;
    sizes[count++] = 1;
    for (size_t power = 2; power <= (size_t)4 << 20; power *= 2) {
        sizes[count++] = power;
        sizes[count++] = power + power / 2;
    }
    return count;
}

static void fill(char *data, size_t size, uint64_t number)
{
    size_t at = number * PATTERN_STEP % PATTERN_LEN;

    for (size_t i = 0; i < size; i++) {
        data[i] = pattern[at];
        at = at + 1 == PATTERN_LEN ? 0 : at + 1;
    }
}

static int check(const char *data, size_t size, uint64_t number)
{
    size_t at = number * PATTERN_STEP % PATTERN_LEN;

    for (size_t i = 0; i < size; i++) {
        if (data[i] != pattern[at]) {
            fprintf(stderr, "message %llu, byte %zu: 0x%02x came instead of 0x%02x\n",
                    (unsigned long long)number, i, (unsigned char)data[i],
                    (unsigned char)pattern[at]);
            return -FI_EIO;
        }
        at = at + 1 == PATTERN_LEN ? 0 : at + 1;
    }
    return 0;
}

static int send_one(struct pp *pp, size_t size)
{
    if (pp->options.check)
        fill(pp->tx_data, size, pp->tx_patterns++);
    return fabric_send(pp, size);
}

static int receive_one(struct pp *pp, size_t size)
{
    int ret = fabric_receive(pp, PP_TIMEOUT_MS);

    if (ret)
        return ret;
    if (pp->rx_length != size) {
        fprintf(stderr, "a message of %zu bytes came instead of %zu; are all options alike?\n",
                pp->rx_length, size);
        return -FI_EPROTO;
    }
    if (pp->options.check)
        ret = check(pp->rx_data, size, pp->rx_patterns++);
    return ret ? ret : fabric_post_receive(pp);
}

static int round_trip(struct pp *pp, size_t size)
{
    int ret;

    if (pp->options.server) {
        ret = send_one(pp, size);
        return ret ? ret : receive_one(pp, size);
    }
    ret = receive_one(pp, size);
    return ret ? ret : send_one(pp, size);
}

static double now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

/* "640", "9.7k", "12k", "6m": one decimal below ten, cut. */
static const char *short_number(char text[16], uint64_t number, unsigned base)
{
    static const char units[] = "kmgt";
    uint64_t unit = base;
    int i = 0;

    if (number < base) {
        snprintf(text, 16, "%llu", (unsigned long long)number);
        return text;
    }
    while (number / unit >= base && units[i + 1]) {
        unit *= base;
        i++;
    }
    if (number / unit < 10 && number * 10 / unit % 10)
        snprintf(text, 16, "%llu.%llu%c", (unsigned long long)(number / unit),
                 (unsigned long long)(number * 10 / unit % 10), units[i]);
    else
        snprintf(text, 16, "%llu%c", (unsigned long long)(number / unit), units[i]);
    return text;
}

static void print_row(size_t size, unsigned long sent, unsigned long acked, double us)
{
    static bool titled;
    uint64_t bytes = (uint64_t)size * sent * 2;
    char size_text[16], sent_text[16], ack_text[20], total_text[16], acked_text[16];

    if (!titled)
        printf("%-8s%-8s%-9s%-12s%-9s%-10s%-12s%s\n", "bytes", "#sent", "#ack", "total", "time",
               "MB/sec", "usec/xfer", "Mxfers/sec");
    titled = true;
    if (sent == acked)
        snprintf(ack_text, sizeof(ack_text), "=%s", short_number(acked_text, acked, 1000));
    else
        snprintf(ack_text, sizeof(ack_text), "-%s", short_number(acked_text, sent - acked, 1000));
    printf("%-8s%-8s%-9s%-8s%8.2fs%10.2f%11.2f%11.2f\n", short_number(size_text, size, 1024),
           short_number(sent_text, sent, 1000), ack_text, short_number(total_text, bytes, 1024),
           us / 1e6, (double)bytes / us, us / (double)sent / 2, (double)sent * 2 / us);
    fflush(stdout);
}

int run_size(struct pp *pp, size_t size)
{
    unsigned long iterations = pp->options.iterations, theirs;
    double start;
    int ret = control_sync(pp);

    start = now_us();
    for (unsigned long i = 0; !ret && i < iterations; i++)
        ret = round_trip(pp, size);
    if (ret)
        return ret;
    start = now_us() - start;
    ret = control_exchange_count(pp, iterations, &theirs);
    if (!ret)
        print_row(size, iterations, theirs, start);
    return ret;
}
