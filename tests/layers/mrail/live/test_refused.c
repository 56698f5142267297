/* SPDX-License-Identifier: BSD-2-Clause */
/* The warning says what is wrong with a bracket, or with an address: the text is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../../pair.h"

static char said[16384];

/* The text that a child process writes to stderr while it runs `act`. */
static const char *said_by(void (*act)(const void *), const void *arg)
{
    size_t used = 0;
    int fds[2], status;
    ssize_t n;
    pid_t child;

    assert_int_equal(pipe(fds), 0);
    child = fork();
    assert_true(child >= 0);
    if (!child) {
        dup2(fds[1], 2);
        close(fds[0]);
        setenv("FI_LOG_LEVEL", "warn", 1);
        act(arg);
        _exit(0);
    }
    close(fds[1]);
    while (used < sizeof(said) - 1 && (n = read(fds[0], said + used, sizeof(said) - 1 - used)) > 0)
        used += (size_t)n;
    said[used] = 0;
    close(fds[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
    return said;
}

static void assert_says(const char *text, const char *expected)
{
    if (!strstr(text, expected))
        fail_msg("'%s' is not in:\n%s", expected, text);
}

/* ---- Brackets ---- */

static const struct {
    const char *spec, *says;
    bool fits; /* it has infos all the same */
} brackets[] = {
    {"mrail;[rxm;tpc+rxd;udp]",
     "unknown part 'tpc'; did you mean 'tcp'?\n  mrail;[rxm;tpc+rxd;udp]\n             ^~~", false},
    {"mrail;tcp",
     "mrail joins several lowers, which stand in a bracket: mrail;[... + ...]\n"
     "  mrail;tcp\n"
     "  ^~~~~",
     false},
    {"rxd;[rxm;tcp+udp]",
     "rxd stands on one lower; a bracket needs a join\n  rxd;[rxm;tcp+udp]\n  ^~~", false},
    {"[rxm;tcp+rxd;udp]",
     "a bracket needs a join beside it: lnx or mrail\n  [rxm;tcp+rxd;udp]\n  ^", false},
    {"mrail;[]", "the name of a part expected, not ']'\n  mrail;[]\n         ^", false},
    {"mrail;[rxm;tcp+]",
     "the name of a part expected, not ']'\n  mrail;[rxm;tcp+]\n                 ^", false},
    {"mrail;[rxm;tcp", "the closing ']' is missing\n  mrail;[rxm;tcp\n        ^", false},
    {"mrail;[rxm;tcp(iface=lo)+rxm;tcp(iface=lo)]",
     "rails 1 and 2 are the same device 'lo' (same=yes allows it)", false},
    {"mrail(same=yes);[rxm;tcp(iface=lo)+rxm;tcp(iface=lo)]", "", true},
    {"mrail(rail_timeout=1ms);[rxm;tcp]", "rail_timeout", false},
    {"mrail(policy=9:fixed|8:fixed);[loop]", "the sizes do not ascend", false},
    {"mrail(strict=yes);[rxd;udp(iface=lo)+rxm;tcp(iface=nope)]",
     "iface: no interface matches 'nope'", false},
    {"mrail;[rxd;udp(iface=lo)+rxm;tcp(iface=nope)]",
     "mrail goes on without its rail 2, which has nothing here; fi_info --explain says why", true},
    {"mrail;[loop+loop+loop+loop+loop+loop+loop+loop+loop]", "mrail joins up to 8 rails, not 9",
     false},
    {"mrail(same=yes);[shm+shm+shm+shm+shm+shm+shm+shm]", "do not fit the 216 bytes of one", false},
};

static void offer(const void *arg)
{
    const char *spec = arg;
    struct fi_info *hints = fi_allocinfo(), *info = NULL;
    struct fid_fabric *fabric = NULL;

    hints->caps = FI_MSG;
    hints->ep_attr->type = FI_EP_RDM;
    setenv("FI_PROVIDER", spec, 1);
    if (fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &info))
        fprintf(stderr, "\nnothing");
    else
        fi_fabric(info->fabric_attr, &fabric, NULL);
    if (fabric)
        fi_close(&fabric->fid);
    fi_freeinfo(info);
    fi_freeinfo(hints);
}

static void a_wrong_bracket_is_told(void **state)
{
    for (size_t i = 0; i < sizeof(brackets) / sizeof(brackets[0]); i++) {
        const char *text = said_by(offer, brackets[i].spec);

        assert_says(text, brackets[i].says);
        if (brackets[i].fits == !!strstr(text, "\nnothing"))
            fail_msg("%s: %s", brackets[i].spec, text);
        if (brackets[i].fits && *text && strchr(text, '\n') != text + strlen(text) - 1)
            fail_msg("%s, more than a line: %s", brackets[i].spec, text);
    }
}

/* ---- Addresses ---- */

struct address {
    const char *theirs; /* the stack whose address it is, or NULL: ours */
    size_t at;          /* this byte is changed */
    unsigned char by;
};

static void insert(const void *arg)
{
    const struct address *address = arg;
    unsigned char raw[256] = {0};
    size_t len = sizeof(raw);
    struct pair pair, other;
    fi_addr_t addr;

    pair_open(&pair, "mrail;[rxm;tcp(iface=lo)]");
    if (address->theirs) {
        pair_open(&other, address->theirs);
        assert_int_equal(fi_getname(&other.ep[0]->fid, raw, &len), 0);
    } else {
        assert_int_equal(fi_getname(&pair.ep[0]->fid, raw, &len), 0);
    }
    raw[address->at] ^= address->by;
    if (fi_av_insert(pair.av, raw, 1, &addr, 0, NULL) != 1)
        fprintf(stderr, "\nrefused");
}

static void a_wrong_address_is_told(void **state)
{
    const struct address version = {.at = 0, .by = 3}, changed = {.at = 9, .by = 1},
                         strange = {.theirs = "mrail;[arq;udp(iface=lo)]"},
                         smaller = {.theirs = "mrail(packet_size=4k);[rxm;tcp(iface=lo)]"};

    assert_says(said_by(insert, &version),
                "the address of a peer is none of mrail: version 1, and this library speaks 2");
    assert_says(said, "\nrefused");
    assert_says(said_by(insert, &changed), "its check sum is wrong");
    assert_says(said, "\nrefused");
    assert_says(said_by(insert, &strange),
                "no rail of ours reaches a peer, whose address is of 1; they must have one in "
                "common (protocol and form of addresses)");
    assert_says(said, "\nrefused");
    assert_says(said_by(insert, &smaller), "packet_size must be the same");
    assert_says(said, "\nrefused");
}

/* A name of so many bytes of the right one. */
static void set_name(const void *arg)
{
    unsigned char raw[256] = {0};
    size_t len = sizeof(raw);
    struct pair pair;
    struct fid_ep *ep;

    pair_open(&pair, "mrail;[rxm;tcp(iface=lo)]");
    assert_int_equal(fi_getname(&pair.ep[0]->fid, raw, &len), 0);
    assert_int_equal(fi_endpoint(pair.domain, pair.info, &ep, NULL), 0);
    if (fi_setname(&ep->fid, raw, *(const size_t *)arg) == -FI_EINVAL)
        fprintf(stderr, "\nrefused");
}

static void an_address_of_another_length_is_told(void **state)
{
    const size_t lengths[] = {0, 2, 55, 57, 88};
    char expected[100];

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        snprintf(expected, sizeof(expected),
                 "the address has %zu bytes; those of this bracket have 56", lengths[i]);
        assert_says(said_by(set_name, &lengths[i]), expected);
        assert_says(said, "\nrefused");
    }
}

