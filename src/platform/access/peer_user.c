/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/access/peer_user.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* Both ends of a connection, seen from the peer. An IPv4-mapped IPv6 address stays as it is. */
struct ends {
    sa_family_t family;
    uint16_t port, other_port;             /* network order */
    uint32_t address[4], other_address[4]; /* the first one, or all four */
};

static bool read_end(const struct sockaddr_storage *from, uint16_t *port, uint32_t address[4])
{
    if (from->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)from;
        *port = in->sin_port;
        memcpy(address, &in->sin_addr, 4);
        return true;
    }
    const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)from;
    *port = in->sin6_port;
    memcpy(address, &in->sin6_addr, 16);
    return from->ss_family == AF_INET6;
}

static bool find_ends(int descriptor, struct ends *ends)
{
    struct sockaddr_storage peer = {0}, own = {0};
    socklen_t size = sizeof peer;
    memset(ends, 0, sizeof *ends);
    if (getpeername(descriptor, (struct sockaddr *)&peer, &size) != 0)
        return false;
    size = sizeof own;
    if (getsockname(descriptor, (struct sockaddr *)&own, &size) != 0 || own.ss_family != peer.ss_family ||
        !read_end(&peer, &ends->port, ends->address) || !read_end(&own, &ends->other_port, ends->other_address))
        return false;
    ends->family = peer.ss_family;
    /* An IPv4 client of an IPv6 listener has an IPv4 socket. */
    if (ends->family == AF_INET6 && IN6_IS_ADDR_V4MAPPED((struct in6_addr *)ends->address)) {
        ends->family = AF_INET;
        ends->address[0] = ends->address[3];
        ends->other_address[0] = ends->other_address[3];
    }
    return true;
}

/* The state of a socket of this machine. */
enum found { NOTHING, WAITING /* for accept(), in its listener's queue */, OWNED };

/* The listener at the peer's end. */
static struct ends listener_of(const struct ends *ends)
{
    struct ends listener = *ends;
    listener.other_port = 0;
    memset(listener.other_address, 0, sizeof listener.other_address);
    return listener;
}

/* ---- sock_diag ---- */

static enum found ask_kernel(int socket, const struct ends *ends, uid_t *user)
{
    struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 request;
    } sent = {.header = {.nlmsg_len = sizeof sent, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
              .request = {.sdiag_family = (uint8_t)ends->family,
                          .sdiag_protocol = IPPROTO_TCP,
                          .idiag_states = ~0u,
                          .id = {.idiag_sport = ends->port,
                                 .idiag_dport = ends->other_port,
                                 .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}}};
    size_t bytes = ends->family == AF_INET ? 4 : 16;
    memcpy(sent.request.id.idiag_src, ends->address, bytes);
    memcpy(sent.request.id.idiag_dst, ends->other_address, bytes);
    _Alignas(struct nlmsghdr) char reply[8192];
    struct timeval patience = {.tv_sec = 1};
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (send(socket, &sent, sizeof sent, 0) != (ssize_t)sizeof sent)
        return NOTHING;
    ssize_t got = recv(socket, reply, sizeof reply, 0);
    const struct nlmsghdr *header = (const struct nlmsghdr *)reply;
    if (got < 0 || !NLMSG_OK(header, (size_t)got) || header->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        header->nlmsg_len < NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
        return NOTHING;
    const struct inet_diag_msg *found = NLMSG_DATA(header);
    if (found->id.idiag_sport != ends->port || found->id.idiag_dport != ends->other_port)
        return NOTHING;
    if (!found->idiag_inode) /* no process has it open, not yet or no longer: the user means nothing */
        return found->idiag_state == TCP_ESTABLISHED || found->idiag_state == TCP_SYN_RECV ? WAITING : NOTHING;
    *user = found->idiag_uid;
    return OWNED;
}

/* ---- /proc ---- */

static void peer_user_write_end(char text[64], const uint32_t *address, size_t words, uint16_t port)
{
    size_t at = 0;
    for (size_t i = 0; i < words; i++)
        at += (size_t)snprintf(text + at, 64 - at, "%08" PRIX32, address[i]);
    snprintf(text + at, 64 - at, ":%04X", ntohs(port));
}

/* The row of these ends; of a listener, at its address or at every address. */
static enum found search_table(const char *path, const struct ends *ends, size_t words, uid_t *user)
{
    static const uint32_t every[4];
    char wanted[64], other[64], wide[64], line[512], from[64], to[64];
    unsigned owner, state;
    unsigned long inode;
    enum found found = NOTHING;
    FILE *table = fopen(path, "re");
    peer_user_write_end(wanted, ends->address, words, ends->port);
    peer_user_write_end(wide, ends->other_port ? ends->address : every, words, ends->port);
    peer_user_write_end(other, ends->other_address, words, ends->other_port);
    while (table && found == NOTHING && fgets(line, sizeof line, table))
        if (sscanf(line, " %*s %63s %63s %x %*s %*s %*s %u %*s %lu", from, to, &state, &owner, &inode) == 5 &&
            (strcmp(from, wanted) == 0 || strcmp(from, wide) == 0) && strcmp(to, other) == 0) {
            *user = owner;
            found = inode ? OWNED : state == TCP_ESTABLISHED || state == TCP_SYN_RECV ? WAITING : NOTHING;
        }
    if (table)
        fclose(table);
    return found;
}

static enum found peer_user_look(const struct ends *ends, uid_t *user)
{
    int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    enum found found = netlink >= 0 ? ask_kernel(netlink, ends, user) : NOTHING;
    if (netlink >= 0)
        close(netlink);
    if (found != NOTHING)
        return found;
    return ends->family == AF_INET ? search_table("/proc/net/tcp", ends, 1, user)
                                   : search_table("/proc/net/tcp6", ends, 4, user);
}

bool peer_user(int descriptor, uid_t *user)
{
    struct ends ends;
    return find_ends(descriptor, &ends) && peer_user_look(&ends, user) == OWNED;
}

bool peer_server(int descriptor, uid_t *user)
{
    struct ends ends;
    uid_t listening;
    if (!find_ends(descriptor, &ends))
        return false;
    enum found found = peer_user_look(&ends, user);
    if (found != WAITING)
        return found == OWNED;
    const struct ends listener = listener_of(&ends);
    if (peer_user_look(&listener, &listening) != OWNED)
        return peer_user_look(&ends, user) == OWNED; /* accepted by now, the listener gone */
    found = peer_user_look(&ends, user);
    if (found == WAITING) /* it waited throughout, so this is its listener */
        *user = listening;
    return found != NOTHING;
}

bool peer_is_here(int descriptor)
{
    struct ends ends;
    if (!find_ends(descriptor, &ends))
        return false;
    const bool loopback = ends.family == AF_INET ? ntohl(ends.address[0]) >> 24 == 127
                                                 : IN6_IS_ADDR_LOOPBACK((struct in6_addr *)ends.address);
    return loopback || memcmp(ends.address, ends.other_address, ends.family == AF_INET ? 4 : 16) == 0;
}
