/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/lnx/lnx_text.h"

#include <stdbool.h>
#include <string.h>

/* Halves of bytes, the upper one first. */
enum {
    HALF_COLON = 10, /* 0 to 9 are the digits */
    HALF_SCHEME,     /* "://" */
    HALF_OTHER,      /* two halves follow: a character */
    HALF_END = 15,
};

static const char scheme[] = "://";

struct halves {
    unsigned char *bytes;
    size_t at, count;
};

static bool put(struct halves *to, unsigned half)
{
    if (to->at == to->count)
        return false;
    if (to->at % 2)
        to->bytes[to->at / 2] |= (unsigned char)half;
    else
        to->bytes[to->at / 2] = (unsigned char)(half << 4);
    to->at++;
    return true;
}

static bool put_char(struct halves *to, char c)
{
    unsigned code = (unsigned char)c;

    if (c >= '0' && c <= '9')
        return put(to, code - '0');
    if (c == ':')
        return put(to, HALF_COLON);
    return put(to, HALF_OTHER) && put(to, code >> 4) && put(to, code & 15);
}

size_t lnx_text_pack(const char *text, unsigned char *out, size_t room)
{
    struct halves to = {out, 0, 2 * room};

    while (*text) {
        bool is_scheme = !strncmp(text, scheme, sizeof(scheme) - 1);

        if (!(is_scheme ? put(&to, HALF_SCHEME) : put_char(&to, *text)))
            return 0;
        text += is_scheme ? sizeof(scheme) - 1 : 1;
    }
    return put(&to, HALF_END) ? (to.at + 1) / 2 : 0;
}

static bool get(const unsigned char *in, size_t count, size_t *at, unsigned *half)
{
    if (*at == count)
        return false;
    *half = *at % 2 ? in[*at / 2] & 15 : in[*at / 2] >> 4;
    ++*at;
    return true;
}

static bool get_char(const unsigned char *in, size_t count, size_t *at, char *c)
{
    unsigned upper, lower;

    if (!get(in, count, at, &upper) || !get(in, count, at, &lower))
        return false;
    *c = (char)(upper << 4 | lower);
    return (upper << 4 | lower) > ' ' && (upper << 4 | lower) < 0x7f;
}

size_t lnx_text_unpack(const unsigned char *in, size_t len, char *text, size_t size)
{
    size_t at = 0, used = 0;
    unsigned half = 0;

    while (get(in, 2 * len, &at, &half) && half != HALF_END) {
        if (used + sizeof(scheme) > size)
            return 0;
        if (half == HALF_SCHEME)
            used += (size_t)(stpcpy(text + used, scheme) - (text + used));
        else if (half == HALF_OTHER && get_char(in, 2 * len, &at, &text[used]))
            used++;
        else if (half <= HALF_COLON)
            text[used++] = half == HALF_COLON ? ':' : (char)('0' + half);
        else
            return 0;
    }
    if (half != HALF_END || !used)
        return 0;
    text[used] = 0;
    return (at + 1) / 2;
}
