/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A value that the user typed, in a spec or in the variable of a parameter, that is correct and can
 * give nothing here whatever an application asks for: tcp(iface=nope0), rxm;fault(drop=10%);tcp.
 */
#ifndef WEFT_COMPOSE_CULPRIT_H
#define WEFT_COMPOSE_CULPRIT_H

#include "compose/candidate.h"

/*
 * Shows them (log_user) for candidates that gave nothing (candidate.infos): each choice of the user
 * when no candidate gave anything, else those with parameters that the user set. A choice that
 * gives something to a question without hints is no culprit: then the question is. wanted: the name
 * in the hints, for candidates that are spelled there. Returns how many it found. Asks the parts
 * for offers; may allocate, and finds nothing without memory.
 */
size_t culprits_show(const struct candidates *candidates, const struct environment *environment,
                     const char *wanted);

#endif
