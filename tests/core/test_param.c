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

#include "core/param/param.h"
#include "core/param/param_env.h"

static const char *const colors[] = {"red", "green", NULL};

static int check_peer(const char *text, char *why, size_t why_size)
{
    snprintf(why, why_size, "'%s' is nobody", text);
    return strcmp(text, "nobody") ? 0 : -FI_EINVAL;
}

static const struct param_def defs[] = {
    {.key = "iface", .type = PARAM_LIST, .selects = true, .help = "Interfaces."},
    {.key = "port_low",
     .type = PARAM_INT,
     .default_text = "0",
     .automatic = "any port",
     .help = "Port.",
     .max = 65535},
    {.key = "nodelay", .type = PARAM_BOOL, .default_text = "yes", .help = "No delay."},
    {.key = "size",
     .variable = "OTHERS_SIZE|OTHERS_OLD_SIZE",
     .type = PARAM_SIZE,
     .default_text = "64k",
     .help = "Size."},
    {.key = "wait", .type = PARAM_TIME, .default_text = "10s", .help = "Wait."},
    {.key = "color",
     .type = PARAM_CHOICE,
     .default_text = "red",
     .help = "Color.",
     .choices = colors},
    {.key = "peer", .type = PARAM_STRING, .check = check_peer, .help = "Peer."},
    {.key = NULL},
};

static char file_path[64];

static int fresh(void **state)
{
    static const char *const names[] = {"FI_DEMO_IFACE", "FI_DEMO_PORT_LOW", "FI_OFI_DEMO_PORT_LOW",
                                        "FI_DEMO_SIZE",  "FI_DEMO_PEER",     "FI_PREFER_SYSCONFIG",
                                        "OTHERS_SIZE",   "OTHERS_OLD_SIZE"};

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
        int64_t number = !strcmp(cases[i].key, "size")      ? (ssize_t)params_size(params, "size")
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
        {"size", "12x", "size: '12x' is not a number of bytes (digits with k, m or g, or inf)"},
        {"size", "99999999999999999999",
         "size: '99999999999999999999' is not a number of bytes (digits with k, m or g, or inf)"},
#if SIZE_MAX < UINT64_MAX
        {"size", "4g", "size: '4g' is not a number of bytes (digits with k, m or g, or inf)"},
#endif
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
        const char *near = suggest_name(cases[i][0], names);

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
    assert_string_equal(param->help_string, "demo: Port. (default: any port)");
    assert_string_equal(param->value, "9");
    param = find(params, "FI_OFI_DEMO_COLOR");
    assert_string_equal(param->help_string,
                        "demo: Color. Value: one of red, green. (default: red)");
    assert_null(param->value);
    fi_freeparams(params);
    fi_freeparams(NULL);
}

/* A child's stderr while it checks the environment: warnings come once a process. */
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

