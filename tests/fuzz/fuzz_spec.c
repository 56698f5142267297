/* SPDX-License-Identifier: BSD-2-Clause */
/* Any text: it parses or is refused with a span inside it; what parses prints a fixed point. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "compose/spec.h"
#include "../support/spec_print.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void round_trip(const struct spec *spec)
{
    struct spec_error error;
    struct spec *again;
    char *printed = spec_print(spec);
    char *reprinted;

    must(!!printed);
#ifdef FUZZ_PLANTED
    /* As if the printer forgot that an empty value needs its quotes. */
    char *empty = strstr(printed, "=\"\"");
    if (empty)
        memmove(empty + 1, empty + 3, strlen(empty + 3) + 1);
#endif
    if (strlen(printed) <= SPEC_MAX) {
        must(spec_parse(printed, &again, &error) == 0);
        reprinted = spec_print(again);
        must(reprinted && !strcmp(printed, reprinted));
        spec_destroy(again);
        free(reprinted);
    }
    free(printed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct spec_error error;
    struct spec *spec;

    must(!!text);
    memcpy(text, data, size);
    text[size] = 0;
    if (!spec_parse(text, &spec, &error)) {
        round_trip(spec);
        spec_destroy(spec);
    } else {
        char *shown = spec_error_text("fuzz", text, &error);

        must(shown && error.span.begin <= error.span.end && error.span.end <= strlen(text));
        free(shown);
    }
    free(text);
    return 0;
}
