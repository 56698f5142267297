/* SPDX-License-Identifier: BSD-2-Clause */
#include "compose/external.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

#include "compose/config.h"
#include "core/base/log.h"
#include "core/info/abi.h"
#include "core/info/info.h"
#include "core/param/param_env.h"

#define MR_MODES                                                                                   \
    (FI_MR_LOCAL | FI_MR_RAW | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |                \
     FI_MR_MMU_NOTIFY | FI_MR_RMA_EVENT | FI_MR_ENDPOINT | FI_MR_HMEM | FI_MR_COLLECTIVE)

struct external {
    struct part part;
    struct fi_provider *provider;
    void *library;
    bool preferred;
    atomic_bool peer; /* FI_PEER was among the caps of an info */
};

static struct external **loaded;
static size_t loaded_count;
static bool first_wins; /* FI_PROVIDER_PATH began with @ */

static int external_offer(const struct request *req, const struct fi_info *lower,
                          struct fi_info **info);
static int external_open_fabric(const struct open_args *args, struct fid_fabric **fabric,
                                void *context);

static struct external *external_of(const struct part *part)
{
    return (struct external *)part;
}

bool external_is(const struct part *part)
{
    return part->offer == external_offer;
}

uint32_t external_version(const struct part *part)
{
    return external_of(part)->provider->version;
}

/* libfabric's own transports with FI_PEER have shared receive contexts, and work in software. */
static unsigned external_traits(const struct params *params)
{
    return PEER_ASKS | PEER_IN_TURN;
}

bool external_peer(const struct part *part)
{
    struct external *external = external_of(part);

    return external->provider->fi_version == FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION) &&
           atomic_load_explicit(&external->peer, memory_order_relaxed);
}

/* The layout of fi_info in the headers of that release. */
static enum abi_level level_of(uint32_t fi_version)
{
    static const struct {
        uint32_t below;
        enum abi_level level;
    } levels[] = {
        {FI_VERSION(1, 5), ABI_1_0},  {FI_VERSION(1, 7), ABI_1_1}, {FI_VERSION(1, 9), ABI_1_2},
        {FI_VERSION(1, 20), ABI_1_3}, {FI_VERSION(2, 0), ABI_1_7}, {FI_VERSION(2, 5), ABI_1_8},
    };

    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        if (FI_VERSION_LT(fi_version, levels[i].below))
            return levels[i].level;
    }
    return ABI_1_9;
}

/* Theirs, in our layout, in the shape of an offer: mr_mode as the bits that it needs. */
static int import_infos(struct external *external, const struct fi_info *theirs,
                        struct fi_info **infos)
{
    for (; theirs; theirs = theirs->next) {
        struct fi_info *plain = abi_info_import(theirs, level_of(external->provider->fi_version));
        struct fi_info *info = plain ? info_complete(plain) : NULL;

        info_free(plain);
        if (!info)
            return -FI_ENOMEM;
        info->domain_attr->mr_mode = info_mr_bits(info);
        if (info->caps & FI_PEER)
            atomic_store_explicit(&external->peer, true, memory_order_relaxed);
        info_append(infos, info);
    }
    return 0;
}

static int external_offer(const struct request *req, const struct fi_info *lower,
                          struct fi_info **info)
{
    struct external *external = external_of(req->part);
    const struct fi_provider *provider = external->provider;
    uint32_t version =
        FI_VERSION_LT(provider->fi_version, req->version) ? provider->fi_version : req->version;
    struct fi_info *hints = info_dup(req->hints);
    struct fi_info *theirs = NULL, *infos = NULL;
    int rc;

    if (!hints)
        return -FI_ENOMEM;
    if (info_mr_is_any(hints->domain_attr->mr_mode))
        hints->domain_attr->mr_mode &=
            FI_VERSION_LT(version, FI_VERSION(1, 5)) ? FI_MR_UNSPEC : MR_MODES;
    rc = provider->getinfo(version, req->node, req->service, req->flags, hints, &theirs);
    info_free(hints);
    if (rc) {
        reasons_add(req->reasons, "the external provider has nothing: %s", fi_strerror(abs(rc)));
        return 0;
    }
    rc = import_infos(external, theirs, &infos);
    abi_info_free(theirs, level_of(provider->fi_version));
    if (rc)
        info_free(infos);
    else
        *info = infos;
    return rc;
}

static int external_open_fabric(const struct open_args *args, struct fid_fabric **fabric,
                                void *context)
{
    struct fi_provider *provider = external_of(args->part)->provider;
    struct fi_fabric_attr attr = *args->attr;
    int rc;

    attr.prov_name = (char *)provider->name;
    attr.prov_version = provider->version;
    rc = provider->fabric(&attr, fabric, context);
    if (!rc)
        params_destroy(args->params);
    return rc;
}

static void refuse(const char *path, const char *why)
{
    LOG_WARN("core", FI_LOG_CORE, "%s is not used: %s", path, why);
}

/* Why the provider cannot be a part; NULL when it can. */
static const char *why_not(const struct fi_provider *provider)
{
    if (!provider)
        return "its fi_prov_ini gives no provider";
    if (!provider->name || !provider->getinfo || !provider->fabric)
        return "its table lacks name, getinfo or fabric";
    if (FI_VERSION_LT(provider->fi_version, FI_VERSION(1, 3)))
        return "it is of an interface before 1.3";
    if (!strncasecmp(provider->name, "ofi_", 4) || !strncasecmp(provider->name, "off_", 4))
        return "a layer of upstream's works inside upstream's library only";
    return NULL;
}

