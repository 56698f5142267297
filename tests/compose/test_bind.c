/* SPDX-License-Identifier: BSD-2-Clause */
/* Texts to stacks: what they bind to, what they admit, how they print, and what is wrong with
 * them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/fi_errno.h>

#include "compose/stack.h"
#include "fake.h"

/* The first stack of text, or the error as shown. */
static struct stack *bind(const char *text, char **shown)
{
    struct spec_error error = {0};
    struct stack *stack = NULL;
    struct spec *spec;
    int rc = spec_parse(text, &spec, &error);

    *shown = NULL;
    if (!rc) {
        rc = bind_stack(&fake_parts, &spec->stacks[0], &stack, &error);
        if (!rc) {
            rc = check_stack(&fake_parts, stack, &error);
            if (rc) {
                stack_release(stack);
                stack = NULL;
            }
        }
        spec_destroy(spec);
    }
    if (rc)
        *shown = spec_error_text("FI_PROVIDER", text, &error);
    return stack;
}

static const struct {
    const char *text, *full, *brief;
} good[] = {
    {"tcp", "tcp", "tcp"},
    {"rxm;tcp", "tcp;ofi_rxm", "tcp;ofi_rxm"},
    {"tcp;ofi_rxm", "tcp;ofi_rxm", "tcp;ofi_rxm"},
    {"TCP;OFI_RXM", "tcp;ofi_rxm", "tcp;ofi_rxm"},
    {"noop;rxm;noop;tcp", "tcp;ofi_hook_noop;ofi_rxm;ofi_hook_noop", "tcp;ofi_rxm"},
    {"tcp;noop;rxm;ofi_hook_noop", "tcp;ofi_hook_noop;ofi_rxm;ofi_hook_noop", "tcp;ofi_rxm"},
    {"hook;rxm;tcp", "tcp;ofi_rxm;ofi_hook_trace", "tcp;ofi_rxm"},
    {"ofi_noop;tcp", "tcp;ofi_hook_noop", "tcp"},
    {"trace(file=\"a b\");rxm(Eager=8k);tcp(iface=lo,nodelay)",
     "tcp(iface=lo,nodelay);ofi_rxm(eager=8k);ofi_hook_trace(file=\"a b\")", "tcp;ofi_rxm"},
    {"lnx;[shm+rxm;tcp]", "ofi_lnx;[shm+tcp;ofi_rxm]", "ofi_lnx;[shm+tcp;ofi_rxm]"},
    {"lnx", "ofi_lnx;[shm+tcp]", "ofi_lnx;[shm+tcp]"},
    {"[shm+udp];lnx;noop", "ofi_hook_noop;ofi_lnx;[shm+udp]", "ofi_lnx;[shm+udp]"},
    {"loop", "loop", "loop"},
};

static void spec_binds_in_both_orders_and_prints_its_base_or_its_join_first(void **state)
{
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        char *shown, *full, *brief, *again;
        struct stack *stack = bind(good[i].text, &shown), *back;

        if (!stack)
            fail_msg("%s", shown);
        full = stack_print(stack);
        brief = stack_print_short(stack);
        assert_non_null(full);
        assert_non_null(brief);
        assert_string_equal(full, good[i].full);
        assert_string_equal(brief, good[i].brief);
        back = bind(full, &shown);
        assert_non_null(back);
        again = stack_print(back);
        assert_non_null(again);
        assert_string_equal(again, full);
        stack_release(stack);
        stack_release(back);
        free(full);
        free(brief);
        free(again);
    }
}

