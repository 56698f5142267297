/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_replay(1): does what a trace has recorded again, on other stacks, and compares the times. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "replay_run.h"

enum {
    STACKS = 16,
    SHOWN = 16, /* processes of which each is spoken of */
    OPTION_SELF = 256
};

static void usage(FILE *out)
{
    fputs(
        "Usage: fi_replay --stack=SPEC... [OPTION]... FILE...\n"
        "Does again what the layer `trace` has recorded, over each stack, with a process of this\n"
        "machine for each FILE, and shows the times beside those of the recording.\n"
        "\n"
        "  -s, --stack=SPEC   as in FI_PROVIDER; several times for several stacks\n"
        "  -p, --pace         keeps the gaps of the recording; otherwise only waits for what the\n"
        "                     program waited for\n"
        "  -t, --timeout=S    gives up when nothing moves for so long (30)\n"
        "      --self         the one endpoint of FILE sends to itself\n"
        "  -h, --help\n",
        out);
}

struct request {
    const char *stacks[STACKS];
    int stack_count;
    bool self;
    struct replay_settings settings;
};

/* The results of one stack. */
struct outcome {
    const char *stack; /* NULL: the recording */
    int64_t *times[REPLAY_CLASSES];
    int timed[REPLAY_CLASSES]; /* of times */
    int count[REPLAY_CLASSES]; /* those that have no completion (inject) too */
    int64_t elapsed;
    uint64_t other_lens, not_cancelled;
    bool impatient;
};

static void die(const char *text)
{
    fprintf(stderr, "fi_replay: %s\n", text);
    exit(1);
}

/* ---- Files ---- */

static void add_file(struct trace_model *model, const char *path)
{
    char why[512];

    if (!trace_add_file(model, path, why, sizeof(why)))
        die(why);
}

static void refuse_half(const struct replay_plan *plan)
{
    fprintf(stderr,
            "fi_replay: %s: the traces of its peers are missing: name the files of all processes, "
            "or say by --self that its endpoint sends to itself\n",
            plan->processes[0].name);
    exit(1);
}

/* ---- One stack ---- */

static void *share(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        die("there is no memory");
    return memory;
}

/* Its arrays stand behind it. */
static size_t shared_size(const struct replay_plan *plan)
{
    return sizeof(struct replay_shared) +
           (size_t)plan->endpoint_count * sizeof(struct replay_address) +
           (size_t)plan->process_count *
               (sizeof(struct replay_target) + sizeof(struct replay_result));
}

static struct replay_shared *share_all(const struct replay_plan *plan)
{
    struct replay_shared *shared = share(shared_size(plan));

    shared->results = (struct replay_result *)(shared + 1);
    shared->targets = (struct replay_target *)(shared->results + plan->process_count);
    shared->addresses = (struct replay_address *)(shared->targets + plan->process_count);
    return shared;
}

static size_t ops_of(const struct replay_plan *plan)
{
    size_t ops = 0;

    for (int i = 0; i < plan->process_count; i++)
        ops += (size_t)plan->processes[i].op_count;
    return ops;
}

static void wait_children(const struct replay_plan *plan, const pid_t *pids,
                          struct replay_shared *shared)
{
    for (int left = plan->process_count; left;) {
        int status;
        pid_t pid = wait(&status);

        if (pid < 0 && errno == EINTR)
            continue;
        if (pid < 0)
            return;
        left--;
        for (int i = 0; i < plan->process_count; i++) {
            if (pids[i] != pid || !WIFSIGNALED(status) || shared->results[i].why[0])
                continue;
            snprintf(shared->results[i].why, sizeof(shared->results[i].why),
                     "its process was ended by signal %d (%s)", WTERMSIG(status),
                     strsignal(WTERMSIG(status)));
            atomic_store(&shared->failed, 1);
        }
    }
}

static void run_children(const struct replay_plan *plan, const struct replay_settings *settings,
                         struct replay_shared *shared, int64_t *times)
{
    pid_t *pids = calloc((size_t)plan->process_count, sizeof(*pids)), self = getpid();

