/* SPDX-License-Identifier: BSD-2-Clause */
#include "offers.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_ext_uet.h>

#define BLANKS " \t\n"

struct name {
    const char *text;
    uint64_t value;
};

#define BIT(name)                                                                                  \
    {                                                                                              \
#name, FI_##name                                                                           \
    }
static const struct name caps[] = {
    BIT(MSG),          BIT(TAGGED),
    BIT(RMA),          BIT(ATOMIC),
    BIT(MULTICAST),    BIT(COLLECTIVE),
    BIT(READ),         BIT(WRITE),
    BIT(SEND),         BIT(RECV),
    BIT(REMOTE_READ),  BIT(REMOTE_WRITE),
    BIT(MULTI_RECV),   BIT(FENCE),
    BIT(TRIGGER),      BIT(LOCAL_COMM),
    BIT(REMOTE_COMM),  BIT(RMA_EVENT),
    BIT(RMA_PMEM),     BIT(HMEM),
    BIT(SOURCE),       BIT(SOURCE_ERR),
    BIT(NAMED_RX_CTX), BIT(DIRECTED_RECV),
    BIT(SHARED_AV),    BIT(TAGGED_DIRECTED_RECV),
    BIT(AV_USER_ID),   BIT(TAGGED_MULTI_RECV),
    BIT(PEER),         BIT(EXACT_DIRECTED_RECV),
    {NULL, 0},
};
static const struct name mode_bits[] = {
    {"NONE", 0},    BIT(CONTEXT),    BIT(CONTEXT2), BIT(MSG_PREFIX),
    BIT(ASYNC_IOV), BIT(RX_CQ_DATA), {NULL, 0},
};
static const struct name op_flag_bits[] = {
    BIT(COMPLETION),
    BIT(INJECT_COMPLETE),
    BIT(TRANSMIT_COMPLETE),
    BIT(DELIVERY_COMPLETE),
    BIT(COMMIT_COMPLETE),
    BIT(MATCH_COMPLETE),
    BIT(INJECT),
    {NULL, 0},
};
#define ORDER(name)                                                                                \
    {                                                                                              \
#name, FI_ORDER_##name                                                                     \
    }
static const struct name order_bits[] = {
    {"NONE", 0},    ORDER(STRICT),     ORDER(DATA),       ORDER(RAR),        ORDER(RAW),
    ORDER(RAS),     ORDER(WAR),        ORDER(WAW),        ORDER(WAS),        ORDER(SAR),
    ORDER(SAW),     ORDER(SAS),        ORDER(RMA_RAR),    ORDER(RMA_RAW),    ORDER(RMA_WAR),
    ORDER(RMA_WAW), ORDER(ATOMIC_RAR), ORDER(ATOMIC_RAW), ORDER(ATOMIC_WAR), ORDER(ATOMIC_WAW),
    {NULL, 0},
};
#define MR(name)                                                                                   \
    {                                                                                              \
#name, FI_MR_##name                                                                        \
    }
static const struct name mr_bits[] = {
    {"NONE", 0}, MR(LOCAL),    MR(VIRT_ADDR), MR(ALLOCATED),  MR(PROV_KEY),
    MR(RAW),     MR(ENDPOINT), MR(RMA_EVENT), MR(MMU_NOTIFY), {NULL, 0},
};
static const struct name addresses[] = {
    {"SOCKADDR_IN", FI_SOCKADDR_IN},
    {"SOCKADDR_IN6", FI_SOCKADDR_IN6},
    {"ADDR_STR", FI_ADDR_STR},
    {"LNX", 1u << 31 | 0x117e},
    {"MRAIL", 1u << 31 | 0x117f},
    {"UET", FI_ADDR_UET},
    {"EFA", FI_ADDR_EFA},
    {NULL, 0},
};
static const struct name protocols[] = {
    {"XNET", FI_PROTO_XNET},
    {"RXM", FI_PROTO_RXM},
    {"RXD", FI_PROTO_RXD},
    {"EFA", FI_PROTO_EFA},
    {"SHM", FI_PROTO_SHM},
    {"LOOP", 1u << 31 | 0x100b},
    {"LNX", FI_PROTO_LNX},
    {"UDP", FI_PROTO_UDP},
    {"SOCK_TCP", FI_PROTO_SOCK_TCP},
    {"RDMA_CM_IB_RC", FI_PROTO_RDMA_CM_IB_RC},
    {"ARQ", 1u << 31 | 0x20a7},
    {"UET", FI_PROTO_UET},
    {"UET_AI_FULL", FI_PROTO_UET_AI_FULL},
    {"UET_AI_BASE", FI_PROTO_UET_AI_BASE},
    {NULL, 0},
};
#define SET(text, value)                                                                           \
    {                                                                                              \
        text, 1ULL << (value)                                                                      \
    }
