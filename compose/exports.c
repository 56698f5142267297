/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The entry points that exist in several versions, one for each layout of fi_info; libfabric.map
 * names the nodes. Each converts what it is given to the current layout and calls the one
 * implementation. A static library has no versions (WEFT_STATIC): it has the current ones, since a
 * program that links it was compiled with its headers.
 */
#include "compose/build.h"
#include "compose/getinfo.h"
#include "core/info/abi.h"
#include "core/info/info.h"

#define EXPORT __attribute__((visibility("default")))

/* Binds a function of this file to NAME at VERSION: OLD, or what programs link to TODAY. */
#ifdef WEFT_STATIC
#undef EXPORT
#define EXPORT
#define BIND_OLD(function, name, version) _Static_assert(sizeof(version), "a version")
#define BIND_TODAY(function, name, version)                                                        \
    __attribute__((visibility("default"), alias(#function))) extern __typeof__(function) name
#else
#define BIND_OLD(function, name, version)                                                          \
    __asm__(".symver " #function ", " #name "@FABRIC_" version)
#define BIND_TODAY(function, name, version)                                                        \
    __asm__(".symver " #function ", " #name "@@FABRIC_" version)
#endif

static int getinfo_at(enum abi_level level, uint32_t version, const char *node, const char *service,
                      uint64_t flags, const struct fi_info *hints, struct fi_info **info)
{
    struct fi_info *ours = NULL;
    int rc;

    if (!info)
        return -FI_EINVAL;
    abi_bound(level);
    if (hints) {
        ours = abi_info_import(hints, level);
        if (!ours)
            return -FI_ENOMEM;
    }
    rc = getinfo_run(version, node, service, flags, ours, level, info);
    if (!rc)
        abi_info_export(*info, level);
    info_free(ours);
    return rc;
}

static struct fi_info *dupinfo_at(enum abi_level level, const struct fi_info *info)
{
    struct fi_info *copy = abi_info_import(info, level);

    abi_bound(level);
    abi_info_export(copy, level);
    return copy;
}

/* The three that follow fi_info, at one level. */
#define INFO_EXPORTS(suffix, level, when, version)                                                 \
    EXPORT int getinfo_##suffix(uint32_t api, const char *node, const char *service,               \
                                uint64_t flags, const struct fi_info *hints,                       \
                                struct fi_info **info);                                            \
    int getinfo_##suffix(uint32_t api, const char *node, const char *service, uint64_t flags,      \
                         const struct fi_info *hints, struct fi_info **info)                       \
    {                                                                                              \
        return getinfo_at(level, api, node, service, flags, hints, info);                          \
    }                                                                                              \
    EXPORT struct fi_info *dupinfo_##suffix(const struct fi_info *info);                           \
    struct fi_info *dupinfo_##suffix(const struct fi_info *info)                                   \
    {                                                                                              \
        return dupinfo_at(level, info);                                                            \
    }                                                                                              \
    EXPORT void freeinfo_##suffix(struct fi_info *info);                                           \
    void freeinfo_##suffix(struct fi_info *info)                                                   \
    {                                                                                              \
        abi_info_free(info, level);                                                                \
    }                                                                                              \
    BIND_##when(getinfo_##suffix, fi_getinfo, version);                                            \
    BIND_##when(dupinfo_##suffix, fi_dupinfo, version);                                            \
    BIND_##when(freeinfo_##suffix, fi_freeinfo, version)

INFO_EXPORTS(1_0, ABI_1_0, OLD, "1.0");
INFO_EXPORTS(1_1, ABI_1_1, OLD, "1.1");
INFO_EXPORTS(1_2, ABI_1_2, OLD, "1.2");
INFO_EXPORTS(1_3, ABI_1_3, OLD, "1.3");
INFO_EXPORTS(1_7, ABI_1_7, OLD, "1.7");
INFO_EXPORTS(1_8, ABI_1_8, OLD, "1.8");
INFO_EXPORTS(1_9, ABI_1_9, TODAY, "1.9");

EXPORT int fabric_1_0(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
EXPORT int fabric_1_1(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
EXPORT int fabric2_1_8(struct fi_info *info, struct fid_fabric **fabric, uint64_t flags,
                       void *context);

int fabric_1_1(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    struct fi_fabric_attr ours;
    enum abi_level level;

    if (!attr || !fabric)
        return -FI_EINVAL;
    level = abi_of(attr);
    abi_fabric_attr_import(attr, level, &ours);
    return fabric_open(&ours, NULL, level, fabric, context);
}

/* A program that binds this was compiled with headers of before 1.5, also with an attr of its
 * own. */
int fabric_1_0(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    abi_bound(ABI_1_0);
    return fabric_1_1(attr, fabric, context);
}

int fabric2_1_8(struct fi_info *info, struct fid_fabric **fabric, uint64_t flags, void *context)
{
    struct fi_info *ours;
    enum abi_level level;
    int rc;

    if (flags)
        return -FI_EBADFLAGS;
    if (!info || !info->fabric_attr || !fabric)
        return -FI_EINVAL;
    level = abi_of(info->fabric_attr);
    ours = abi_info_import(info, level);
    if (!ours)
        return -FI_ENOMEM;
    rc = fabric_open(ours->fabric_attr, ours, level, fabric, context);
    info_free(ours);
    return rc;
}

BIND_OLD(fabric_1_0, fi_fabric, "1.0");
BIND_TODAY(fabric_1_1, fi_fabric, "1.1");
BIND_TODAY(fabric2_1_8, fi_fabric2, "1.8");
