/* SPDX-License-Identifier: BSD-2-Clause */
/* The socket that an endpoint's peers find under its name. */
#ifndef WEFT_SHM_LISTENER_H
#define WEFT_SHM_LISTENER_H

#include <stdbool.h>

/* A socket that peers find under the name, which becomes complete; *listener, if it is one, is
 * closed. -FI_EADDRINUSE, ... */
int shm_listener_open(char *name, int *listener);
/* The same under a complete name, of a receive context. */
int shm_listener_bind(const char *name, unsigned context, int *listener);
/* There is an endpoint of that name, enabled or not. */
bool shm_listener_is_bound(const char *name);

#endif