static const struct name threading_set[] = {
    SET("SAFE", FI_THREAD_SAFE),         SET("FID", FI_THREAD_FID),
    SET("DOMAIN", FI_THREAD_DOMAIN),     SET("COMPLETION", FI_THREAD_COMPLETION),
    SET("ENDPOINT", FI_THREAD_ENDPOINT), {NULL, 0},
};
static const struct name progress_set[] = {
    SET("MANUAL", FI_PROGRESS_MANUAL),
    SET("AUTO", FI_PROGRESS_AUTO),
    SET("CONTROL_UNIFIED", FI_PROGRESS_CONTROL_UNIFIED),
    {NULL, 0},
};
static const struct name av_set[] = {
    SET("MAP", FI_AV_MAP),
    SET("TABLE", FI_AV_TABLE),
    {NULL, 0},
};
static const struct name wait_set[] = {
    SET("NONE", FI_WAIT_NONE),
    SET("UNSPEC", FI_WAIT_UNSPEC),
    SET("SET", FI_WAIT_SET),
    SET("FD", FI_WAIT_FD),
    SET("MUTEX_COND", FI_WAIT_MUTEX_COND),
    SET("YIELD", FI_WAIT_YIELD),
    SET("POLLFD", FI_WAIT_POLLFD),
    {NULL, 0},
};
static const struct name decimal[1] = {{NULL, 0}}, hexadecimal[1] = {{NULL, 0}};

static const struct line {
    const char *key;
    size_t offset;
    const struct name *names;
} lines[] = {
    {"caps", offsetof(struct offers, caps), caps},
    {"msg_order", offsetof(struct offers, msg_order), order_bits},
    {"comp_order", offsetof(struct offers, comp_order), order_bits},
    {"mode", offsetof(struct offers, mode), mode_bits},
    {"mr_mode", offsetof(struct offers, mr_mode), mr_bits},
    {"mr_asked", offsetof(struct offers, mr_asked), mr_bits},
    {"op_flags", offsetof(struct offers, op_flags), op_flag_bits},
    {"tag_format", offsetof(struct offers, tag_format), hexadecimal},
    {"max_msg_size", offsetof(struct offers, max_msg_size), decimal},
    {"max_order_raw_size", offsetof(struct offers, max_order_raw_size), decimal},
    {"max_order_waw_size", offsetof(struct offers, max_order_waw_size), decimal},
    {"inject_size", offsetof(struct offers, inject_size), decimal},
    {"iov_limit", offsetof(struct offers, iov_limit), decimal},
    {"rma_iov_limit", offsetof(struct offers, rma_iov_limit), decimal},
    {"mr_iov_limit", offsetof(struct offers, mr_iov_limit), decimal},
    {"cq_data_size", offsetof(struct offers, cq_data_size), decimal},
    {"mr_key_size", offsetof(struct offers, mr_key_size), decimal},
    {"tx_size", offsetof(struct offers, tx_size), decimal},
    {"rx_size", offsetof(struct offers, rx_size), decimal},
    {"threading", offsetof(struct offers, threading), threading_set},
    {"progress", offsetof(struct offers, progress), progress_set},
    {"av", offsetof(struct offers, av), av_set},
    {"wait", offsetof(struct offers, wait), wait_set},
    {"address", offsetof(struct offers, address), addresses},
    {"protocol", offsetof(struct offers, protocol), protocols},
};
#define LINES (sizeof lines / sizeof *lines)

struct block {
    char stacks[512]; /* as in the file */
    struct offers offers;
    struct block *next;
};

struct reading {
    const char *path;
    int line;
    char through[512];
    struct block *blocks, *current;
};

static _Noreturn void wrong(const struct reading *reading, const char *what, const char *word)
{
    fprintf(stderr, "%s:%d: %s '%s'\n", reading->path, reading->line, what, word);
    exit(2);
}

static bool find_name(const struct name *names, const char *text, uint64_t *value)
{
    for (; names->text; names++) {
        if (!strcmp(names->text, text)) {
            *value = names->value;
            return true;
        }
    }
    return false;
}

/* Is text one of the words of list, which blanks separate? */
static bool listed(const char *list, const char *text, size_t len)
{
    for (const char *at = list; *at; at += strcspn(at, BLANKS)) {
        at += strspn(at, BLANKS);
        if (len && strcspn(at, BLANKS) == len && !strncmp(at, text, len))
            return true;
    }
    return false;
}

