/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "core/arq/session_impl.h"

static struct session_assembly *find(struct session *session, uint64_t serial)
{
    struct session_assembly *unused = NULL;

    if (!session->assemblies)
        session->assemblies = calloc(SESSION_ASSEMBLIES, sizeof(*session->assemblies));
    if (!session->assemblies)
        return NULL;
    for (size_t i = 0; i < SESSION_ASSEMBLIES; i++) {
        struct session_assembly *assembly = &session->assemblies[i];

        if (assembly->bytes && assembly->serial == serial)
            return assembly;
        if (!assembly->bytes)
            unused = assembly;
    }
    return unused;
}

bool session_has_pieces(const struct session *session, uint64_t serial)
{
    for (size_t i = 0; session->assemblies && i < SESSION_ASSEMBLIES; i++) {
        const struct session_assembly *assembly = &session->assemblies[i];

        if (assembly->bytes && assembly->serial == serial)
            return true;
    }
    return false;
}

/* A sender cuts a message anew when the path takes less, so pieces only get smaller. A late one of
 * the former cut says nothing: its sender needs no acknowledgement of it. */
static bool is_former(const struct session_assembly *assembly, const struct arq_header *header)
{
    return assembly->bytes && header->size > assembly->size;
}

/* The bytes of a former cut are useless. */
static bool begin(struct session_assembly *assembly, uint64_t serial,
                  const struct arq_header *header)
{
    if (assembly->bytes && assembly->pieces == header->pieces && assembly->size == header->size)
        return true;
    session_assembled(assembly);
    assembly->bytes = malloc((size_t)header->pieces * header->size);
    if (!assembly->bytes)
        return false;
    assembly->serial = serial;
    assembly->pieces = header->pieces;
    assembly->size = header->size;
    assembly->missing = session_pieces_bits(header->pieces);
    assembly->len = 0;
    return true;
}

bool session_assemble(struct session *session, uint64_t serial, const struct arq_header *header,
                      const uint8_t *payload, size_t len, struct session_assembly **whole)
{
    struct session_assembly *assembly = find(session, serial);

    *whole = NULL;
    if (assembly && is_former(assembly, header))
        return true;
    if (!assembly || !begin(assembly, serial, header))
        return false;
    if (assembly->missing & UINT64_C(1) << header->piece) {
        memcpy(assembly->bytes + arq_piece_at(header->piece, header->size), payload, len);
        assembly->missing &= ~(UINT64_C(1) << header->piece);
        assembly->len += len;
    }
    if (!assembly->missing)
        *whole = assembly;
    return true;
}

void session_assembled(struct session_assembly *assembly)
{
    free(assembly->bytes);
    assembly->bytes = NULL;
}

void session_pieces_rest(struct session *session)
{
    for (size_t i = 0; session->assemblies && i < SESSION_ASSEMBLIES; i++)
        if (session->assemblies[i].bytes)
            return;
    free(session->assemblies);
    session->assemblies = NULL;
}
