/* SPDX-License-Identifier: BSD-2-Clause */
/* Files as trace writes them, and damaged ones: what fi_trace finds in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include "tools/trace_print.h"

enum {
    CAPACITY = 2048,
    TSEND = WEFT_TRACE_CALL,
    TRECV,
    GET_TAG,
    CLOSE
};

struct file {
    struct weft_trace_header header;
    struct ring {
        union {
            struct weft_trace_ring head;
            char pad[WEFT_TRACE_RING_HEAD];
        };
        struct weft_trace_record records[CAPACITY];
    } rings[2];
};

static struct file file, other;

static void init_file(struct file *it)
{
    struct weft_trace_header *header = &it->header;

    memset(it, 0, sizeof(*it));
    memcpy(header->magic, WEFT_TRACE_MAGIC, sizeof(header->magic));
    header->version = WEFT_TRACE_VERSION;
    header->record_size = sizeof(struct weft_trace_record);
    header->header_size = sizeof(*header);
    header->ring_size = sizeof(struct ring);
    header->rings = 2;
    header->clock = WEFT_TRACE_CLOCK_TSC;
    header->layer_count = 2;
    header->clocks[1].ticks = 2000; /* two ticks a ns */
    header->clocks[1].monotonic_ns = 1000;
    strcpy(header->layers[0], "tcp");
    strcpy(header->layers[1], "tcp;ofi_rxm");
    strcpy(header->names[0], "fi_tsend");
    strcpy(header->names[1], "fi_trecv");
    strcpy(header->names[2], "peer get_tag");
    strcpy(header->names[3], "fi_close");
    it->rings[0].head.capacity = it->rings[1].head.capacity = CAPACITY;
}

static struct weft_trace_record *put(struct file *it, int ring, unsigned kind, uint64_t time,
                                     int layer, uint64_t context)
{
    struct weft_trace_ring *head = &it->rings[ring].head;
    struct weft_trace_record *record = &it->rings[ring].records[head->head++ % CAPACITY];

    memset(record, 0, sizeof(*record));
    record->time = time;
    record->kind = (uint16_t)kind;
    record->layer = (uint8_t)layer;
    record->object = (uint32_t)layer + 1;
    record->context = context;
    return record;
}

static struct trace_model model;

static void load(size_t len)
{
    char why[256] = "";

    assert_true(trace_add(&model, "one", &file, len, why, sizeof(why)));
    assert_true(trace_link(&model));
}

static int setup(void **state)
{
    init_file(&file);
    init_file(&other);
    other.header.pid = 1;
    return 0;
}

static int teardown(void **state)
{
    trace_free(&model);
    return 0;
}

static void a_send_and_its_completion_are_one_operation(void **state)
{
    put(&file, 0, TSEND, 100, 0, 0x10);
    put(&file, 0, TSEND, 110, 0, 0x20);
    put(&file, 0, WEFT_TRACE_COMPLETION, 300, 0, 0x20)->inside = FI_SEND;
    load(sizeof(file));
    assert_int_equal(model.op_count, 2);
    assert_int_equal(model.ops[0].done, TRACE_NONE);
    assert_int_equal(model.ops[1].done, 2);
    assert_int_equal(trace_op_end(&model, &model.ops[1]) - model.events[1].ns, 95);
}

static void a_receive_is_not_ended_by_a_send(void **state)
{
    put(&file, 0, TRECV, 100, 0, 0x10);
    put(&file, 0, WEFT_TRACE_COMPLETION, 300, 0, 0x10)->inside = FI_SEND;
    put(&file, 0, WEFT_TRACE_COMPLETION, 400, 0, 0x10)->inside = FI_RECV;
    load(sizeof(file));
    assert_int_equal(model.ops[0].done, 2);
}

static void a_refused_call_is_no_operation(void **state)
{
    put(&file, 0, TSEND, 100, 0, 0x10)->result = -11;
    load(sizeof(file));
    assert_int_equal(model.op_count, 0);
}

