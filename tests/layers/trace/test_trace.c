/* SPDX-License-Identifier: BSD-2-Clause */
/* The records of a file, their order, and the cost of each: no lock, allocation, system call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/mman.h>

#include <rdma/fi_eq.h>
#include <weft/trace.h>

#include "../../support/tries.h"
#include "../pair.h"

static char path[64];

/* A disk that is full after so many reservations. */
static int reservations_left = 1000;

static int reserve(int fd, off_t offset, off_t len)
{
    return reservations_left-- > 0 ? ftruncate(fd, offset + len), 0 : ENOSPC;
}

/* Under the name that it has for files of any size. */
int posix_fallocate(int fd, off_t offset, off_t len)
{
    return reserve(fd, offset, len);
}

static const char *stack(const char *format)
{
    static char spec[300];
    char part[128];
    const char *rest;
    size_t used = 0;

    snprintf(part, sizeof(part), "trace(file=%s,size=65536,threads=2)", path);
    for (rest = format; *rest; rest++) {
        if (*rest == '@')
            used += (size_t)snprintf(spec + used, sizeof(spec) - used, "%s", part);
        else
            spec[used++] = *rest;
    }
    spec[used] = 0;
    return spec;
}

static const char *stack_with(const char *options, const char *below)
{
    static char spec[256];

    snprintf(spec, sizeof(spec), "trace(file=%s,size=65536%s);%s", path, options, below);
    return spec;
}

/* ---- The file ---- */

struct view {
    const struct weft_trace_header *header;
    size_t len;
};

static void look(struct view *view)
{
    int fd = open(path, O_RDONLY);
    struct stat info;

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &info), 0);
    view->len = (size_t)info.st_size;
    view->header = mmap(NULL, view->len, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(view->header != MAP_FAILED);
    close(fd);
    assert_string_equal(view->header->magic, WEFT_TRACE_MAGIC);
}

static void look_away(struct view *view)
{
    munmap((void *)view->header, view->len);
}

static const struct weft_trace_ring *ring_of(const struct view *view, unsigned index)
{
    return (const void *)((const char *)view->header + view->header->header_size +
                          index * view->header->ring_size);
}

static const struct weft_trace_record *record_of(const struct view *view, unsigned ring, uint64_t n)
{
    const struct weft_trace_ring *head = ring_of(view, ring);

    return (const struct weft_trace_record *)((const char *)head + WEFT_TRACE_RING_HEAD) +
           n % head->capacity;
}

static bool is(const struct view *view, const struct weft_trace_record *record, const char *name)
{
    return record->kind >= WEFT_TRACE_CALL &&
           !strcmp(view->header->names[record->kind - WEFT_TRACE_CALL], name);
}

/* The newest record of a call with that name, or of a kind (name NULL). */
static const struct weft_trace_record *newest(const struct view *view, const char *name,
                                              unsigned kind, unsigned layer)
{
    for (uint64_t n = ring_of(view, 0)->head; n--;) {
        const struct weft_trace_record *record = record_of(view, 0, n);

        if (record->layer == layer && (name ? is(view, record, name) : record->kind == kind))
            return record;
    }
    return NULL;
}

static int setup(void **state)
{
    static int number;

    snprintf(path, sizeof(path), "/tmp/weft-test-trace.%d.%d", (int)getpid(), number++);
    reservations_left = 1000;
    return 0;
}

static int teardown(void **state)
{
    unlink(path);
    return 0;
}

/* ---- What is recorded ---- */

static void a_message_is_recorded(void **state)
{
    const struct weft_trace_record *send, *receive, *done;
    char from[64] = "", to[64];
    struct view view;
    struct pair pair;

    pair_open(&pair, stack("@;loop"));
    assert_true(pair_message(&pair, from, to, 11, 77, &from, &to));
    look(&view);
    send = newest(&view, "fi_tsend", 0, 0);
    assert_non_null(send);
    assert_int_equal(send->len, 11);
    assert_int_equal(send->tag, 77);
    assert_int_equal(send->peer, pair.to[1]);
    assert_int_equal(send->buf, (uintptr_t)from);
    assert_int_equal(send->context, (uintptr_t)&from);
    assert_int_equal(send->result, 0);
    receive = newest(&view, "fi_trecv", 0, 0);
    assert_non_null(receive);
    assert_true(receive->time <= send->time);
    assert_int_equal(receive->peer, FI_ADDR_UNSPEC);
    done = newest(&view, NULL, WEFT_TRACE_COMPLETION, 0);
    assert_non_null(done);
    while (!(done->inside & FI_RECV))
        done--;
    assert_int_equal(done->context, (uintptr_t)&to);
    assert_true(done->time >= send->time);
    assert_int_equal(done->len, 11);
    assert_string_equal(view.header->layers[0], "loop");
    look_away(&view);
    pair_close(&pair);
}

