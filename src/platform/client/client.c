/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/client/client.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/text.h"
#include "core/control/wire/address.h"
#include "platform/access/token_file.h"
#include "platform/client/internal/channel.h"
#include "platform/http/http.h"
#include "platform/http/message.h"

#include <arpa/inet.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define INPUT_BYTES   ((size_t)64 << 10) /* a head, or a piece of a body */
#define TOGETHER_MOST ((size_t)4 << 10)
#define LINE_MOST     ((size_t)1 << 20)

struct client {
    char server[ADDRESS_TEXT_BYTES + 16]; /* as written */
    char host[ADDRESS_TEXT_BYTES], host_header[ADDRESS_TEXT_BYTES + 8];
    char token[TOKEN_TEXT_BYTES], token_path[FILE_PATH_BYTES];
    uint16_t port;
    struct tls *tls;
    double connect_seconds, reply_seconds;
    struct channel *channel; /* NULL: not connected */
    struct buffer input;     /* received and not read yet */
    bool answered;           /* it has spoken HTTP before */
    /* The reply that is being read. */
    char *head;
    struct message message;
    struct chunks chunks;
    uint64_t left; /* of the body, if its length is known */
    bool whole;
};

/* ---- opening ---- */

static bool is_this_machine(const char *host)
{
    struct in_addr four;
    return strcasecmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 ||
           (inet_pton(AF_INET, host, &four) == 1 && ntohl(four.s_addr) >> 24 == 127);
}

static bool client_is_plain(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text <= 0x20 || (unsigned char)*text >= 0x7f)
            return false;
    return true;
}

static weft_status read_server(struct client *client, const char *server, bool *encrypted, struct error *error)
{
    const char *rest = strncasecmp(server, "http://", 7) == 0    ? server + 7
                       : strncasecmp(server, "https://", 8) == 0 ? server + 8
                                                                 : NULL;
    char address[ADDRESS_TEXT_BYTES];
    size_t length = rest ? strcspn(rest, "/") : 0;
    const char *port = NULL;
    if (!rest || length == 0 || length + 8 > sizeof address || (rest[length] && strcmp(rest + length, "/") != 0) ||
        strcspn(rest, "@?# \t\r\n") < length)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "'%.200s' is not the address of a Weft server: write http://host:port or https://host:port",
                         server);
    *encrypted = rest == server + 8;
    snprintf(address, sizeof address, "%.*s", (int)length, rest);
    port = strrchr(address, ':');
    if (!port || strchr(port, ']'))
        snprintf(address + length, sizeof address - length, ":%d", HTTP_PORT);
    snprintf(client->host_header, sizeof client->host_header, "%s", address);
    snprintf(client->server, sizeof client->server, "%s%s", *encrypted ? "https://" : "http://", address);
    return address_parse(address, client->host, &client->port, error);
}

/* Without TLS a token stays on this machine. */
static weft_status keep_token_back(const struct client *client, struct error *error)
{
    return error_set(error, WEFT_ERROR_ARGUMENT,
                     "your token is not sent to %s, because it could be read on the way: name the server with "
                     "https://",
                     client->server);
}

static weft_status client_read_token(struct client *client, const struct client_config *config, bool encrypted,
                                     struct error *error)
{
    weft_status status = token_file_path(client->token_path, error);
    if (status != WEFT_OK)
        return status;
    if (config->token && (strlen(config->token) >= sizeof client->token || !client_is_plain(config->token)))
        return error_set(error, WEFT_ERROR_ARGUMENT, "the token that was given is not a token");
    if (config->token)
        snprintf(client->token, sizeof client->token, "%s", config->token);
    else if (*client->token_path && file_exists(client->token_path))
        status = token_file_read(client->token_path, client->token, error);
    if (status == WEFT_OK && *client->token && !encrypted && !is_this_machine(client->host))
        status = keep_token_back(client, error);
    return status;
}

