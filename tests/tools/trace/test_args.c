/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of the control path by the names that applications use, and what their arguments mean. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include "tools/trace_print.h"

/* Objects of the file that all of this is about. */
enum {
    EP = 1,
    CQ,
    CNTR,
    MR,
    SEP
};

static struct trace_file_info file;
static struct trace_file_info *files[] = {&file};
static struct trace_model model = {.files = files, .file_count = 1};

static int setup(void **state)
{
    static const uint16_t classes[] = {FI_CLASS_EP, FI_CLASS_CQ, FI_CLASS_CNTR, FI_CLASS_MR,
                                       FI_CLASS_SEP};

    for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++)
        file.header.objects[i].fclass = classes[i];
    return 0;
}

/* A call with a tag, as fi_trace prints it. */
static void expect(const char *call, struct trace_event event, const char *wanted)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    snprintf(file.header.names[0], sizeof(file.header.names[0]), "%s", call);
    event.record.kind = WEFT_TRACE_CALL;
    event.record.peer = event.record.peer ? event.record.peer : FI_ADDR_NOTAVAIL;
    fputs(trace_what(&model, &event), out);
    trace_print_control(&model, &event, out);
    fclose(out);
    assert_string_equal(text, wanted);
    free(text);
}

static struct trace_event on(uint32_t object, uint64_t tag)
{
    return (struct trace_event){.record = {.object = object, .tag = tag}};
}

static void a_command_is_the_function_that_gives_it(void **state)
{
    expect("fi_control", on(EP, FI_ENABLE), "fi_enable()");
    expect("fi_control", on(MR, FI_ENABLE), "fi_mr_enable()");
    expect("fi_control", on(EP, FI_ALIAS), "fi_ep_alias()");
    expect("fi_control", on(MR, FI_REFRESH), "fi_mr_refresh()");
    expect("fi_control", on(CQ, FI_GET_VAL), "fi_get_val()");
}

static void a_command_without_a_function_has_its_name(void **state)
{
    expect("fi_control", on(CQ, FI_GETWAIT), "fi_control(FI_GETWAIT)");
    expect("fi_control", on(EP, FI_GETFIDFLAG), "fi_control(FI_GETFIDFLAG)");
    expect("fi_control", on(EP, FI_SETOPSFLAG), "fi_control(FI_SETOPSFLAG)");
    expect("fi_control", on(EP, 1000), "fi_control(command 1000)");
}

static void a_bind_is_of_its_object_and_says_what_for(void **state)
{
    struct trace_event event = on(EP, FI_TRANSMIT | FI_SELECTIVE_COMPLETION);

    event.record.buf = CQ;
    expect("fi_bind", event, "fi_ep_bind(cq 2, FI_TRANSMIT, FI_SELECTIVE_COMPLETION)");
    event = on(SEP, FI_SEND | FI_REMOTE_WRITE | 1ULL << 63);
    event.record.buf = CNTR;
    expect("fi_bind", event,
           "fi_scalable_ep_bind(cntr 3, FI_SEND, FI_REMOTE_WRITE, flags 0x8000000000000000)");
}

static void a_join_of_a_collective_is_named_so(void **state)
{
    expect("fi_join", on(EP, FI_COLLECTIVE | FI_PEEK),
           "fi_join_collective(FI_COLLECTIVE, FI_PEEK)");
    expect("fi_join", on(EP, 0), "fi_join()");
}

static void numbers_are_called_what_they_are(void **state)
{
    struct trace_event event = on(EP, FI_CQ_FORMAT_TAGGED);

    event.record.len = 64;
    expect("fi_cq_open", event, "fi_cq_open(size 64, FI_CQ_FORMAT_TAGGED)");
    expect("fi_cntr_wait", on(CNTR, 5), "fi_cntr_wait(5)");
    expect("fi_cntr_set", on(CNTR, 0), "fi_cntr_set(0)");
    expect("fi_tx_context", on(SEP, 0), "fi_tx_context(index 0)");
    expect("fi_setopt", on(EP, FI_OPT_MIN_MULTI_RECV), "fi_setopt(FI_OPT_MIN_MULTI_RECV)");
    expect("fi_setopt", on(EP, UINT64_MAX), "fi_setopt(option -1)");
    event = on(EP, 0);
    event.record.len = 2;
    event.record.peer = 7;
    expect("fi_av_insert", event, "fi_av_insert(count 2, addr 0x7)");
}

static void a_registration_has_its_memory(void **state)
{
    struct trace_event event = on(EP, 9);

    event.record.len = 4096;
    expect("fi_mr_reg", event, "fi_mr_reg(len 4096, key 0x9)"); /* of an older release */
    event.more = 1;
    event.data = 0x1000;
    event.key = FI_REMOTE_READ | FI_REMOTE_WRITE;
    expect("fi_mr_reg", event,
           "fi_mr_reg(len 4096, key 0x9, buf 0x1000, FI_REMOTE_READ, FI_REMOTE_WRITE)");
    event.key = 0;
    event.flags = FI_MR_DMABUF | FI_RMA_EVENT;
    expect("fi_mr_regattr", event,
           "fi_mr_regattr(len 4096, key 0x9, buf 0x1000, FI_MR_DMABUF, FI_RMA_EVENT)");
}

/* The table of the file ends somewhere; a record says of what class its objects are. */
static void objects_beyond_the_table_have_a_kind(void **state)
{
    const uint64_t late = WEFT_TRACE_OBJECTS + 1;
    struct trace_event event = on((uint32_t)late, FI_TRANSMIT);
    char text[32];

    assert_string_equal(trace_object_name(&model, 0, trace_object_of(&event), text, sizeof(text)),
                        "object 8193");
    event.record.fclass = FI_CLASS_EP;
    assert_string_equal(trace_object_name(&model, 0, trace_object_of(&event), text, sizeof(text)),
                        "ep 8193");
    event.record.buf = WEFT_TRACE_NAMED(late + 1, FI_CLASS_CQ);
    expect("fi_bind", event, "fi_ep_bind(cq 8194, FI_TRANSMIT)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_is_the_function_that_gives_it),
        cmocka_unit_test(a_command_without_a_function_has_its_name),
        cmocka_unit_test(a_bind_is_of_its_object_and_says_what_for),
        cmocka_unit_test(a_join_of_a_collective_is_named_so),
        cmocka_unit_test(numbers_are_called_what_they_are),
        cmocka_unit_test(a_registration_has_its_memory),
        cmocka_unit_test(objects_beyond_the_table_have_a_kind),
    };

    return cmocka_run_group_tests_name("arguments of fi_trace", tests, setup, NULL);
}
