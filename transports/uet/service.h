/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The service file (UET_PROVIDER_SERVICE_PATH): what a job manager would tell the endpoints of a
 * process. Each line is a service, with fields in any order; what it does not say is the
 * parameters' to say.
 *
 *     # name   fields
 *     default  job=0x000101
 *     storage  job=7 pid=12 initiator=40 port=4800 addressing=absolute
 *
 * The facts that are known of the specification's provider name the variable, not the form, which
 * is of our own.
 */
#ifndef WEFT_UET_SERVICE_H
#define WEFT_UET_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum uet_service_field {
    SERVICE_JOB = 0x01,
    SERVICE_PID = 0x02,
    SERVICE_INITIATOR = 0x04,
    SERVICE_PORT = 0x08,
    SERVICE_ADDRESSING = 0x10,
};

struct uet_service {
    unsigned fields; /* enum uet_service_field: those that the line has */
    uint32_t job, initiator;
    uint16_t pid, port;
    bool absolute;
};

/* The service of that name. -FI_EINVAL, with a sentence in why that names file, line and cause: the
 * file cannot be read, any of its lines is wrong, or none is of the name. */
int uet_service_read(const char *path, const char *name, struct uet_service *service, char *why,
                     size_t why_size);

#endif