    if (!pids)
        die("there is no memory");
    fflush(NULL);
    for (int i = 0; i < plan->process_count; i++) {
        pids[i] = fork();
        if (!pids[i]) {
            /* Else they would go on, polling, when their parent is killed alone. */
            prctl(PR_SET_PDEATHSIG, SIGTERM);
            _exit(getppid() != self || !replay_run(plan, i, settings, shared, times));
        }
        if (pids[i] < 0) {
            atomic_store(&shared->failed, 1);
            die("a process cannot be made");
        }
        times += plan->processes[i].op_count;
    }
    wait_children(plan, pids, shared);
    free(pids);
}

static int by_time(const void *a, const void *b)
{
    int64_t one = *(const int64_t *)a, two = *(const int64_t *)b;

    return one < two ? -1 : one > two;
}

/* times: of all operations of all processes, in order; NULL: those of the recording. */
static void sort_times(const struct replay_plan *plan, const int64_t *times,
                       struct outcome *outcome)
{
    size_t room = ops_of(plan) * sizeof(int64_t);

    for (int class = 0; class < REPLAY_CLASSES; class ++) {
        outcome->times[class] = malloc(room + 1);
        if (!outcome->times[class])
            die("there is no memory");
    }
    for (int i = 0; i < plan->process_count; i++) {
        for (int n = 0; n < plan->processes[i].op_count; n++) {
            const struct replay_op *op = &plan->processes[i].ops[n];
            int64_t ns = times ? *times++ : op->completed ? op->ns : -1;

            outcome->count[op->class] += op->inject || ns >= 0;
            if (ns >= 0 && !op->inject)
                outcome->times[op->class][outcome->timed[op->class]++] = ns;
        }
    }
    for (int class = 0; class < REPLAY_CLASSES; class ++)
        if (outcome->timed[class])
            qsort(outcome->times[class], (size_t)outcome->timed[class], sizeof(int64_t), by_time);
}

static const char *const doing[] = {[REPLAY_POST] = "posting",
                                    [REPLAY_WAIT] = "waiting for",
                                    [REPLAY_CANCEL] = "cancelling",
                                    [REPLAY_JOIN] = "joining",
                                    [REPLAY_JOINED] = "waiting for the join of"};

static void print_place(const struct replay_plan *plan, const struct replay_process *process,
                        const struct replay_step *step)
{
    const struct replay_op *op = &process->ops[step->op];
    const char *peer = "any";

    fprintf(stderr, "fi_replay: %s: %s ", process->name, doing[step->kind]);
    if (step->kind == REPLAY_JOIN || step->kind == REPLAY_JOINED) {
        fprintf(stderr, "group %d, as member %" PRIu32 " of %" PRIu32 "\n", step->op + 1,
                process->groups[step->op].rank, process->groups[step->op].size);
        return;
    }
    fprintf(stderr, "operation %d: %s, ", step->op + 1, replay_class_names[op->class]);
    if (replay_is_collective(op)) {
        fprintf(stderr, "%" PRIu64 " elements, group %d\n", op->count, op->group + 1);
        return;
    }
    if (op->peer != REPLAY_ANY)
        peer = plan->processes[plan->endpoints[op->peer].process].name;
    fprintf(stderr, "%" PRIu64 " bytes, tag 0x%" PRIx64 ", peer %s\n", op->len, op->tag, peer);
}

/* Of many processes, the first. */
static void print_more(const char *what, int count)
{
    if (count > SHOWN)
        fprintf(stderr, "fi_replay: and %d more %s\n", count - SHOWN, what);
}

/* Where the others were when one process failed. */
static void print_places(const struct replay_plan *plan, const struct replay_shared *shared)
{
    int standing = 0, strange = 0;

    for (int i = 0; i < plan->process_count; i++) {
        const struct replay_process *process = &plan->processes[i];
        int at = shared->results[i].step;

        if (at < process->step_count && standing++ < SHOWN)
            print_place(plan, process, &process->steps[at]);
    }
    print_more("that stand still", standing);
    for (int i = 0; plan->process_count > 1 && i < plan->process_count; i++)
        if (plan->processes[i].strange && strange++ < SHOWN)
            fprintf(stderr,
                    "fi_replay: %s: %u of its %u receives got messages that none of these files "
                    "is known to have sent: is the trace of a process missing?\n",
                    plan->processes[i].name, plan->processes[i].strange,
                    plan->processes[i].received);
    print_more("that got such messages", strange);
}

