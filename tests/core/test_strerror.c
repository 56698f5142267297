/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

static void every_fabric_code_has_its_own_text(void **state)
{
    for (int a = FI_ERRNO_OFFSET; a < FI_ERRNO_MAX; a++) {
        assert_non_null(fi_strerror(a));
        for (int b = a + 1; b < FI_ERRNO_MAX; b++)
            assert_string_not_equal(fi_strerror(a), fi_strerror(b));
    }
    assert_string_equal(fi_strerror(FI_EAVAIL), "Error available");
    assert_string_equal(fi_strerror(FI_ETRUNC), "Truncation error");
}

static void errno_codes_are_those_of_the_system(void **state)
{
    for (int code = 1; code < FI_ERRNO_OFFSET; code++) {
        const char *text = strerror(code);

        if (!strstr(text, "nknown error") && strcmp(text, "No error information"))
            assert_string_equal(fi_strerror(code), text);
    }
    assert_string_equal(fi_strerror(ENOENT), "No such file or directory");
    assert_non_null(fi_strerror(0));
    assert_string_equal(fi_strerror(200), "Unknown error 200");
}

static void return_values_may_be_passed_as_they_are(void **state)
{
    assert_string_equal(fi_strerror(-FI_ENODATA), fi_strerror(FI_ENODATA));
    assert_string_equal(fi_strerror(-FI_ENOCQ), fi_strerror(FI_ENOCQ));
    assert_non_null(fi_strerror(INT32_MIN));
    assert_string_equal(fi_strerror(FI_ERRNO_MAX), fi_strerror(FI_EOTHER));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fabric_code_has_its_own_text),
        cmocka_unit_test(errno_codes_are_those_of_the_system),
        cmocka_unit_test(return_values_may_be_passed_as_they_are),
    };

    return cmocka_run_group_tests_name("strerror", tests, NULL, NULL);
}