static struct external *find_loaded(const char *name)
{
    for (size_t i = 0; i < loaded_count; i++) {
        if (!strcasecmp(loaded[i]->part.name, name))
            return loaded[i];
    }
    return NULL;
}

static struct external *external_create(struct fi_provider *provider, void *library, bool preferred)
{
    struct external *external = calloc(1, sizeof(*external));

    if (!external)
        return NULL;
    external->provider = provider;
    external->library = library;
    external->preferred = preferred;
    external->part = (struct part){
        .name = provider->name,
        .summary = "external provider",
        .kind = PART_TRANSPORT,
        .peer = external_traits,
        .provides_ep = EP_SET(FI_EP_MSG) | EP_SET(FI_EP_DGRAM) | EP_SET(FI_EP_RDM),
        .offer = external_offer,
        .open_fabric = external_open_fabric,
    };
    return external;
}

/* Among those of one name: the preferred, then the first (@), else the highest version. */
static bool is_better(const struct external *external, const struct external *other)
{
    if (external->preferred != other->preferred)
        return external->preferred;
    return !first_wins && FI_VERSION_LT(other->provider->version, external->provider->version);
}

static void discard(struct external *external)
{
    if (external->provider->cleanup)
        external->provider->cleanup();
    dlclose(external->library);
    free(external);
}

static void keep(struct external *external)
{
    struct external **grown;

    for (size_t i = 0; i < loaded_count; i++) {
        struct external *other = loaded[i];

        if (strcasecmp(other->part.name, external->part.name))
            continue;
        if (is_better(external, other))
            loaded[i] = external;
        else
            other = external;
        refuse(other->part.name, "there is a better provider of its name");
        discard(other);
        return;
    }
    grown = realloc(loaded, (loaded_count + 1) * sizeof(struct external *));
    if (!grown) {
        discard(external);
        return;
    }
    loaded = grown;
    loaded[loaded_count++] = external;
}

static void show_path(const char *what, const char *path, const char *why)
{
    char origin[1024];

    log_user("%s: %s '%s'%s%s", param_variable_origin("FI_PROVIDER_PATH", origin, sizeof(origin)),
             what, path, why ? ": " : "", why ? why : "");
}

static void load_file(const char *path, bool preferred)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    struct fi_provider *(*init)(void);
    struct fi_provider *provider = NULL;
    struct external *external;
    const char *why = NULL;

    if (!library) {
        /* The user named this file: always shown. A file found in a folder: logged. */
        if (preferred)
            show_path("cannot load", path, dlerror());
        else
            refuse(path, dlerror());
        return;
    }
    *(void **)&init = dlsym(library, "fi_prov_ini");
    if (!init)
        why = "it has no fi_prov_ini";
    if (!why)
        provider = init();
    if (!why)
        why = why_not(provider);
    if (why) {
        refuse(path, why);
        if (provider && provider->cleanup)
            provider->cleanup();
        dlclose(library);
        return;
    }
    external = external_create(provider, library, preferred);
    if (external)
        keep(external);
}

static int is_provider_file(const struct dirent *entry)
{
    size_t len = strlen(entry->d_name);

    return len > 6 && !strcmp(entry->d_name + len - 6, "-fi.so");
}

/* The same order in every locale. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* given: the user names it. */
static void load_dir(const char *dir, bool given)
{
    struct dirent **entries;
    int count = scandir(dir, &entries, is_provider_file, by_name);
    char path[4096];

    for (int i = 0; i < count; i++) {
        if (snprintf(path, sizeof(path), "%s/%s", dir, entries[i]->d_name) < (int)sizeof(path))
            load_file(path, false);
        free(entries[i]);
    }
    if (count < 0 && given)
        show_path("cannot read the folder", dir, fi_strerror(errno));
    else if (!count && given)
        show_path("there is no provider (lib*-fi.so) in", dir, NULL);
    if (count >= 0)
        free(entries);
}

static void load_path(const char *text)
{
    char *copy = strdup(text ? text : ""), *rest = copy;
    bool any_dir = false;

    if (!copy)
        return;
    first_wins = *rest == '@';
    rest += first_wins;
    for (char *entry; (entry = strsep(&rest, ":"));) {
        if (*entry == '+') {
            load_file(entry + 1, true);
        } else if (*entry) {
            load_dir(entry, true);
            any_dir = true;
        }
    }
    if (!any_dir)
        load_dir(COMPOSE_PROVIDER_DIR, false);
    free(copy);
}

struct parts external_load(void)
{
    const struct part **list;

    load_path(param_variable("FI_PROVIDER_PATH"));
    list = calloc(loaded_count + 1, sizeof(const struct part *));
    for (size_t i = 0; list && i < loaded_count; i++)
        list[i] = &loaded[i]->part;
    return (struct parts){list, list ? loaded_count : 0};
}

bool external_replaces(const struct part *part)
{
    const struct external *external = find_loaded(part->name);

    return external && (external->preferred || first_wins);
}

/* The process ends. Nothing is unloaded or freed: other threads may be in a provider's code. */
__attribute__((destructor)) static void cleanup(void)
{
    for (size_t i = 0; i < loaded_count; i++) {
        if (loaded[i]->provider->cleanup)
            loaded[i]->provider->cleanup();
    }
}
