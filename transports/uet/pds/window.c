/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/uet/pds/window.h"

#include <stddef.h>

const struct window_ops window_fixed = {
    .name = "fixed",
    .summary = "always the same number of bytes",
};
