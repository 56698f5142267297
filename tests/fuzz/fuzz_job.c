/* SPDX-License-Identifier: BSD-2-Clause */
/* Any text as reports of the layer profile: what is read is put together and printed in every form.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/job_print.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void complain(const char *name, int line, const char *why)
{
    must(why[0] && line > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct job job = {0};
    FILE *out;

    must(job_add(&job, "one", (const char *)data, size, complain));
    must(job_link(&job));
    out = fopen("/dev/null", "we");
    must(out != NULL);
    if (job.source_count) {
        job_print_text(&job, out);
        job_print_json(&job, out);
        job_print_svg(&job, out);
    }
    fclose(out);
    for (int i = 0; i < job.section_count; i++) {
#ifdef FUZZ_PLANTED
        must(!job.sections[i].missing);
#endif
        must(job.sections[i].count > 0);
    }
    job_free(&job);
    return 0;
}
