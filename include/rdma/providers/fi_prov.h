/* SPDX-License-Identifier: BSD-2-Clause */
/* The entry points of a provider, and its configuration variables: fi_provider(3). */
#ifndef RDMA_FI_PROV_H
#define RDMA_FI_PROV_H

#include <rdma/fabric.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
#define FI_PROV_EXPORT __attribute__((visibility("default")))
#define FI_PROV_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define FI_PROV_EXPORT
#define FI_PROV_PRINTF(fmt, first)
#endif

struct fi_provider {
    uint32_t version;
    uint32_t fi_version; /* the interface it was built for */
    struct fi_context context;
    const char *name;
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **info);
    int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
    void (*cleanup)(void);
};

/* A provider in a file named *-fi.so exports this; FI_EXT_INI is followed by its body. */
FI_PROV_EXPORT struct fi_provider *fi_prov_ini(void);

#define FI_EXT_INI FI_PROV_EXPORT struct fi_provider *fi_prov_ini(void)

int fi_param_define(const struct fi_provider *provider, const char *param_name,
                    enum fi_param_type type, const char *help_string_fmt, ...) FI_PROV_PRINTF(4, 5);

/* value points to the type of the definition: char *, int, int (bool), size_t. */
int fi_param_get(struct fi_provider *provider, const char *param_name, void *value);

static inline int fi_param_get_str(struct fi_provider *provider, const char *param_name,
                                   char **value)
{
    return fi_param_get(provider, param_name, value);
}

static inline int fi_param_get_int(struct fi_provider *provider, const char *param_name, int *value)
{
    return fi_param_get(provider, param_name, value);
}

static inline int fi_param_get_bool(struct fi_provider *provider, const char *param_name,
                                    int *value)
{
    return fi_param_get(provider, param_name, value);
}

static inline int fi_param_get_size_t(struct fi_provider *provider, const char *param_name,
                                      size_t *value)
{
    return fi_param_get(provider, param_name, value);
}

#ifdef __cplusplus
}
#endif

#endif