static bool run_stack(const struct replay_plan *plan, const struct replay_settings *settings,
                      struct outcome *outcome)
{
    struct replay_shared *shared = share_all(plan);
    int64_t *times = share(ops_of(plan) * sizeof(*times) + 1);
    int64_t first = INT64_MAX, last = 0;
    bool ok;

    outcome->stack = settings->stack;
    run_children(plan, settings, shared, times);
    ok = !atomic_load(&shared->failed);
    for (int i = 0; i < plan->process_count; i++) {
        const struct replay_result *result = &shared->results[i];

        if (result->why[0])
            fprintf(stderr, "fi_replay: %s over '%s': %s\n", plan->processes[i].name,
                    settings->stack, result->why);
        first = result->first < first ? result->first : first;
        last = result->last > last ? result->last : last;
        outcome->impatient |= result->impatient;
        outcome->other_lens += result->other_lens;
        outcome->not_cancelled += result->not_cancelled;
    }
    outcome->elapsed = last - first;
    if (ok)
        sort_times(plan, times, outcome);
    else
        print_places(plan, shared);
    munmap(shared, shared_size(plan));
    munmap(times, ops_of(plan) * sizeof(*times) + 1);
    return ok;
}

/* ---- The table ---- */

static double us_at(const struct outcome *outcome, int class, double part)
{
    int at = (int)((double)(outcome->timed[class] - 1) * part + 0.5);

    return (double)outcome->times[class][at] / 1000;
}

static double total_ms(const struct outcome *outcome, int class)
{
    double sum = 0;

    for (int i = 0; i < outcome->timed[class]; i++)
        sum += (double)outcome->times[class][i];
    return sum / 1e6;
}

static void print_class(const struct outcome *outcomes, int count, int class, const char *recorded)
{
    const char *name = replay_class_names[class];
    const int more = (int)strlen(name) - 8, width = more > 0 ? 36 - more : 36;

    for (int i = 0; i < count; i++) {
        const struct outcome *outcome = &outcomes[i];

        if (!outcome->count[class] && !outcomes[0].count[class])
            continue;
        printf("%-8s %-*.*s %8d", name, width, width, outcome->stack ? outcome->stack : recorded,
               outcome->count[class]);
        if (outcome->timed[class])
            printf(" %11.3f %11.3f %11.3f", us_at(outcome, class, 0.5), us_at(outcome, class, 0.99),
                   total_ms(outcome, class));
        putchar('\n');
    }
}

static void print_elapsed(const struct outcome *outcomes, int count, const char *recorded)
{
    const struct outcome *best = NULL;

    for (int i = 0; i < count; i++) {
        const struct outcome *outcome = &outcomes[i];
        double ms = (double)outcome->elapsed / 1e6;

        printf("%-8s %-36.36s %8s %11s %11s %11.3f", "elapsed",
               outcome->stack ? outcome->stack : recorded, "", "", "", ms);
        if (outcome->stack && ms > 0)
            printf("  %.2f of the recording's", ms / ((double)outcomes[0].elapsed / 1e6));
        putchar('\n');
        if (outcome->stack && (!best || outcome->elapsed < best->elapsed))
            best = outcome;
    }
    if (best && count > 2)
        printf("fastest: %s\n", best->stack);
}