static void calls_inside_of_calls_are_their_causes(void **state)
{
    put(&file, 0, TSEND, 100, 1, 0x10)->inside = 2;
    put(&file, 0, TSEND, 110, 0, 0x99);
    put(&file, 0, WEFT_TRACE_MORE, 110, 0, 0x99)->buf = FI_COMPLETION;
    put(&file, 0, CLOSE, 120, 0, 0);
    load(sizeof(file));
    assert_int_equal(model.event_count, 3);
    assert_int_equal(model.events[1].parent, 0);
    assert_int_equal(model.events[1].flags, FI_COMPLETION);
    assert_int_equal(model.events[2].parent, TRACE_NONE);
    assert_int_equal(model.ops[1].cause, 0);
}

static void a_context_that_goes_down_is_a_cause(void **state)
{
    put(&file, 0, TRECV, 100, 1, 0x10);
    put(&file, 1, GET_TAG, 500, 0, 0x10);
    put(&file, 1, WEFT_TRACE_WRITTEN, 600, 0, 0x10)->inside = FI_RECV;
    put(&file, 0, WEFT_TRACE_COMPLETION, 700, 1, 0x10)->inside = FI_RECV;
    load(sizeof(file));
    assert_int_equal(model.op_count, 2);
    assert_int_equal(model.ops[1].cause, 0);
    assert_int_equal(model.ops[1].done, 3); /* events are by ring */
    assert_int_equal(model.ops[0].done, 1);
}

static void a_call_that_never_returned_holds_the_rest(void **state)
{
    put(&file, 0, CLOSE, 100, 1, 0)->result = WEFT_TRACE_PENDING;
    put(&file, 0, CLOSE, 110, 0, 0)->result = WEFT_TRACE_PENDING;
    load(sizeof(file));
    assert_int_equal(model.events[1].parent, 0);
    assert_int_equal(model.events[1].depth, 1);
}

static void a_full_ring_keeps_the_newest(void **state)
{
    for (unsigned i = 0; i < CAPACITY + 10; i++)
        put(&file, 0, CLOSE, i, 0, i);
    load(sizeof(file));
    assert_int_equal(model.event_count, CAPACITY);
    assert_int_equal(model.events[0].record.context, 10);
    assert_int_equal(model.files[0]->lost, 10);
}

static void a_message_is_followed_to_the_other_process(void **state)
{
    char why[256];

    put(&file, 0, TSEND, 100, 1, 0x10)->tag = 7;
    put(&other, 0, TRECV, 90, 1, 0x20)->tag = 7;
    put(&other, 0, WEFT_TRACE_COMPLETION, 900, 1, 0x20)->inside = FI_RECV;
    other.rings[0].records[1].tag = 7;
    assert_true(trace_add(&model, "two", &other, sizeof(other), why, sizeof(why)));
    load(sizeof(file));
    assert_int_equal(model.op_count, 2);
    assert_int_equal(model.ops[1].arrived, 0);
}

/* FI_CQ_FORMAT_MSG has no tags: that of the receive is it, unless bits of it were ignored. */
static void a_message_is_followed_without_a_tag_in_the_completion(void **state)
{
    char why[256];

    put(&file, 0, TSEND, 100, 1, 0x10)->tag = 7;
    put(&file, 0, TSEND, 110, 1, 0x10)->tag = 8;
    put(&other, 0, TRECV, 90, 1, 0x20)->tag = 8;
    put(&other, 0, TRECV, 91, 1, 0x30)->tag = 7;
    put(&other, 0, WEFT_TRACE_MORE, 91, 1, 0x30)->peer = 0xff;
    put(&other, 0, WEFT_TRACE_COMPLETION, 900, 1, 0x20)->inside = FI_RECV | FI_TAGGED;
    put(&other, 0, WEFT_TRACE_COMPLETION, 910, 1, 0x30)->inside = FI_RECV | FI_TAGGED;
    assert_true(trace_add(&model, "two", &other, sizeof(other), why, sizeof(why)));
    load(sizeof(file));
    assert_int_equal(model.op_count, 4);
    assert_int_equal(model.ops[2].arrived, TRACE_NONE);
    assert_int_equal(model.ops[3].arrived, 0);
}

