/* SPDX-License-Identifier: BSD-2-Clause */
/* The text of upstream's variables for joins, by itself; test_plan.c has what becomes of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/fi_errno.h>

#include "compose/candidate.h"
#include "compose/links.h"
#include "fake.h"

static const struct {
    const char *text, *shown;
    size_t begin;
} wrong_links[] = {
    {"shm+tpc", "unknown part 'tpc'; did you mean 'tcp'?", 4},
    {"shm|", "a provider of the link is empty", 4},
    {"shm+|tcp;rxm", "a provider of the link is empty", 4},
    {"tcp;rxm:", "the name of a domain is empty", 8},
    {"tcp;rxm:lo,,eth0", "the name of a domain is empty", 11},
    {"tcp;;rxm", "the name of a provider is empty", 4},
    {"shm+lnx", "lnx is what joins the providers of a link, not one of them", 4},
    {"tcp;rxm:a\"b", "the name of a domain has no quotation mark", 8},
    {"shm", "FI_LNX_DISABLE_SHM leaves nothing of this link", 0},
};

static void wrong_links_have_a_place_and_a_sentence(void **state)
{
    for (size_t i = 0; i < sizeof(wrong_links) / sizeof(wrong_links[0]); i++) {
        struct spec_error error = {0};
        char *spec = NULL;

        assert_int_equal(links_translate(&fake_parts, wrong_links[i].text,
                                         !strcmp(wrong_links[i].text, "shm"), false, &spec, &error),
                         -FI_EINVAL);
        assert_null(spec);
        assert_string_equal(error.why, wrong_links[i].shown);
        assert_int_equal(error.span.begin, wrong_links[i].begin);
    }
}

static void switches_of_links_are_read(void **state)
{
    struct spec_error error = {0};
    bool no_shm;

    assert_int_equal(links_no_shm("1", &no_shm, &error), 0);
    assert_true(no_shm);
    assert_int_equal(links_no_shm("off", &no_shm, &error), 0);
    assert_false(no_shm);
    assert_int_equal(links_no_shm(NULL, &no_shm, &error), 0);
    assert_false(no_shm);
    assert_int_equal(links_no_shm("maybe", &no_shm, &error), -FI_EINVAL);
    assert_false(no_shm);
    assert_string_equal(error.why, "'maybe' is not yes or no (1/0, true/false, on/off)");
    assert_int_equal(error.span.end, 5);
}

static void selection_of_rails_is_translated(void **state)
{
    struct spec_error error = {0};
    char *spec = NULL;
    bool per_msg;

    assert_int_equal(links_per_msg("per_msg", &per_msg, &error), 0);
    assert_true(per_msg);
    assert_int_equal(links_translate(&fake_parts, "shm|tcp", false, per_msg, &spec, &error), 0);
    assert_string_equal(spec, "lnx(rails=per_msg);[shm],lnx(rails=per_msg);[tcp]");
    free(spec);
    assert_int_equal(links_per_msg("PER_PEER", &per_msg, &error), 0);
    assert_false(per_msg);
    assert_int_equal(links_per_msg(NULL, &per_msg, &error), 0);
    assert_int_equal(links_per_msg("PER_MGS", &per_msg, &error), -FI_EINVAL);
    assert_false(per_msg);
    assert_string_equal(error.why,
                        "'PER_MGS' is no way to select a network; there are PER_MSG and PER_PEER");
    assert_int_equal(error.span.end, 7);
}

/* All candidates' stacks, in full. */
static void assert_stacks(const struct environment *environment, const char *wanted,
                          const char *expected)
{
    struct candidates candidates;
    struct text text = {0};
    char *names;

    assert_int_equal(candidates_make(&fake_parts, environment, 0, wanted, NULL, &candidates), 0);
    for (size_t i = 0; i < candidates.count; i++)
        text_add(&text, "%s ", candidates.list[i].full);
    names = text_take(&text);
    assert_string_equal(names, expected);
    free(names);
    candidates_finish(&candidates);
}

/* Under hooks, and in brackets of other joins. */
static void variables_of_upstream_are_for_each_join_without_a_bracket(void **state)
{
    struct environment links = {.provider = "trace;lnx", .links = "shm+tcp;ofi_rxm:lo|shm"};
    struct environment rails = {.provider = "trace;mrail", .rails = "lo,eth0"};
    struct environment hints = {.links = "shm+tcp;ofi_rxm:lo"};
    char many[4000];
    struct environment too_long = {.provider = "trace;lnx", .links = many};

    assert_stacks(
        &links, NULL,
        "ofi_hook_trace;ofi_lnx;[shm+tcp(domain=lo);ofi_rxm] ofi_hook_trace;ofi_lnx;[shm] ");
    links.provider = "mrail;[lnx+tcp]";
    assert_stacks(&links, NULL,
                  "ofi_mrail;[ofi_lnx;[shm+tcp(domain=lo);ofi_rxm]+tcp] "
                  "ofi_mrail;[ofi_lnx;[shm]+tcp] ");
    links.provider = "lnx;[shm]";
    assert_stacks(&links, NULL, "ofi_lnx;[shm] ");
    assert_stacks(&rails, NULL,
                  "ofi_hook_trace;ofi_mrail;[tcp(iface=lo);ofi_rxm+tcp(iface=eth0);ofi_rxm] ");
    memset(many, '|', sizeof(many) - 1);
    for (size_t i = 0; i + 4 < sizeof(many); i += 4)
        memcpy(&many[i], "shm", 3);
    memcpy(&many[sizeof(many) - 4], "shm", 4);
    assert_stacks(&too_long, NULL, "");
    assert_stacks(&hints, "trace;lnx", "ofi_hook_trace;ofi_lnx;[shm+tcp(domain=lo);ofi_rxm] ");
    links.links = "shm+tpc";
    links.provider = "trace;lnx";
    assert_stacks(&links, NULL, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_links_have_a_place_and_a_sentence),
        cmocka_unit_test(switches_of_links_are_read),
        cmocka_unit_test(variables_of_upstream_are_for_each_join_without_a_bracket),
        cmocka_unit_test(selection_of_rails_is_translated),
    };

    return cmocka_run_group_tests_name("links", tests, NULL, NULL);
}
