/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/fi_endpoint.h>

#include "compose/explain.h"
#include "core/info/info.h"
#include "fake.h"

static const struct query query = {.version = FI_VERSION(2, 6)};

static void mode_is_off_reasons_or_tree(void **state)
{
    assert_int_equal(explain_mode(NULL), EXPLAIN_OFF);
    assert_int_equal(explain_mode(""), EXPLAIN_OFF);
    assert_int_equal(explain_mode("0"), EXPLAIN_OFF);
    assert_int_equal(explain_mode("1"), EXPLAIN_REASONS);
    assert_int_equal(explain_mode("tree"), EXPLAIN_TREE);
}

static struct fi_info *plan_all(const struct candidates *candidates, const struct fi_info *hints,
                                struct reasons *reasons)
{
    struct fi_info *all = NULL;

    assert_non_null(hints);
    for (size_t i = 0; i < candidates->count; i++) {
        struct fi_info *infos = NULL;

        reasons_enter(reasons, "%s", candidates->list[i].full);
        plan_getinfo(candidates->list[i].stack, candidates->list[i].name, &query, hints, reasons,
                     &infos);
        reasons_leave(reasons, infos ? 1 : 0);
        if (infos)
            info_append(&all, infos);
    }
    return all;
}

static void tree_draws_what_each_part_adds(void **state)
{
    const struct environment environment = {"noop;rxm(eager=1k);tcp(iface=lo)", NULL};
    struct fi_info *hints = info_complete(NULL), *infos;
    struct candidates candidates;
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    candidates_make(&fake_parts, &environment, 0, NULL, NULL, &candidates);
    infos = plan_all(&candidates, hints, NULL);
    explain_tree(out, &query, &candidates, infos);
    fclose(out);
    assert_string_equal(text, "tcp;ofi_rxm FI_EP_RDM, 1 info\n"
                              "  noop: passes everything through\n"
                              "    rxm: RDM over connections (eager=1k), FI_EP_RDM, FI_PROTO_RXM\n"
                              "        adds FI_TAGGED, FI_DIRECTED_RECV\n"
                              "      tcp: sockets (iface=lo), FI_EP_MSG, FI_PROTO_SOCK_TCP\n"
                              "          gives FI_MSG, FI_RMA, FI_LOCAL_COMM, FI_REMOTE_COMM\n");
    free(text);
    info_free(infos);
    info_free(hints);
    candidates_finish(&candidates);
}

static void reasons_name_the_question_and_each_dead_end(void **state)
{
    const struct environment environment = {"rxm;tcp", NULL};
    struct reasons *reasons = reasons_create();
    struct fi_info *hints = info_complete(NULL), *infos;
    struct candidates candidates;
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    hints->ep_attr->type = FI_EP_MSG;
    hints->caps = FI_TAGGED;
    candidates_make(&fake_parts, &environment, 0, NULL, reasons, &candidates);
    infos = plan_all(&candidates, hints, reasons);
    explain_reasons(out, &query, hints, reasons, infos);
    fclose(out);
    assert_null(infos);
    assert_string_equal(text, "fi_getinfo 2.6, FI_EP_MSG, caps FI_TAGGED: 0 infos\n"
                              "tcp;ofi_rxm: 0 infos\n"
                              "  rxm: 0 infos\n"
                              "    x ep_attr->type: asked FI_EP_MSG, offered FI_EP_RDM\n");
    free(text);
    info_free(hints);
    candidates_finish(&candidates);
    reasons_destroy(reasons);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mode_is_off_reasons_or_tree),
        cmocka_unit_test(tree_draws_what_each_part_adds),
        cmocka_unit_test(reasons_name_the_question_and_each_dead_end),
    };

    return cmocka_run_group_tests_name("explain", tests, NULL, NULL);
}