weft_status client_open(const struct client_config *config, struct client **result, struct error *error)
{
    const char *server = config->server ? config->server : getenv("WEFT_SERVER");
    const char *authority = config->authority ? config->authority : getenv("WEFT_SERVER_CERTIFICATE");
    struct client *client = calloc(1, sizeof *client);
    bool encrypted = false;
    char usual[64];
    if (sodium_init() < 0) {
        free(client);
        return error_set(error, WEFT_ERROR_SYSTEM, "libsodium finds no random numbers on this machine");
    }
    if (!client)
        return error_memory(error, sizeof *client, "the client");
    client->connect_seconds = config->connect_seconds > 0 ? config->connect_seconds : 5;
    client->reply_seconds = config->reply_seconds > 0 ? config->reply_seconds : 60;
    snprintf(usual, sizeof usual, "http://%s:%d", HTTP_HOST, HTTP_PORT);
    weft_status status = read_server(client, server && *server ? server : usual, &encrypted, error);
    if (status == WEFT_OK)
        status = client_read_token(client, config, encrypted, error);
    if (status == WEFT_OK && encrypted)
        status = tls_client(authority && *authority ? authority : NULL, &client->tls, error);
    if (status != WEFT_OK) {
        client_close(client);
        return status;
    }
    *result = client;
    return WEFT_OK;
}

static void disconnect(struct client *client)
{
    channel_close(client->channel);
    client->channel = NULL;
    buffer_consume(&client->input, buffer_size(&client->input));
}

void client_close(struct client *client)
{
    if (!client)
        return;
    disconnect(client);
    tls_free(client->tls);
    sodium_memzero(client->token, sizeof client->token);
    free(client->head);
    buffer_free(&client->input);
    free(client);
}

const char *client_server(const struct client *client)
{
    return client->server;
}

/* ---- asking ---- */

static weft_status connect_now(struct client *client, struct error *error)
{
    struct error why = {0};
    if (client->channel && buffer_size(&client->input) == 0 && channel_is_fresh(client->channel))
        return WEFT_OK;
    disconnect(client);
    weft_status status =
        channel_open(client->host, client->port, client->tls, client->connect_seconds, &client->channel, &why);
    if (status == WEFT_ERROR_RENDEZVOUS)
        return error_set(error, status,
                         "no Weft server answers at %s (%s): start one with 'weft serve', or name another in "
                         "WEFT_SERVER",
                         client->server, why.text);
    if (status == WEFT_ERROR_STATE)
        return error_set(error, WEFT_ERROR_RENDEZVOUS,
                         "the program at %s is not trusted to be the Weft server, and was sent nothing: %s",
                         client->server, why.text);
    if (status != WEFT_OK)
        return error_set(error, status, "cannot speak with the Weft server at %s: %s", client->server, why.text);
    if (!client->tls && *client->token && !channel_is_local(client->channel)) {
        disconnect(client);
        return keep_token_back(client, error);
    }
    return WEFT_OK;
}

/* What went wrong on the way, in a message that names the server. */
static weft_status client_tell(const struct client *client, const struct error *why, struct error *error)
{
    if (why->status == WEFT_ERROR_TIMEOUT)
        return error_set(error, why->status, "the Weft server at %s did not answer within %g s", client->server,
                         client->reply_seconds);
    if (why->status != WEFT_ERROR_NETWORK)
        return error_set(error, why->status, "%s", why->text);
    return error_set(error, why->status, "the exchange with the Weft server at %s failed: %s%s", client->server,
                     why->text,
                     client->tls || client->answered ? "" : "; if it speaks TLS, its address begins with https://");
}

static weft_status send_request(struct client *client, const struct client_request *request, struct error *error)
{
    const size_t size = !request->body ? 0 : request->size ? request->size : strlen(request->body);
    const bool together = size <= TOGETHER_MOST; /* a small body goes out with the head */
    const uint64_t deadline = clock_after(client->reply_seconds + (double)size / 1e5);
    struct buffer head = {0};
    if (!client_is_plain(request->path) || (request->idempotency_key && !client_is_plain(request->idempotency_key)))
        return error_set(error, WEFT_ERROR_ARGUMENT, "the path or key of a request holds a character that it may not");
    buffer_reserve(&head,
                   2 * TOGETHER_MOST + strlen(request->path)); /* the token has one place in memory, cleared below */
    buffer_print(&head, "%s %s HTTP/1.1\r\nHost: %s\r\nAccept: */*\r\n", request->method, request->path,
                 client->host_header);
    if (*client->token)
        buffer_print(&head, "Authorization: Bearer %s\r\n", client->token);
    if (request->idempotency_key)
        buffer_print(&head, "Idempotency-Key: %s\r\n", request->idempotency_key);
    if (request->body)
        buffer_print(&head, "Content-Type: %s\r\nContent-Length: %zu\r\n",
                     request->type ? request->type : "application/json", size);
    buffer_put_string(&head, "\r\n");
    if (together)
        buffer_put(&head, request->body, size);
    weft_status status = head.failed
                             ? error_memory(error, head.room, "a request")
                             : channel_write(client->channel, buffer_begin(&head), buffer_size(&head), deadline, error);
    if (head.bytes)
        sodium_memzero(head.bytes, head.room);
    buffer_free(&head);
    return status == WEFT_OK && !together ? channel_write(client->channel, request->body, size, deadline, error)
                                          : status;
}