static struct block *find_block(const struct reading *reading, const char *stack,
                                enum offers_kind kind)
{
    for (struct block *block = reading->blocks; block; block = block->next)
        if (block->offers.kind == kind && listed(block->stacks, stack, strlen(stack)))
            return block;
    return NULL;
}

/* ---- The lines of a block ---- */

static void read_values(struct reading *reading, const struct line *line, char *rest)
{
    uint64_t sum = 0;

    for (char *save, *word = strtok_r(rest, BLANKS, &save); word;
         word = strtok_r(NULL, BLANKS, &save)) {
        uint64_t value;
        char *end = NULL;

        if (line->names == decimal || line->names == hexadecimal) {
            value = strtoull(word, &end, line->names == decimal ? 10 : 16);
            if (*end)
                wrong(reading, "not a number:", word);
            /* Sizes of this machine, where "no limit" may be less. */
            if (line->names == decimal && value > SIZE_MAX)
                value = SIZE_MAX;
        } else if (!find_name(line->names, word, &value)) {
            wrong(reading, "not a name of this line:", word);
        }
        sum |= value;
    }
    memcpy((char *)&reading->current->offers + line->offset, &sum, sizeof sum);
}

/* `has` and `groups`. */
static void read_words(struct reading *reading, char *rest, const char **has)
{
    int count = 0;

    for (char *save, *word = strtok_r(rest, BLANKS, &save); word;
         word = strtok_r(NULL, BLANKS, &save)) {
        if (count == OFFERS_WORDS - 1)
            wrong(reading, "too many words:", word);
        has[count++] = strdup(word);
    }
    has[count] = NULL;
}

static void read_lacks(struct reading *reading, char *rest)
{
    struct offers *offers = &reading->current->offers;
    char *save, *word = strtok_r(rest, BLANKS, &save), *reason = strtok_r(NULL, "\n", &save);
    int count = 0;

    if (!word || !reason)
        wrong(reading, "'lacks' needs a word and a reason:", word ? word : "");
    while (offers->lacks[count].word && strcmp(offers->lacks[count].word, word) != 0)
        count++;
    if (count == OFFERS_WORDS - 1)
        wrong(reading, "too many words:", word);
    offers->lacks[count].word = strdup(word);
    offers->lacks[count].reason = strdup(reason + strspn(reason, BLANKS));
}

static void twice(const struct reading *reading, const char *stacks)
{
    char *copy = strdup(stacks);

    for (char *save, *one = strtok_r(copy, BLANKS, &save); one; one = strtok_r(NULL, BLANKS, &save))
        if (find_block(reading, one, reading->current->offers.kind))
            wrong(reading, "a second block of", one);
    free(copy);
}

/* The lines that open a block, and the kind that it is of. */
static const struct name openings[] = {{"offers", OFFERS_RDM},
                                       {"offers-msg", OFFERS_MSG},
                                       {"offers-dgram", OFFERS_DGRAM},
                                       {"offers-packets", OFFERS_PACKETS},
                                       {NULL, 0}};
static const enum fi_ep_type types[OFFERS_KINDS] = {
    [OFFERS_RDM] = FI_EP_RDM,
    [OFFERS_MSG] = FI_EP_MSG,
    [OFFERS_DGRAM] = FI_EP_DGRAM,
    [OFFERS_PACKETS] = FI_EP_RDM,
};

static void read_line(struct reading *reading, char *text)
{
    char *key = text + strspn(text, BLANKS), *rest = key + strcspn(key, BLANKS);
    struct block *from;
    uint64_t kind;

    if (!*key || *key == '#')
        return;
    if (*rest)
        *rest++ = 0;
    rest += strspn(rest, BLANKS);
    if (!strcmp(key, "through")) {
        snprintf(reading->through, sizeof reading->through, "%s", rest);
        return;
    }
    if (find_name(openings, key, &kind)) {
        reading->current = calloc(1, sizeof *reading->current);
        reading->current->offers.kind = (enum offers_kind)kind;
        reading->current->offers.type = types[kind];
        twice(reading, rest);
        snprintf(reading->current->stacks, sizeof reading->current->stacks, "%s", rest);
        reading->current->next = reading->blocks;
        reading->blocks = reading->current;
        return;
    }
    if (!reading->current)
        wrong(reading, "outside of a block:", key);
    if (!strcmp(key, "like")) {
        rest[strcspn(rest, BLANKS)] = 0;
        from = find_block(reading, rest, reading->current->offers.kind);
        if (!from)
            wrong(reading, "no block for", rest);
        reading->current->offers = from->offers;
        memset(reading->current->offers.has, 0, sizeof from->offers.has);
        memset(reading->current->offers.lacks, 0, sizeof from->offers.lacks);
        return;
    }
    if (!strcmp(key, "has")) {
        read_words(reading, rest, reading->current->offers.has);
        return;
    }
    if (!strcmp(key, "groups")) {
        read_words(reading, rest, reading->current->offers.groups);
        return;
    }
    if (!strcmp(key, "lacks")) {
        read_lacks(reading, rest);
        return;
    }
    for (size_t i = 0; i < LINES; i++) {
        if (!strcmp(lines[i].key, key)) {
            read_values(reading, &lines[i], rest);
            return;
        }
    }
    wrong(reading, "unknown line", key);
}

