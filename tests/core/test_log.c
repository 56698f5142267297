/* SPDX-License-Identifier: BSD-2-Clause */
/* Filters are read once a process: each case is a child with its own environment and stderr. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>
#include <rdma/providers/fi_prov.h>

#include "core/base/log.h"

struct variable {
    const char *name, *value;
};

static void run(const struct variable *variables, size_t count, void (*body)(void), char *text,
                size_t size)
{
    size_t used = 0;
    ssize_t ret;
    int ends[2], status;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    if (!child) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        for (size_t i = 0; i < count; i++)
            setenv(variables[i].name, variables[i].value, 1);
        body();
        _exit(0);
    }
    close(ends[1]);
    while ((ret = read(ends[0], text + used, size - 1 - used)) > 0)
        used += (size_t)ret;
    text[used] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void some_lines(void)
{
    LOG_WARN("tcp", FI_LOG_EP_CTRL, "[3]: refused");
    LOG_INFO("tcp", FI_LOG_CQ, "info");
    LOG_DEBUG("ofi_rxm", FI_LOG_AV, "debug");
    log_user("typed %s", "wrong");
    log_user("typed wrong");
}

static void assert_lines(const struct variable *variables, size_t count, unsigned expected)
{
    static const char *const parts[] = {
        ":tcp:ep_ctrl:some_lines():", ":tcp:cq:", ":ofi_rxm:av:", "typed wrong\n"};
    char text[4096];

    run(variables, count, some_lines, text, sizeof(text));
    for (unsigned i = 0; i < 4; i++) {
        if ((strstr(text, parts[i]) != NULL) != !!(expected & (1u << i)))
            fail_msg("line %u in:\n%s", i, text);
    }
}

static void only_mistakes_of_the_user_show_by_default(void **state)
{
    assert_lines(NULL, 0, 8);
}

static void levels_show_themselves_and_what_is_graver(void **state)
{
    assert_lines(&(struct variable){"FI_LOG_LEVEL", "warn"}, 1, 8 | 1);
    assert_lines(&(struct variable){"FI_LOG_LEVEL", "INFO"}, 1, 8 | 1 | 2);
    assert_lines(&(struct variable){"FI_LOG_LEVEL", "debug"}, 1, 8 | 1 | 2 | 4);
    assert_lines(&(struct variable){"FI_LOG_LEVEL", "none"}, 1, 0);
}

static void parts_and_subsystems_filter_with_a_caret_for_not(void **state)
{
    static const struct {
        const char *name, *value;
        unsigned expected;
    } cases[] = {
        {"FI_LOG_PROV", "tcp", 8 | 1 | 2},      {"FI_LOG_PROV", "rxm,udp", 8 | 4},
        {"FI_LOG_PROV", "^ofi_rxm", 8 | 1 | 2}, {"FI_LOG_PROV", "tc", 8},
        {"FI_LOG_SUBSYS", "cq,av", 8 | 2 | 4},  {"FI_LOG_SUBSYS", "^cq", 8 | 1 | 4},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const struct variable variables[] = {{"FI_LOG_LEVEL", "debug"},
                                             {cases[i].name, cases[i].value}};

        assert_lines(variables, 2, cases[i].expected);
    }
}

static void a_line_has_upstreams_form(void **state)
{
    char text[4096], subsys[16], rest[64];
    int pid, line;
    long long seconds;

    run(&(struct variable){"FI_LOG_LEVEL", "warn"}, 1, some_lines, text, sizeof(text));
    assert_int_equal(sscanf(text, "libfabric:%d:%lld::tcp:%15[^:]:some_lines():%d<warn> %63[^\n]",
                            &pid, &seconds, subsys, &line, rest),
                     5);
    assert_string_equal(subsys, "ep_ctrl");
    assert_string_equal(rest, "[3]: refused");
}

static void user_text_shows_once(void **state)
{
    char text[4096];

    run(NULL, 0, some_lines, text, sizeof(text));
    assert_string_equal(text, "typed wrong\n");
}

static void an_unknown_level_is_warn_and_none_has_no_case(void **state)
{
    char text[4096];

    assert_lines(&(struct variable){"FI_LOG_LEVEL", "loud"}, 1, 8 | 1);
    run(&(struct variable){"FI_LOG_LEVEL", "NONE"}, 1, some_lines, text, sizeof(text));
    assert_string_equal(text, "");
}

static void keep_errno(void)
{
    errno = ENOTDIR;
    LOG_WARN("tcp", FI_LOG_CORE, "x");
    log_user("y");
    if (errno != ENOTDIR)
        _exit(1);
}

static void errno_survives(void **state)
{
    char text[4096];

    run(&(struct variable){"FI_LOG_LEVEL", "warn"}, 1, keep_errno, text, sizeof(text));
}

static void a_file_can_take_the_lines(void **state)
{
    char text[4096], folder[] = "/tmp/weft-log-XXXXXX", path[128];
    struct variable variables[] = {{"FI_LOG_LEVEL", "warn"}, {"FI_LOG_LOCATION", path}};
    FILE *file;

    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/log", folder);
    run(variables, 2, some_lines, text, sizeof(text));
    assert_string_equal(text, "");
    file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof(text), file));
    assert_non_null(strstr(text, ":tcp:ep_ctrl:"));
    fclose(file);
    run(variables, 2, some_lines, text, sizeof(text));
    assert_non_null(strstr(text, "FI_LOG_LOCATION: cannot create"));
    unlink(path);
    rmdir(folder);
}

static void rate_limited(void)
{
    uint64_t due = 0;
    int shown = 0;

    for (int i = 0; i < 10; i++)
        shown += fi_log_ready(NULL, FI_LOG_WARN, FI_LOG_CORE, &due);
    if (shown != 1 || fi_log_ready(NULL, FI_LOG_DEBUG, FI_LOG_CORE, &due))
        _exit(1);
}

static void rate_limited_lines_come_once_an_interval(void **state)
{
    char text[4096];

    run(&(struct variable){"FI_LOG_LEVEL", "warn"}, 1, rate_limited, text, sizeof(text));
}

/* ---- An imported logger ---- */

