/* SPDX-License-Identifier: BSD-2-Clause */
/* Another thread forks while one makes links: the child has none of their sockets, which would keep
 * a dead parent alive, and finds what it closes. The calls in which that would go wrong are made
 * here, and wait for a fork: in vain, if it is kept away. */
#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../../support/any_address.h"
#include "ends.h"

enum {
    PEERS = 17,                       /* one more than the links that there is room for at first */
    GROWN = 32 * (int)sizeof(void *), /* and then */
    VAIN = 200,                       /* ms */
};

static const char *const where[] = {
    "accept4",
    "connect",
#if !defined(__SANITIZE_THREAD__)
    "realloc",
#endif
};

static struct {
    sem_t wanted, done;
    const char *in; /* the call that is to wait; NULL: none */
    int status;
    bool over;
} forker;

static void wait_for_a_fork(const char *call)
{
    struct timespec until;

    if (!forker.in || strcmp(forker.in, call))
        return;
    forker.in = NULL;
    sem_post(&forker.wanted);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += VAIN * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (!sem_timedwait(&forker.done, &until))
        sem_post(&forker.done);
}

#if !defined(__SANITIZE_THREAD__) /* which has one of its own */
/* Moves the block: the old one is gone when the fork comes. */
void *realloc(void *old, size_t size)
{
    static void *(*real)(void *, size_t);
    void *moved;

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "realloc");
    if (size != GROWN || !old || !forker.in || strcmp(forker.in, "realloc"))
        return real(old, size);
    moved = malloc(size);
    if (!moved)
        return NULL;
    memcpy(moved, old, GROWN / 2);
    memset(old, 0xee, GROWN / 2);
    free(old);
    wait_for_a_fork("realloc");
    return moved;
}
#endif

int accept4(int fd, any_address addr, socklen_t *len, int flags)
{
    int (*real)(int, struct sockaddr *, socklen_t *, int), accepted;

    *(void **)&real = dlsym(RTLD_NEXT, "accept4");
    accepted = real(fd, ADDRESS(addr), len, flags);
    if (accepted >= 0)
        wait_for_a_fork("accept4");
    return accepted;
}

int connect(int fd, any_const_address addr, socklen_t len)
{
    int (*real)(int, const struct sockaddr *, socklen_t), rc;

    *(void **)&real = dlsym(RTLD_NEXT, "connect");
    rc = real(fd, ADDRESS(addr), len);
    wait_for_a_fork("connect");
    return rc;
}

static int open_sockets(void)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    struct stat st;
    int count = 0;

    while (dir && (entry = readdir(dir)))
        count += !fstat(atoi(entry->d_name), &st) && S_ISSOCK(st.st_mode);
    closedir(dir);
    return count;
}

static void *fork_when_told(void *sockets)
{
    for (;;) {
        pid_t pid;

        sem_wait(&forker.wanted);
        if (forker.over)
            return NULL;
        pid = fork();
        if (!pid)
            _exit(open_sockets() != *(int *)sockets);
        if (waitpid(pid, &forker.status, 0) != pid)
            forker.status = -1;
        sem_post(&forker.done);
    }
}

static void talk(struct end *from, struct end *to)
{
    struct fi_cq_tagged_entry entry;
    char in = 0;

    assert_int_equal(fi_trecv(to->ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, &in), 0);
    end_post(from, to, fi_tinject(from->ep, "x", 1, end_introduce(from, to), 1));
    assert_int_equal(end_wait(to, from, &entry), 0);
}

static void fork_in(const char *call)
{
    struct end hub, peers[PEERS];

    end_open(&hub, "shm");
    for (int i = 0; i < PEERS; i++)
        end_open(&peers[i], "shm");
    forker.status = -1;
    forker.in = call;
    for (int i = 0; i < PEERS; i++)
        talk(&peers[i], &hub);
    assert_null(forker.in);
    sem_wait(&forker.done);
    assert_int_equal(forker.status, 0);
    for (int i = 0; i < PEERS; i++)
        end_close(&peers[i]);
    end_close(&hub);
}

static void test_a_child_has_no_socket(void **state)
{
    int sockets = open_sockets();
    pthread_t thread;

    (void)state;
    sem_init(&forker.wanted, 0, 0);
    sem_init(&forker.done, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, fork_when_told, &sockets), 0);
    for (size_t i = 0; i < sizeof(where) / sizeof(where[0]); i++)
        fork_in(where[i]);
    forker.over = true;
    sem_post(&forker.wanted);
    pthread_join(thread, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_child_has_no_socket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
