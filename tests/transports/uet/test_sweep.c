/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages of shared ports whose owners were killed go with the next one that opens any; others do
 * not. At addresses of this process's own. */
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../support/again.h"
#include "core/net/addr.h"
#include "transports/uet/nic/nic.h"
#include "transports/uet/nic/sweep.h"

enum {
    PORT = 4793,
    PATH = 256,
};

static union addr address(unsigned number)
{
    union addr addr;
    unsigned process = (unsigned)getpid();

    memset(&addr, 0, sizeof(addr));
    addr.in.sin_family = AF_INET;
    addr.in.sin_addr.s_addr =
        htonl(127u << 24 | (process >> 6 & 0xffff) << 8 | (process & 0x3f) << 2 | number);
    return addr;
}

static int open_nic(const union addr *addr, struct uet_nic **nic)
{
    const struct uet_nic_settings settings = {
        .packet = 1024, .port = PORT, .shared = true, .slot = -1};

    return uet_nic_open(addr, &settings, nic);
}

static const char *page_of(const union addr *addr)
{
    static char path[PATH];
    union addr named = *addr;
    char prefix[64], text[ADDR_TEXT_MAX];
    struct stat network;

    addr_set_port(&named.sa, PORT);
    assert_int_equal(stat("/proc/self/ns/net", &network), 0);
    uet_sweep_prefix(prefix, sizeof(prefix));
    snprintf(path, sizeof(path), "%s%llu-%s", prefix, (unsigned long long)network.st_ino,
             addr_text(&named.sa, text, sizeof(text)));
    return path;
}

static bool is_there(const char *path)
{
    struct stat status;

    return !lstat(path, &status);
}

/* A process with an endpoint at the address. */
static pid_t start(const union addr *addr)
{
    int ready[2];
    char byte = 0;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        struct uet_nic *nic;

        byte = open_nic(addr, &nic) == 0;
        if (write(ready[1], &byte, 1) == 1)
            pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void kill_it(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void pages_of_killed_processes_go(void **state)
{
    const union addr killed = address(1), lives = address(2), other = address(3);
    struct uet_nic *nic;
    pid_t pids[2];

    if (again_is_emulated())
        skip(); /* an emulator steers nothing */
    pids[0] = start(&killed);
    pids[1] = start(&lives);
    kill_it(pids[0]);
    assert_true(is_there(page_of(&killed)));
    assert_int_equal(open_nic(&other, &nic), 0);
    assert_false(is_there(page_of(&killed)));
    assert_true(is_there(page_of(&lives)));
    assert_true(is_there(page_of(&other)));
    uet_nic_close(nic);
    assert_false(is_there(page_of(&other)));
    kill_it(pids[1]);
    assert_true(is_there(page_of(&lives)));
    assert_int_equal(open_nic(&lives, &nic), 0); /* the same one */
    uet_nic_close(nic);
    assert_false(is_there(page_of(&lives)));
}

/* A path that only looks like a page's. */
static void what_is_no_page_stays(void **state)
{
    char prefix[64], link[PATH], folder[PATH], locked[PATH], left[PATH];
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 1000, .l_len = 1};
    int fd, dead;

    uet_sweep_prefix(prefix, sizeof(prefix));
    snprintf(link, sizeof(link), "%stest-link-%d", prefix, getpid());
    snprintf(folder, sizeof(folder), "%stest-folder-%d", prefix, getpid());
    snprintf(locked, sizeof(locked), "%stest-locked-%d", prefix, getpid());
    snprintf(left, sizeof(left), "%stest-left-%d", prefix, getpid());
    assert_int_equal(symlink("/dev/null", link), 0);
    assert_int_equal(mkdir(folder, 0700), 0);
    fd = open(locked, O_RDWR | O_CREAT, 0600);
    dead = open(left, O_RDWR | O_CREAT, 0600); /* open, and of no lock */
    assert_true(fd >= 0 && dead >= 0);
    assert_int_equal(fcntl(fd, 37 /* F_OFD_SETLK */, &lock), 0);
    uet_sweep("");
    assert_true(is_there(link));
    assert_true(is_there(folder));
    assert_true(is_there(locked));
    assert_false(is_there(left));
    close(fd);
    uet_sweep(locked);
    assert_true(is_there(locked));
    uet_sweep("");
    assert_false(is_there(locked));
    close(dead);
    unlink(link);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_of_killed_processes_go),
        cmocka_unit_test(what_is_no_page_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
