/* SPDX-License-Identifier: BSD-2-Clause */
/* Candidates, their names, plans and opened stacks, over parts without a wire. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "compose/candidate.h"
#include "compose/hold.h"
#include "compose/rail_links.h"
#include "compose/plan.h"
#include "core/info/abi.h"
#include "core/info/info.h"
#include "core/part/join_name.h"
#include "fake.h"

static const struct {
    const char *provider, *hook, *wanted;
    const char *names; /* "name=full " of each candidate; only the name when they are equal */
    uint64_t caps;     /* of the hints */
} cases[] = {
    /* Unset: every transport that is not hidden, alone and under the layers that it admits. */
    {NULL, NULL, NULL, "tcp tcp;ofi_rxm udp udp;ofi_rxd shm "},
    {"", "", "", "tcp tcp;ofi_rxm udp udp;ofi_rxd shm "},
    {NULL, NULL, "tcp", "tcp tcp;ofi_rxm "},
    {NULL, NULL, "tcp;ofi_rxm", "tcp;ofi_rxm "},
    {NULL, NULL, "ofi_rxm;tcp", "tcp;ofi_rxm "},
    {NULL, NULL, "ofi_rxm", "tcp;ofi_rxm "},
    {NULL, NULL, "^tcp", "udp udp;ofi_rxd shm "},
    {NULL, NULL, "loop", "loop "},
    {NULL, NULL, "rxm(eager=1k);tcp", "tcp;ofi_rxm(eager=1k) "},
    /* Names in FI_PROVIDER as upstream reads them. */
    {"tcp", NULL, NULL, "tcp tcp;ofi_rxm "},
    {"TCP", NULL, "udp", ""},
    {"shm,tcp", NULL, NULL, "shm tcp tcp;ofi_rxm "},
    {"tcp,tcp;ofi_rxm", NULL, NULL, "tcp tcp;ofi_rxm "},
    {"tcp,ofi_rxm", NULL, NULL, "tcp tcp;ofi_rxm "},
    {"tcp;ofi_rxm", NULL, NULL, "tcp;ofi_rxm "},
    {"tcp;ofi_rxm", NULL, "tcp", "tcp;ofi_rxm "},
    {"tcp", NULL, "tcp;ofi_rxm", "tcp;ofi_rxm "},
    {"udp", NULL, "tcp", ""},
    {"^ofi_rxm", NULL, NULL, "tcp udp udp;ofi_rxd shm "},
    {"^tcp,shm", NULL, NULL, "udp udp;ofi_rxd "},
    {"^udp;ofi_rxd", NULL, NULL, "tcp tcp;ofi_rxm udp shm "},
    {"tcp,nosuch", NULL, NULL, "tcp tcp;ofi_rxm "},
    {"nosuch", NULL, NULL, ""},
    {"tcp;;", NULL, NULL, ""},
    {"loop", NULL, NULL, "loop "},
    /* Transparent layers and parameters come back by matching FI_PROVIDER. */
    {"noop;tcp", NULL, NULL, "tcp=tcp;ofi_hook_noop tcp;ofi_rxm=tcp;ofi_rxm;ofi_hook_noop "},
    {"noop;rxm(eager=1k);noop;tcp(iface=lo)", NULL, NULL,
     "tcp;ofi_rxm=tcp(iface=lo);ofi_hook_noop;ofi_rxm(eager=1k);ofi_hook_noop "},
    {"noop;tcp", NULL, "tcp;ofi_rxm", "tcp;ofi_rxm=tcp;ofi_rxm;ofi_hook_noop "},
    /* Two choices that shorten alike keep their full texts. */
    {"rxm(eager=1k);tcp,rxm(eager=2k);tcp", NULL, NULL,
     "tcp;ofi_rxm(eager=1k) tcp;ofi_rxm(eager=2k) "},
    /* The first of those that mean what was asked for is called so. */
    {"rxm(eager=1k);tcp,rxm(eager=2k);tcp", NULL, "tcp;ofi_rxm",
     "tcp;ofi_rxm=tcp;ofi_rxm(eager=1k) tcp;ofi_rxm(eager=2k) "},
    {"rxm(tags=pass);tcp", NULL, NULL, "tcp;ofi_rxm=tcp;ofi_rxm(tags=pass) "},
    {"rxm(tags=pass);tcp", NULL, "tcp", "tcp=tcp;ofi_rxm(tags=pass) "},
    {"rxm(tags=pass);tcp", NULL, "tcp;ofi_rxm", "tcp;ofi_rxm=tcp;ofi_rxm(tags=pass) "},
    {"trace;rxm(tags=pass,eager=1k);noop;tcp", "noop", "tcp",
     "tcp=tcp;ofi_hook_noop;ofi_rxm(tags=pass,eager=1k);ofi_hook_trace "},
    {"rxm(tags=own);tcp", NULL, "tcp", "tcp;ofi_rxm=tcp;ofi_rxm(tags=own) "},
    {"coll;rxm(tags=pass);tcp", NULL, "tcp;ofi_coll",
     "tcp;ofi_coll=tcp;ofi_rxm(tags=pass);ofi_coll "},
    {"tcp,rxm(tags=pass);tcp", NULL, "tcp", "tcp tcp;ofi_rxm tcp;ofi_rxm(tags=pass) "},
    /* A spec in the hints is used as given, under its full text, where FI_PROVIDER leaves room. */
    {NULL, NULL, "noop;rxm;tcp", "tcp;ofi_rxm;ofi_hook_noop "},
    {"tcp", NULL, "noop;rxm(eager=1k);tcp", "tcp;ofi_rxm(eager=1k);ofi_hook_noop "},
    {"udp", NULL, "noop;rxm;tcp", ""},
    {"^ofi_rxm", NULL, "noop;rxm;tcp", ""},
    {"noop;tcp", NULL, "noop;tcp", "tcp;ofi_hook_noop tcp;ofi_rxm;ofi_hook_noop "},
    {"rxm(eager=1k);tcp", NULL, "rxm(eager=2k);tcp", ""},
    {NULL, NULL, "tcp(iface=lo)", "tcp(iface=lo) tcp(iface=lo);ofi_rxm "},
    {NULL, NULL, "lnx;[shm+tcp]", "ofi_lnx;[shm+tcp] ofi_lnx;[shm+tcp;ofi_rxm] "},
    /* FI_HOOK goes on top of all, and is never printed. */
    {NULL, "noop;trace(file=x)", NULL, "tcp tcp;ofi_rxm udp udp;ofi_rxd shm "},
    {"noop;tcp", "trace", NULL, "tcp=tcp;ofi_hook_noop tcp;ofi_rxm=tcp;ofi_rxm;ofi_hook_noop "},
    {NULL, "noop", "noop;rxm;tcp", "tcp;ofi_rxm;ofi_hook_noop "},
    {NULL, "rxm", NULL, ""},
    {NULL, "nopp", NULL, ""},
    {NULL, "noop,trace", NULL, ""},
    /* Layers that the hints ask for, or a name names: behind all stacks without, on those that give
     * FI_EP_RDM, under what is transparent. */
    {NULL, NULL, NULL,
     "tcp tcp;ofi_rxm udp udp;ofi_rxd shm tcp;ofi_coll tcp;ofi_rxm;ofi_coll udp;ofi_rxd;ofi_coll "
     "shm;ofi_coll ",
     FI_COLLECTIVE},
    {"tcp", NULL, NULL,
     "tcp tcp;ofi_rxm tcp;ofi_coll tcp;ofi_rxm;ofi_coll tcp;ofi_trigger tcp;ofi_rxm;ofi_trigger "
     "tcp;ofi_coll;ofi_trigger tcp;ofi_rxm;ofi_coll;ofi_trigger ",
     FI_COLLECTIVE | FI_TRIGGER},
    {"shm", "trace", "shm", "shm shm;ofi_trigger ", FI_TRIGGER},
    {"noop;shm", NULL, NULL, "shm=shm;ofi_hook_noop shm;ofi_coll=shm;ofi_coll;ofi_hook_noop ",
     FI_COLLECTIVE},
    {"noop;shm", NULL, "shm;ofi_coll", "shm;ofi_coll=shm;ofi_coll;ofi_hook_noop "},
    {"shm", NULL, "coll;shm", "shm;ofi_coll "},
    {"coll;shm", NULL, NULL, "shm;ofi_coll "},
    {"coll;shm", NULL, NULL, "shm;ofi_coll ", FI_COLLECTIVE},
    {"trigger;coll;noop;shm", NULL, NULL,
     "shm;ofi_coll;ofi_trigger=shm;ofi_hook_noop;ofi_coll;ofi_trigger "},
    {"noop;shm", NULL, NULL, "shm=shm;ofi_hook_noop shm;ofi_trigger=shm;ofi_trigger;ofi_hook_noop ",
     FI_TRIGGER},
    {"noop;shm", NULL, "shm;ofi_coll;ofi_trigger",
     "shm;ofi_coll;ofi_trigger=shm;ofi_coll;ofi_trigger;ofi_hook_noop "},
    {"noop;trigger;trace;shm", NULL, "shm;ofi_coll",
     "shm;ofi_coll;ofi_trigger=shm;ofi_coll;ofi_hook_trace;ofi_trigger;ofi_hook_noop "},
    {"trigger;shm", NULL, NULL, "shm;ofi_trigger shm;ofi_coll;ofi_trigger ", FI_COLLECTIVE},
    {"trigger;shm", "trace", NULL, "shm;ofi_trigger "},
    {"^coll", NULL, "shm", "shm ", FI_COLLECTIVE},
    {"^udp,tcp", NULL, "coll", "shm;ofi_coll "},
};

