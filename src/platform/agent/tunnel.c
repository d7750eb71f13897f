/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/agent/tunnel.h"

#include "base/thread.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE_BYTES (64 << 10)

/* Until the end of `from`, or until `to` takes no more. */
static void carry(int from, int to)
{
    char piece[PIECE_BYTES];
    for (;;) {
        const ssize_t read_now = read(from, piece, sizeof piece);
        if (read_now < 0 && errno == EINTR)
            continue;
        if (read_now <= 0)
            return;
        for (ssize_t done = 0; done < read_now;) {
            const ssize_t written = write(to, piece + done, (size_t)(read_now - done));
            if (written < 0 && errno != EINTR)
                return;
            done += written > 0 ? written : 0;
        }
    }
}

static void *carry_input(void *context)
{
    const int *connection = context;
    carry(STDIN_FILENO, *connection);
    shutdown(*connection, SHUT_WR);
    return NULL;
}

/* -1: nobody listens; errno says why. */
static int tunnel_connect(const char *port)
{
    static const char *const loopback[] = {"127.0.0.1", "::1"};
    int found = -1, code = ECONNREFUSED;
    for (size_t i = 0; i < sizeof loopback / sizeof *loopback && found < 0; i++) {
        const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
        struct addrinfo *address;
        if (getaddrinfo(loopback[i], port, &hints, &address) != 0)
            continue;
        found = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (found >= 0 && connect(found, address->ai_addr, address->ai_addrlen) != 0) {
            code = i == 0 ? errno : code;
            close(found);
            found = -1;
        }
        freeaddrinfo(address);
    }
    errno = code;
    return found;
}

int node_tunnel_main(const char *port)
{
    pthread_t sender;
    signal(SIGPIPE, SIG_IGN);
    int connection = tunnel_connect(port);
    if (connection < 0) {
        fprintf(stderr, "weft: cannot connect to port %s on the node: %s\n", port, strerror(errno));
        return 1;
    }
    if (thread_start(&sender, carry_input, &connection) != 0) {
        fprintf(stderr, "weft: cannot start a thread on the node\n");
        return 1;
    }
    carry(connection, STDOUT_FILENO);
    return 0; /* and the sender ends with the process */
}
