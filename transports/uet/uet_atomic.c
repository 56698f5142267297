/* SPDX-License-Identifier: BSD-2-Clause */
/* Operations and types of atomics: numbers of libfabric and of the wire. */
#include <string.h>

#include "transports/uet/uet.h"

static const struct {
    enum fi_op op;
    uint8_t opcode;
} ops[] = {
    {FI_MIN, AMO_MIN},
    {FI_MAX, AMO_MAX},
    {FI_SUM, AMO_SUM},
    {FI_DIFF, AMO_DIFF},
    {FI_PROD, AMO_PROD},
    {FI_LOR, AMO_LOR},
    {FI_LAND, AMO_LAND},
    {FI_BOR, AMO_BOR},
    {FI_BAND, AMO_BAND},
    {FI_LXOR, AMO_LXOR},
    {FI_BXOR, AMO_BXOR},
    {FI_ATOMIC_READ, AMO_READ},
    {FI_ATOMIC_WRITE, AMO_WRITE},
    {FI_CSWAP, AMO_CSWAP},
    {FI_CSWAP_NE, AMO_CSWAP_NE},
    {FI_CSWAP_LE, AMO_CSWAP_LE},
    {FI_CSWAP_LT, AMO_CSWAP_LT},
    {FI_CSWAP_GE, AMO_CSWAP_GE},
    {FI_CSWAP_GT, AMO_CSWAP_GT},
    {FI_MSWAP, AMO_MSWAP},
};

static const struct {
    enum fi_datatype datatype;
    uint8_t type;
} types[] = {
    {FI_INT8, AMO_INT8},
    {FI_UINT8, AMO_UINT8},
    {FI_INT16, AMO_INT16},
    {FI_UINT16, AMO_UINT16},
    {FI_INT32, AMO_INT32},
    {FI_UINT32, AMO_UINT32},
    {FI_INT64, AMO_INT64},
    {FI_UINT64, AMO_UINT64},
    {FI_INT128, AMO_INT128},
    {FI_UINT128, AMO_UINT128},
    {FI_FLOAT, AMO_FLOAT},
    {FI_DOUBLE, AMO_DOUBLE},
    {FI_FLOAT_COMPLEX, AMO_FLOAT_COMPLEX},
    {FI_DOUBLE_COMPLEX, AMO_DOUBLE_COMPLEX},
    {FI_LONG_DOUBLE, AMO_LONG_DOUBLE},
    {FI_LONG_DOUBLE_COMPLEX, AMO_LONG_DOUBLE_COMPLEX},
    {FI_BFLOAT16, AMO_BF16},
    {FI_FLOAT16, AMO_FP16},
};

#define COUNT_OF(table) (sizeof(table) / sizeof((table)[0]))

bool uet_atomic_opcode(enum fi_op op, uint8_t *opcode)
{
    for (size_t i = 0; i < COUNT_OF(ops); i++) {
        if (ops[i].op == op) {
            *opcode = ops[i].opcode;
            return true;
        }
    }
    return false;
}

bool uet_atomic_op(uint8_t opcode, enum fi_op *op)
{
    for (size_t i = 0; i < COUNT_OF(ops); i++) {
        if (ops[i].opcode == opcode) {
            *op = ops[i].op;
            return true;
        }
    }
    return false;
}

bool uet_atomic_type(enum fi_datatype datatype, uint8_t *type)
{
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        if (types[i].datatype == datatype) {
            *type = types[i].type;
            return true;
        }
    }
    return false;
}

bool uet_atomic_datatype(uint8_t type, enum fi_datatype *datatype)
{
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        if (types[i].type == type) {
            *datatype = types[i].datatype;
            return true;
        }
    }
    return false;
}

/* ---- Operands in the header: right-aligned, most significant byte first ---- */

static bool is_little(void)
{
    const uint16_t one = 1;

    return *(const uint8_t *)&one;
}

static void reverse(uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size / 2; i++) {
        uint8_t byte = bytes[i];

        bytes[i] = bytes[size - 1 - i];
        bytes[size - 1 - i] = byte;
    }
}

struct ses_wide uet_widen(const void *element, size_t size)
{
    struct ses_wide wide = {0, 0};
    uint8_t bytes[16];

    memcpy(bytes, element, size);
    if (is_little())
        reverse(bytes, size);
    for (size_t i = 0; i < size; i++) {
        wide.high = wide.high << 8 | wide.low >> 56;
        wide.low = wide.low << 8 | bytes[i];
    }
    return wide;
}

void uet_narrow(struct ses_wide wide, void *element, size_t size)
{
    uint8_t *bytes = element;

    for (size_t i = size; i-- > 0;) {
        bytes[i] = (uint8_t)wide.low;
        wide.low = wide.low >> 8 | wide.high << 56;
        wide.high >>= 8;
    }
    if (is_little())
        reverse(bytes, size);
}