static void objects_are_described(void **state)
{
    const struct weft_trace_record *record;
    struct view view;
    struct pair pair;

    pair_open(&pair, stack("@;loop"));
    look(&view);
    record = newest(&view, "fi_endpoint", 0, 0);
    assert_non_null(record);
    assert_int_equal(view.header->objects[WEFT_TRACE_NUMBER(record->buf) - 1].fclass, FI_CLASS_EP);
    assert_int_equal(view.header->objects[record->object - 1].fclass, FI_CLASS_DOMAIN);
    assert_int_equal(view.header->objects[WEFT_TRACE_NUMBER(record->buf) - 1].parent,
                     record->object);
    pair_close(&pair);
    assert_non_null(newest(&view, "fi_close", 0, 0));
    look_away(&view);
}

static void objects_of_any_number_have_a_class(void **state)
{
    const struct weft_trace_record *record;
    struct fid_cntr *cntr = NULL;
    struct view view;
    struct pair pair;

    pair_open(&pair, stack("@;loop"));
    for (int i = 0; i <= WEFT_TRACE_OBJECTS; i++) {
        if (cntr)
            assert_int_equal(fi_close(&cntr->fid), 0);
        assert_int_equal(fi_cntr_open(pair.domain, NULL, &cntr, NULL), 0);
    }
    assert_int_equal(fi_close(&cntr->fid), 0);
    look(&view);
    record = newest(&view, "fi_cntr_open", 0, 0);
    assert_non_null(record);
    assert_true(WEFT_TRACE_NUMBER(record->buf) > WEFT_TRACE_OBJECTS);
    assert_int_equal(WEFT_TRACE_CLASS(record->buf), FI_CLASS_CNTR);
    assert_int_equal(record->fclass, FI_CLASS_DOMAIN);
    record = newest(&view, "fi_close", 0, 0);
    assert_non_null(record);
    assert_true(record->object > WEFT_TRACE_OBJECTS);
    assert_int_equal(record->fclass, FI_CLASS_CNTR);
    look_away(&view);
    pair_close(&pair);
}

/* An endpoint's own, and the same behind a number of the address vector. */
static void addresses_say_whose_they_are(void **state)
{
    uint64_t own[2], inserted[2], numbers[2];
    int names = 0, inserts = 0;
    struct view view;
    struct pair pair;

    pair_open(&pair, stack("@;loop"));
    look(&view);
    for (uint64_t n = 0; n < ring_of(&view, 0)->head; n++) {
        const struct weft_trace_record *record = record_of(&view, 0, n);

        if (is(&view, record, "address") && record->fclass == FI_CLASS_AV && inserts < 2) {
            inserted[inserts] = record->tag;
            numbers[inserts++] = record->peer;
        } else if (is(&view, record, "address") && record->fclass == FI_CLASS_EP && names < 2) {
            own[names++] = record->tag;
        }
    }
    assert_int_equal(names, 2);
    assert_int_equal(inserts, 2);
    assert_memory_equal(own, inserted, sizeof(own));
    assert_memory_equal(numbers, pair.to, sizeof(numbers));
    assert_int_not_equal(own[0], own[1]);
    look_away(&view);
    pair_close(&pair);
}

static void a_registration_says_where_and_what_for(void **state)
{
    const struct weft_trace_record *call;
    struct fid_mr *mr;
    struct pair pair;
    struct view view;
    char buf[64];

    pair_open(&pair, stack("@;loop"));
    assert_int_equal(fi_mr_reg(pair.domain, buf, sizeof(buf), FI_REMOTE_READ, 0, 7, 0, &mr, NULL),
                     0);
    look(&view);
    call = newest(&view, "fi_mr_reg", 0, 0);
    assert_non_null(call);
    assert_int_equal(call->len, sizeof(buf));
    assert_int_equal(call->tag, 7);
    assert_int_equal(call[1].kind, WEFT_TRACE_MORE);
    assert_int_equal(call[1].len, (uintptr_t)buf);
    assert_int_equal(call[1].peer, FI_REMOTE_READ);
    look_away(&view);
    assert_int_equal(fi_close(&mr->fid), 0);
    pair_close(&pair);
}

