/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/providers/fi_prov.h>

#include "core/base/log.h"
#include "core/progress/silence.h"

static char told[512];

static int enabled(const struct fi_provider *prov, enum fi_log_level level,
                   enum fi_log_subsys subsys, uint64_t flags)
{
    return level == FI_LOG_WARN;
}

static void keep(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
                 const char *func, int line, const char *msg)
{
    size_t used = strlen(told);

    snprintf(told + used, sizeof(told) - used, "%s%s", prov->name, msg);
}

static int ready(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
                 uint64_t flags, uint64_t *showtime)
{
    return 0;
}

static struct fi_ops_log ops = {
    .size = sizeof(ops), .enabled = enabled, .ready = ready, .log = keep};
static struct fid_logging logger = {.fid.fclass = FI_CLASS_LOG, .ops = &ops};

static void silence_is_told_once_and_then_waited_out(void **state)
{
    struct silence silence = {.start_ms = 1000, .limit_ms = 601000};

    told[0] = 0;
    assert_int_equal(silence_next(&silence), 6000);
    assert_false(silence_over(&silence, 5999, "tcp", "peer"));
    assert_string_equal(told, "");
    assert_false(silence_over(&silence, 6000, "tcp", "peer"));
    assert_string_equal(told, "tcp: no answer from peer for 5 s; waiting up to 10 min");
    assert_int_equal(silence_next(&silence), 601000);
    assert_false(silence_over(&silence, 600999, "tcp", "peer"));
    assert_true(silence_over(&silence, 601000, "tcp", "peer"));
    assert_string_equal(told, "tcp: no answer from peer for 5 s; waiting up to 10 min");
}

static void a_wait_without_limit_is_told(void **state)
{
    struct silence silence = {.start_ms = 1000, .limit_ms = SILENCE_NO_LIMIT};

    told[0] = 0;
    assert_false(silence_over(&silence, 5999, "shm", "peer"));
    assert_string_equal(told, "");
    assert_false(silence_over(&silence, 6000, "shm", "peer"));
    assert_false(silence_over(&silence, 60000, "shm", "peer"));
    assert_string_equal(told, "shm: no answer from peer for 5 s; waiting as long as it lives");
}

static void a_short_wait_is_not_told(void **state)
{
    struct silence silence = {.start_ms = 0, .limit_ms = 4000};

    told[0] = 0;
    assert_int_equal(silence_next(&silence), 4000);
    assert_true(silence_over(&silence, 4000, "tcp", "peer"));
    assert_string_equal(told, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence_is_told_once_and_then_waited_out),
        cmocka_unit_test(a_wait_without_limit_is_told),
        cmocka_unit_test(a_short_wait_is_not_told),
    };

    if (log_import(&logger))
        return 1;
    return cmocka_run_group_tests_name("silence", tests, NULL, NULL);
}
