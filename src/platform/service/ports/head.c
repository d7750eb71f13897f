/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/port_head.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define OWN_COOKIES "weft_" /* how names of the platform's cookies begin */

static bool begins_with(const char *text, const char *beginning)
{
    return strncasecmp(text, beginning, strlen(beginning)) == 0;
}

static bool port_head_is_listed(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcasecmp(name, *names) == 0)
            return true;
    return false;
}

/* ---- cookies ---- */

char *port_cookie_name(const struct port_ends *ends, char name[PORT_COOKIE_BYTES])
{
    snprintf(name, PORT_COOKIE_BYTES, "%s" OWN_COOKIES "port_%u", ends->encrypted ? "__Host-" : "", ends->web_port);
    return name;
}

/* How names of HttpOnly cookies of the run's server begin in the browser. */
static int hidden_beginning(const struct port_ends *ends, char beginning[PORT_COOKIE_BYTES])
{
    return snprintf(beginning, PORT_COOKIE_BYTES, OWN_COOKIES "port_%u.%" PRId64 ".%" PRIu32 ".%u.", ends->web_port,
                    ends->run, ends->node, ends->port);
}

/* Whether a name is, or looks like, one of the platform's. */
static bool is_own_cookie(const char *name)
{
    if (begins_with(name, "__Host-"))
        name += strlen("__Host-");
    else if (begins_with(name, "__Secure-"))
        name += strlen("__Secure-");
    return begins_with(name, OWN_COOKIES);
}

/* The next "name=value" of a list, and its length; NULL: there is no other. */
static const char *next_cookie(const char **list, size_t *length)
{
    const char *found = *list + strspn(*list, "; \t");
    *length = strcspn(found, ";");
    *list = found + *length;
    while (*length > 0 && strchr(" \t", found[*length - 1]))
        (*length)--;
    return *found ? found : NULL;
}

bool port_cookie_find(const struct message *request, const char *name, unsigned index, char *value, size_t room)
{
    const size_t size = strlen(name);
    for (size_t i = 0; i < request->header_count; i++) {
        const char *list = request->headers[i].value, *cookie;
        size_t length;
        if (strcasecmp(request->headers[i].name, "Cookie") != 0)
            continue;
        while ((cookie = next_cookie(&list, &length)))
            if (length > size && length - size - 1 < room && strncmp(cookie, name, size) == 0 && cookie[size] == '=' &&
                index-- == 0) {
                snprintf(value, room, "%.*s", (int)(length - size - 1), cookie + size + 1);
                return true;
            }
    }
    return false;
}

/* Those for the server in the run, by the names that it gave them. */
static void put_cookies(const char *list, const struct port_ends *ends, struct buffer *out)
{
    char hidden[PORT_COOKIE_BYTES];
    const int hidden_length = hidden_beginning(ends, hidden);
    const char *cookie, *separator = "Cookie: ";
    size_t length;
    while ((cookie = next_cookie(&list, &length))) {
        if (length >= (size_t)hidden_length && strncmp(cookie, hidden, (size_t)hidden_length) == 0) {
            cookie += hidden_length;
            length -= (size_t)hidden_length;
        }
        if (is_own_cookie(cookie))
            continue;
        buffer_put_string(out, separator);
        buffer_put(out, cookie, length);
        separator = "; ";
    }
    if (*separator == ';')
        buffer_put_string(out, "\r\n");
}

/* "NAME=VALUE; Path=/; HttpOnly". */
static void put_set_cookie(const char *value, const struct port_ends *ends, struct buffer *out)
{
    char hidden[PORT_COOKIE_BYTES];
    size_t length;
    const char *rest = value, *pair = next_cookie(&rest, &length), *attributes = rest, *attribute;
    const char *equals = pair ? memchr(pair, '=', length) : NULL;
    bool http_only = false;
    if (!equals || equals == pair || is_own_cookie(pair))
        return;
    while ((attribute = next_cookie(&rest, &length)))
        http_only |= length == strlen("HttpOnly") && begins_with(attribute, "HttpOnly");
    hidden_beginning(ends, hidden);
    buffer_print(out, "Set-Cookie: %s%.*s", http_only ? hidden : "", (int)strcspn(pair, ";"), pair);
    while ((attribute = next_cookie(&attributes, &length)))
        if (!begins_with(attribute, "Domain"))
            buffer_print(out, "; %.*s", (int)length, attribute);
    buffer_put_string(out, "\r\n");
}

/* ---- requests ---- */

/* What follows the web port's own origin in an address; NULL: it is of another one. */
static const char *after_origin(const char *address, const char *host, const struct port_ends *ends)
{
    const char *scheme = ends->encrypted ? "https://" : "http://";
    if (!host || !begins_with(address, scheme) || !begins_with(address + strlen(scheme), host))
        return NULL;
    const char *rest = address + strlen(scheme) + strlen(host);
    return !*rest || *rest == '/' ? rest : NULL;
}

bool port_head_upgrades(const struct message *request)
{
    const char *upgrade = message_header(request, "Upgrade");
    return upgrade && strcasecmp(upgrade, "websocket") == 0 &&
           message_has_word(message_header(request, "Connection"), "upgrade");
}

