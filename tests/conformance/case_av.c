/* SPDX-License-Identifier: BSD-2-Clause */
/* Address vectors. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conf.h"

enum {
    MANY = 20000,
    TEXT = 48
};

/* Addresses without a listener, in the format of the stack. */
struct book {
    bool texts; /* FI_ADDR_STR */
    struct sockaddr_in *addresses;
    char (*text)[TEXT];
    const char **names; /* to text */
};

static struct sockaddr_in address_of(unsigned i)
{
    struct sockaddr_in sin = {.sin_family = AF_INET,
                              .sin_port = htons((uint16_t)(1000 + i % 50000))};

    sin.sin_addr.s_addr = htonl(0x0a000000U + i);
    return sin;
}

static void book_open(struct book *book, const struct conf_pair *p, unsigned count)
{
    book->texts = p->home.info->addr_format == FI_ADDR_STR;
    book->addresses = calloc(count, sizeof *book->addresses);
    book->text = calloc(count, sizeof *book->text);
    book->names = calloc(count, sizeof *book->names);
    for (unsigned i = 0; i < count; i++) {
        book->addresses[i] = address_of(i);
        snprintf(book->text[i], TEXT, "fi_ns://nobody-at-all:%u", i);
        book->names[i] = book->text[i];
    }
}

static void book_close(struct book *book)
{
    free(book->addresses);
    free(book->text);
    free(book->names);
}

/* As fi_av_insert takes them, from the i-th on. */
static const void *book_from(const struct book *book, unsigned i)
{
    return book->texts ? (const void *)&book->names[i] : &book->addresses[i];
}

static void is_known(struct fid_av *av, fi_addr_t at, const struct book *book, unsigned i)
{
    size_t want = book->texts ? strlen(book->text[i]) + 1 : sizeof book->addresses[i];
    char found[TEXT + 1];
    size_t len = sizeof found;

    conf_check(!fi_av_lookup(av, at, found, &len) && len == want, "lookup %u: %zu bytes", i, len);
    conf_check(!memcmp(found, book->texts ? (void *)book->text[i] : &book->addresses[i], want),
               "address %u", i);
}

/* Many are inserted, found, removed and inserted again; those of a table are numbered. */
static void many_with(enum fi_av_type type)
{
    conf_may_lack("made_addresses");

    struct conf_pair *p = conf_pair_open((struct conf_want){.av_type = type});
    fi_addr_t *at = calloc(MANY, sizeof *at);
    fi_addr_t first = type == FI_AV_TABLE ? p->a.peer + 1 : 0;
    char found[TEXT] = "";
    struct book book;
    size_t len = 4;

    book_open(&book, p, MANY);
    conf_check(fi_av_insert(p->a.av, book_from(&book, 0), MANY, at, 0, NULL) == MANY,
               "fi_av_insert");
    for (unsigned i = 0; i < MANY; i += 7) {
        conf_check(type != FI_AV_TABLE || at[i] == first + i, "number %lu of %u",
                   (unsigned long)at[i], i);
        is_known(p->a.av, at[i], &book, i);
    }
    conf_check(!fi_av_lookup(p->a.av, at[3], found, &len) || len > 4,
               "a lookup with too little room: length %zu", len);
    for (unsigned i = 4; i < TEXT; i++)
        conf_check(!found[i], "it wrote behind the room");
    for (unsigned i = 0; i < MANY; i += 2)
        conf_check(!fi_av_remove(p->a.av, &at[i], 1, 0), "fi_av_remove");
    len = sizeof found;
    conf_check(fi_av_lookup(p->a.av, at[0], found, &len) < 0, "a removed one is found");
    for (unsigned i = 0; i < MANY; i += 2)
        conf_check(fi_av_insert(p->a.av, book_from(&book, i), 1, &at[i], 0, NULL) == 1,
                   "insert again");
    for (unsigned i = 0; i < MANY; i += 11)
        is_known(p->a.av, at[i], &book, i);
    conf_check(!fi_av_remove(p->a.av, at, MANY, 0), "all at once");
    conf_pair_close(p);
    book_close(&book);
    free(at);
}

static void many(void)
{
    many_with(FI_AV_TABLE);
    many_with(FI_AV_MAP);
}

