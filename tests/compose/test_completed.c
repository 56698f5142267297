/* SPDX-License-Identifier: BSD-2-Clause */
/* A transport that names the protocol of the layer that completes it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/fi_errno.h>

#include "compose/candidate.h"
#include "compose/plan.h"
#include "core/info/info.h"
#include "fake.h"

/* "name fabric protocol, " of every info of `candidate` that the hints get. */
static void add_infos(struct text *text, const struct candidate *candidate,
                      const struct fi_info *hints)
{
    const struct query query = {.version = FI_VERSION(2, 6)};
    struct fi_info *infos = NULL;
    int rc = plan_getinfo(candidate->stack, candidate->name, &query, hints, NULL, &infos);

    assert_true(!rc || rc == -FI_ENODATA);
    for (struct fi_info *info = infos; info; info = info->next) {
        char protocol[32];

        fi_tostr_r(protocol, sizeof(protocol), &info->ep_attr->protocol, FI_TYPE_PROTOCOL);
        text_add(text, "%s %s %s, ", info->fabric_attr->prov_name, info->fabric_attr->name,
                 protocol + strlen("FI_PROTO_"));
    }
    info_free(infos);
}

static void assert_planned(const char *provider, const char *fabric, uint64_t caps,
                           const char *expected)
{
    const struct environment environment = {provider, NULL};
    struct fi_info *hints = info_complete(NULL);
    struct candidates candidates;
    struct text text = {0};
    char *planned;

    assert_non_null(hints);
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = caps;
    assert_int_equal(info_set_string(&hints->fabric_attr->name, fabric), 0);
    assert_int_equal(candidates_make(&fake_parts, &environment, 0, NULL, NULL, &candidates), 0);
    text_add(&text, "%s", "");
    for (size_t i = 0; i < candidates.count; i++)
        add_infos(&text, &candidates.list[i], hints);
    planned = text_take(&text);
    assert_string_equal(planned, expected);
    free(planned);
    candidates_finish(&candidates);
    info_free(hints);
}

/* Both have FI_EP_RDM: the fabric's name, or a capability, chooses; the transport comes first. */
static void it_has_two_fabrics(void **state)
{
    assert_planned("duo", NULL, 0, "duo one EFA, duo many RXD, ");
    assert_planned("duo", "one", 0, "duo one EFA, ");
    assert_planned("duo", "many", 0, "duo many RXD, ");
    assert_planned("duo", NULL, FI_TAGGED, "duo many RXD, ");
}

static void layers_above_it_get_packets(void **state)
{
    assert_planned("messages;duo", NULL, 0, "duo;messages many RXD, ");
    assert_planned("noop;messages;noop;duo", NULL, 0, "duo;messages many RXD, ");
    assert_planned("messages;duo", "one", 0, "");
}

/* The planner puts layers that want messages on either of its fabrics, under hooks too. */
static void layers_on_messages_get_both(void **state)
{
    assert_planned("coll;duo", "many", 0, "duo;ofi_coll many RXD, ");
    assert_planned("coll;noop;duo", "many", 0, "duo;ofi_coll many RXD, ");
    assert_planned("coll;duo", "one", 0, "duo;ofi_coll one EFA, ");
}

/* One candidate, which its name leads back to; no other layer is put on it. */
static void it_is_one_candidate(void **state)
{
    static const struct {
        const char *provider, *name, *full;
    } cases[] = {
        {"duo", "duo", "duo"},
        {"messages;duo", "duo;messages", "duo;messages"},
        {"rxd;duo", "duo;ofi_rxd", "duo;ofi_rxd"},
        {"noop;duo", "duo", "duo;ofi_hook_noop"},
        {"coll;duo", "duo;ofi_coll", "duo;ofi_coll"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct environment environment = {cases[i].provider, NULL};
        struct candidates candidates, again;

        assert_int_equal(candidates_make(&fake_parts, &environment, 0, NULL, NULL, &candidates), 0);
        assert_int_equal(candidates.count, 1);
        assert_string_equal(candidates.list[0].name, cases[i].name);
        assert_string_equal(candidates.list[0].full, cases[i].full);
        assert_int_equal(candidates_make(&fake_parts, &environment, 0, cases[i].name, NULL, &again),
                         0);
        assert_string_equal(candidates_find(&again, cases[i].name)->full, cases[i].full);
        candidates_finish(&again);
        candidates_finish(&candidates);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_has_two_fabrics),
        cmocka_unit_test(layers_above_it_get_packets),
        cmocka_unit_test(layers_on_messages_get_both),
        cmocka_unit_test(it_is_one_candidate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
