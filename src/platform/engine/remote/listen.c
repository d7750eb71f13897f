/* SPDX-License-Identifier: Apache-2.0 */
/* The address that hosts connect to. */
#include "base/text.h"
#include "platform/engine/remote/internal/state.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PENDING_MOST 4096 /* connections: thousands of hosts may come back at once */

/* The port of the last time, which hosts of running attempts connect to; 0: none. */
static uint16_t last_port(const char *path)
{
    char *text;
    size_t size;
    int64_t port = 0;
    if (!file_exists(path) || file_read(path, 16, &text, &size, NULL) != WEFT_OK)
        return 0;
    text[strcspn(text, "\n")] = '\0';
    if (text_parse_integer(text, "port", 1, 65535, &port, NULL) != WEFT_OK)
        port = 0;
    free(text);
    return (uint16_t)port;
}

static int bind_to(const struct addrinfo *address)
{
    const int yes = 1, no = 0;
    const int made =
        socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address->ai_protocol);
    if (made < 0)
        return -1;
    setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (address->ai_family == AF_INET6)
        setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (bind(made, address->ai_addr, address->ai_addrlen) == 0 && listen(made, PENDING_MOST) == 0)
        return made;
    const int failure = errno;
    close(made);
    errno = failure;
    return -1;
}

static weft_status listen_at(struct remote *remote, const char *host, uint16_t port, struct error *error)
{
    char service[8];
    struct addrinfo *found,
        hints = {.ai_family = host ? AF_UNSPEC : AF_INET6, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    snprintf(service, sizeof service, "%u", port);
    const int failed = getaddrinfo(host, service, &hints, &found);
    if (failed)
        return error_set(error, WEFT_ERROR_ARGUMENT, "cannot find the address '%s': %s", host ? host : "",
                         gai_strerror(failed));
    for (const struct addrinfo *each = found; each && remote->listening < 0; each = each->ai_next)
        remote->listening = bind_to(each);
    freeaddrinfo(found);
    if (remote->listening < 0 && !host) { /* a socket of IPv6 takes both kinds, but there are machines without it */
        hints.ai_family = AF_INET;
        if (getaddrinfo(NULL, service, &hints, &found) == 0) {
            remote->listening = bind_to(found);
            freeaddrinfo(found);
        }
    }
    return remote->listening >= 0
               ? WEFT_OK
               : error_system(error, "cannot listen for hosts at port %u of '%s'", port, host ? host : "all addresses");
}

weft_status remote_listen(struct remote *remote, const char *host, uint16_t port, struct error *error)
{
    char path[FILE_PATH_BYTES], text[16];
    struct sockaddr_storage bound;
    socklen_t size = sizeof bound;
    weft_status status = file_join(path, remote->directory, "port", error);
    if (status != WEFT_OK)
        return status;
    const uint16_t before = port ? 0 : last_port(path);
    if (!before || listen_at(remote, host, before, NULL) != WEFT_OK)
        status = listen_at(remote, host, port, error);
    if (status != WEFT_OK)
        return status;
    if (getsockname(remote->listening, (struct sockaddr *)&bound, &size) != 0)
        return error_system(error, "cannot find the port that hosts are to connect to");
    remote->port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                                     : ((struct sockaddr_in *)&bound)->sin_port);
    const int length = snprintf(text, sizeof text, "%u\n", remote->port);
    return file_write(path, text, (size_t)length, error);
}
