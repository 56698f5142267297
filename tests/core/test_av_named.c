/* SPDX-License-Identifier: BSD-2-Clause */
/* Named address vectors, of one process and of several. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/av/av.h"
#include "core/av/av_journal.h"
#include "core/info/abi.h"
#include "nomem.h"

/* A domain by hand: nothing of fabrics is needed here. */
static struct fabric fabric = {.part = "test", .abi = ABI_1_9};
static char domain_name[] = "eth0.5";
static struct fi_domain_attr domain_attr = {.name = domain_name};
static struct fi_info info = {.caps = FI_SHARED_AV, .domain_attr = &domain_attr};
static struct domain domain = {.fabric = &fabric, .info = &info};

static const char *name_of(const char *what)
{
    static char name[64];

    snprintf(name, sizeof(name), "test-%d-%s", (int)getpid(), what);
    return name;
}

static const char *path_of(const char *name)
{
    static char path[200];

    snprintf(path, sizeof(path), "/dev/shm/weft-av.%u.eth0%%2e5.%s", (unsigned)geteuid(), name);
    return path;
}

static bool there_is(const char *name)
{
    struct stat st;

    return !stat(path_of(name), &st);
}

static int try_open(const char *name, uint64_t flags, struct fid_av **av)
{
    struct fi_av_attr attr = {.name = name, .flags = flags};

    if (info.addr_format != FI_ADDR_STR)
        info.addr_format = FI_SOCKADDR_IN;
    return av_open(&domain, &attr, av, NULL);
}

static struct fid_av *open_av(const char *name, uint64_t flags)
{
    struct fid_av *av;

    assert_int_equal(try_open(name, flags, &av), 0);
    return av;
}

static void close_av(struct fid_av *av)
{
    assert_int_equal(fi_close(&av->fid), 0);
}

static struct av *of(struct fid_av *av)
{
    return object_of(av, struct av, fid);
}

static struct sockaddr_in in4(uint32_t host)
{
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(7)};

    sin.sin_addr.s_addr = htonl(host);
    return sin;
}

static int insert(struct fid_av *av, uint32_t host, fi_addr_t *addr)
{
    struct sockaddr_in sin = in4(host);

    return fi_av_insert(av, &sin, 1, addr, 0, NULL);
}

/* The host at addr, or 0. */
static uint32_t host_at(struct fid_av *av, fi_addr_t addr)
{
    struct sockaddr_in sin = {0};
    size_t len = sizeof(sin);

    return fi_av_lookup(av, addr, &sin, &len) ? 0 : ntohl(sin.sin_addr.s_addr);
}

static fi_addr_t index_of(struct fid_av *av, uint32_t host)
{
    struct sockaddr_in sin = in4(host);

    return av_find(of(av), &sin);
}

static void readers_see_what_is_there_and_what_comes(void **state)
{
    struct fid_av *writer = open_av(name_of("see"), 0), *reader;
    const struct sockaddr_in *found;
    fi_addr_t addr;

    assert_int_equal(insert(writer, 100, &addr), 1);
    reader = open_av(name_of("see"), FI_READ);
    assert_int_equal(host_at(reader, 0), 100);
    assert_int_equal(insert(writer, 101, &addr), 1);
    assert_int_equal(insert(writer, 102, &addr), 1);
    assert_int_equal(index_of(reader, 102), 2);
    assert_int_equal(insert(writer, 103, &addr), 1);
    found = av_addr(of(reader), 3);
    assert_non_null(found);
    assert_int_equal(ntohl(found->sin_addr.s_addr), 103);
    assert_null(av_addr(of(reader), 4));
    assert_true(there_is(name_of("see")));
    close_av(writer);
    assert_false(there_is(name_of("see")));
    assert_int_equal(host_at(reader, 2), 102);
    close_av(reader);
}

static void readers_change_nothing(void **state)
{
    struct fid_av *writer = open_av(name_of("nothing"), 0), *reader;
    fi_addr_t addr = 0;

    reader = open_av(name_of("nothing"), FI_READ);
    assert_int_equal(insert(writer, 1, NULL), 1);
    assert_int_equal(insert(reader, 2, NULL), -FI_EPERM);
    assert_int_equal(fi_av_insertsvc(reader, "127.0.0.1", "7", NULL, 0, NULL), -FI_EPERM);
    assert_int_equal(fi_av_remove(reader, &addr, 1, 0), -FI_EPERM);
    assert_int_equal(host_at(writer, 0), 1);
    assert_int_equal(host_at(writer, 1), 0);
    close_av(reader);
    close_av(writer);
}