static void a_file_cut_short_gives_what_is_there(void **state)
{
    const size_t cut = (CAPACITY - 2) * sizeof(struct weft_trace_record) + 1;

    put(&file, 0, CLOSE, 100, 0, 0);
    for (unsigned i = 0; i < 3; i++)
        put(&file, 1, CLOSE, 100, 0, i);
    load(sizeof(file) - cut); /* in the middle of the second record */
    assert_int_equal(model.event_count, 2);
    assert_int_equal(model.events[1].record.context, 0);
    assert_int_equal(model.files[0]->truncated, 1);
}

/* Arguments of a record that was cut off are not those of the one before it, and a size that the
 * file does not have is not walked through. */
static void what_was_cut_off_has_no_arguments(void **state)
{
    for (unsigned i = 0; i < 2 * CAPACITY; i++)
        put(&file, 1, i == CAPACITY ? CLOSE : WEFT_TRACE_MORE, 100, 0, i);
    put(&file, 1, WEFT_TRACE_MORE, 100, 0, 0)->buf = 7;
    load(sizeof(file) - sizeof(struct weft_trace_record));
    assert_int_equal(model.event_count, 0);
    trace_free(&model);
    init_file(&file);
    file.header.rings = 1;
    file.header.ring_size = (uint64_t)1 << 40;
    file.rings[0].head.capacity = (uint64_t)1 << 33;
    put(&file, 0, CLOSE, 100, 0, 0);
    file.rings[0].head.head = (uint64_t)1 << 33;
    load(sizeof(file));
    assert_int_equal(model.files[0]->truncated, 1);
}

static void a_file_without_its_rings_is_empty(void **state)
{
    put(&file, 0, CLOSE, 100, 0, 0);
    load(sizeof(file.header) + WEFT_TRACE_RING_HEAD);
    assert_int_equal(model.event_count, 0);
    assert_int_equal(model.files[0]->truncated, 2);
}

/* Not a trace file, of another version, with sizes that cannot be: a sentence, and nothing else. */
static void a_damaged_header_is_refused(void **state)
{
    char why[256];

    for (int i = 0; i < 6; i++) {
        size_t len = sizeof(file);

        init_file(&file);
        switch (i) {
        case 0: len = sizeof(file.header) - 1; break;
        case 1: file.header.magic[0] = 'X'; break;
        case 2: file.header.version = 99; break;
        case 3: file.header.record_size = 0; break;
        case 4: file.header.header_size = len + 1; break;
        default: file.header.ring_size = 0; break;
        }
        why[0] = 0;
        assert_false(trace_add(&model, "name", &file, len, why, sizeof(why)));
        assert_int_equal(strncmp(why, "name: ", 6), 0);
        assert_int_equal(model.file_count, 0);
    }
}

static void a_damaged_ring_is_left_out(void **state)
{
    put(&file, 0, CLOSE, 100, 0, 0);
    put(&file, 1, CLOSE, 100, 0, 0);
    file.rings[0].head.capacity = 3;
    load(sizeof(file));
    assert_int_equal(model.event_count, 1);
    assert_int_equal(model.files[0]->truncated, 1);
}

static void put_four(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    struct weft_trace_record *more = put(&file, 0, WEFT_TRACE_MORE, 100, 0, 0);

    more->buf = a;
    more->len = b;
    more->peer = c;
    more->tag = d;
}

static void put_joined(uint64_t size)
{
    struct weft_trace_record *event = put(&file, 0, WEFT_TRACE_EVENT, 100, 0, 0);

    event->inside = FI_JOIN_COMPLETE;
    event->len = size;
    put_four(1, 77, 0, 0);
}

static void the_members_of_a_group_are_listed(void **state)
{
    static const uint64_t members[] = {5, 6, 7, 8, 9};

    put(&file, 0, CLOSE, 90, 0, 0)->inside = 4; /* as if it were inside of that */
    put_joined(5);
    put_four(5, 6, 7, 8);
    put_four(9, 0, 0, 0);
    put(&file, 0, CLOSE, 110, 0, 0);
    load(sizeof(file));
    assert_int_equal(model.event_count, 3);
    assert_true(trace_is_joined(&model.events[1]));
    assert_int_equal(model.events[1].flags, 1);
    assert_int_equal(model.events[1].data, 77);
    assert_int_equal(model.events[1].member_count, 5);
    assert_memory_equal(model.members + model.events[1].members, members, sizeof(members));
    assert_int_equal(model.events[1].parent, 0);
    assert_int_equal(model.events[2].parent, TRACE_NONE);
}