static char *names_of(const struct candidates *candidates)
{
    struct text text = {0};

    for (size_t i = 0; i < candidates->count; i++) {
        const struct candidate *candidate = &candidates->list[i];

        text_add(&text, "%s", candidate->name);
        if (strcmp(candidate->name, candidate->full))
            text_add(&text, "=%s", candidate->full);
        text_add(&text, " ");
    }
    return text_take(&text);
}

static void candidates_are_those_of_the_texts(void **state)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct environment environment = {cases[i].provider, cases[i].hook};
        struct candidates candidates;
        char *names;

        assert_int_equal(candidates_make(&fake_parts, &environment, cases[i].caps, cases[i].wanted,
                                         NULL, &candidates),
                         0);
        names = names_of(&candidates);
        if (strcmp(names, cases[i].names))
            fail_msg("FI_PROVIDER='%s' FI_HOOK='%s' prov_name='%s': '%s', not '%s'",
                     cases[i].provider, cases[i].hook, cases[i].wanted, names, cases[i].names);
        free(names);
        candidates_finish(&candidates);
    }
}

/* plan(print(stack)) == stack for every candidate; returns how many there are. */
static size_t assert_names_lead_back(const struct environment *environment, uint64_t caps,
                                     const char *wanted)
{
    struct candidates candidates, again;
    size_t count;

    assert_int_equal(candidates_make(&fake_parts, environment, caps, wanted, NULL, &candidates), 0);
    for (size_t n = 0; n < candidates.count; n++) {
        const char *name = candidates.list[n].name;
        const struct candidate *found;

        assert_int_equal(candidates_make(&fake_parts, environment, 0, name, NULL, &again), 0);
        found = candidates_find(&again, name);
        if (!found || strcmp(found->full, candidates.list[n].full) ||
            found->stack->automatic != candidates.list[n].stack->automatic)
            fail_msg("FI_PROVIDER='%s' FI_HOOK='%s' prov_name='%s': '%s' means '%s'",
                     environment->provider, environment->hook, wanted, name,
                     found ? found->full : "nothing");
        candidates_finish(&again);
    }
    count = candidates.count;
    candidates_finish(&candidates);
    return count;
}

