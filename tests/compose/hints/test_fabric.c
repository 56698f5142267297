/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_fabric, fi_fabric2 and fi_open by hand, as programs that keep only strings do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>

#define LOOPBACK "127.0.0.0/8"

static int open_named(const char *prov_name, const char *name, struct fid_fabric **fabric)
{
    struct fi_fabric_attr attr = {.prov_name = (char *)prov_name, .name = (char *)name};

    *fabric = NULL;
    return fi_fabric(&attr, fabric, NULL);
}

static void fabric_opens_from_two_strings(void **state)
{
    static const char *const names[] = {
        "tcp", "TCP", "tcp;ofi_rxm", "rxm;tcp", "tcp(iface=lo)", "rxm(retry_pause=20ms);tcp",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct fid_fabric *fabric;

        assert_int_equal(open_named(names[i], LOOPBACK, &fabric), 0);
        assert_int_equal(fi_close(&fabric->fid), 0);
    }
}

static void fabric_takes_the_first_without_a_name(void **state)
{
    struct fid_fabric *fabric;

    assert_int_equal(open_named("tcp", NULL, &fabric), 0);
    assert_int_equal(fi_close(&fabric->fid), 0);
}

static void fabric_refuses_what_is_not_there(void **state)
{
    struct fid_fabric *fabric;

    assert_int_equal(open_named(NULL, LOOPBACK, &fabric), -FI_EINVAL);
    assert_int_equal(open_named("nosuch", LOOPBACK, &fabric), -FI_ENODEV);
    assert_int_equal(open_named("tcp;;", LOOPBACK, &fabric), -FI_ENODEV);
    assert_int_equal(open_named("tcp", "203.0.113.0/24", &fabric), -FI_ENODATA);
    assert_null(fabric);
}

static void environment_narrows_at_each_call(void **state)
{
    struct fid_fabric *fabric;

    setenv("FI_PROVIDER", "^rxm", 1);
    assert_int_equal(open_named("tcp;ofi_rxm", LOOPBACK, &fabric), -FI_ENODEV);
    unsetenv("FI_PROVIDER");
    assert_int_equal(open_named("tcp;ofi_rxm", LOOPBACK, &fabric), 0);
    assert_int_equal(fi_close(&fabric->fid), 0);
}

/* Mercury asks for "tcp", and takes nothing that is called otherwise. */
static void name_that_was_asked_for_comes_back(void **state)
{
    struct fi_info *hints = fi_allocinfo(), *infos = NULL;
    struct fid_fabric *fabric;

    assert_non_null(hints);
    hints->mode = ~0ull;
    hints->domain_attr->mr_mode = FI_MR_ENDPOINT;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup("tcp");
    setenv("FI_PROVIDER", "noop;rxm(tags=pass);tcp", 1);
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &infos), 0);
    for (struct fi_info *info = infos; info; info = info->next) {
        assert_string_equal(info->fabric_attr->prov_name, "tcp");
        assert_int_equal(info->ep_attr->protocol, FI_PROTO_XNET);
    }
    assert_int_equal(fi_fabric(infos->fabric_attr, &fabric, NULL), 0);
    assert_int_equal(fi_close(&fabric->fid), 0);
    unsetenv("FI_PROVIDER");
    fi_freeinfo(infos);
    fi_freeinfo(hints);
}

static void getinfo_refuses_what_cannot_be(void **state)
{
    struct fi_info *infos = (struct fi_info *)1;

    assert_int_equal(fi_getinfo(FI_VERSION(9, 0), NULL, NULL, 0, NULL, &infos), -FI_ENOSYS);
    assert_null(infos);
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, FI_SOURCE, NULL, &infos), -FI_EINVAL);
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, NULL, NULL), -FI_EINVAL);
    infos = (struct fi_info *)1;
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, FI_COMPLETION, NULL, &infos),
                     -FI_EBADFLAGS);
    assert_null(infos);
}

/* The lines that the call logs. */
static const char *said_of(uint32_t version, uint64_t flags)
{
    static char said[512];
    struct fi_info *infos;
    int before = dup(STDERR_FILENO);
    FILE *log = tmpfile();

    assert_true(log && before >= 0);
    dup2(fileno(log), STDERR_FILENO);
    assert_int_not_equal(fi_getinfo(version, NULL, NULL, flags, NULL, &infos), 0);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(log);
    said[fread(said, 1, sizeof(said) - 1, log)] = 0;
    fclose(log);
    return said;
}

static void getinfo_says_what_cannot_be(void **state)
{
    assert_non_null(strstr(said_of(FI_VERSION(9, 0), 0),
                           "fi_getinfo: version 9.0 is later than this library's 2.6\n"));
    assert_non_null(strstr(said_of(FI_VERSION(2, 6), FI_SOURCE),
                           "fi_getinfo: FI_SOURCE says whose node and service are, and there is "
                           "neither\n"));
    assert_non_null(strstr(said_of(FI_VERSION(2, 6), FI_COMPLETION),
                           "fi_getinfo: flags 0x1000000 are none of fi_getinfo(3)\n"));
}

