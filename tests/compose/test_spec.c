/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/fi_errno.h>

#include "compose/spec.h"
#include "../support/spec_print.h"

static const struct {
    const char *text, *printed;
} good[] = {
    {"tcp", "tcp"},
    {"TCP", "tcp"},
    {"  tcp ", "tcp"},
    {"hook;rxm;verbs", "hook;rxm;verbs"},
    {"tcp;ofi_rxm", "tcp;ofi_rxm"},
    {"^tcp , udp", "^tcp,udp"},
    {"tcp,udp;ofi_rxd , shm", "tcp,udp;ofi_rxd,shm"},
    {"trace;lnx;[shm + rxm;tcp]", "trace;lnx;[shm+rxm;tcp]"},
    {"mrail;[rxm;verbs(domain=mlx5_0) + rxm;verbs(Domain=mlx5_1)]",
     "mrail;[rxm;verbs(domain=mlx5_0)+rxm;verbs(domain=mlx5_1)]"},
    {"rxd;fault(drop=5%,reorder=10%,seed=7);udp", "rxd;fault(drop=5%,reorder=10%,seed=7);udp"},
    {"tcp( iface = \"eth0\" , nodelay )", "tcp(iface=eth0,nodelay)"},
    {"tcp(iface=eth0 | !lo|10.0.0.0/8)", "tcp(iface=eth0|!lo|10.0.0.0/8)"},
    {"tcp(iface=\"a b\",x=\"\",y=\"(;)\",z=\"|a\",w=\"a||b\")",
     "tcp(iface=\"a b\",x=\"\",y=\"(;)\",z=\"|a\",w=\"a||b\")"},
    {"tcp(iface=\"eth0|lo\")", "tcp(iface=eth0|lo)"},
    {"a;[b+c;[d+e]];f", "a;[b+c;[d+e]];f"},
    {"[[[[[[[[a]]]]]]]]", "[[[[[[[[a]]]]]]]]"},
    {"[shm\t+\ntcp];lnx", "[shm+tcp];lnx"},
    {"tcp(name=caf\xc3\xa9)", "tcp(name=caf\xc3\xa9)"},
};

static void spec_prints_canonically_and_reads_its_print_back(void **state)
{
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct spec_error error = {0};
        struct spec *spec;
        char *printed, *again;

        print_message("%s\n", good[i].text);
        assert_int_equal(spec_parse(good[i].text, &spec, &error), 0);
        printed = spec_print(spec);
        assert_string_equal(printed, good[i].printed);
        spec_destroy(spec);
        assert_int_equal(spec_parse(printed, &spec, &error), 0);
        again = spec_print(spec);
        assert_string_equal(again, printed);
        spec_destroy(spec);
        free(printed);
        free(again);
    }
}

static const struct {
    const char *text, *shown;
} bad[] = {
    {"", "T:1: the name of a part expected, but the text ends\n  \n  ^"},
    {"tcp,", "T:5: the name of a part expected, but the text ends\n  tcp,\n      ^"},
    {"tcp;;rxm", "T:5: the name of a part expected, not ';'\n  tcp;;rxm\n      ^"},
    {"tcp rxm", "T:5: ';' or ',' expected, not 'rxm'\n  tcp rxm\n      ^~~"},
    {"tcp+rxm", "T:4: ';' or ',' expected, not '+'\n  tcp+rxm\n     ^"},
    {"tcp;^rxm",
     "T:5: '^' denies all choices, and stands only before the first\n  tcp;^rxm\n      ^"},
    {"tcp(", "T:5: a parameter's name expected, but the text ends\n  tcp(\n      ^"},
    {"tcp()", "T:5: a parameter's name expected, not ')'\n  tcp()\n      ^"},
    {"tcp(a", "T:4: the closing ')' is missing\n  tcp(a\n     ^"},
    {"tcp(a=)", "T:7: a value expected, not ')'\n  tcp(a=)\n        ^"},
    {"tcp(a=b|)", "T:9: a value expected, not ')'\n  tcp(a=b|)\n          ^"},
    {"tcp(a b)", "T:7: ',' or ')' expected, not 'b'\n  tcp(a b)\n        ^"},
    {"tcp(a=\"b", "T:7: the closing '\"' is missing\n  tcp(a=\"b\n        ^~"},
    {"lnx;[shm+",
     "T:10: the name of a part expected, but the text ends\n  lnx;[shm+\n           ^"},
    {"lnx;[shm+tcp", "T:5: the closing ']' is missing\n  lnx;[shm+tcp\n      ^"},
    {"lnx;[shm,tcp]", "T:9: '+' or ']' expected, not ','\n  lnx;[shm,tcp]\n          ^"},
    {"[]", "T:2: the name of a part expected, not ']'\n  []\n   ^"},
    {"[[[[[[[[[a]]]]]]]]]",
     "T:9: too many brackets inside brackets\n  [[[[[[[[[a]]]]]]]]]\n          ^"},
    {"tcp;\x01", "T:5: a control character\n  tcp; \n      ^"},
    {"caf\xc3\xa9;;a", "T:6: the name of a part expected, not ';'\n  caf\xc3\xa9;;a\n       ^"},
};

