/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * WEFT_EMULATOR_FAULTS: FAULT[;FAULT]..., each NAME[:KEY=VALUE[,KEY=VALUE]...].
 *
 *      wr          a request fails          status=NAME (REM_ACCESS_ERR, ...)
 *                                           op=send|write|read|atomic
 *      drop        a packet is lost
 *      delay       a packet waits           us=N
 *      rnr         a receive is not found
 *      mr          a registration fails
 *      open        a device cannot be opened, as without permission
 *      cm          a connection fails       do=reject|timeout|unreachable|late|address|route
 *      port        a port goes down         down=MS after the device opens, or request=N: as the
 *                                           N-th request starts; up=MS later; port=N; hang=1:
 *                                           requests wait for it, and do not fail
 *      gid         a GID leaves the table   as the N-th queue pair is to use it
 *      remove      a device goes away       after=MS, or request=N
 *
 * Which one: n=N the N-th (1 if nothing is said), times=M that many from there, or p=PERCENT by
 * chance. Where: device=NAME, process=NAME (of the program); everywhere if nothing is said.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "fault.h"
#include "loop.h"
#include "qp.h"
#include "report.h"
#include "settings.h"

#define MILLISECOND 1000000ull

enum {
    FAULTS = 16,
    TEXT = 32,
};

static const char *const names[] = {"wr",   "drop", "delay", "rnr",  "mr",
                                    "open", "cm",   "gid",   "port", "remove"};
enum name {
    WR,
    DROP,
    DELAY,
    RNR,
    MR,
    OPEN,
    CM,
    GID,
    PORT,
    REMOVE,
    NAMES
};

static struct fault {
    enum name name;
    char device[TEXT], process[TEXT], status[TEXT], operation[TEXT], action[TEXT];
    long n, times, us, down, up, port, after, request, hang;
    double percent;
    long seen;
    struct timer timer;
} faults[FAULTS];
static int fault_count = -1;

void (*fault_on_removal)(const struct device *device);

static bool set_number(long *slot, const char *value)
{
    char *end;

    *slot = strtol(value, &end, 10);
    return end != value && !*end && *slot >= 0;
}

static bool set_text(char *slot, const char *value)
{
    return snprintf(slot, TEXT, "%s", value) < TEXT;
}

static bool set_key(struct fault *fault, const char *key, const char *value)
{
    static const struct {
        const char *key;
        size_t offset;
        bool is_text;
    } keys[] = {
#define KEY(name, member, text) {name, offsetof(struct fault, member), text}
        KEY("device", device, true),    KEY("process", process, true), KEY("status", status, true),
        KEY("op", operation, true),     KEY("do", action, true),       KEY("n", n, false),
        KEY("times", times, false),     KEY("us", us, false),          KEY("down", down, false),
        KEY("up", up, false),           KEY("port", port, false),      KEY("after", after, false),
        KEY("request", request, false), KEY("hang", hang, false),
#undef KEY
    };

    if (strcmp(key, "p") == 0) {
        fault->percent = strtod(value, NULL);
        return fault->percent > 0;
    }
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        char *slot = (char *)fault + keys[i].offset;
        if (strcmp(keys[i].key, key) == 0)
            return keys[i].is_text ? set_text(slot, value)
                                   : set_number((long *)(void *)slot, value);
    }
    return false;
}

static bool parse_fault(char *text)
{
    struct fault *fault = &faults[fault_count];
    char *rest = strchr(text, ':');

    memset(fault, 0, sizeof(*fault));
    fault->n = fault->times = fault->port = 1;
    if (rest)
        *rest++ = '\0';
    for (fault->name = 0; fault->name < NAMES; fault->name++)
        if (strcmp(names[fault->name], text) == 0)
            break;
    if (fault->name == NAMES) {
        report_say(
            "WEFT_EMULATOR_FAULTS: no fault '%s'; there are wr, drop, delay, rnr, mr, open, cm, "
            "gid, port, remove",
            text);
        return false;
    }
    for (char *key; rest && (key = strsep(&rest, ","));) {
        char *value = strchr(key, '=');
        if (value)
            *value++ = '\0';
        if (!value || !set_key(fault, key, value)) {
            report_say("WEFT_EMULATOR_FAULTS: fault '%s' cannot have '%s=%s'", text, key,
                       value ? value : "");
            return false;
        }
    }
    return true;
}

