/* SPDX-License-Identifier: BSD-2-Clause */
/* Ends a fuzzer where something is not as it must be, whether asserts are compiled in or not. */
#ifndef WEFT_TESTS_FUZZ_MUST_H
#define WEFT_TESTS_FUZZ_MUST_H

#include <stdlib.h>

static inline void must(int condition)
{
    if (!condition)
        abort();
}

#endif
