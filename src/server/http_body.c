/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room for bodies. A claim grows with the bytes that come, not with those that are announced, and belongs to the
 * request: a body is kept until that is answered, whether or not its client is still there.
 *
 * Nobody's requests may have more than what is left free: one who asks for all gets half, two a third each, and
 * whoever comes next finds as much as each of them has. So no number of connections takes the room from others.
 */
#include "server/http_internal.h"

#include "base/hash.h"

void http_request_share(struct http_request *request, const char *name)
{
    request->share = (uint32_t)(hash_text(name, 0) % HTTP_SHARES);
}

static void count(struct http_request *request, size_t claimed)
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
    count(request, request->claimed + bytes);
    return true;
}

void http_body_release(struct http_request *request)
{
    count(request, 0);
}
