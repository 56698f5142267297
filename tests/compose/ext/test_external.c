/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loading of external providers. It happens once a process, so each case runs in a child that was
 * forked before the library was used.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

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

    list_providers("toy peer dummy ancient old none ofi_layer tcp", text, sizeof(text));
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
        {"/nonexistent", "tcp 206.0, "},
        /* The whole folder: what is too old, gives nothing or is a layer is left out; of two with
         * one name the newer is taken. */
        {EXT, "tcp 206.0, dummy 2.0, old 3.1, toy 3.1, peer 3.1, "},
        {"/nonexistent:" EXT, "tcp 206.0, dummy 2.0, old 3.1, toy 3.1, peer 3.1, "},
        {"+" EXT "/libdummy-fi.so:" EXT, "tcp 206.0, dummy 1.0, old 3.1, toy 3.1, peer 3.1, "},
        {EXT ":+" EXT "/libdummy-fi.so", "tcp 206.0, dummy 1.0, old 3.1, toy 3.1, peer 3.1, "},
        {"+" EXT "/libtoy-fi.so:/nonexistent", "tcp 206.0, toy 3.1, "},
        {"@+" EXT "/libtoy-fi.so", "tcp 206.0, toy 3.1, "},
        {"+" EXT "/libancient-fi.so", "tcp 206.0, "},
        {"+" EXT "/missing-fi.so", "tcp 206.0, "},
        {"", "tcp 206.0, "},
        {"@", "tcp 206.0, "},
        /* A built-in part gives way to what is preferred, or comes first where that wins. */
        {"+" EXT "/libtcp-fi.so", "tcp 3.1, "},
        {"@" EXT, "dummy 1.0, old 3.1, tcp 3.1, toy 3.1, peer 3.1, "},
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

/* It has no parameters of its own, and this one all the same. */
static int dummy_has_the_domain(const void *spec)
{
    struct fi_info *infos = NULL;
    int rc;

    setenv("FI_PROVIDER", spec, 1);
    rc = fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, NULL, &infos);
    fi_freeinfo(infos);
    return rc ? rc == -FI_ENODATA ? 1 : 2 : 0;
}

static void loaded_provider_has_a_domain_to_select(void **state)
{
    char path[4096];

    snprintf(path, sizeof(path), "+%s/libdummy-fi.so:/nonexistent", ext);
    assert_int_equal(in_child(dummy_has_the_domain, "dummy(domain=box)", path), 0);
    assert_int_equal(in_child(dummy_has_the_domain, "dummy(domain=bag)", path), 1);
}

/* The first info of a spec in the hints; NULL when there is none. */
static struct fi_info *info_of(const char *spec, enum fi_ep_type type)
{
    struct fi_info *hints = fi_allocinfo(), *infos = NULL;

    hints->mode = ~0ull;
    hints->ep_attr->type = type;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
    hints->domain_attr->name = strdup("lo");
    hints->fabric_attr->prov_name = strdup(spec);
    fi_getinfo(FI_VERSION(2, 6), "127.0.0.1", NULL, FI_SOURCE, hints, &infos);
    fi_freeinfo(hints);
    return infos;
}

/* Writes into memory of its own, with CQ data: that too must be told. */
static int write_to_itself(struct fid_domain *domain, struct fid_ep *ep, struct fid_cq *cq,
                           fi_addr_t self)
{
    struct fi_cq_tagged_entry done;
    static char memory[8];
    struct fid_mr *mr;
    int told = 0;
    ssize_t rc;

    if (fi_mr_reg(domain, memory, sizeof(memory), FI_REMOTE_WRITE, 0, 3, 0, &mr, NULL))
        return 20;
    while ((rc = fi_writedata(ep, "written", 8, NULL, 99, self, 0, fi_mr_key(mr), NULL)) ==
           -FI_EAGAIN)
        fi_cq_read(cq, NULL, 0);
    if (rc)
        return 21;
    for (int completed = 0; completed < 2;) {
        rc = fi_cq_read(cq, &done, 1);
        completed += rc == 1;
        told += rc == 1 && done.flags & FI_REMOTE_WRITE && done.data == 99;
    }
    if (fi_close(&mr->fid))
        return 22;
    return told == 1 && !strcmp(memory, "written") ? 0 : 23;
}

