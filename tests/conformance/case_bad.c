/* SPDX-License-Identifier: BSD-2-Clause */
/* Mistakes of a user or a peer: the error, where it shows, and what goes on. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conf.h"

/* fi_getinfo with FI_PROVIDER = spec, and what it said on stderr. */
static int asked(const char *spec, char *said, size_t size)
{
    FILE *catch = tmpfile();
    struct fi_info *info = NULL;
    int saved = dup(2), rc;
    size_t len;

    conf_check(catch && saved >= 0, "tmpfile");
    setenv("FI_PROVIDER", spec, 1);
    fflush(stderr);
    dup2(fileno(catch), 2);
    rc = conf_getinfo(&(struct conf_want){.node = "127.0.0.1"}, &info);
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    rewind(catch);
    len = fread(said, 1, size - 1, catch);
    said[len] = 0;
    fclose(catch);
    if (info)
        fi_freeinfo(info);
    setenv("FI_PROVIDER", conf_spec, 1);
    return rc;
}

static void spec_is(const char *spec, const char *sentence)
{
    char said[4096];
    int rc = asked(spec, said, sizeof said);

    conf_check(rc < 0, "'%s' is accepted", spec);
    conf_check(strstr(said, sentence) != NULL, "'%s' says: %s", spec, said);
}

static void specs(void)
{
    spec_is("tcp;noop;rxmm", "FI_PROVIDER:10: unknown part 'rxmm'; did you mean 'rxm'?\n"
                             "  tcp;noop;rxmm\n"
                             "           ^~~~");
    spec_is("noop;tpc", "unknown part 'tpc'; did you mean 'tcp'?");
    spec_is("rxm;tcp;noop", "tcp");
    spec_is("rxm;rxm;tcp", "rxm needs a lower that gives FI_EP_MSG");
    spec_is("rxm;tcp(ifase=lo)", "did you mean 'iface'?");
    spec_is("rxm;tcp(iface=nosuch0)", "nosuch0");
    spec_is("rxm;tcp(", "FI_PROVIDER:9");
    spec_is("tcp;;rxm", "FI_PROVIDER:5");
}

/* A parameter that selects, against a source address of another interface. */
static void parameter_against_hints(void)
{
    char said[4096];

    conf_check(asked("rxm;tcp(iface=lo)", said, sizeof said) == 0, "lo has 127.0.0.1: %s", said);
    conf_check(asked("rxm;tcp(iface=!lo)", said, sizeof said) < 0,
               "an interface that is excluded is offered");
}

static void name_does_not_resolve(void)
{
    struct conf_want want = {.node = "no-such-host.invalid"};
    struct fi_info *info = NULL;
    int rc;

    conf_need("sockets");
    rc = conf_getinfo(&want, &info);
    conf_check(rc == -FI_ENODATA, "%s", fi_strerror(-rc));
}

static struct sockaddr_in silent_listener(int *fd, bool listening)
{
    struct sockaddr_in sin = {.sin_family = AF_INET};
    socklen_t len = sizeof sin;

    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *fd = socket(AF_INET, SOCK_STREAM, 0);
    conf_check(!bind(*fd, (struct sockaddr *)&sin, sizeof sin), "bind");
    conf_check(!listening || !listen(*fd, 8), "listen");
    conf_check(!getsockname(*fd, (struct sockaddr *)&sin, &len), "getsockname");
    return sin;
}

/* A send to an address without a listener ends in an error; -FI_EAGAIN meanwhile is fine, for ever
 * is not. */
static int send_result(struct conf_pair *p, fi_addr_t to, int limit_ms)
{
    long long end = conf_now_ms() + limit_ms;
    char out = 'x';
    ssize_t rc;

    do {
        rc = fi_tsend(p->a.ep, &out, 1, NULL, to, 1, &out);
        conf_drive_pair(p);
        conf_check(conf_now_ms() < end, "still -FI_EAGAIN after %d ms", limit_ms);
    } while (rc == -FI_EAGAIN);
    if (rc)
        return (int)-rc;
    while (!conf_has(&p->a, &out)) {
        conf_drive_pair(p);
        conf_check(conf_now_ms() < end, "accepted, and no completion after %d ms", limit_ms);
    }
    return conf_wait(p, &p->a, &out).err;
}

static void talks_on(struct conf_pair *p)
{
    char in = 0, out = 'g';

    conf_post(p, fi_trecv(p->b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 9, 0, &in));
    conf_post(p, fi_tsend(p->a.ep, &out, 1, NULL, p->a.peer, 9, &out));
    conf_wait(p, &p->b, &in);
    conf_wait(p, &p->a, &out);
}

