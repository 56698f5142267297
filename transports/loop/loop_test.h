/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests: how many calls loop got from the calling thread. Each thread has counts of
 * its own, so that threads which share nothing else do not share these. Core's own work
 * (queues, counters, address vectors, completions, receives through a context) is not a call of
 * loop.
 */
#ifndef WEFT_LOOP_TEST_H
#define WEFT_LOOP_TEST_H

#include <stdint.h>

enum loop_call {
    LOOP_CALL_SEND, /* fi_send, fi_inject, ... */
    LOOP_CALL_TSEND,
    LOOP_CALL_RECV,
    LOOP_CALL_TRECV,
    LOOP_CALL_READ,
    LOOP_CALL_WRITE,
    LOOP_CALL_ATOMIC,
    LOOP_CALL_CANCEL,
    LOOP_CALL_PROGRESS, /* of one endpoint */
    LOOP_CALL_OPEN,     /* fi_fabric, fi_domain, fi_endpoint, fi_eq_open, ... */
    LOOP_CALL_CM,       /* connect, listen, accept, reject, shutdown */
    LOOP_CALL_OTHER,    /* close, getname, setname, ... */
    LOOP_CALLS,
};

extern _Thread_local uint64_t loop_calls[LOOP_CALLS] __attribute__((tls_model("initial-exec")));

#endif