static void print_left(const struct replay_plan *plan)
{
    for (int why = 0; plan->process_count > SHOWN && why < REPLAY_LEFT; why++) {
        unsigned long left = 0;

        for (int i = 0; i < plan->process_count; i++)
            left += plan->processes[i].left[why];
        if (left)
            printf("%d processes: left out: %lu %s\n", plan->process_count, left,
                   replay_left_texts[why]);
    }
    for (int i = 0; plan->process_count <= SHOWN && i < plan->process_count; i++)
        for (int why = 0; why < REPLAY_LEFT; why++)
            if (plan->processes[i].left[why])
                printf("%s: left out: %u %s\n", plan->processes[i].name,
                       plan->processes[i].left[why], replay_left_texts[why]);
}

static void print_all(const struct replay_plan *plan, const struct outcome *outcomes, int count)
{
    char recorded[128];

    snprintf(recorded, sizeof(recorded), "(recorded over %s)", plan->recorded);
    printf("%d process%s, %zu operations; from the call to the completion\n", plan->process_count,
           plan->process_count == 1 ? "" : "es", ops_of(plan));
    printf("%-8s %-36s %8s %11s %11s %11s\n", "", "stack", "count", "p50 us", "p99 us", "total ms");
    for (int class = 0; class < REPLAY_CLASSES; class ++)
        print_class(outcomes, count, class, recorded);
    print_elapsed(outcomes, count, recorded);
    for (int i = 1; i < count; i++)
        if (outcomes[i].other_lens)
            printf("%s: %" PRIu64 " receives got messages of other lengths than in the recording\n",
                   outcomes[i].stack, outcomes[i].other_lens);
    for (int i = 1; i < count; i++)
        if (outcomes[i].not_cancelled)
            printf("%s: %" PRIu64 " operations completed that the program could cancel\n",
                   outcomes[i].stack, outcomes[i].not_cancelled);
    for (int i = 1; i < count; i++)
        if (outcomes[i].impatient)
            printf(
                "%s: sends wait for receives that the program posted behind them; such sends were "
                "not waited for\n",
                outcomes[i].stack);
    print_left(plan);
}

/* ---- The command line ---- */

static const struct option options[] = {
    {"stack", required_argument, NULL, 's'},   {"pace", no_argument, NULL, 'p'},
    {"timeout", required_argument, NULL, 't'}, {"self", no_argument, NULL, OPTION_SELF},
    {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
};

static void parse(int argc, char **argv, struct request *request)
{
    int option;

    while ((option = getopt_long(argc, argv, "s:pt:h", options, NULL)) != -1) {
        switch (option) {
        case 's':
            if (request->stack_count == STACKS)
                die("too many stacks");
            request->stacks[request->stack_count++] = optarg;
            break;
        case 'p': request->settings.pace = true; break;
        case 't':
            request->settings.timeout_s = (int)cli_number("--timeout", optarg, 1, 86400);
            break;
        case OPTION_SELF: request->self = true; break;
        case 'h': usage(stdout); exit(0);
        default: usage(stderr); exit(2);
        }
    }
    if (optind == argc || !request->stack_count) {
        usage(stderr);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    struct request request = {.settings = {.timeout_s = 30}};
    struct outcome outcomes[STACKS + 1] = {0};
    static struct replay_plan plan;
    struct trace_model model = {0};
    int count = 1, status = 0;
    char why[1024];

    parse(argc, argv, &request);
    for (int i = optind; i < argc; i++)
        add_file(&model, argv[i]);
    if (!trace_link(&model))
        die("there is no memory");
    if (!replay_plan_make(&model, &plan, why, sizeof(why)))
        die(why);
    trace_free(&model); /* large memory makes forks slow */
    if (!request.self && replay_plan_is_alone(&plan))
        refuse_half(&plan);
    sort_times(&plan, NULL, &outcomes[0]);
    outcomes[0].elapsed = plan.elapsed;
    for (int i = 0; i < request.stack_count; i++) {
        request.settings.stack = request.stacks[i];
        if (run_stack(&plan, &request.settings, &outcomes[count]))
            count++;
        else
            status = 1;
    }
    if (count > 1)
        print_all(&plan, outcomes, count);
    for (int i = 0; i < count; i++)
        for (int class = 0; class < REPLAY_CLASSES; class ++)
            free(outcomes[i].times[class]);
    replay_plan_free(&plan);
    return status;
}