static void refused_peer(void)
{
    const char *nobody = "fi_ns://nobody-at-all";
    struct conf_pair *p;
    struct sockaddr_in sin;
    const void *address;
    fi_addr_t to;
    int fd, err;

    conf_may_lack("made_addresses");
    conf_may_lack("refusals");
    setenv("FI_RXM_CONNECT_TIMEOUT", "1s", 1);
    setenv("FI_SHM_CONNECT_TIMEOUT", "1s", 1);
    p = conf_pair_open((struct conf_want){0});
    sin = silent_listener(&fd, false);
    address = p->home.info->addr_format == FI_ADDR_STR ? (const void *)&nobody : &sin;
    conf_check(fi_av_insert(p->a.av, address, 1, &to, 0, NULL) == 1, "fi_av_insert");
    err = send_result(p, to, 30000);
    conf_check(err == FI_ECONNREFUSED, "a refused send ends in %s", fi_strerror(err));
    talks_on(p);
    close(fd);
    conf_pair_close(p);
}

/* The peer accepts the TCP connection and never says anything. */
static void silent_peer(void)
{
    struct conf_pair *p;
    struct sockaddr_in sin;
    fi_addr_t to;
    int fd, err;

    conf_need("sockets");
    setenv("FI_RXM_CONNECT_TIMEOUT", "1s", 1);
    p = conf_pair_open((struct conf_want){0});
    sin = silent_listener(&fd, true);
    conf_check(fi_av_insert(p->a.av, &sin, 1, &to, 0, NULL) == 1, "fi_av_insert");
    err = send_result(p, to, 30000);
    conf_check(err == FI_ETIMEDOUT, "a send to a silent peer ends in %s", fi_strerror(err));
    talks_on(p);
    close(fd);
    conf_pair_close(p);
}

/* Garbage of a stranger on our listening port: its connection closes, the peers notice nothing. */
static void garbage(void)
{
    struct conf_pair *p;
    struct sockaddr_in sin;
    size_t len = sizeof sin;
    char bytes[600];

    conf_need("sockets");
    p = conf_pair_open((struct conf_want){0});
    conf_check(!fi_getname(&p->b.ep->fid, &sin, &len), "fi_getname");
    srand(1);
    for (int i = 0; i < 60; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        ssize_t n;

        conf_check(!connect(fd, (struct sockaddr *)&sin, sizeof sin), "connect");
        for (size_t j = 0; j < sizeof bytes; j++)
            bytes[j] = (char)rand();
        if (i % 3 == 1)
            memcpy(bytes, "GET / HTTP/1.1\r\n\r\n", 18);
        if (i % 3 == 2) {
            /* A right header, private data of a wrong kind. */
            memset(bytes, 0, 32);
            bytes[0] = 3;
            bytes[3] = (char)(i % 30);
        }
        n = send(fd, bytes, (size_t)rand() % sizeof bytes, MSG_NOSIGNAL);
        (void)n;
        talks_on(p);
        close(fd);
    }
    talks_on(p);
    conf_quiet(p, 20);
    conf_pair_close(p);
}

static void arguments(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    struct fi_cq_attr cq = {.format = (enum fi_cq_format)99};
    struct fid_cq *made;
    struct fid_ep *ep;
    fi_addr_t none = 12345;
    char byte = 0;
    ssize_t rc;

    conf_check(fi_cq_open(p->home.domain, &cq, &made, NULL) < 0, "a format that does not exist");
    cq.format = FI_CQ_FORMAT_CONTEXT;
    cq.wait_obj = (enum fi_wait_obj)77;
    conf_check(fi_cq_open(p->home.domain, &cq, &made, NULL) < 0,
               "a wait object that does not exist");
    conf_check(!fi_endpoint(p->home.domain, p->home.info, &ep, NULL), "fi_endpoint");
    rc = fi_enable(ep);
    conf_check(rc == -FI_ENOCQ || rc == -FI_ENOAV || rc == -FI_EOPBADSTATE,
               "fi_enable of an unbound endpoint: %zd", rc);
    rc = fi_send(ep, &byte, 1, NULL, 0, NULL);
    conf_check(rc == -FI_EOPBADSTATE, "fi_send before fi_enable: %zd", rc);
    conf_check(!fi_close(&ep->fid), "fi_close");
    for (int tries = 0; (rc = fi_send(p->a.ep, &byte, 1, NULL, none, NULL)) == -FI_EAGAIN;
         tries++) {
        conf_check(tries < 1000, "fi_send to an address never inserted: again and again");
        conf_drive_pair(p);
    }
    conf_check(rc < 0, "fi_send to an address never inserted: %zd", rc);
    conf_check(fi_av_remove(p->a.av, &none, 1, 0) < 0, "fi_av_remove of what was never inserted");
    conf_check(fi_cancel(&p->a.ep->fid, &byte) == -FI_ENOENT ||
                   fi_cancel(&p->a.ep->fid, &byte) == 0,
               "fi_cancel of nothing");
    conf_quiet(p, 5);
    conf_pair_close(p);
}

const struct conf_case conf_bad_cases[] = {
    {"bad: specs", specs},
    {"bad: a parameter against the hints", parameter_against_hints},
    {"bad: a name that does not resolve", name_does_not_resolve},
    {"bad: arguments", arguments},
    {"bad: a peer that refuses", refused_peer},
    {"bad: a peer that is silent", silent_peer},
    {"bad: bytes of nobody", garbage},
    {0},
};
