/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_info(1): what fi_getinfo returns for hints from the command line, in upstream's output. */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "cli.h"

enum {
    OPT_VERSION = 256,
    OPT_EXPLAIN,
    OPT_TREE
};

enum {
    TEXT_SIZE = 32768
};

struct options {
    const char *source, *node, *port;
    const char *containing; /* -i, -g */
    bool env, list, verbose, explain, tree;
    struct fi_info *hints;
};

static const struct option long_options[] = {
    {"help", no_argument, NULL, 'h'},
    {"src_addr", required_argument, NULL, 's'},
    {"node", required_argument, NULL, 'n'},
    {"port", required_argument, NULL, 'P'},
    {"caps", required_argument, NULL, 'c'},
    {"mode", required_argument, NULL, 'm'},
    {"ep_type", required_argument, NULL, 't'},
    {"domain", required_argument, NULL, 'd'},
    {"fabric", required_argument, NULL, 'f'},
    {"addr_format", required_argument, NULL, 'a'},
    {"provider", required_argument, NULL, 'p'},
    {"env", no_argument, NULL, 'e'},
    {"getenv", required_argument, NULL, 'g'},
    {"info", required_argument, NULL, 'i'},
    {"list", no_argument, NULL, 'l'},
    {"verbose", no_argument, NULL, 'v'},
    {"version", no_argument, NULL, OPT_VERSION},
    {"explain", no_argument, NULL, OPT_EXPLAIN},
    {"tree", no_argument, NULL, OPT_TREE},
    {NULL, 0, NULL, 0},
};

static void usage(FILE *out)
{
    fputs("Usage: fi_info\n"
          "  -h, --help\t\t\tdisplay this help and exit\n"
          "  -s, --src_addr=ADDR\t\tsource name or address\n"
          "  -n, --node=NAME\t\tdest node name or address\n"
          "  -P, --port=PNUM\t\tport number\n"
          "  -c, --caps=CAP1|CAP2..\tone or more capabilities: FI_MSG|FI_RMA...\n"
          "  -m, --mode=MOD1|MOD2..\tone or more modes, default all modes\n"
          "  -t, --ep_type=EPTYPE\t\tspecify single endpoint type: FI_EP_MSG, FI_EP_DGRAM...\n"
          "  -d, --domain=DOMAIN\t\tspecify the domain name\n"
          "  -f, --fabric=FABRIC\t\tspecify the fabric name\n"
          "  -a, --addr_format=FMT\t\tspecify accepted address format: FI_FORMAT_UNSPEC, "
          "FI_SOCKADDR...\n"
          "  -p, --provider=PROV\t\tspecify provider, or a stack such as 'rxm;tcp'\n"
          "  -e, --env\t\t\tprint libfabric environment variables\n"
          "  -g, --getenv=SUBSTR\t\tprint libfabric environment variables with substr\n"
          "  -i, --info=SUBSTR\t\tprint fi_info structures containing substr\n"
          "  -l, --list\t\t\tlist available libfabric providers\n"
          "  -v, --verbose\t\t\tverbose output\n"
          "      --explain\t\t\tprint the stacks considered, and why those that give nothing do\n"
          "      --tree\t\t\tdraw each stack returned, with what each part adds\n"
          "  --version\t\t\tprint version info and exit\n",
          out);
}

static void print_version(void)
{
    uint32_t version = fi_version();

    printf("fi_info: %s\n", WEFT_VERSION);
    printf("libfabric: %s\n", fi_tostr("", FI_TYPE_VERSION));
    printf("libfabric api: %u.%u\n", FI_MAJOR(version), FI_MINOR(version));
}

/* ---- -e, -g ---- */

static const char *param_type_name(enum fi_param_type type)
{
    switch (type) {
    case FI_PARAM_STRING: return "String";
    case FI_PARAM_INT: return "Integer";
    case FI_PARAM_BOOL: return "Boolean (0/1, on/off, true/false, yes/no)";
    case FI_PARAM_SIZE_T: return "size_t";
    default: return "Unknown";
    }
}

/* Substrings are looked for in names and help, in either case of letters, as users type them. */
static bool contains(const char *text, const char *part)
{
    return !part || (text && strcasestr(text, part));
}