/* A number of members is believed as far as they are there, and as far as the format has them. */
static void a_group_of_more_than_its_members_has_those(void **state)
{
    put_joined(UINT64_MAX);
    for (int i = 0; i < WEFT_TRACE_MEMBERS / 4 + 2; i++)
        put_four(1, 2, 3, 4);
    put_joined(3);
    put_four(1, 2, 3, 4);
    put_joined(0);
    put_four(1, 2, 3, 4);
    load(sizeof(file));
    assert_int_equal(model.events[0].member_count, WEFT_TRACE_MEMBERS);
    assert_int_equal(model.events[1].member_count, 3);
    assert_int_equal(model.events[2].member_count, 0);
}

static void groups_of_older_files_are_events(void **state)
{
    file.header.version = WEFT_TRACE_GROUPS - 1;
    put_joined(2);
    put_four(1, 2, 0, 0);
    load(sizeof(file));
    assert_false(trace_is_joined(&model.events[0]));
    assert_int_equal(model.events[0].member_count, 0);
}

/* Each form, of a model with some of everything, has something to show. */
static void every_form_prints(void **state)
{
    const struct trace_range all = {0, INT64_MAX};
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    put(&file, 0, TSEND, 100, 1, 0x10)->inside = 1;
    put(&file, 0, TSEND, 110, 0, 0x10);
    put(&file, 0, WEFT_TRACE_READ, 300, 1, 0)->result = 1;
    put(&file, 0, WEFT_TRACE_COMPLETION, 300, 1, 0x10)->inside = FI_SEND;
    put(&file, 0, WEFT_TRACE_EVENT, 310, 1, 0)->inside = FI_CONNECTED;
    put(&file, 0, 60000, 320, 250, 0);
    load(sizeof(file));
    trace_print_text(&model, all, out);
    fflush(out);
    assert_non_null(strstr(text, "fi_tsend(len 0"));
    assert_non_null(strstr(text, "FI_CONNECTED"));
    trace_print_csv(&model, all, out);
    assert_true(trace_print_summary(&model, all, out));
    assert_true(trace_print_json(&model, all, out));
    assert_true(trace_print_svg(&model, all, out));
    fclose(out);
    assert_non_null(strstr(text, "\"ph\":\"s\""));
    assert_non_null(strstr(text, "class=\"cause\""));
    free(text);
}