const char *port_head_foreign(const struct message *request, const struct port_ends *ends)
{
    const char *host = message_header(request, "Host"), *origin = message_header(request, "Origin");
    const char *site = message_header(request, "Sec-Fetch-Site");
    const char *rest = origin ? after_origin(origin, host, ends) : NULL;
    if (message_header(request, "Service-Worker"))
        return "service workers cannot be used here: they would stay in the browser after the port is closed";
    if (origin && (!rest || *rest))
        return "a page of another origin has sent this";
    if (port_head_upgrades(request) && !origin)
        return "a WebSocket needs an Origin header";
    /* Not even a window may be led here: there are servers in which a GET changes something. */
    return !site || strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0
               ? NULL
               : "a page of another origin has sent this";
}

/* Headers that are for this connection, that are written here, or that are the platform's own. */
static bool is_kept_of_request(const struct message_header *header, const char *connection)
{
    static const char *const dropped[] = {"Host",    "Connection", "Keep-Alive",   "Proxy-Authorization",
                                          "Upgrade", "TE",         "Trailer",      "Proxy-Connection",
                                          "Expect",  "Origin",     "Weft-Session", NULL};
    if (port_head_is_listed(header->name, dropped) || (connection && message_has_word(connection, header->name)))
        return false;
    return strcasecmp(header->name, "Authorization") != 0 || !strstr(header->value, OWN_COOKIES);
}

void port_head_request(const struct message *request, const struct port_ends *ends, struct buffer *out)
{
    const char *host = message_header(request, "Host"), *connection = message_header(request, "Connection");
    const bool upgrades = port_head_upgrades(request);
    buffer_print(out, "%s %s HTTP/1.%u\r\nHost: localhost:%u\r\nConnection: %s\r\n", request->method, request->target,
                 request->minor, ends->port, upgrades ? "Upgrade\r\nUpgrade: websocket" : "close");
    if (message_header(request, "Origin"))
        buffer_print(out, "Origin: http://localhost:%u\r\n", ends->port);
    for (size_t i = 0; i < request->header_count; i++) {
        const struct message_header *header = &request->headers[i];
        const char *rest;
        const bool framing = strcasecmp(header->name, "Content-Length") == 0 ||
                             strcasecmp(header->name, "Transfer-Encoding") == 0; /* whatever Connection says */
        if (strcasecmp(header->name, "Cookie") == 0)
            put_cookies(header->value, ends, out);
        else if (strcasecmp(header->name, "Referer") == 0) {
            if ((rest = after_origin(header->value, host, ends)))
                buffer_print(out, "Referer: http://localhost:%u%s\r\n", ends->port, rest);
        } else if (framing || is_kept_of_request(header, connection))
            buffer_print(out, "%s: %s\r\n", header->name, header->value);
    }
    buffer_put_string(out, "\r\n");
}

/* ---- replies ---- */

/* Redirections to the server in the run itself stay within the web port. */
static const char *local_location(const char *location, const struct port_ends *ends)
{
    static const char *const hosts[] = {"localhost", "127.0.0.1", "[::1]"};
    char origin[32];
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        snprintf(origin, sizeof origin, "http://%s:%u", hosts[i], ends->port);
        const char *rest = location + strlen(origin);
        if (begins_with(location, origin) && !*rest)
            return "/";
        if (begins_with(location, origin) && *rest == '/')
            return rest[1] == '/' ? "/" : rest; /* two are the beginning of another host's address */
    }
    return location;
}

static bool is_kept_of_reply(const char *name)
{
    static const char *const dropped[] = {"Connection",
                                          "Keep-Alive",
                                          "Proxy-Connection",
                                          "Proxy-Authenticate",
                                          "Upgrade",
                                          "Trailer",
                                          "Alt-Svc",
                                          "Clear-Site-Data",
                                          "NEL",
                                          "Report-To",
                                          "Service-Worker-Allowed",
                                          "Strict-Transport-Security",
                                          NULL};
    return !port_head_is_listed(name, dropped);
}

weft_status port_head_reply(char *head, size_t size, bool to_head, const struct port_ends *ends, struct message *reply,
                            struct buffer *out, struct error *error)
{
    if (size < strlen("HTTP/1.1 200\r\n\r\n"))
        return error_set(error, WEFT_ERROR_DATA, "the head of the reply is too short");
    weft_status status = message_read_reply(head, size, to_head, reply, error);
    const bool upgraded = status == WEFT_OK && reply->status == 101;
    if (status != WEFT_OK || (reply->status < 200 && !upgraded))
        return status;
    buffer_print(out, "HTTP/1.1 %s\r\nConnection: %s\r\n", head + strlen("HTTP/1.1 "),
                 upgraded ? "Upgrade\r\nUpgrade: websocket" : "close");
    for (size_t i = 0; i < reply->header_count; i++) {
        const struct message_header *header = &reply->headers[i];
        if (strcasecmp(header->name, "Set-Cookie") == 0)
            put_set_cookie(header->value, ends, out);
        else if (strcasecmp(header->name, "Location") == 0)
            buffer_print(out, "Location: %s\r\n", local_location(header->value, ends));
        else if (is_kept_of_reply(header->name))
            buffer_print(out, "%s: %s\r\n", header->name, header->value);
    }
    if (!upgraded && !message_header(reply, "Cross-Origin-Opener-Policy"))
        buffer_put_string(out, "Cross-Origin-Opener-Policy: same-origin-allow-popups\r\n");
    buffer_put_string(out, "\r\n");
    return WEFT_OK;
}