static void name_leads_back_to_its_stack(void **state)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct environment environment = {cases[i].provider, cases[i].hook};

        assert_names_lead_back(&environment, cases[i].caps, cases[i].wanted);
    }
}

static void fi_hook_stays_over_what_hints_bring_in(void **state)
{
    static const char *const providers[] = {NULL, "tcp", "shm", "trigger;shm", "noop;coll;shm"};

    for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++) {
        struct environment environment = {providers[i], "trace(file=x);noop"};
        struct candidates candidates;
        bool triggers = false;

        assert_int_equal(candidates_make(&fake_parts, &environment, FI_COLLECTIVE | FI_TRIGGER,
                                         NULL, NULL, &candidates),
                         0);
        for (size_t n = 0; n < candidates.count; n++) {
            const struct stack *top = candidates.list[n].stack, *second = top->lowers[0];

            assert_true(top->hooked && second->hooked && !second->lowers[0]->hooked);
            assert_string_equal(top->part->name, "trace");
            assert_string_equal(second->part->name, "noop");
            triggers = triggers || !strcmp(second->lowers[0]->part->name, "trigger");
        }
        assert_true(triggers || (i && providers[i][0] == 'n'));
        candidates_finish(&candidates);
    }
}

static uint32_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static void draw_hooks(struct text *text)
{
    static const char *const hooks[] = {"noop;", "trace;", "trace(file=\"a;b\");", "hook;"};

    while (!draw(3))
        text_add(text, "%s", hooks[draw(4)]);
}

static void draw_stack(struct text *text, int joins)
{
    static const char *const layers[] = {"", "", "rxm;", "rxm(eager=1k);", "rxm(tags=own);"};
    static const char *const tcps[] = {"tcp", "tcp(iface=lo)", "tcp(domain=lo)"};

    draw_hooks(text);
    if (!draw(5)) {
        text_add(text, draw(2) ? "coll;" : "trigger;coll;");
        draw_hooks(text);
    }
    switch (draw(joins == 2 ? 4 : 6)) {
    case 0: text_add(text, "shm"); break;
    case 1: text_add(text, "%sudp", draw(2) ? "rxd;" : ""); break;
    case 4:
        text_add(text, draw(2) ? "lnx;[" : "mrail;[");
        draw_stack(text, joins + 1);
        while (!draw(2)) {
            text_add(text, "+");
            draw_stack(text, joins + 1);
        }
        text_add(text, "]");
        break;
    case 5: text_add(text, draw(2) ? "lnx" : "mrail"); break;
    default:
        text_add(text, "%s", layers[draw(5)]);
        draw_hooks(text);
        text_add(text, "%s", tcps[draw(3)]);
    }
}

