/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

#include "core/param.h"
#include "core/param_env.h"

static const char *const colors[] = {"red", "green", NULL};

static const struct param_def defs[] = {
    {.key = "iface", .type = PARAM_LIST, .selects = true, .help = "Interfaces."},
    {.key = "port_low", .type = PARAM_INT, .default_text = "0", .help = "Port.", .max = 65535},
    {.key = "nodelay", .type = PARAM_BOOL, .default_text = "yes", .help = "No delay."},
    {.key = "size", .type = PARAM_SIZE, .default_text = "64k", .help = "Size."},
    {.key = "wait", .type = PARAM_TIME, .default_text = "10s", .help = "Wait."},
    {.key = "color",
     .type = PARAM_CHOICE,
     .default_text = "red",
     .help = "Color.",
     .choices = colors},
    {.key = "peer", .type = PARAM_STRING, .help = "Peer."},
    {.key = NULL},
};

static char file_path[64];

static int fresh(void **state)
{
    static const char *const names[] = {"FI_DEMO_IFACE", "FI_DEMO_PORT_LOW", "FI_OFI_DEMO_PORT_LOW",
                                        "FI_DEMO_SIZE",  "FI_DEMO_PEER",     "FI_PREFER_SYSCONFIG"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        unsetenv(names[i]);
    setenv("FI_CONF_FILE", "/nonexistent/libfabric.conf", 1);
    return 0;
}

static void write_file(const char *text)
{
    int fd;
    FILE *out;

    strcpy(file_path, "/tmp/weft-param-XXXXXX");
    fd = mkstemp(file_path);
    assert_true(fd >= 0);
    out = fdopen(fd, "w");
    fputs(text, out);
    fclose(out);
    setenv("FI_CONF_FILE", file_path, 1);
}

static struct params *resolved(const struct param_text *texts, size_t count)
{
    struct params *params = NULL;
    char why[256] = "";
    size_t bad;

    if (params_resolve("demo", "ofi_demo", defs, texts, count, &params, &bad, why, sizeof(why)))
        fail_msg("%s", why);
    return params;
}

static void defaults_hold_when_nothing_is_set(void **state)
{
    struct params *params = resolved(NULL, 0);

    assert_null(params_string(params, "iface"));
    assert_int_equal(params_int(params, "port_low"), 0);
    assert_true(params_bool(params, "nodelay"));
    assert_int_equal(params_size(params, "size"), 65536);
    assert_int_equal(params_time_ms(params, "wait"), 10000);
    assert_string_equal(params_string(params, "color"), "red");
    assert_false(params_given(params, "color"));
    params_destroy(params);
}

static void the_spec_beats_the_environment_beats_the_file(void **state)
{
    const struct param_text text = {"port_low", "3"};
    struct params *params;

    write_file("# ports\ndemo.port_low = 1\nFI_DEMO_PEER = \"a b\" \n");
    params = resolved(NULL, 0);
    assert_int_equal(params_int(params, "port_low"), 1);
    assert_string_equal(params_string(params, "peer"), "a b");
    assert_true(params_given(params, "port_low"));
    params_destroy(params);

    setenv("FI_DEMO_PORT_LOW", "2", 1);
    params = resolved(NULL, 0);
    assert_int_equal(params_int(params, "port_low"), 2);
    params_destroy(params);

    params = resolved(&text, 1);
    assert_int_equal(params_int(params, "port_low"), 3);
    params_destroy(params);

    setenv("FI_PREFER_SYSCONFIG", "1", 1);
    params = resolved(NULL, 0);
    assert_int_equal(params_int(params, "port_low"), 1);
    params_destroy(params);
    unlink(file_path);
}

static void upstreams_spelling_of_the_part_counts_too(void **state)
{
    struct params *params;

    setenv("FI_OFI_DEMO_PORT_LOW", "7", 1);
    params = resolved(NULL, 0);
    assert_int_equal(params_int(params, "port_low"), 7);
    params_destroy(params);
    setenv("FI_DEMO_PORT_LOW", "8", 1);
    params = resolved(NULL, 0);
    assert_int_equal(params_int(params, "port_low"), 8);
    params_destroy(params);
}

static void a_bad_value_of_the_environment_leaves_the_default(void **state)
{
    struct params *params;

    setenv("FI_DEMO_PORT_LOW", "99999", 1);
    setenv("FI_DEMO_SIZE", "big", 1);
    params = resolved(NULL, 0);
    assert_int_equal(params_int(params, "port_low"), 0);
    assert_int_equal(params_size(params, "size"), 65536);
    assert_false(params_given(params, "size"));
    params_destroy(params);
}

static void values_of_each_type_are_read(void **state)
{
    static const struct {
        const char *key, *value;
        int64_t number;
    } cases[] = {
        {"port_low", "0x10", 16}, {"port_low", "65535", 65535}, {"size", "12", 12},
        {"size", "4K", 4096},     {"size", "2m", 2 << 20},      {"size", "1g", 1 << 30},
        {"size", "inf", -1},      {"size", "-1", -1},           {"wait", "500ms", 500},
        {"wait", "3s", 3000},     {"wait", "2m", 120000},       {"wait", "40", 40},
        {"nodelay", "off", 0},    {"nodelay", "TRUE", 1},       {"nodelay", NULL, 1},
        {"PORT_LOW", "5", 5},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const struct param_text text = {cases[i].key, cases[i].value};
        struct params *params = resolved(&text, 1);
        int64_t number = !strcmp(cases[i].key, "size")      ? (int64_t)params_size(params, "size")
                         : !strcmp(cases[i].key, "wait")    ? params_time_ms(params, "wait")
                         : !strcmp(cases[i].key, "nodelay") ? params_bool(params, "nodelay")
                                                            : params_int(params, "port_low");

        assert_int_equal(number, cases[i].number);
        assert_true(params_given(params, cases[i].key));
        params_destroy(params);
    }
}

static void a_mistake_in_the_spec_says_what_would_be_right(void **state)
{
    static const struct {
        const char *key, *value, *why;
    } cases[] = {
        {"ifase", "eth0", "demo has no parameter 'ifase'; did you mean 'iface'?"},
        {"zzzzzzzzz", "1",
         "demo has no parameter 'zzzzzzzzz'; it has iface, port_low, nodelay, size, wait, color, "
         "peer"},
        {"port_low", "many", "port_low: 'many' is not a number from 0 to 65535"},
        {"port_low", "65536", "port_low: '65536' is not a number from 0 to 65535"},
        {"port_low", NULL, "port_low needs a value: a number from 0 to 65535"},
        {"nodelay", "maybe", "nodelay: 'maybe' is not yes or no (1/0, true/false, on/off)"},
        {"size", "12x", "size: '12x' is not bytes (digits with k, m or g, or inf)"},
        {"size", "99999999999999999999",
         "size: '99999999999999999999' is not bytes (digits with k, m or g, or inf)"},
        {"wait", "soon",
         "wait: 'soon' is not a time (500ms, 10s, 2m; a bare number is milliseconds)"},
        {"color", "gren", "color: 'gren' is not one of red, green; did you mean 'green'?"},
        {"color", "blue", "color: 'blue' is not one of red, green"},
        {"peer", "", "peer needs a value: a text"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const struct param_text texts[] = {{"peer", "x"}, {cases[i].key, cases[i].value}};
        struct params *params = NULL;
        char why[256] = "";
        size_t bad = 77;

        assert_int_equal(
            params_resolve("demo", "ofi_demo", defs, texts, 2, &params, &bad, why, sizeof(why)),
            -FI_EINVAL);
        assert_string_equal(why, cases[i].why);
        assert_int_equal(bad, 1);
        assert_null(params);
    }
}

static void a_part_without_parameters_says_so(void **state)
{
    const struct param_text text = {"x", NULL};
    struct params *params = NULL;
    char why[256];
    size_t bad;

    assert_int_equal(params_resolve("noop", NULL, NULL, &text, 1, &params, &bad, why, sizeof(why)),
                     -FI_EINVAL);
    assert_string_equal(why, "noop has no parameter 'x'; it has none");
    assert_int_equal(params_resolve("noop", NULL, NULL, NULL, 0, &params, &bad, why, sizeof(why)),
                     0);
    params_destroy(params);
    params_destroy(NULL);
}

static void a_copy_has_the_same_values(void **state)
{
    const struct param_text text = {"peer", "x"};
    struct params *params = resolved(&text, 1), *copy = params_dup(params);

    params_destroy(params);
    assert_non_null(copy);
    assert_string_equal(params_string(copy, "peer"), "x");
    assert_true(params_given(copy, "peer"));
    assert_int_equal(params_size(copy, "size"), 65536);
    params_destroy(copy);
}

static void near_names_are_within_a_few_edits(void **state)
{
    static const char *const names[] = {"rxm", "tcp", "verbs", "FI_PROVIDER", "FI_TCP_IFACE", NULL};
    static const char *const cases[][2] = {
        {"rxn", "rxm"},
        {"RXM", "rxm"},
        {"tpc", "tcp"},
        {"verb", "verbs"},
        {"vebrs", "verbs"},
        {"FI_PROVIDR", "FI_PROVIDER"},
        {"FI_TCP_IFASE", "FI_TCP_IFACE"},
        {"", NULL},
        {"x", NULL},
        {"quite_another", NULL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const char *near = near_name(cases[i][0], names);

        if (cases[i][1])
            assert_string_equal(near, cases[i][1]);
        else
            assert_null(near);
    }
}

/* ---- The public interface ---- */

static void providers_define_and_get_their_own(void **state)
{
    struct fi_provider provider = {.name = "ext"};
    int number = 5, truth = 5;
    size_t size = 5;
    char *text = NULL;

    assert_int_equal(fi_param_define(&provider, "num", FI_PARAM_INT, "A number (default: %d)", 5),
                     0);
    assert_int_equal(fi_param_define(&provider, "num", FI_PARAM_INT, "Again"), 0);
    assert_int_equal(fi_param_define(&provider, "truth", FI_PARAM_BOOL, "Truth"), 0);
    assert_int_equal(fi_param_define(&provider, "size", FI_PARAM_SIZE_T, "Size"), 0);
    assert_int_equal(fi_param_define(NULL, "core_text", FI_PARAM_STRING, "Text"), 0);
    assert_int_equal(fi_param_define(&provider, "x", FI_PARAM_INT, "%s", ""), 0);

    assert_int_equal(fi_param_get_int(&provider, "num", &number), -FI_ENODATA);
    assert_int_equal(fi_param_get_int(&provider, "nothing", &number), -FI_ENOENT);
    assert_int_equal(fi_param_get_int(NULL, "num", &number), -FI_ENOENT);
    assert_int_equal(number, 5);
    setenv("FI_EXT_NUM", "12x", 1);
    assert_int_equal(fi_param_get_int(&provider, "num", &number), -FI_EINVAL);
    assert_int_equal(number, 5);
    setenv("FI_EXT_NUM", "-3", 1);
    assert_int_equal(fi_param_get_int(&provider, "num", &number), 0);
    assert_int_equal(number, -3);
    setenv("FI_EXT_TRUTH", "no", 1);
    assert_int_equal(fi_param_get_bool(&provider, "truth", &truth), 0);
    assert_int_equal(truth, 0);
    setenv("FI_EXT_SIZE", "-1", 1);
    assert_int_equal(fi_param_get_size_t(&provider, "size", &size), 0);
    assert_true(size == SIZE_MAX);
    setenv("FI_CORE_TEXT", "hello", 1);
    assert_int_equal(fi_param_get_str(NULL, "core_text", &text), 0);
    assert_string_equal(text, "hello");
}

static void definitions_without_name_or_help_are_refused(void **state)
{
    assert_int_equal(fi_param_define(NULL, "", FI_PARAM_INT, "Help"), -FI_EINVAL);
    assert_int_equal(fi_param_define(NULL, NULL, FI_PARAM_INT, "Help"), -FI_EINVAL);
    assert_int_equal(fi_param_define(NULL, "x", (enum fi_param_type)9, "Help"), -FI_EINVAL);
    assert_int_equal(fi_param_get(NULL, NULL, NULL), -FI_EINVAL);
}

static int loads;

static void load(void)
{
    loads++;
    params_publish("demo", "ofi_demo", defs);
}

static const struct fi_param *find(const struct fi_param *params, const char *name)
{
    for (; params->name; params++) {
        if (!strcmp(params->name, name))
            return params;
    }
    fail_msg("%s is not listed", name);
    return NULL;
}

static void all_variables_are_listed_with_help_and_value(void **state)
{
    struct fi_param *params;
    const struct fi_param *param;
    int count;

    setenv("FI_OFI_DEMO_PORT_LOW", "9", 1);
    params_set_loader(load);
    assert_int_equal(fi_getparams(&params, &count), 0);
    assert_true(loads > 0);
    assert_null(params[count].name);
    param = find(params, "FI_PROVIDER");
    assert_int_equal(param->type, FI_PARAM_STRING);
    param = find(params, "FI_OFI_DEMO_PORT_LOW");
    assert_int_equal(param->type, FI_PARAM_INT);
    assert_string_equal(param->help_string, "demo: Port. (default: 0)");
    assert_string_equal(param->value, "9");
    param = find(params, "FI_OFI_DEMO_COLOR");
    assert_string_equal(param->help_string,
                        "demo: Color. Value: one of red, green. (default: red)");
    assert_null(param->value);
    fi_freeparams(params);
    fi_freeparams(NULL);
}

/* What goes to stderr while the environment is checked, in a child: warnings come once a process.
 */
static void warnings(char *text, size_t size)
{
    int ends[2];
    size_t used = 0;
    ssize_t ret;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    if (!child) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        params_publish("demo", "ofi_demo", defs);
        params_warn_unknown();
        params_warn_unknown();
        _exit(0);
    }
    close(ends[1]);
    while ((ret = read(ends[0], text + used, size - 1 - used)) > 0)
        used += (size_t)ret;
    text[used] = 0;
    close(ends[0]);
}

static void a_variable_that_looks_like_ours_is_pointed_out_once(void **state)
{
    char text[4096];

    setenv("FI_PROVIDR", "tcp", 1);
    setenv("FI_DEMO_IFASE", "eth0", 1);
    setenv("FI_DEMO_WHATEVER_ELSE", "1", 1);
    write_file("demo.prot_low = 1\n");
    warnings(text, sizeof(text));
    unsetenv("FI_PROVIDR");
    unsetenv("FI_DEMO_IFASE");
    unsetenv("FI_DEMO_WHATEVER_ELSE");
    assert_non_null(strstr(text, "unknown variable FI_PROVIDR; did you mean FI_PROVIDER?\n"));
    assert_non_null(strstr(text, "unknown variable FI_DEMO_IFASE; did you mean FI_DEMO_IFACE?\n"));
    assert_non_null(strstr(text, "unknown variable FI_DEMO_WHATEVER_ELSE: demo has no such "
                                 "parameter; `fi_info -g demo` lists them\n"));
    assert_non_null(strstr(text, ":1: unknown variable FI_DEMO_PROT_LOW; did you mean "
                                 "FI_DEMO_PORT_LOW?\n"));
    assert_ptr_equal(strstr(text, "FI_PROVIDR;"), strstr(text, "FI_PROVIDR"));
    assert_null(strstr(strstr(text, "FI_PROVIDR") + 1, "FI_PROVIDR"));
    unlink(file_path);
}

static void upstreams_variables_are_passed_over(void **state)
{
    static const char *const names[] = {
        "FI_EFA_IFACE",         "FI_VERBS_TX_SIZE", "FI_CXI_ODP",         "FI_PSM3_UUID",
        "FI_MR_CACHE_MONITOR",  "FI_HMEM_CUDA_X",   "FI_OFI_RXM_USE_SRX", "FI_TCP_NODELAY",
        "FI_TCP_ZEROCOPY_SIZE", "FI_FORK_UNSAFE",   "FI_PERF_CNTR"};
    char text[4096];

    setenv("FI_CONF_FILE", "", 1);
    unsetenv("FI_CONF_FILE");
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        setenv(names[i], "1", 1);
    warnings(text, sizeof(text));
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        unsetenv(names[i]);
    assert_string_equal(text, "");
}

static void a_bad_line_of_the_file_is_named(void **state)
{
    char text[4096], expected[256];

    write_file("\n# comment\nnonsense\n");
    warnings(text, sizeof(text));
    snprintf(expected, sizeof(expected),
             "%s:3: 'nonsense' is no setting; write FI_NAME = value, or part.key = value\n",
             file_path);
    unlink(file_path);
    assert_string_equal(text, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(defaults_hold_when_nothing_is_set, fresh),
        cmocka_unit_test_setup(the_spec_beats_the_environment_beats_the_file, fresh),
        cmocka_unit_test_setup(upstreams_spelling_of_the_part_counts_too, fresh),
        cmocka_unit_test_setup(a_bad_value_of_the_environment_leaves_the_default, fresh),
        cmocka_unit_test_setup(values_of_each_type_are_read, fresh),
        cmocka_unit_test_setup(a_mistake_in_the_spec_says_what_would_be_right, fresh),
        cmocka_unit_test_setup(a_part_without_parameters_says_so, fresh),
        cmocka_unit_test_setup(a_copy_has_the_same_values, fresh),
        cmocka_unit_test(near_names_are_within_a_few_edits),
        cmocka_unit_test_setup(a_variable_that_looks_like_ours_is_pointed_out_once, fresh),
        cmocka_unit_test_setup(upstreams_variables_are_passed_over, fresh),
        cmocka_unit_test_setup(a_bad_line_of_the_file_is_named, fresh),
        cmocka_unit_test_setup(providers_define_and_get_their_own, fresh),
        cmocka_unit_test_setup(definitions_without_name_or_help_are_refused, fresh),
        cmocka_unit_test_setup(all_variables_are_listed_with_help_and_value, fresh),
    };

    return cmocka_run_group_tests_name("param", tests, NULL, NULL);
}
