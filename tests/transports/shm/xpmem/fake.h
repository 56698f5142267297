/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A /dev/xpmem that this program pretends: it has the library's open and ioctl. Its owners are
 * forks of this process, or itself; what can be attached is fake_memory.
 */
#ifndef WEFT_TESTS_SHM_FAKE_H
#define WEFT_TESTS_SHM_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fake_command {
    FAKE_VERSION,
    FAKE_MAKE,
    FAKE_REMOVE,
    FAKE_GET,
    FAKE_RELEASE,
    FAKE_ATTACH,
    FAKE_DETACH,
    FAKE_COMMANDS
};

/* The part that an attachment lacks. */
enum fake_gap {
    FAKE_WHOLE,
    FAKE_BUS,  /* from gap_at on an access gets SIGBUS */
    FAKE_SEGV, /* ... from the page on that it is in, SIGSEGV */
};

/* Shared by the processes that are forked after fake_begin. */
struct fake {
    bool there;
    char yama;                     /* kernel.yama.ptrace_scope; 0: there is no such file */
    int errs[FAKE_COMMANDS];       /* that they fail with, if they are set */
    unsigned calls[FAKE_COMMANDS]; /* that have come */
    unsigned opens;                /* how often it was opened, or was to be */
    unsigned permits, attached, most_attached;
    unsigned misuse; /* of another's descriptor, of what there is not */
    enum fake_gap gap;
    uint64_t gap_at;         /* an owner's address */
    void (*on_attach)(void); /* of this process, before it */
};
extern struct fake *fake;

/* Before anything else; the first call shares it. It is there, and refuses nothing. */
void fake_begin(void);
/* Zeroed memory that can be attached, at a multiple of `align`; never freed. Before forks. */
char *fake_memory(size_t len, size_t align);
/* The same, that owners have at an address of their own. */
char *fake_memory_at(uint64_t at, size_t len);
/* How often process_vm_readv was called by this program; it works. */
extern unsigned fake_crosses;

#endif
