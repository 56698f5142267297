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

static char top[] = "/tmp/weft-near-XXXXXX";

static void put(const char *name, const char *text)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", top, name);
    make(path, text);
}

/* Two nodes of one socket, and one of another; node 1 is not there. */
static void devices_are_near_to_their_cpus(void **state)
{
    char command[300];
    cpu_set_t cpus;

    assert_non_null(mkdtemp(top));
    put("class/net/eth7/device/local_cpulist", "0-7\n");
    put("class/net/eth7/device/numa_node", "0\n");
    put("class/infiniband/mlx5_7/device/local_cpulist", "8-15\n");
    put("class/infiniband/mlx5_7/device/numa_node", "2\n");
    put("class/net/eth8/device/local_cpulist", "16-23\n");
    put("class/net/eth8/device/numa_node", "3\n");
    put("class/net/eth9/device/local_cpulist", "24\n");
    put("class/net/eth10/device/uevent", "DRIVER=virtio_net\n");
    put("devices/system/node/node0/cpulist", "0-7\n");
    put("devices/system/node/node0/distance", "10 12 21\n");
    put("devices/system/node/node2/cpulist", "8-15\n");
    put("devices/system/node/node2/distance", "12 10 22\n");
    put("devices/system/node/node3/cpulist", "16-23\n");
    put("devices/system/node/node3/distance", "21 22 10\n");
    only(&cpus, 3);
    assert_int_equal(near_distance_at(top, "eth7", &cpus), 0);
    assert_int_equal(near_distance_at(top, "mlx5_7", &cpus), 12);
    assert_int_equal(near_distance_at(top, "eth8", &cpus), 21);
    assert_int_equal(near_distance_at(top, "eth9", &cpus), NEAR_FAR);
    assert_int_equal(near_distance_at(top, "lo", &cpus), 0);
    assert_int_equal(near_distance_at(top, "eth10", &cpus), 0);
    put("devices/system/node/online", "0\n");
    assert_int_equal(near_distance_at(top, "eth10", &cpus), 0);
    put("devices/system/node/online", "0,2-3\n");
    assert_int_equal(near_distance_at(top, "eth10", &cpus), NEAR_UNKNOWN);
    assert_int_equal(near_distance_at(top, "lo", &cpus), 0);
    assert_int_equal(near_distance_at(top, "../eth7", &cpus), 0);
    only(&cpus, 8);
    assert_int_equal(near_distance_at(top, "eth7", &cpus), 12);
    assert_int_equal(near_distance_at(top, "mlx5_7", &cpus), 0);
    assert_int_equal(near_distance_at(top, "eth8", &cpus), 22);
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
