/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers that a variable may set: how often a test draws, and its seed. */
#ifndef WEFT_TESTS_SUPPORT_NUMBER_H
#define WEFT_TESTS_SUPPORT_NUMBER_H

#include <stdint.h>
#include <stdlib.h>

static inline uint64_t number_of(const char *name, uint64_t usual)
{
    const char *text = getenv(name);

    return text && *text ? strtoull(text, NULL, 10) : usual;
}

#endif