static char *draw_spec(void)
{
    struct text text = {0};

    draw_stack(&text, 0);
    while (!draw(2)) {
        text_add(&text, ",");
        draw_stack(&text, 0);
    }
    return text_take(&text);
}

static void names_of_drawn_specs_lead_back(void **state)
{
    static const char *const hooks[] = {NULL, NULL, "noop", "trace(file=x);noop"};
    size_t count = 0;

    seed = getenv("PLAN_SEED") ? (uint32_t)strtoul(getenv("PLAN_SEED"), NULL, 0) : 1;
    print_message("PLAN_SEED=%u\n", seed);
    for (int i = 0; i < 500; i++) {
        char *provider = draw(4) ? draw_spec() : NULL;
        char *wanted = draw(2) ? draw_spec() : NULL;
        struct environment environment = {
            .provider = provider, .hook = hooks[draw(4)], .rails = draw(4) ? NULL : "lo,eth0"};

        if (!wanted && !draw(4))
            environment.links = "shm+tcp;ofi_rxm:lo|shm";
        uint64_t caps = (draw(3) ? 0 : FI_COLLECTIVE) | (draw(3) ? 0 : FI_TRIGGER);

        count += assert_names_lead_back(&environment, caps, wanted);
        free(provider);
        free(wanted);
    }
    print_message("%zu stacks\n", count);
    assert_true(count > 500);
}

/* "name type protocol domain, " of every info that hints get. */
static char *plan_text(const char *provider, const struct fi_info *hints, struct reasons *reasons)
{
    const struct environment environment = {provider, NULL};
    const struct query query = {.version = FI_VERSION(2, 6)};
    struct fi_info *complete = info_complete(hints);
    struct candidates candidates;
    struct text text = {0};

    assert_non_null(complete);
    candidates_make(&fake_parts, &environment, 0, NULL, reasons, &candidates);
    for (size_t i = 0; i < candidates.count; i++) {
        struct fi_info *infos = NULL;

        reasons_enter(reasons, "%s", candidates.list[i].full);
        plan_getinfo(candidates.list[i].stack, candidates.list[i].name, &query, complete, reasons,
                     &infos);
        reasons_leave(reasons, !!infos);
        for (struct fi_info *info = infos; info; info = info->next) {
            char type[32], protocol[32];

            fi_tostr_r(type, sizeof(type), &info->ep_attr->type, FI_TYPE_EP_TYPE);
            fi_tostr_r(protocol, sizeof(protocol), &info->ep_attr->protocol, FI_TYPE_PROTOCOL);
            text_add(&text, "%s %s %s %s, ", info->fabric_attr->prov_name, type + 6, protocol + 9,
                     info->domain_attr->name);
            assert_int_equal(info->fabric_attr->api_version, FI_VERSION(2, 6));
            assert_int_equal(info->fabric_attr->prov_version, PROV_VERSION);
        }
        info_free(infos);
    }
    candidates_finish(&candidates);
    info_free(complete);
    return text_take(&text);
}

static void assert_plan(const char *provider, const struct fi_info *hints, const char *expected)
{
    char *text = plan_text(provider, hints, NULL);

    assert_string_equal(text, expected);
    free(text);
}

static void hints_go_down_and_offers_come_up(void **state)
{
    struct fi_info *hints = info_alloc();

    assert_non_null(hints);
    hints->mode = ~0ull;
    hints->domain_attr->mr_mode = INFO_ANY_MR_MODE;
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_TAGGED;
    assert_plan("tcp", hints,
                "tcp RDM XNET eth0, tcp RDM XNET lo, tcp;ofi_rxm RDM RXM eth0, "
                "tcp;ofi_rxm RDM RXM lo, ");
    assert_plan("noop;rxm;noop;tcp(iface=lo)", hints, "tcp;ofi_rxm RDM RXM lo, ");
    hints->ep_attr->protocol = FI_PROTO_XNET;
    assert_plan("tcp", hints, "tcp RDM XNET eth0, tcp RDM XNET lo, ");
    hints->ep_attr->protocol = FI_PROTO_UNSPEC;
    info_set_string(&hints->domain_attr->name, "lo");
    assert_plan(NULL, hints, "tcp RDM XNET lo, tcp;ofi_rxm RDM RXM lo, ");
    hints->ep_attr->type = FI_EP_MSG;
    assert_plan(NULL, hints, "");
    hints->caps = FI_MSG;
    assert_plan(NULL, hints, "tcp MSG SOCK_TCP lo, ");
    assert_plan("rxm;tcp", hints, "");
    info_set_string(&hints->domain_attr->name, NULL);
    hints->ep_attr->type = FI_EP_UNSPEC;
    hints->caps = FI_TAGGED | FI_REMOTE_COMM;
    assert_plan("lnx;[shm+rxm;tcp]", hints, "ofi_lnx;[shm+tcp;ofi_rxm] RDM SHM shm+eth0, ");
    assert_plan("lnx;[shm+rxd;udp]", hints, "ofi_lnx;[shm+udp;ofi_rxd] RDM SHM shm+eth0, ");
    info_free(hints);
}

