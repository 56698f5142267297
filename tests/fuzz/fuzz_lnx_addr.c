/* SPDX-License-Identifier: BSD-2-Clause */
/* Any bytes as the address of a join: what decodes is in bounds, and encodes and decodes to the
 * same. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers/lnx/lnx_addr.h"
#include "layers/lnx/lnx_face.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_branch(const struct lnx_addr_branch *branch)
{
    must(branch->len > 0 && branch->len <= sizeof(branch->addr));
    must(branch->reach.len <= REACH_MAX);
    if (branch->format == FI_ADDR_STR)
        must(branch->len == strlen((const char *)branch->addr) + 1);
#ifdef FUZZ_PLANTED
    /* As if an address of 32 bytes sufficed for every form. */
    must(branch->len <= 32);
#endif
}

static void check_same(const struct lnx_addr_branch *a, const struct lnx_addr_branch *b)
{
    must(a->kind == b->kind && a->format == b->format && a->len == b->len);
    must(a->reach.len == b->reach.len);
    must(!memcmp(a->reach.token, b->reach.token, a->reach.len));
    must(!memcmp(a->addr, b->addr, a->len));
}

static void check(const uint8_t *raw, size_t size)
{
    struct lnx_addr *addr = calloc(2, sizeof(*addr)), *again = addr + 1;
    uint8_t *bytes = malloc(LNX_ADDR_MAX + size);
    char why[200] = "";

    must(addr && bytes);
    if (lnx_addr_decode(raw, size, addr, why, sizeof(why))) {
        must(*why);
    } else {
        must(addr->count >= 1 && addr->count <= LNX_BRANCHES);
        for (size_t i = 0; i < addr->count; i++)
            check_branch(&addr->branch[i]);
        must(lnx_addr_encode(addr, bytes, size) == addr->count);
        must(!lnx_addr_decode(bytes, size, again, why, sizeof(why)));
        must(again->count == addr->count);
        for (size_t i = 0; i < addr->count; i++)
            check_same(&addr->branch[i], &again->branch[i]);
    }
    free(bytes);
    free(addr);
}

/* A peer's name inside of the node, where the join has a face. */
static void check_name(const uint8_t *raw, size_t size)
{
    struct lnx_addr_branch *inside = calloc(3, sizeof(*inside)), *face = inside + 1;
    struct lnx_addr_branch *again = inside + 2;

    must(!!inside);
    memcpy(inside->addr, "lnx://", 6);
    inside->len = 6;
    for (size_t i = 0; i < size && inside->len + 2 < sizeof(inside->addr); i++)
        inside->len += (size_t)sprintf((char *)inside->addr + inside->len, "%02x", raw[i]);
    inside->addr[inside->len++] = 0;
    if (size && raw[0] & 1) /* anything */
        memcpy(inside->addr, raw, size < inside->len ? size : inside->len);
    if (lnx_face_read(inside, face)) {
        check_branch(face);
        if (lnx_face_write(face, again)) {
            must(lnx_face_read(again, inside));
            must(inside->len == face->len && !memcmp(inside->addr, face->addr, face->len));
        }
    }
    free(inside);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* An exact copy, so that a read past the end is seen. */
    uint8_t *copy = calloc(size ? size : 1, 1);

    must(!!copy);
    if (size)
        memcpy(copy, data, size);
    check(copy, size);
    check_name(copy, size);
    /* Behind a version and a sum that are right, or few would get any further. */
    if (size >= 3) {
        unsigned sum = (unsigned)size;

        copy[0] = LNX_ADDR_VERSION;
        copy[2] = (uint8_t)(copy[2] % LNX_BRANCHES + 1);
        for (size_t i = 0; i < size; i++)
            sum += i == 1 ? 0 : copy[i];
        copy[1] = (uint8_t)sum;
        check(copy, size);
    }
    free(copy);
    return 0;
}
