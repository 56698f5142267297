/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_pingpong(1): messages to and fro between two processes, timed. */
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "pp.h"

enum {
    DEFAULT_PORT = 47592,
    DEFAULT_ITERATIONS = 10
};

static void usage(FILE *out)
{
    fprintf(out,
            "Usage:\n"
            "  fi_pingpong [OPTIONS]\t\tstart server\n"
            "  fi_pingpong [OPTIONS] <srv_addr>\tconnect to server\n"
            "\n"
            "Ping pong client and server\n"
            "\n"
            "Options:\n"
            " -B <src_port>        source control port number (server: %d, client: auto)\n"
            " -P <dst_port>        destination control port number (client: %d)\n"
            " -s <address>         source address\n"
            " -d <domain>          domain name\n"
            " -p <provider>        specific provider, or a stack such as 'rxm;tcp'\n"
            " -e <ep_type>         endpoint type: msg|rdm|dgram (dgram)\n"
            " -I <number>          number of iterations (%d)\n"
            " -S <size>            specific transfer size or 'all' (64 to 1m)\n"
            " -c                   enables data_integrity checks\n"
            " -m <transmit mode>   transmit mode type: msg|tagged (msg)\n"
            " -h, --help           display this help output\n"
            " -v                   enable debugging output\n"
            " -6                   use IPv6 address\n",
            DEFAULT_PORT, DEFAULT_PORT, DEFAULT_ITERATIONS);
}

int pp_failed(const char *what, int ret)
{
    fprintf(stderr, "%s: %s (%d)\n", what, fi_strerror(-ret), ret);
    return ret;
}

void pp_debug(const struct pp *pp, const char *fmt, ...)
{
    va_list args;

    if (!pp->options.verbose)
        return;
    fputs("[debug] ", stderr);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
}

/* ---- The command line ---- */

static void wrong_word(const char *what, const char *word, const char *const *words)
{
    fprintf(stderr, "Unknown %s : %s%s (", what, word, cli_hint(word, words));
    for (size_t i = 0; words[i]; i++)
        fprintf(stderr, "%s%s", i ? ", " : "", words[i]);
    fputs(")\n", stderr);
    exit(EXIT_FAILURE);
}

static enum fi_ep_type endpoint_type(const char *word)
{
    static const char *const words[] = {"msg", "rdm", "dgram", NULL};
    static const enum fi_ep_type types[] = {FI_EP_MSG, FI_EP_RDM, FI_EP_DGRAM};

    for (size_t i = 0; words[i]; i++) {
        if (!strcasecmp(word, words[i]))
            return types[i];
    }
    wrong_word("endpoint", word, words);
    return FI_EP_UNSPEC;
}

static bool is_tagged(const char *word)
{
    static const char *const words[] = {"msg", "tagged", NULL};

    if (strcasecmp(word, "msg") && strcasecmp(word, "tagged"))
        wrong_word("transmit mode", word, words);
    return !strcasecmp(word, "tagged");
}

static void set_text(char **field, const char *text)
{
    free(*field);
    *field = strdup(text);
}

static void take_option(struct pp *pp, int option, const char **source_port, const char **dest_port)
{
    struct pp_options *options = &pp->options;

    switch (option) {
    case 'B': *source_port = optarg; break;
    case 'P': *dest_port = optarg; break;
    case 's': options->source = optarg; break;
    case 'd': set_text(&pp->hints->domain_attr->name, optarg); break;
    case 'p': set_text(&pp->hints->fabric_attr->prov_name, optarg); break;
    case 'e': pp->hints->ep_attr->type = endpoint_type(optarg); break;
    case 'm': options->tagged = is_tagged(optarg); break;
    case 'I': options->iterations = cli_number("-I", optarg, 1, 999999999); break;
    case 'S':
        options->sizes = strcmp(optarg, "all") ? PP_ONE_SIZE : PP_ALL_SIZES;
        if (options->sizes == PP_ONE_SIZE)
            options->size = cli_number("-S", optarg, 0, 1ul << 30);
        break;
    case 'c': options->check = true; break;
    case 'v': options->verbose = true; break;
    case '6': options->ipv6 = true; break;
    default: break;
    }
}

static uint16_t port_number(const char *option, const char *text)
{
    return (uint16_t)cli_number(option, text, 1, 65535);
}

static void parse(struct pp *pp, int argc, char **argv)
{
    const char *source_port = NULL, *dest_port = NULL;
    static const struct option help[] = {{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    struct pp_options *options = &pp->options;
    uint16_t dest, source;
    int option;

    while ((option = getopt_long(argc, argv, "B:P:s:d:p:e:m:I:S:cvh6", help, NULL)) != -1) {
        if (option == 'h' || option == '?') {
            usage(option == 'h' ? stdout : stderr);
            exit(option == 'h' ? EXIT_SUCCESS : EXIT_FAILURE);
        }
        take_option(pp, option, &source_port, &dest_port);
    }
    if (optind + 1 < argc) {
        fprintf(stderr, "unexpected '%s' after the server's address\n", argv[optind + 1]);
        exit(EXIT_FAILURE);
    }
    if (optind < argc)
        options->server = argv[optind];
    dest = dest_port ? port_number("-P", dest_port) : DEFAULT_PORT;
    source = source_port ? port_number("-B", source_port) : 0;
    if (!options->server && dest_port)
        fputs("-P is the client's: it has no effect on a server, whose port -B names\n", stderr);
    options->server_port = options->server ? dest : source ? source : DEFAULT_PORT;
    options->client_port = options->server ? source : 0;
    if (options->ipv6)
        pp->hints->addr_format = FI_SOCKADDR_IN6;
    pp->hints->caps = options->tagged ? FI_TAGGED : FI_MSG;
}

/* ---- */

static int run_all(struct pp *pp, const size_t *sizes, size_t count)
{
    size_t max = pp->info->ep_attr->max_msg_size;
    int ret = 0;

    for (size_t i = 0; !ret && i < count && sizes[i] <= max; i++)
        ret = run_size(pp, sizes[i]);
    if (!ret && pp->options.sizes == PP_ONE_SIZE && sizes[0] > max) {
        fprintf(stderr, "-S %zu: this endpoint carries at most %zu bytes\n", sizes[0], max);
        ret = -FI_EMSGSIZE;
    }
    return ret ? ret : fabric_finish(pp);
}

static int run(struct pp *pp)
{
    size_t sizes[PP_SIZES_MAX], count = run_sizes(&pp->options, sizes);
    int ret = fabric_check(pp);

    if (!ret)
        ret = control_open(pp);
    if (!ret)
        ret = fabric_start(pp, sizes[count - 1]);
    if (!ret)
        ret = run_all(pp, sizes, count);
    fabric_stop(pp);
    control_close(pp);
    return ret;
}

int main(int argc, char **argv)
{
    struct pp pp = {
        .options = {.iterations = DEFAULT_ITERATIONS},
        .control = -1,
        .hints = fi_allocinfo(),
    };
    int ret;

    if (!pp.hints)
        return FI_ENOMEM;
    pp.hints->ep_attr->type = FI_EP_DGRAM;
    pp.hints->mode = FI_CONTEXT | FI_CONTEXT2 | FI_MSG_PREFIX;
    pp.hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_ENDPOINT | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    pp.hints->domain_attr->threading = FI_THREAD_DOMAIN;
    parse(&pp, argc, argv);
    setenv("FI_EXPLAIN", "brief", 0);
    ret = run(&pp);
    fi_freeinfo(pp.hints);
    return -ret;
}
