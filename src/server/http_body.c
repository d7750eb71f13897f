/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room for bodies. A claim grows with the bytes that come, not with those that are announced, and belongs to the
 * request: a body is kept until that is answered, whether or not its client is still there.
 *
 * Nobody's requests may have more than what is left free: one who asks for all gets half, two a third each, and
 * whoever comes next finds as much as each of them has. So no number of connections takes the room from others.
 */
#include "server/http_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void http_request_share(struct http_request *request, const char *name)
{
    snprintf(request->sharer, sizeof request->sharer, "%s", name);
}

static struct http_share *find(const struct http_request *request)
{
    struct http_share *share;
    LIST_FOREACH(share, &request->server->shares, entry)
    if (strcmp(share->name, request->sharer) == 0)
        return share;
    return NULL;
}

static struct http_share *join(struct http_request *request)
{
    struct http_share *share = find(request);
    if (!share && (share = calloc(1, sizeof *share))) {
        memcpy(share->name, request->sharer, sizeof share->name);
        LIST_INSERT_HEAD(&request->server->shares, share, entry);
    }
    if (share)
        share->requests++;
    return share;
}

static void count(struct http_server *server, size_t claimed)
{
    server->claimed = claimed;
    atomic_store_explicit(&server->body_bytes, claimed, memory_order_relaxed);
}

bool http_body_has_room(const struct http_request *request, size_t bytes)
{
    const struct http_server *server = request->server;
    const struct http_share *share = request->share ? request->share : find(request);
    const size_t own = share ? share->claimed : 0, left = server->limits.bodies_bytes - server->claimed;
    return bytes == 0 || (bytes <= left && own + bytes <= left - bytes);
}

bool http_body_claim(struct http_request *request, size_t bytes)
{
    if (!http_body_has_room(request, bytes))
        return false;
    if (!request->share && !(request->share = join(request)))
        return false;
    request->claimed += bytes;
    request->share->claimed += bytes;
    count(request->server, request->server->claimed + bytes);
    return true;
}

void http_body_release(struct http_request *request)
{
    struct http_share *share = request->share;
    if (!share)
        return;
    count(request->server, request->server->claimed - request->claimed);
    share->claimed -= request->claimed;
    if (--share->requests == 0) {
        LIST_REMOVE(share, entry);
        free(share);
    }
    request->share = NULL;
    request->claimed = 0;
}