static void domains_are_selected(void **state)
{
    assert_plan("rxm;tcp(domain=lo)", NULL, "tcp;ofi_rxm RDM RXM lo, ");
    assert_plan("rxm;tcp(domain=eth1|LO)", NULL, "tcp;ofi_rxm RDM RXM lo, ");
    assert_plan("rxm;tcp(domain=eth)", NULL, "");
    assert_plan("udp(domain=lo)", NULL, "");
    assert_plan("udp(domain=lo|eth0)", NULL, "udp DGRAM UDP eth0, udp;ofi_rxd RDM RXD eth0, ");
    assert_plan("lnx;[shm+rxm;tcp(domain=lo)]", NULL, "ofi_lnx;[shm+tcp;ofi_rxm] RDM SHM shm+lo, ");
}

/* Of the real ones, whatever their tables are. */
static void every_transport_has_a_domain_to_select(void **state)
{
    const struct parts *parts = registry_parts();

    for (size_t i = 0; i < parts->count; i++) {
        const struct param_def *def = part_params(parts->list[i]);
        size_t found = 0;

        for (; def && def->key; def++)
            found += !strcmp(def->key, PART_DOMAIN) && def->selects && def->type == PARAM_LIST;
        if (parts->list[i]->kind == PART_TRANSPORT && found != 1)
            fail_msg("%s: %zu", parts->list[i]->name, found);
    }
}

/* A branch that has nothing is left out; the hints' names may leave one out too. */
static void a_join_is_of_what_its_branches_have(void **state)
{
    struct fi_info *hints = info_alloc();

    hints->mode = ~0ull;
    hints->domain_attr->mr_mode = INFO_ANY_MR_MODE;
    assert_plan("lnx;[shm+rxm;tcp(domain=x)]", hints, "ofi_lnx;[shm+tcp;ofi_rxm] RDM SHM shm+-, ");
    assert_plan("lnx;[shm+lnx;[rxm;tcp+shm]]", hints,
                "ofi_lnx;[shm+ofi_lnx;[tcp;ofi_rxm+shm]] RDM SHM shm+[eth0+shm], ");
    info_set_string(&hints->domain_attr->name, "shm+lo");
    assert_plan("lnx;[shm+rxm;tcp]", hints, "ofi_lnx;[shm+tcp;ofi_rxm] RDM SHM shm+lo, ");
    info_set_string(&hints->domain_attr->name, "-+lo");
    assert_plan("lnx;[shm+rxm;tcp]", hints, "ofi_lnx;[shm+tcp;ofi_rxm] RDM RXM -+lo, ");
    info_set_string(&hints->domain_attr->name, "shm");
    assert_plan("lnx;[shm+rxm;tcp]", hints, "");
    info_set_string(&hints->domain_attr->name, NULL);
    info_set_string(&hints->fabric_attr->name, "shm+net");
    assert_plan("lnx;[shm+rxm;tcp]", hints, "ofi_lnx;[shm+tcp;ofi_rxm] RDM SHM shm+eth0, ");
    info_set_string(&hints->fabric_attr->name, "shm+ten");
    assert_plan("lnx;[shm+rxm;tcp]", hints, "");
    info_free(hints);
}

static void a_join_alone_has_the_usual_bracket(void **state)
{
    struct fi_info *hints = info_alloc();

    hints->mode = ~0ull;
    hints->domain_attr->mr_mode = INFO_ANY_MR_MODE;
    hints->caps = FI_TAGGED;
    assert_plan("lnx", hints,
                "ofi_lnx;[shm+tcp] RDM SHM shm+eth0, "
                "ofi_lnx;[shm+tcp;ofi_rxm] RDM SHM shm+eth0, ");
    assert_plan("trace;lnx", hints,
                "ofi_lnx;[shm+tcp] RDM SHM shm+eth0, "
                "ofi_lnx;[shm+tcp;ofi_rxm] RDM SHM shm+eth0, ");
    hints->ep_attr->type = FI_EP_RDM;
    assert_plan("mrail", hints, "ofi_mrail;[tcp+tcp] RDM RXD eth0+lo, ");
    info_free(hints);
}

