/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <rdma/fi_errno.h>

#include "core/av/av_watch.h"
#include "objects.h"

enum {
    MANY = AV_WATCH_REMOVED + 1
};

struct fixture {
    struct bare bare;
    struct fid_av *av;
    struct progress *progress;
    struct av_watch watch;
    fi_addr_t addrs[MANY];
};

static struct fixture fixture;

static int set_up(void **state)
{
    struct fi_av_attr attr = {.count = MANY};

    memset(&fixture, 0, sizeof(fixture));
    bare_init(&fixture.bare, false);
    fixture.bare.info.addr_format = FI_SOCKADDR_IN;
    if (av_open(&fixture.bare.domain, &attr, &fixture.av, NULL) ||
        progress_create_control("test", &fixture.progress))
        return -1;
    av_watch_init(&fixture.watch);
    av_watch_attach(&fixture.watch, object_of(fixture.av, struct av, fid), fixture.progress);
    return 0;
}

static int tear_down(void **state)
{
    av_watch_detach(&fixture.watch);
    av_watch_finish(&fixture.watch);
    progress_release(fixture.progress);
    return fi_close(&fixture.av->fid);
}

static void insert(void)
{
    struct sockaddr_in list[MANY] = {{0}};

    for (unsigned i = 0; i < MANY; i++) {
        list[i].sin_family = AF_INET;
        list[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK + i);
        list[i].sin_port = htons(1);
    }
    assert_int_equal(fi_av_insert(fixture.av, list, MANY, fixture.addrs, 0, NULL), MANY);
}

static void changes_are_there_until_they_are_taken(void **state)
{
    struct av_changes changes;

    assert_false(av_watch_any(&fixture.watch));
    insert();
    assert_true(av_watch_any(&fixture.watch));
    av_watch_take(&fixture.watch, &changes);
    assert_true(changes.inserted);
    assert_int_equal(changes.removed_count, 0);
    assert_false(av_watch_any(&fixture.watch));
    av_watch_take(&fixture.watch, &changes);
    assert_false(changes.inserted);
}

static void removals_are_named_in_their_order(void **state)
{
    struct av_changes changes;

    insert();
    av_watch_take(&fixture.watch, &changes);
    assert_int_equal(fi_av_remove(fixture.av, &fixture.addrs[3], 1, 0), 0);
    assert_int_equal(fi_av_remove(fixture.av, &fixture.addrs[1], 1, 0), 0);
    av_watch_take(&fixture.watch, &changes);
    assert_false(changes.inserted);
    assert_int_equal(changes.removed_count, 2);
    assert_int_equal(changes.removed[0], fixture.addrs[3]);
    assert_int_equal(changes.removed[1], fixture.addrs[1]);
}

static void too_many_removals_are_counted_only(void **state)
{
    struct av_changes changes;

    insert();
    assert_int_equal(fi_av_remove(fixture.av, fixture.addrs, MANY, 0), 0);
    av_watch_take(&fixture.watch, &changes);
    assert_true(changes.removed_count > AV_WATCH_REMOVED);
    av_watch_take(&fixture.watch, &changes);
    assert_int_equal(changes.removed_count, 0);
}

static void detached_watch_notes_nothing(void **state)
{
    struct av_watch never = {.any = false};

    av_watch_detach(&fixture.watch);
    insert();
    assert_false(av_watch_any(&fixture.watch));
    av_watch_detach(&never);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(changes_are_there_until_they_are_taken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(removals_are_named_in_their_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_many_removals_are_counted_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(detached_watch_notes_nothing, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
