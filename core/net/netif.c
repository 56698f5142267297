/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/clock.h"
#include "core/net/netif.h"

#include <arpa/inet.h>
#include <fnmatch.h>
#include <ifaddrs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

/* One entry of a choice. family AF_UNSPEC: a name. */
struct rule {
    bool exclude;
    int family;
    unsigned prefix;
    unsigned char bytes[16];
    char name[64];
};

static const unsigned char *addr_bytes(const union addr *addr, unsigned *bits)
{
    if (addr->sa.sa_family == AF_INET) {
        *bits = 32;
        return (const unsigned char *)&addr->in.sin_addr;
    }
    *bits = 128;
    return (const unsigned char *)&addr->in6.sin6_addr;
}

static bool same_prefix(const unsigned char *a, const unsigned char *b, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;

    if (memcmp(a, b, whole))
        return false;
    return !rest || !((a[whole] ^ b[whole]) >> (8 - rest));
}

static int parse_rule(const char *text, size_t len, struct rule *rule)
{
    char *slash, *end;
    unsigned long prefix;
    unsigned bits;

    memset(rule, 0, sizeof(*rule));
    if (len && *text == '!') {
        rule->exclude = true;
        text++;
        len--;
    }
    if (!len || len >= sizeof(rule->name))
        return -FI_EINVAL;
    memcpy(rule->name, text, len);
    slash = strchr(rule->name, '/');
    if (slash)
        *slash = '\0';
    if (inet_pton(AF_INET, rule->name, rule->bytes) == 1)
        rule->family = AF_INET;
    else if (inet_pton(AF_INET6, rule->name, rule->bytes) == 1)
        rule->family = AF_INET6;
    if (rule->family == AF_UNSPEC)
        return slash || len >= IF_NAMESIZE ? -FI_EINVAL : 0;
    bits = rule->family == AF_INET ? 32 : 128;
    rule->prefix = bits;
    if (slash) {
        prefix = strtoul(slash + 1, &end, 10);
        if (slash[1] < '0' || slash[1] > '9' || *end || prefix > bits)
            return -FI_EINVAL;
        rule->prefix = (unsigned)prefix;
    }
    return 0;
}

static bool rule_matches(const struct rule *rule, const struct netif *netif)
{
    const unsigned char *bytes;
    unsigned bits;

    if (rule->family == AF_UNSPEC)
        return !fnmatch(rule->name, netif->name, 0);
    if (rule->family != netif->addr.sa.sa_family)
        return false;
    bytes = addr_bytes(&netif->addr, &bits);
    return same_prefix(bytes, rule->bytes, rule->prefix);
}

/* The host's end of a container's veth pair has no address but the link-local one that every
 * interface gets; an end with a configured address may lead to other hosts. */
static bool is_container_only(const struct netif *netif)
{
    static const char *const patterns[] = {"docker*",  "br-*",  "virbr*",  "cni*",
                                           "flannel*", "cali*", "podman*", "lxc*"};

    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
        if (!fnmatch(patterns[i], netif->name, 0))
            return true;
    return !fnmatch("veth*", netif->name, 0) && addr_is_link_local(&netif->addr);
}

/* Parses the whole choice; *rules is malloc'ed, NULL when there is none. */
static int parse_choice(const char *choice, struct rule **rules, size_t *count, char *why,
                        size_t why_size)
{
    size_t limit = 1, len;

    *rules = NULL;
    *count = 0;
    if (!choice || !*choice)
        return 0;
    for (const char *p = choice; *p; p++)
        limit += *p == '|' || *p == ',';
    *rules = calloc(limit, sizeof(**rules));
    if (!*rules)
        return -FI_ENOMEM;
    for (;;) {
        while (*choice == ' ')
            choice++;
        len = strcspn(choice, "|, ");
        if (parse_rule(choice, len, &(*rules)[*count])) {
            snprintf(why, why_size,
                     "'%.*s' is no interface; give a name (eth0), an address (10.0.0.1), a block "
                     "(10.0.0.0/8), or one of them after '!'",
                     (int)len, choice);
            free(*rules);
            return -FI_EINVAL;
        }
        ++*count;
        choice += len;
        while (*choice == ' ')
            choice++;
        if (!*choice)
            return 0;
        if (*choice != '|' && *choice != ',')
            break;
        choice++;
    }
    snprintf(why, why_size, "'%s': separate interfaces by '|' or ','", choice);
    free(*rules);
    return -FI_EINVAL;
}