static char taken[256];

static int take_enabled(const struct fi_provider *prov, enum fi_log_level level,
                        enum fi_log_subsys subsys, uint64_t log_flags)
{
    return level <= FI_LOG_INFO;
}

static void take_line(const struct fi_provider *prov, enum fi_log_level level,
                      enum fi_log_subsys subsys, const char *func, int line, const char *msg)
{
    snprintf(taken, sizeof(taken), "%s/%d/%d/%s", prov->name, level, subsys, msg);
}

static void an_imported_logger_takes_over(void **state)
{
    struct fi_ops_log ops = {.size = sizeof(ops), .enabled = take_enabled, .log = take_line};
    struct fid_logging logging = {.fid.fclass = FI_CLASS_LOG, .ops = &ops};
    struct fi_provider provider = {.name = "ext"};

    assert_int_equal(log_import(&logging), 0);
    LOG_INFO("tcp", FI_LOG_CQ, "hello %d", 3);
    assert_string_equal(taken, "tcp/2/6/hello 3");
    LOG_DEBUG("tcp", FI_LOG_CQ, "not this");
    assert_string_equal(taken, "tcp/2/6/hello 3");
    FI_WARN(&provider, FI_LOG_MR, "from outside\n");
    assert_string_equal(taken, "ext/0/8/from outside\n");
    log_user("typed badly");
    assert_string_equal(taken, "core/0/0/typed badly");
    assert_int_equal(log_import(&logging), -FI_EALREADY);
    log_forget(&logging);
    assert_false(log_enabled("tcp", FI_LOG_INFO, FI_LOG_CQ));
}