static weft_status read_more(struct client *client, double seconds, struct error *error)
{
    size_t size = 0;
    uint8_t *place = buffer_reserve(&client->input, INPUT_BYTES);
    if (!place)
        return error_memory(error, INPUT_BYTES, "a reply");
    weft_status status = channel_read(client->channel, place, INPUT_BYTES, clock_after(seconds), &size, error);
    client->input.end += size;
    return status == WEFT_OK && size == 0
               ? error_set(error, WEFT_ERROR_NETWORK, "it ended the connection before its reply")
               : status;
}

/* Read heads until one that is not of a reply to come (1xx). */
static weft_status client_read_head(struct client *client, const char *method, struct error *error)
{
    do {
        const uint8_t *end;
        while (buffer_size(&client->input) < 4 ||
               !(end = memmem(buffer_begin(&client->input), buffer_size(&client->input), "\r\n\r\n", 4))) {
            weft_status status = buffer_size(&client->input) >= INPUT_BYTES
                                     ? error_set(error, WEFT_ERROR_NETWORK, "what it answers is not HTTP/1.1")
                                     : read_more(client, client->reply_seconds, error);
            if (status != WEFT_OK)
                return status;
        }
        size_t size = (size_t)(end + 4 - buffer_begin(&client->input));
        free(client->head);
        client->head = malloc(size);
        if (!client->head)
            return error_memory(error, size, "a reply");
        memcpy(client->head, buffer_begin(&client->input), size);
        buffer_consume(&client->input, size);
        struct error why = {0};
        if (memchr(client->head, '\0', size) ||
            message_read_reply(client->head, size, strcmp(method, "HEAD") == 0, &client->message, &why) != WEFT_OK)
            return error_set(error, WEFT_ERROR_NETWORK, "what it answers is not HTTP/1.1: %s",
                             *why.text ? why.text : "it holds a NUL");
        client->answered = true;
    } while (client->message.status < 200 && client->message.status != 101);
    const enum message_framing framing = client->message.framing;
    client->chunks = (struct chunks){0};
    client->left = framing == MESSAGE_LENGTH ? client->message.length : UINT64_MAX;
    client->whole = framing == MESSAGE_NO_BODY || client->left == 0;
    return WEFT_OK;
}

/* The next piece of the body, in the input; *size is 0 when it is whole. */
static weft_status client_read_piece(struct client *client, double seconds, const char **piece, size_t *size,
                                     struct error *error)
{
    const enum message_framing framing = client->message.framing;
    *size = 0;
    while (!client->whole) {
        const size_t available = buffer_size(&client->input);
        size_t taken = available < client->left ? available : (size_t)client->left;
        *piece = (const char *)buffer_begin(&client->input);
        if (framing == MESSAGE_CHUNKED) {
            enum chunks_result result = chunks_read(&client->chunks, *piece, available, &taken, piece, size);
            client->whole = result == CHUNKS_END;
            if (result == CHUNKS_WRONG)
                return error_set(error, WEFT_ERROR_NETWORK, "the chunks of its reply are not written as HTTP/1.1 says");
        } else {
            *size = taken;
            client->left -= framing == MESSAGE_LENGTH ? taken : 0;
            client->whole = client->left == 0;
        }
        buffer_consume(&client->input, taken);
        if (*size > 0 || client->whole)
            break;
        struct error why = {0};
        weft_status status = read_more(client, seconds, &why);
        if (status == WEFT_ERROR_NETWORK && framing == MESSAGE_UNTIL_CLOSE)
            client->whole = true;
        else if (status != WEFT_OK)
            return error_set(error, status, "%s",
                             status == WEFT_ERROR_NETWORK ? "it ended the connection within its reply" : why.text);
    }
    return WEFT_OK;
}

