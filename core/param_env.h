/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Configuration variables: the environment, and the configuration file behind it (in front of it
 * with FI_PREFER_SYSCONFIG). The file is `<sysconfdir>/libfabric.conf` or FI_CONF_FILE, and is read
 * again only when that names another one. Its bad lines are shown to the user once.
 */
#ifndef WEFT_CORE_PARAM_ENV_H
#define WEFT_CORE_PARAM_ENV_H

#include <stddef.h>

/* The value of a variable ("FI_TCP_IFACE"), or NULL. Those of the file live as long as the process,
 * those of the environment until it is changed. */
const char *param_variable(const char *name);

/* "FI_" "tcp" "_" "port-low" -> "FI_TCP_PORT_LOW"; part NULL: "FI_<key>". Returns text. */
char *param_variable_name(const char *part, const char *key, char *text, size_t size);

/* Calls visit for each variable that the file sets, with where ("/etc/libfabric.conf:3"). */
void param_file_each(void (*visit)(const char *name, const char *where, void *arg), void *arg);

#endif