/* The value, alone in the environment, and all that is said of it; NULL: nothing. */
static const struct {
    const char *name, *value, *said;
} values[] = {
    {"FI_LOG_PROV", "tpc",
     "there is no part 'tpc'; there are demo, ofi_demo, core (this name is "
     "passed over)"},
    {"FI_LOG_PROV", "dmeo",
     "there is no part 'dmeo'; did you mean 'demo'? (this name is passed "
     "over)"},
    {"FI_LOG_PROV", "^verbs,demo,ofi_rxm, core", NULL},
    {"FI_LOG_SUBSYS", "bogus",
     "there is no subsystem 'bogus'; there are core, fabric, domain, "
     "ep_ctrl, ep_data, av, cq, eq, mr, cntr (this name is passed over)"},
    {"FI_LOG_SUBSYS", "^cq,eqq",
     "there is no subsystem 'eqq'; did you mean 'eq'? (this name is "
     "passed over)"},
    {"FI_LOG_SUBSYS", "cq,ep_ctrl", NULL},
    {"FI_LOG_LEVEL", "wran", "there is no level 'wran'; did you mean 'warn'? (warn is used)"},
    {"FI_LOG_LOCATION_MODE", "rwx",
     "'rwx' is no mode of a file (octal: 0600) (the default is "
     "used: 0600)"},
    {"FI_LOG_LOCATION_MODE", "0640", NULL},
    {"FI_LOG_INTERVAL", "soon", "'soon' is not a number (the default is used: 2000)"},
    {"FI_UNIVERSE_SIZE", "lots",
     "'lots' is not a number of bytes (digits with k, m or g, or inf) "
     "(it is not used)"},
    {"FI_UNIVERSE_SIZE", "4096", NULL},
    {"FI_PREFER_SYSCONFIG", "maybe",
     "'maybe' is not yes or no (1/0, true/false, on/off) (the "
     "default is used: no)"},
    {"FI_EXPLAIN", "tre", "there is no such answer 'tre'; did you mean 'tree'? (1 is used)"},
    {"FI_EXPLAIN", "tree", NULL},
    {"FI_OFI_RXM_TX_SIZE", "abc",
     "'abc' is not a number of bytes (digits with k, m or g, or inf) "
     "(it has no effect here)"},
    {"FI_OFI_RXM_TX_SIZE", "100", NULL},
    {"FI_SHM_DISABLE_CMA", "perhaps",
     "'perhaps' is not yes or no (1/0, true/false, on/off) (it "
     "has no effect here)"},
    {"FI_DEMO_PORT_LOW", "99999",
     "'99999' is not a number from 0 to 65535 (it is not used; the "
     "default is any port)"},
    {"FI_DEMO_SIZE", "big",
     "'big' is not a number of bytes (digits with k, m or g, or inf) (it is "
     "not used; the default is 64k)"},
    {"FI_DEMO_COLOR", "gren",
     "'gren' is not one of red, green; did you mean 'green'? (it is not "
     "used; the default is red)"},
    {"FI_DEMO_PEER", "nobody", "'nobody' is nobody (it is not used)"},
    {"FI_DEMO_PEER", "somebody", NULL},
    {"FI_OFI_DEMO_WAIT", "long",
     "'long' is not a time (500ms, 10s, 2m; a bare number is "
     "milliseconds) (it is not used; the default is 10s)"},
};

static void a_value_of_no_type_is_pointed_out(void **state)
{
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
        char text[4096], expected[512] = "";

        write_file("");
        if (values[i].said)
            snprintf(expected, sizeof(expected), "%s: %s\n", values[i].name, values[i].said);
        setenv(values[i].name, values[i].value, 1);
        warnings(text, sizeof(text));
        unsetenv(values[i].name);
        unlink(file_path);
        assert_string_equal(text, expected);
    }
}

static void what_another_variable_says_is_used(void **state)
{
    char text[4096];

    write_file("");
    setenv("FI_DEMO_PORT_LOW", "low", 1);
    setenv("FI_OFI_DEMO_PORT_LOW", "7", 1);
    warnings(text, sizeof(text));
    unsetenv("FI_DEMO_PORT_LOW");
    unsetenv("FI_OFI_DEMO_PORT_LOW");
    unlink(file_path);
    assert_string_equal(text, "FI_DEMO_PORT_LOW: 'low' is not a number from 0 to 65535 (it is not "
                              "used; 7 is)\n");
}

static void each_line_of_the_file_is_somebodys(void **state)
{
    char text[4096], expected[4096];

    write_file(
        "demo.size = big\n# comment\nzebra.stripes = 3\nFI_FOO_BAR = 1\nFI_LOG_LEVEL = warn\n"
        "tpc.iface = lo\nFI_VERBS_TX_SIZE = 3\nFI_EXPLAIN = tre\n");
    warnings(text, sizeof(text));
    unlink(file_path);
    snprintf(expected, sizeof(expected),
             "%s:3: unknown variable FI_ZEBRA_STRIPES: there is no part of that name; `fi_info -e` "
             "lists all\n"
             "%s:4: unknown variable FI_FOO_BAR: there is no part of that name; `fi_info -e` lists "
             "all\n"
             "%s:5: FI_LOG_LEVEL has no effect here: it is read from the environment only\n"
             "%s:6: unknown variable FI_TPC_IFACE: there is no part of that name; `fi_info -e` "
             "lists all\n"
             "%s:1: FI_DEMO_SIZE: 'big' is not a number of bytes (digits with k, m or g, or inf) "
             "(it is not used; the default is 64k)\n"
             "%s:8: FI_EXPLAIN: there is no such answer 'tre'; did you mean 'tree'? (1 is used)\n",
             file_path, file_path, file_path, file_path, file_path, file_path);
    assert_string_equal(text, expected);
}

