/* SPDX-License-Identifier: Apache-2.0 */
#include "core/control/wire/address.h"

#include "base/clock.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

char *address_host_name(char *text, size_t room)
{
    const char *given = getenv("WEFT_HOST");
    if (given && *given)
        snprintf(text, room, "%s", given);
    else if (gethostname(text, room) != 0)
        snprintf(text, room, "unknown");
    text[room - 1] = '\0';
    return text;
}

weft_status address_parse(const char *text, char *host, uint16_t *port, struct error *error)
{
    const char *colon = strrchr(text, ':'), *begin = text, *end = colon;
    if (text[0] == '[') {
        begin = text + 1;
        end = strchr(text, ']');
        colon = end ? end + 1 : NULL;
    }
    if (!colon || *colon != ':' || end <= begin || end - begin >= ADDRESS_TEXT_BYTES)
        return error_set(error, WEFT_ERROR_ARGUMENT, "'%s' is not an address; write host:port, as in 10.0.0.1:4711",
                         text);
    int64_t number = 0;
    weft_status status = text_parse_integer(colon + 1, "the port of a rendezvous address", 1, 65535, &number, error);
    if (status != WEFT_OK)
        return status;
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    *port = (uint16_t)number;
    return WEFT_OK;
}

/* The digits of an address without its port. */
static char *digits(const struct sockaddr *address, char *text, size_t room)
{
    text[0] = '\0';
    if (address->sa_family == AF_INET6) {
        const struct in6_addr *bytes = &((const struct sockaddr_in6 *)address)->sin6_addr;
        if (IN6_IS_ADDR_V4MAPPED(bytes))
            inet_ntop(AF_INET, &bytes->s6_addr[12], text, (socklen_t)room);
        else
            inet_ntop(AF_INET6, bytes, text, (socklen_t)room);
    } else if (address->sa_family == AF_INET) {
        inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, text, (socklen_t)room);
    }
    return text;
}

static uint16_t port_of(const struct sockaddr *address)
{
    return ntohs(address->sa_family == AF_INET6 ? ((const struct sockaddr_in6 *)address)->sin6_port
                                                : ((const struct sockaddr_in *)address)->sin_port);
}

char *address_format(const struct sockaddr *address, char *text, size_t room)
{
    char host[INET6_ADDRSTRLEN];
    if (address->sa_family != AF_INET && address->sa_family != AF_INET6) {
        snprintf(text, room, "this machine");
        return text;
    }
    digits(address, host, sizeof host);
    snprintf(text, room, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port_of(address));
    return text;
}

void address_prepare(int descriptor)
{
    int on = 1;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* getaddrinfo() with its errors as a message. */
static weft_status address_resolve(const char *host, uint16_t port, int flags, struct addrinfo **list,
                                   struct error *error)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    int code = getaddrinfo(host, service, &hints, list);
    if (code == 0)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_RENDEZVOUS, "the host name '%s' has no address here: %s", host,
                     code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
}

weft_status address_listen(const char *host, uint16_t port, int *descriptor, uint16_t *bound, struct error *error)
{
    struct addrinfo *list = NULL;
    if (host) {
        weft_status status = address_resolve(host, port, AI_PASSIVE, &list, error);
        if (status != WEFT_OK)
            return status;
    }
    /* Every interface: one IPv6 socket that takes IPv4 too, or IPv4 alone where the kernel has no IPv6. */
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr *address = list ? list->ai_addr : (struct sockaddr *)&any6;
    socklen_t length = list ? list->ai_addrlen : sizeof any6;
    int on = 1, off = 0;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 && !list) {
        address = (struct sockaddr *)&any4;
        length = sizeof any4;
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }
    if (fd >= 0 && !list && address->sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    weft_status status = WEFT_OK;
    struct sockaddr_storage actual;
    socklen_t actual_length = sizeof actual;
    if (fd < 0) {
        status = error_system(error, "cannot make a socket");
    } else if (bind(fd, address, length) != 0 || listen(fd, SOMAXCONN) != 0 ||
               getsockname(fd, (struct sockaddr *)&actual, &actual_length) != 0) {
        char text[ADDRESS_TEXT_BYTES];
        address_format(address, text, sizeof text);
        if (errno == EADDRINUSE)
            status = error_set(
                error, WEFT_ERROR_RENDEZVOUS,
                "cannot listen at %s: the port is in use by another program; choose another port or end it", text);
        else
            status = error_system(error, "cannot listen at %s", text);
        close(fd);
    } else {
        *descriptor = fd;
        if (bound)
            *bound = port_of((struct sockaddr *)&actual);
    }
    if (list)
        freeaddrinfo(list);
    return status;
}

