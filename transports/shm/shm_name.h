/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses: FI_ADDR_STR texts "<scheme>://<name>" (fi_shm(7)). The scheme takes no part in
 * comparisons. An endpoint listens on an abstract unix socket that is named after user and name; a
 * complete name holds its user, any other means one of the caller's own.
 */
#ifndef WEFT_SHM_NAME_H
#define WEFT_SHM_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/socket.h>
#include <sys/un.h>

enum {
    SHM_NAME_MAX = 256 /* of an address, with its 0 */
};

/* An address from what a user gave: one that has a scheme as it is, another behind "fi_shm://" or,
 * with a service, "fi_ns://node:service". -FI_EINVAL: empty, too long, or not printable. */
int shm_name_make(const char *node, const char *service, char *name);
/* From an address of `len` bytes that an application passed. -FI_EINVAL. */
int shm_name_import(const void *raw, size_t len, char *name);
/* Could a peer's name of itself, in SHM_NAME_MAX bytes, be an address? */
bool shm_name_is_sound(const char *name);
/* "fi_shm://..." is not unique: an endpoint adds its user and a number. */
bool shm_name_is_open(const char *name);
int shm_name_complete(const char *open, unsigned number, char *name);
/* Two addresses of one endpoint? */
bool shm_name_equal(const char *a, const char *b);

/* The same for two addresses of one endpoint. */
uint64_t shm_name_hash(const char *name);
/* As fi_getname answers. */
int shm_name_give(const char *name, void *addr, size_t *len);
/* The socket address of the receive context with that index; returns its length. An endpoint that
 * has no contexts is context 0. */
socklen_t shm_name_socket(const char *name, unsigned context, struct sockaddr_un *sun);
/* The pid that a default address names, 0 when there is none in it. */
pid_t shm_name_pid(const char *name);

#endif