/* ---- A stack without the parts that it is held through ---- */

/* The length of what is at text, up to a separator outside of brackets. */
static size_t item_length(const char *text, char separator)
{
    int depth = 0;
    size_t len = 0;

    for (; text[len] && (depth || text[len] != separator); len++)
        depth += (text[len] == '(' || text[len] == '[') - (text[len] == ')' || text[len] == ']');
    return len;
}

enum {
    STACK_MAX = 1024
};

static void strip(const struct reading *reading, const char *stack, char *out);

/* Each branch of a bracket. Returns the length of what is in out. */
static size_t strip_bracket(const struct reading *reading, const char *bracket, size_t bracket_len,
                            char *out, size_t size)
{
    char branches[STACK_MAX], branch[STACK_MAX], bare[STACK_MAX];
    size_t used = 0;

    snprintf(branches, sizeof branches, "%.*s", (int)bracket_len - 2, bracket + 1);
    for (const char *at = branches; *at;) {
        size_t len = item_length(at, '+');

        snprintf(branch, sizeof branch, "%.*s", (int)len, at);
        strip(reading, branch, bare);
        used += (size_t)snprintf(out + used, size - used, "%c%s", used ? '+' : '[', bare);
        at += len;
        at += *at == '+';
    }
    return used + (size_t)snprintf(out + used, size - used, "]");
}

/* out: STACK_MAX bytes. */
static void strip(const struct reading *reading, const char *stack, char *out)
{
    size_t used = 0;

    out[0] = 0;
    for (const char *at = stack; *at && strlen(stack) < STACK_MAX;) {
        size_t len = item_length(at, ';'), name = strcspn(at, "(;");

        if (!listed(reading->through, at, name)) {
            used += (size_t)snprintf(out + used, STACK_MAX - used, "%s", used ? ";" : "");
            used += *at == '['
                        ? strip_bracket(reading, at, len, out + used, STACK_MAX - used)
                        : (size_t)snprintf(out + used, STACK_MAX - used, "%.*s", (int)len, at);
        }
        at += len;
        at += *at == ';';
    }
}

static void read_file(struct reading *reading, const char *path)
{
    FILE *file = fopen(path, "r");
    char line[2048];

    if (!file) {
        perror(path);
        exit(2);
    }
    reading->path = path;
    while (fgets(line, sizeof line, file)) {
        reading->line++;
        read_line(reading, line);
    }
    fclose(file);
}

const struct offers *offers_read(const char *path, const char *stack, enum offers_kind kind)
{
    static struct offers none[OFFERS_KINDS];
    static struct reading reading; /* its blocks stay */
    struct block *block;
    char bare[STACK_MAX];

    if (!reading.path)
        read_file(&reading, path);
    block = find_block(&reading, stack, kind);
    if (!block) {
        strip(&reading, stack, bare);
        block = find_block(&reading, bare, kind);
    }
    if (!block) {
        none[kind].kind = kind;
        none[kind].type = types[kind];
        return &none[kind];
    }
    block->offers.known = true;
    return &block->offers;
}

uint64_t offers_cap(const char *name)
{
    uint64_t bit;

    return find_name(caps, name, &bit) ? bit : 0;
}

const char *offers_may_lack(const struct offers *offers, const char *word)
{
    for (int i = 0; offers->lacks[i].word; i++)
        if (!strcmp(offers->lacks[i].word, word))
            return offers->lacks[i].reason;
    return NULL;
}

const char *offers_lacks(const struct offers *offers, const char *word)
{
    uint64_t bit;

#ifndef __SIZEOF_INT128__
    if (!strcmp(word, "wide_integers"))
        return "the compiler has no integers of 128 bits";
#endif
    if (offers_may_lack(offers, word))
        return offers_may_lack(offers, word);
    for (int i = 0; offers->has[i]; i++)
        if (!strcmp(offers->has[i], word))
            return NULL;
    if ((find_name(caps, word, &bit) && offers->caps & bit) ||
        (find_name(op_flag_bits, word, &bit) && offers->op_flags & bit) || !offers->known)
        return NULL;
    fprintf(stderr, "tests/conformance/offers says nothing of '%s' for this stack\n", word);
    exit(1);
}