/* A connection to a free local port may connect to itself, without a listener. */
static bool is_to_itself(int descriptor)
{
    struct sockaddr_storage here = {0}, there = {0};
    socklen_t here_length = sizeof here, there_length = sizeof there;
    return getsockname(descriptor, (struct sockaddr *)&here, &here_length) == 0 &&
           getpeername(descriptor, (struct sockaddr *)&there, &there_length) == 0 && here_length == there_length &&
           memcmp(&here, &there, here_length) == 0;
}

/* Wait up to `milliseconds` for the outcome of a connect: 0 it stands, ETIMEDOUT not yet, or the reason. */
static int await_connection(int descriptor, int milliseconds)
{
    struct pollfd wait = {descriptor, POLLOUT, 0};
    int ready = poll(&wait, 1, milliseconds), reason = 0;
    socklen_t size = sizeof reason;
    if (ready == 0 || (ready < 0 && errno == EINTR))
        return ETIMEDOUT;
    if (ready < 0 || getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &reason, &size) != 0)
        return errno;
    return reason == 0 && is_to_itself(descriptor) ? ECONNREFUSED : reason;
}

int address_connect_begin(const char *host, uint16_t port, int *descriptor)
{
    struct addrinfo *list = NULL;
    if (address_resolve(host, port, AI_NUMERICHOST, &list, NULL) != WEFT_OK) {
        errno = EHOSTUNREACH;
        return -1;
    }
    int fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int reason = fd < 0 ? errno : connect(fd, list->ai_addr, list->ai_addrlen) == 0 ? 0 : errno;
    freeaddrinfo(list);
    if (reason != 0 && reason != EINPROGRESS) {
        if (fd >= 0)
            close(fd);
        errno = reason;
        return -1;
    }
    *descriptor = fd;
    return 0;
}

int address_connect_result(int descriptor, int *reason)
{
    *reason = await_connection(descriptor, 0);
    return *reason == 0 ? 1 : *reason == ETIMEDOUT ? 0 : -1;
}

/* Connect within the limit: 0, or the reason as an errno. */
static int connect_one(const struct sockaddr *address, socklen_t length, double limit_seconds, int *descriptor)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    int reason = connect(fd, address, length) == 0 ? 0 : errno;
    if (reason == EINPROGRESS) {
        uint64_t end = clock_after(limit_seconds), now;
        do {
            now = clock_now();
            reason = await_connection(fd, now < end ? (int)((end - now) / 1000000) + 1 : 0);
        } while (reason == ETIMEDOUT && now < end);
    } else if (reason == 0 && is_to_itself(fd)) {
        reason = ECONNREFUSED;
    }
    if (reason != 0) {
        close(fd);
        return reason;
    }
    address_prepare(fd);
    *descriptor = fd;
    return 0;
}

weft_status address_connect(const char *host, uint16_t port, double limit_seconds, int *descriptor, int *reason,
                            struct error *error)
{
    int code = EHOSTUNREACH;
    struct addrinfo *list = NULL;
    weft_status status = address_resolve(host, port, 0, &list, error);
    if (status != WEFT_OK) {
        if (reason)
            *reason = code;
        return status;
    }
    for (const struct addrinfo *entry = list; entry; entry = entry->ai_next) {
        code = connect_one(entry->ai_addr, entry->ai_addrlen, limit_seconds, descriptor);
        if (code == 0)
            break;
    }
    freeaddrinfo(list);
    if (code == 0)
        return WEFT_OK;
    if (reason)
        *reason = code;
    return error_set(error, WEFT_ERROR_RENDEZVOUS, "cannot connect to %s:%u: %s", host, port, strerror(code));
}

weft_status address_local(int descriptor, char *text, size_t room, struct error *error)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    if (getsockname(descriptor, (struct sockaddr *)&address, &length) != 0)
        return error_system(error, "cannot get the address of a connection");
    digits((struct sockaddr *)&address, text, room);
    return WEFT_OK;
}