/* Reads one completion; with a wait object it sleeps until there is one. */
static bool completes(struct fid_fabric *fabric, struct fid_cq *cq, enum fi_wait_obj wait_obj)
{
    struct fi_cq_tagged_entry done;
    struct fid *fid = &cq->fid;

    if (wait_obj == FI_WAIT_NONE)
        return fi_cq_read(cq, &done, 1) == 1;
    /* There is nothing to sleep on that would wake: the application has to read. */
    if (fi_trywait(fabric, &fid, 1) != -FI_EAGAIN)
        _exit(99);
    return fi_cq_sread(cq, &done, 1, NULL, -1) == 1;
}

/* Sends itself one tagged message over a reliable-datagram endpoint of info. */
static int talk_to_itself(struct fi_info *info, enum fi_wait_obj wait_obj)
{
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = wait_obj};
    struct fi_av_attr av_attr = {.type = info->domain_attr->av_type};
    struct fi_cq_tagged_entry done;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_ep *ep;
    char name[64], in[8] = "", out[8] = "message";
    size_t len = sizeof(name);
    fi_addr_t self;
    int completed = 0, rc;

    if (fi_fabric(info->fabric_attr, &fabric, NULL) || fi_domain(fabric, info, &domain, NULL) ||
        fi_cq_open(domain, &cq_attr, &cq, NULL) || fi_av_open(domain, &av_attr, &av, NULL) ||
        fi_endpoint(domain, info, &ep, NULL) || fi_ep_bind(ep, &av->fid, 0) ||
        fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) || fi_enable(ep) ||
        fi_getname(&ep->fid, name, &len) || fi_av_insert(av, name, 1, &self, 0, NULL) != 1 ||
        fi_trecv(ep, in, sizeof(in), NULL, self, 7, 0, NULL))
        return 10;
    while (fi_tsend(ep, out, sizeof(out), NULL, self, 7, NULL) == -FI_EAGAIN)
        completed += fi_cq_read(cq, &done, 1) == 1;
    while (completed < 2)
        completed += completes(fabric, cq, wait_obj);
    rc = write_to_itself(domain, ep, cq, self);
    if (rc)
        return rc;
    if (fi_close(&ep->fid) || fi_close(&av->fid) || fi_close(&cq->fid) || fi_close(&domain->fid) ||
        fi_close(&fabric->fid))
        return 11;
    return strcmp(in, "message") ? 12 : 0;
}

static int carries_a_stack(const void *arg)
{
    struct fi_info *info;
    int rc;

    alarm(300);
    /* Without the peer interface tags cannot be passed, and nothing is pretended. */
    if (info_of("rxm(tags=pass);toy", FI_EP_RDM))
        return 1;
    info = info_of("rxm;peer", FI_EP_RDM);
    if (!info || strcmp(info->fabric_attr->prov_name, "peer;ofi_rxm"))
        return 2;
    rc = talk_to_itself(info, FI_WAIT_NONE);
    fi_freeinfo(info);
    if (rc)
        return rc;
    /* It has no peer queues: what comes is read from an ordinary one. */
    info = info_of("rxm;toy", FI_EP_RDM);
    if (!info)
        return 3;
    rc = talk_to_itself(info, FI_WAIT_NONE);
    fi_freeinfo(info);
    return rc ? 100 + rc : 0;
}

static void external_provider_carries_a_layer(void **state)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s", ext);
    assert_int_equal(in_child(carries_a_stack, NULL, path), 0);
}