/* As many as a job has processes; and a track for each endpoint of each. */
static void any_number_of_files_is_shown(void **state)
{
    const struct trace_range all = {0, INT64_MAX};
    char why[256] = "", *text = NULL, *at;
    int spans = 0;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    put(&file, 0, TSEND, 100, 0, 0x10);
    put(&file, 0, TSEND, 110, 1, 0x20);
    for (uint32_t i = 0; i < 600; i++) {
        file.header.pid = i;
        if (!trace_add(&model, "one", &file, sizeof(file), why, sizeof(why)))
            fail_msg("%s", why);
    }
    assert_true(trace_link(&model));
    assert_int_equal(model.op_count, 1200);
    assert_true(trace_print_json(&model, all, out));
    fclose(out);
    for (at = text; (at = strstr(at, "\"ph\":\"X\"")); at++)
        spans++;
    assert_int_equal(spans, 1200);
    free(text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* Under another name, or a copy of it; the process may have written more meanwhile. */
/* Every form, as text. */
static char *printed(int form, struct trace_range range)
{
    static char text[65536];
    FILE *out = fmemopen(text, sizeof(text), "w");

    assert_non_null(out);
    switch (form) {
    case 0: trace_print_text(&model, range, out); break;
    case 1: trace_print_csv(&model, range, out); break;
    case 2: assert_true(trace_print_summary(&model, range, out)); break;
    case 3: assert_true(trace_print_json(&model, range, out)); break;
    default: assert_true(trace_print_svg(&model, range, out));
    }
    fclose(out);
    return text;
}

static const struct trace_range all = {0, INT64_MAX};

static void every_form_says_what_was_overwritten(void **state)
{
    for (int i = 0; i < CAPACITY + 1928; i++)
        put(&file, 0, CLOSE, 100 + (uint64_t)i, 0, 0);
    load(sizeof(file));
    assert_non_null(strstr(printed(0, all), "; 1928 older records were overwritten"));
    assert_non_null(strstr(printed(2, all), "; 1928 older records were overwritten"));
    model.event_count = 1; /* a short text */
    assert_non_null(strstr(printed(1, all), "overwritten,0,1928,"));
    assert_non_null(strstr(printed(3, all), "\"overwritten\":1928"));
    assert_non_null(strstr(printed(4, all), "1928 older records were overwritten"));
}

/* A receive of 64 KiB that got 300 bytes, one whose queue does not say, one that waits; and what a
 * lower asks for. */
static void the_summary_has_sizes_that_came(void **state)
{
    struct weft_trace_record *done;
    const char *text;

    for (uint64_t n = 1; n <= 3; n++)
        put(&file, 0, TRECV, 100 * n, 0, 0x10 * n)->len = 65536;
    put(&file, 0, GET_TAG, 450, 1, 0x50)->len = 2000;
    done = put(&file, 0, WEFT_TRACE_COMPLETION, 500, 0, 0x10);
    done->inside = FI_RECV | FI_TAGGED;
    done->len = 300;
    load(sizeof(file));
    text = printed(2, all);
    assert_non_null(strstr(text, "fi_trecv              256..        1"));
    assert_non_null(strstr(text, "fi_trecv                  ?        2"));
    assert_non_null(strstr(text, "peer get_tag           1k..        1"));
    assert_null(strstr(text, "64k"));
}

/* From 2,000 us on, and not from 0. */
static void a_picture_has_the_times_of_the_text(void **state)
{
    const char *text;

    for (uint64_t n = 0; n < 4; n++) {
        put(&file, 0, TSEND, 2000000 * n, 0, 0x10 + n);
        put(&file, 0, WEFT_TRACE_COMPLETION, 2000000 * n + 200000, 0, 0x10 + n)->inside = FI_SEND;
    }
    load(sizeof(file));
    text = printed(4, (struct trace_range){1900000, 2500000});
    assert_non_null(strstr(text, "class=\"axis\">2000</text>"));
    assert_non_null(strstr(text, "class=\"axis\">2100</text>"));
    assert_null(strstr(text, "class=\"axis\">0</text>"));
    assert_non_null(strstr(printed(0, all), "2000.000"));
}

static void a_recording_is_taken_once(void **state)
{
    char why[256] = "";

    file.header.clocks[0].realtime_ns = other.header.clocks[0].realtime_ns = 1234567890;
    load(sizeof(file));
    file.header.object_count++;
    assert_false(trace_add(&model, "two", &file, sizeof(file), why, sizeof(why)));
    assert_string_equal(why, "two: it is the same recording as one");
    assert_int_equal(model.file_count, 1);
    assert_true(trace_add(&model, "other", &other, sizeof(other), why, sizeof(why)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_send_and_its_completion_are_one_operation),
        TEST(a_receive_is_not_ended_by_a_send),
        TEST(a_refused_call_is_no_operation),
        TEST(calls_inside_of_calls_are_their_causes),
        TEST(a_context_that_goes_down_is_a_cause),
        TEST(a_call_that_never_returned_holds_the_rest),
        TEST(a_full_ring_keeps_the_newest),
        TEST(a_message_is_followed_to_the_other_process),
        TEST(a_message_is_followed_without_a_tag_in_the_completion),
        TEST(a_file_cut_short_gives_what_is_there),
        TEST(what_was_cut_off_has_no_arguments),
        TEST(a_file_without_its_rings_is_empty),
        TEST(a_damaged_header_is_refused),
        TEST(a_damaged_ring_is_left_out),
        TEST(the_members_of_a_group_are_listed),
        TEST(a_group_of_more_than_its_members_has_those),
        TEST(groups_of_older_files_are_events),
        TEST(every_form_prints),
        TEST(any_number_of_files_is_shown),
        TEST(every_form_says_what_was_overwritten),
        TEST(the_summary_has_sizes_that_came),
        TEST(a_picture_has_the_times_of_the_text),
        TEST(a_recording_is_taken_once),
    };

    return cmocka_run_group_tests_name("fi_trace", tests, NULL, NULL);
}
