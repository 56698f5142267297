/* SPDX-License-Identifier: BSD-2-Clause */
/* Sockets cost each packet more while an epoll fd holds them: they are in one while the thread that
 * stands in for a reader may sleep, and not while readers poll. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../../transports/udp/live/ends.h"

enum {
    LOOKS = 1000,   /* between two counts */
    COUNTS = 60000, /* after which nothing changes any more */
    ROUNDS = 3,
};

static bool is_datagram_socket(int fd)
{
    int type = 0, domain = 0;
    socklen_t len = sizeof(type);

    return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) &&
           !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) && type == SOCK_DGRAM &&
           domain == AF_INET;
}

/* Of one fd of the process: proc(5), /proc/pid/fdinfo. */
static unsigned sockets_in(const char *name)
{
    char path[300], line[256];
    unsigned count = 0;
    FILE *file;
    int fd;

    snprintf(path, sizeof(path), "/proc/self/fdinfo/%s", name);
    file = fopen(path, "r");
    while (file && fgets(line, sizeof(line), file))
        count += sscanf(line, "tfd: %d", &fd) == 1 && is_datagram_socket(fd);
    if (file)
        fclose(file);
    return count;
}

/* Sockets of datagrams that epoll fds hold. */
static unsigned watched(void)
{
    DIR *dir = opendir("/proc/self/fdinfo");
    unsigned count = 0;

    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        count += sockets_in(entry->d_name);
    closedir(dir);
    return count;
}

static void poll_until_none_is_watched(void)
{
    for (int i = 0; watched(); i++) {
        assert_true(i < COUNTS);
        for (int j = 0; j < LOOKS; j++)
            drive();
        exchange_few(); /* which wakes who sleeps */
    }
}

/* The stand-in takes over, and sleeps. */
static void pause_until_one_is_watched(void)
{
    for (int i = 0; !watched(); i++) {
        assert_true(i < COUNTS);
        usleep(1000);
    }
}

static void sockets_are_watched_while_nobody_polls(void **state)
{
    static const char *const stacks[] = {"rxd;udp(iface=lo)", "rxd;uet(profile=ai-base,iface=lo)"};

    for (size_t i = 0; i < sizeof(stacks) / sizeof(*stacks); i++) {
        ends_open(&(struct options){
            .spec = stacks[i], .type = FI_EP_RDM, .caps = FI_TAGGED, .no_eq = true});
        for (int j = 0; j < ROUNDS; j++) {
            exchange_few();
            poll_until_none_is_watched();
            exchange_few();
            pause_until_one_is_watched();
        }
        ends_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sockets_are_watched_while_nobody_polls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
