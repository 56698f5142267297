/* SPDX-License-Identifier: BSD-2-Clause */
/* The emulator's lines on stderr: `weft-emulator[pid]: text`. */
#ifndef WEFT_EMULATOR_REPORT_H
#define WEFT_EMULATOR_REPORT_H

/* Always shown: bad settings, and uses of the interface that no device could answer. */
void report_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Shown with WEFT_EMULATOR_VERBOSE=1: why a call was refused, why a request failed. */
void report_why(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
