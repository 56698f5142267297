/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Configuration variables: the environment, and the configuration file behind it (in front of it
 * with FI_PREFER_SYSCONFIG). The file is `<sysconfdir>/libfabric.conf` or FI_CONF_FILE, and is read
 * again only when that names another one. Its bad lines are shown to the user once.
 */
#ifndef WEFT_CORE_PARAM_PARAM_ENV_H
#define WEFT_CORE_PARAM_PARAM_ENV_H

#include <stddef.h>

/* The value of a variable ("FI_TCP_IFACE"), or NULL. Values of the file live as long as the
 * process, values of the environment until it is changed. */
const char *param_variable(const char *name);

/* Where param_variable has the value from: "FI_TCP_IFACE", or for the file
 * "/etc/libfabric.conf:3: FI_TCP_IFACE". Returns text. */
char *param_variable_origin(const char *name, char *text, size_t size);

/* "FI_" "tcp" "_" "port-low" -> "FI_TCP_PORT_LOW"; part NULL: "FI_<key>". Returns text. */
char *param_variable_name(const char *part, const char *key, char *text, size_t size);

/* Calls visit for each variable that the file sets, with where ("/etc/libfabric.conf:3"), in
 * their order. */
void param_file_each(void (*visit)(const char *name, const char *where, void *arg), void *arg);

#endif