static void an_error_is_recorded(void **state)
{
    const struct weft_trace_record *record;
    struct view view;
    struct pair pair;
    char byte = 0;

    pair_open(&pair, stack("@;loop"));
    assert_true(fi_tinject(pair.ep[0], &byte, SIZE_MAX / 4, pair.to[1], 1) < 0);
    look(&view);
    record = newest(&view, "fi_tinject", 0, 0);
    assert_non_null(record);
    assert_true(record->result < 0 && record->result != WEFT_TRACE_PENDING);
    look_away(&view);
    pair_close(&pair);
}

/* The lower's call is one record inside of the upper's. */
static void layers_with_one_file_nest(void **state)
{
    const struct weft_trace_record *upper, *lower;
    char from[64] = "", to[64];
    struct view view;
    struct pair pair;

    pair_open(&pair, stack("@;noop;@;loop"));
    assert_true(pair_message(&pair, from, to, 8, 1, &from, &to));
    look(&view);
    assert_int_equal(view.header->layer_count, 2);
    upper = newest(&view, "fi_tsend", 0, 1);
    lower = newest(&view, "fi_tsend", 0, 0);
    assert_non_null(upper);
    assert_ptr_equal(lower, upper + 1);
    assert_int_equal(upper->inside, 1);
    assert_int_equal(lower->inside, 0);
    look_away(&view);
    pair_close(&pair);
}

static void the_newest_stay(void **state)
{
    char from[64] = "", to[64];
    struct view view;
    struct pair pair;

    pair_open(&pair, stack("@;loop"));
    for (uint64_t tag = 0; tag < 1000; tag++)
        assert_true(pair_message(&pair, from, to, 8, tag, &from, &to));
    look(&view);
    assert_true(ring_of(&view, 0)->head > ring_of(&view, 0)->capacity);
    assert_int_equal(newest(&view, "fi_tsend", 0, 0)->tag, 999);
    look_away(&view);
    pair_close(&pair);
}

static int messages_and_a_kill(const char *spec)
{
    char from[64] = "", to[64];
    struct pair pair;

    pair_open(&pair, spec);
    for (uint64_t tag = 0; tag < 10; tag++)
        pair_message(&pair, from, to, 8, tag, &from, &to);
    raise(SIGKILL);
    return 0;
}

static void a_killed_process_leaves_its_records(void **state)
{
    struct view view;

    assert_int_equal(pair_child(messages_and_a_kill, stack("@;loop")), 256 + SIGKILL);
    look(&view);
    assert_int_equal(newest(&view, "fi_tsend", 0, 0)->tag, 9);
    look_away(&view);
}

/* A counter that is waited for, for ever, and a signal that ends the process inside of that. */
static int abort_in_call(const char *spec)
{
    struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fid_cntr *cntr;
    struct pair pair;

    pair_open(&pair, spec);
    if (fi_cntr_open(pair.domain, &attr, &cntr, NULL))
        return 1;
    signal(SIGALRM, SIG_DFL);
    ualarm(200000, 0);
    return fi_cntr_wait(cntr, 1, -1);
}

static void calls_beside_the_data_path_are_recorded(void **state)
{
    struct fi_eq_entry event = {.data = 5};
    struct fi_eq_attr eq_attr = {.size = 8, .flags = FI_WRITE, .wait_obj = FI_WAIT_FD};
    struct fid *fids[1];
    char address[256];
    size_t len = sizeof(address);
    struct fid_eq *eq;
    struct view view;
    struct pair pair;

    pair_open(&pair, stack("@;loop"));
    assert_int_equal(fi_eq_open(pair.fabric, &eq_attr, &eq, NULL), 0);
    assert_int_equal(fi_eq_write(eq, 77, &event, sizeof(event), 0), sizeof(event));
    fids[0] = &eq->fid;
    assert_int_equal(fi_trywait(pair.fabric, fids, 1), -FI_EAGAIN);
    assert_int_equal(fi_av_lookup(pair.av, pair.to[1], address, &len), 0);
    fi_cq_signal(pair.cq);
    look(&view);
    assert_int_equal(newest(&view, "fi_eq_write", 0, 0)->tag, 77);
    assert_int_equal(newest(&view, "fi_eq_write", 0, 0)->result, sizeof(event));
    assert_int_equal(newest(&view, "fi_trywait", 0, 0)->result, -FI_EAGAIN);
    assert_int_equal(newest(&view, "fi_trywait", 0, 0)->len, 1);
    assert_int_equal(newest(&view, "fi_av_lookup", 0, 0)->peer, pair.to[1]);
    assert_non_null(newest(&view, "fi_cq_signal", 0, 0));
    look_away(&view);
    assert_int_equal(fi_close(&eq->fid), 0);
    pair_close(&pair);
}