static bool chosen(const struct rule *rules, size_t count, const struct netif *netif)
{
    bool any_include = false, included = false;

    for (size_t i = 0; i < count; i++) {
        bool matches = rule_matches(&rules[i], netif);

        if (rules[i].exclude && matches)
            return false;
        any_include |= !rules[i].exclude;
        included |= !rules[i].exclude && matches;
    }
    return any_include ? included : !is_container_only(netif);
}

static void say_nothing_left(const char *choice, const struct netif *list, size_t count, char *why,
                             size_t why_size)
{
    char text[INET6_ADDRSTRLEN];
    size_t used;
    unsigned bits;
    int len;

    if (!why_size)
        return;
    len =
        snprintf(why, why_size, "no interface %s%s%s; there %s", choice ? "matches '" : "is usable",
                 choice ? choice : "", choice ? "'" : "", count ? "are" : "is none that is up");
    used = len < 0 ? 0 : (size_t)len;
    for (size_t i = 0; i < count && used < why_size; i++) {
        inet_ntop(list[i].addr.sa.sa_family, addr_bytes(&list[i].addr, &bits), text, sizeof(text));
        len = snprintf(why + used, why_size - used, "%s %s (%s)", i ? "," : "", list[i].name, text);
        used += len < 0 ? 0 : (size_t)len;
    }
}

int netif_filter(const char *choice, struct netif *list, size_t *count, char *why, size_t why_size)
{
    struct rule *rules;
    size_t rule_count, kept = 0;
    int rc = parse_choice(choice, &rules, &rule_count, why, why_size);

    if (rc)
        return rc;
    for (size_t i = 0; i < *count; i++)
        kept += chosen(rules, rule_count, &list[i]);
    if (!kept) {
        say_nothing_left(rule_count ? choice : NULL, list, *count, why, why_size);
        free(rules);
        return -FI_ENODATA;
    }
    kept = 0;
    for (size_t i = 0; i < *count; i++)
        if (chosen(rules, rule_count, &list[i]))
            list[kept++] = list[i];
    free(rules);
    *count = kept;
    return 0;
}

static int order(const void *left, const void *right)
{
    const struct netif *a = left, *b = right;

    if (a->loopback != b->loopback)
        return a->loopback ? 1 : -1;
    if (a->speed != b->speed)
        return a->speed > b->speed ? -1 : 1;
    if (a->index != b->index)
        return a->index < b->index ? -1 : 1;
    if (addr_is_link_local(&a->addr) != addr_is_link_local(&b->addr))
        return addr_is_link_local(&a->addr) ? 1 : -1;
    return addr_compare(&a->addr.sa, &b->addr.sa);
}

void netif_sort(struct netif *list, size_t count)
{
    if (count)
        qsort(list, count, sizeof(*list), order);
}

static unsigned mask_bits(const struct sockaddr *mask, sa_family_t family)
{
    union addr copy = {.sa.sa_family = AF_UNSPEC};
    const unsigned char *bytes;
    unsigned bits, set = 0;

    if (!mask)
        return family == AF_INET ? 32 : 128;
    memcpy(&copy, mask, family == AF_INET ? sizeof(copy.in) : sizeof(copy.in6));
    copy.sa.sa_family = family;
    bytes = addr_bytes(&copy, &bits);
    while (set < bits && bytes[set / 8] >> (7 - set % 8) & 1)
        set++;
    return set;
}

static int read_addresses(struct netif **list, size_t *count)
{
    struct ifaddrs *all;
    size_t limit = 0;

    *count = 0;
    if (getifaddrs(&all))
        return -FI_ENODATA;
    for (struct ifaddrs *ifa = all; ifa; ifa = ifa->ifa_next)
        limit++;
    *list = calloc(limit + 1, sizeof(**list));
    for (struct ifaddrs *ifa = all; ifa && *list; ifa = ifa->ifa_next) {
        struct netif *netif = &(*list)[*count];

        if (!ifa->ifa_addr || !addr_size(ifa->ifa_addr) ||
            (ifa->ifa_flags & (IFF_UP | IFF_RUNNING)) != (IFF_UP | IFF_RUNNING))
            continue;
        memcpy(&netif->addr, ifa->ifa_addr, addr_size(ifa->ifa_addr));
        snprintf(netif->name, sizeof(netif->name), "%.*s", IF_NAMESIZE - 1, ifa->ifa_name);
        netif->name[strcspn(netif->name, ":")] = '\0'; /* eth0:1 is a label of eth0 */
        netif->prefix = mask_bits(ifa->ifa_netmask, ifa->ifa_addr->sa_family);
        netif->loopback = ifa->ifa_flags & IFF_LOOPBACK;
        ++*count;
    }
    freeifaddrs(all);
    return *list ? 0 : -FI_ENOMEM;
}