static void writers_continue_each_others_indices(void **state)
{
    struct fid_av *a = open_av(name_of("two"), 0), *b = open_av(name_of("two"), 0);
    fi_addr_t addr;

    for (uint32_t i = 0; i < 200; i++) {
        assert_int_equal(insert(i % 3 ? a : b, 1000 + i, &addr), 1);
        assert_int_equal(addr, i);
    }
    for (uint32_t i = 0; i < 200; i++) {
        assert_int_equal(host_at(a, i), 1000 + i);
        assert_int_equal(host_at(b, i), 1000 + i);
    }
    close_av(a);
    assert_true(there_is(name_of("two")));
    assert_int_equal(insert(b, 5, &addr), 1);
    assert_int_equal(addr, 200);
    close_av(b);
    assert_false(there_is(name_of("two")));
    b = open_av(name_of("two"), 0);
    assert_int_equal(insert(b, 5, &addr), 1);
    assert_int_equal(addr, 0);
    close_av(b);
}

static void an_address_is_there_until_all_have_removed_it(void **state)
{
    struct fid_av *a = open_av(name_of("count"), 0), *b = open_av(name_of("count"), 0);
    fi_addr_t addr, other;

    assert_int_equal(insert(a, 9, &addr), 1);
    assert_int_equal(insert(b, 9, &other), 1);
    assert_int_equal(addr, other);
    assert_int_equal(fi_av_remove(a, &addr, 1, 0), 0);
    assert_int_equal(host_at(a, addr), 9);
    assert_int_equal(fi_av_remove(a, &addr, 1, 0), 0);
    assert_int_equal(host_at(b, addr), 0);
    assert_int_equal(fi_av_remove(b, &addr, 1, 0), -FI_EINVAL);
    /* A segment that a process may still hold goes to no other. */
    assert_int_equal(insert(b, 9, &other), 1);
    assert_int_equal(other, addr + 1);
    assert_int_equal(host_at(a, other), 9);
    close_av(a);
    close_av(b);
}

struct counts {
    struct av_listener listener;
    int inserted, removed;
};

static void saw_insert(struct av_listener *listener, fi_addr_t addr)
{
    object_of(listener, struct counts, listener)->inserted++;
}

static void saw_remove(struct av_listener *listener, fi_addr_t addr)
{
    object_of(listener, struct counts, listener)->removed++;
}

static void driving_a_unit_tells_its_endpoints(void **state)
{
    struct fid_av *writer = open_av(name_of("drive"), 0), *reader;
    struct counts counts = {{.inserted = saw_insert, .removed = saw_remove}, 0, 0};
    struct timespec step = {.tv_nsec = 1000000};
    fi_addr_t addr;

    reader = open_av(name_of("drive"), FI_READ);
    assert_int_equal(progress_create_control("test", &counts.listener.progress), 0);
    av_attach(of(reader), &counts.listener);
    assert_int_equal(progress_sleep_ms(counts.listener.progress), -1);
    assert_int_equal(insert(writer, 1, &addr), 1);
    for (int i = 0; i < 20000 && !counts.inserted; i++) {
        progress_lock(counts.listener.progress);
        progress_poll(counts.listener.progress);
        progress_unlock(counts.listener.progress);
        nanosleep(&step, NULL);
    }
    assert_int_equal(counts.inserted, 1);
    assert_int_equal(fi_av_remove(writer, &addr, 1, 0), 0);
    progress_lock(counts.listener.progress);
    assert_int_equal(progress_trywait(counts.listener.progress), -FI_EAGAIN);
    assert_int_equal(progress_trywait(counts.listener.progress), 0);
    progress_unlock(counts.listener.progress);
    assert_int_equal(counts.removed, 1);
    av_detach(of(reader), &counts.listener);
    progress_release(counts.listener.progress);
    close_av(reader);
    close_av(writer);
}

