/* SPDX-License-Identifier: BSD-2-Clause */
/* Any text of FI_LNX_PROV_LINKS and FI_LNX_MULTI_RAIL_SELECTION: a spec that parses, with one stack
 * for each link, or a refusal with a place inside of the text. The first byte says what the other
 * variables are. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "compose/links.h"
#include "compose/rail_links.h"
#include "compose/registry.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t count_links(const char *text)
{
    size_t count = 1;

    for (; *text; text++)
        count += *text == '|';
    return count;
}

static void check_refused(const char *text, const struct spec_error *error)
{
    char *shown = spec_error_text("fuzz", text, error);

    must(shown && error->span.begin <= error->span.end && error->span.end <= strlen(text));
    free(shown);
}

static void check_links(const char *text, bool no_shm, bool per_msg)
{
    struct spec_error error;
    struct spec *spec;
    char *made;
    int rc = links_translate(registry_parts(), text, no_shm, per_msg, &made, &error);

    if (rc) {
        must(rc == -FI_EINVAL && !made);
        check_refused(text, &error);
        return;
    }
#ifdef FUZZ_PLANTED
    /* As if a link after the first were forgotten. */
    char *comma = strstr(made, ",lnx");
    if (comma)
        *comma = 0;
#endif
    if (strlen(made) <= SPEC_MAX) {
        must(!spec_parse(made, &spec, &error));
        must(spec->stack_count == count_links(text));
        spec_destroy(spec);
    }
    free(made);
}

/* Of rails: addresses, and behind the first ';' pairs. */
static void check_rails(char *text)
{
    char *config = strchr(text, ';'), *made = NULL;
    struct spec_error error;
    struct spec *spec = NULL;

    if (config)
        *config++ = 0;
    if (rail_links_check(part_params(parts_find(registry_parts(), "mrail")), config, &error)) {
        check_refused(config, &error);
        return;
    }
    if (rail_links_translate(text, config, &made, &error)) {
        check_refused(text, &error);
        return;
    }
    if (strlen(made) <= SPEC_MAX) {
        must(!spec_parse(made, &spec, &error));
        must(spec->stack_count == 1);
    }
    spec_destroy(spec);
    free(made);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spec_error error;
    bool per_msg, no_shm;
    char *text;

    if (!size)
        return 0;
    text = malloc(size);
    must(!!text);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    check_links(text, data[0] & 1, data[0] & 2);
    if (links_per_msg(text, &per_msg, &error)) {
        must(!per_msg);
        check_refused(text, &error);
    }
    if (links_no_shm(text, &no_shm, &error)) {
        must(!no_shm);
        check_refused(text, &error);
    }
    check_rails(text);
    free(text);
    return 0;
}