/* Its queues have no wait object to give: rxm drives it all the same. */
static int is_driven_without_fd(const void *arg)
{
    static const enum fi_wait_obj objs[] = {FI_WAIT_NONE, FI_WAIT_FD, FI_WAIT_MUTEX_COND};

    alarm(300);
    for (size_t i = 0; i < sizeof(objs) / sizeof(objs[0]); i++) {
        struct fi_info *info = info_of("rxm;strict", FI_EP_RDM);
        int rc = info ? talk_to_itself(info, objs[i]) : 1;

        fi_freeinfo(info);
        if (rc)
            return rc;
    }
    return 0;
}

static void lower_without_wait_objects_is_driven(void **state)
{
    char path[4096];

    snprintf(path, sizeof(path), "+%s/libtoy-strict-fi.so:/nonexistent", ext);
    assert_int_equal(in_child(is_driven_without_fd, NULL, path), 0);
}

static int keeps_infos(const void *arg)
{
    struct fi_info *info = info_of("noop;strict", FI_EP_MSG);
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_NONE};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT};
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_pep *pep;
    struct fid_eq *eq;
    struct fid_cq *cq;
    struct fid_ep *ep;

    if (!info || fi_fabric(info->fabric_attr, &fabric, NULL) ||
        fi_eq_open(fabric, &eq_attr, &eq, NULL))
        return 1;
    if (fi_passive_ep(fabric, info, &pep, NULL) || fi_pep_bind(pep, &eq->fid, 0) || fi_listen(pep))
        return 2;
    if (fi_domain(fabric, info, &domain, NULL) || fi_cq_open(domain, &cq_attr, &cq, NULL))
        return 3;
    if (fi_endpoint(domain, info, &ep, NULL) || fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV))
        return 4;
    fi_freeinfo(info);
    return fi_close(&ep->fid) || fi_close(&cq->fid) || fi_close(&domain->fid) ||
                   fi_close(&pep->fid) || fi_close(&eq->fid) || fi_close(&fabric->fid)
               ? 5
               : 0;
}

static void infos_live_as_long_as_what_they_opened(void **state)
{
    char path[4096];

    snprintf(path, sizeof(path), "+%s/libtoy-strict-fi.so:/nonexistent", ext);
    assert_int_equal(in_child(keeps_infos, NULL, path), 0);
}

static int asks_for_branch(const void *log)
{
    struct fi_info *infos = NULL;

    if (!freopen(log, "w", stderr))
        return 2;
    setenv("FI_PROVIDER", "lnx;[dummy]", 1);
    return fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, NULL, &infos) != -FI_ENODATA;
}

/* Its completions would have no reader. */
static void branch_of_a_join_without_peer_objects_is_told(void **state)
{
    char path[4096], log[4096], text[1024] = "";
    FILE *file;

    snprintf(path, sizeof(path), "+%s/libdummy-fi.so:/nonexistent", ext);
    snprintf(log, sizeof(log), "/tmp/weft-test-branch.%d", (int)getpid());
    assert_int_equal(in_child(asks_for_branch, log, path), 0);
    file = fopen(log, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
    fclose(file);
    unlink(log);
    if (!strstr(text,
                "FI_PROVIDER:6: dummy gives nothing here: caps: asked FI_AV_USER_ID, FI_PEER, "
                "offered FI_MSG\n"
                "  lnx;[dummy]\n"
                "       ^~~~~\n"))
        fail_msg("%s", text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(path_says_what_is_loaded),
        cmocka_unit_test(loaded_provider_is_asked_and_opened),
        cmocka_unit_test(loaded_provider_has_a_domain_to_select),
        cmocka_unit_test(external_provider_carries_a_layer),
        cmocka_unit_test(lower_without_wait_objects_is_driven),
        cmocka_unit_test(infos_live_as_long_as_what_they_opened),
        cmocka_unit_test(branch_of_a_join_without_peer_objects_is_told),
    };

    snprintf(ext, sizeof(ext), "%s/tests/compose/ext", getenv("WEFT_BUILD"));
    return cmocka_run_group_tests_name("external", tests, NULL, NULL);
}