static void spec_error_names_the_column_and_draws_the_caret(void **state)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct spec_error error = {0};
        struct spec *spec;
        char *shown;

        assert_int_equal(spec_parse(bad[i].text, &spec, &error), -FI_EINVAL);
        shown = spec_error_text("T", bad[i].text, &error);
        assert_string_equal(shown, bad[i].shown);
        free(shown);
    }
}

static void spec_too_long_is_refused(void **state)
{
    static char text[SPEC_MAX + 2];
    struct spec_error error;
    struct spec *spec;

    memset(text, 'a', SPEC_MAX);
    assert_int_equal(spec_parse(text, &spec, &error), 0);
    spec_destroy(spec);
    text[SPEC_MAX] = 'a';
    assert_int_equal(spec_parse(text, &spec, &error), -FI_EINVAL);
}

static uint32_t random_next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* A random text of the language: a tree is drawn, and blanks and quotes as they come. */
static void random_stack(struct text *text, uint32_t *seed, int depth)
{
    static const char *const words[] = {"tcp", "OFI_rxm", "a.b", "x-1", "5%", "!lo"};
    unsigned items = 1 + random_next(seed) % 3;

    for (unsigned i = 0; i < items; i++) {
        text_add(text, i ? " ;" : "");
        if (depth < 3 && random_next(seed) % 4 == 0) {
            unsigned members = 1 + random_next(seed) % 3;

            for (unsigned j = 0; j < members; j++) {
                text_add(text, j ? " + " : "[");
                random_stack(text, seed, depth + 1);
            }
            text_add(text, "]");
            continue;
        }
        text_add(text, "%s", words[random_next(seed) % 6]);
        for (unsigned j = 0, count = random_next(seed) % 3; j < count; j++) {
            static const char *const values[] = {"=x", "=\"\"", "=\"(,)\"", "=a|b", "", "=\"|\""};

            text_add(text, "%s%s%s%s", j ? " ," : "(", words[random_next(seed) % 5],
                     values[random_next(seed) % 6], j + 1 == count ? ")" : "");
        }
    }
}

static void spec_random_texts_round_trip(void **state)
{
    uint32_t seed = getenv("SPEC_SEED") ? (uint32_t)strtoul(getenv("SPEC_SEED"), NULL, 0) : 1;

    print_message("SPEC_SEED=%u\n", seed);
    for (int i = 0; i < 2000; i++) {
        struct spec_error error = {0};
        struct text text = {0};
        char *drawn, *printed, *again;
        struct spec *spec;

        random_stack(&text, &seed, 0);
        drawn = text_take(&text);
        if (spec_parse(drawn, &spec, &error))
            fail_msg("%s", spec_error_text("drawn", drawn, &error));
        printed = spec_print(spec);
        spec_destroy(spec);
        assert_int_equal(spec_parse(printed, &spec, &error), 0);
        again = spec_print(spec);
        spec_destroy(spec);
        assert_string_equal(printed, again);
        free(drawn);
        free(printed);
        free(again);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spec_prints_canonically_and_reads_its_print_back),
        cmocka_unit_test(spec_error_names_the_column_and_draws_the_caret),
        cmocka_unit_test(spec_too_long_is_refused),
        cmocka_unit_test(spec_random_texts_round_trip),
    };

    return cmocka_run_group_tests_name("spec", tests, NULL, NULL);
}
