/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * late LIBRARY SPEC: a program that loads the library with dlopen, as MPI libraries load theirs. It
 * lets the library go after closing everything, then with everything open and a progress thread
 * running, then exits with another thread alive.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

/* It leaves with objects open: what AddressSanitizer then calls a leak is what is tested. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

struct loaded {
    void *handle;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_ep *ep;
};

static void must(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "late: %s\n", what);
    exit(1);
}

static void *symbol(void *handle, const char *name)
{
    void *found = dlsym(handle, name);

    must(found != NULL, name);
    return found;
}

static struct fi_info *choose(void *handle)
{
    struct fi_info *(*dupinfo)(const struct fi_info *);
    void (*freeinfo)(struct fi_info *);
    int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
                   struct fi_info **);
    struct fi_info *hints, *info = NULL;

    *(void **)&dupinfo = symbol(handle, "fi_dupinfo");
    *(void **)&freeinfo = symbol(handle, "fi_freeinfo");
    *(void **)&getinfo = symbol(handle, "fi_getinfo");
    hints = dupinfo(NULL);
    must(hints != NULL, "no memory");
    hints->caps = FI_MSG;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
    hints->domain_attr->control_progress = FI_PROGRESS_AUTO;
    must(!getinfo(FI_VERSION(1, 15), NULL, NULL, 0, hints, &info), "fi_getinfo");
    freeinfo(hints);
    return info;
}

static struct loaded load(const char *library)
{
    struct loaded it = {.handle = dlopen(library, RTLD_NOW | RTLD_LOCAL)};
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    int (*fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *);

    must(it.handle != NULL, dlerror());
    it.info = choose(it.handle);
    *(void **)&fabric = symbol(it.handle, "fi_fabric");
    must(!fabric(it.info->fabric_attr, &it.fabric, NULL), "fi_fabric");
    must(!fi_domain(it.fabric, it.info, &it.domain, NULL), "fi_domain");
    must(!fi_cq_open(it.domain, &cq, &it.cq, NULL), "fi_cq_open");
    must(!fi_av_open(it.domain, &av, &it.av, NULL), "fi_av_open");
    must(!fi_endpoint(it.domain, it.info, &it.ep, NULL), "fi_endpoint");
    must(!fi_ep_bind(it.ep, &it.cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    must(!fi_ep_bind(it.ep, &it.av->fid, 0), "fi_ep_bind");
    must(!fi_enable(it.ep), "fi_enable");
    return it;
}

static void unload_after_close(const char *library)
{
    struct loaded it = load(library);
    void (*freeinfo)(struct fi_info *);

    *(void **)&freeinfo = symbol(it.handle, "fi_freeinfo");
    must(!fi_close(&it.ep->fid), "fi_close");
    must(!fi_close(&it.av->fid), "fi_close");
    must(!fi_close(&it.cq->fid), "fi_close");
    must(!fi_close(&it.domain->fid), "fi_close");
    must(!fi_close(&it.fabric->fid), "fi_close");
    freeinfo(it.info);
    must(!dlclose(it.handle), "dlclose");
}

int main(int argc, char **argv)
{
    struct loaded open;

    if (argc != 3) {
        fprintf(stderr, "usage: late LIBRARY SPEC\n");
        return 2;
    }
    setenv("FI_PROVIDER", argv[2], 1);
    for (int i = 0; i < 3; i++)
        unload_after_close(argv[1]);
    open = load(argv[1]);
    must(!dlclose(open.handle), "dlclose");
    usleep(50000);
    load(argv[1]);
    usleep(20000);
    return 0;
}
