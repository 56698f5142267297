/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loading of external providers. It happens once a process, so each case runs in a child that was
 * forked before the library was used.
 */
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
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

static char ext[4000];

/* "name version, " of the providers that FI_PROV_ATTR_ONLY lists and whose name is in `of`. */
static void list_providers(const char *of, char *text, size_t size)
{
    struct fi_info *infos = NULL;

    text[0] = 0;
    if (fi_getinfo(FI_VERSION(2, 6), NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &infos))
        return;
    for (struct fi_info *info = infos; info; info = info->next) {
        const struct fi_fabric_attr *attr = info->fabric_attr;
        size_t len = strlen(text);

        if (strstr(of, attr->prov_name))
            snprintf(text + len, size - len, "%s %u.%u, ", attr->prov_name,
                     FI_MAJOR(attr->prov_version), FI_MINOR(attr->prov_version));
    }
    fi_freeinfo(infos);
}

static int in_child(int (*run)(const void *arg), const void *arg, const char *path)
{
    int status;
    pid_t pid = fork();

    if (!pid) {
        setenv("FI_PROVIDER_PATH", path, 1);
        _exit(run(arg));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int lists(const void *expected)
{
    char text[512];

    list_providers("toy dummy ancient old none ofi_layer tcp", text, sizeof(text));
    if (!strcmp(text, expected))
        return 0;
    printf("'%s', not '%s'\n", text, (const char *)expected);
    return 1;
}

#define EXT "%1$s"

static void path_says_what_is_loaded(void **state)
{
    static const struct {
        const char *path, *listed;
    } cases[] = {
        {"/nonexistent", "tcp 0.1, "},
        /* The whole folder: what is too old, gives nothing or is a layer is left out; of two with
         * one name the newer is taken. */
        {EXT, "tcp 0.1, dummy 2.0, old 3.1, toy 3.1, "},
        {"/nonexistent:" EXT, "tcp 0.1, dummy 2.0, old 3.1, toy 3.1, "},
        {"+" EXT "/libdummy-fi.so:" EXT, "tcp 0.1, dummy 1.0, old 3.1, toy 3.1, "},
        {EXT ":+" EXT "/libdummy-fi.so", "tcp 0.1, dummy 1.0, old 3.1, toy 3.1, "},
        {"+" EXT "/libtoy-fi.so:/nonexistent", "tcp 0.1, toy 3.1, "},
        {"@+" EXT "/libtoy-fi.so", "tcp 0.1, toy 3.1, "},
        {"+" EXT "/libancient-fi.so", "tcp 0.1, "},
        {"+" EXT "/missing-fi.so", "tcp 0.1, "},
        {"", "tcp 0.1, "},
        {"@", "tcp 0.1, "},
        /* A built-in part gives way to what is preferred, or comes first where that wins. */
        {"+" EXT "/libtcp-fi.so", "tcp 3.1, "},
        {"@" EXT, "dummy 1.0, old 3.1, tcp 3.1, toy 3.1, "},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char path[9000];

        snprintf(path, sizeof(path), cases[i].path, ext);
        if (in_child(lists, cases[i].listed, path))
            fail_msg("FI_PROVIDER_PATH=%s", path);
    }
}

static int dummy_is_found(const void *arg)
{
    struct fi_info *infos = NULL;
    struct fid_fabric *fabric;
    int rc;

    setenv("FI_PROVIDER", "dummy", 1);
    rc = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, NULL, &infos);
    if (rc || infos->next || strcmp(infos->fabric_attr->prov_name, "dummy") ||
        strcmp(infos->domain_attr->name, "box") ||
        infos->fabric_attr->prov_version != FI_VERSION(1, 0) ||
        infos->fabric_attr->api_version != FI_VERSION(1, 17))
        return 1;
    rc = fi_fabric(infos->fabric_attr, &fabric, NULL);
    fi_freeinfo(infos);
    return rc == -FI_EOPNOTSUPP ? 0 : 2;
}

static void loaded_provider_is_asked_and_opened(void **state)
{
    char path[4096];

    snprintf(path, sizeof(path), "+%s/libdummy-fi.so:/nonexistent", ext);
    assert_int_equal(in_child(dummy_is_found, NULL, path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(path_says_what_is_loaded),
        cmocka_unit_test(loaded_provider_is_asked_and_opened),
    };

    snprintf(ext, sizeof(ext), "%s/tests/compose/ext", getenv("WEFT_BUILD"));
    return cmocka_run_group_tests_name("external", tests, NULL, NULL);
}