static weft_status client_read_body(struct client *client, struct client_reply *reply, struct error *error)
{
    struct buffer body = {0};
    const char *piece = NULL;
    size_t size;
    weft_status status;
    while ((status = client_read_piece(client, client->reply_seconds, &piece, &size, error)) == WEFT_OK && size > 0 &&
           buffer_size(&body) + size <= CLIENT_REPLY_MOST)
        buffer_put(&body, piece, size);
    reply->text = buffer_string(&body);
    reply->size = buffer_size(&body);
    if (status == WEFT_OK && (size > 0 || !reply->text))
        status = error_memory(error, reply->size + size, "the reply");
    if (!reply->text)
        buffer_free(&body);
    return status;
}

/* Send a request and read the head of its reply; once again where that cannot do a thing twice. */
static weft_status client_exchange(struct client *client, const struct client_request *request, struct error *error)
{
    bool again = strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0 ||
                 strcmp(request->method, "PUT") == 0 || strcmp(request->method, "DELETE") == 0 ||
                 request->idempotency_key;
    for (;;) {
        struct error why = {0}, answer = {0};
        weft_status status = connect_now(client, error);
        if (status != WEFT_OK)
            return status;
        status = send_request(client, request, &why);
        /* A server that refuses may do so before it has read everything. */
        if (status == WEFT_OK || status == WEFT_ERROR_NETWORK) {
            weft_status replied = client_read_head(client, request->method, &answer);
            if (replied == WEFT_OK)
                return WEFT_OK;
            if (status == WEFT_OK) {
                status = replied;
                why = answer;
            }
        }
        disconnect(client);
        if (status != WEFT_ERROR_NETWORK || !again)
            return client_tell(client, &why, error);
        again = false;
    }
}

/* The message of a refusal. */
static weft_status client_refused(const struct client *client, const struct client_reply *reply, struct error *error)
{
    const cJSON *message =
        cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(reply->json, "error"), "message");
    weft_status kind = reply->status < 500 ? WEFT_ERROR_ARGUMENT : WEFT_ERROR_SYSTEM;
    char reason[ERROR_TEXT_BYTES / 2];
    if (!cJSON_IsString(message))
        return error_set(error, kind, "what answers at %s is no Weft server: its status is %u, without a message",
                         client->server, reply->status);
    snprintf(reason, sizeof reason, "%s", message->valuestring);
    text_printable(reason);
    if (reply->status == 401)
        return error_set(error, kind, "the Weft server at %s says: %s; %s '%s'", client->server, reason,
                         *client->token
                             ? "yours is in"
                             : "put yours, for you alone to read (mode 0600), as 'weft token save' does, into",
                         client->token_path);
    return error_set(error, kind, "%s", reason);
}

/* Read the whole body and understand it; what is no success becomes an error. */
static weft_status client_finish(struct client *client, struct client_reply *reply, struct error *error)
{
    struct error why = {0};
    const char *type = message_header(&client->message, "Content-Type");
    reply->status = client->message.status;
    weft_status status = client_read_body(client, reply, &why);
    bool keep = status == WEFT_OK && client->message.keep_alive;
    if (status != WEFT_OK)
        status = client_tell(client, &why, error);
    if (!keep)
        disconnect(client);
    if (status == WEFT_OK && type && strncasecmp(type, "application/json", 16) == 0 && reply->size > 0) {
        char where[ADDRESS_TEXT_BYTES + 64];
        snprintf(where, sizeof where, "the reply of the Weft server at %s", client->server);
        status = json_parse(reply->text, reply->size, where, &reply->json, error);
    }
    if (status == WEFT_OK && reply->status >= 300)
        status = client_refused(client, reply, error);
    if (status != WEFT_OK) {
        unsigned code = reply->status;
        client_reply_free(reply);
        reply->status = code;
    }
    return status;
}

