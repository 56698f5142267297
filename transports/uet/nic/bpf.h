/* SPDX-License-Identifier: BSD-2-Clause */
/* Filters of the kernel (classic BPF, linux/filter.h), also where its headers are not installed. */
#ifndef WEFT_UET_NIC_BPF_H
#define WEFT_UET_NIC_BPF_H

#if !defined(__has_include) || __has_include(<linux/filter.h>)
#include <linux/filter.h>
#else
#include <stdint.h>

struct sock_filter {
    uint16_t code;
    uint8_t jt, jf;
    uint32_t k;
};

struct sock_fprog {
    unsigned short len;
    struct sock_filter *filter;
};

enum {
    BPF_LD = 0x00,
    BPF_ALU = 0x04,
    BPF_JMP = 0x05,
    BPF_RET = 0x06,
    BPF_W = 0x00,
    BPF_H = 0x08,
    BPF_B = 0x10,
    BPF_ABS = 0x20,
    BPF_AND = 0x50,
    BPF_RSH = 0x70,
    BPF_JA = 0x00,
    BPF_JEQ = 0x10,
    BPF_JSET = 0x40,
    BPF_K = 0x00,
    BPF_A = 0x10,
};

#define BPF_STMT(code, k)                                                                          \
    {                                                                                              \
        (uint16_t)(code), 0, 0, k                                                                  \
    }
#define BPF_JUMP(code, k, jt, jf)                                                                  \
    {                                                                                              \
        (uint16_t)(code), jt, jf, k                                                                \
    }
#endif

#endif
