/* SPDX-License-Identifier: BSD-2-Clause */
/* A stranger connects to an endpoint's socket and is no peer: it is cut off, costs nothing that
 * lasts, and the endpoint goes on. A peer's writes into a ring are tests/fuzz/fuzz_shm.c's. */
#include <fcntl.h>
#include <linux/sockios.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ends.h"

enum {
    MAGIC = 0x57534d31,
    REGION = 2 * (4096 + (256 << 10)),
    PAGE = 4096,
    STRANGERS = 300,
    LINES = 60,
    LINE = 64,
    LINES_AT = 256,
    CREDITS_AT = 128,
    READ_BYTES = 4 * 8,
    FLOOD = 400000,
    REGION_SIZE = 1 << 20,
    KEY = 5,
    WORDS = 200,
    FDS_MAX = 8,
};

/* As transports/shm/shm_handshake.c has it. */
struct hello {
    uint32_t magic, version, region, number, barrier, one_way;
    int64_t segment;
    uint64_t stamp, stamp_at;
    char name[256];
};

struct game {
    struct end victim, friend;
    fi_addr_t peer;
    unsigned fds;
    char *memory;
    struct fid_mr *mr;
};

static const struct end_want want = {.caps = FI_MSG | FI_TAGGED | FI_RMA};