weft_status client_ask(struct client *client, const struct client_request *request, struct client_reply *reply,
                       struct error *error)
{
    memset(reply, 0, sizeof *reply);
    weft_status status = client_exchange(client, request, error);
    return status == WEFT_OK ? client_finish(client, reply, error) : status;
}

void client_reply_free(struct client_reply *reply)
{
    cJSON_Delete(reply->json);
    free(reply->text);
    memset(reply, 0, sizeof *reply);
}

/* ---- streams ---- */

/* Read a reply as it comes. *stopped: `piece` wanted no more. */
static weft_status read_stream(struct client *client, const struct client_request *request, double quiet_seconds,
                               bool (*take)(void *context, const char *bytes, size_t size), void *context,
                               bool *stopped, struct error *error)
{
    struct error why = {0};
    size_t size = 1;
    *stopped = false;
    weft_status status = client_exchange(client, request, error);
    if (status == WEFT_OK && client->message.status >= 300) {
        struct client_reply reply = {0};
        return client_finish(client, &reply, error);
    }
    if (status != WEFT_OK)
        return status;
    while (status == WEFT_OK && size > 0 && !*stopped) {
        const char *piece = NULL;
        status = client_read_piece(client, quiet_seconds > 0 ? quiet_seconds : 1e8, &piece, &size, &why);
        if (status == WEFT_OK && size > 0)
            *stopped = !take(context, piece, size);
    }
    if (status == WEFT_ERROR_TIMEOUT)
        status =
            error_set(error, status, "nothing came from the Weft server at %s for %g s", client->server, quiet_seconds);
    else if (status != WEFT_OK)
        client_tell(client, &why, error);
    if (status != WEFT_OK || *stopped || !client->message.keep_alive)
        disconnect(client);
    return status;
}

weft_status client_bytes(struct client *client, const struct client_request *request, double quiet_seconds,
                         bool (*take)(void *context, const char *bytes, size_t size), void *context,
                         struct error *error)
{
    bool stopped;
    return read_stream(client, request, quiet_seconds, take, context, &stopped, error);
}

struct lines {
    char *rest; /* the beginning of a line, of LINE_MOST bytes */
    size_t size;
    bool (*line)(void *context, const char *line, size_t size);
    void *context;
};

/* Hand the lines of a piece on. False: no more are wanted. */
static bool client_divide(void *context, const char *piece, size_t size)
{
    struct lines *lines = context;
    while (size > 0) {
        const char *newline = memchr(piece, '\n', size);
        size_t length = newline ? (size_t)(newline - piece) : size, room = LINE_MOST - lines->size;
        bool full = length > room;
        length = full ? room : length;
        memcpy(lines->rest + lines->size, piece, length);
        lines->size += length;
        piece += length + (newline && !full);
        size -= length + (newline && !full);
        if (!newline && !full)
            return true;
        size_t whole = lines->size;
        lines->size = 0;
        if (whole > 0 && !full && lines->rest[whole - 1] == '\r')
            whole--;
        if (!lines->line(lines->context, lines->rest, whole))
            return false;
    }
    return true;
}

weft_status client_lines(struct client *client, const struct client_request *request, double quiet_seconds,
                         bool (*line)(void *context, const char *line, size_t size), void *context, struct error *error)
{
    struct lines lines = {.rest = malloc(LINE_MOST), .line = line, .context = context};
    bool stopped;
    if (!lines.rest)
        return error_memory(error, LINE_MOST, "lines of a reply");
    weft_status status = read_stream(client, request, quiet_seconds, client_divide, &lines, &stopped, error);
    if (status == WEFT_OK && !stopped && lines.size > 0)
        line(context, lines.rest, lines.size);
    free(lines.rest);
    return status;
}

/* ---- small things ---- */

void client_make_key(char key[CLIENT_KEY_BYTES])
{
    uint8_t random[(CLIENT_KEY_BYTES - 1) / 2];
    randombytes_buf(random, sizeof random);
    sodium_bin2hex(key, CLIENT_KEY_BYTES, random, sizeof random);
}

bool client_path_add(char *path, size_t room, const char *text)
{
    size_t length = strlen(path);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("-_.~", c);
        int size = snprintf(path + length, room - length, plain ? "%c" : "%%%02X", c);
        if (size >= (int)(room - length))
            return false;
        length += (size_t)size;
    }
    return true;
}
