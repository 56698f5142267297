/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/output.h"

static char path[64];

static void holds(const char *text)
{
    char found[64];
    int fd = open(path, O_RDONLY);
    ssize_t len = read(fd, found, sizeof(found) - 1);

    assert_true(len >= 0);
    found[len] = 0;
    close(fd);
    assert_string_equal(found, text);
}

static void text_is_added_or_replaced(void **state)
{
    char *name;

    snprintf(path, sizeof(path), "/tmp/weft-test-output.%d", (int)getpid());
    assert_int_equal(output_open("x", "/tmp/weft-test-output.%p", &name), 0);
    assert_string_equal(name, path);
    holds("");
    assert_int_equal(output_append(name, "one", 3), 0);
    assert_int_equal(output_append(name, "two", 3), 0);
    holds("onetwo");
    assert_int_equal(output_replace(name, "three", 5), 0);
    holds("three");
    unlink(name);
    free(name);
}

/* As /dev/null and /dev/stderr are: one that were renamed over would be gone for everybody. */
static void links_and_pipes_stay(void **state)
{
    char link[80], found[8] = "";
    struct stat info;
    int fd;

    snprintf(path, sizeof(path), "/tmp/weft-test-output.%d", (int)getpid());
    snprintf(link, sizeof(link), "%s.link", path);
    unlink(link);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(output_append(link, "one", 3), 0);
    assert_int_equal(output_replace(link, "two", 3), 0);
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    holds("two");
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    fd = open(path, O_RDWR | O_NONBLOCK);
    assert_true(fd >= 0);
    assert_int_equal(output_replace(link, "three", 5), 0);
    assert_int_equal(lstat(path, &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    assert_int_equal(read(fd, found, sizeof(found)), 5);
    assert_string_equal(found, "three");
    close(fd);
    unlink(path);
    unlink(link);
}

static void what_cannot_be_written_is_an_error(void **state)
{
    char *name;

    assert_int_equal(output_open("x", "/nonexistent/x", &name), -ENOENT);
    assert_int_equal(output_open("x", "/tmp", &name), -EISDIR);
    assert_int_equal(output_open("x", "/tmp/%z", &name), -FI_EINVAL);
    assert_int_equal(output_append("/nonexistent/x", "x", 1), -ENOENT);
    assert_int_equal(output_replace("/nonexistent/x", "x", 1), -ENOENT);
    assert_int_equal(output_append("/dev/full", "x", 1), -ENOSPC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_added_or_replaced),
        cmocka_unit_test(links_and_pipes_stay),
        cmocka_unit_test(what_cannot_be_written_is_an_error),
    };

    return cmocka_run_group_tests_name("output", tests, NULL, NULL);
}
