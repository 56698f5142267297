/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_strerror: texts of the fabric error codes, and errno's below FI_ERRNO_OFFSET. fi_errno(3). */
#include <limits.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <rdma/fi_errno.h>

static const char *const fabric_text[] = {
    [FI_EOTHER - FI_ERRNO_OFFSET] = "Unspecified error",
    [FI_ETOOSMALL - FI_ERRNO_OFFSET] = "Provided buffer is too small",
    [FI_EOPBADSTATE - FI_ERRNO_OFFSET] = "Operation not permitted in current state",
    [FI_EAVAIL - FI_ERRNO_OFFSET] = "Error available",
    [FI_EBADFLAGS - FI_ERRNO_OFFSET] = "Flags not supported",
    [FI_ENOEQ - FI_ERRNO_OFFSET] = "Missing or unavailable event queue",
    [FI_EDOMAIN - FI_ERRNO_OFFSET] = "Invalid resource domain",
    [FI_ENOCQ - FI_ERRNO_OFFSET] = "Missing or unavailable completion queue",
    [FI_ECRC - FI_ERRNO_OFFSET] = "CRC error",
    [FI_ETRUNC - FI_ERRNO_OFFSET] = "Truncation error",
    [FI_ENOKEY - FI_ERRNO_OFFSET] = "Required key not available",
    [FI_ENOAV - FI_ERRNO_OFFSET] = "Missing or unavailable address vector",
    [FI_EOVERRUN - FI_ERRNO_OFFSET] = "Queue has been overrun",
    [FI_ENORX - FI_ERRNO_OFFSET] = "Receiver not ready, no receive buffers available",
    [FI_ENOMR - FI_ERRNO_OFFSET] = "No more memory registrations available",
    [FI_EFIREWALLADDR - FI_ERRNO_OFFSET] = "Host unreachable through its firewall address",
};

_Static_assert(sizeof(fabric_text) / sizeof(*fabric_text) == FI_ERRNO_MAX - FI_ERRNO_OFFSET,
               "every fabric error code has a text");

#ifdef WEFT_HAVE_STRERRORDESC_NP
/* It needs no buffer, takes no locale and no lock; its texts are static. */
static const char *known_text(int code)
{
    return strerrordesc_np(code);
}
#else
/* With a locale of its own strerror_l gives the same: a static text, or one of the thread. */
static locale_t plain_locale;

static void open_locale(void)
{
    plain_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static const char *known_text(int code)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const char *text;

    pthread_once(&once, open_locale);
    if (!plain_locale)
        return NULL;
    text = strerror_l(code, plain_locale);
    /* This is how musl says that it knows none. */
    return code && !strcmp(text, "No error information") ? NULL : text;
}
#endif

static const char *system_text(int code)
{
    static _Thread_local char unknown[48];
    const char *text = known_text(code);

    if (text)
        return text;
    snprintf(unknown, sizeof(unknown), "Unknown error %d", code);
    return unknown;
}

__attribute__((visibility("default"))) const char *fi_strerror(int errnum)
{
    /* Callers that hand over a return value as it came mean its positive code. */
    int code = errnum == INT_MIN ? INT_MAX : errnum < 0 ? -errnum : errnum;

    if (code < FI_ERRNO_OFFSET)
        return system_text(code);
    if (code < FI_ERRNO_MAX)
        return fabric_text[code - FI_ERRNO_OFFSET];
    return fabric_text[FI_EOTHER - FI_ERRNO_OFFSET];
}
