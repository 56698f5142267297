/* SPDX-License-Identifier: BSD-2-Clause */
/* The warning says what is wrong with a bracket, or with an address: the text is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../pair.h"

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
    {"lnx;[shm+tpc]", "unknown part 'tpc'; did you mean 'tcp'?\n  lnx;[shm+tpc]\n           ^~~",
     false},
    {"[shm+tcp]", "a bracket needs a join beside it: lnx or mrail\n  [shm+tcp]\n  ^", false},
    {"lnx;shm",
     "lnx joins several lowers, which stand in a bracket: lnx;[... + ...]\n  lnx;shm\n  ^~~",
     false},
    {"rxm;[tcp+shm]", "rxm stands on one lower; a bracket needs a join\n  rxm;[tcp+shm]\n  ^~~",
     false},
    {"lnx;[shm+udp]", "", true}, /* by rxd */
    {"lnx;[shm+arq;udp]", "lnx needs a lower that gives FI_EP_RDM; arq gives reliable packets",
     false},
    {"lnx;[rxm;tcp(iface=lo)+rxm;tcp(iface=lo)]",
     "branches 1 and 2 are the same device 'lo' (same=yes allows it)", false},
    {"lnx(same=yes);[rxm;tcp(iface=lo)+rxm;tcp(iface=lo)]", "", true},
    {"lnx(rails=per_mgs);[shm]", "'per_mgs'", false},
    {"lnx;[loop+noop;lnx;[loop]]",
     "branch 2 is a join, whose address has no room in that of this one", false},
    {"lnx(strict=yes);[shm+rxm;tcp(iface=nope)]", "iface: no interface matches 'nope'", false},
    {"lnx(face=3);[shm+rxm;tcp]", "face=3: the bracket has 2 branches", false},
    {"lnx(face=9);[shm+rxm;tcp]", "face: '9' is not a number from 0 to 8", false},
    {"lnx(face=2);[shm+rxm;tcp]",
     "face=2: the addresses of that branch are not the device's choice (FI_ADDR_EFA)", false},
    {"lnx(face=1);[shm+rxm;tcp]", "face=1: the addresses of that branch are not", false},
    {"lnx(face=2);[shm+rxm;tcp(iface=nope)]", "iface: no interface matches 'nope'", false},
    {"lnx;[shm+rxm;tcp(iface=nope)]",
     "lnx goes on without its branch 2, which has nothing here; fi_info --explain says why", true},
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

/* Of its own networks a join says nothing: some machine has each. */
static void a_join_alone_is_quiet(void **state)
{
    const char *text = said_by(offer, "lnx");

    if (*text)
        fail_msg("%s", text);
}

static void tree(const void *arg)
{
    setenv("FI_EXPLAIN", "tree", 1);
    offer(arg);
}

static void reasons(const void *arg)
{
    setenv("FI_EXPLAIN", "1", 1);
    offer(arg);
}

static void every_branch_is_shown(void **state)
{
    assert_says(said_by(tree, "lnx;[noop;loop+rxm;tcp(iface=lo)]"), " lnx: joins shared memory");
    assert_says(said, "   noop: ");
    assert_says(said, "     loop: ");
    assert_says(said, "   rxm: ");
    assert_says(said, "     tcp: connected endpoints over TCP sockets (iface=lo)");
    assert_says(said_by(reasons, "lnx;[loop+rxm;tcp(iface=nope)]"), "lnx: 1 info");
    assert_says(said, "  loop: 1 info");
    assert_says(said, "  rxm: 0 infos");
    assert_says(said, "    tcp: 0 infos");
    assert_says(said, "x iface: no interface matches 'nope'");
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

    pair_open(&pair, "lnx;[rxm;tcp(iface=lo)]");
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
                         strange = {.theirs = "lnx;[shm]"};

    assert_says(said_by(insert, &version), "it is of version 1, not 2");
    assert_says(said, "\nrefused");
    assert_says(said_by(insert, &changed), "the address is none of lnx");
    assert_says(said, "\nrefused");
    assert_says(said_by(insert, &strange),
                "no branch of ours reaches the peer, whose address is of 1; they must have one in "
                "common (protocol and form of addresses)");
    assert_says(said, "\nrefused");
}

/* A name of so many bytes of the right one. */
static void set_name(const void *arg)
{
    unsigned char raw[256] = {0};
    size_t len = sizeof(raw);
    struct pair pair;

    pair_open(&pair, "lnx;[rxm;tcp(iface=lo)]");
    assert_int_equal(fi_getname(&pair.ep[0]->fid, raw, &len), 0);
    if (fi_setname(&pair.ep[1]->fid, raw, *(const size_t *)arg) == -FI_EINVAL)
        fprintf(stderr, "\nrefused");
}

