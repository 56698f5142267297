/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices near to CPUs as hwloc has it: a topology is loaded once a process, so each case is a
 * child. The C library's functions below are the library's way to hwloc, CPUs and sysfs. */
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/net/near.h"

#define HWLOC "libhwloc.so.15"

static const char *library; /* that is found under hwloc's name */
static int loads;           /* of it */
static size_t our_cpu;
static bool has_card; /* sysfs, and nothing else is in it: a device without a place, two nodes */

void *dlopen(const char *file, int flags)
{
    void *(*next)(const char *, int);

    *(void **)&next = dlsym(RTLD_NEXT, "dlopen");
    if (!file || strcmp(file, HWLOC))
        return next(file, flags);
    loads++;
    return next(library, flags);
}

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *cpus)
{
    CPU_ZERO_S(size, cpus); /* hwloc's own may be smaller */
    CPU_SET_S(our_cpu, size, cpus);
    return 0;
}

FILE *fopen(const char *restrict path, const char *restrict mode)
{
    static char line[] = "0-1\n"; /* which is as good as any in a file that is only there */
    FILE *(*next)(const char *, const char *);

    *(void **)&next = dlsym(RTLD_NEXT, "fopen");
    if (strncmp(path, "/sys/", 5))
        return next(path, mode);
    if (has_card && (!strcmp(path, "/sys/class/net/card/device/uevent") ||
                     !strcmp(path, "/sys/devices/system/node/online")))
        return fmemopen(line, strlen(line), "r");
    return NULL;
}

struct seen {
    unsigned first, distance[5]; /* of NAMES; first: asked before all of them, and again */
    int loads;
    char text[2000]; /* on stderr */
};

static const char *const names[] = {"weft-a", "weft-b", "weft_c", "weft-d", "weft-disk"};

static void look(struct seen *seen)
{
    seen->first = near_distance(names[1]);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        seen->distance[i] = near_distance(names[i]);
    if (has_card)
        seen->first = near_distance("card");
    seen->loads = loads;
}

static void see(struct seen *seen)
{
    int ends[2], errors[2];
    pid_t child;
    ssize_t len;

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(pipe(errors), 0);
    child = fork();
    if (!child) {
        dup2(errors[1], 2);
        close(errors[0]);
        look(seen);
        _exit(write(ends[1], seen, sizeof(*seen)) != sizeof(*seen));
    }
    close(errors[1]);
    close(ends[1]);
    assert_int_equal(read(ends[0], seen, sizeof(*seen)), sizeof(*seen));
    len = read(errors[0], seen->text, sizeof(seen->text) - 1);
    seen->text[len > 0 ? len : 0] = '\0';
    close(errors[0]);
    close(ends[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void expect(const struct seen *seen, const unsigned *distance)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_int_equal(seen->distance[i], distance[i]);
    assert_int_equal(seen->first, distance[1]);
}

static const unsigned nothing[5];

static void describe(const char *path)
{
    char whole[1024];
    const char *source = getenv("WEFT_SOURCE");

    snprintf(whole, sizeof(whole), "%s/%s", source ? source : ".", path);
    setenv("HWLOC_XMLFILE", whole, 1);
}

static void places_are_those_of_the_file(void **state)
{
    static const unsigned distance[3][5] = {{0, 12, 21}, {12, 0, 22}, {21, 22, 0}};

    describe("tests/core/near_topology.xml");
    for (our_cpu = 0; our_cpu < 3; our_cpu++) {
        struct seen seen;

        see(&seen);
        assert_int_equal(seen.loads, 1);
        assert_string_equal(seen.text, "");
        expect(&seen, distance[our_cpu]);
    }
}

/* Our CPU is none of the file's. */
static void other_cpus_are_far(void **state)
{
    static const unsigned distance[5] = {NEAR_FAR, NEAR_FAR, NEAR_FAR, NEAR_FAR, 0};
    struct seen seen;

    our_cpu = 7;
    describe("tests/core/near_topology.xml");
    see(&seen);
    expect(&seen, distance);
}

/* And nothing of it is told. */
static void a_broken_file_says_nothing(void **state)
{
    char path[] = "/tmp/weft-topology-XXXXXX";
    int file = mkstemp(path);
    struct seen seen;

    assert_true(file >= 0);
    assert_int_equal(write(file, "<topology><object", 17), 17);
    close(file);
    setenv("HWLOC_XMLFILE", path, 1);
    see(&seen);
    expect(&seen, nothing);
    assert_string_equal(seen.text, "");
    unlink(path);
    see(&seen); /* nor does one that is not there */
    expect(&seen, nothing);
    assert_string_equal(seen.text, "");
}

static void without_the_library_there_is_one_line_of_debug(void **state)
{
    static const char *const others[] = {"libweft-is-not-here.so.1", "libc.so.6"};
    static const char *const why[] = {"cannot be loaded", "it is too old"};

    describe("tests/core/near_topology.xml");
    for (int i = 0; i < 2; i++) {
        struct seen seen;
        char *line;

        library = others[i];
        see(&seen);
        expect(&seen, nothing);
        assert_string_equal(seen.text, "");
        setenv("FI_LOG_LEVEL", "debug", 1);
        see(&seen);
        assert_int_equal(seen.loads, 1);
        line = strstr(seen.text, "rails in the order of sysfs alone");
        assert_non_null(line);
        assert_non_null(strstr(line, why[i]));
        assert_null(strstr(line + 1, "rails in the order of sysfs alone"));
        unsetenv("FI_LOG_LEVEL");
    }
}

/* Without a file it is asked only where sysfs has a device, but not its place. */
static void it_is_loaded_where_it_is_needed(void **state)
{
    struct seen seen;

    see(&seen);
    assert_int_equal(seen.loads, 0);
    expect(&seen, nothing);
    has_card = true;
    see(&seen);
    assert_int_equal(seen.loads, 1);
    assert_int_equal(seen.first, 0); /* this machine has no such card */
}

static int setup(void **state)
{
    unsetenv("FI_LOG_LEVEL");
    unsetenv("HWLOC_XMLFILE");
    library = HWLOC;
    our_cpu = 0;
    has_card = false;
    return 0;
}

static bool is_here(void)
{
#ifdef WEFT_HAVE_HWLOC
    library = HWLOC;
    return dlopen(HWLOC, RTLD_NOW | RTLD_LOCAL);
#else
    return false;
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(places_are_those_of_the_file, setup),
        cmocka_unit_test_setup(other_cpus_are_far, setup),
        cmocka_unit_test_setup(a_broken_file_says_nothing, setup),
        cmocka_unit_test_setup(without_the_library_there_is_one_line_of_debug, setup),
        cmocka_unit_test_setup(it_is_loaded_where_it_is_needed, setup),
    };

    if (!is_here()) {
        print_message("skipped: no " HWLOC ", or built without hwloc.h\n");
        return 77;
    }
    loads = 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