/* Three rails have longer addresses, of which two look at the beginning. */
static void an_address_of_another_bracket_is_told(void **state)
{
    const struct address longer = {.theirs = "mrail(same=yes);[shm+shm+rxm;tcp(iface=lo)]"};

    assert_says(said_by(insert, &longer), "the address of a peer is none of mrail");
    assert_says(said, "\nrefused");
}

/* ---- Variables ---- */

static void with_rails(const void *arg)
{
    setenv("FI_OFI_MRAIL_ADDR", arg, 1);
    offer("mrail");
}

static void wrong_variables_are_told(void **state)
{
    assert_says(said_by(with_rails, "lo,,lo"),
                "FI_OFI_MRAIL_ADDR:4: the address of a rail is empty\n"
                "  lo,,lo\n"
                "     ^");
    assert_says(said_by(with_rails, "nope"), "iface: no interface matches 'nope'");
    setenv("FI_OFI_MRAIL_CONFIG", "100:fixed,50:striping", 1);
    assert_says(said_by(with_rails, "lo"),
                "FI_OFI_MRAIL_CONFIG:11: the sizes do not ascend: '50:striping' comes too late\n"
                "  100:fixed,50:striping\n"
                "            ^~~~~~~~~~~\n");
    setenv("FI_OFI_MRAIL_CONFIG", "10:fixed, 100:fixd ,200:fixed", 1);
    assert_says(said_by(with_rails, "lo"),
                "FI_OFI_MRAIL_CONFIG:11: '100:fixd' has no policy that there is: fixed, "
                "round-robin, striping\n"
                "  10:fixed, 100:fixd ,200:fixed\n"
                "            ^~~~~~~~\n");
    setenv("FI_OFI_MRAIL_CONFIG", "fixed", 1);
    assert_says(said_by(with_rails, "lo"), "FI_OFI_MRAIL_CONFIG:1: 'fixed' is no <size>:<policy>\n"
                                           "  fixed\n"
                                           "  ^~~~~\n");
    assert_says(said, "\nnothing");
    setenv("FI_OFI_MRAIL_CONFIG", "16384:fixed,ULONG_MAX:striping", 1);
    if (strstr(said_by(with_rails, "lo"), "nothing"))
        fail_msg("%s", said);
    unsetenv("FI_OFI_MRAIL_CONFIG");
}

static void with_old_name(const void *arg)
{
    setenv("FI_OFI_MRAIL_ADDR_STRC", arg, 1);
    offer("mrail");
}

/* Upstream's name for the same before it had the other, which goes before it. */
static void the_old_name_of_the_addresses_is_read(void **state)
{
    assert_says(said_by(with_old_name, "lo,,lo"),
                "FI_OFI_MRAIL_ADDR_STRC:4: the address of a rail is empty\n"
                "  lo,,lo\n"
                "     ^");
    if (*said_by(with_old_name, "lo"))
        fail_msg("%s", said);
    setenv("FI_OFI_MRAIL_ADDR", "lo", 1);
    if (*said_by(with_old_name, "lo,,lo"))
        fail_msg("%s", said);
    unsetenv("FI_OFI_MRAIL_ADDR");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_bracket_is_told),
        cmocka_unit_test(a_wrong_address_is_told),
        cmocka_unit_test(an_address_of_another_length_is_told),
        cmocka_unit_test(an_address_of_another_bracket_is_told),
        cmocka_unit_test(wrong_variables_are_told),
        cmocka_unit_test(the_old_name_of_the_addresses_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