static int print_params(const char *containing)
{
    struct fi_param *params;
    int count, ret = fi_getparams(&params, &count);

    if (ret) {
        fprintf(stderr, "fi_getparams: %d (%s)\n", ret, fi_strerror(-ret));
        return -ret;
    }
    for (int i = 0; i < count; i++) {
        const struct fi_param *param = &params[i];

        if (!contains(param->name, containing) && !contains(param->help_string, containing))
            continue;
        printf("# %s: %s\n# %s\n", param->name, param_type_name(param->type), param->help_string);
        if (param->value)
            printf("%s=%s\n", param->name, param->value);
        putchar('\n');
    }
    fi_freeparams(params);
    return 0;
}

/* ---- Infos ---- */

static void print_short(const struct fi_info *info)
{
    const struct fi_fabric_attr *fabric = info->fabric_attr;

    printf("provider: %s\n", fabric->prov_name);
    printf("    fabric: %s\n", fabric->name ? fabric->name : "(null)");
    printf("    domain: %s\n", info->domain_attr->name ? info->domain_attr->name : "(null)");
    printf("    version: %u.%u\n", FI_MAJOR(fabric->prov_version), FI_MINOR(fabric->prov_version));
    printf("    type: %s\n", fi_tostr(&info->ep_attr->type, FI_TYPE_EP_TYPE));
    printf("    protocol: %s\n", fi_tostr(&info->ep_attr->protocol, FI_TYPE_PROTOCOL));
}

static void print_whole(const struct fi_info *info, const char *containing)
{
    static char text[TEXT_SIZE];

    fi_tostr_r(text, sizeof(text), info, FI_TYPE_INFO);
    if (!containing || strstr(text, containing))
        printf("---\n%s", text);
}

static void print_providers(const struct fi_info *infos)
{
    for (const struct fi_info *info = infos; info; info = info->next) {
        printf("%s:\n", info->fabric_attr->prov_name);
        printf("    version: %u.%u\n", FI_MAJOR(info->fabric_attr->prov_version),
               FI_MINOR(info->fabric_attr->prov_version));
    }
}

static void print_infos(const struct options *options, const struct fi_info *infos)
{
    if (options->list && !options->verbose) {
        print_providers(infos);
        return;
    }
    for (const struct fi_info *info = infos; info; info = info->next) {
        if (options->verbose || options->containing)
            print_whole(info, options->containing);
        else
            print_short(info);
    }
}

/* ---- The question ---- */

static int take_source(struct options *options, uint32_t version)
{
    struct fi_info *source;
    int ret = fi_getinfo(version, options->source, NULL, FI_SOURCE, options->hints, &source);

    if (ret)
        return ret;
    options->hints->src_addr = malloc(source->src_addrlen);
    if (options->hints->src_addr && source->src_addr) {
        memcpy(options->hints->src_addr, source->src_addr, source->src_addrlen);
        options->hints->src_addrlen = source->src_addrlen;
        options->hints->addr_format = source->addr_format;
    }
    fi_freeinfo(source);
    return 0;
}

static int query(struct options *options, struct fi_info **infos)
{
    uint32_t version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
    uint64_t flags = options->list ? FI_PROV_ATTR_ONLY : 0;
    const char *node = options->node;
    int ret;

    if (options->source && options->node) {
        ret = take_source(options, version);
        if (ret)
            return ret;
    } else if (options->source) {
        node = options->source;
        flags |= FI_SOURCE;
    }
    return fi_getinfo(version, node, options->port, flags, options->hints, infos);
}

/* The library's messages about the question: the lines of an explanation are this program's output,
 * without the process in front of each; all others are messages beside it. True when there were
 * such lines. */
static bool print_captured(FILE *captured)
{
    char prefix[64], *line = NULL;
    size_t size = 0, len;
    bool any = false;

    len = (size_t)snprintf(prefix, sizeof(prefix), "libfabric:%d: ", (int)getpid());
    rewind(captured);
    while (getline(&line, &size, captured) > 0) {
        bool explains = !strncmp(line, prefix, len);

        fflush(stdout);
        fputs(explains ? line + len : line, explains ? stdout : stderr);
        any = any || explains;
    }
    free(line);
    return any;
}

/* *explained: the library did what FI_EXPLAIN=mode asks for. */
static int query_explained(struct options *options, const char *mode, struct fi_info **infos,
                           bool *explained)
{
    int fd = memfd_create("fi_info", MFD_CLOEXEC), errors = dup(STDERR_FILENO), ret;
    FILE *captured = fd >= 0 ? fdopen(fd, "w+") : NULL;

    setenv("FI_EXPLAIN", mode, 1);
    fflush(stdout);
    dup2(captured ? fd : STDOUT_FILENO, STDERR_FILENO);
    ret = query(options, infos);
    dup2(errors, STDERR_FILENO);
    close(errors);
    *explained = !captured || print_captured(captured);
    if (captured)
        fclose(captured);
    return ret;
}