static void talk(struct conf_pair *p, fi_addr_t to)
{
    char in = 0, out = 't';

    conf_post(p, fi_trecv(p->b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, &in));
    conf_post(p, fi_tsend(p->a.ep, &out, 1, NULL, to, 1, &out));
    conf_check(!conf_wait(p, &p->b, &in).err && in == 't', "data");
    conf_check(!conf_wait(p, &p->a, &out).err, "the send");
}

/* Twice the same address is one peer, so that receives from it match whatever sends there used; one
 * removal leaves it. */
static void twice(void)
{
    for (int type = FI_AV_MAP; type <= FI_AV_TABLE; type++) {
        struct conf_pair *p = conf_pair_open((struct conf_want){.av_type = (enum fi_av_type)type});
        fi_addr_t again = conf_insert(&p->a, &p->b, 0, 0);

        talk(p, p->a.peer);
        talk(p, again);
        conf_check(again == p->a.peer, "another fi_addr_t for the same address");
        conf_check(!fi_av_remove(p->a.av, &again, 1, 0), "fi_av_remove");
        talk(p, p->a.peer);
        conf_quiet(p, 5);
        conf_pair_close(p);
    }
}

/* Removed: posts to it are refused; inserted again: it talks. */
static void removed(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    char out = 'x';
    ssize_t rc;
    int tries = 0;

    for (int i = 0; i < 10; i++) {
        talk(p, p->a.peer);
        conf_check(!fi_av_remove(p->a.av, &p->a.peer, 1, 0), "fi_av_remove");
        do {
            rc = fi_tsend(p->a.ep, &out, 1, NULL, p->a.peer, 1, &out);
            conf_drive_pair(p);
        } while (rc == -FI_EAGAIN && ++tries < 1000); /* the removal may be under way */
        conf_check(rc < 0 && rc != -FI_EAGAIN, "a post to what was removed: %s",
                   fi_strerror((int)-rc));
        conf_introduce(&p->a, &p->b);
    }
    talk(p, p->a.peer);
    conf_quiet(p, 5);
    conf_pair_close(p);
}

/* Closes b and opens another endpoint with its address, if the stack lets an application choose one
 * that was in use just now; else with its own. */
static void open_next(struct conf_pair *p)
{
    struct fi_info *info = p->home.info;
    void *address = calloc(1, 256), *before = info->src_addr;
    size_t len = 256, len_before = info->src_addrlen;
    struct fid_ep *probe = NULL;

    conf_check(!fi_getname(&p->b.ep->fid, address, &len), "fi_getname");
    conf_ep_close(&p->b);
    info->src_addr = address;
    info->src_addrlen = len;
    if (fi_endpoint(p->home.domain, info, &probe, NULL) || fi_enable(probe) == -FI_EADDRINUSE) {
        info->src_addr = before;
        info->src_addrlen = len_before;
    }
    if (probe)
        conf_check(!fi_close(&probe->fid), "fi_close");
    conf_ep_open(&p->b, &p->home, &p->want);
    info->src_addr = before;
    info->src_addrlen = len_before;
    free(address);
}

static void say(struct conf_pair *p, struct conf_ep *from, struct conf_ep *to, size_t len)
{
    static unsigned seed;
    char *out = malloc(len), *in = calloc(1, len);

    conf_fill(out, len, ++seed);
    conf_post(p, fi_trecv(to->ep, in, len, NULL, FI_ADDR_UNSPEC, 5, 0, in));
    conf_post(p, fi_tsend(from->ep, out, len, NULL, from->peer, 5, out));
    conf_check(!conf_wait(p, from, out).err, "the send of %zu bytes", len);
    conf_check(!conf_wait(p, to, in).err && conf_holds(in, len, seed), "the receive");
    free(out);
    free(in);
}

/* Another endpoint comes where one was that the application has removed. */
static void another(void)
{
    static const size_t sizes[] = {1, 3000, 100000};
    struct conf_pair *p;

    conf_may_lack("another_endpoint");
    p = conf_pair_open((struct conf_want){0});
    for (int i = 0; i < 4; i++) {
        for (size_t s = 0; s < 3; s++) {
            say(p, i % 2 ? &p->a : &p->b, i % 2 ? &p->b : &p->a, sizes[s]);
            say(p, i % 2 ? &p->b : &p->a, i % 2 ? &p->a : &p->b, sizes[s]);
        }
        conf_quiet(p, 5);
        conf_check(!fi_av_remove(p->a.av, &p->a.peer, 1, 0), "fi_av_remove");
        open_next(p);
        conf_introduce(&p->a, &p->b);
        conf_introduce(&p->b, &p->a);
    }
    say(p, &p->a, &p->b, 1);
    conf_quiet(p, 5);
    conf_pair_close(p);
}

