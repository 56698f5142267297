/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Allocations that fail when a test says so. A program named in `sweeps` of its meson.build has its
 * own malloc, calloc, realloc and free, with which this counts; not beside a sanitizer, which has
 * them already.
 */
#ifndef WEFT_TESTS_SUPPORT_NOMEM_H
#define WEFT_TESTS_SUPPORT_NOMEM_H

#include <stdlib.h>

/* Only glibc has names behind malloc and its kin. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define NOMEM_WORKS 0
#else
#define NOMEM_WORKS 1
#endif

extern long nomem_at;   /* the allocation that fails, counted down; 0: none, or it has failed */
extern int nomem_all;   /* each one fails, as long as it is set */
extern long nomem_live; /* allocations that were not freed */
extern long nomem_made; /* allocations, freed or not */

#endif
