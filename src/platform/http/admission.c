/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which connections are let in, and how much room bodies of requests get. Another machine's count for their address,
 * which has a limit. Those of this machine count for the user whose process has the other end, and no user may have
 * more of them than are left free: one user who takes all that is left gets half, two get a third each, and the next
 * one finds as much as each of them has. Part of all connections is kept for root and the server's own user, who may
 * take every one.
 */
#include "platform/http/internal/server_state.h"

#include "base/hash.h"
#include "platform/access/peer_user.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEPT_PART 16 /* one in so many connections is for root and the server's own user alone */

static struct http_client_count *find_count(struct http_server *server, const char *whose)
{
    unsigned bucket = 0;
    struct http_client_count *found;
    for (const char *c = whose; *c; c++)
        bucket = bucket * 31 + (unsigned char)*c;
    bucket &= 255;
    LIST_FOREACH(found, &server->clients[bucket], entry)
    if (strcmp(found->whose, whose) == 0)
        return found;
    found = calloc(1, sizeof *found);
    if (found) {
        snprintf(found->whose, sizeof found->whose, "%s", whose);
        LIST_INSERT_HEAD(&server->clients[bucket], found, entry);
    }
    return found;
}

enum room { ROOM, FULL, TOO_MANY_OF_USER, TOO_MANY_OF_ADDRESS };

/* Whether there is room for one more, which the client's count includes already. */
static enum room admission_find_room(const struct http_connection *connection, bool local, bool own)
{
    const struct http_server *server = connection->server;
    const uint32_t all = server->limits.connections, open = server->connection_count;
    const uint32_t most = own ? all : all - all / KEPT_PART, count = connection->client->count;
    if (!local || server->limits_own) {
        if (count > server->limits.address_connections)
            return TOO_MANY_OF_ADDRESS;
    } else if (!own && open < most && count > most - open) {
        return TOO_MANY_OF_USER;
    }
    return open < most ? ROOM : FULL;
}

/* End the connection that has been idle for longest. */
static bool end_idle(struct http_server *server, const struct http_client_count *only)
{
    struct http_connection *connection;
    TAILQ_FOREACH(connection, &server->connections, entry)
    {
        if (connection->state == HTTP_IDLE && (!only || connection->client == only)) {
            http_connection_close(connection);
            return true;
        }
    }
    return false;
}

bool http_admit(struct http_connection *connection, int descriptor)
{
    struct http_server *server = connection->server;
    const char *address = connection->peer;
    const bool local = strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
    char whose[INET6_ADDRSTRLEN];
    if (local)
        connection->peer_known = peer_user(descriptor, &connection->peer_user);
    const uid_t user = connection->peer_user;
    if (connection->peer_known)
        snprintf(whose, sizeof whose, "user %u", (unsigned)user);
    else
        snprintf(whose, sizeof whose, "%s", address);
    connection->client = find_count(server, whose);
    if (!connection->client)
        return false;
    connection->client->count++;
    const bool own = connection->peer_known && (user == 0 || user == geteuid());
    enum room room = admission_find_room(connection, local, own);
    if ((room == FULL && end_idle(server, NULL)) || (room == TOO_MANY_OF_USER && end_idle(server, connection->client)))
        room = admission_find_room(connection, local, own);
    if (room == ROOM)
        return true;
    http_leave(connection->client);
    return false;
}

void http_leave(struct http_client_count *client)
{
    if (--client->count > 0)
        return;
    LIST_REMOVE(client, entry);
    free(client);
}

/* ---- room for bodies ---- */

/*
 * Room for bodies. A claim grows with the bytes that arrive, not with the announced length, and belongs to the request:
 * a body is kept until the request is answered, whether or not its client is still connected.
 *
 * No client's requests may have more room than is left free: one client that asks for all of it gets half, two get a
 * third each, and the next finds as much as each of them has. So no number of connections takes the room from others.
 */

void http_request_share(struct http_request *request, const char *name)
{
    request->share = (uint32_t)(hash_text(name, 0) % HTTP_SHARES);
}

static void body_count(struct http_request *request, size_t claimed)
{
    struct http_server *server = request->server;
    server->claimed += claimed - request->claimed;
    server->shares[request->share] += claimed - request->claimed;
    request->claimed = claimed;
    atomic_store_explicit(&server->body_bytes, server->claimed, memory_order_relaxed);
}

bool http_body_has_room(const struct http_request *request, size_t bytes)
{
    const struct http_server *server = request->server;
    const size_t left = server->limits.bodies_bytes - server->claimed;
    return bytes == 0 || (bytes <= left && server->shares[request->share] + bytes <= left - bytes);
}

bool http_body_claim(struct http_request *request, size_t bytes)
{
    if (!http_body_has_room(request, bytes))
        return false;
    body_count(request, request->claimed + bytes);
    return true;
}

void http_body_release(struct http_request *request)
{
    body_count(request, 0);
}