static long read_speed(const char *name)
{
    char path[64];
    long speed = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/sys/class/net/%s/speed", name);
    file = fopen(path, "re");
    if (!file)
        return 0;
    if (fscanf(file, "%ld", &speed) != 1 || speed < 0)
        speed = 0;
    fclose(file);
    return speed;
}

/* False: there is no socket to ask with now, so the MTUs are missing. */
static bool read_properties(struct netif *list, size_t count)
{
    struct ifreq request;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    for (size_t i = 0; i < count; i++) {
        struct netif *same = NULL;

        for (size_t j = 0; j < i && !same; j++)
            if (!strcmp(list[j].name, list[i].name))
                same = &list[j];
        if (same) {
            list[i].index = same->index;
            list[i].speed = same->speed;
            list[i].mtu = same->mtu;
            continue;
        }
        list[i].index = if_nametoindex(list[i].name);
        list[i].speed = list[i].loopback ? 0 : read_speed(list[i].name);
        memset(&request, 0, sizeof(request));
        memcpy(request.ifr_name, list[i].name, sizeof(request.ifr_name));
        if (fd >= 0 && !ioctl(fd, SIOCGIFMTU, &request))
            list[i].mtu = request.ifr_mtu;
    }
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* The node's interfaces, as last read. One fi_getinfo asks several times, and reading costs 0.2
 * ms. */
static struct {
    pthread_mutex_t mutex;
    struct netif *list;
    size_t count;
    long long read_ms;
    pid_t process;
} known = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static struct netif *copy_list(const struct netif *list, size_t count)
{
    struct netif *copy = calloc(count + 1, sizeof(*copy));

    return copy ? memcpy(copy, list, count * sizeof(*copy)) : NULL;
}

static int read_all(struct netif **list, size_t *count, bool *whole)
{
    int rc = read_addresses(list, count);

    if (!rc)
        *whole = read_properties(*list, *count);
    return rc;
}

/* Locked. A child may have been moved to another network namespace. */
static int read_known(void)
{
    struct netif *list;
    size_t count;
    bool whole;
    int rc;

    if (known.list && known.process == getpid() && clock_ms() - known.read_ms < NETIF_FRESH_MS)
        return 0;
    rc = read_all(&list, &count, &whole);
    if (rc)
        return rc;
    free(known.list);
    known.list = list;
    known.count = count;
    known.read_ms = whole ? clock_ms() : clock_ms() - NETIF_FRESH_MS;
    known.process = getpid();
    return 0;
}

/* A mutex that was held when the process forked is never free in the child: then without it. */
static int read_fresh(struct netif **list, size_t *count)
{
    bool whole;
    int rc;

    if (pthread_mutex_trylock(&known.mutex))
        return read_all(list, count, &whole);
    rc = read_known();
    if (!rc) {
        *list = copy_list(known.list, known.count);
        *count = known.count;
        rc = *list ? 0 : -FI_ENOMEM;
    }
    pthread_mutex_unlock(&known.mutex);
    return rc;
}

int netif_list(const char *choice, struct netif **list, size_t *count, char *why, size_t why_size)
{
    struct netif *found = NULL;
    size_t found_count;
    int rc = read_fresh(&found, &found_count);

    if (rc) {
        snprintf(why, why_size, "cannot list the interfaces");
        return rc;
    }
    rc = netif_filter(choice, found, &found_count, why, why_size);
    if (rc) {
        free(found);
        return rc;
    }
    netif_sort(found, found_count);
    *list = found;
    *count = found_count;
    return 0;
}

char *netif_network_text(const struct netif *netif, char *text, size_t size)
{
    char network[INET6_ADDRSTRLEN];
    union addr addr = netif->addr;
    unsigned bits;
    unsigned char *bytes = (unsigned char *)addr_bytes(&addr, &bits);

    for (unsigned bit = netif->prefix; bit < bits; bit++)
        bytes[bit / 8] &= (unsigned char)~(0x80u >> bit % 8);
    inet_ntop(addr.sa.sa_family, bytes, network, sizeof(network));
    snprintf(text, size, "%s/%u", network, netif->prefix);
    return text;
}
