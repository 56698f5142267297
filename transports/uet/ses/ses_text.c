/* SPDX-License-Identifier: BSD-2-Clause */
#include <stddef.h>

#include "transports/uet/ses/ses.h"

static const char *const texts[] = {
    [RC_BAD_GENERATION] = "the endpoint has another generation",
    [RC_DISABLED] = "the address takes no requests",
    [RC_DISABLED_GEN] = "the generation takes no requests",
    [RC_NO_MATCH] = "no receive matches the message",
    [RC_UNSUPPORTED_OP] = "an operation that the target does not know",
    [RC_UNSUPPORTED_SIZE] =
        "a size that the target does not take (payload sizes of both ends are equal, see payload=)",
    [RC_AT_INVALID] = "the target's memory cannot be translated",
    [RC_AT_PERM] = "the target's memory does not permit the access",
    [RC_AT_ATS_ERROR] = "the target failed to translate an address",
    [RC_AT_NO_TRANS] = "the target's memory is not there",
    [RC_AT_OUT_OF_RANGE] = "beyond the target's memory",
    [RC_HOST_POISONED] = "the target's memory is damaged",
    [RC_HOST_UNSUCCESSFUL] = "the target's host failed",
    [RC_AMO_UNSUPPORTED_OP] = "an atomic operation that the target does not know",
    [RC_AMO_UNSUPPORTED_DT] = "an atomic datatype that the target does not know",
    [RC_AMO_UNSUPPORTED_SIZE] = "an atomic size that the target does not know",
    [RC_AMO_UNALIGNED] = "an atomic on memory that is not aligned",
    [RC_AMO_FP_NAN] = "the result is not a number",
    [RC_AMO_FP_UNDERFLOW] = "the result is too small",
    [RC_AMO_FP_OVERFLOW] = "the result is too large",
    [RC_AMO_FP_INEXACT] = "the result is not exact",
    [RC_PERM_VIOLATION] = "the region does not permit the access",
    [RC_OP_VIOLATION] = "the region does not permit the operation",
    [RC_BAD_INDEX] = "no resource at that index",
    [RC_BAD_PID] = "no process of that PIDonFEP",
    [RC_BAD_JOB_ID] = "another job",
    [RC_BAD_MKEY] = "no region has that key",
    [RC_BAD_ADDR] = "the memory does not belong to the region",
    [RC_CANCELLED] = "cancelled",
    [RC_UNDELIVERABLE] = "not delivered: the peer does not answer",
    [RC_UNCOR] = "an error that stays",
    [RC_UNCOR_TRANSIENT] = "an error that may pass",
    [RC_TOO_LONG] = "longer than the receive",
    [RC_INITIATOR_ERR] = "the initiator gave up",
    [RC_DROPPED] = "the target dropped the message",
};

const char *ses_code_text(int code)
{
    return code >= 0 && code < (int)(sizeof(texts) / sizeof(*texts)) ? texts[code] : NULL;
}