static void getinfo_lists_each_part_once_for_attr_only(void **state)
{
    struct fi_info *infos;
    int tcp = 0, rxm = 0, loop = 0;

    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &infos), 0);
    for (struct fi_info *info = infos; info; info = info->next) {
        assert_int_equal(info->fabric_attr->prov_version, FI_VERSION(206, 0));
        assert_int_equal(info->caps, 0);
        tcp += !strcmp(info->fabric_attr->prov_name, "tcp");
        rxm += !strcmp(info->fabric_attr->prov_name, "ofi_rxm");
        loop += !strcmp(info->fabric_attr->prov_name, "loop");
    }
    assert_int_equal(tcp, 1);
    assert_int_equal(rxm, 1);
    assert_int_equal(loop, 0);
    fi_freeinfo(infos);
}

static void fabric2_opens_from_an_info(void **state)
{
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fi_info *infos;

    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, NULL, &infos), 0);
    assert_int_equal(fi_fabric2(infos, &fabric, 0, NULL), 0);
    assert_int_equal(fi_domain(fabric, infos, &domain, NULL), 0);
    assert_int_equal(fi_close(&fabric->fid), -FI_EBUSY);
    assert_int_equal(fi_close(&domain->fid), 0);
    assert_int_equal(fi_close(&fabric->fid), 0);
    fi_freeinfo(infos);
}

static void open_object_in_the_hints_is_refused(void **state)
{
    struct fi_info *hints = fi_allocinfo(), *infos;
    struct fid_fabric *fabric;

    assert_int_equal(open_named("tcp", LOOPBACK, &fabric), 0);
    hints->fabric_attr->fabric = fabric;
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &infos), -FI_ENODATA);
    hints->fabric_attr->fabric = NULL;
    fi_freeinfo(hints);
    assert_int_equal(fi_close(&fabric->fid), 0);
}

static int logged;

static int logger_enabled(const struct fi_provider *prov, enum fi_log_level level,
                          enum fi_log_subsys subsys, uint64_t flags)
{
    return 1;
}

static void logger_log(const struct fi_provider *prov, enum fi_log_level level,
                       enum fi_log_subsys subsys, const char *func, int line, const char *msg)
{
    logged++;
}

static struct fi_ops_log logger_ops = {
    .size = sizeof(struct fi_ops_log),
    .enabled = logger_enabled,
    .log = logger_log,
};

static struct fid_logging logger = {
    .fid = {.fclass = FI_CLASS_LOG},
    .ops = &logger_ops,
};

static void objects_of_the_library_open_by_name(void **state)
{
    struct fid *fid = NULL;
    struct fi_info *infos;

    assert_int_equal(fi_version(), FI_VERSION(2, 6));
    assert_int_equal(fi_open(FI_VERSION(1, 13), "mr_cache", NULL, 0, 0, &fid, NULL), -FI_ENOSYS);
    assert_int_equal(fi_open(FI_VERSION(1, 13), "nosuch", NULL, 0, 0, &fid, NULL), -FI_ENOSYS);
    assert_int_equal(fi_open(FI_VERSION(9, 0), "logging", NULL, 0, 0, &fid, NULL), -FI_ENOSYS);
    assert_null(fid);
    assert_int_equal(fi_import_log(FI_VERSION(1, 13), 0, &logger), 0);
    setenv("FI_PROVIDER", "^tcp,shm,udp", 1);
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), "127.0.0.1", NULL, 0, NULL, &infos), -FI_ENODATA);
    unsetenv("FI_PROVIDER");
    assert_true(logged > 0);
    assert_int_equal(fi_close(&logger.fid), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fabric_opens_from_two_strings),
        cmocka_unit_test(fabric_takes_the_first_without_a_name),
        cmocka_unit_test(fabric_refuses_what_is_not_there),
        cmocka_unit_test(environment_narrows_at_each_call),
        cmocka_unit_test(name_that_was_asked_for_comes_back),
        cmocka_unit_test(getinfo_refuses_what_cannot_be),
        cmocka_unit_test(getinfo_says_what_cannot_be),
        cmocka_unit_test(getinfo_lists_each_part_once_for_attr_only),
        cmocka_unit_test(fabric2_opens_from_an_info),
        cmocka_unit_test(open_object_in_the_hints_is_refused),
        cmocka_unit_test(objects_of_the_library_open_by_name),
    };

    setenv("FI_LOG_LEVEL", "warn", 1);
    return cmocka_run_group_tests_name("fabric", tests, NULL, NULL);
}
