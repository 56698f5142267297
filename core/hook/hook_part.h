/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hook as a part of a stack: from its tables and its own state to part.open_fabric. A hook with a
 * state has one static struct hook_part with `fill`, `create` and `destroy`, which part.hook names;
 * the rest is this room's.
 */
#ifndef WEFT_CORE_HOOK_HOOK_PART_H
#define WEFT_CORE_HOOK_HOOK_PART_H

#include "core/hook/hook.h"
#include "core/part/part.h"

struct hook_part {
    /* Sets the hook's tables in zeroed ops. Called once in a process, under a lock: it may fill
     * static tables. */
    void (*fill)(struct hook_ops *ops);
    /* Makes the fabric's own state from args, which are valid during the call only: *own, what
     * *hook_own of the fabric will be. Files may be opened, threads started. On failure nothing is
     * left, and the log has mistakes that a user can mend: -FI_ENOMEM, or the hook's own error. */
    int (*create)(const struct open_args *args, void **own);
    /* Undoes create, where the fabric below does not open. The end of a fabric that has opened is
     * hook_ops.finish. */
    void (*destroy)(void *own);
    /* ---- The room's, zeroed ---- */
    struct hook_ops ops;
    bool filled;
};

/* part.open_fabric of the hook: 0, create's error, or that of hook_open_fabric. Any thread. Without
 * part.hook it passes everything through. */
int hook_part_open(const struct open_args *args, struct fid_fabric **fabric, void *context);

/* Of the part table of a hook: all but `hook`, and `offer`, which is part_offer_same unless the
 * hook restricts it. */
#define HOOK_PART                                                                                  \
    .kind = PART_LAYER, .transparent = true, .needs = part_needs_same, .open_fabric = hook_part_open

#endif