static void an_address_of_another_length_is_told(void **state)
{
    const size_t lengths[] = {0, 2, 55, 57, 64};
    char expected[100];

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        snprintf(expected, sizeof(expected),
                 "the address has %zu bytes; those of this bracket have 56", lengths[i]);
        assert_says(said_by(set_name, &lengths[i]), expected);
        assert_says(said, "\nrefused");
    }
}

/* Three branches have longer addresses, of which two look at the beginning. */
static void an_address_of_another_bracket_is_told(void **state)
{
    const struct address longer = {.theirs = "lnx(same=yes);[loop+loop+rxm;tcp(iface=lo)]"};

    assert_says(said_by(insert, &longer),
                "the address is none of lnx: its check sum is wrong: it is cut short");
    assert_says(said, "\nrefused");
}

/* ---- Variables ---- */

static void with_links(const void *arg)
{
    setenv("FI_LNX_PROV_LINKS", arg, 1);
    setenv("FI_LNX_MULTI_RAIL_SELECTION", "PER_MGS", 1);
    offer("lnx");
}

static void wrong_variables_are_told(void **state)
{
    assert_says(said_by(with_links, "shm+tpc;ofi_rxm"),
                "FI_LNX_PROV_LINKS:5: unknown part 'tpc'; did you mean 'tcp'?\n"
                "  shm+tpc;ofi_rxm\n"
                "      ^~~\n");
    assert_says(said, "FI_LNX_MULTI_RAIL_SELECTION:1: 'PER_MGS' is no way to select a network; "
                      "there are PER_MSG and PER_PEER\n"
                      "  PER_MGS\n"
                      "  ^~~~~~~\n");
    assert_says(said_by(with_links, "shm+tcp;ofi_rxm|"),
                "FI_LNX_PROV_LINKS:17: a provider of the link is empty\n"
                "  shm+tcp;ofi_rxm|\n"
                "                  ^");
    assert_says(said_by(with_links, "tcp;ofi_rxm:nope"), "domain: asked nope, offered");
    assert_says(said, "  lnx;[tcp(domain=nope);rxm]\n"
                      "           ^~~~~~~~~~~\n");
    setenv("FI_LNX_DISABLE_SHM", "maybe", 1);
    assert_says(said_by(with_links, "shm"),
                "FI_LNX_DISABLE_SHM:1: 'maybe' is not yes or no (1/0, true/false, on/off)\n"
                "  maybe\n"
                "  ^~~~~\n");
    setenv("FI_LNX_DISABLE_SHM", "1", 1);
    assert_says(said_by(with_links, "shm"),
                "FI_LNX_PROV_LINKS:1: FI_LNX_DISABLE_SHM leaves nothing of this link\n"
                "  shm\n"
                "  ^~~\n");
    unsetenv("FI_LNX_DISABLE_SHM");
}

/* A stack that FI_PROVIDER stands for beside FI_LNX_PROV_LINKS, which says that it joins shm alone
 * and by turns. */
static void assert_linked(const char *provider, const char *expected)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;
    bool found = false;

    hints->ep_attr->type = FI_EP_RDM;
    hints->mode = ~0ull;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    setenv("FI_PROVIDER", provider, 1);
    setenv("FI_LNX_PROV_LINKS", "shm", 1);
    setenv("FI_LNX_MULTI_RAIL_SELECTION", "PER_MSG", 1);
    assert_int_equal(fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &info), 0);
    for (const struct fi_info *at = info; at && !found; at = at->next)
        found = !strcmp(at->fabric_attr->prov_name, expected);
    assert_true(found);
    fi_freeinfo(info);
    fi_freeinfo(hints);
    unsetenv("FI_LNX_PROV_LINKS");
    unsetenv("FI_LNX_MULTI_RAIL_SELECTION");
}

/* With parameters of its own, too; those of the variables yield to them. */
static void variables_are_for_each_join_without_a_bracket(void **state)
{
    assert_linked("lnx", "lnx");
    assert_linked("noop;lnx", "lnx");
    assert_linked("noop;lnx(strict=yes)", "lnx");
    assert_linked("mrail;[lnx+rxd;udp]", "ofi_mrail;[lnx;[shm]+udp;ofi_rxd]");
    assert_linked("noop;lnx,lnx(rails=per_peer)", "lnx(rails=per_peer);[shm]");
    assert_linked("lnx,lnx(strict=yes),lnx(strict=no)", "lnx(strict=yes,rails=per_msg);[shm]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_bracket_is_told),
        cmocka_unit_test(a_join_alone_is_quiet),
        cmocka_unit_test(every_branch_is_shown),
        cmocka_unit_test(a_wrong_address_is_told),
        cmocka_unit_test(an_address_of_another_length_is_told),
        cmocka_unit_test(an_address_of_another_bracket_is_told),
        cmocka_unit_test(wrong_variables_are_told),
        cmocka_unit_test(variables_are_for_each_join_without_a_bracket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
