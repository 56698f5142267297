/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel's messages about links: messages of ours, and its own of this network namespace. */
#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <linux/rtnetlink.h>

#include <cmocka.h>

#include "core/net/link_state.h"

struct seen {
    unsigned index[8], count;
    bool up[8];
};

static void see(void *arg, unsigned index, bool up)
{
    struct seen *seen = arg;

    if (seen->count == 8)
        return;
    seen->index[seen->count] = index;
    seen->up[seen->count++] = up;
}

static size_t put(uint8_t *bytes, uint16_t type, int index, unsigned flags)
{
    struct nlmsghdr head = {.nlmsg_type = type,
                            .nlmsg_len = sizeof(head) + sizeof(struct ifinfomsg)};
    struct ifinfomsg info = {.ifi_index = index, .ifi_flags = flags};

    memcpy(bytes, &head, sizeof(head));
    memcpy(bytes + sizeof(head), &info, sizeof(info));
    return NLMSG_ALIGN(head.nlmsg_len);
}

static void links_are_up_with_interface_and_carrier(void **state)
{
    uint8_t bytes[512];
    struct seen seen = {.count = 0};
    size_t len = put(bytes, RTM_NEWLINK, 3, IFF_UP | IFF_RUNNING);

    len += put(bytes + len, RTM_NEWADDR, 3, 0);
    len += put(bytes + len, RTM_NEWLINK, 4, IFF_UP);
    len += put(bytes + len, RTM_NEWLINK, 5, IFF_RUNNING);
    len += put(bytes + len, RTM_DELLINK, 6, IFF_UP | IFF_RUNNING);
    link_state_parse(bytes, len, see, &seen);
    assert_int_equal(seen.count, 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(seen.index[i], 3 + i);
        assert_int_equal(seen.up[i], i == 0);
    }
}

static void short_messages_say_nothing(void **state)
{
    uint8_t bytes[512];
    size_t len = put(bytes, RTM_NEWLINK, 3, IFF_UP);

    for (size_t cut = 0; cut < len; cut++) {
        struct seen seen = {.count = 0};

        link_state_parse(bytes, cut, see, &seen);
        assert_int_equal(seen.count, 0);
    }
    for (uint32_t lie = 0; lie < sizeof(struct nlmsghdr) + sizeof(struct ifinfomsg); lie++) {
        struct seen seen = {.count = 0};

        memcpy(bytes, &lie, sizeof(lie));
        link_state_parse(bytes, len, see, &seen);
        assert_int_equal(seen.count, 0);
    }
}

static void every_link_is_told_of_first(void **state)
{
    struct seen seen = {.count = 0};
    unsigned loopback = if_nametoindex("lo");
    bool found = false;
    int fd;

    if (!loopback || link_state_open(&fd))
        skip();
    for (int i = 0; i < 1000 && !seen.count; i++) {
        assert_true(link_state_read(fd, see, &seen));
        usleep(seen.count ? 0 : 1000);
    }
    for (unsigned i = 0; i < seen.count; i++)
        found = found || seen.index[i] == loopback;
    assert_true(found);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_are_up_with_interface_and_carrier),
        cmocka_unit_test(short_messages_say_nothing),
        cmocka_unit_test(every_link_is_told_of_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
