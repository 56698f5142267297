/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by all joins: the fabric over those of the branches, names of infos, and which of the
 * branches' infos may be joined. */
#ifndef WEFT_CORE_LAYER_JOIN_FABRIC_H
#define WEFT_CORE_LAYER_JOIN_FABRIC_H

#include <stdatomic.h>

#include "core/domain/plain_fabric.h"
#include "core/part/part.h"

enum {
    JOIN_BRANCHES = 8, /* most of a bracket */
};

/* Of a join: how it is called, and its branches are, in what the user reads. */
struct join_words {
    const char *join, *branch, *branches;
    atomic_bool told_absent; /* once a process: a program opens its fabric several times */
};

/* Begins a join's fabric, or is it. */
struct join_fabric {
    union {
        struct plain_fabric plain; /* its control: of the EQs that the application opens */
        struct fabric base;        /* plain.base */
    };
    struct lower *lower[JOIN_BRANCHES]; /* by slot of the bracket; NULL: nothing here */
    size_t slots;
};

/* Opens it, and tells of a branch that has nothing here. Its closing closes the lowers. domain: its
 * entry of the table. -FI_EINVAL: too many branches; -FI_ENOMEM. */
int join_fabric_open(const struct open_args *args, struct join_words *words,
                     int (*domain)(struct fid_fabric *fabric, struct fi_info *info,
                                   struct fid_domain **domain, void *context),
                     struct fid_fabric **fabric, void *context);

/* The names of info, which is made of those of the branches' (NULL: none). -FI_ENOMEM. */
int join_set_names(struct fi_info *info, const struct fi_info *const *infos, size_t count);

/* Has each branch an info (NULL: none), or one of them at least without the parameter `strict`? The
 * reason is recorded. */
bool join_all_have(const struct request *req, const struct join_words *words,
                   const struct fi_info *const *infos, size_t count);

/* Two of the branches' infos (NULL: none) are of the same device; the reason is recorded. */
bool join_has_twin(struct reasons *reasons, const struct join_words *words,
                   const struct fi_info *const *infos, size_t count);

#endif
