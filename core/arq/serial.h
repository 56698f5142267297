/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A window of serial numbers: which of them have come. Numbers count from 0 and have 64 bits; on a
 * wire they have 32, and serial_expand finds the number that is meant.
 *
 * The window holds `size` numbers from `next` on, the lowest one that has not come. Not locked.
 */
#ifndef WEFT_CORE_ARQ_SERIAL_H
#define WEFT_CORE_ARQ_SERIAL_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SERIAL_WORD = 64, /* sizes are multiples of it */
};

enum serial_result {
    SERIAL_NEW,
    SERIAL_DUPLICATE, /* has come before, or was forgotten by serial_slide */
    SERIAL_BEYOND,    /* the window does not reach it; nothing has changed */
};

struct serial {
    uint64_t next; /* all below have come, or are no longer asked for */
    uint64_t end;  /* the highest that has come, and 1; 0: none has */
    uint32_t size; /* a power of 2, at least SERIAL_WORD */
    uint64_t *bits;
};

/* bits: size / SERIAL_WORD words of the caller's, which outlive it. */
void serial_init(struct serial *serial, uint64_t *bits, uint32_t size);

/* Goes on with other bits, of the caller's, where all from `next` to `end` have a place; those that
 * it had are not needed any more. */
void serial_move(struct serial *serial, uint64_t *bits, uint32_t size);

/* number has come. */
enum serial_result serial_add(struct serial *serial, uint64_t number);
/* As serial_add, but a number beyond the window moves it: the lowest ones are forgotten. */
enum serial_result serial_add_sliding(struct serial *serial, uint64_t number);

bool serial_has_below(const struct serial *serial, uint64_t number);
static inline bool serial_has(const struct serial *serial, uint64_t number)
{
    return number < serial->end && serial_has_below(serial, number);
}

/* Bit i, 0 to 63: has number `below` - 1 - i come? Numbers that do not exist have not. */
uint64_t serial_bits_below(const struct serial *serial, uint64_t below);

/* The number with these low 32 bits that is nearest to `near`; below 0 there is none, so the next
 * higher one is taken. */
static inline uint64_t serial_expand(uint32_t low, uint64_t near)
{
    int32_t distance = (int32_t)(low - (uint32_t)near);

    if (distance < 0 && near < (uint64_t) - (int64_t)distance)
        return near + (uint32_t)distance;
    return near + (uint64_t)(int64_t)distance;
}

#endif
