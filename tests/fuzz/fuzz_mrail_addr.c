/* SPDX-License-Identifier: BSD-2-Clause */
/* Any bytes as the address of an endpoint of several rails: what decodes is in bounds, and encodes
 * and decodes to the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "layers/mrail/mrail_addr.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_rail(const struct mrail_addr_rail *rail)
{
    must(rail->kind != 0);
    must(rail->len > 0 && rail->len <= sizeof(rail->addr));
#ifdef FUZZ_PLANTED
    /* As if there were IP addresses only. */
    must(rail->format != FI_FORMAT_UNSPEC);
#endif
}

static void check_same(const struct mrail_addr_rail *a, const struct mrail_addr_rail *b)
{
    must(a->kind == b->kind && a->format == b->format && a->len == b->len);
    must(!memcmp(a->addr, b->addr, a->len));
}

static void check(const uint8_t *raw, size_t size)
{
    struct mrail_addr *addr = calloc(2, sizeof(*addr)), *again = addr + 1;
    uint8_t *bytes = malloc(MRAIL_ADDR_MAX + size);
    char why[200] = "";

    must(addr && bytes);
    if (mrail_addr_decode(raw, size, addr, why, sizeof(why))) {
        must(*why);
    } else {
        must(addr->count >= 1 && addr->count <= MRAIL_RAILS && addr->packet);
        for (size_t i = 0; i < addr->count; i++)
            check_rail(&addr->rail[i]);
        must(!mrail_addr_encode(addr, bytes, size));
        must(!mrail_addr_decode(bytes, size, again, why, sizeof(why)));
        must(again->count == addr->count && again->packet == addr->packet);
        for (size_t i = 0; i < addr->count; i++)
            check_same(&addr->rail[i], &again->rail[i]);
    }
    free(bytes);
    free(addr);
}

/* As mrail_addr.c has it. */
static uint8_t sum_of(const uint8_t *raw, size_t size)
{
    size_t sum = size;

    for (size_t i = 0; i < size; i++)
        sum += i == 1 ? 0 : raw[i] * (i + 1);
    return (uint8_t)(sum ^ sum >> 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* An exact copy, so that a read past the end is seen. */
    size_t steps = size < MRAIL_ADDR_MIN ? 0 : (size - MRAIL_ADDR_MIN) / MRAIL_ADDR_STEP;
    size_t room = MRAIL_ADDR_MIN + steps * MRAIL_ADDR_STEP;
    uint8_t *copy = calloc(room > size ? room : size, 1);

    must(!!copy);
    if (size)
        memcpy(copy, data, size);
    check(copy, size);
    free(copy);
    /* Of a length that there is, behind a version and a sum that are right, or few would get any
     * further. */
    copy = calloc(room, 1);
    must(!!copy);
    if (size)
        memcpy(copy, data, size < room ? size : room);
    copy[0] = MRAIL_ADDR_VERSION;
    copy[2] = (uint8_t)(copy[2] % MRAIL_RAILS + 1);
    copy[1] = sum_of(copy, room);
    check(copy, room);
    free(copy);
    return 0;
}
