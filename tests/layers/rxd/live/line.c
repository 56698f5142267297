/* SPDX-License-Identifier: BSD-2-Clause */
#include "line.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include "tests/support/shell.h"

static char space[LINE_ENDS][32];

void line_must(long rc, const char *what)
{
    if (!rc)
        return;
    fprintf(stderr, "%s: %ld\n", what, rc);
    _exit(1);
}

const char *line_space(int end)
{
    return space[end];
}

bool line_make(unsigned mbit, unsigned mtu)
{
    bool made = true;

    for (int i = 0; made && i < LINE_ENDS; i++) {
        snprintf(space[i], sizeof(space[i]), "weft-line-%d-%d", (int)getpid(), i);
        made = run("ip netns add %s 2>/dev/null", space[i]);
    }
    made = made && run("ip link add name line netns %s type veth peer name line netns %s", space[0],
                       space[1]);
    for (int i = 0; made && i < LINE_ENDS; i++)
        made = run("ip -n %s addr add 10.79.0.%d/24 dev line && "
                   "ip -n %s link set line mtu %u up && ip -n %s link set lo up && "
                   "tc -n %s qdisc add dev line root tbf rate %umbit burst %uk latency 50ms",
                   space[i], i + 1, space[i], mtu, space[i], space[i], mbit, mbit > 500 ? 256 : 64);
    /* It has no carrier for a moment, and carries nothing until then. */
    for (int i = 0; made && i < LINE_ENDS; i++)
        made = run("for n in $(seq 1000); do "
                   "ip -n %s link show line | grep -q LOWER_UP && exit 0; sleep 0.02; done; exit 1",
                   space[i]);
    return made;
}

void line_remove(void)
{
    for (int i = 0; i < LINE_ENDS; i++)
        if (*space[i])
            run("ip netns del %s 2>/dev/null", space[i]);
}

void line_enter(int end)
{
    char path[64];
    int fd;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(path, sizeof(path), "/run/netns/%s", space[end]);
    fd = open(path, O_RDONLY);
    line_must(fd < 0 || setns(fd, CLONE_NEWNET), path);
    close(fd);
}

void line_open(struct line_host *host, const char *stack)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_UNSPEC};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    struct fi_info *hints = fi_allocinfo(), *info;

    hints->caps = FI_MSG;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup(stack);
    line_must(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info), stack);
    line_must(fi_fabric(info->fabric_attr, &host->fabric, NULL), "fi_fabric");
    line_must(fi_domain(host->fabric, info, &host->domain, NULL), "fi_domain");
    line_must(fi_cq_open(host->domain, &cq, &host->cq, NULL), "fi_cq_open");
    line_must(fi_av_open(host->domain, &av, &host->av, NULL), "fi_av_open");
    line_must(fi_endpoint(host->domain, info, &host->ep, NULL), "fi_endpoint");
    line_must(fi_ep_bind(host->ep, &host->cq->fid, FI_TRANSMIT | FI_RECV), "the queue");
    line_must(fi_ep_bind(host->ep, &host->av->fid, 0), "the addresses");
    line_must(fi_enable(host->ep), "fi_enable");
}

void line_meet(struct line_host *host, struct line_name names[LINE_ENDS], int end)
{
    size_t len = sizeof(names[end].name);

    line_must(fi_getname(&host->ep->fid, names[end].name, &len), "fi_getname");
    __sync_synchronize();
    names[end].named = 1;
    while (!names[!end].named)
        usleep(1000);
    line_must(fi_av_insert(host->av, names[!end].name, 1, &host->peer, 0, NULL) != 1,
              "fi_av_insert");
}