/* As Mercury does at exit. */
static void closing_what_was_imported_ends_it(void **state)
{
    struct fi_ops_log ops = {.size = sizeof(ops), .enabled = take_enabled, .log = take_line};
    struct fid_logging logging = {.ops = &ops};

    for (int i = 0; i < 2; i++) {
        assert_int_equal(fi_import_log(FI_VERSION(1, 20), 0, &logging), 0);
        assert_true(log_enabled("tcp", FI_LOG_INFO, FI_LOG_CQ));
        assert_int_equal(fi_close(&logging.fid), 0);
        assert_false(log_enabled("tcp", FI_LOG_INFO, FI_LOG_CQ));
    }
    assert_int_equal(fi_close(&logging.fid), 0);
}

static void a_logger_may_lack_calls(void **state)
{
    struct fi_ops_log ops = {.size = sizeof(ops), .log = take_line};
    struct fid_logging logging = {.fid.fclass = FI_CLASS_LOG, .ops = &ops};
    struct fi_provider provider = {.name = "ext"};
    uint64_t again = 0;

    assert_int_equal(log_import(&logging), 0);
    assert_false(log_enabled("tcp", FI_LOG_WARN, FI_LOG_CQ));
    assert_int_equal(fi_log_ready(&provider, FI_LOG_WARN, FI_LOG_CQ, &again), 0);
    fi_log(&provider, FI_LOG_WARN, FI_LOG_CQ, __func__, __LINE__, "shown by it");
    assert_string_equal(taken, "ext/0/6/shown by it");
    log_forget(&logging);
    ops = (struct fi_ops_log){.size = sizeof(ops), .enabled = take_enabled};
    assert_int_equal(log_import(&logging), 0);
    assert_true(log_enabled("tcp", FI_LOG_INFO, FI_LOG_CQ));
    LOG_DEBUG("tcp", FI_LOG_CQ, "neither");
    log_forget(&logging);
    ops = (struct fi_ops_log){.size = sizeof(ops)};
    assert_int_equal(log_import(&logging), 0);
    assert_false(log_enabled("tcp", FI_LOG_WARN, FI_LOG_CQ));
    log_forget(&logging);
    assert_string_equal(taken, "ext/0/6/shown by it");
}

static void what_is_no_logger_is_refused(void **state)
{
    struct fi_ops_log ops = {.enabled = take_enabled, .log = take_line};
    struct fid_logging logging = {.fid.fclass = FI_CLASS_LOG, .ops = &ops};

    ops.size = 8;
    assert_int_equal(log_import(&logging), -FI_EINVAL);
    ops.size = sizeof(ops);
    logging.fid.fclass = FI_CLASS_EP;
    assert_int_equal(log_import(&logging), -FI_EINVAL);
    logging.ops = NULL;
    assert_int_equal(log_import(&logging), -FI_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_mistakes_of_the_user_show_by_default),
        cmocka_unit_test(levels_show_themselves_and_what_is_graver),
        cmocka_unit_test(parts_and_subsystems_filter_with_a_caret_for_not),
        cmocka_unit_test(a_line_has_upstreams_form),
        cmocka_unit_test(user_text_shows_once),
        cmocka_unit_test(an_unknown_level_is_warn_and_none_has_no_case),
        cmocka_unit_test(errno_survives),
        cmocka_unit_test(a_file_can_take_the_lines),
        cmocka_unit_test(rate_limited_lines_come_once_an_interval),
        cmocka_unit_test(an_imported_logger_takes_over),
        cmocka_unit_test(closing_what_was_imported_ends_it),
        cmocka_unit_test(a_logger_may_lack_calls),
        cmocka_unit_test(what_is_no_logger_is_refused),
    };

    unsetenv("FI_LOG_LEVEL");
    unsetenv("FI_LOG_PROV");
    unsetenv("FI_LOG_SUBSYS");
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
