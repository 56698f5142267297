/* SPDX-License-Identifier: BSD-2-Clause */
#include "compose/rail_links.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/net/addr.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static struct span trim(const char *text, struct span span)
{
    while (span.begin < span.end && is_blank(text[span.begin]))
        span.begin++;
    while (span.begin < span.end && is_blank(text[span.end - 1]))
        span.end--;
    return span;
}

/* The host of an address in FI_ADDR_STR form, without brackets and port; else the text itself. */
static void host_of(char *text)
{
    union addr addr;
    char shown[ADDR_TEXT_MAX], *end;
    const char *host = shown;

    if (!strstr(text, "://") || addr_from_str(text, strlen(text), &addr))
        return;
    addr_text(&addr.sa, shown, sizeof(shown));
    end = strrchr(shown, ':');
    if (end)
        *end = 0;
    end = strchr(shown, ']');
    if (end)
        *end = 0;
    host += *host == '[';
    if (strlen(host) <= strlen(text))
        memcpy(text, host, strlen(host) + 1);
}

static int put_rail(const char *addresses, struct span rail, struct text *out,
                    struct spec_error *error)
{
    char *name;

    if (rail.begin == rail.end) {
        if (addresses[rail.end]) /* a caret needs something to stand under */
            rail.end++;
        spec_fail(error, rail, "the address of a rail is empty");
        return -FI_EINVAL;
    }
    if (memchr(addresses + rail.begin, '"', rail.end - rail.begin)) {
        spec_fail(error, rail, "the address of a rail has no quotation mark");
        return -FI_EINVAL;
    }
    name = strndup(addresses + rail.begin, rail.end - rail.begin);
    if (!name)
        return -FI_ENOMEM;
    host_of(name);
    text_add(out, "rxm;tcp(");
    text_add_param(out, "iface", name);
    text_add(out, ")");
    free(name);
    return 0;
}

/* The first bytes of a config as a value of `policy`, on the heap; NULL: there are none. */
static char *policy_of(const char *config, size_t len)
{
    char *pairs = len ? strndup(config, len) : NULL;
    size_t kept = 0;

    for (size_t i = 0; pairs && pairs[i]; i++) {
        if (!is_blank(pairs[i]) && pairs[i] != '"')
            pairs[kept++] = pairs[i] == ',' ? '|' : pairs[i];
    }
    if (pairs)
        pairs[kept] = 0;
    return pairs;
}

static void put_config(const char *config, struct text *out)
{
    char *pairs = config ? policy_of(config, strlen(config)) : NULL;

    if (!pairs)
        return;
    text_add(out, "(");
    text_add_param(out, "policy", pairs);
    text_add(out, ")");
    free(pairs);
}

/* With the pairs before each, since they are to ascend. */
int rail_links_check(const struct param_def *defs, const char *config, struct spec_error *error)
{
    size_t len = config ? strlen(config) : 0;
    char why[sizeof(error->why)];

    while (defs && defs->key && strcmp(defs->key, "policy"))
        defs++;
    for (size_t at = 0; defs && defs->check && at < len;) {
        struct span pair = {at, at + strcspn(config + at, ",")};
        char *pairs = policy_of(config, pair.end);
        int rc = pairs ? defs->check(pairs, why, sizeof(why)) : -FI_ENOMEM;

        free(pairs);
        at = pair.end + 1;
        if (!rc)
            continue;
        spec_fail(error, trim(config, pair), "%s", rc == -FI_ENOMEM ? "no memory" : why);
        return -FI_EINVAL;
    }
    return 0;
}

int rail_links_translate(const char *addresses, const char *config, char **spec,
                         struct spec_error *error)
{
    size_t at = 0, len = strlen(addresses);
    struct text out = {0};
    int rc = 0;

    text_add(&out, "mrail");
    put_config(config, &out);
    text_add(&out, ";[");
    while (!rc && at <= len) {
        struct span rail = {at, at + strcspn(addresses + at, ",")};

        text_add(&out, at ? "+" : "");
        at = rail.end + 1;
        rc = put_rail(addresses, trim(addresses, rail), &out, error);
    }
    text_add(&out, "]");
    *spec = text_take(&out);
    if (!rc && !*spec)
        rc = -FI_ENOMEM;
    if (rc) {
        free(*spec);
        *spec = NULL;
    }
    return rc;
}
