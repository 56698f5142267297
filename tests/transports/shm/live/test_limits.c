/* SPDX-License-Identifier: BSD-2-Clause */
/* Things that the system forbids, and that shm must not ask of it: attaching to a process that is
 * not dumpable, system calls of a sender, descriptors in children. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"

enum {
    LARGE = 4 << 20,
    MANY = 20000,
    SKIPPED = 77,
    NOBODY = 65534,
    ROOM = 256 << 10, /* for less than a link */
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static const struct end_want want = {.caps = FI_MSG | FI_TAGGED | FI_RMA};

static fi_addr_t swap_names(struct end *end, int to, int from)
{
    char mine[END_NAME] = "", other[END_NAME];

    end_name(end, mine);
    assert_int_equal(write(to, mine, sizeof(mine)), sizeof(mine));
    assert_int_equal(read(from, other, sizeof(other)), sizeof(other));
    return end_know(end, other);
}

/* 0, or SKIPPED when this was a test of nothing. */
static int result(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* ---- Not dumpable ---- */

/* Root may attach to everybody. */
static void become_nobody(int dumpable)
{
    if (!geteuid() && (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY)))
        _exit(SKIPPED);
    if (prctl(PR_SET_DUMPABLE, dumpable))
        _exit(SKIPPED);
}

static void send_large(struct pipes *pipes)
{
    char *memory = malloc(LARGE);
    struct fi_cq_tagged_entry entry;
    struct end end;
    struct fid_mr *mr;
    fi_addr_t peer;

    alarm(END_ALARM);
    become_nobody(0);
    end_open_as(&end, "shm(cma=on)", &want);
    memset(memory, 's', LARGE);
    fi_mr_reg(end.domain, memory, LARGE, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL);
    peer = swap_names(&end, pipes->from[1], pipes->to[0]);
    end_post(&end, NULL, fi_tsend(end.ep, memory, LARGE, NULL, peer, 1, NULL));
    for (;;) {
        while (fi_cq_read(end.cq, &entry, 1) == -FI_EAGAIN)
            ;
    }
}

static int receive_large(struct pipes *pipes, pid_t sender)
{
    char *memory = calloc(1, LARGE), byte;
    struct iovec local = {&byte, 1}, remote = {memory, 1};
    struct fi_cq_tagged_entry entry;
    struct end end;
    fi_addr_t peer;

    alarm(END_ALARM);
    become_nobody(1);
    end_open_as(&end, "shm(cma=on)", &want);
    peer = swap_names(&end, pipes->to[1], pipes->from[0]);
    if (process_vm_readv(sender, &local, 1, &remote, 1, 0) != -1 || errno != EPERM)
        return SKIPPED; /* this system lets anybody attach */
    fi_trecv(end.ep, memory, LARGE, NULL, FI_ADDR_UNSPEC, 1, 0, NULL);
    if (end_wait(&end, NULL, &entry) || memory[0] != 's' || memory[LARGE - 1] != 's')
        return 1;
    memset(memory, 'w', LARGE);
    end_post(&end, NULL, fi_write(end.ep, memory, LARGE, NULL, peer, 0, 1, NULL));
    if (end_wait(&end, NULL, &entry))
        return 2;
    memset(memory, 0, LARGE);
    end_post(&end, NULL, fi_read(end.ep, memory, LARGE, NULL, peer, 0, 1, NULL));
    if (end_wait(&end, NULL, &entry) || memory[0] != 'w' || memory[LARGE - 1] != 'w')
        return 3;
    return 0;
}

static void a_peer_that_is_not_dumpable(void **state)
{
    struct pipes pipes;
    pid_t sender, receiver;
    int rc;

    open_pipes(&pipes);
    sender = fork();
    if (!sender)
        send_large(&pipes);
    receiver = fork();
    if (!receiver)
        _exit(receive_large(&pipes, sender));
    rc = result(receiver);
    kill(sender, SIGKILL);
    waitpid(sender, NULL, 0);
    close_pipes(&pipes);
    if (rc == SKIPPED)
        skip();
    assert_int_equal(rc, 0);
}

/* ---- A sender makes no system call to wake a receiver that does not sleep ---- */

static void forbid_waking(void)
{
    static const int calls[] = {SYS_sendto, SYS_sendmsg, SYS_write, SYS_futex};
    struct sock_filter code[2 * 4 + 2] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0)};
    struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

    for (int i = 0; i < 4; i++) {
        code[1 + 2 * i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
        code[2 + 2 * i] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    }
    code[9] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        _exit(SKIPPED);
}