static const struct {
    const char *text, *shown;
} bad[] = {
    {"tcp;trace;rxn", "FI_PROVIDER:11: unknown part 'rxn'; did you mean 'rxm'?\n"
                      "  tcp;trace;rxn\n"
                      "            ^~~"},
    {"udp;rxm", "FI_PROVIDER:5: rxm needs a lower that gives FI_EP_MSG; udp gives FI_EP_DGRAM\n"
                "  udp;rxm\n"
                "      ^~~"},
    {"rxm;noop;udp",
     "FI_PROVIDER:1: rxm needs a lower that gives FI_EP_MSG; udp gives FI_EP_DGRAM\n"
     "  rxm;noop;udp\n"
     "  ^~~"},
    {"rxd;shm", "FI_PROVIDER:1: rxd makes messages of reliable packets or datagrams; shm has "
                "messages (FI_EP_RDM) without it\n"
                "  rxd;shm\n"
                "  ^~~"},
    {"rxd;noop;rxd;udp", "FI_PROVIDER:1: rxd makes messages of reliable packets or datagrams; rxd "
                         "has messages (FI_EP_RDM) without it\n"
                         "  rxd;noop;rxd;udp\n"
                         "  ^~~"},
    {"arq;arq;udp", "FI_PROVIDER:1: arq needs a lower that gives FI_EP_DGRAM; arq gives reliable "
                    "packets\n"
                    "  arq;arq;udp\n"
                    "  ^~~"},
    {"lnx;[shm+arq;udp]", "FI_PROVIDER:1: lnx needs a lower that gives FI_EP_RDM; arq gives "
                          "reliable packets\n"
                          "  lnx;[shm+arq;udp]\n"
                          "  ^~~"},
    {"arq", "FI_PROVIDER:1: arq is a layer and needs a base, as in 'arq;udp'\n"
            "  arq\n"
            "  ^~~"},
    {"rxm;rxm;tcp", "FI_PROVIDER:1: rxm needs a lower that gives FI_EP_MSG; rxm gives FI_EP_RDM\n"
                    "  rxm;rxm;tcp\n"
                    "  ^~~"},
    {"zzzzzzzz",
     "FI_PROVIDER:1: unknown part 'zzzzzzzz'; there are the transports tcp, udp, shm, loop, duo "
     "and the layers rxm, rxd, arq, noop, trace, lnx, mrail, coll, trigger, messages\n"
     "  zzzzzzzz\n"
     "  ^~~~~~~~"},
    {"psm3", "FI_PROVIDER:1: psm3: not in this build, and no external provider "
             "(FI_PROVIDER_PATH) has this name; there are the transports tcp, udp, shm, loop, duo "
             "and the layers rxm, rxd, arq, noop, trace, lnx, mrail, coll, trigger, messages\n"
             "  psm3\n"
             "  ^~~~"},
    {"rstream;udp",
     "FI_PROVIDER:1: rstream: not in this build; there are the transports tcp, udp, shm, loop, duo "
     "and the layers rxm, rxd, arq, noop, trace, lnx, mrail, coll, trigger, messages\n"
     "  rstream;udp\n"
     "  ^~~~~~~"},
    {"rxm:tcp", "FI_PROVIDER:1: unknown part 'rxm:tcp'; parts are joined by ';', as in 'rxm;tcp'\n"
                "  rxm:tcp\n"
                "  ^~~~~~~"},
    {"noop/rxm/tcp", "FI_PROVIDER:1: unknown part 'noop/rxm/tcp'; parts are joined by ';', as in "
                     "'noop;rxm;tcp'\n"
                     "  noop/rxm/tcp\n"
                     "  ^~~~~~~~~~~~"},
    {"ofi_rxm-tcp", "FI_PROVIDER:1: unknown part 'ofi_rxm-tcp'; parts are joined by ';', as in "
                    "'ofi_rxm;tcp'\n"
                    "  ofi_rxm-tcp\n"
                    "  ^~~~~~~~~~~"},
    {"rxm+tcp", "FI_PROVIDER:4: ';' or ',' expected, not '+'\n"
                "  rxm+tcp\n"
                "     ^"},
    {"hook", "FI_PROVIDER:1: hook (trace) is a layer and needs a base, as in 'hook;tcp'\n"
             "  hook\n"
             "  ^~~~"},
    {"hook(x=1);tcp", "FI_PROVIDER:6: hook (trace) has no parameter 'x'; it has file\n"
                      "  hook(x=1);tcp\n"
                      "       ^~~"},
    {"rxm", "FI_PROVIDER:1: rxm is a layer and needs a base, as in 'rxm;tcp'\n"
            "  rxm\n"
            "  ^~~"},
    {"noop;rxd", "FI_PROVIDER:6: rxd is a layer and needs a base, as in 'rxd;udp'\n"
                 "  noop;rxd\n"
                 "       ^~~"},
    {"tcp;udp", "FI_PROVIDER:5: udp cannot stand here: a stack has one base\n"
                "  tcp;udp\n"
                "      ^~~"},
    {"noop;tcp;rxm", "FI_PROVIDER:6: tcp is a base: it stands first or last\n"
                     "  noop;tcp;rxm\n"
                     "       ^~~"},
    {"tcp(ifcae=lo)", "FI_PROVIDER:5: tcp has no parameter 'ifcae'; did you mean 'iface'?\n"
                      "  tcp(ifcae=lo)\n"
                      "      ^~~~~~~~"},
    {"rxm(tags=maybe);tcp", NULL},
    {"tcp(iface=lo,IFACE=eth0)", "FI_PROVIDER:14: parameter 'IFACE' is given twice\n"
                                 "  tcp(iface=lo,IFACE=eth0)\n"
                                 "               ^~~~~~~~~~"},
    {"shm(a=1)", NULL},
    {"lnx;tcp", "FI_PROVIDER:1: lnx joins several lowers, which stand in a bracket: "
                "lnx;[... + ...]\n"
                "  lnx;tcp\n"
                "  ^~~"},
    {"rxm;[tcp+shm]", "FI_PROVIDER:1: rxm stands on one lower; a bracket needs a join\n"
                      "  rxm;[tcp+shm]\n"
                      "  ^~~"},
    {"[tcp]", "FI_PROVIDER:1: a bracket needs a join beside it: lnx or mrail\n"
              "  [tcp]\n"
              "  ^"},
    {"lnx;[shm+tpc]", "FI_PROVIDER:10: unknown part 'tpc'; did you mean 'tcp'?\n"
                      "  lnx;[shm+tpc]\n"
                      "           ^~~"},
    {"ofi_tcp", "FI_PROVIDER:1: unknown part 'ofi_tcp'; did you mean 'tcp'?\n"
                "  ofi_tcp\n"
                "  ^~~~~~~"},
};