static int set_up(void **state)
{
    struct game *game = calloc(1, sizeof(*game));
    struct fi_cq_tagged_entry entry;
    char in;

    end_open_as(&game->victim, "shm", &want);
    game->memory = calloc(1, REGION_SIZE);
    assert_int_equal(fi_mr_reg(game->victim.domain, game->memory, REGION_SIZE, FI_REMOTE_READ, 0,
                               KEY, 0, &game->mr, NULL),
                     0);
    end_open(&game->friend, "shm");
    game->peer = end_introduce(&game->friend, &game->victim);
    assert_int_equal(fi_trecv(game->victim.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    end_post(&game->friend, &game->victim, fi_tinject(game->friend.ep, "x", 1, game->peer, 1));
    assert_int_equal(end_wait(&game->victim, &game->friend, &entry), 0);
    game->fds = end_open_fds();
    *state = game;
    return 0;
}

static int tear_down(void **state)
{
    struct game *game = *state;

    assert_int_equal(fi_close(&game->mr->fid), 0);
    end_close(&game->victim);
    end_close(&game->friend);
    free(game->memory);
    free(game);
    return 0;
}

/* The endpoint serves its friend, and has let go of all strangers. */
static void goes_on(struct game *game)
{
    struct fi_cq_tagged_entry entry;
    double begin = end_seconds();
    char in = 0;

    assert_int_equal(fi_trecv(game->victim.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    end_post(&game->friend, &game->victim, fi_tinject(game->friend.ep, "y", 1, game->peer, 1));
    assert_int_equal(end_wait(&game->victim, &game->friend, &entry), 0);
    assert_int_equal(in, 'y');
    while (end_open_fds() > game->fds && end_seconds() - begin < 60)
        end_drive(&game->victim, &game->friend);
    assert_int_equal(end_open_fds(), game->fds);
}

static int stranger(struct game *game)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0), len;
    char name[END_NAME];

    end_name(&game->victim, name);
    len = snprintf(sun.sun_path + 1, sizeof(sun.sun_path) - 1, "weft-shm/%u/%s",
                   (unsigned)geteuid(), strstr(name, "://") + 3);
    assert_int_equal(connect(fd, (struct sockaddr *)&sun,
                             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)),
                     0);
    return fd;
}

static int memory(size_t size, bool sealed)
{
    int fd = memfd_create("weft-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    if (sealed)
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    return fd;
}

static void say(int fd, const void *bytes, size_t len, const int *fds, size_t count)
{
    char space[CMSG_SPACE(FDS_MAX * sizeof(int))] = {0};
    struct iovec iov = {(void *)(uintptr_t)bytes, len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    struct cmsghdr *cmsg;

    if (count) {
        msg.msg_control = space;
        msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
        cmsg = CMSG_FIRSTHDR(&msg);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(cmsg), fds, count * sizeof(int));
    }
    assert_int_equal(sendmsg(fd, &msg, MSG_NOSIGNAL), (ssize_t)len);
}

/* Says it, and waits until the endpoint hangs up. */
static void is_cut_off(struct game *game, const void *bytes, size_t len, const int *fds,
                       size_t count)
{
    int fd = stranger(game);
    double begin = end_seconds();
    char answer[512];
    ssize_t n;

    say(fd, bytes, len, fds, count);
    while ((n = recv(fd, answer, sizeof(answer), MSG_DONTWAIT)) < 0 && end_seconds() - begin < 60)
        end_drive(&game->victim, &game->friend);
    assert_int_equal(n, 0);
    close(fd);
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
    goes_on(game);
}

static const struct hello sound = {
    .magic = MAGIC, .version = 5, .region = REGION, .name = "fi_ns://stranger"};

/* A stranger that is let in: other introductions are refused for their own mistakes. */
static int welcome(struct game *game, const int *fds)
{
    int fd = stranger(game);
    double begin = end_seconds();
    struct hello answer = {0};

    say(fd, &sound, sizeof(sound), fds, 2);
    while (recv(fd, &answer, sizeof(answer), MSG_DONTWAIT) < 0 && end_seconds() - begin < 60)
        end_drive(&game->victim, &game->friend);
    assert_int_equal(answer.magic, MAGIC);
    assert_int_equal(answer.version, sound.version);
    return fd;
}

static void who_is_sound_is_welcome(void **state)
{
    int fds[] = {memory(PAGE, true), memory(REGION, true)};

    close(welcome(*state, fds));
    close(fds[0]);
    close(fds[1]);
    goes_on(*state);
}

static void words_that_make_no_sense(void **state)
{
    struct hello hello = sound;
    char noise[sizeof(hello)];

    memset(noise, 'z', sizeof(noise));
    is_cut_off(*state, noise, sizeof(noise), NULL, 0);
    is_cut_off(*state, noise, 7, NULL, 0);
    is_cut_off(*state, &sound, sizeof(sound) - 1, NULL, 0);
    hello.version = 1;
    is_cut_off(*state, &hello, sizeof(hello), (int[]){memory(PAGE, true), memory(REGION, true)}, 2);
    hello = sound;
    hello.region = REGION * 2;
    is_cut_off(*state, &hello, sizeof(hello), (int[]){memory(PAGE, true), memory(REGION, true)}, 2);
    hello = sound;
    memset(hello.name, 'n', sizeof(hello.name));
    is_cut_off(*state, &hello, sizeof(hello), (int[]){memory(PAGE, true), memory(REGION, true)}, 2);
    /* Names are shown in logs. */
    hello = sound;
    strcpy(hello.name, "fi_ns://a\033[2Jb");
    is_cut_off(*state, &hello, sizeof(hello), (int[]){memory(PAGE, true), memory(REGION, true)}, 2);
    hello.name[0] = 0;
    is_cut_off(*state, &hello, sizeof(hello), (int[]){memory(PAGE, true), memory(REGION, true)}, 2);
}

static void memory_that_will_not_do(void **state)
{
    is_cut_off(*state, &sound, sizeof(sound), NULL, 0);
    is_cut_off(*state, &sound, sizeof(sound), (int[]){memory(PAGE, true)}, 1);
    /* The owner could cut these off under our hands. */
    is_cut_off(*state, &sound, sizeof(sound), (int[]){memory(PAGE, false), memory(REGION, true)},
               2);
    is_cut_off(*state, &sound, sizeof(sound), (int[]){memory(PAGE, true), memory(REGION, false)},
               2);
    is_cut_off(*state, &sound, sizeof(sound), (int[]){memory(PAGE, true), memory(REGION / 2, true)},
               2);
    is_cut_off(*state, &sound, sizeof(sound), (int[]){memory(1, true), memory(REGION, true)}, 2);
    is_cut_off(*state, &sound, sizeof(sound),
               (int[]){open("/dev/null", O_RDWR), memory(REGION, true)}, 2);
}

static void more_descriptors_than_asked(void **state)
{
    int fds[FDS_MAX];

    for (int i = 0; i < FDS_MAX; i++)
        fds[i] = memory(PAGE, true);
    is_cut_off(*state, &sound, sizeof(sound), fds, FDS_MAX);
}

static void nothing_with_descriptors(void **state)
{
    is_cut_off(*state, "", 0, (int[]){memory(PAGE, true), memory(PAGE, true)}, 2);
}

static void an_introduction_twice(void **state)
{
    struct game *game = *state;
    int fds[] = {memory(PAGE, true), memory(REGION, true)};
    int fd = stranger(game);
    double begin = end_seconds();
    char answer[512];
    ssize_t n = -1;

    say(fd, &sound, sizeof(sound), fds, 2);
    say(fd, &sound, sizeof(sound), fds, 2);
    /* The welcome, and then the end. */
    while (n && end_seconds() - begin < 60) {
        end_drive(&game->victim, &game->friend);
        n = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);
    }
    assert_int_equal(n, 0);
    close(fd);
    close(fds[0]);
    close(fds[1]);
    goes_on(game);
}

static void many_who_say_nothing(void **state)
{
    struct game *game = *state;
    int fds[STRANGERS];

    for (int i = 0; i < STRANGERS; i++) {
        fds[i] = stranger(game);
        if (i % 16 == 0)
            end_drive(&game->victim, &game->friend);
    }
    for (int i = 0; i < STRANGERS; i++)
        close(fds[i]);
    goes_on(game);
}

/* ---- Without end ---- */

/* Asks for memory again and again, and takes no answer: false when the endpoint has hung up. */
static bool ask(struct game *game, int fd, char *region, unsigned i, uint64_t key)
{
    const uint64_t words[] = {i % 4096 | 1ull << 32, 0, REGION_SIZE, key};
    const uint64_t *consumed = (const uint64_t *)(const void *)(region + CREDITS_AT);
    char *line = region + LINES_AT + (size_t)(i % LINES) * LINE;
    uint64_t mark = (uint64_t)(i / LINES + 1) << 32 | READ_BYTES << 16 | 9;
    char noise[512];

    while (i - __atomic_load_n(consumed, __ATOMIC_ACQUIRE) >= LINES) {
        end_drive(&game->victim, NULL);
        if (!recv(fd, noise, sizeof(noise), MSG_DONTWAIT))
            return false;
    }
    memcpy(line + sizeof(mark), words, sizeof(words));
    __atomic_store_n((uint64_t *)(void *)line, mark, __ATOMIC_RELEASE);
    return true;
}

static void asks_without_end(struct game *game, uint64_t key)
{
    int fds[] = {memory(PAGE, true), memory(REGION, true)};
    int fd = welcome(game, fds);
    char *region = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
    unsigned asked = 0;

    while (asked < FLOOD && ask(game, fd, region, asked, key))
        asked++;
    assert_in_range(asked, 65536, FLOOD - 1);
    munmap(region, REGION);
    close(fd);
    close(fds[0]);
    close(fds[1]);
    goes_on(game);
}

/* Neither questions that wait to be answered nor answers that the stranger does not take grow
 * without a bound. */
static void who_takes_no_answers(void **state)
{
    asks_without_end(*state, KEY);
    asks_without_end(*state, KEY + 1);
}

static int unread(int fd)
{
    int bytes = 0;

    assert_int_equal(ioctl(fd, SIOCOUTQ, &bytes), 0);
    return bytes;
}

/* A stranger that is always there first would be the only one to be heard. */
static void who_talks_a_lot_is_heard_in_parts(void **state)
{
    struct game *game = *state;
    int fds[] = {memory(PAGE, true), memory(REGION, true)};
    int fd = welcome(game, fds), all;

    for (int i = 0; i < WORDS; i++)
        say(fd, "", 1, NULL, 0);
    all = unread(fd);
    while (unread(fd) == all)
        end_drive(&game->victim, NULL);
    assert_int_not_equal(unread(fd), 0);
    while (unread(fd))
        end_drive(&game->victim, NULL);
    close(fd);
    close(fds[0]);
    close(fds[1]);
    goes_on(game);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH(who_is_sound_is_welcome),
        WITH(words_that_make_no_sense),
        WITH(memory_that_will_not_do),
        WITH(more_descriptors_than_asked),
        WITH(nothing_with_descriptors),
        WITH(an_introduction_twice),
        WITH(many_who_say_nothing),
        WITH(who_takes_no_answers),
        WITH(who_talks_a_lot_is_heard_in_parts),
    };

    alarm(END_ALARM);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