static void assert_links(const char *links, bool no_shm, const char *provider, const char *expected)
{
    const struct environment environment = {
        .provider = provider, .links = links, .links_shm = no_shm ? "yes" : NULL};
    struct candidates candidates;
    struct text text = {0};
    char *names;

    assert_int_equal(candidates_make(&fake_parts, &environment, 0, NULL, NULL, &candidates), 0);
    for (size_t i = 0; i < candidates.count; i++) {
        if (candidates.list[i].origin == TEXT_LINKS)
            text_add(&text, "%s=%s ", candidates.list[i].name, candidates.list[i].full);
    }
    names = text_take(&text);
    assert_string_equal(names, expected);
    free(names);
    candidates_finish(&candidates);
}

static void assert_rails(const char *rails, const char *config, const char *expected)
{
    struct spec_error error;
    char *spec;

    assert_int_equal(rail_links_translate(rails, config, &spec, &error), 0);
    assert_string_equal(spec, expected);
    free(spec);
}

/* FI_OFI_MRAIL_ADDR and FI_OFI_MRAIL_CONFIG. */
static void rails_of_upstream_are_joins(void **state)
{
    const struct environment environment = {.provider = "mrail", .rails = "lo,eth0"};
    struct candidates candidates;
    struct spec_error error;
    char *spec;

    assert_rails("eth0, eth1", "", "mrail;[rxm;tcp(iface=eth0)+rxm;tcp(iface=eth1)]");
    assert_rails("fi_sockaddr_in://10.0.0.1:80,fi_sockaddr_in6://[fe80::1]:7",
                 "16384:fixed, -1:striping",
                 "mrail(policy=16384:fixed|-1:striping);[rxm;tcp(iface=10.0.0.1)+"
                 "rxm;tcp(iface=fe80::1)]");
    assert_int_equal(rail_links_translate("eth0,,eth1", NULL, &spec, &error), -FI_EINVAL);
    assert_string_equal(error.why, "the address of a rail is empty");
    assert_int_equal(error.span.begin, 5);
    assert_int_equal(candidates_make(&fake_parts, &environment, 0, NULL, NULL, &candidates), 0);
    assert_int_equal(candidates.count, 1);
    assert_string_equal(candidates.list[0].name, "ofi_mrail");
    candidates_finish(&candidates);
}

/* FI_LNX_PROV_LINKS: beside what there is, and in the place of 'lnx'. */
static void links_of_upstream_are_joins(void **state)
{
    static const char all[] = "ofi_lnx=ofi_lnx;[shm+tcp(domain=lo);ofi_rxm] ";

    assert_links("shm+tcp;ofi_rxm:lo", false, NULL, all);
    assert_links("shm + tcp;ofi_rxm:lo", false, "tcp,lnx", all);
    assert_links("shm+tcp;ofi_rxm:lo", false, "tcp", "");
    assert_links("shm+rxm;tcp:lo,eth0", true, NULL,
                 "ofi_lnx=ofi_lnx;[tcp(domain=lo);ofi_rxm+tcp(domain=eth0);ofi_rxm] ");
    assert_links("shm|rxd;udp", false, NULL,
                 "ofi_lnx=ofi_lnx;[shm] ofi_lnx;[udp;ofi_rxd]=ofi_lnx;[udp;ofi_rxd] ");
    assert_names_lead_back(&(struct environment){.links = "shm+tcp;ofi_rxm:lo|shm"}, 0, "lnx");
    assert_names_lead_back(
        &(struct environment){.provider = "trace;lnx", .links = "shm+tcp;ofi_rxm:lo|shm"}, 0, NULL);
}

static void names_of_joins_are_taken_apart(void **state)
{
    static const struct {
        const char *text, *names[3];
    } texts[] = {
        {"a+b+c", {"a", "b", "c"}},
        {"-+b+-", {NULL, "b", NULL}},
        {"a+[b+c]+d", {"a", "b+c", "d"}},
        {"[]+[-]+[x]]", {NULL}},
        {"[]+[-]+[[x]]", {"", "-", "[x]"}},
        {"a+b", {NULL}},
        {"a+b+c+d", {NULL}},
        {"a++b", {NULL}},
        {"", {NULL}},
        {"a+[b+c", {NULL}},
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char *names[3], *again;
        int rc = join_name_split(texts[i].text, 3, names);
        bool good = texts[i].names[0] || texts[i].names[1];

        assert_int_equal(rc, good ? 0 : -FI_EINVAL);
        for (int n = 0; n < 3; n++) {
            assert_int_equal(!!names[n], !!texts[i].names[n]);
            if (names[n])
                assert_string_equal(names[n], texts[i].names[n]);
        }
        if (rc)
            continue;
        again = join_name((const char *const *)names, 3);
        assert_string_equal(again, texts[i].text);
        free(again);
        join_names_free(names, 3);
    }
}

