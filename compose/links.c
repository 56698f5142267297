/* SPDX-License-Identifier: BSD-2-Clause */
#include "compose/links.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/param/param_value.h"

struct links {
    const struct parts *parts;
    const char *text;
    bool no_shm, per_msg;
    struct text out;
    struct spec_error *error;
};

/* The part of the text before any of `ends`. */
static struct span cut(const char *text, struct span whole, const char *ends)
{
    struct span span = {whole.begin, whole.begin};

    while (span.end < whole.end && !strchr(ends, text[span.end]))
        span.end++;
    return span;
}

static struct span trim(const char *text, struct span span)
{
    while (span.begin < span.end && strchr(" \t", text[span.begin]))
        span.begin++;
    while (span.begin < span.end && strchr(" \t", text[span.end - 1]))
        span.end--;
    return span;
}

static int fail_empty(const struct links *links, struct span span, const char *what)
{
    /* A caret needs something to stand under. */
    if (span.begin == span.end && links->text[span.end])
        span.end++;
    spec_fail(links->error, span, "%s is empty", what);
    return -FI_EINVAL;
}

static int find_part(const struct links *links, struct span span, const struct part **part)
{
    char *name = strndup(links->text + span.begin, span.end - span.begin);
    char why[sizeof(links->error->why)];
    bool probe;

    if (!name)
        return -FI_ENOMEM;
    *part = parts_find(links->parts, name);
    if (!*part)
        spec_fail(links->error, span, "%s",
                  parts_explain(links->parts, name, why, sizeof(why), &probe));
    free(name);
    return *part ? 0 : -FI_EINVAL;
}

/* NAME;NAME, the transport among them with that domain. */
static int put_provider(struct links *links, struct span provider, const char *domain)
{
    size_t at = provider.begin;
    int rc = 0;

    while (!rc && at <= provider.end) {
        struct span whole = cut(links->text, (struct span){at, provider.end}, ";");
        struct span name = trim(links->text, whole);
        const struct part *part;

        if (name.begin == name.end)
            return fail_empty(links, whole, "the name of a provider");
        rc = find_part(links, name, &part);
        if (rc)
            break;
        if (!strcmp(part->name, "lnx")) {
            spec_fail(links->error, name,
                      "lnx is what joins the providers of a link, not one of them");
            return -FI_EINVAL;
        }
        text_add(&links->out, "%s%s", at == provider.begin ? "" : ";", part->name);
        if (domain && part->kind == PART_TRANSPORT) {
            text_add(&links->out, "(");
            text_add_param(&links->out, PART_DOMAIN, domain);
            text_add(&links->out, ")");
        }
        at = whole.end + 1;
    }
    return rc;
}

static int put_domains(struct links *links, struct span provider, struct span domains)
{
    size_t at = domains.begin;
    int rc = 0;

    while (!rc && at <= domains.end) {
        struct span whole = cut(links->text, (struct span){at, domains.end}, ",");
        struct span name = trim(links->text, whole);
        char *domain;

        if (name.begin == name.end)
            return fail_empty(links, whole, "the name of a domain");
        if (memchr(links->text + name.begin, '"', name.end - name.begin)) {
            spec_fail(links->error, name, "the name of a domain has no quotation mark");
            return -FI_EINVAL;
        }
        domain = strndup(links->text + name.begin, name.end - name.begin);
        if (!domain)
            return -FI_ENOMEM;
        text_add(&links->out, "%s", at == domains.begin ? "" : "+");
        rc = put_provider(links, provider, domain);
        free(domain);
        at = whole.end + 1;
    }
    return rc;
}

static bool is_shm(const struct links *links, struct span provider)
{
    return provider.end - provider.begin == 3 &&
           !strncasecmp(links->text + provider.begin, "shm", 3);
}

static int put_member(struct links *links, struct span member, size_t *count)
{
    struct span provider = cut(links->text, member, ":");
    struct span domains = {provider.end + 1, member.end};
    bool has_domains = provider.end < member.end;

    provider = trim(links->text, provider);
    if (provider.begin == provider.end)
        return fail_empty(links, member, "a provider of the link");
    if (links->no_shm && is_shm(links, provider))
        return 0;
    text_add(&links->out, "%s", (*count)++ ? "+" : "");
    return has_domains ? put_domains(links, provider, domains)
                       : put_provider(links, provider, NULL);
}

static int put_link(struct links *links, struct span link)
{
    size_t at = link.begin, count = 0;
    int rc = 0;

    text_add(&links->out, links->per_msg ? "lnx(rails=per_msg);[" : "lnx;[");
    while (!rc && at <= link.end) {
        struct span member = cut(links->text, (struct span){at, link.end}, "+");

        rc = put_member(links, member, &count);
        at = member.end + 1;
    }
    text_add(&links->out, "]");
    if (!rc && !count) {
        spec_fail(links->error, link, "FI_LNX_DISABLE_SHM leaves nothing of this link");
        return -FI_EINVAL;
    }
    return rc;
}

int links_translate(const struct parts *parts, const char *text, bool no_shm, bool per_msg,
                    char **spec, struct spec_error *error)
{
    struct links links = {
        .parts = parts, .text = text, .no_shm = no_shm, .per_msg = per_msg, .error = error};
    size_t at = 0, len = strlen(text);
    int rc = 0;

    while (!rc && at <= len) {
        struct span link = cut(text, (struct span){at, len}, "|");

        text_add(&links.out, "%s", at ? "," : "");
        rc = put_link(&links, link);
        at = link.end + 1;
    }
    *spec = text_take(&links.out);
    if (!rc && !*spec)
        rc = -FI_ENOMEM;
    if (rc) {
        free(*spec);
        *spec = NULL;
    }
    return rc;
}

int links_no_shm(const char *text, bool *no_shm, struct spec_error *error)
{
    static const struct param_def def = {.key = "FI_LNX_DISABLE_SHM", .type = PARAM_BOOL};
    int64_t number = 0;
    char why[sizeof(error->why)];
    int rc = text && *text ? param_value_parse(&def, text, &number, why, sizeof(why)) : 0;

    *no_shm = !rc && number;
    if (rc)
        spec_fail(error, (struct span){0, strlen(text)},
                  "'%s' is not yes or no (1/0, true/false, on/off)", text);
    return rc;
}

int links_per_msg(const char *text, bool *per_msg, struct spec_error *error)
{
    *per_msg = text && !strcasecmp(text, "PER_MSG");
    if (!text || !*text || *per_msg || !strcasecmp(text, "PER_PEER"))
        return 0;
    spec_fail(error, (struct span){0, strlen(text)},
              "'%s' is no way to select a network; there are PER_MSG and PER_PEER", text);
    return -FI_EINVAL;
}

bool links_option(const char *variable, const char *text,
                  int (*read)(const char *text, bool *on, struct spec_error *error))
{
    struct spec_error error;
    bool on;
    char *shown;

    if (!read(text, &on, &error))
        return on;
    shown = spec_error_text(variable, text, &error);
    if (shown)
        log_user("%s", shown);
    free(shown);
    return on;
}