static void texts_are_shared_too(void **state)
{
    const char *texts[3] = {"fi_shm://a", "fi_shm://a-somewhat-longer-one", "x"};
    struct fid_av *writer, *reader;
    char found[64];
    size_t len = sizeof(found);

    info.addr_format = FI_ADDR_STR;
    writer = open_av(name_of("text"), 0);
    reader = open_av(name_of("text"), FI_READ);
    assert_int_equal(fi_av_insert(writer, texts, 3, NULL, 0, NULL), 3);
    assert_int_equal(fi_av_lookup(reader, 1, found, &len), 0);
    assert_string_equal(found, texts[1]);
    assert_int_equal(av_find(of(reader), "x"), 2);
    info.addr_format = FI_SOCKADDR_IN;
    close_av(reader);
    assert_int_equal(try_open(name_of("text"), FI_READ, &reader), -FI_EINVAL);
    assert_int_equal(try_open(name_of("text"), 0, &reader), -FI_EINVAL);
    close_av(writer);
}

static void map_addr_is_an_array_of_addresses(void **state)
{
    struct fi_av_attr attr = {.name = name_of("map"), .count = 10000};
    struct fid_av *writer, *reader;
    fi_addr_t *map;

    info.addr_format = FI_SOCKADDR_IN;
    assert_int_equal(av_open(&domain, &attr, &writer, NULL), 0);
    map = attr.map_addr;
    assert_non_null(map);
    for (fi_addr_t i = 0; i < 10000; i++)
        assert_int_equal(map[i], i);
    attr.map_addr = NULL;
    attr.flags = FI_READ;
    attr.count = 0;
    assert_int_equal(av_open(&domain, &attr, &reader, NULL), 0);
    map = attr.map_addr;
    for (uint32_t i = 0; i < 6000; i++)
        assert_int_equal(insert(writer, i + 1, NULL), 1);
    assert_int_equal(host_at(reader, 0), 1);
    for (fi_addr_t i = 0; i < 12000; i++)
        assert_int_equal(map[i], i);
    close_av(reader);
    /* Where the program wants it, and where it cannot be. */
    attr.map_addr = map;
    assert_int_equal(av_open(&domain, &attr, &reader, NULL), 0);
    assert_ptr_equal(attr.map_addr, map);
    assert_int_equal(map[17], 17);
    close_av(reader);
    attr.map_addr = &attr;
    assert_int_equal(av_open(&domain, &attr, &reader, NULL), 0);
    assert_ptr_equal(attr.map_addr, &attr);
    assert_int_equal(host_at(reader, 5999), 6000);
    close_av(reader);
    close_av(writer);
}

static void names_are_checked(void **state)
{
    static const char *const bad[] = {"", "a/b", "/", "tab\there", "\177"};
    char longest[AV_NAME_MAX + 2], long_domain[260];
    struct fid_av *av;

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_int_equal(try_open(bad[i], 0, &av), -FI_EINVAL);
        assert_int_equal(try_open(bad[i], FI_READ, &av), -FI_EINVAL);
    }
    memset(longest, 'n', sizeof(longest));
    longest[AV_NAME_MAX + 1] = 0;
    assert_int_equal(try_open(longest, 0, &av), -FI_EINVAL);
    snprintf(longest, sizeof(longest), "%s", name_of("long"));
    memset(longest + strlen(longest), 'n', AV_NAME_MAX - strlen(longest));
    longest[AV_NAME_MAX] = 0;
    close_av(open_av(longest, 0));
    memset(long_domain, '.', sizeof(long_domain));
    for (size_t len = 30; len < sizeof(long_domain); len += 7) {
        long_domain[len] = 0;
        domain_attr.name = long_domain;
        if (!try_open(longest, 0, &av))
            close_av(av);
        else
            assert_int_equal(try_open(longest, 0, &av), -FI_EINVAL);
        long_domain[len] = '.';
    }
    domain_attr.name = NULL;
    close_av(open_av(name_of("no-domain"), 0));
    domain_attr.name = domain_name;
    assert_int_equal(try_open(NULL, FI_READ, &av), -FI_EINVAL);
    assert_int_equal(try_open(name_of("nobody"), FI_READ, &av), -FI_ENOENT);
    info.caps = 0;
    assert_int_equal(try_open(name_of("unasked"), 0, &av), -FI_ENOSYS);
    info.caps = FI_SHARED_AV;
    assert_false(children_any(&domain.children));
}