static uint64_t latest_clock(const struct view *view)
{
    return __atomic_load_n(&view->header->clocks[1].monotonic_ns, __ATOMIC_RELAXED);
}

enum {
    UNTIL_CLOCK = 100000000 /* reads in vain; much less than a second of them is enough */
};

/* The file of a crash has the rate of the clock from a time that is worth measuring. */
static void the_clocks_are_read_again_while_it_runs(void **state)
{
    char from[64] = "", to[64];
    struct fi_cq_tagged_entry entry;
    uint64_t first, second;
    struct view view;
    struct pair pair;

    pair_open(&pair, stack("@;loop"));
    look(&view);
    first = second = latest_clock(&view);
    for (int i = 0; i < UNTIL_CLOCK && second == first; i++) {
        assert_int_equal(fi_cq_read(pair.cq, &entry, 1), -FI_EAGAIN);
        second = latest_clock(&view);
    }
    assert_true(second > first);
    first = second;
    for (int i = 0; i < UNTIL_CLOCK / 20 && second == first; i++) {
        assert_true(pair_message(&pair, from, to, 8, 1, &from, &to));
        second = latest_clock(&view);
    }
    assert_true(second > first);
    look_away(&view);
    pair_close(&pair);
}

static bool aborted_call_is_the_last_record(void)
{
    const struct weft_trace_record *record;
    struct view view;
    bool pending;

    assert_int_equal(pair_child(abort_in_call, stack("@;loop")), 256 + SIGALRM);
    look(&view);
    record = newest(&view, "fi_cntr_wait", 0, 0);
    pending = record && record->result == WEFT_TRACE_PENDING;
    look_away(&view);
    return pending;
}

/* Unless the child did not come to the call in time. */
static void an_aborted_call_is_the_last_record(void **state)
{
    assert_true(tries_show(aborted_call_is_the_last_record));
}

static void sets_are_objects(void **state)
{
    struct fi_wait_attr attr = {.wait_obj = FI_WAIT_FD};
    const struct weft_trace_record *record, *opened;
    struct fid_poll *poll_set;
    struct fid_wait *set;
    struct view view;
    struct pair pair;

    pair_open(&pair, stack("@;loop"));
    assert_int_equal(fi_wait_open(pair.fabric, &attr, &set), 0);
    assert_int_equal(fi_wait(set, 0), -FI_ETIMEDOUT);
    assert_int_equal(fi_poll_open(pair.domain, NULL, &poll_set), 0);
    assert_int_equal(fi_poll_add(poll_set, &pair.cq->fid, 0), 0);
    assert_int_equal(fi_poll_del(poll_set, &pair.cq->fid, 0), 0);
    look(&view);
    opened = newest(&view, "fi_wait_open", 0, 0);
    assert_non_null(opened);
    assert_int_equal(view.header->objects[WEFT_TRACE_NUMBER(opened->buf) - 1].fclass,
                     FI_CLASS_WAIT);
    record = newest(&view, "fi_wait", 0, 0);
    assert_non_null(record);
    assert_int_equal(record->object, WEFT_TRACE_NUMBER(opened->buf));
    assert_int_equal(record->result, -FI_ETIMEDOUT);
    record = newest(&view, "fi_poll_add", 0, 0);
    assert_non_null(record);
    assert_int_equal(view.header->objects[record->object - 1].fclass, FI_CLASS_POLL);
    assert_int_equal(view.header->objects[WEFT_TRACE_NUMBER(record->buf) - 1].fclass, FI_CLASS_CQ);
    assert_non_null(newest(&view, "fi_poll_open", 0, 0));
    assert_non_null(newest(&view, "fi_poll_del", 0, 0));
    look_away(&view);
    assert_int_equal(fi_close(&poll_set->fid), 0);
    assert_int_equal(fi_close(&set->fid), 0);
    pair_close(&pair);
}

