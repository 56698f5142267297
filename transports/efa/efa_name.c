/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses as text, as fi_av_straddr and fi_tostr print them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>

#include "transports/efa/efa_name.h"

#define SCHEME "fi_addr_efa://"

/* A number at *at up to `most`, which ends with `end`. */
static bool number(const char **at, char end, unsigned long most, unsigned long *value)
{
    char *rest;

    if (**at < '0' || **at > '9')
        return false;
    *value = strtoul(*at, &rest, 10);
    if (*rest != end || *value > most)
        return false;
    *at = end ? rest + 1 : rest;
    return true;
}

/* len bytes of text. */
static bool gid(const char *text, size_t len, struct efa_addr *addr)
{
    char copy[INET6_ADDRSTRLEN];

    if (len >= sizeof(copy))
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return inet_pton(AF_INET6, copy, addr->gid) == 1;
}

bool efa_name_parse(const char *text, struct efa_addr *addr)
{
    const char *end;
    unsigned long qpn, qkey;

    memset(addr, 0, sizeof(*addr));
    if (strncmp(text, SCHEME, strlen(SCHEME)) != 0)
        return gid(text, strlen(text), addr);
    text += strlen(SCHEME);
    end = *text == '[' ? strchr(text, ']') : NULL;
    if (!end || end[1] != ':' || !gid(text + 1, (size_t)(end - text - 1), addr))
        return false;
    text = end + 2;
    if (!number(&text, ':', UINT16_MAX, &qpn) || !number(&text, '\0', UINT32_MAX, &qkey))
        return false;
    addr->qpn = (uint16_t)qpn;
    addr->qkey = (uint32_t)qkey;
    return true;
}

void efa_name_print(const struct efa_addr *addr, char text[EFA_NAME_TEXT])
{
    char gid_text[INET6_ADDRSTRLEN];

    inet_ntop(AF_INET6, addr->gid, gid_text, sizeof(gid_text));
    snprintf(text, EFA_NAME_TEXT, SCHEME "[%s]:%u:%u", gid_text, (unsigned)addr->qpn,
             (unsigned)addr->qkey);
}
