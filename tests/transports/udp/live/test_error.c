/* SPDX-License-Identifier: BSD-2-Clause */
/* The network's reports of datagrams that were sent, and reports that a stranger forges. */
#include "ends.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char out[100], in[100];

static struct sockaddr_in name_of(const struct end *end)
{
    struct sockaddr_in addr;
    size_t len = sizeof(addr);

    assert_int_equal(fi_getname(&end->ep->fid, &addr, &len), 0);
    return addr;
}

/* The address of an endpoint that there was. */
static fi_addr_t insert_nobody(void)
{
    struct end nobody;
    fi_addr_t addr;

    end_open(&nobody, &(struct options){0});
    addr = introduce(&a, &nobody);
    end_close(&nobody);
    return addr;
}

static void a_closed_port_is_reported_and_no_more(void **state)
{
    struct fi_eq_err_entry error;
    fi_addr_t nobody;

    ends_open(&(struct options){0});
    nobody = insert_nobody();
    for (int i = 0; i < 3; i++) {
        send_to(&a, nobody, out, 10);
        expect(a.tx, out, NULL);
        error = expect_event_error(a.eq, FI_ECONNREFUSED);
        assert_ptr_equal(error.fid, &a.ep->fid);
        assert_int_equal(error.data, nobody);
        assert_int_equal(error.prov_errno, ICMP_DEST_UNREACH << 8 | ICMP_PORT_UNREACH);
        assert_int_equal(error.err_data_size, sizeof(struct sockaddr_in));
        /* Others are not concerned. */
        receive(&b, in, 10);
        send_to(&a, a.peer, out, 10);
        expect(a.tx, out, NULL);
        expect(b.rx, in, NULL);
    }
    /* Nor are receives of the same endpoint. */
    send_to(&a, nobody, out, 10);
    receive(&a, in, 10);
    send_to(&b, b.peer, out, 10);
    expect(a.tx, out, NULL);
    expect(a.rx, in, NULL);
    ends_close();
}

static void a_queue_that_nobody_reads_is_not_filled_for_ever(void **state)
{
    struct fi_eq_err_entry entry;
    unsigned reports = 0;
    char event[64];
    uint32_t number;
    fi_addr_t nobody;

    ends_open(&(struct options){0});
    nobody = insert_nobody();
    for (int i = 0; i < 1000; i++) {
        send_to(&a, nobody, out, 10);
        expect(a.tx, out, NULL);
        drive();
    }
    while (fi_eq_read(a.eq, &number, event, sizeof(event), 0) == -FI_EAVAIL && reports < 1000) {
        memset(&entry, 0, sizeof(entry));
        assert_int_equal(fi_eq_readerr(a.eq, &entry, 0), sizeof(entry));
        reports++;
    }
    assert_in_range(reports, 1, 500);
    ends_close();
}

static void without_an_event_queue_nothing_is_heard(void **state)
{
    fi_addr_t nobody;

    ends_open(&(struct options){.no_eq = true});
    nobody = insert_nobody();
    for (int i = 0; i < 10; i++) {
        send_to(&a, nobody, out, 10);
        expect(a.tx, out, NULL);
    }
    receive(&b, in, 10);
    send_to(&a, a.peer, out, 10);
    expect(b.rx, in, NULL);
    ends_close();
}

static uint16_t checksum(const void *data, size_t len)
{
    const uint8_t *bytes = data;
    uint32_t sum = 0;

    for (size_t i = 0; i + 1 < len; i += 2)
        sum += (uint32_t)bytes[i] << 8 | bytes[i + 1];
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return htons((uint16_t)~sum);
}

/* A message that the port of `to` is closed, though nothing was sent there, or it is open. */
static void forge(int raw, const struct sockaddr_in *from, const struct sockaddr_in *to)
{
    struct {
        struct icmphdr icmp;
        struct iphdr ip;
        uint16_t source, dest, len, sum;
    } packet;
    struct sockaddr_in victim = {.sin_family = AF_INET, .sin_addr = from->sin_addr};

    memset(&packet, 0, sizeof(packet));
    packet.icmp.type = ICMP_DEST_UNREACH;
    packet.icmp.code = ICMP_PORT_UNREACH;
    packet.ip.version = 4;
    packet.ip.ihl = 5;
    packet.ip.tot_len = htons(28);
    packet.ip.protocol = IPPROTO_UDP;
    packet.ip.saddr = from->sin_addr.s_addr;
    packet.ip.daddr = to->sin_addr.s_addr;
    packet.source = from->sin_port;
    packet.dest = to->sin_port;
    packet.len = htons(8);
    packet.icmp.checksum = checksum(&packet, sizeof(packet));
    assert_int_equal(
        sendto(raw, &packet, sizeof(packet), 0, (struct sockaddr *)&victim, sizeof(victim)),
        sizeof(packet));
}

static void a_forged_report_ends_nothing(void **state)
{
    int raw = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
    struct sockaddr_in from, to;

    if (raw < 0) {
        print_message("no raw sockets here: %s\n", strerror(errno));
        skip();
    }
    ends_open(&(struct options){0});
    from = name_of(&a);
    to = name_of(&b);
    receive(&b, in, 10);
    forge(raw, &from, &to);
    assert_int_equal(expect_event_error(a.eq, FI_ECONNREFUSED).data, a.peer);
    expect_nothing(a.tx);
    expect_nothing(b.rx);
    for (int i = 0; i < 200; i++)
        forge(raw, &from, &to);
    send_to(&a, a.peer, out, 10);
    expect(a.tx, out, NULL);
    expect(b.rx, in, NULL);
    ends_close();
    close(raw);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_closed_port_is_reported_and_no_more),
        cmocka_unit_test(a_queue_that_nobody_reads_is_not_filled_for_ever),
        cmocka_unit_test(without_an_event_queue_nothing_is_heard),
        cmocka_unit_test(a_forged_report_ends_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
