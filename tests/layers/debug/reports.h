/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests of debug: a stack under it, and what it has reported. Included behind cmocka.h. */
#ifndef WEFT_TEST_REPORTS_H
#define WEFT_TEST_REPORTS_H

#include "../pair.h"

static char path[64], report[16384];
static char from[8192], to[8192];

static inline const char *stack(const char *options, const char *below)
{
    static char spec[256];

    snprintf(spec, sizeof(spec), "debug(file=%s%s);%s", path, options, below);
    return spec;
}

static inline const char *read_report(void)
{
    int fd = open(path, O_RDONLY);
    ssize_t len = fd < 0 ? 0 : read(fd, report, sizeof(report) - 1);

    assert_true(len >= 0);
    report[len] = 0;
    if (fd >= 0)
        close(fd);
    return report;
}

static inline int setup(void **state)
{
    static int number;

    snprintf(path, sizeof(path), "/tmp/weft-test-debug.%d.%d", (int)getpid(), number++);
    return 0;
}

static inline int teardown(void **state)
{
    pair_caps = 0;
    unlink(path);
    return 0;
}

static inline void is_silent(void)
{
    if (read_report()[0])
        print_error("%s", report);
    assert_string_equal(report, "");
}

/* The only line says that this call broke that rule. */
static inline void reports(const char *call, const char *rule)
{
    char line[128];

    read_report();
    snprintf(line, sizeof(line), "debug: %s on ", call);
    if (strncmp(report, line, strlen(line)) != 0)
        print_error("no '%s' at the beginning of:\n%s", line, report);
    assert_memory_equal(report, line, strlen(line));
    snprintf(line, sizeof(line), "(%s: fi_", rule);
    if (!strstr(report, line))
        print_error("no '%s' in:\n%s", line, report);
    assert_non_null(strstr(report, line));
    if (strchr(report, '\n')[1])
        print_error("more than one line:\n%s", report);
    assert_ptr_equal(strchr(report, '\n') + 1, report + strlen(report));
    unlink(path);
}

/* Reads what there is, until count entries came. */
static inline void drain(struct pair *pair, int count)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error;

    for (int i = 0; count && i < 1000000; i++) {
        ssize_t rc = fi_cq_read(pair->cq, &entry, 1);

        if (rc == -FI_EAVAIL)
            rc = fi_cq_readerr(pair->cq, &error, 0);
        count -= rc == 1;
    }
    assert_int_equal(count, 0);
}

static inline struct fid_mr *region(struct pair *pair, void *buf, size_t len, uint64_t access)
{
    static uint64_t key;
    struct fid_mr *mr;

    assert_int_equal(fi_mr_reg(pair->domain, buf, len, access, 0, ++key, 0, &mr, NULL), 0);
    return mr;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