static void parse_all(void)
{
    char *copy = strdup(settings()->faults), *rest = copy;

    fault_count = 0;
    for (char *text; copy && (text = strsep(&rest, ";"));) {
        if (!*text)
            continue;
        if (fault_count == FAULTS) {
            report_say("WEFT_EMULATOR_FAULTS: at most %d faults", FAULTS);
            break;
        }
        if (parse_fault(text))
            fault_count++;
    }
    free(copy);
}

static bool is_here(const struct fault *fault, const struct device *device)
{
    if (fault->process[0] && strcmp(fault->process, program_invocation_short_name) != 0)
        return false;
    return !fault->device[0] || (device && strcmp(fault->device, device->device.name) == 0);
}

/* Counts an event, and says whether the fault happens at it. */
static bool happens(struct fault *fault)
{
    if (fault->percent > 0)
        return settings_random() % 1000000 < fault->percent * 10000;
    fault->seen++;
    return fault->seen >= fault->n && fault->seen < fault->n + fault->times;
}

static struct fault *find(enum name name, const struct device *device)
{
    if (fault_count < 0)
        parse_all();
    for (int i = 0; i < fault_count; i++)
        if (faults[i].name == name && is_here(&faults[i], device) && happens(&faults[i]))
            return &faults[i];
    return NULL;
}

static enum ibv_wc_status status_of(const char *name)
{
    static const char *const statuses[] = {
        "SUCCESS",        "LOC_LEN_ERR", "LOC_QP_OP_ERR", "LOC_EEC_OP_ERR",   "LOC_PROT_ERR",
        "WR_FLUSH_ERR",   "MW_BIND_ERR", "BAD_RESP_ERR",  "LOC_ACCESS_ERR",   "REM_INV_REQ_ERR",
        "REM_ACCESS_ERR", "REM_OP_ERR",  "RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR"};

    for (size_t i = 1; i < sizeof(statuses) / sizeof(*statuses); i++)
        if (strcmp(statuses[i], name) == 0)
            return (enum ibv_wc_status)i;
    return IBV_WC_GENERAL_ERR;
}

static const char *operation_of(enum ibv_wr_opcode opcode)
{
    switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM: return "write";
    case IBV_WR_RDMA_READ: return "read";
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD: return "atomic";
    default: return "send";
    }
}

/* Ports and devices that go as a request starts: from the loop, not within it. */
static void count_request(struct fault *fault)
{
    if (fault->request && ++fault->seen == fault->request)
        loop_set_timer(&fault->timer, loop_now());
}

enum ibv_wc_status fault_request(const struct device *device, enum ibv_wr_opcode opcode)
{
    if (fault_count < 0)
        parse_all();
    for (int i = 0; i < fault_count; i++) {
        struct fault *fault = &faults[i];
        if (!is_here(fault, device))
            continue;
        count_request(fault);
        if (fault->name != WR)
            continue;
        if (fault->operation[0] && strcmp(fault->operation, operation_of(opcode)) != 0)
            continue;
        if (happens(fault))
            return status_of(fault->status);
    }
    return IBV_WC_SUCCESS;
}

bool fault_drop(const struct device *device)
{
    return find(DROP, device) != NULL;
}

