/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The simulator: plays a scenario, a text file, on four nodes with packet delivery over the switch
 * in memory, in virtual time. With files as arguments it plays these; without, those of scenarios/.
 * A line is a command and its words; # begins a comment. docs/design/uet.md has the commands.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pds_world.h"

enum {
    WORDS = 6,
    LINE = 256,
    PATHS = 64,
};

struct line {
    const char *path;
    unsigned number;
    char *words[WORDS];
    unsigned count;
};

static struct pds_settings settings;
static bool begun;
static uint32_t sent[NODES][NODES]; /* messages, by sender and receiver */

static void complain(const struct line *line, const char *what)
{
    print_error("%s:%u: %s\n", line->path, line->number, what);
    fail();
}

/* The word as a number; it ends the test if it is none. */
static uint64_t number_at(const struct line *line, unsigned i)
{
    char *end = NULL;
    uint64_t value = i < line->count ? strtoull(line->words[i], &end, 0) : 0;

    if (i >= line->count || end == line->words[i] || *end)
        complain(line, "a number is missing");
    return value;
}

static struct node *node_at(const struct line *line, unsigned i)
{
    uint64_t index = number_at(line, i);

    if (index >= NODES)
        complain(line, "there are four nodes, from 0 on");
    return &nodes[index];
}

/* ---- Commands ---- */

static void start(void)
{
    if (!begun)
        begin(&settings);
    begun = true;
}

/* set NAME VALUE: of the nodes, before anything else happens. Times are in us. */
static void cmd_set(const struct line *line)
{
    const struct {
        const char *name;
        uint64_t *time;
        unsigned *count;
    } names[] = {
        {"rto", &settings.rto, NULL},
        {"rto_count", NULL, &settings.rto_count},
        {"nack_time", &settings.nack_time, NULL},
        {"nack_count", NULL, &settings.nack_count},
        {"tail_time", &settings.tail_time, NULL},
        {"idle_time", &settings.idle_time, NULL},
        {"safety_time", &settings.safety_time, NULL},
        {"clear_time", &settings.clear_time, NULL},
        {"mpr", NULL, &settings.mpr},
        {"pdcs", NULL, &settings.pdcs},
        {"stored", NULL, &settings.stored},
    };

    if (begun)
        complain(line, "it is too late for this");
    for (size_t i = 0; line->count == 3 && i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(line->words[1], names[i].name))
            continue;
        if (names[i].time)
            *names[i].time = number_at(line, 2) * 1000;
        else
            *names[i].count = (unsigned)number_at(line, 2);
        return;
    }
    complain(line, "set NAME VALUE: there is no such setting");
}

/* path LOSS DUP REORDER LATE: of 1000 packets so many, and how late reordered ones are, in us. */
static void cmd_path(const struct line *line)
{
    start();
    sw.loss = (unsigned)number_at(line, 1);
    sw.dup = (unsigned)number_at(line, 2);
    sw.reorder = (unsigned)number_at(line, 3);
    sw.late = number_at(line, 4) * 1000;
}

/* delay US JITTER */
static void cmd_delay(const struct line *line)
{
    start();
    sw.delay = number_at(line, 1) * 1000;
    sw.jitter = number_at(line, 2) * 1000;
}

static void cmd_seed(const struct line *line)
{
    start();
    sw.seed = number_at(line, 1);
}

static void cmd_ordered(const struct line *line)
{
    start();
    ordered = true;
}

/* send FROM TO MESSAGES PACKETS */
static void cmd_send(const struct line *line)
{
    unsigned from, to;

    start();
    from = node_at(line, 1)->index;
    to = node_at(line, 2)->index;
    for (uint64_t i = number_at(line, 3); i; i--)
        send_message(from, to, sent[from][to]++, (uint32_t)number_at(line, 4));
}

/* run MS */
static void cmd_run(const struct line *line)
{
    start();
    run(sw.now + number_at(line, 1) * 1000000);
}

static void cmd_die(const struct line *line)
{
    start();
    node_at(line, 1)->dead = true;
}

static void cmd_live(const struct line *line)
{
    start();
    node_at(line, 1)->dead = node_at(line, 1)->shut = false;
}

/* Its port is closed: senders hear of it. */
static void cmd_shut(const struct line *line)
{
    start();
    node_at(line, 1)->dead = node_at(line, 1)->shut = true;
}

/* forge COUNT: the senders of so many packets, which arrive, hear that the port is closed. */
static void cmd_forge(const struct line *line)
{
    start();
    forgeries = (unsigned)number_at(line, 1);
}

/* lose TYPE KIND COUNT: the next packets of a type of PDS; KIND: of control packets. */
static void cmd_lose(const struct line *line)
{
    start();
    losing((unsigned)number_at(line, 1), (unsigned)number_at(line, 2),
           (unsigned)number_at(line, 3));
}

/* refuse NODE CODE COUNT: it answers so many requests with that NACK. */
static void cmd_refuse(const struct line *line)
{
    struct node *node;

    start();
    node = node_at(line, 1);
    node->nack = (uint8_t)number_at(line, 2);
    node->nacks = (unsigned)number_at(line, 3);
}

