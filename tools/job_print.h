/* SPDX-License-Identifier: BSD-2-Clause */
/* The outputs of fi_profile. */
#ifndef WEFT_JOB_PRINT_H
#define WEFT_JOB_PRINT_H

#include <stdio.h>

#include "job_model.h"

void job_print_text(const struct job *job, FILE *out);
void job_print_json(const struct job *job, FILE *out);
void job_print_svg(const struct job *job, FILE *out);

/* ---- Between the printers ---- */

/* "3 processes of ring over tcp on 1 machine, 2.1 s". Returns text. */
char *job_title(const struct job_section *section, char *text, size_t size);
/* "12.5k"; units of 1000. Returns text. */
char *job_human(double value, char *text, size_t size);
/* Bytes given to sends, writes and the like, and bytes that came. */
struct job_process job_total(const struct job_section *section);
bool job_has_matrix(const struct job_section *section);

#endif
