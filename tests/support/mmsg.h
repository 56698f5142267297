/* SPDX-License-Identifier: BSD-2-Clause */
/* The type of the flags of sendmmsg and recvmmsg, which C libraries do not agree upon, for programs
 * that define these calls. */
#ifndef WEFT_TESTS_SUPPORT_MMSG_H
#define WEFT_TESTS_SUPPORT_MMSG_H

#include <sys/socket.h>

#ifdef __GLIBC__
typedef int mmsg_flags;
#else
typedef unsigned mmsg_flags;
#endif

#endif