static int run(struct options *options)
{
    const char *mode = options->tree      ? "tree"
                       : options->explain ? "1"
                       : options->list    ? "parts"
                                          : NULL;
    struct fi_info *infos = NULL;
    bool explained = false;
    int ret;

    /* A reason that no option asks about is said in one line. */
    setenv("FI_EXPLAIN", "brief", 0);
    ret = mode ? query_explained(options, mode, &infos, &explained) : query(options, &infos);
    if (ret) {
        fprintf(stderr, "fi_getinfo: %d (%s)%s\n", ret, fi_strerror(-ret),
                ret == -FI_ENODATA && !explained ? "; fi_info --explain says more" : "");
        return -ret;
    }
    if (!explained || options->verbose)
        print_infos(options, infos);
    fi_freeinfo(infos);
    return 0;
}

/* ---- The command line ---- */

static void set_text(char **field, const char *text)
{
    free(*field);
    *field = strdup(text);
}

static void unknown_option(const char *argument)
{
    const char *names[sizeof(long_options) / sizeof(*long_options)];
    const char *name = strncmp(argument, "--", 2) ? NULL : argument + 2;

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        names[i] = long_options[i].name;
    fprintf(stderr, "fi_info: unknown option '%s'%s\n", argument,
            name ? cli_hint(name, names) : "");
    fputs("`fi_info --help` lists the options\n", stderr);
    exit(FI_EINVAL);
}

static void take_option(struct options *options, int option)
{
    struct fi_info *hints = options->hints;

    switch (option) {
    case 's': options->source = optarg; break;
    case 'n': options->node = optarg; break;
    case 'P': options->port = optarg; break;
    case 'c': hints->caps = cli_flags(FI_TYPE_CAPS, "capability", optarg); break;
    case 'm': hints->mode = cli_flags(FI_TYPE_MODE, "mode", optarg); break;
    case 't':
        hints->ep_attr->type = (enum fi_ep_type)cli_value(FI_TYPE_EP_TYPE, "endpoint type", optarg);
        break;
    case 'a':
        hints->addr_format = (uint32_t)cli_value(FI_TYPE_ADDR_FORMAT, "address format", optarg);
        break;
    case 'd': set_text(&hints->domain_attr->name, optarg); break;
    case 'f': set_text(&hints->fabric_attr->name, optarg); break;
    case 'p': set_text(&hints->fabric_attr->prov_name, optarg); break;
    case 'e': options->env = true; break;
    case 'g': options->env = true; /* fall through */
    case 'i': options->containing = optarg; break;
    case 'l': options->list = true; break;
    case 'v': options->verbose = true; break;
    case OPT_EXPLAIN: options->explain = true; break;
    case OPT_TREE: options->tree = true; break;
    default: break;
    }
}

/* False: the command line is dealt with, and *status is how to exit. */
static bool parse(struct options *options, int argc, char **argv, int *status)
{
    int option;

    opterr = 0;
    while ((option = getopt_long(argc, argv, ":hs:n:P:c:m:t:d:f:a:p:eg:i:lv", long_options,
                                 NULL)) != -1) {
        *status = 0;
        switch (option) {
        case 'h': usage(stdout); return false;
        case OPT_VERSION: print_version(); return false;
        case ':':
            fprintf(stderr, "fi_info: %s needs a value\n", argv[optind - 1]);
            *status = FI_EINVAL;
            return false;
        case '?': unknown_option(argv[optind - 1]); break;
        default: take_option(options, option);
        }
    }
    if (optind < argc) {
        fprintf(stderr, "fi_info: unexpected '%s'; -n NAME, -p PROVIDER, ... take names\n",
                argv[optind]);
        *status = FI_EINVAL;
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct options options = {.hints = fi_allocinfo()};
    int status = FI_ENOMEM;

    if (!options.hints)
        return status;
    options.hints->mode = ~UINT64_C(0);
    options.hints->domain_attr->mode = ~UINT64_C(0);
    options.hints->domain_attr->mr_mode = ~(FI_MR_BASIC | FI_MR_SCALABLE);
    if (parse(&options, argc, argv, &status))
        status = options.env ? print_params(options.containing) : run(&options);
    fi_freeinfo(options.hints);
    return status;
}