static void send_many(struct pipes *pipes)
{
    struct end end;
    fi_addr_t peer;
    char all;

    alarm(END_ALARM);
    end_open(&end, "shm");
    peer = swap_names(&end, pipes->from[1], pipes->to[0]);
    end_post(&end, NULL, fi_tinject(end.ep, "0", 1, peer, 1));
    if (fcntl(pipes->to[0], F_SETFL, O_NONBLOCK))
        _exit(1);
    forbid_waking();
    for (int i = 1; i < MANY; i++)
        end_post(&end, NULL, fi_tinject(end.ep, "1", 1, peer, 1));
    /* The last ones may wait for room in the ring of a receiver that is slow. */
    while (read(pipes->to[0], &all, 1) != 1)
        end_drive(&end, NULL);
    _exit(0);
}

static void a_sender_wakes_nobody_who_is_awake(void **state)
{
    struct fi_cq_tagged_entry entry;
    struct pipes pipes;
    struct end end;
    pid_t sender;
    char in;
    int rc;

    open_pipes(&pipes);
    sender = fork();
    if (!sender)
        send_many(&pipes);
    end_open(&end, "shm");
    swap_names(&end, pipes.to[1], pipes.from[0]);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(fi_trecv(end.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
        assert_int_equal(end_wait(&end, NULL, &entry), 0);
    }
    assert_int_equal(write(pipes.to[1], "", 1), 1);
    rc = result(sender);
    end_close(&end);
    close_pipes(&pipes);
    if (rc == SKIPPED)
        skip();
    assert_int_equal(rc, 0);
}

/* ---- fork ---- */

/* Leaves a child behind that outlives it. */
static void fork_and_go_on(struct pipes *pipes)
{
    struct end end;
    fi_addr_t peer;
    pid_t child;
    int status;

    alarm(END_ALARM);
    end_open(&end, "shm");
    peer = swap_names(&end, pipes->from[1], pipes->to[0]);
    end_post(&end, NULL, fi_tinject(end.ep, "1", 1, peer, 1));
    child = fork();
    if (!child)
        _exit(fi_tinject(end.ep, "x", 1, peer, 1) != -FI_EOPBADSTATE);
    if (waitpid(child, &status, 0) != child || status)
        _exit(1);
    child = fork();
    if (!child) {
        close(pipes->from[1]);
        pause();
        _exit(0);
    }
    end_post(&end, NULL, fi_tinject(end.ep, "2", 1, peer, 1));
    if (write(pipes->from[1], &child, sizeof(child)) != sizeof(child))
        _exit(1);
    for (;;)
        end_drive(&end, NULL);
}

static void a_child_does_not_keep_its_parent_alive(void **state)
{
    char *memory = malloc(LARGE), in = 0;
    struct fi_cq_tagged_entry entry;
    struct pipes pipes;
    struct end end;
    pid_t pid, orphan;
    fi_addr_t peer;

    open_pipes(&pipes);
    pid = fork();
    if (!pid)
        fork_and_go_on(&pipes);
    end_open(&end, "shm");
    peer = swap_names(&end, pipes.to[1], pipes.from[0]);
    for (char expected = '1'; expected <= '2'; expected++) {
        assert_int_equal(fi_trecv(end.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
        assert_int_equal(end_wait(&end, NULL, &entry), 0);
        assert_int_equal(in, expected);
    }
    assert_int_equal(read(pipes.from[0], &orphan, sizeof(orphan)), sizeof(orphan));
    end_post(&end, NULL, fi_tsend(end.ep, memory, LARGE, NULL, peer, 1, memory));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(end_wait(&end, NULL, &entry), FI_ECONNRESET);
    assert_int_equal(kill(orphan, 0), 0);
    kill(orphan, SIGKILL);
    end_close(&end);
    close_pipes(&pipes);
    free(memory);
}

static int take_descriptors(int *taken, int most, struct rlimit *limit)
{
    struct rlimit low;
    int count = 0;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, limit), 0);
    low = *limit;
    low.rlim_cur = (rlim_t)most;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    while (count < most && (taken[count] = dup(0)) >= 0)
        count++;
    return count;
}

/* A request that comes while the process has no descriptors for it stays, and is taken later. */
static void a_request_waits_for_descriptors(void **state)
{
    struct fi_cq_tagged_entry entry;
    struct rlimit limit;
    struct end from, to;
    int taken[64], count;
    char in = 0, out = 'x';
    fi_addr_t peer;

    end_open(&from, "shm");
    end_open(&to, "shm");
    peer = end_introduce(&from, &to);
    assert_int_equal(fi_recv(to.ep, &in, 1, NULL, FI_ADDR_UNSPEC, &in), 0);
    end_post(&from, NULL, fi_send(from.ep, &out, 1, NULL, peer, &out));
    count = take_descriptors(taken, 64, &limit);
    for (int left = 0; left < 3 && count; left++) {
        for (int i = 0; i < 1000; i++)
            assert_int_equal(fi_cq_read(to.cq, &entry, 1), -FI_EAGAIN);
        close(taken[--count]);
    }
    while (count)
        close(taken[--count]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(end_wait(&to, &from, &entry), 0);
    assert_int_equal(in, 'x');
    end_close(&from);
    end_close(&to);
}

/* So does the answer to one's own, and no operation ends for it. */
static void a_welcome_waits_for_descriptors(void **state)
{
    char *in = malloc(LARGE), *out = malloc(LARGE);
    struct fi_cq_tagged_entry entry;
    struct rlimit limit;
    struct end from, to;
    int taken[64], count;
    fi_addr_t peer;

    end_open(&from, "shm");
    end_open(&to, "shm");
    peer = end_introduce(&from, &to);
    memset(out, 'w', LARGE);
    end_post(&from, NULL, fi_send(from.ep, out, LARGE, NULL, peer, out));
    for (int i = 0; i < 1000; i++)
        assert_int_equal(fi_cq_read(to.cq, &entry, 1), -FI_EAGAIN);
    count = take_descriptors(taken, 64, &limit);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(fi_cq_read(from.cq, &entry, 1), -FI_EAGAIN);
    while (count)
        close(taken[--count]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(fi_recv(to.ep, in, LARGE, NULL, FI_ADDR_UNSPEC, in), 0);
    assert_int_equal(end_wait(&to, &from, &entry), 0);
    assert_memory_equal(in, out, LARGE);
    assert_int_equal(end_wait(&from, &to, &entry), 0);
    assert_ptr_equal(entry.op_context, out);
    end_close(&from);
    end_close(&to);
    free(in);
    free(out);
}

/* ---- Address space ---- */

static void allow_memory(size_t more)
{
    struct rlimit limit;
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (!file || fscanf(file, "%zu", &pages) != 1 || getrlimit(RLIMIT_AS, &limit))
        _exit(1);
    fclose(file);
    limit.rlim_cur = more ? pages * (size_t)sysconf(_SC_PAGESIZE) + more : limit.rlim_max;
    if (setrlimit(RLIMIT_AS, &limit))
        _exit(2);
}

static void link_without_room(void)
{
    struct fi_cq_tagged_entry entry;
    struct end from, to;
    fi_addr_t peer;
    char in = 0;

    end_open(&from, "shm");
    end_open(&to, "shm");
    peer = end_introduce(&from, &to);
    fi_recv(to.ep, &in, 1, NULL, FI_ADDR_UNSPEC, &in);
    allow_memory(ROOM);
    if (fi_inject(from.ep, "x", 1, peer) != -FI_ENOMEM)
        _exit(3);
    allow_memory(0);
    if (fi_inject(from.ep, "x", 1, peer))
        _exit(4);
    allow_memory(ROOM);
    for (int i = 0; i < 1000; i++)
        if (fi_cq_read(to.cq, &entry, 1) != -FI_EAGAIN)
            _exit(5);
    allow_memory(0);
    _exit(end_wait(&to, &from, &entry) || in != 'x');
}

/* A request that there is no room for waits, and the message with it. */
static void a_request_waits_for_room(void **state)
{
    pid_t pid;

    if (SANITIZED)
        skip(); /* sanitizers need room of their own */
    pid = fork();
    if (!pid)
        link_without_room();
    assert_int_equal(result(pid), 0);
}

/* ---- Files of a size that is not allowed ---- */

static void link_with_small_files(void)
{
    struct rlimit limit;
    struct end from, to;
    fi_addr_t peer;

    end_open(&from, "shm");
    end_open(&to, "shm");
    peer = end_introduce(&from, &to);
    if (getrlimit(RLIMIT_FSIZE, &limit))
        _exit(1);
    limit.rlim_cur = 100000; /* a bell, but no link */
    if (setrlimit(RLIMIT_FSIZE, &limit) || fi_tinject(from.ep, "x", 1, peer, 1) != -EFBIG)
        _exit(2);
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_FSIZE, &limit) || fi_tinject(from.ep, "x", 1, peer, 1))
        _exit(3);
    _exit(0);
}

/* The kernel kills a process that makes one (SIGXFSZ). */
static void files_may_not_be_large(void **state)
{
    pid_t pid = fork();

    if (!pid)
        link_with_small_files();
    assert_int_equal(result(pid), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_that_is_not_dumpable),
        cmocka_unit_test(a_sender_wakes_nobody_who_is_awake),
        cmocka_unit_test(a_request_waits_for_descriptors),
        cmocka_unit_test(a_welcome_waits_for_descriptors),
        cmocka_unit_test(a_request_waits_for_room),
        cmocka_unit_test(files_may_not_be_large),
        cmocka_unit_test(a_child_does_not_keep_its_parent_alive),
    };

    alarm(END_ALARM);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