/* Addresses as texts: the same text comes from the same address. */
static void texts(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    char address[256], text[512], small[8];
    size_t len = sizeof address, size = sizeof text;

    conf_check(!fi_getname(&p->b.ep->fid, address, &len), "fi_getname");
    conf_check(fi_av_straddr(p->a.av, address, text, &size) == text, "fi_av_straddr");
    conf_check(strlen(text) > 3 && size == strlen(text) + 1, "'%s' and length %zu", text, size);
    memset(small, 0x55, sizeof small);
    size = 4;
    fi_av_straddr(p->a.av, address, small, &size);
    conf_check(size == strlen(text) + 1 && small[4] == 0x55, "with room for 4: length %zu", size);
    conf_check(!strncmp(small, text, 3) && !small[3], "with room for 4: '%.4s'", small);
    conf_pair_close(p);
}

static void by_names(void)
{
    struct conf_pair *p;
    struct sockaddr_in sin;
    size_t len = sizeof sin;
    char port[16];
    fi_addr_t to, range[6];
    int rc;

    conf_need("sockets");
    p = conf_pair_open((struct conf_want){0});
    conf_check(!fi_getname(&p->b.ep->fid, &sin, &len), "fi_getname");
    snprintf(port, sizeof port, "%u", ntohs(sin.sin_port));
    rc = fi_av_insertsvc(p->a.av, "127.0.0.1", port, &to, 0, NULL);
    conf_check(rc == 1, "fi_av_insertsvc: %d", rc);
    talk(p, to);
    rc = fi_av_insertsvc(p->a.av, "no-such-host.invalid", port, &to, 0, NULL);
    conf_check(rc < 0 || (rc == 0 && to == FI_ADDR_NOTAVAIL), "a name that is none: %d", rc);
    /* Two nodes and three ports each, counted up. */
    rc = fi_av_insertsym(p->a.av, "127.0.0.1", 2, port, 3, range, 0, NULL);
    conf_check(rc == 6, "fi_av_insertsym: %d", rc);
    for (int i = 0; i < 6; i++) {
        struct sockaddr_in found;

        len = sizeof found;
        conf_check(!fi_av_lookup(p->a.av, range[i], &found, &len), "fi_av_lookup");
        conf_check(ntohl(found.sin_addr.s_addr) == INADDR_LOOPBACK + (unsigned)i / 3 &&
                       ntohs(found.sin_port) == ntohs(sin.sin_port) + i % 3,
                   "address %d: %s:%u", i, inet_ntoa(found.sin_addr), ntohs(found.sin_port));
    }
    talk(p, range[0]);
    conf_quiet(p, 5);
    conf_pair_close(p);
}

/* An address of no known form among good ones: it is told, and the others are in. */
static void wrong_ones(void)
{
    conf_may_lack("made_addresses");

    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    fi_addr_t at[3] = {1, 1, 1};
    int errors[3] = {0}, rc;
    struct book book;

    book_open(&book, p, 3);
    book.addresses[1].sin_family = 9999;
    book.text[1][0] = 0;
    rc = fi_av_insert(p->a.av, book_from(&book, 0), 3, at, FI_SYNC_ERR, errors);
    conf_check(rc == 2 && at[1] == FI_ADDR_NOTAVAIL && at[0] != FI_ADDR_NOTAVAIL &&
                   at[2] != FI_ADDR_NOTAVAIL,
               "%d inserted, %#lx", rc, (unsigned long)at[1]);
    conf_check(!errors[0] && errors[1] && !errors[2], "errors %d %d %d", errors[0], errors[1],
               errors[2]);
    talk(p, p->a.peer);
    conf_pair_close(p);
    book_close(&book);
}