static void null_hints_list_everything(void **state)
{
    assert_plan("tcp", NULL,
                "tcp MSG SOCK_TCP eth0, tcp MSG SOCK_TCP lo, tcp RDM XNET eth0, tcp RDM XNET lo, "
                "tcp;ofi_rxm RDM RXM eth0, tcp;ofi_rxm RDM RXM lo, ");
}

static void dead_end_has_a_reason(void **state)
{
    struct reasons *reasons = reasons_create();
    struct fi_info *hints = info_alloc();
    char *text;

    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_ATOMIC;
    text = plan_text("rxm;tcp", hints, reasons);
    assert_string_equal(text, "");
    free(text);
    assert_non_null(reasons_summary(reasons));
    assert_non_null(strstr(reasons_summary(reasons), "FI_ATOMIC"));
    reasons_destroy(reasons);
    info_free(hints);
}

/* Opens the named fabric of the first candidate of provider; NULL with *rc. */
static struct fid_fabric *open_named(const char *provider, const char *name, unsigned abi, int *rc)
{
    const struct environment environment = {provider, NULL};
    struct opening opening = {name, FI_VERSION(1, 17)};
    struct fid_fabric *fabric = NULL;
    struct candidates candidates;

    candidates_make(&fake_parts, &environment, 0, NULL, NULL, &candidates);
    *rc = stack_open(candidates.list[0].stack, &opening, abi, &fabric, &fabric);
    candidates_finish(&candidates);
    return fabric;
}

static struct fid_fabric *open_first(const char *provider, unsigned abi, int *rc)
{
    return open_named(provider, *provider == 'l' ? "shm+net" : "net", abi, rc);
}

static void stack_opens_upward_and_closes_downward(void **state)
{
    struct fid_fabric *fabric;
    int rc;

    fake_reset();
    fabric = open_first("noop;rxm;noop;tcp", ABI_1_9, &rc);
    assert_non_null(fabric);
    assert_int_equal(fabric->api_version, FI_VERSION(1, 17));
    assert_int_equal(fi_close(&fabric->fid), 0);
    assert_string_equal(fake_log, "+tcp +noop +rxm +noop -noop -rxm -noop -tcp ");
    assert_int_equal(fake_open_now, 0);

    fake_reset();
    fabric = open_first("lnx;[shm+rxm;tcp]", ABI_1_9, &rc);
    assert_non_null(fabric);
    assert_int_equal(fi_close(&fabric->fid), 0);
    assert_string_equal(fake_log, "+shm +tcp +rxm +lnx -lnx -shm -rxm -tcp ");

    fake_reset();
    fabric = open_named("lnx;[shm+rxm;tcp]", "-+net", ABI_1_9, &rc);
    assert_non_null(fabric);
    assert_int_equal(fi_close(&fabric->fid), 0);
    assert_string_equal(fake_log, "+tcp +rxm +lnx -lnx -rxm -tcp ");
    assert_null(open_named("lnx;[shm+rxm;tcp]", "net", ABI_1_9, &rc));
    assert_int_equal(rc, -FI_ENODATA);
}

static void refused_open_leaves_nothing_open(void **state)
{
    static const char *const specs[] = {"noop;rxm;noop;tcp", "lnx;[shm+rxm;tcp]", "tcp"};

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        struct fid_fabric *fabric = NULL;
        int rc = -1;

        for (int n = 1; rc; n++) {
            fake_reset();
            fake_fail_open = n;
            fabric = open_first(specs[i], ABI_1_9, &rc);
            if (rc) {
                assert_int_equal(rc, -FI_EIO);
                assert_null(fabric);
                assert_int_equal(fake_open_now, 0);
            }
        }
        assert_int_equal(fi_close(&fabric->fid), 0);
        assert_int_equal(fake_open_now, 0);
    }
}

static void structs_are_laid_out_for_the_application_down_to_the_first_real_part(void **state)
{
    struct fid_fabric *fabric;
    int rc;

    fake_reset();
    fabric = open_first("noop;rxm;trace;tcp", ABI_1_3, &rc);
    assert_int_equal(fake_abi("noop"), ABI_1_3);
    assert_int_equal(fake_abi("rxm"), ABI_1_3);
    assert_int_equal(fake_abi("trace"), ABI_1_9);
    assert_int_equal(fake_abi("tcp"), ABI_1_9);
    fi_close(&fabric->fid);
}