/* ---- As lines of the log ---- */

static int messages_logged(const char *spec)
{
    char from[64] = "", to[64], name[80];
    struct pair pair;
    bool ok;

    snprintf(name, sizeof(name), "%s.log", path);
    ok = freopen(name, "w", stderr) != NULL;
    pair_open(&pair, spec);
    ok = ok && pair_message(&pair, from, to, 11, 0x77, &from, &to);
    pair_close(&pair);
    return ok ? 0 : 1;
}

static void log_of(const char *spec, char *text, size_t size)
{
    char name[80];
    ssize_t len;
    int fd;

    assert_int_equal(pair_child(messages_logged, spec), 0);
    snprintf(name, sizeof(name), "%s.log", path);
    fd = open(name, O_RDONLY);
    assert_true(fd >= 0);
    len = read(fd, text, size - 1);
    assert_true(len >= 0);
    text[len] = 0;
    close(fd);
    unlink(name);
}

static void calls_are_lines_of_the_log_on_demand(void **state)
{
    static char text[65536];

    log_of(stack("@;loop"), text, sizeof(text));
    assert_string_equal(text, "");
    log_of(stack_with(",log", "loop"), text, sizeof(text));
    assert_non_null(strstr(text, ":trace:ep_data:fi_tsend():0<trace> layer 0 object "));
    assert_non_null(strstr(text, " len 11 "));
    assert_non_null(strstr(text, " tag 0x77 "));
    assert_non_null(strstr(text, ":trace:cq:cq_entry():"));
    assert_non_null(strstr(text, ":trace:cq:fi_cq_open():"));
    assert_non_null(strstr(text, ":trace:ep_ctrl:fi_close():"));
}

static struct pair shared;

static int send_in_child(const char *spec)
{
    char byte = 0;

    fi_tinject(shared.ep[0], &byte, 1, shared.to[1], 4711);
    return 0;
}

static void the_child_of_a_fork_is_not_recorded(void **state)
{
    char from[64] = "", to[64];
    struct view view;

    pair_open(&shared, stack("@;loop"));
    assert_true(pair_message(&shared, from, to, 8, 1, &from, &to));
    assert_int_equal(pair_child(send_in_child, NULL), 0);
    look(&view);
    assert_null(newest(&view, "fi_tinject", 0, 0));
    look_away(&view);
    pair_close(&shared);
}

static void *send_in_thread(void *arg)
{
    char byte = 0;

    fi_tinject(shared.ep[0], &byte, 1, shared.to[1], 1);
    return NULL;
}

static void a_thread_that_ended_leaves_its_ring(void **state)
{
    struct view view;

    pair_open(&shared, stack("@;loop"));
    for (int i = 0; i < 3; i++) {
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, send_in_thread, NULL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    look(&view);
    assert_int_equal(view.header->rings, 2);
    assert_int_equal(view.header->rings_reused, 2);
    assert_int_equal(view.header->rings_refused, 0);
    look_away(&view);
    pair_close(&shared);
}

/* ---- Mistakes ---- */

static void a_file_that_cannot_be_written_is_an_error(void **state)
{
    assert_int_equal(pair_fabric_rc("trace(file=\"/nonexistent/x\");loop"), -ENOENT);
    assert_int_equal(pair_fabric_rc("trace(file=\"/tmp\");loop"), -EEXIST);
    assert_int_equal(pair_fabric_rc("trace(file=\"/tmp/%z\");loop"), -FI_ENODATA);
}

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* A mistyped name costs no file. */
static void only_a_trace_is_replaced(void **state)
{
    char text[16] = "";
    FILE *file;

    write_file("letters");
    assert_int_equal(pair_fabric_rc(stack("@;loop")), -EEXIST);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof(text), file));
    fclose(file);
    assert_string_equal(text, "letters");
    write_file("");
    assert_int_equal(pair_fabric_rc(stack("@;loop")), 0);
    assert_int_equal(pair_fabric_rc(stack("@;loop")), 0);
}

/* Its records may be confidential: only its owner reads the file. */
static void only_its_owner_may_read_it(void **state)
{
    mode_t before = umask(0);
    struct stat info;

    write_file(""); /* such as mktemp makes */
    assert_int_equal(chmod(path, 0666), 0);
    assert_int_equal(pair_fabric_rc(stack("@;loop")), 0);
    umask(before);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
}

