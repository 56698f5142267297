/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_top(1): a live view of programs under the layer `monitor`.
 *
 * The terminal is driven by six ANSI sequences; curses would be a dependency for nothing more. It
 * is put back in order at any end that a program can see.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "top_view.h"

static void usage(FILE *out)
{
    fputs("Usage: fi_top [OPTION]... [PATH]\n"
          "Shows programs that run with FI_HOOK=monitor: calls, bytes, queues, latencies.\n"
          "PATH: a page file, or a folder of them; without it, the user's.\n"
          "\n"
          "  -d, --delay=SECONDS   from one view to the next (1; 0.1 to 3600)\n"
          "  -n, --number=N        ends after N views\n"
          "  -b, --batch           views one below the other, without a terminal\n"
          "      --once            one view, of all since the programs' start; implies --batch\n"
          "      --raw             exact counts, for scripts; implies --batch\n"
          "  -s, --sort=KEY        calls, bytes, latency, queue, again, pid\n"
          "  -o, --objects         endpoints, queues and domains too\n"
          "  -p, --pid=PID         only this process\n"
          "  -a, --all             of all users\n"
          "      --clean           removes files of processes that are gone, and ends\n"
          "  -h, --help\n"
          "Keys: q ends, o shows objects, s sorts by the next key.\n",
          out);
}

enum {
    OPTION_ONCE = 256,
    OPTION_RAW,
    OPTION_CLEAN
};

static const struct option options[] = {
    {"delay", required_argument, NULL, 'd'}, {"number", required_argument, NULL, 'n'},
    {"batch", no_argument, NULL, 'b'},       {"once", no_argument, NULL, OPTION_ONCE},
    {"raw", no_argument, NULL, OPTION_RAW},  {"sort", required_argument, NULL, 's'},
    {"objects", no_argument, NULL, 'o'},     {"pid", required_argument, NULL, 'p'},
    {"all", no_argument, NULL, 'a'},         {"clean", no_argument, NULL, OPTION_CLEAN},
    {"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0},
};

struct request {
    struct top_view view;
    double delay;
    unsigned long number; /* of views; 0: no end */
    bool batch, all, clean;
    char path[4096];
};

/* ---- The terminal ---- */

#define SCREEN_ENTER "\033[?1049h\033[?25l" /* the other screen, no cursor */
#define SCREEN_LEAVE "\033[?25h\033[?1049l"
#define SCREEN_HOME "\033[H"
#define LINE_END "\033[K"
#define SCREEN_END "\033[J"

static struct termios terminal_before;
static volatile sig_atomic_t screen_on, ending, resized;

static void write_text(const char *text, size_t len)
{
    while (len) {
        ssize_t rc = write(STDOUT_FILENO, text, len);

        if (rc < 0 && errno != EINTR)
            return;
        text += rc > 0 ? rc : 0;
        len -= rc > 0 ? (size_t)rc : 0;
    }
}

static void leave_screen(void)
{
    if (!screen_on)
        return;
    screen_on = 0;
    write_text(SCREEN_LEAVE, sizeof(SCREEN_LEAVE) - 1);
    tcsetattr(STDIN_FILENO, TCSANOW, &terminal_before);
}

static void on_signal(int number)
{
    if (number == SIGWINCH)
        resized = 1;
    else
        ending = 1;
}

static void enter_screen(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct termios raw;

    if (tcgetattr(STDIN_FILENO, &terminal_before))
        return;
    raw = terminal_before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    sigaction(SIGWINCH, &action, NULL);
    atexit(leave_screen);
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    screen_on = 1;
    write_text(SCREEN_ENTER, sizeof(SCREEN_ENTER) - 1);
}

static void measure(struct top_view *view)
{
    struct winsize size;

    view->rows = 24;
    view->columns = 80;
    if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_row && size.ws_col) {
        view->rows = size.ws_row;
        view->columns = size.ws_col;
    }
}

/* At once, over the view before: no flicker. */
static void show_screen(const char *text)
{
    char *all = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&all, &len);

    if (!out)
        return;
    fputs(SCREEN_HOME, out);
    for (; *text; text++) {
        if (*text == '\n')
            fputs(LINE_END "\r\n", out);
        else
            fputc(*text, out);
    }
    fputs(SCREEN_END, out);
    if (!fclose(out))
        write_text(all, len);
    free(all);
}

static void key(struct request *request, char c)
{
    switch (c) {
    case 'q': ending = 1; break;
    case 'o': request->view.objects = !request->view.objects; break;
    case 's': request->view.sort = (request->view.sort + 1) % TOP_SORTS; break;
    default: break;
    }
}

/* True: the next reading is due; false: a key or a resize wants the same one again. */
static bool wait_for(struct request *request, double until)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    struct timespec now;
    char c;

    for (;;) {
        double left;

        clock_gettime(CLOCK_MONOTONIC, &now);
        left = until - (double)now.tv_sec - (double)now.tv_nsec / 1e9;
        if (left <= 0 || ending)
            return true;
        if (poll(&input, screen_on ? 1 : 0, (int)(left * 1000) + 1) > 0) {
            if (read(STDIN_FILENO, &c, 1) != 1)
                ending = 1;
            else
                key(request, c);
            return false;
        }
        if (resized) {
            resized = 0;
            return false;
        }
    }
}