static void wrong_text_is_answered_with_column_caret_and_near_name(void **state)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char *shown;

        assert_null(bind(bad[i].text, &shown));
        if (bad[i].shown)
            assert_string_equal(shown, bad[i].shown);
        else
            print_message("%s\n", shown);
        free(shown);
    }
}

static const struct {
    /* Full texts, each with the number of automatic nodes, and that of unseen ones if there are. */
    const char *text, *admits;
} admitted[] = {
    {"tcp", "tcp/1 tcp;ofi_rxm/0 "},
    {"udp", "udp/0 udp;ofi_rxd/0,1 "},
    {"shm", "shm/0 "},
    {"rxm;tcp", "tcp;ofi_rxm/0 "},
    {"rxm;noop;tcp", "tcp;ofi_hook_noop;ofi_rxm/0 "},
    {"noop;tcp", "tcp;ofi_hook_noop/1 tcp;ofi_rxm;ofi_hook_noop/0 "},
    {"tcp(iface=lo)", "tcp(iface=lo)/1 tcp(iface=lo);ofi_rxm/0 "},
    {"lnx;[shm+tcp]", "ofi_lnx;[shm+tcp]/1 ofi_lnx;[shm+tcp;ofi_rxm]/0 "},
    {"rxd;udp", "udp;ofi_rxd/0,1 "},
    {"rxd;noop;udp", "udp;ofi_hook_noop;ofi_rxd/0,1 "},
    {"noop;udp", "udp;ofi_hook_noop/0 udp;ofi_rxd;ofi_hook_noop/0,1 "},
    {"rxd;noop;arq;udp", "udp;arq;ofi_hook_noop;ofi_rxd/0 "},
    {"rxd;trace;arq;noop;udp", "udp;ofi_hook_noop;arq;ofi_hook_trace;ofi_rxd/0 "},
    {"arq;udp", "udp;arq/0 "},
    {"lnx;[shm+rxm;tcp+udp]", "ofi_lnx;[shm+tcp;ofi_rxm+udp;ofi_rxd]/0,1 "},
    {"mrail;[rxm;tcp+rxd;udp]", "ofi_mrail;[tcp;ofi_rxm+udp;ofi_rxd]/0,2 "},
    {"rxd;mrail;[tcp+udp]", "ofi_rxd;ofi_mrail;[tcp+udp]/1,1 "},
    {"noop;mrail;[rxm;tcp+arq;udp]", "ofi_hook_noop;ofi_mrail;[tcp;ofi_rxm+udp;arq]/0,1 "},
    {"lnx;[shm+mrail;[rxm;tcp+rxm;tcp]]", "ofi_lnx;[shm+ofi_mrail;[tcp;ofi_rxm+tcp;ofi_rxm]]/0,1 "},
    {"mrail;[mrail;[rxm;tcp]+rxm;tcp]", "ofi_mrail;[ofi_mrail;[tcp;ofi_rxm]+tcp;ofi_rxm]/0,1 "},
};

static unsigned automatics(const struct stack *stack)
{
    unsigned count = stack->automatic;

    for (size_t i = 0; i < stack->lower_count; i++)
        count += automatics(stack->lowers[i]);
    return count;
}

static unsigned unseen(const struct stack *stack)
{
    unsigned count = stack->unseen;

    for (size_t i = 0; i < stack->lower_count; i++)
        count += unseen(stack->lowers[i]);
    return count;
}

static void bare_transport_admits_its_layers(void **state)
{
    for (size_t i = 0; i < sizeof(admitted) / sizeof(admitted[0]); i++) {
        struct stack **list = NULL;
        struct text text = {0};
        size_t count = 0;
        char *shown, *all;
        struct stack *stack = bind(admitted[i].text, &shown);

        assert_non_null(stack);
        assert_int_equal(admit_stack(&fake_parts, stack, &list, &count), 0);
        for (size_t n = 0; n < count; n++) {
            char *full = stack_print(list[n]);

            text_add(&text, "%s/%u", full, automatics(list[n]));
            if (unseen(list[n]))
                text_add(&text, ",%u", unseen(list[n]));
            text_add(&text, " ");
            stack_release(list[n]);
            free(full);
        }
        all = text_take(&text);
        assert_string_equal(all, admitted[i].admits);
        free(all);
        free(list);
        stack_release(stack);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spec_binds_in_both_orders_and_prints_its_base_or_its_join_first),
        cmocka_unit_test(wrong_text_is_answered_with_column_caret_and_near_name),
        cmocka_unit_test(bare_transport_admits_its_layers),
    };

    return cmocka_run_group_tests_name("bind", tests, NULL, NULL);
}
