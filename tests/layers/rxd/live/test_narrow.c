/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages of a few packets, over an interface whose packets are those of Ethernet: they leave with
 * their request, so that their sender waits for no answer. */
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../../support/again.h"
#include "../../../transports/udp/live/ends.h"

enum {
    LONGEST = 16 << 10, /* that leaves so */
    MANY = 600,         /* messages: more than are copied at once */
    LOOKS = 1000000,    /* in vain, after which nothing comes */
    HALF = 1000,        /* bytes: no two of them share a packet */
    BURST = 14,         /* of them, less than the first window */
    OPENING_US = 20000, /* the pace of a path that nothing was known of yet is past */
};

static const struct options messages = {
    .spec = "rxd;udp", .type = FI_EP_RDM, .caps = FI_TAGGED, .no_eq = true, .alone = true};
static char out[LONGEST + 1], in[MANY][4096], large[LONGEST + 1];

static bool make_loopback(int mtu)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_mtu = mtu};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    bool made = fd >= 0 && !ioctl(fd, SIOCSIFMTU, &request);

    request.ifr_flags = IFF_UP;
    made = made && !ioctl(fd, SIOCSIFFLAGS, &request);
    close(fd);
    return made;
}

/* It acknowledges what has come to b. */
static void answer(void)
{
    receive(&a, large, sizeof(large));
    send_to(&b, b.peer, out, 8);
    expect(a.rx, large, NULL);
    expect(b.tx, out, NULL);
}

/* Both have heard of each other. */
static void open_introduced(void)
{
    ends_open(&messages);
    for (int i = 0; i < 4; i++) {
        receive(&b, large, sizeof(large));
        send_to(&a, a.peer, out, LONGEST + 1);
        expect(b.rx, large, NULL);
        expect(a.tx, out, NULL);
        answer();
    }
}

/* Driving the sender alone. */
static bool ends_alone(void)
{
    struct fi_cq_tagged_entry entry;

    for (int i = 0; i < LOOKS; i++) {
        if (fi_cq_read(a.tx, &entry, 1) == 1)
            return true;
    }
    return false;
}

static void a_message_of_a_few_packets_waits_for_no_answer(void **state)
{
    static const size_t sizes[] = {1500, 2048, 2900, 4096, 9000, LONGEST - 1, LONGEST};

    open_introduced();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        fill(out, sizes[i], (unsigned)i);
        memset(large, 0, sizeof(large));
        if (i % 2)
            receive(&b, large, sizeof(large));
        send_to(&a, a.peer, out, sizes[i]);
        assert_true(ends_alone());
        memset(out, 0, sizes[i]); /* its application's again */
        if (i % 2 == 0)
            receive(&b, large, sizeof(large));
        assert_int_equal(expect(b.rx, large, NULL).len, sizes[i]);
        check_filled(large, sizes[i], (unsigned)i);
        answer();
    }
    ends_close();
}

/* Messages that are not copied wait at their sender, as longer ones do; each comes once. */
static void more_than_are_copied_come_all_the_same(void **state)
{
    unsigned posted = 0, came = 0, ended = 0, at;
    bool there[MANY] = {false};
    struct fi_cq_tagged_entry entry;

    open_introduced();
    for (unsigned i = 0; i < MANY; i++)
        receive(&b, in[i], sizeof(in[i]));
    fill(out, sizeof(in[0]), 5);
    for (int i = 0; i < LOOKS && posted < MANY; i++) {
        ssize_t rc = fi_send(a.ep, out, sizeof(in[0]), NULL, a.peer, out);

        assert_true(!rc || rc == -FI_EAGAIN);
        posted += !rc;
        ended += rc && fi_cq_read(a.tx, &entry, 1) == 1;
    }
    while (came < MANY) {
        if (posted < MANY)
            posted += !fi_send(a.ep, out, sizeof(in[0]), NULL, a.peer, out);
        ended += fi_cq_read(a.tx, &entry, 1) == 1;
        if (fi_cq_read(b.rx, &entry, 1) != 1)
            continue;
        at = (unsigned)(((char *)entry.op_context - in[0]) / sizeof(in[0]));
        assert_true(at < MANY && !there[at]);
        there[at] = true;
        check_filled(in[at], sizeof(in[0]), 5);
        came++;
    }
    while (ended < MANY) {
        ended += fi_cq_read(a.tx, &entry, 1) == 1;
        drive();
    }
    expect_nothing(b.rx);
    ends_close();
}

/* Looks of b alone; how many came. */
static unsigned look(unsigned came)
{
    struct fi_cq_tagged_entry entry;

    for (int i = 0; i < LOOKS / 100; i++)
        came += fi_cq_read(b.rx, &entry, 1) == 1;
    return came;
}

/* Where more is under way messages wait for the sender's next look. */
static void those_behind_others_leave_together(void **state)
{
    unsigned came, ended = 0;
    struct fi_cq_tagged_entry entry;

    open_introduced();
    usleep(OPENING_US);
    fill(out, HALF, 3);
    for (unsigned i = 0; i < BURST; i++)
        receive(&b, in[i], sizeof(in[i]));
    for (unsigned i = 0; i < BURST; i++)
        send_to(&a, a.peer, out, HALF);
    came = look(0);
    assert_true(came && came < BURST);
    while (fi_cq_read(a.tx, &entry, 1) == 1) /* of those that have left, and then it looks */
        ended++;
    assert_int_equal(look(came), BURST);
    for (unsigned i = 0; i < BURST; i++)
        check_filled(in[i], HALF, 3);
    for (; ended < BURST; drive())
        ended += fi_cq_read(a.tx, &entry, 1) == 1;
    ends_close();
}

/* Of its own, which others do not see. */
static int make_network(void **state)
{
    if (again_is_emulated() || (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET)) ||
        !make_loopback(1500)) {
        print_message("there is no right to make a network, or an emulator has none\n");
        exit(77);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_of_a_few_packets_waits_for_no_answer),
        cmocka_unit_test(more_than_are_copied_come_all_the_same),
        cmocka_unit_test(those_behind_others_leave_together),
    };

    return cmocka_run_group_tests(tests, make_network, NULL);
}