uint64_t fault_delay(const struct device *device)
{
    unsigned jitter = settings()->jitter_us;
    struct fault *fault = find(DELAY, device);
    uint64_t delay = fault ? (uint64_t)fault->us * 1000 : 0;

    /* Half of the packets, so that those of several queue pairs overtake each other. */
    if (jitter && settings_random() % 2)
        delay += settings_random() % (jitter * 1000ull) + 1;
    return delay;
}

bool fault_not_ready(const struct device *device)
{
    return find(RNR, device) != NULL;
}

int fault_registration(void)
{
    return find(MR, NULL) ? ENOMEM : 0;
}

int fault_open(const struct device *device)
{
    return find(OPEN, device) ? EACCES : 0;
}

bool fault_gid(const struct device *device)
{
    return find(GID, device) != NULL;
}

enum fault_connect fault_connect(const struct device *device, enum fault_connect step)
{
    static const char *const actions[] = {"",     "reject",  "timeout", "unreachable",
                                          "late", "address", "route"};

    if (fault_count < 0)
        parse_all();
    for (int i = 0; i < fault_count; i++) {
        struct fault *fault = &faults[i];
        if (fault->name != CM || !is_here(fault, device))
            continue;
        for (int action = 1; action < 7; action++) {
            bool of_step = step == FAULT_CONNECT_NONE ? action < FAULT_CONNECT_ADDRESS
                                                      : (enum fault_connect)action == step;
            if (of_step && strcmp(actions[action], fault->action) == 0 && happens(fault))
                return (enum fault_connect)action;
        }
    }
    return FAULT_CONNECT_NONE;
}

static void set_port(const struct fault *fault, bool down)
{
    unsigned count;
    struct device *const *all = device_all(&count);

    for (unsigned i = 0; i < count; i++) {
        if (!is_here(fault, all[i]) || fault->port < 1 || fault->port > (long)all[i]->port_count)
            continue;
        all[i]->ports[fault->port - 1].down = down;
        all[i]->ports[fault->port - 1].hangs = fault->hang != 0;
        context_report_all(all[i], down ? IBV_EVENT_PORT_ERR : IBV_EVENT_PORT_ACTIVE,
                           (int)fault->port);
    }
}

static void port_up(struct timer *timer)
{
    set_port(list_item(timer, struct fault, timer), false);
}

static void port_down(struct timer *timer)
{
    struct fault *fault = list_item(timer, struct fault, timer);

    set_port(fault, true);
    if (fault->up) {
        timer->fire = port_up;
        loop_set_timer(timer, loop_now() + (uint64_t)fault->up * MILLISECOND);
    }
}

static void fail_of_device(struct qp *qp, void *device)
{
    if (qp->device == device)
        qp_fail(qp);
}

static void remove_device(struct timer *timer)
{
    struct fault *fault = list_item(timer, struct fault, timer);
    unsigned count;
    struct device *const *all = device_all(&count);

    for (unsigned i = 0; i < count; i++) {
        if (!is_here(fault, all[i]))
            continue;
        all[i]->removed = true;
        qp_each(fail_of_device, all[i]);
        context_report_all(all[i], IBV_EVENT_DEVICE_FATAL, 0);
        if (fault_on_removal)
            fault_on_removal(all[i]);
    }
}

void fault_start(void)
{
    static bool started;

    if (started)
        return;
    started = true;
    if (fault_count < 0)
        parse_all();
    for (int i = 0; i < fault_count; i++) {
        struct fault *fault = &faults[i];
        if (fault->name != PORT && fault->name != REMOVE)
            continue;
        if (fault->process[0] && strcmp(fault->process, program_invocation_short_name) != 0)
            continue;
        bool is_port = fault->name == PORT;
        fault->timer.fire = is_port ? port_down : remove_device;
        if (fault->request)
            continue;
        if (is_port && !fault->down) { /* before anybody can look */
            port_down(&fault->timer);
            continue;
        }
        loop_set_timer(&fault->timer,
                       loop_now() + (uint64_t)(is_port ? fault->down : fault->after) * MILLISECOND);
    }
}
