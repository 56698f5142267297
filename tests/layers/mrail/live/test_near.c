/* SPDX-License-Identifier: BSD-2-Clause */
/* Small messages begin with the rail that is nearest by sysfs, and go on by the next: distances are
 * those of files that the library finds here instead, counts those of profile. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../../pair.h"
#include "counted.h"

enum {
    RAILS = 3,
    SIZE = 3000, /* bytes: one small packet, longer than any other that leaves */
};

static const char *const device[RAILS] = {"loop", "shm", "lo"};
static char sysfs[] = "/tmp/weft-sysfs-XXXXXX";

/* Instead of /sys, where the library opens it. */
FILE *fopen(const char *restrict path, const char *restrict mode)
{
    FILE *(*next)(const char *, const char *);
    char other[256];

    *(void **)&next = dlsym(RTLD_NEXT, "fopen64");
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "fopen");
    if (strncmp(path, "/sys/", 5))
        return next(path, mode);
    snprintf(other, sizeof(other), "%s/%s", sysfs, path + 5);
    return next(other, mode);
}

static void put(const char *text, const char *format, ...)
{
    char path[256];
    va_list args;
    size_t used = (size_t)snprintf(path, sizeof(path), "%s/", sysfs);
    FILE *file;

    va_start(args, format);
    vsnprintf(path + used, sizeof(path) - used, format, args);
    va_end(args);
    for (char *at = path + 1; *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* Nodes 0, 1 and 2, of which 0 has all CPUs; each rail's device is on one. */
static void place_devices(const unsigned *node)
{
    static const char *const distances[RAILS] = {"10 12 21\n", "12 10 22\n", "21 22 10\n"};

    for (unsigned i = 0; i < RAILS; i++) {
        char text[16];

        put(i ? "\n" : "0-100000\n", "devices/system/node/node%u/cpulist", i);
        put(distances[i], "devices/system/node/node%u/distance", i);
        snprintf(text, sizeof(text), "%u\n", node[i]);
        put(text, "class/net/%s/device/numa_node", device[i]);
        put(node[i] ? "100000\n" : "0-100000\n", "class/net/%s/device/local_cpulist", device[i]);
    }
}

/* Which rails have taken the message? A bit for each. */
static unsigned rails_of_message(const char *spec, char (*path)[64])
{
    char from[SIZE] = "", to[SIZE];
    struct pair pair;
    unsigned rails = 0;

    pair_open(&pair, spec);
    assert_true(pair_message(&pair, from, to, SIZE, 1, from, to));
    pair_close(&pair);
    for (unsigned i = 0; i < RAILS; i++) {
        unsigned long count = sends_of_size(path[i], "\"2048\":");

        print_message("%s: %lu\n", device[i], count);
        rails |= (unsigned)(count > 0) << i;
    }
    return rails;
}

/* With faults: the first send by one rail fails, whereupon that is down. */
static unsigned rails_over(unsigned faulty)
{
    static const char *const below[RAILS] = {"loop", "shm", "rxm;tcp(iface=lo)"};
    char spec[512] = "mrail(rail_timeout=60m);[", path[RAILS][64];
    size_t used = strlen(spec);

    for (unsigned i = 0; i < RAILS; i++) {
        snprintf(path[i], sizeof(path[i]), "/tmp/weft-near-%d-%u", (int)getpid(), i);
        used += (size_t)snprintf(spec + used, sizeof(spec) - used,
                                 "%sprofile(file=\"%s\",format=json);%s%s", i ? "+" : "", path[i],
                                 i == faulty ? "fault(fail=send:1);" : "", below[i]);
    }
    snprintf(spec + used, sizeof(spec) - used, "]");
    return rails_of_message(spec, path);
}

/* By whichever place in the bracket the nearest rail has. */
static void messages_begin_with_the_nearest_and_go_on_by_the_next(void **state)
{
    static const unsigned node[][RAILS] = {
        {2, 1, 0}, {1, 2, 0}, {0, 1, 2}, {0, 2, 1}, {2, 0, 1}, {1, 0, 2},
    };

    assert_non_null(mkdtemp(sysfs));
    for (size_t i = 0; i < sizeof(node) / sizeof(node[0]); i++) {
        unsigned at[RAILS]; /* the rail that is on a node */

        for (unsigned rail = 0; rail < RAILS; rail++)
            at[node[i][rail]] = rail;
        place_devices(node[i]);
        print_message("nearest %s, then %s\n", device[at[0]], device[at[1]]);
        assert_int_equal(rails_over(RAILS), 1U << at[0]);
        assert_int_equal(rails_over(at[0]), 1U << at[1]);
    }
}

static int remove_devices(void **state)
{
    char command[300];

    snprintf(command, sizeof(command), "rm -r %s", sysfs);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(messages_begin_with_the_nearest_and_go_on_by_the_next,
                                  remove_devices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