static void a_file_that_cannot_be_read_is_pointed_out(void **state)
{
    char text[4096], line[5000];

    setenv("FI_CONF_FILE", "/tmp", 1);
    warnings(text, sizeof(text));
    assert_string_equal(text, "FI_CONF_FILE: cannot read the configuration file '/tmp': Is a "
                              "directory\n");
    setenv("FI_CONF_FILE", "/nonexistent/other.conf", 1);
    warnings(text, sizeof(text));
    assert_string_equal(text, "FI_CONF_FILE: cannot read the configuration file "
                              "'/nonexistent/other.conf': No such file or directory\n");
    setenv("FI_CONF_FILE", "", 1);
    warnings(text, sizeof(text));
    assert_string_equal(text, "");

    memset(line, 'x', sizeof(line) - 1);
    line[sizeof(line) - 1] = 0;
    memcpy(line, "demo.peer=", 10);
    write_file(line);
    warnings(text, sizeof(text));
    unlink(file_path);
    assert_non_null(strstr(text, ":1: the line is longer than 4094 bytes; it is not used\n"));
}

static size_t size_now(void)
{
    struct params *params;
    char why[256];
    size_t bad, size;

    assert_int_equal(
        params_resolve("demo", "ofi_demo", defs, NULL, 0, &params, &bad, why, sizeof(why)), 0);
    size = params_size(params, "size");
    params_destroy(params);
    return size;
}

static void a_variable_of_others_is_behind_ours(void **state)
{
    char text[4096];

    setenv("OTHERS_SIZE", "4k", 1);
    assert_int_equal(size_now(), 4096);
    setenv("FI_DEMO_SIZE", "5k", 1);
    assert_int_equal(size_now(), 5120);
    unsetenv("FI_DEMO_SIZE");
    setenv("OTHERS_SIZE", "many", 1);
    assert_int_equal(size_now(), 65536);
    warnings(text, sizeof(text));
    assert_non_null(strstr(text, "OTHERS_SIZE: "));
}

/* Of two names the first that is set counts; what is wrong with the second is said, too. */
static void a_variable_may_have_an_older_name(void **state)
{
    char text[4096];

    setenv("OTHERS_OLD_SIZE", "4k", 1);
    assert_int_equal(size_now(), 4096);
    warnings(text, sizeof(text));
    assert_null(strstr(text, "OTHERS_OLD_SIZE"));
    setenv("OTHERS_SIZE", "5k", 1);
    assert_int_equal(size_now(), 5120);
    unsetenv("OTHERS_SIZE");
    setenv("OTHERS_OLD_SIZE", "many", 1);
    assert_int_equal(size_now(), 65536);
    warnings(text, sizeof(text));
    assert_non_null(strstr(text, "OTHERS_OLD_SIZE: "));
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
        cmocka_unit_test_setup(a_value_of_no_type_is_pointed_out, fresh),
        cmocka_unit_test_setup(what_another_variable_says_is_used, fresh),
        cmocka_unit_test_setup(each_line_of_the_file_is_somebodys, fresh),
        cmocka_unit_test_setup(a_file_that_cannot_be_read_is_pointed_out, fresh),
        cmocka_unit_test_setup(upstreams_variables_are_passed_over, fresh),
        cmocka_unit_test_setup(a_variable_of_others_is_behind_ours, fresh),
        cmocka_unit_test_setup(a_variable_may_have_an_older_name, fresh),
        cmocka_unit_test_setup(a_bad_line_of_the_file_is_named, fresh),
        cmocka_unit_test_setup(providers_define_and_get_their_own, fresh),
        cmocka_unit_test_setup(definitions_without_name_or_help_are_refused, fresh),
        cmocka_unit_test_setup(all_variables_are_listed_with_help_and_value, fresh),
    };

    return cmocka_run_group_tests_name("param", tests, NULL, NULL);
}
