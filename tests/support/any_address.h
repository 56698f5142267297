/* SPDX-License-Identifier: BSD-2-Clause */
/* The arguments of socket calls, for tests that stand before them: glibc's header declares a union
 * of pointers. */
#ifndef WEFT_TESTS_SUPPORT_ANY_ADDRESS_H
#define WEFT_TESTS_SUPPORT_ANY_ADDRESS_H

#include <sys/socket.h>

#ifdef __GLIBC__
typedef __SOCKADDR_ARG any_address;
typedef __CONST_SOCKADDR_ARG any_const_address;
#define ADDRESS(any) ((any).__sockaddr__)
#else
typedef struct sockaddr *any_address;
typedef const struct sockaddr *any_const_address;
#define ADDRESS(any) (any)
#endif

#endif