static void domains_have_names_of_their_own(void **state)
{
    struct fid_av *here = open_av(name_of("own"), 0), *there;
    fi_addr_t addr;

    assert_int_equal(insert(here, 1, &addr), 1);
    domain_attr.name = (char[]){"eth1"};
    assert_int_equal(try_open(name_of("own"), FI_READ, &there), -FI_ENOENT);
    there = open_av(name_of("own"), 0);
    assert_int_equal(host_at(there, 0), 0);
    domain_attr.name = domain_name;
    close_av(there);
    assert_int_equal(host_at(here, 0), 1);
    close_av(here);
}

/* ---- Several processes ---- */

static int exit_of(pid_t pid)
{
    int status = 0;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The child's finding, a number for each fault; cmocka's asserts are the parent's. */
#define CHILD_CHECK(ok)                                                                            \
    do {                                                                                           \
        if (!(ok)) {                                                                               \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #ok);                               \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static void processes_insert_side_by_side(void **state)
{
    enum {
        CHILDREN = 4,
        EACH = 500
    };
    const char *name = name_of("side");
    struct fid_av *av = open_av(name, 0), *own;
    pid_t children[CHILDREN];
    unsigned char seen[CHILDREN * EACH + 1] = {0};
    fi_addr_t addr;

    for (uint32_t c = 0; c < CHILDREN; c++) {
        children[c] = fork();
        if (children[c])
            continue;
        CHILD_CHECK(!try_open(name, 0, &own));
        for (uint32_t i = 0; i < EACH; i++) {
            CHILD_CHECK(insert(own, 1 + c * EACH + i, &addr) == 1);
            CHILD_CHECK(host_at(own, addr) == 1 + c * EACH + i);
        }
        CHILD_CHECK(!fi_close(&own->fid));
        _exit(0);
    }
    for (int c = 0; c < CHILDREN; c++)
        assert_int_equal(exit_of(children[c]), 0);
    for (fi_addr_t i = 0; i < CHILDREN * EACH; i++) {
        uint32_t host = host_at(av, i);

        assert_in_range(host, 1, CHILDREN * EACH);
        assert_int_equal(seen[host % sizeof(seen)]++, 0);
    }
    assert_int_equal(host_at(av, CHILDREN * EACH), 0);
    close_av(av);
}

static void the_dead_leave_nothing_behind(void **state)
{
    const char *name = name_of("dead");
    struct fid_av *av;
    fi_addr_t addr;
    pid_t pid;

    for (int killed = 0; killed < 2; killed++) {
        pid = fork();
        if (!pid) {
            CHILD_CHECK(!try_open(name, 0, &av));
            CHILD_CHECK(insert(av, 1, NULL) == 1 && insert(av, 2, NULL) == 1);
            if (killed)
                raise(SIGKILL);
            _exit(0);
        }
        exit_of(pid);
        assert_true(there_is(name));
        assert_int_equal(try_open(name, FI_READ, &av), -FI_ENOENT);
        if (killed) {
            /* The maker of another one sweeps. */
            close_av(open_av(name_of("sweeps"), 0));
            assert_false(there_is(name_of("dead")));
        }
        av = open_av(name_of("dead"), 0);
        assert_int_equal(insert(av, 7, &addr), 1);
        assert_int_equal(addr, 0);
        close_av(av);
        name = name_of("dead");
    }
}

static void a_forked_child_takes_nothing_away(void **state)
{
    const char *name = name_of("fork");
    struct fid_av *av = open_av(name, 0), *reader;
    fi_addr_t addr;
    pid_t pid;
    int go[2];

    assert_int_equal(insert(av, 1, &addr), 1);
    pid = fork();
    if (!pid) {
        CHILD_CHECK(insert(av, 2, NULL) == -FI_EOPBADSTATE);
        CHILD_CHECK(host_at(av, 0) == 1);
        CHILD_CHECK(!fi_close(&av->fid));
        CHILD_CHECK(!try_open(name, FI_READ, &reader) && host_at(reader, 0) == 1);
        _exit(0);
    }
    assert_int_equal(exit_of(pid), 0);
    assert_true(there_is(name));
    reader = open_av(name, FI_READ);
    assert_int_equal(insert(av, 3, &addr), 1);
    assert_int_equal(host_at(reader, 1), 3);
    close_av(reader);
    /* A child that lives longer keeps no name. */
    assert_int_equal(pipe(go), 0);
    pid = fork();
    if (!pid) {
        char byte;

        close(go[1]);
        _exit(read(go[0], &byte, 1) != 0);
    }
    close(go[0]);
    close_av(av);
    assert_false(there_is(name));
    av = open_av(name, 0);
    assert_int_equal(host_at(av, 0), 0);
    close_av(av);
    close(go[1]);
    assert_int_equal(exit_of(pid), 0);
}

/* ---- Files that others wrote ---- */

static int open_file(const char *name)
{
    int fd = open(path_of(name), O_RDWR);

    assert_true(fd >= 0);
    return fd;
}

static void foreign_files_are_refused(void **state)
{
    const char *path = path_of(name_of("foreign"));
    struct fid_av *av;
    int fd;

    assert_int_equal(symlink("/dev/null", path), 0);
    assert_int_equal(try_open(name_of("foreign"), 0, &av), -FI_EACCES);
    assert_int_equal(try_open(name_of("foreign"), FI_READ, &av), -FI_EACCES);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(try_open(name_of("foreign"), 0, &av), -FI_EACCES);
    unlink(path);
    fd = open(path, O_RDWR | O_CREAT, 0666);
    assert_int_equal(fchmod(fd, 0666), 0);
    assert_int_equal(try_open(name_of("foreign"), 0, &av), -FI_EACCES);
    close(fd);
    unlink(path);
    /* No process holds it, so it is replaced; a file of another kind under an AV is not joined. */
    fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_int_equal(write(fd, "garbage", 7), 7);
    close(fd);
    av = open_av(name_of("foreign"), 0);
    fd = open_file(name_of("foreign"));
    assert_int_equal(pwrite(fd, "garbage", 7, 0), 7);
    close(fd);
    fabric.part = "quiet";
    assert_int_equal(try_open(name_of("foreign"), 0, &(struct fid_av *){NULL}), -FI_EINVAL);
    assert_int_equal(try_open(name_of("foreign"), FI_READ, &(struct fid_av *){NULL}), -FI_EINVAL);
    fabric.part = "test";
    close_av(av);
}

/* A file cut off, and lengths and changes that are wrong: addresses stay, changes are refused. */
static void one_wrong_change(size_t at, const void *bytes, size_t len, off_t cut)
{
    struct fid_av *writer = open_av(name_of("wrong"), 0), *reader, *late;
    fi_addr_t addr;
    int fd, rc;

    assert_int_equal(insert(writer, 1, &addr), 1);
    reader = open_av(name_of("wrong"), FI_READ);
    assert_int_equal(insert(writer, 2, &addr), 1);
    fd = open_file(name_of("wrong"));
    if (cut >= 0)
        assert_int_equal(ftruncate(fd, cut), 0);
    else
        assert_int_equal(pwrite(fd, bytes, len, (off_t)at), (ssize_t)len);
    close(fd);
    assert_int_equal(host_at(reader, 0), 1);
    assert_true(!host_at(reader, 1) || host_at(reader, 1) == 2);
    assert_int_equal(host_at(reader, 2), 0);
    /* Nothing at all makes sense, where one comes late. */
    rc = try_open(name_of("wrong"), FI_READ, &late);
    assert_true(rc == -FI_EIO || (rc == -FI_EINVAL && cut >= 0 && cut < 24) ||
                (!rc && at == offsetof(struct av_segment_header, used) && !host_at(late, 0)));
    if (!rc)
        close_av(late);
    if (cut >= 0 ? cut < 20 : at == offsetof(struct av_segment_header, used))
        assert_int_equal(insert(writer, 3, &addr), -FI_EIO);
    assert_int_equal(host_at(writer, 1), 2);
    close_av(reader);
    close_av(writer);
    assert_false(there_is(name_of("wrong")));
}

static void damage_is_noticed(void **state)
{
    const size_t used = offsetof(struct av_segment_header, used), second = AV_SEGMENT_START + 24;
    const struct sockaddr_in none = {.sin_family = 99}, again = in4(1);
    const uint32_t lengths[] = {0, 1, 2, 4, 7, 1u << 26, AV_JOURNAL_MAX, ~0u};
    const uint16_t kinds[] = {0, 3, 0xffff}, sizes[] = {0, 8, 15, 17, 600, 0xffff};
    const uint32_t indices[] = {0, 2, ~0u};

    /* Two insertions are 6 progress domains; the reader has had 3 of them. */
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++)
        one_wrong_change(used, &lengths[i], 4, -1);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        one_wrong_change(second + 4, &kinds[i], 2, -1);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        one_wrong_change(second + 6, &sizes[i], 2, -1);
    for (size_t i = 0; i < sizeof(indices) / sizeof(*indices); i++)
        one_wrong_change(second, &indices[i], 4, -1);
    one_wrong_change(second + 8, &none, sizeof(none), -1);
    one_wrong_change(second + 8, &again, sizeof(again), -1);
    one_wrong_change(0, NULL, 0, 0);
    one_wrong_change(0, NULL, 0, 20);
    one_wrong_change(0, NULL, 0, (off_t)second + 4);
}

/* Scribbles all over a file that is in use. Nothing may crash, hang or leak; whatever is found at
 * an index is an address. */
static void scribbled_files_do_no_harm(void **state)
{
    enum {
        ROUNDS = 300
    };
    unsigned seed = (unsigned)getpid();

    print_message("seed %u\n", seed);
    fabric.part = "quiet";
    for (int round = 0; round < ROUNDS; round++) {
        struct fid_av *writer = open_av(name_of("scribble"), 0), *reader, *late;
        fi_addr_t addr;
        int fd;

        reader = open_av(name_of("scribble"), FI_READ);
        fd = open_file(name_of("scribble"));
        for (int step = 0; step < 12; step++) {
            uint32_t word =
                rand_r(&seed) % 3 ? (uint32_t)rand_r(&seed) % 40 : (uint32_t)rand_r(&seed);

            insert(writer, 1 + (uint32_t)rand_r(&seed) % 8, &addr);
            addr = (fi_addr_t)rand_r(&seed) % 8;
            if (rand_r(&seed) % 4 == 0)
                fi_av_remove(writer, &addr, 1, 0);
            if (rand_r(&seed) % 3 == 0)
                assert_int_equal(pwrite(fd, &word, 4, rand_r(&seed) % 300), 4);
            if (rand_r(&seed) % 40 == 0)
                assert_int_equal(ftruncate(fd, rand_r(&seed) % 400), 0);
            for (fi_addr_t i = 0; i < 12; i++)
                assert_true(!host_at(reader, i) || av_addr(of(reader), i));
        }
        close(fd);
        if (!try_open(name_of("scribble"), FI_READ, &late))
            close_av(late);
        close_av(reader);
        close_av(writer);
    }
    fabric.part = "test";
}

/* A writer dies between writing and saying so: what was not said is overwritten. */
static void what_was_not_published_was_not_done(void **state)
{
    struct fid_av *writer = open_av(name_of("half"), 0), *reader;
    fi_addr_t addr;
    char junk[200];
    int fd;

    memset(junk, 0xa5, sizeof(junk));
    assert_int_equal(insert(writer, 1, &addr), 1);
    fd = open_file(name_of("half"));
    assert_int_equal(pwrite(fd, junk, sizeof(junk), AV_SEGMENT_START + 24), sizeof(junk));
    close(fd);
    reader = open_av(name_of("half"), 0);
    assert_int_equal(host_at(reader, 0), 1);
    assert_int_equal(host_at(reader, 1), 0);
    assert_int_equal(insert(reader, 2, &addr), 1);
    assert_int_equal(host_at(writer, 1), 2);
    close_av(reader);
    close_av(writer);
}

/* Allocation number N fails, of opening and of taking in: what was not taken in now is later. */
static void changes_wait_for_memory(void **state)
{
    enum {
        MANY = 1000
    };
    struct fid_av *writer = open_av(name_of("nomem"), 0), *reader;
    long n, before;
    bool reached = true;
    int rc;

    if (!NOMEM_WORKS) {
        close_av(writer);
        skip();
    }
    for (uint32_t i = 0; i < MANY; i++)
        assert_int_equal(insert(writer, 1 + i % (MANY / 2), NULL), 1);
    before = nomem_live;
    for (n = 1; reached; n++) {
        nomem_at = n;
        rc = try_open(name_of("nomem"), FI_READ, &reader);
        reached = nomem_at == 0;
        nomem_at = 0;
        assert_int_equal(rc, reached ? -FI_ENOMEM : 0);
        if (!rc)
            close_av(reader);
        assert_int_equal(nomem_live, before);
    }
    assert_true(n > 8);
    for (n = 1, reached = true; reached; n++) {
        struct fid_av *late = open_av(name_of("nomem-late"), 0);

        reader = open_av(name_of("nomem-late"), FI_READ);
        for (uint32_t i = 0; i < 80; i++)
            assert_int_equal(insert(late, 1 + i % 79, NULL), 1);
        nomem_at = n;
        index_of(reader, 79);
        reached = nomem_at == 0;
        nomem_at = 0;
        assert_int_equal(index_of(reader, 79), 78);
        assert_int_equal(insert(late, 100, NULL), 1);
        assert_int_equal(index_of(reader, 100), 79);
        close_av(reader);
        close_av(late);
    }
    assert_true(n > 3);
    close_av(writer);
}

struct race {
    struct fid_av *av;
    uint32_t from;
    atomic_bool done;
};

static void *insert_some(void *arg)
{
    struct race *race = arg;

    for (uint32_t i = 0; i < 2000; i++)
        insert(race->av, race->from + i, NULL);
    atomic_store(&race->done, true);
    return NULL;
}

/* Two writers, each with a thread, and one that looks up without a lock. */
static void threads_look_while_others_insert(void **state)
{
    struct race races[2] = {{open_av(name_of("race"), 0), 1, false},
                            {open_av(name_of("race"), 0), 1000, false}};
    struct fid_av *reader = open_av(name_of("race"), FI_READ);
    pthread_t threads[2];
    fi_addr_t next = 0;

    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, insert_some, &races[i]), 0);
    while (!atomic_load(&races[0].done) || !atomic_load(&races[1].done)) {
        if (av_addr(of(races[0].av), next) && av_addr(of(reader), next))
            next++;
        else
            sched_yield();
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(host_at(reader, 2998) != 0, 1);
    for (fi_addr_t i = 0; i < 2999; i++)
        assert_int_equal(host_at(reader, i), host_at(races[1].av, i));
    for (int i = 0; i < 2; i++)
        close_av(races[i].av);
    close_av(reader);
}

/* More than fits into the buffers of either side. */
static void many_are_seen_at_once(void **state)
{
    enum {
        MANY = 50000
    };
    struct sockaddr_in *list = calloc(MANY, sizeof(*list));
    struct fid_av *writer = open_av(name_of("many"), 0), *reader;

    for (uint32_t i = 0; i < MANY; i++)
        list[i] = in4(i + 1);
    reader = open_av(name_of("many"), FI_READ);
    assert_int_equal(fi_av_insert(writer, list, MANY, NULL, 0, NULL), MANY);
    for (uint32_t i = 0; i < MANY; i += 97)
        assert_int_equal(host_at(reader, i), i + 1);
    assert_int_equal(av_limit(of(reader)), MANY);
    close_av(reader);
    close_av(writer);
    free(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_see_what_is_there_and_what_comes),
        cmocka_unit_test(readers_change_nothing),
        cmocka_unit_test(writers_continue_each_others_indices),
        cmocka_unit_test(an_address_is_there_until_all_have_removed_it),
        cmocka_unit_test(driving_a_unit_tells_its_endpoints),
        cmocka_unit_test(texts_are_shared_too),
        cmocka_unit_test(map_addr_is_an_array_of_addresses),
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(domains_have_names_of_their_own),
        cmocka_unit_test(processes_insert_side_by_side),
        cmocka_unit_test(the_dead_leave_nothing_behind),
        cmocka_unit_test(a_forked_child_takes_nothing_away),
        cmocka_unit_test(foreign_files_are_refused),
        cmocka_unit_test(damage_is_noticed),
        cmocka_unit_test(scribbled_files_do_no_harm),
        cmocka_unit_test(what_was_not_published_was_not_done),
        cmocka_unit_test(changes_wait_for_memory),
        cmocka_unit_test(threads_look_while_others_insert),
        cmocka_unit_test(many_are_seen_at_once),
    };

    return cmocka_run_group_tests_name("core/av_named", tests, NULL, NULL);
}
