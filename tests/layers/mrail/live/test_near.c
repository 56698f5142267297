/* SPDX-License-Identifier: BSD-2-Clause */
/* Small messages begin with the rail that is nearest by sysfs, or by a topology that a file tells
 * hwloc, and go on by the next: sysfs is files that the library finds here instead, counts are
 * those of profile. */
#include <dlfcn.h>
#include <sched.h>
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

/* Node n has the CPU of that number behind ours, which is in 0; each rail's device is on one. */
static void describe(const char *path, size_t cpu, const unsigned *node)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fprintf(file, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                  "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n");
    for (unsigned i = 0; i <= RAILS; i++) { /* the first is the machine */
        char cpus[400] = "", nodes[80];
        unsigned mask = i ? 1U << (i - 1) : (1U << RAILS) - 1;
        size_t word = cpu / 32, used = 0;

        used += (size_t)snprintf(cpus, sizeof(cpus), "0x%x", mask << cpu % 32);
        for (; word; word--)
            used += (size_t)snprintf(cpus + used, sizeof(cpus) - used, ",0x0");
        snprintf(nodes, sizeof(nodes), "nodeset=\"0x%x\" complete_nodeset=\"0x%x\"", mask, mask);
        fprintf(file, "<object type=\"%s\" os_index=\"%u\" cpuset=\"%s\" complete_cpuset=\"%s\" %s",
                i ? "Package" : "Machine", i ? i - 1 : 0, cpus, cpus, nodes);
        fprintf(file, i ? ">\n" : " allowed_cpuset=\"%s\" allowed_nodeset=\"0x%x\">\n", cpus, mask);
        if (!i)
            continue;
        fprintf(file,
                "<object type=\"NUMANode\" os_index=\"%u\" cpuset=\"%s\" "
                "complete_cpuset=\"%s\" %s local_memory=\"4096\"/>\n",
                i - 1, cpus, cpus, nodes);
        fprintf(file,
                "<object type=\"PU\" os_index=\"%zu\" cpuset=\"%s\" complete_cpuset=\"%s\" "
                "%s/>\n",
                cpu + i - 1, cpus, cpus, nodes);
        for (unsigned rail = 0; rail < RAILS; rail++) {
            if (node[rail] == i - 1)
                fprintf(file, "<object type=\"OSDev\" name=\"%s\" osdev_type=\"2\"/>\n",
                        device[rail]);
        }
        fprintf(file, "</object>\n");
    }
    fprintf(file, "</object>\n<distances2 type=\"NUMANode\" nbobjs=\"3\" kind=\"5\" "
                  "indexing=\"os\">\n<indexes length=\"6\">0 1 2 </indexes>\n"
                  "<u64values length=\"27\">10 12 21 12 10 22 21 22 10 </u64values>\n"
                  "</distances2>\n</topology>\n");
    fclose(file);
}

/* A topology is read once a process. Pinned to the first CPU of ours that two may follow. */
static unsigned rails_of_child(const char *path, size_t cpu, unsigned faulty)
{
    pid_t child = fork();
    cpu_set_t one;
    int status;

    if (!child) {
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        _exit(setenv("HWLOC_XMLFILE", path, 1) || sched_setaffinity(0, sizeof(one), &one)
                  ? 100
                  : (int)rails_over(faulty));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return (unsigned)WEXITSTATUS(status);
}

/* This machine's own CPUs, devices and their places say nothing of the kind. */
static void a_file_may_tell_which_is_the_nearest(void **state)
{
    static const unsigned node[][RAILS] = {{2, 1, 0}, {0, 1, 2}, {1, 0, 2}};
    void *hwloc = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL);
    char path[] = "/tmp/weft-topology-XXXXXX";
    int file = mkstemp(path);
    size_t cpu = 0;
    cpu_set_t ours;

    assert_true(file >= 0);
    close(file);
    assert_int_equal(sched_getaffinity(0, sizeof(ours), &ours), 0);
    while (cpu < CPU_SETSIZE && (!CPU_ISSET(cpu, &ours) || cpu % 32 > 32 - RAILS))
        cpu++;
    if (cpu == CPU_SETSIZE)
        hwloc = NULL;
#ifndef WEFT_HAVE_HWLOC
    hwloc = NULL;
#endif
    for (size_t i = 0; hwloc && i < sizeof(node) / sizeof(node[0]); i++) {
        unsigned at[RAILS];

        for (unsigned rail = 0; rail < RAILS; rail++)
            at[node[i][rail]] = rail;
        describe(path, cpu, node[i]);
        print_message("nearest %s, then %s\n", device[at[0]], device[at[1]]);
        assert_int_equal(rails_of_child(path, cpu, RAILS), 1U << at[0]);
        assert_int_equal(rails_of_child(path, cpu, at[0]), 1U << at[1]);
    }
    unlink(path);
    if (!hwloc)
        skip();
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
        cmocka_unit_test(a_file_may_tell_which_is_the_nearest),
        cmocka_unit_test_teardown(messages_begin_with_the_nearest_and_go_on_by_the_next,
                                  remove_devices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