static void bare_transport_settles_by_the_endpoint_of_each_domain(void **state)
{
    struct fi_info *info = info_alloc();
    struct fid_domain *domain;
    struct fid_fabric *fabric;
    struct fid_eq *eq;
    int rc;

    assert_non_null(info);
    fake_reset();
    fabric = open_first("tcp", ABI_1_9, &rc);
    assert_string_equal(fake_log, "+tcp ");
    assert_int_equal(fi_eq_open(fabric, NULL, &eq, NULL), 0);
    info->ep_attr->type = FI_EP_MSG;
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    assert_ptr_equal(domain, eq);
    assert_string_equal(fake_log, "+tcp ");
    info->ep_attr->type = FI_EP_RDM;
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    assert_ptr_not_equal(domain, eq);
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    assert_string_equal(fake_log, "+tcp +rxm ");
    assert_int_equal(fi_close(&fabric->fid), -FI_EBUSY);
    fake_drop_children();
    assert_int_equal(fi_close(&fabric->fid), 0);
    assert_string_equal(fake_log, "+tcp +rxm -rxm -tcp ");
    assert_int_equal(fake_open_now, 0);
    info_free(info);
}

static void bare_transport_has_a_fabric_for_each_layout(void **state)
{
    struct fi_info *info = info_alloc();
    struct fid_domain *domain;
    struct fid_fabric *fabric;
    int rc;

    assert_non_null(info);
    fake_reset();
    fabric = open_first("tcp", ABI_1_3, &rc);
    assert_int_equal(fake_abi("tcp"), ABI_1_3);
    info->ep_attr->type = FI_EP_RDM;
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    assert_string_equal(fake_log, "+tcp +tcp +rxm ");
    assert_int_equal(fake_abi("tcp"), ABI_1_9);
    assert_int_equal(fake_abi("rxm"), ABI_1_3);
    fake_drop_children();
    assert_int_equal(fi_close(&fabric->fid), 0);
    assert_int_equal(fake_open_now, 0);
    info_free(info);
}

static void *open_often(void *arg)
{
    const struct environment environment = {.provider = NULL};
    struct opening opening = {"net", FI_VERSION(2, 6)};

    for (int i = 0; i < 200; i++) {
        struct candidates candidates;
        struct fid_fabric *fabric;

        if (candidates_make(&fake_parts, &environment, 0, arg, NULL, &candidates) ||
            candidates.count != 1 || strcmp(candidates.list[0].name, arg) ||
            stack_open(candidates.list[0].stack, &opening, ABI_1_9, &fabric, NULL))
            return arg;
        candidates_finish(&candidates);
        if (fi_close(&fabric->fid))
            return arg;
    }
    return NULL;
}

static void threads_open_different_stacks_of_the_same_parts(void **state)
{
    static char *const specs[] = {"tcp(iface=lo);ofi_rxm(eager=1k)",
                                  "tcp(iface=eth0);ofi_hook_noop;ofi_rxm(eager=2k)"};
    pthread_t threads[2];
    void *failed[2];

    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_often, specs[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], &failed[i]);
    assert_null(failed[0]);
    assert_null(failed[1]);
    assert_int_equal(fake_open_now, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(candidates_are_those_of_the_texts),
        cmocka_unit_test(name_leads_back_to_its_stack),
        cmocka_unit_test(fi_hook_stays_over_what_hints_bring_in),
        cmocka_unit_test(names_of_drawn_specs_lead_back),
        cmocka_unit_test(hints_go_down_and_offers_come_up),
        cmocka_unit_test(domains_are_selected),
        cmocka_unit_test(every_transport_has_a_domain_to_select),
        cmocka_unit_test(a_join_is_of_what_its_branches_have),
        cmocka_unit_test(a_join_alone_has_the_usual_bracket),
        cmocka_unit_test(names_of_joins_are_taken_apart),
        cmocka_unit_test(links_of_upstream_are_joins),
        cmocka_unit_test(rails_of_upstream_are_joins),
        cmocka_unit_test(null_hints_list_everything),
        cmocka_unit_test(dead_end_has_a_reason),
        cmocka_unit_test(stack_opens_upward_and_closes_downward),
        cmocka_unit_test(refused_open_leaves_nothing_open),
        cmocka_unit_test(structs_are_laid_out_for_the_application_down_to_the_first_real_part),
        cmocka_unit_test(bare_transport_settles_by_the_endpoint_of_each_domain),
        cmocka_unit_test(bare_transport_has_a_fabric_for_each_layout),
        cmocka_unit_test(threads_open_different_stacks_of_the_same_parts),
    };

    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