/* Insertion that completes as an event: it works, or is refused where it is asked. */
static void asynchronous(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    struct fi_av_attr attr = {.type = FI_AV_TABLE, .flags = FI_EVENT};
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_NONE};
    struct fi_eq_entry entry = {0};
    struct fid_av *av;
    struct fid_eq *eq;
    uint32_t event;
    char address[256];
    size_t len = sizeof address;
    fi_addr_t to = FI_ADDR_NOTAVAIL;
    int rc = fi_av_open(p->home.domain, &attr, &av, NULL);

    if (rc) {
        conf_check(rc == -FI_ENOSYS || rc == -FI_EINVAL || rc == -FI_EOPNOTSUPP ||
                       rc == -FI_EBADFLAGS,
                   "refused with %s", fi_strerror(-rc));
        conf_pair_close(p);
        return;
    }
    conf_check(!fi_eq_open(p->home.fabric, &eq_attr, &eq, NULL), "fi_eq_open");
    conf_check(!av->fid.ops->bind(&av->fid, &eq->fid, 0), "fi_av_bind");
    conf_check(!fi_getname(&p->b.ep->fid, address, &len), "fi_getname");
    conf_check(fi_av_insert(av, address, 1, &to, 0, &to) == 0, "fi_av_insert");
    for (long long end = conf_now_ms() + CONF_TIMEOUT_MS;
         fi_eq_read(eq, &event, &entry, sizeof entry, 0) == -FI_EAGAIN;)
        conf_check(conf_now_ms() < end, "no event");
    conf_check(event == FI_AV_COMPLETE && entry.data == 1 && entry.context == &to && !to,
               "event %u of %lu", event, (unsigned long)entry.data);
    conf_check(!fi_close(&av->fid) && !fi_close(&eq->fid), "fi_close");
    conf_pair_close(p);
}

/* ---- Named ones ---- */

static struct conf_want want_named(const char *what)
{
    static char name[64];

    snprintf(name, sizeof name, "conformance-%d-%s", (int)getpid(), what);
    return (struct conf_want){.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_SOURCE | FI_SHARED_AV,
                              .av_name = name};
}

static struct fid_av *open_named(struct conf_fabric *home, const char *name, uint64_t flags)
{
    struct fi_av_attr attr = {.type = FI_AV_TABLE, .name = name, .flags = flags};
    struct fid_av *av;
    int rc = fi_av_open(home->domain, &attr, &av, NULL);

    conf_check(!rc, "fi_av_open: %s", fi_strerror(-rc));
    conf_check(attr.map_addr != NULL, "no map_addr");
    return av;
}

static void is_refused(struct conf_fabric *home, const char *name, uint64_t flags)
{
    struct fi_av_attr attr = {.type = FI_AV_TABLE, .name = name, .flags = flags};
    struct fid_av *av;

    conf_check(fi_av_open(home->domain, &attr, &av, NULL) < 0, "name '%s', flags %#lx", name,
               (unsigned long)flags);
}

/* Two endpoints, each with its own AV of the same name: one inserts, both know. */
static void named(void)
{
    struct fid_av *reader;
    struct conf_want want;
    struct conf_pair *p;
    struct book book;
    fi_addr_t at[3];
    char in = 0, out = 'n';

    conf_need("SHARED_AV");
    want = want_named("pair");
    p = conf_pair_open(want);
    conf_check(!p->a.peer && p->b.peer == 1, "fi_addr_t %#lx and %#lx", (unsigned long)p->a.peer,
               (unsigned long)p->b.peer);
    talk(p, p->a.peer);
    /* Of its own peer, whom the other end's AV has first. */
    conf_post(p, fi_trecv(p->a.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, &in));
    conf_post(p, fi_tsend(p->a.ep, &out, 1, NULL, p->b.peer, 1, &out));
    conf_check(!conf_wait(p, &p->a, &in).err && in == 'n', "to itself");
    conf_check(!conf_wait(p, &p->a, &out).err, "the send to itself");
    book_open(&book, p, 3);
    reader = open_named(&p->home, want.av_name, FI_READ);
    conf_check(fi_av_insert(p->a.av, book_from(&book, 0), 3, at, 0, NULL) == 3, "fi_av_insert");
    for (unsigned i = 0; i < 3; i++) {
        conf_check(at[i] == 2 + i, "number %lu of %u", (unsigned long)at[i], i);
        is_known(p->b.av, at[i], &book, i);
        is_known(reader, at[i], &book, i);
    }
    conf_check(fi_av_insert(reader, book_from(&book, 0), 1, at, 0, NULL) < 0, "a reader inserts");
    conf_check(fi_av_remove(reader, at, 1, 0) < 0, "a reader removes");
    is_known(p->a.av, at[0], &book, 0);
    conf_check(!fi_close(&reader->fid), "fi_close");
    is_refused(&p->home, "conformance-nobody", FI_READ);
    is_refused(&p->home, NULL, FI_READ);
    is_refused(&p->home, "", 0);
    is_refused(&p->home, "a/slash", 0);
    talk(p, p->a.peer);
    conf_quiet(p, 5);
    conf_pair_close(p);
    book_close(&book);
}

