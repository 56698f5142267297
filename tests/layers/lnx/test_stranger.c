/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses that unknown peers say in messages; the branch's address vector is played by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/lnx/lnx_av.h"
#include "layers/lnx/lnx_stranger.h"

static struct lnx_av av;
static char inserted[LNX_BRANCH_ADDR_MAX]; /* the last address, with what is behind it */
static size_t inserts, removes;

static int take(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr,
                uint64_t flags, void *context)
{
    memcpy(inserted, addr, sizeof(inserted));
    *fi_addr = inserts++;
    return 1;
}

static int forget(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
    removes++;
    return 0;
}

static struct fi_ops_av ops = {.size = sizeof(ops), .insert = take, .remove = forget};
static struct fid_av below = {.ops = &ops};

static int set_up(void **state)
{
    memset(&av, 0, sizeof(av));
    memset(inserted, 0x5a, sizeof(inserted));
    lnx_answers_init(&av.answers);
    list_init(&av.strangers);
    av.branch[0].av = &below;
    inserts = removes = 0;
    return 0;
}

static int tear_down(void **state)
{
    lnx_strangers_finish(&av);
    assert_int_equal(removes, inserts);
    lnx_answers_finish(&av.answers);
    free(av.branch[0].up);
    return 0;
}

static void say(uint32_t name, unsigned number, uint32_t bytes)
{
    lnx_stranger_message_came(&av, 0, lnx_stranger_message(name, number, bytes));
}

/* The first `count` messages of an address, of which the first says its length. */
static void say_address(uint32_t name, const char *text, unsigned count)
{
    size_t len = strlen(text);

    for (unsigned number = 0; number < count; number++) {
        uint32_t bytes = (uint32_t)len;

        for (size_t i = 0; number && i < 4; i++) {
            uint32_t byte = 4 * (number - 1) + i < len ? (uint8_t)text[4 * (number - 1) + i] : 0;

            bytes = (i ? bytes : 0) | byte << 8 * i;
        }
        say(name, number, bytes);
    }
}

static void an_address_comes_in_pieces(void **state)
{
    say_address(1, "somebody", 2);
    assert_int_equal(inserts, 0);
    assert_int_equal(lnx_stranger_addr(&av, 0, 1), FI_ADDR_UNSPEC);
    say_address(1, "somebody", 3);
    assert_int_equal(inserts, 1);
    assert_string_equal(inserted, "somebody");
    assert_int_equal(lnx_stranger_addr(&av, 0, 1), 0);
    say_address(1, "somebody", 3); /* again */
    assert_int_equal(inserts, 1);
}

/* A text ends where its length says, whatever was said before. */
static void a_shorter_address_has_nothing_behind_it(void **state)
{
    static const char nothing[LNX_BRANCH_ADDR_MAX - 4];

    say_address(1, "somebody with a long name", 5);
    say_address(1, "self", 2);
    assert_int_equal(inserts, 1);
    assert_memory_equal(inserted, "self", 4);
    assert_memory_equal(inserted + 4, nothing, sizeof(nothing));
}

static void what_is_no_address_is_forgotten(void **state)
{
    say(1, 0, 0);
    say(1, 0, LNX_BRANCH_ADDR_MAX); /* no room for the end of a text */
    say(1, 0, UINT32_MAX);
    say(1, 1, 0x41414141);
    assert_int_equal(av.stranger_count, 0);
    say(1, 0, 8);
    say(1, 2, 0x41414141); /* the one in front of it is missing */
    say(1, 127, 0x41414141);
    assert_int_equal(inserts, 0);
    say(1, 1, 0x41414141);
    say(1, 1, 0x41414141);
    say(1, 2, 0x42424242);
    assert_string_equal(inserted, "AAAABBBB");
}

static void the_oldest_makes_room(void **state)
{
    for (uint32_t name = 1; name <= LNX_STRANGERS + 1; name++)
        say_address(name, "self", 2);
    assert_int_equal(av.stranger_count, LNX_STRANGERS);
    assert_int_equal(removes, 1);
    assert_int_equal(lnx_stranger_addr(&av, 0, 1), FI_ADDR_UNSPEC);
    assert_int_equal(lnx_stranger_addr(&av, 0, LNX_STRANGERS + 1), LNX_STRANGERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_address_comes_in_pieces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_shorter_address_has_nothing_behind_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_address_is_forgotten, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_oldest_makes_room, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
