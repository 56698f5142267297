/* SPDX-License-Identifier: BSD-2-Clause */
/* Any text as an address of EFA: what is one prints, and reads back to the same; and any address
 * has a text that reads back. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "transports/efa/efa_name.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_address(const struct efa_addr *addr)
{
    struct efa_addr again;
    char text[EFA_NAME_TEXT];

    efa_name_print(addr, text);
    must(strlen(text) < sizeof(text));
    must(efa_name_parse(text, &again));
    must(!memcmp(addr->gid, again.gid, sizeof(again.gid)));
    must(addr->qpn == again.qpn && addr->qkey == again.qkey);
    must(!again.pad && !again.reserved);
#ifdef FUZZ_PLANTED
    /* As if a key had the size of a queue pair's number. */
    must(again.qkey <= UINT16_MAX);
#endif
}

static void check_text(const uint8_t *data, size_t size)
{
    /* An exact copy, so that a read past the end is seen. */
    char *text = malloc(size + 1);
    struct efa_addr addr;

    must(!!text);
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    if (efa_name_parse(text, &addr))
        check_address(&addr);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct efa_addr addr = {.pad = 0};

    check_text(data, size);
    if (size < sizeof(addr))
        return 0;
    memcpy(&addr, data, sizeof(addr));
    check_address(&addr);
    return 0;
}