/* Make a socket, and the address of an abstract name, which begins with a zero byte. */
static int make_unix_address(const char *name, struct sockaddr_un *address, socklen_t *length)
{
    size_t size = strnlen(name, sizeof address->sun_path - 1);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path + 1, name, size);
    *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + size);
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static int close_keeping_reason(int descriptor)
{
    int reason = errno;
    if (descriptor >= 0)
        close(descriptor);
    errno = reason;
    return -1;
}

int address_listen_unix(const char *name)
{
    struct sockaddr_un address;
    socklen_t length;
    int fd = make_unix_address(name, &address, &length);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) != 0 || listen(fd, SOMAXCONN) != 0)
        return close_keeping_reason(fd);
    return fd;
}

int address_connect_unix(const char *name)
{
    struct sockaddr_un address;
    socklen_t length;
    int fd = make_unix_address(name, &address, &length);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, length) != 0)
        return close_keeping_reason(fd);
    return fd;
}

bool address_is_of_same_user(int descriptor)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    return getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

/* The address from which this host would send to the internet: connecting a datagram socket queries the routing table
 * and sends nothing.
 */
static bool default_route(char *text, size_t room)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    struct sockaddr_in world = {.sin_family = AF_INET, .sin_port = htons(9)};
    inet_pton(AF_INET, "192.0.2.1", &world.sin_addr); /* TEST-NET-1 of RFC 5737: assigned to no host */
    bool found =
        connect(fd, (struct sockaddr *)&world, sizeof world) == 0 && address_local(fd, text, room, NULL) == WEFT_OK;
    close(fd);
    return found;
}

/* Whether another host may use this address: up, an IP address, neither loopback nor link-local. */
static bool reaches_others(const struct ifaddrs *entry)
{
    if (!entry->ifa_addr || !(entry->ifa_flags & IFF_UP) || (entry->ifa_flags & IFF_LOOPBACK))
        return false;
    if (entry->ifa_addr->sa_family == AF_INET)
        return true;
    return entry->ifa_addr->sa_family == AF_INET6 &&
           !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)entry->ifa_addr)->sin6_addr);
}

weft_status address_of_interface(const char *interface, char *text, size_t room, struct error *error)
{
    struct in6_addr ignored;
    if (interface && (inet_pton(AF_INET, interface, &ignored) == 1 || inet_pton(AF_INET6, interface, &ignored) == 1)) {
        snprintf(text, room, "%s", interface);
        return WEFT_OK;
    }
    if (!interface && default_route(text, room))
        return WEFT_OK;
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list) != 0)
        return error_system(error, "cannot list the network interfaces");
    bool found = false;
    for (const struct ifaddrs *entry = list; entry && !found; entry = entry->ifa_next) {
        bool wanted = interface ? strcmp(entry->ifa_name, interface) == 0 : reaches_others(entry);
        if (!wanted || !entry->ifa_addr ||
            (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6))
            continue;
        digits(entry->ifa_addr, text, room);
        found = true;
    }
    freeifaddrs(list);
    if (found)
        return WEFT_OK;
    if (interface)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "there is no network interface '%s' with an address; 'weft topo' lists those there are",
                         interface);
    snprintf(text, room, "127.0.0.1");
    return WEFT_OK;
}

/* Append "address:port" to the list unless it is in it or does not fit. */
static void address_list_add(const char *address, uint16_t port, char *text, size_t room)
{
    char entry[INET6_ADDRSTRLEN + 16];
    snprintf(entry, sizeof entry, strchr(address, ':') ? "[%s]:%u" : "%s:%u", address, port);
    size_t used = strlen(text), size = strlen(entry);
    const char *found = strstr(text, entry);
    if ((found && (found == text || found[-1] == ',')) || used + size + 2 > room)
        return;
    snprintf(text + used, room - used, "%s%s", used ? "," : "", entry);
}

char *address_list(uint16_t port, char *text, size_t room)
{
    char address[INET6_ADDRSTRLEN];
    text[0] = '\0';
    if (default_route(address, sizeof address))
        address_list_add(address, port, text, room);
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list) == 0) {
        for (const struct ifaddrs *entry = list; entry; entry = entry->ifa_next)
            if (reaches_others(entry))
                address_list_add(digits(entry->ifa_addr, address, sizeof address), port, text, room);
        freeifaddrs(list);
    }
    if (!*text)
        address_list_add("127.0.0.1", port, text, room);
    return text;
}
