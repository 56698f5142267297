/* SPDX-License-Identifier: BSD-2-Clause */
/* The variables of other providers of Ultra Ethernet (UET_PROVIDER_*): each has its effect, and a
 * wrong value is named with its place and with what would be right. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_uet.h>
#include <rdma/fi_tagged.h>

#include "../../../support/end.h"
#include "../../../support/warnings.h"
#include "memory.h"

enum {
    LONG = 40000,  /* bytes of a message */
    LOOKS = 20000, /* that find nothing more */
    PID_AT = 6,    /* in an address */
    INITIATOR_AT = 12,
};

static uint8_t out[LONG], in[LONG];
static struct end from, to;
static uint64_t carried; /* bytes, from the first port to the second */

static struct fi_info *ask(void)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;

    hints->fabric_attr->prov_name = strdup("uet(iface=lo)");
    hints->ep_attr->type = FI_EP_RDM;
    if (fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info))
        info = NULL;
    fi_freeinfo(hints);
    return info;
}

static bool count_bytes(struct sw *sw, struct sw_packet *packet)
{
    if (!packet->from)
        carried += packet->len;
    return true;
}

static void begin(void)
{
    memory_begin(1, 2);
    memory.sw.filter = count_bytes;
    carried = 0;
    end_open(&from, ask(), FI_CQ_FORMAT_TAGGED);
    end_open(&to, ask(), FI_CQ_FORMAT_TAGGED);
    end_meet(&from, &to);
}

static void end(void)
{
    end_close(&from);
    end_close(&to);
    memory_end();
}

static unsigned number_at(const struct end *end, unsigned at, unsigned bytes)
{
    unsigned number = 0;

    for (unsigned i = 0; i < bytes; i++)
        number = number << 8 | end->name[at + i];
    return number;
}

static void look(unsigned looks)
{
    for (unsigned i = 0; i < looks; i++) {
        fi_cq_read(from.cq, NULL, 0);
        fi_cq_read(to.cq, NULL, 0);
    }
}

/* Bytes that cross before there is a receive. */
static uint64_t bytes_ahead(bool tagged)
{
    struct fi_cq_tagged_entry entry;
    uint64_t ahead;

    begin();
    for (size_t i = 0; i < LONG; i++)
        out[i] = (uint8_t)(i * 31 + i / 251);
    if (tagged)
        assert_int_equal(fi_tsend(from.ep, out, LONG, NULL, from.peer, 1, out), 0);
    else
        assert_int_equal(fi_send(from.ep, out, LONG, NULL, from.peer, out), 0);
    look(LOOKS);
    ahead = carried;
    memset(in, 0, LONG);
    if (tagged)
        assert_int_equal(fi_trecv(to.ep, in, LONG, NULL, FI_ADDR_UNSPEC, 1, 0, in), 0);
    else
        assert_int_equal(fi_recv(to.ep, in, LONG, NULL, FI_ADDR_UNSPEC, in), 0);
    while (fi_cq_read(to.cq, &entry, 1) != 1)
        fi_cq_read(from.cq, NULL, 0);
    assert_memory_equal(in, out, LONG);
    end();
    return ahead;
}

static void a_rendezvous_has_its_sizes(void **state)
{
    assert_true(bytes_ahead(false) > LONG && bytes_ahead(true) > LONG); /* whole */
    setenv("UET_PROVIDER_MSG_RENDEZVOUS_SIZE", "30000", 1);
    setenv("UET_PROVIDER_MAX_EAGER_SIZE", "5000", 1);
    assert_in_range(bytes_ahead(false), 5000, 7000);
    assert_true(bytes_ahead(true) > LONG);
    setenv("UET_PROVIDER_TAGGED_RENDEZVOUS_SIZE", "30000", 1);
    setenv("UET_PROVIDER_MSG_RENDEZVOUS_SIZE", "40000", 1); /* longer ones only */
    setenv("UET_PROVIDER_MAX_EAGER_SIZE", "20k", 1);
    assert_true(bytes_ahead(false) > LONG);
    assert_in_range(bytes_ahead(true), 20480, 25000);
    unsetenv("UET_PROVIDER_MSG_RENDEZVOUS_SIZE");
    unsetenv("UET_PROVIDER_TAGGED_RENDEZVOUS_SIZE");
    unsetenv("UET_PROVIDER_MAX_EAGER_SIZE");
}

static void an_initiator_has_its_id(void **state)
{
    setenv("UET_PROVIDER_INITIATOR_ID", "0x1234567", 1);
    begin();
    assert_int_equal(number_at(&from, INITIATOR_AT, 4), 0x1234567);
    end();
    unsetenv("UET_PROVIDER_INITIATOR_ID");
    begin();
    assert_int_not_equal(number_at(&from, INITIATOR_AT, 4), 0x1234567);
    end();
}

