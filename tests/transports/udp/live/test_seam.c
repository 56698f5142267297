/* SPDX-License-Identifier: BSD-2-Clause */
/* The requests that an upper of ours may make of datagrams: core/base/seam.h. */
#include "ends.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../../../core/base/seam.h"

enum {
    MANY = 20000
};

static char out[2000], in[2000];
static int discover = -1, discover6 = -1;

/* Stands before the kernel's. */
int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
    if (level == IPPROTO_IP && name == IP_MTU_DISCOVER)
        memcpy(&discover, value, sizeof(discover));
    if (level == IPPROTO_IPV6 && name == IPV6_MTU_DISCOVER)
        memcpy(&discover6, value, sizeof(discover6));
    return (int)syscall(SYS_setsockopt, fd, level, name, value, len);
}

static int set(struct end *end, int option, uint32_t value)
{
    return fi_setopt(&end->ep->fid, FI_OPT_ENDPOINT, option, &value, sizeof(value));
}

static size_t drops_of(struct end *end)
{
    size_t drops, len = sizeof(drops);

    assert_int_equal(fi_getopt(&end->ep->fid, FI_OPT_ENDPOINT, OPT_DROPS, &drops, &len), 0);
    return drops;
}

/* Several datagrams come at once: only then is their time told. */
static void send_many(void)
{
    for (int i = 0; i < 64; i++)
        receive(&b, in, 10);
    for (int i = 0; i < 64; i++)
        send_to(&a, a.peer, out, 10);
    for (int i = 0; i < 64; i++)
        expect(b.rx, in, NULL);
}

/* Its reader waits for each, and looks in vain between them. */
static void send_one_by_one(void)
{
    receive(&b, in, 10);
    for (int i = 0; i < 17000; i++) {
        receive(&b, in, 10);
        send_to(&a, a.peer, out, 10);
        expect(b.rx, in, NULL);
        expect_nothing(b.rx);
    }
    send_to(&a, a.peer, out, 10);
    expect(b.rx, in, NULL);
}

/* The time between its arrival and its reading that a datagram's note says. */
static uint64_t waited_ns(struct fi_cq_tagged_entry *entry)
{
    receive(&b, in, 10);
    send_to(&a, a.peer, out, 10);
    usleep(2000);
    *entry = expect(b.rx, in, NULL);
    return OPT_NOTE_WAITED_NS(entry->data);
}

/* The kernel begins to stamp some time after the first socket of the machine has asked; until then
 * a datagram's time is that of its reading. */
static void wait_for_stamps(void)
{
    struct fi_cq_tagged_entry entry;
    int tries = 0;

    while (waited_ns(&entry) < 1000000)
        assert_true(++tries < 2000);
}

static void marks_and_times_are_in_the_data(const char *node)
{
    struct options options = {.node = node};
    struct fi_info *info = ask(&options);
    struct fi_cq_tagged_entry entry;
    uint64_t waited;

    if (!info)
        return; /* a kernel without IPv6 */
    fi_freeinfo(info);
    ends_open(&options);
    assert_int_equal(set(&b, OPT_NOTES, OPT_NOTES_ECN | OPT_NOTES_WAITED), 0);
    assert_int_equal(waited_ns(&entry), 0);
    assert_int_equal(set(&b, OPT_NOTES, OPT_NOTES_WAITED_EACH), 0);
    wait_for_stamps();
    assert_int_equal(set(&b, OPT_NOTES, OPT_NOTES_ECN | OPT_NOTES_WAITED), 0);
    assert_int_equal(waited_ns(&entry), 0);
    send_many();
    wait_for_stamps();
    for (uint32_t ecn = 0; ecn < 4; ecn++) {
        assert_int_equal(set(&a, OPT_ECN, ecn), 0);
        waited = waited_ns(&entry);
        assert_false(entry.flags & FI_REMOTE_CQ_DATA);
        assert_int_equal(OPT_NOTE_ECN(entry.data), ecn);
        assert_true(waited >= 1000000);
        assert_true(waited < 60000000000);
    }
    assert_int_equal(set(&a, OPT_ECN, 4), -FI_EINVAL);
    assert_int_equal(set(&b, OPT_NOTES, 8), -FI_EINVAL);
    assert_int_equal(set(&b, OPT_NOTES, OPT_NOTES_WAITED), 0);
    waited = waited_ns(&entry);
    assert_int_equal(OPT_NOTE_ECN(entry.data), 0);
    assert_true(waited >= 1000000);
    send_one_by_one();
    assert_int_equal(waited_ns(&entry), 0);
    send_many();
    wait_for_stamps();
    assert_int_equal(set(&b, OPT_NOTES, 0), 0);
    receive(&b, in, 10);
    send_to(&a, a.peer, out, 10);
    assert_int_equal(expect(b.rx, in, NULL).data, 0);
    ends_close();
}

static void notes(void **state)
{
    marks_and_times_are_in_the_data("127.0.0.1");
    marks_and_times_are_in_the_data("::1");
}

static void fragments_may_be_forbidden(void **state)
{
    struct options six = {.node = "::1"};
    struct fi_info *info;

    ends_open(&(struct options){0});
    assert_int_equal(set(&a, OPT_FRAGMENTS, OPT_FRAGMENTS_NEVER), 0);
    assert_int_equal(discover, IP_PMTUDISC_DO);
    assert_int_equal(set(&a, OPT_FRAGMENTS, OPT_FRAGMENTS_PROBE), 0);
    assert_int_equal(discover, IP_PMTUDISC_PROBE);
    assert_int_equal(set(&a, OPT_FRAGMENTS, OPT_FRAGMENTS_ALLOWED), 0);
    assert_int_equal(discover, IP_PMTUDISC_WANT);
    assert_int_equal(set(&a, OPT_FRAGMENTS, 3), -FI_EINVAL);
    ends_close();
    info = ask(&six);
    if (!info)
        return;
    fi_freeinfo(info);
    ends_open(&six);
    assert_int_equal(set(&a, OPT_FRAGMENTS, OPT_FRAGMENTS_NEVER), 0);
    assert_int_equal(discover6, IPV6_PMTUDISC_DO);
    ends_close();
}

static void drops_are_counted(void **state)
{
    ends_open(&(struct options){.spec = "udp(rx_buffer=16k)"});
    assert_int_equal(drops_of(&b), 0);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(fi_inject(a.ep, out, 1000, a.peer), 0);
    /* The kernel tells with the first that comes after them. */
    for (unsigned i = 0; i < MANY && !drops_of(&b); i++) {
        receive(&b, in, 1000);
        fi_inject(a.ep, out, 1000, a.peer);
        expect(b.rx, in, NULL);
    }
    assert_in_range(drops_of(&b), 1, MANY);
    ends_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notes),
        cmocka_unit_test(fragments_may_be_forbidden),
        cmocka_unit_test(drops_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
