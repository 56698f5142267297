/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes of a fuzzer that say what happens next, and the memory that it takes. */
#ifndef WEFT_TESTS_FUZZ_INPUT_H
#define WEFT_TESTS_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>

#include "tests/fuzz/must.h"

struct input {
    const uint8_t *at, *end;
};

/* The next byte; 0 behind the end. */
static inline uint8_t next(struct input *input)
{
    return input->at < input->end ? *input->at++ : 0;
}

/* Zeroed memory, at least a byte; the caller frees it. */
static inline void *get(size_t len)
{
    void *bytes = calloc(1, len ? len : 1);

    must(bytes != NULL);
    return bytes;
}

#endif
