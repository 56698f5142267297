/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints the man page weft_<part>.7 of one part, from its table. Used when Weft is built. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "compose/registry.h"
#include "core/param/param.h"
#include "core/param/param_alias.h"
#include "core/part/part.h"

/* Text that roff shall print as it stands, without a line end. A dot or quote that starts a line,
 * and every backslash, mean something to roff. */
static void print_text(const char *text, size_t length)
{
    bool line_start = true;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (line_start && (c == '.' || c == '\''))
            fputs("\\&", stdout);
        if (c == '\\')
            fputs("\\e", stdout);
        else if (c == '-')
            fputs("\\-", stdout);
        else
            putchar(c);
        line_start = c == '\n';
        /* A sentence starts a line, so that roff spaces it. */
        if (c == '.' && i + 1 < length && text[i + 1] == ' ' && i + 2 < length &&
            isupper((unsigned char)text[i + 2])) {
            putchar('\n');
            line_start = true;
            i++;
        }
    }
}

static void print_line(const char *text)
{
    print_text(text, strlen(text));
    putchar('\n');
}

/* A macro's line whose argument is text, kept from being read as a macro, then what follows it. */
static void print_request(const char *macro, const char *text, const char *after)
{
    printf(".%s \\&", macro);
    print_text(text, strlen(text));
    puts(after);
}

/* Paragraphs are separated by empty lines, which roff does not want to see. */
static void print_paragraphs(const char *text)
{
    while (*text) {
        const char *end = strstr(text, "\n\n");
        size_t length = end ? (size_t)(end - text) : strlen(text);
        while (length && text[length - 1] == '\n')
            length--;
        print_text(text, length);
        putchar('\n');
        if (!end)
            return;
        text = end + strspn(end, "\n");
        if (*text)
            puts(".Pp");
    }
}

static const char *const kind_text[] = {
    [PART_TRANSPORT] = "a transport: the end of a stack",
    [PART_LAYER] = "a layer: it stands on one lower part",
    [PART_JOIN] = "a join: it stands on several lower parts",
};

static const char *const type_text[] = {
    [PARAM_STRING] = "text",
    [PARAM_INT] = "whole number",
    [PARAM_BOOL] = "yes or no",
    [PARAM_SIZE] = "size in bytes, with k, m or g",
    [PARAM_TIME] = "time: 500ms, 10s, 2m",
    [PARAM_PERCENT] = "percentage: 5%, 0.25%",
    [PARAM_LIST] = "list, separated by '|'",
    [PARAM_CHOICE] = "one of",
};

static void print_endpoint_types(const char *before, unsigned set)
{
    static const struct {
        unsigned bit;
        const char *name;
    } types[] = {
        {EP_SET(FI_EP_MSG), "FI_EP_MSG"},
        {EP_SET(FI_EP_DGRAM), "FI_EP_DGRAM"},
        {EP_SET(FI_EP_RDM), "FI_EP_RDM"},
    };
    const char *separator = before;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (set & types[i].bit) {
            printf("%s%s", separator, types[i].name);
            separator = ", ";
        }
    }
    if (separator != before)
        puts(".");
}

static void print_place(const struct part *part)
{
    puts(".Sh PLACE IN A STACK");
    print_request("Nm", part->name, "");
    printf("is %s.\n", kind_text[part->kind]);
    if (part->transparent)
        puts("It changes nothing of what its lower offers, so it may stand anywhere,\n"
             "any number of times.");
    print_endpoint_types("It gives ", part->provides_ep);
    print_endpoint_types("It stands on ", part->requires_ep);
    if (part->hidden)
        puts("It is used only where it is named.");
    if (part->prov_name && strcmp(part->prov_name, part->name)) {
        puts("In the names of providers it is written");
        print_request("Ql", part->prov_name, "");
        puts("as upstream does.");
    }
    if (part->aliases && part->aliases[0]) {
        puts("It also answers to");
        for (const char *const *alias = part->aliases; *alias; alias++)
            print_request("Ql", *alias, alias[1] ? " ," : " .");
    }
}

static void print_param(const struct part *part, const struct param_def *def)
{
    print_request("It Cm", def->key, "");
    print_line(def->help);
    puts(".br");
    printf("Type: %s", type_text[def->type]);
    if (def->type == PARAM_CHOICE) {
        for (const char *const *choice = def->choices; choice && *choice; choice++)
            printf("%s %s", choice == def->choices ? "" : ",", *choice);
    }
    if (def->min != def->max)
        printf(", from %lld to %lld%s", (long long)def->min, (long long)def->max,
               def->type == PARAM_TIME ? " milliseconds" : "");
    puts(".");
    if (def->default_text && *def->default_text) {
        puts("Default:");
        print_request("Ql", def->default_text, " .");
    }
    if (def->selects)
        puts("Selects: it narrows what is offered, and must agree with the hints.");
    char name[128];
    snprintf(name, sizeof(name), "FI_%s_%s", part->name, def->key);
    for (char *c = name; *c; c++)
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
    puts(".br\nEnvironment:");
    if (def->variable) {
        const char *others = def->variable;

        print_request("Ev", name, " ,");
        puts("or where that is not set");
        while (param_alias(&others, name, sizeof(name))) {
            print_request("Ev", name, others ? " ," : " .");
            if (others)
                puts("or");
        }
    } else {
        print_request("Ev", name, " .");
    }
}

static void print_params(const struct part *part)
{
    puts(".Sh PARAMETERS");
    if (!part->params || !part->params->key) {
        puts("None.");
        return;
    }
    puts("A parameter is given in the spec");
    printf(".Pq Ql %s(%s=...)\n", part->name, part->params->key);
    puts(
        "or in the environment; the spec wins, then the environment, then the configuration file.");
    puts(".Bl -tag -width Ds");
    for (const struct param_def *def = part->params; def->key; def++)
        print_param(part, def);
    puts(".El");
}

static void print_page(const struct part *part, const char *date)
{
    char title[64];
    snprintf(title, sizeof(title), "WEFT_%s", part->name);
    for (char *c = title; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    printf(".\\\" SPDX-License-Identifier: BSD-2-Clause\n.\\\" Made from the part's table.\n");
    printf(".Dd %s\n.Dt %s 7\n.Os Weft\n.Sh NAME\n.Nm weft_%s\n.Nd ", date, title, part->name);
    print_line(part->summary);
    puts(".Sh SYNOPSIS");
    printf(".Ev FI_PROVIDER Ns = Ns Qq %s%s\n", part->name,
           part->kind == PART_TRANSPORT ? "" : ";...");
    puts(".Sh DESCRIPTION");
    print_paragraphs(part->description ? part->description : part->summary);
    print_place(part);
    print_params(part);
    puts(".Sh SEE ALSO\n.Xr fi_info 1 ,\n.Xr weft_spec 7");
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: part_page PART DATE\n");
        return 2;
    }
    for (size_t i = 0; i < part_registry_count; i++) {
        if (!strcmp(part_registry[i]->name, argv[1])) {
            print_page(part_registry[i], argv[2]);
            return 0;
        }
    }
    fprintf(stderr, "part_page: no part '%s' in this build\n", argv[1]);
    return 1;
}
