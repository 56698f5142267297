/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices near to CPUs, in a folder that looks like sysfs; and numbers of processes. */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/node_turn.h"
#include "core/net/near.h"

static void only(cpu_set_t *cpus, size_t cpu)
{
    CPU_ZERO(cpus);
    CPU_SET(cpu, cpus);
}

static void lists_name_cpus(void **state)
{
    cpu_set_t cpus;

    only(&cpus, 5);
    assert_true(near_cpulist_meets("5\n", &cpus));
    assert_true(near_cpulist_meets("0-3,5", &cpus));
    assert_true(near_cpulist_meets("0,4-6", &cpus));
    assert_false(near_cpulist_meets("0-4,6-100000000", &cpus));
    assert_false(near_cpulist_meets("6-4", &cpus));
    assert_true(near_cpulist_meets("", &cpus));
    assert_true(near_cpulist_meets("none", &cpus));
}

static void make(char *path, const char *list)
{
    FILE *file;

    for (char *at = path + 1; *at; at++) {
        if (*at != '/')
            continue;
        *at = 0;
        mkdir(path, 0700);
        *at = '/';
    }
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(list, file);
    fclose(file);
}

static void devices_are_near_to_their_cpus(void **state)
{
    char top[] = "/tmp/weft-near-XXXXXX", path[256], command[300];
    cpu_set_t cpus;

    assert_non_null(mkdtemp(top));
    snprintf(path, sizeof(path), "%s/class/net/eth7/device/local_cpulist", top);
    make(path, "0-7\n");
    snprintf(path, sizeof(path), "%s/class/infiniband/mlx5_7/device/local_cpulist", top);
    make(path, "8-15\n");
    only(&cpus, 3);
    assert_true(near_device_at(top, "eth7", &cpus));
    assert_false(near_device_at(top, "mlx5_7", &cpus));
    assert_true(near_device_at(top, "lo", &cpus));
    assert_true(near_device_at(top, "../eth7", &cpus));
    only(&cpus, 8);
    assert_false(near_device_at(top, "eth7", &cpus));
    assert_true(near_device_at(top, "mlx5_7", &cpus));
    snprintf(command, sizeof(command), "rm -r %s", top);
    assert_int_equal(system(command), 0);
}

/* A child that has taken its number and holds it, and what it is. */
static unsigned number_of_child(pid_t *child)
{
    int ends[2];
    unsigned number = 0;

    assert_int_equal(pipe(ends), 0);
    *child = fork();
    if (!*child) {
        number = node_turn();
        if (write(ends[1], &number, sizeof(number)) == sizeof(number))
            pause();
        _exit(1);
    }
    assert_int_equal(read(ends[0], &number, sizeof(number)), sizeof(number));
    close(ends[0]);
    close(ends[1]);
    return number;
}

static void processes_have_different_numbers(void **state)
{
    pid_t child[3];
    unsigned number[3], again;

    if (access("/dev/shm", W_OK))
        skip();
    for (int i = 0; i < 3; i++)
        number[i] = number_of_child(&child[i]);
    assert_true(number[0] != number[1] && number[1] != number[2] && number[0] != number[2]);
    kill(child[0], SIGKILL);
    waitpid(child[0], NULL, 0);
    again = node_turn(); /* that of a process that has ended is free, unless another took it */
    assert_true(again != number[1] && again != number[2]);
    assert_int_equal(node_turn(), again);
    for (int i = 1; i < 3; i++) {
        kill(child[i], SIGKILL);
        waitpid(child[i], NULL, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_name_cpus),
        cmocka_unit_test(devices_are_near_to_their_cpus),
        cmocka_unit_test(processes_have_different_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