/* guarantee NODE N: of 256 answers so many are kept until they are cleared. */
static void cmd_guarantee(const struct line *line)
{
    start();
    node_at(line, 1)->guaranteed = (uint8_t)number_at(line, 2);
}

static void cmd_close(const struct line *line)
{
    start();
    pds_close_all(node_at(line, 1)->pds);
}

/* ---- Expectations ---- */

static void cmd_received(const struct line *line)
{
    start();
    check_inbox(node_at(line, 1)->index, node_at(line, 2)->index, number_at(line, 3));
}

static void compare(const struct line *line, uint64_t value, uint64_t expected)
{
    if (value != expected)
        print_error("%s:%u: %s is %llu\n", line->path, line->number, line->words[0],
                    (unsigned long long)value);
    assert_int_equal(value, expected);
}

static void cmd_answered(const struct line *line)
{
    compare(line, node_at(line, 1)->responses, number_at(line, 2));
}

static void cmd_failed(const struct line *line)
{
    compare(line, node_at(line, 1)->failed, number_at(line, 2));
}

static void cmd_contexts(const struct line *line)
{
    compare(line, pds_count(node_at(line, 1)->pds), number_at(line, 2));
}

/* again NODE LEAST: packets that it has sent again, at least. */
static void cmd_again(const struct line *line)
{
    assert_true(pds_counters(node_at(line, 1)->pds)->resent >= number_at(line, 2));
}

/* doubted NODE LEAST: packets of it that found a closed port, at least. */
static void cmd_doubted(const struct line *line)
{
    assert_true(pds_counters(node_at(line, 1)->pds)->unreachable >= number_at(line, 2));
}

static const struct {
    const char *name;
    void (*call)(const struct line *line);
    bool needs_nodes;
} commands[] = {
    {"set", cmd_set, false},          {"seed", cmd_seed, false},
    {"path", cmd_path, false},        {"delay", cmd_delay, false},
    {"ordered", cmd_ordered, false},  {"send", cmd_send, false},
    {"run", cmd_run, false},          {"die", cmd_die, false},
    {"live", cmd_live, false},        {"lose", cmd_lose, false},
    {"refuse", cmd_refuse, false},    {"guarantee", cmd_guarantee, false},
    {"close", cmd_close, false},      {"received", cmd_received, false},
    {"answered", cmd_answered, true}, {"failed", cmd_failed, true},
    {"contexts", cmd_contexts, true}, {"again", cmd_again, true},
    {"shut", cmd_shut, false},        {"forge", cmd_forge, false},
    {"doubted", cmd_doubted, true},
};

/* ---- Files ---- */

static void do_line(struct line *line, char *text)
{
    char *save = NULL, *word;

    text[strcspn(text, "#\n")] = '\0';
    for (line->count = 0; (word = strtok_r(line->count ? NULL : text, " \t", &save));) {
        if (line->count == WORDS)
            complain(line, "too many words");
        line->words[line->count++] = word;
    }
    for (size_t i = 0; line->count && i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(line->words[0], commands[i].name))
            continue;
        if (commands[i].needs_nodes)
            start();
        commands[i].call(line);
        return;
    }
    if (line->count)
        complain(line, "there is no such command");
}

static void play(void **state)
{
    struct line line = {.path = *state};
    FILE *file = fopen(line.path, "r");
    char text[LINE];

    assert_non_null(file);
    settings = patient();
    begun = false;
    memset(sent, 0, sizeof(sent));
    while (fgets(text, sizeof(text), file)) {
        line.number++;
        do_line(&line, text);
    }
    fclose(file);
    if (begun)
        end();
}

/* Finds the files of scenarios/; returns how many. */
static int find(char paths[PATHS][512])
{
    const char *source = getenv("WEFT_SOURCE");
    char folder[256];
    struct dirent *entry;
    int count = 0;
    DIR *dir;

    snprintf(folder, sizeof(folder), "%s/tests/transports/uet/scenarios", source ? source : ".");
    dir = opendir(folder);
    while (dir && count < PATHS && (entry = readdir(dir)))
        if (strlen(entry->d_name) < 200 && strstr(entry->d_name, ".txt"))
            snprintf(paths[count++], sizeof(paths[0]), "%s/%s", folder, entry->d_name);
    if (dir)
        closedir(dir);
    return count;
}

int main(int argc, char **argv)
{
    static char paths[PATHS][512];
    struct CMUnitTest tests[PATHS];
    int count = argc > 1 ? argc - 1 : find(paths);

    if (!count || count > PATHS)
        return 1;
    for (int i = 0; i < count; i++) {
        char *path = argc > 1 ? argv[i + 1] : paths[i];

        tests[i] = (struct CMUnitTest){path, play, NULL, NULL, path};
    }
    return _cmocka_run_group_tests("scenarios", tests, (size_t)count, NULL, NULL);
}
