/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/lnx/lnx_text.h"

#include <stdbool.h>
#include <string.h>

/* Halves of bytes, the upper one first. */
enum {
    HALF_COLON = 10, /* 0 to 9 are the digits */
    HALF_SCHEME,     /* "://" */
    HALF_OTHER,      /* two halves follow: a character */
    HALF_PREFIX,     /* "fi_" */
    HALF_ZEROS,      /* a half follows: how many '0' */
    HALF_END,
};

static const char scheme[] = "://", prefix[] = "fi_", zeros[] = "000000000000000";

enum {
    LEAST_ZEROS = 3 /* fewer take no more halves as digits */
};

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

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* Characters of text that it has written; 0: there is no room. */
static size_t put_next(struct halves *to, const char *text)
{
    size_t count = strspn(text, "0");

    if (begins(text, scheme))
        return put(to, HALF_SCHEME) ? strlen(scheme) : 0;
    if (begins(text, prefix))
        return put(to, HALF_PREFIX) ? strlen(prefix) : 0;
    if (count < LEAST_ZEROS)
        return put_char(to, *text);
    if (count > strlen(zeros))
        count = strlen(zeros);
    return put(to, HALF_ZEROS) && put(to, (unsigned)count) ? count : 0;
}

size_t lnx_text_pack(const char *text, unsigned char *out, size_t room)
{
    struct halves to = {out, 0, 2 * room};

    while (*text) {
        size_t count = put_next(&to, text);

        if (!count)
            return 0;
        text += count;
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

/* The text that half stands for, or NULL. c: room for one character. */
static const char *next_text(const unsigned char *in, size_t count, size_t *at, unsigned half,
                             char c[2])
{
    unsigned many;

    c[1] = 0;
    switch (half) {
    case HALF_COLON: return ":";
    case HALF_SCHEME: return scheme;
    case HALF_PREFIX: return prefix;
    case HALF_OTHER: return get_char(in, count, at, c) ? c : NULL;
    case HALF_ZEROS: return get(in, count, at, &many) && many ? zeros + strlen(zeros) - many : NULL;
    default: c[0] = (char)('0' + half); return c;
    }
}

size_t lnx_text_unpack(const unsigned char *in, size_t len, char *text, size_t size)
{
    size_t at = 0, used = 0;
    unsigned half = 0;

    while (get(in, 2 * len, &at, &half) && half != HALF_END) {
        char c[2];
        const char *next = next_text(in, 2 * len, &at, half, c);

        if (!next || strlen(next) >= size - used)
            return 0;
        memcpy(text + used, next, strlen(next));
        used += strlen(next);
    }
    if (half != HALF_END || !used)
        return 0;
    text[used] = 0;
    return (at + 1) / 2;
}