/* The other process only reads; it is told an index and sends there. */
static _Noreturn void read_named(struct conf_want want, int in, int out)
{
    struct conf_pair *p = calloc(1, sizeof *p);
    char address[256] = "", go, word = 'w';
    size_t len = sizeof address;
    fi_addr_t to;

    want.av_flags = FI_READ;
    conf_check(read(in, &go, 1) == 1, "the writer is gone");
    conf_fabric_open(&p->home, &want);
    conf_ep_open(&p->a, &p->home, &want);
    conf_ep_open(&p->b, &p->home, &want);
    conf_check(!fi_getname(&p->a.ep->fid, address, &len), "fi_getname");
    conf_check(write(out, address, sizeof address) == sizeof address, "write");
    conf_check(read(in, &to, sizeof to) == sizeof to, "the writer is gone");
    conf_post(p, fi_tsend(p->a.ep, &word, 1, NULL, to, 1, &word));
    conf_check(!conf_wait(p, &p->a, &word).err, "the reader's send");
    conf_post(p, fi_trecv(p->a.ep, &word, 1, NULL, FI_ADDR_UNSPEC, 2, 0, address));
    conf_check(!conf_wait(p, &p->a, address).err && word == 'a', "the answer");
    conf_pair_close(p);
    exit(0);
}

static void named_of_another(void)
{
    struct conf_want want;
    struct conf_pair *p;
    char address[256], in = 0, out = 'a';
    int down[2], up[2], status = -1;
    fi_addr_t at = FI_ADDR_NOTAVAIL;
    struct conf_seen seen;
    pid_t pid;

    conf_need("SHARED_AV");
    conf_need("processes");
    want = want_named("other");
    conf_check(!pipe(down) && !pipe(up), "pipe");
    pid = fork();
    if (pid == 0) {
        close(down[1]);
        close(up[0]);
        read_named(want, down[0], up[1]);
    }
    close(down[0]);
    close(up[1]);
    p = conf_pair_open(want);
    conf_check(write(down[1], &in, 1) == 1, "write");
    conf_check(read(up[0], address, sizeof address) == sizeof address, "the reader is gone");
    conf_check(fi_av_insert(p->a.av, address, 1, &at, 0, NULL) == 1 && at == 2, "fi_av_insert");
    conf_post(p, fi_trecv(p->b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, &in));
    conf_check(write(down[1], &p->a.peer, sizeof p->a.peer) == sizeof p->a.peer, "write");
    seen = conf_wait(p, &p->b, &in);
    conf_check(!seen.err && in == 'w' && seen.src == at, "error %d, from %#lx", seen.err,
               (unsigned long)seen.src);
    conf_post(p, fi_tsend(p->b.ep, &out, 1, NULL, at, 2, &out));
    conf_check(!conf_wait(p, &p->b, &out).err, "the send");
    for (long long end = conf_now_ms() + CONF_TIMEOUT_MS; !waitpid(pid, &status, WNOHANG);
         conf_drive_pair(p))
        conf_check(conf_now_ms() < end, "the reader does not end");
    conf_check(WIFEXITED(status) && !WEXITSTATUS(status), "the reader: %#x", status);
    close(down[1]);
    close(up[0]);
    conf_quiet(p, 5);
    conf_pair_close(p);
}

const struct conf_case conf_av_cases[] = {
    {"av: many, found, removed, inserted again", many},
    {"av: the same address twice", twice},
    {"av: removed and inserted again", removed},
    {"av: another endpoint at an address that was removed", another},
    {"av: addresses as texts", texts},
    {"av: by names, and ranges", by_names},
    {"av: wrong addresses among good ones", wrong_ones},
    {"av: insertion by events, or refused", asynchronous},
    {"av: named, of two endpoints", named},
    {"av: named, read by another process", named_of_another},
    {0},
};
