/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects that have been created and not yet destroyed, for the account at exit
 * (WEFT_EMULATOR_LEAKS=1). */
#ifndef WEFT_EMULATOR_OBJECT_H
#define WEFT_EMULATOR_OBJECT_H

#include <stdint.h>

#include "core/base/list.h"

struct object {
    struct list link;
    const char *kind;
    uint32_t number;
};

/* The lock of the loop is held. `kind` stays the caller's. */
void object_add(struct object *object, const char *kind, uint32_t number);
void object_remove(struct object *object);

/* In a child of fork: what is left at exit is the parent's. */
void object_forget_all(void);

/* How many of a kind there are. */
unsigned object_count(const char *kind);

#endif