static void packets_have_their_dscp(void **state)
{
    setenv("UET_PROVIDER_DEF_DATA_DC", "46", 1);
    begin();
    assert_int_equal(memory.dscp, 46);
    end();
    unsetenv("UET_PROVIDER_DEF_DATA_DC");
    begin();
    assert_int_equal(memory.dscp, 0);
    end();
}

static void services_are_in_their_file(void **state)
{
    char path[] = "/tmp/weft-test-uet-variables-XXXXXX";
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, "default pid=1996\n", 17), 17);
    close(fd);
    setenv("UET_PROVIDER_SERVICE_PATH", path, 1);
    begin();
    assert_int_equal(number_at(&from, PID_AT, 2), 1996);
    end();
    unlink(path);
    assert_null(ask()); /* it says why: tests/transports/uet/live/test_jobs.c */
    unsetenv("UET_PROVIDER_SERVICE_PATH");
}

static void an_endpoint_needs_a_job_without_a_fallback(void **state)
{
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fi_info *info;
    struct fid_ep *ep;

    setenv("UET_PROVIDER_FALLBACK_JOBID_SUPPORT", "no", 1);
    memory_begin(1, 1);
    info = ask();
    assert_non_null(info);
    assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    assert_int_equal(fi_endpoint(domain, info, &ep, NULL), -FI_EACCES);
    fi_close(&domain->fid);
    fi_close(&fabric->fid);
    fi_freeinfo(info);
    memory_end();
    unsetenv("UET_PROVIDER_FALLBACK_JOBID_SUPPORT");
}

/* Once a process: all of them in one question. They are not used. */
static void wrong_values_are_named(void **state)
{
    static const struct {
        const char *variable, *value, *right;
    } wrong[] = {
        {"UET_PROVIDER_MSG_RENDEZVOUS_SIZE", "lots", "a number of bytes"},
        {"UET_PROVIDER_TAGGED_RENDEZVOUS_SIZE", "-5", "a number of bytes"},
        {"UET_PROVIDER_MAX_EAGER_SIZE", "5000000000", "from 0 to 4294967295"},
        {"UET_PROVIDER_DEF_DATA_DC", "64", "from 0 to 63"},
        {"UET_PROVIDER_FALLBACK_JOBID_SUPPORT", "maybe", "yes or no"},
        {"UET_PROVIDER_INITIATOR_ID", "me", "a number from 0"},
    };
    const size_t count = sizeof(wrong) / sizeof(wrong[0]);

    for (size_t i = 0; i < count; i++)
        setenv(wrong[i].variable, wrong[i].value, 1);
    setenv("UET_PROVIDER_SERVICE_PAHT", "1", 1);
    setenv("UET_PROVIDER_WHATEVER_ELSE_THERE_IS", "1", 1);
    setenv("UET_TOOLS_COLOUR", "1", 1); /* of another program */
    assert_int_equal(warnings_import(), 0);
    begin();
    assert_int_equal(memory.dscp, 0);
    end();
    for (size_t i = 0; i < count; i++) {
        const char *line = strstr(warnings, wrong[i].variable);
        char quoted[64];

        snprintf(quoted, sizeof(quoted), ": '%s' is not ", wrong[i].value);
        assert_non_null(line);
        assert_ptr_equal(strstr(line, quoted), line + strlen(wrong[i].variable));
        assert_non_null(strstr(line, wrong[i].right));
        assert_true(strstr(line, wrong[i].right) < strchr(line, '\n'));
        unsetenv(wrong[i].variable);
    }
    assert_non_null(strstr(warnings, "environment: unknown variable UET_PROVIDER_SERVICE_PAHT; "
                                     "did you mean UET_PROVIDER_SERVICE_PATH?\n"));
    assert_non_null(strstr(warnings, "environment: unknown variable "
                                     "UET_PROVIDER_WHATEVER_ELSE_THERE_IS: no part reads it\n"));
    assert_null(strstr(warnings, "UET_TOOLS_COLOUR"));
    unsetenv("UET_PROVIDER_SERVICE_PAHT");
    unsetenv("UET_PROVIDER_WHATEVER_ELSE_THERE_IS");
    unsetenv("UET_TOOLS_COLOUR");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_values_are_named),
        cmocka_unit_test(a_rendezvous_has_its_sizes),
        cmocka_unit_test(an_initiator_has_its_id),
        cmocka_unit_test(packets_have_their_dscp),
        cmocka_unit_test(services_are_in_their_file),
        cmocka_unit_test(an_endpoint_needs_a_job_without_a_fallback),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
