/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Conditions that hold unless the machine does something else meanwhile: a thread that is kept from
 * running does not post in time, a core that changes its clock is slower. One try that shows it is
 * enough, and where the library is wrong none does.
 */
#ifndef WEFT_TESTS_SUPPORT_TRIES_H
#define WEFT_TESTS_SUPPORT_TRIES_H

#include <stdbool.h>

enum {
    TRIES = 50
};

/* True as soon as a try does; each starts anew. */
static inline bool tries_show(bool (*attempt)(void))
{
    for (int i = 0; i < TRIES; i++) {
        if (attempt())
            return true;
    }
    return false;
}

#endif
