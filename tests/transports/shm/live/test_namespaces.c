/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes of one user in different user and pid namespaces, as containers make them that share
 * the network: they find each other, and let no other user in. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"

enum {
    SOMEBODY = 12345, /* no user of this machine, we hope */
    SOMEBODY_ELSE = 12346,
    LARGE = 1 << 20,
    NOT_A_PID = 300, /* more than there are in a new namespace */
};

/* Namespaces that the other process enters before it opens its endpoint. */
enum place {
    MAPPED,   /* a user namespace that calls this user 0 */
    UNMAPPED, /* one that has no numbers for anybody */
    PIDS,     /* a pid namespace */
};

static void become(unsigned user)
{
    if (!geteuid() && (setresgid(user, user, user) || setresuid(user, user, user)))
        _exit(END_SKIPPED);
    if (prctl(PR_SET_DUMPABLE, 1)) /* its files in /proc are its own again */
        _exit(END_SKIPPED);
}

static void put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);

    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        _exit(END_SKIPPED);
    close(fd);
}

static int result(pid_t pid)
{
    int status;

    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

/* The rest runs in a process whose pid means nothing outside. */
static void enter_pids(void)
{
    pid_t pid;

    if (unshare(CLONE_NEWPID))
        _exit(END_SKIPPED);
    pid = fork();
    if (pid)
        _exit(result(pid));
    for (int i = 0; i < NOT_A_PID; i++) {
        pid = fork();
        if (!pid)
            _exit(0);
        result(pid);
    }
    pid = fork();
    if (pid)
        _exit(result(pid));
}

static void enter(enum place place)
{
    unsigned user = geteuid();
    char map[32];

    if (place == PIDS) {
        enter_pids();
        return;
    }
    if (unshare(CLONE_NEWUSER))
        _exit(END_SKIPPED);
    if (place == UNMAPPED)
        return;
    snprintf(map, sizeof(map), "0 %u 1", user);
    put("/proc/self/uid_map", map);
    if (geteuid() != 0)
        _exit(END_SKIPPED);
}

/* Its peer knows the endpoint before it is enabled. */
static struct pipes *told;

static void tell(struct end *end)
{
    char mine[END_NAME] = "", byte;

    end_name(end, mine);
    if (write(told->from[1], mine, sizeof(mine)) != sizeof(mine) ||
        read(told->to[0], &byte, 1) != 1)
        _exit(1);
}

static const struct end_want telling = {.prepare = tell};

/* Answers two messages. */
static void answer(struct pipes *pipes, enum place place)
{
    char *memory = calloc(1, LARGE), name[END_NAME];
    struct fi_cq_tagged_entry entry;
    struct end end;
    fi_addr_t peer;

    enter(place);
    alarm(END_ALARM);
    told = pipes;
    end_open_as(&end, "shm(cma=on)", &telling);
    if (read(pipes->to[0], name, sizeof(name)) != sizeof(name))
        _exit(1);
    peer = end_know(&end, name);
    for (int i = 0; i < 2; i++) {
        if (fi_trecv(end.ep, memory, LARGE, NULL, FI_ADDR_UNSPEC, 1, 0, NULL) ||
            end_wait(&end, NULL, &entry))
            _exit(2);
        memory[0]++;
        memory[LARGE - 1]++;
        end_post(&end, NULL, fi_tsend(end.ep, memory, LARGE, NULL, peer, 2, NULL));
        if (end_wait(&end, NULL, &entry))
            _exit(3);
    }
    _exit(0);
}

static int ask(struct pipes *pipes)
{
    char *memory = calloc(1, LARGE), name[END_NAME], mine[END_NAME] = "";
    struct fi_cq_tagged_entry entry;
    struct end end;
    fi_addr_t peer;
    ssize_t rc;

    alarm(END_ALARM);
    end_open(&end, "shm(cma=on)");
    if (read(pipes->from[0], name, sizeof(name)) != sizeof(name))
        return END_SKIPPED;
    peer = end_know(&end, name);
    /* It is there, but does not listen yet. */
    rc = fi_tsend(end.ep, memory, LARGE, NULL, peer, 1, NULL);
    if (rc != -FI_EAGAIN || write(pipes->to[1], "", 1) != 1)
        return 1;
    end_name(&end, mine);
    if (write(pipes->to[1], mine, sizeof(mine)) != sizeof(mine))
        return 2;
    for (char i = 1; i <= 2; i++) {
        fi_trecv(end.ep, memory, LARGE, NULL, FI_ADDR_UNSPEC, 2, 0, NULL);
        end_post(&end, NULL, fi_tsend(end.ep, memory, LARGE, NULL, peer, 1, NULL));
        if (end_wait(&end, NULL, &entry) || end_wait(&end, NULL, &entry))
            return 3;
        if (memory[0] != i || memory[LARGE - 1] != i)
            return 4;
    }
    return 0;
}

/* Both as a user who may not do everything; 0 in pid namespaces, which only root makes. */
static void meet(enum place place, unsigned user)
{
    struct pipes pipes;
    pid_t asks, answers;
    int rc;

    open_pipes(&pipes);
    answers = fork();
    if (!answers) {
        close(pipes.from[0]);
        if (user)
            become(user);
        answer(&pipes, place);
    }
    asks = fork();
    if (!asks) {
        close(pipes.from[1]);
        if (user)
            become(user);
        _exit(ask(&pipes));
    }
    close(pipes.from[1]);
    pipes.from[1] = -1;
    rc = result(asks);
    if (!rc)
        assert_int_equal(result(answers), 0);
    else
        kill(answers, SIGKILL);
    close_pipes(&pipes);
    if (rc == END_SKIPPED)
        skip();
    assert_int_equal(rc, 0);
}

static void a_user_who_is_root_there(void **state)
{
    meet(MAPPED, SOMEBODY);
}

static void a_user_without_a_number_there(void **state)
{
    meet(UNMAPPED, SOMEBODY);
}

static void a_process_of_other_pids(void **state)
{
    meet(PIDS, 0);
}

/* ---- Other users ---- */

static void be_alone(struct pipes *pipes)
{
    struct end end;

    become(SOMEBODY);
    enter(UNMAPPED);
    alarm(END_ALARM);
    told = pipes;
    end_open_as(&end, "shm", &telling);
    for (;;)
        end_drive(&end, NULL);
}

/* 0: hung up on. The other's number is the one that all have there. */
static int knock(struct pipes *pipes, unsigned user)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0), len;
    char name[END_NAME], byte;

    alarm(END_ALARM);
    become(user);
    if (read(pipes->from[0], name, sizeof(name)) != sizeof(name) || write(pipes->to[1], "", 1) != 1)
        return END_SKIPPED;
    len = snprintf(sun.sun_path + 1, sizeof(sun.sun_path) - 1, "weft-shm/65534/%s",
                   strstr(name, "://") + 3);
    while (connect(fd, (struct sockaddr *)&sun,
                   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)))
        sched_yield();
    /* A process that is let in and says something senseless is cut off too, but has been heard. */
    return recv(fd, &byte, 1, 0) ? 1 : 0;
}

static void somebody_else_without_a_number(void **state)
{
    struct pipes pipes;
    pid_t alone, knocks;
    int rc;

    if (geteuid())
        skip();
    open_pipes(&pipes);
    alone = fork();
    if (!alone) {
        close(pipes.from[0]);
        be_alone(&pipes);
    }
    close(pipes.from[1]);
    pipes.from[1] = dup(pipes.from[0]);
    knocks = fork();
    if (!knocks)
        _exit(knock(&pipes, SOMEBODY_ELSE));
    rc = result(knocks);
    kill(alone, SIGKILL);
    waitpid(alone, NULL, 0);
    close_pipes(&pipes);
    if (rc == END_SKIPPED)
        skip();
    assert_int_equal(rc, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_user_who_is_root_there),
        cmocka_unit_test(a_user_without_a_number_there),
        cmocka_unit_test(a_process_of_other_pids),
        cmocka_unit_test(somebody_else_without_a_number),
    };

    alarm(END_ALARM);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
