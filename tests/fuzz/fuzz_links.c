/* SPDX-License-Identifier: BSD-2-Clause */
/* Any text of FI_LNX_PROV_LINKS and FI_LNX_MULTI_RAIL_SELECTION: a spec that parses, with one stack
 * for each link, or a refusal with a place inside of the text. The first byte says what the other
 * variables are. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compose/links.h"
#include "compose/place.h"
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

/* In the place of joins without a bracket: they have one then. */
static void check_placed(const char *join, const char *by, size_t index)
{
    const struct parts *parts = registry_parts();
    char text[64];
    struct spec_error error;
    struct spec *spec;
    int rc;

    snprintf(text, sizeof(text), "noop;%s,%s;noop,mrail;[%s+%s(strict=yes)]", join, join, join,
             join);
    must(!spec_parse(text, &spec, &error));
    for (size_t i = 0; i < spec->stack_count; i++) {
        must(place_has(parts, &spec->stacks[i], join));
        rc = place_put(parts, &spec->stacks[i], join, by, index, &error);
        must(rc == 0 || (rc == -FI_EINVAL && strlen(by) > SPEC_MAX));
        must(rc || !place_has(parts, &spec->stacks[i], join));
        if (rc)
            check_refused(text, &error);
    }
    spec_destroy(spec);
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
    check_placed("lnx", made, place_count(made) - 1);
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
    check_placed("mrail", made, 0);
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
