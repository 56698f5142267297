/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/arq/serial.h"

#include <string.h>

void serial_init(struct serial *serial, uint64_t *bits, uint32_t size)
{
    *serial = (struct serial){.size = size, .bits = bits};
    memset(bits, 0, size / SERIAL_WORD * sizeof(*bits));
}

static uint64_t *word_of(const struct serial *serial, uint64_t number)
{
    return &serial->bits[number % serial->size / SERIAL_WORD];
}

static uint64_t bit_of(uint64_t number)
{
    return UINT64_C(1) << number % SERIAL_WORD;
}

static bool inside(const struct serial *serial, uint64_t number)
{
    return number >= serial->next && number - serial->next < serial->size;
}

bool serial_has_below(const struct serial *serial, uint64_t number)
{
    if (number < serial->next)
        return true;
    return inside(serial, number) && *word_of(serial, number) & bit_of(number);
}

void serial_move(struct serial *serial, uint64_t *bits, uint32_t size)
{
    struct serial old = *serial;

    memset(bits, 0, size / SERIAL_WORD * sizeof(*bits));
    serial->bits = bits;
    serial->size = size;
    for (uint64_t number = old.next; number < old.end; number++)
        if (serial_has(&old, number))
            *word_of(serial, number) |= bit_of(number);
}

/* The lowest number leaves the window. */
static void forget_lowest(struct serial *serial)
{
    *word_of(serial, serial->next) &= ~bit_of(serial->next);
    serial->next++;
}

enum serial_result serial_add(struct serial *serial, uint64_t number)
{
    if (__builtin_expect(number == serial->next && number >= serial->end, 1)) {
        serial->next = serial->end = number + 1; /* in turn, and none has come above: no bits */
        return SERIAL_NEW;
    }
    if (serial_has(serial, number))
        return SERIAL_DUPLICATE;
    if (!inside(serial, number))
        return SERIAL_BEYOND;
    *word_of(serial, number) |= bit_of(number);
    if (number >= serial->end)
        serial->end = number + 1;
    while (*word_of(serial, serial->next) & bit_of(serial->next))
        forget_lowest(serial);
    return SERIAL_NEW;
}

enum serial_result serial_add_sliding(struct serial *serial, uint64_t number)
{
    if (number >= serial->next && number - serial->next >= serial->size) {
        if (number - serial->next >= 2 * (uint64_t)serial->size) {
            memset(serial->bits, 0, serial->size / SERIAL_WORD * sizeof(*serial->bits));
            serial->next = number - serial->size + 1;
        }
        while (number - serial->next >= serial->size)
            forget_lowest(serial);
    }
    return serial_add(serial, number);
}

uint64_t serial_bits_below(const struct serial *serial, uint64_t below)
{
    uint64_t bits = below < SERIAL_WORD ? (UINT64_C(1) << below) - 1 : UINT64_MAX;

    /* All below `next` have come. */
    for (uint64_t i = 0; i < SERIAL_WORD && serial->next + i < below; i++)
        if (!serial_has(serial, below - 1 - i))
            bits &= ~(UINT64_C(1) << i);
    return bits;
}