/* ---- Readings ---- */

static bool read_all(const char *path, struct top_reading *reading)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    reading->seconds = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    reading->files = NULL;
    reading->count = mon_files_read(path, &reading->files);
    if (reading->count >= 0)
        return true;
    reading->count = 0;
    return errno == ENOENT; /* no process has made it yet */
}

static void show(struct request *request, const struct top_reading *before,
                 const struct top_reading *now)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out;

    if (!screen_on) {
        top_print(&request->view, before, now, request->path, stdout);
        if (fflush(stdout))
            ending = 1;
        return;
    }
    out = open_memstream(&text, &len);
    if (!out)
        return;
    measure(&request->view);
    top_print(&request->view, before, now, request->path, out);
    if (!fclose(out))
        show_screen(text);
    free(text);
}

static int run(struct request *request)
{
    struct top_reading before = {0}, now = {0};
    bool first = true;

    for (unsigned long view = 1; !ending; view++) {
        if (!read_all(request->path, &now)) {
            leave_screen();
            fprintf(stderr, "fi_top: %s: %s\n", request->path, strerror(errno));
            return 1;
        }
        show(request, first ? NULL : &before, &now);
        if (view == request->number)
            break;
        while (!wait_for(request, now.seconds + request->delay) && !ending)
            show(request, first ? NULL : &before, &now);
        mon_files_free(before.files, before.count);
        before = now;
        now = (struct top_reading){0};
        first = false;
    }
    mon_files_free(before.files, before.count);
    mon_files_free(now.files, now.count);
    return 0;
}

/* Files that linger were asked to, until now. */
static int clean(const struct request *request)
{
    struct top_reading now;
    int removed = 0, status = 0;

    if (!read_all(request->path, &now)) {
        fprintf(stderr, "fi_top: %s: %s\n", request->path, strerror(errno));
        return 1;
    }
    for (int i = 0; i < now.count; i++) {
        const struct mon_file *file = &now.files[i];

        if (!file->page || (file->life != MON_GONE && file->life != MON_CLOSED))
            continue;
        if (unlink(file->path)) {
            fprintf(stderr, "fi_top: %s: %s\n", file->path, strerror(errno));
            status = 1;
        } else {
            removed++;
        }
    }
    printf("removed %d of %d\n", removed, now.count);
    mon_files_free(now.files, now.count);
    return status;
}

/* ---- The command line ---- */

static double delay_of(const char *text)
{
    char *end;
    double seconds = strtod(text, &end);

    if (end == text || *end || !(seconds >= 0.1 && seconds <= 3600)) {
        fprintf(stderr, "fi_top: --delay=%s: seconds, from 0.1 to 3600, are needed\n", text);
        exit(2);
    }
    return seconds;
}

static enum top_sort sort_of(const char *text)
{
    for (int i = 0; i < TOP_SORTS; i++)
        if (!strcmp(text, top_sort_names[i]))
            return (enum top_sort)i;
    fprintf(stderr, "fi_top: --sort=%s: there are calls, bytes, latency, queue, again, pid%s\n",
            text, cli_hint(text, top_sort_names));
    exit(2);
}

/* Without one it waits for the first program; a folder that is named is there. */
static void take_path(struct request *request, const char *path)
{
    snprintf(request->path, sizeof(request->path), "%s", path);
    if (access(path, F_OK)) {
        fprintf(stderr, "fi_top: %s: %s\n", path, strerror(errno));
        exit(1);
    }
}

static void parse(int argc, char **argv, struct request *request)
{
    int option;

    while ((option = getopt_long(argc, argv, "d:n:bs:op:ah", options, NULL)) != -1) {
        switch (option) {
        case 'd': request->delay = delay_of(optarg); break;
        case 'n': request->number = cli_number("--number", optarg, 1, 1000000000); break;
        case 'b': request->batch = true; break;
        case OPTION_RAW: request->view.raw = request->batch = true; break;
        case OPTION_ONCE:
            request->batch = true;
            request->number = 1;
            break;
        case 's': request->view.sort = sort_of(optarg); break;
        case 'o': request->view.objects = true; break;
        case 'p': request->view.pid = (uint32_t)cli_number("--pid", optarg, 1, INT32_MAX); break;
        case 'a': request->all = true; break;
        case OPTION_CLEAN: request->clean = true; break;
        case 'h': usage(stdout); exit(0);
        default: usage(stderr); exit(2);
        }
    }
    if (optind < argc - 1) {
        usage(stderr);
        exit(2);
    }
    if (optind == argc - 1)
        take_path(request, argv[optind]);
    else
        mon_default_path(request->path, sizeof(request->path), request->all);
}

int main(int argc, char **argv)
{
    struct request request = {.delay = 1};

    parse(argc, argv, &request);
    if (request.clean)
        return clean(&request);
    if (!request.batch && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
        enter_screen();
    return run(&request);
}