static char other_path[128];

static int record_beside(const char *spec)
{
    char from[64] = "", to[64];
    struct pair pair;

    pair_open(&pair, spec);
    pair_message(&pair, from, to, 8, 4711, &from, &to);
    pair_close(&pair);
    return 0;
}

/* Neither loses a record: the second one's file has its number. */
static void two_processes_with_one_file_have_two(void **state)
{
    char from[64] = "", to[64], spec[300];
    struct pair pair;
    struct view view;
    pid_t pid;
    int status;

    pair_open(&pair, stack("@;loop"));
    assert_true(pair_message(&pair, from, to, 8, 5, &from, &to));
    snprintf(spec, sizeof(spec), "%s", stack("@;loop"));
    pid = fork();
    if (!pid)
        _exit(record_beside(spec));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    look(&view);
    assert_int_equal(newest(&view, "fi_tsend", 0, 0)->tag, 5);
    look_away(&view);
    snprintf(other_path, sizeof(other_path), "%s.%d", path, (int)pid);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rename(other_path, path), 0);
    look(&view);
    assert_int_equal(newest(&view, "fi_tsend", 0, 0)->tag, 4711);
    assert_int_equal(view.header->pid, pid);
    look_away(&view);
    pair_close(&pair);
}

static void a_full_disk_is_an_error_at_once(void **state)
{
    reservations_left = 0;
    assert_int_equal(pair_fabric_rc(stack("@;loop")), -ENOSPC);
    assert_int_equal(access(path, F_OK), -1); /* and leaves nothing behind */
}

static void a_disk_that_fills_later_leaves_threads_out(void **state)
{
    struct view view;
    pthread_t thread;

    pair_open(&shared, stack("@;loop"));
    reservations_left = 0;
    send_in_thread(NULL); /* has its ring */
    assert_int_equal(pthread_create(&thread, NULL, send_in_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    look(&view);
    assert_int_equal(view.header->rings, 1);
    assert_int_equal(view.header->rings_refused, 1);
    look_away(&view);
    pair_close(&shared);
}

/* ---- The path ---- */

static void no_system_call_is_made(void **state)
{
    const char *emulator = getenv("WEFT_EXE_WRAPPER");

#if defined(__SANITIZE_THREAD__)
    skip(); /* its runtime makes some */
#endif
#if !defined(__x86_64__) && !defined(__i386__)
    if (emulator && *emulator)
        skip(); /* it has no vDSO: reading the clock is a system call there */
#else
    (void)emulator;
#endif
    assert_int_equal(pair_child(pair_without_system_calls, "loop"), 0);
    assert_int_equal(pair_child(pair_without_system_calls, stack("@;loop")), 0);
    assert_int_equal(pair_child(pair_without_system_calls, stack("@;noop;@;loop")), 0);
}

static void no_lock_is_taken_and_nothing_allocated(void **state)
{
    pair_costs_nothing(stack("@;@;loop"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_message_is_recorded),
        TEST(objects_are_described),
        TEST(objects_of_any_number_have_a_class),
        TEST(addresses_say_whose_they_are),
        TEST(a_registration_says_where_and_what_for),
        TEST(an_error_is_recorded),
        TEST(layers_with_one_file_nest),
        TEST(the_newest_stay),
        TEST(a_killed_process_leaves_its_records),
        TEST(calls_beside_the_data_path_are_recorded),
        TEST(the_clocks_are_read_again_while_it_runs),
        TEST(an_aborted_call_is_the_last_record),
        TEST(sets_are_objects),
        TEST(calls_are_lines_of_the_log_on_demand),
        TEST(the_child_of_a_fork_is_not_recorded),
        TEST(a_thread_that_ended_leaves_its_ring),
        TEST(a_file_that_cannot_be_written_is_an_error),
        TEST(only_a_trace_is_replaced),
        TEST(only_its_owner_may_read_it),
        TEST(two_processes_with_one_file_have_two),
        TEST(a_full_disk_is_an_error_at_once),
        TEST(a_disk_that_fills_later_leaves_threads_out),
        TEST(no_system_call_is_made),
        TEST(no_lock_is_taken_and_nothing_allocated),
    };

    /* Read once a process. */
    setenv("FI_LOG_LEVEL", "trace", 1);
    setenv("FI_LOG_PROV", "trace", 1);
    return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
