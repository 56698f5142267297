/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A tree of branches, each with its list of sentences, all out of one arena that goes with the
 * ledger. Running out of memory loses sentences, never the call that they explain.
 */
#include "core/base/reason.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK_SIZE = 8192,
    SENTENCE_MAX = 1024
};

struct chunk {
    struct chunk *next;
    size_t used, size;
    alignas(max_align_t) char bytes[];
};

struct sentence {
    struct sentence *next;
    unsigned progress;
    unsigned count; /* how often it was recorded in its branch */
    char text[];
};

struct branch {
    struct branch *parent, *next, *first, *last;
    struct sentence *sentences, *last_sentence;
    size_t infos;
    unsigned depth;
    bool closed;
    const char *name; /* behind the struct */
};

struct reasons {
    struct chunk *chunks;
    struct branch *open; /* NULL outside of all */
    unsigned lost;       /* enters that found no memory, and so must be left again */
    struct branch root;
};

struct reasons *reasons_create(void)
{
    struct reasons *reasons = calloc(1, sizeof(*reasons));

    if (reasons)
        reasons->open = &reasons->root;
    return reasons;
}

void reasons_destroy(struct reasons *reasons)
{
    if (!reasons)
        return;
    while (reasons->chunks) {
        struct chunk *chunk = reasons->chunks;

        reasons->chunks = chunk->next;
        free(chunk);
    }
    free(reasons);
}

static void *take(struct reasons *reasons, size_t size)
{
    struct chunk *chunk = reasons->chunks;
    void *memory;

    size = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    if (!chunk || chunk->size - chunk->used < size) {
        chunk = malloc(sizeof(*chunk) + CHUNK_SIZE);
        if (!chunk)
            return NULL;
        *chunk = (struct chunk){.next = reasons->chunks, .size = CHUNK_SIZE};
        reasons->chunks = chunk;
    }
    memory = chunk->bytes + chunk->used;
    chunk->used += size;
    return memset(memory, 0, size);
}

/* A struct with its text behind it, at `offset`. */
static void *take_text(struct reasons *reasons, size_t offset, const char *text)
{
    size_t len = strlen(text) + 1;
    char *memory = take(reasons, offset + len);

    if (memory)
        memcpy(memory + offset, text, len);
    return memory;
}

void reasons_enter(struct reasons *reasons, const char *fmt, ...)
{
    char name[SENTENCE_MAX];
    struct branch *branch;
    va_list args;

    if (!reasons)
        return;
    va_start(args, fmt);
    vsnprintf(name, sizeof(name), fmt, args);
    va_end(args);
    branch = reasons->lost ? NULL : take_text(reasons, sizeof(*branch), name);
    if (!branch) {
        reasons->lost++;
        return;
    }
    branch->name = (const char *)(branch + 1);
    branch->parent = reasons->open;
    branch->depth = reasons->open->depth + 1;
    if (branch->parent->last)
        branch->parent->last->next = branch;
    else
        branch->parent->first = branch;
    branch->parent->last = branch;
    reasons->open = branch;
}

void reasons_leave(struct reasons *reasons, size_t infos)
{
    if (!reasons)
        return;
    if (reasons->lost) {
        reasons->lost--;
        return;
    }
    reasons->open->infos = infos;
    reasons->open->closed = true;
    if (reasons->open->parent)
        reasons->open = reasons->open->parent;
}

static void record(struct reasons *reasons, unsigned progress, const char *text)
{
    struct branch *branch = reasons->open;
    struct sentence *sentence;

    for (sentence = branch->sentences; sentence; sentence = sentence->next) {
        if (!strcmp(sentence->text, text)) {
            sentence->count++;
            return;
        }
    }
    sentence = take_text(reasons, offsetof(struct sentence, text), text);
    if (!sentence)
        return;
    sentence->progress = progress;
    sentence->count = 1;
    if (branch->last_sentence)
        branch->last_sentence->next = sentence;
    else
        branch->sentences = sentence;
    branch->last_sentence = sentence;
}

static void record_text(struct reasons *reasons, enum reason_progress progress, const char *fmt,
                        va_list args)
{
    char text[SENTENCE_MAX];

    if (!reasons)
        return;
    vsnprintf(text, sizeof(text), fmt, args);
    record(reasons, progress, text);
}

void reasons_add(struct reasons *reasons, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    record_text(reasons, REASON_PART, fmt, args);
    va_end(args);
}

void reasons_add_at(struct reasons *reasons, enum reason_progress progress, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    record_text(reasons, progress, fmt, args);
    va_end(args);
}

static void print_branch(const struct branch *branch, FILE *out)
{
    int indent = 2 * (int)branch->depth;
    bool dead = branch->closed && !branch->infos;

    fprintf(out, "%*s%s", indent - 2, "", branch->name);
    if (branch->closed)
        fprintf(out, ": %zu info%s", branch->infos, branch->infos == 1 ? "" : "s");
    fputc('\n', out);
    /* A live branch that lacks something is of interest too, when it says why. */
    for (const struct sentence *s = branch->sentences; s; s = s->next) {
        fprintf(out, "%*s%s %s", indent, "", dead ? "x" : "-", s->text);
        if (s->count > 1)
            fprintf(out, " (%u times)", s->count);
        fputc('\n', out);
    }
    for (const struct branch *child = branch->first; child; child = child->next)
        print_branch(child, out);
}

void reasons_print(const struct reasons *reasons, FILE *out)
{
    if (!reasons)
        return;
    for (const struct sentence *s = reasons->root.sentences; s; s = s->next)
        fprintf(out, "%s\n", s->text);
    for (const struct branch *child = reasons->root.first; child; child = child->next)
        print_branch(child, out);
}

/* The sentence that came furthest, and where. */
struct furthest {
    const struct sentence *sentence;
    const struct branch *branch;
};

/* dead: only in branches without an offer; reasons below one that made an offer do not explain why
 * its upper made none. */
static void find_furthest(const struct branch *branch, bool dead, struct furthest *best)
{
    if (dead && branch->infos)
        return;
    for (const struct sentence *s = branch->sentences; s; s = s->next) {
        if (!best->sentence || s->progress > best->sentence->progress ||
            (s->progress == best->sentence->progress && branch->depth > best->branch->depth))
            *best = (struct furthest){s, branch};
    }
    for (const struct branch *child = branch->first; child; child = child->next)
        find_furthest(child, dead, best);
}

const char *reasons_culprit(const struct reasons *reasons, const char **where)
{
    struct furthest best = {NULL, NULL};

    *where = NULL;
    if (!reasons)
        return NULL;
    find_furthest(&reasons->root, true, &best);
    if (!best.sentence)
        find_furthest(&reasons->root, false, &best);
    if (!best.sentence)
        return NULL;
    *where = best.branch->name;
    return best.sentence->text;
}

const char *reasons_summary(const struct reasons *reasons)
{
    const char *where;

    return reasons_culprit(reasons, &where);
}
