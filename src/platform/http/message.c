/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/http/message.h"

#include "training/data/tokenizer/utf8.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* RFC 9110, section 5.6.2. */
static bool is_token(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c)))
            return false;
    }
    return length > 0;
}

static weft_status http_message_wrong(unsigned *code, unsigned status, struct error *error, const char *message)
{
    if (code)
        *code = status;
    return error_set(error, WEFT_ERROR_DATA, "%s", message);
}

/* The next line of `*at`..`end`, ended with a NUL; NULL where it does not end in CR LF or holds a control character. */
static char *http_message_take_line(char **at, char *end)
{
    char *line = *at, *newline = memchr(line, '\n', (size_t)(end - line));
    if (!newline || newline == line || newline[-1] != '\r')
        return NULL;
    newline[-1] = '\0';
    *at = newline + 1;
    for (const char *c = line; c < newline - 1; c++)
        if (((unsigned char)*c < 0x20 && *c != '\t') || *c == 0x7f)
            return NULL;
    return line;
}

static weft_status read_headers(char *at, char *end, struct message *message, unsigned *code, struct error *error)
{
    for (;;) {
        char *line = http_message_take_line(&at, end);
        if (!line)
            return http_message_wrong(code, 400, error,
                                      "a header line holds a control character or does not end in CR LF");
        if (!*line)
            break;
        char *colon = strchr(line, ':');
        if (*line == ' ' || *line == '\t' || !colon || !is_token(line, (size_t)(colon - line)))
            return http_message_wrong(code, 400, error, "a header line does not have the form 'Name: value'");
        if (message->header_count == MESSAGE_HEADERS_MOST) {
            if (code)
                *code = 431;
            return error_set(error, WEFT_ERROR_DATA, "there are more than %d headers", MESSAGE_HEADERS_MOST);
        }
        *colon = '\0';
        char *value = colon + 1 + strspn(colon + 1, " \t"), *tail = value + strlen(value);
        while (tail > value && (tail[-1] == ' ' || tail[-1] == '\t'))
            *--tail = '\0';
        message->headers[message->header_count++] = (struct message_header){line, value};
    }
    return at == end ? WEFT_OK : http_message_wrong(code, 400, error, "the head does not end with its empty line");
}

const char *message_header(const struct message *message, const char *name)
{
    for (size_t i = 0; i < message->header_count; i++)
        if (strcasecmp(message->headers[i].name, name) == 0)
            return message->headers[i].value;
    return NULL;
}

static size_t count_headers(const struct message *message, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < message->header_count; i++)
        count += strcasecmp(message->headers[i].name, name) == 0;
    return count;
}

bool message_has_word(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; at && *at;) {
        at += strspn(at, " \t,");
        size_t size = strcspn(at, " \t,");
        if (size == length && strncasecmp(at, word, length) == 0)
            return true;
        at += size;
    }
    return false;
}

static bool read_length(const char *text, uint64_t *length)
{
    size_t digits = strspn(text, "0123456789");
    *length = 0;
    if (digits == 0 || digits > 18 || text[digits])
        return false;
    for (; *text; text++)
        *length = *length * 10 + (uint64_t)(*text - '0');
    return *length <= MESSAGE_LENGTH_MOST;
}

/* What requests and replies have in common: the length of the body and what becomes of the connection. */
static weft_status read_framing(struct message *message, unsigned *code, struct error *error)
{
    const char *length = message_header(message, "Content-Length");
    const char *coding = message_header(message, "Transfer-Encoding");
    const char *connection = message_header(message, "Connection");
    if (length && coding)
        return http_message_wrong(code, 400, error,
                                  "there are a Content-Length and a Transfer-Encoding: give one of them");
    if (count_headers(message, "Content-Length") > 1 || count_headers(message, "Transfer-Encoding") > 1)
        return http_message_wrong(code, 400, error, "Content-Length or Transfer-Encoding is given twice");
    if (coding && (message->minor == 0 || strcasecmp(coding, "chunked") != 0))
        return http_message_wrong(code, 501, error, "the only Transfer-Encoding understood is 'chunked', in HTTP/1.1");
    if (length && !read_length(length, &message->length))
        return http_message_wrong(code, 400, error, "Content-Length is not a number of bytes");
    if (coding)
        message->framing = MESSAGE_CHUNKED;
    else if (length)
        message->framing = MESSAGE_LENGTH;
    message->keep_alive =
        message->minor == 1 ? !message_has_word(connection, "close") : message_has_word(connection, "keep-alive");
    return WEFT_OK;
}

/* "HTTP/1.1": 400 for malformed text, 505 for another version. */
static weft_status read_version(const char *text, struct message *message, unsigned *code, struct error *error)
{
    if (strncmp(text, "HTTP/", 5) != 0)
        return http_message_wrong(code, 400, error, "the first line does not have the form 'METHOD /path HTTP/1.1'");
    if (strcmp(text, "HTTP/1.1") != 0 && strcmp(text, "HTTP/1.0") != 0)
        return http_message_wrong(code, 505, error, "the versions of HTTP understood are 1.0 and 1.1");
    message->minor = text[7] == '1';
    return WEFT_OK;
}

/*
 * "http://host/path", as proxies are asked and servers must understand: *target becomes the path, *host the host. Of
 * a plain path *host is NULL.
 */
static weft_status read_target(char **target, const char **host, unsigned *code, struct error *error)
{
    char *from = *target;
    const size_t scheme = strncasecmp(from, "http://", 7) == 0 ? 7 : strncasecmp(from, "https://", 8) == 0 ? 8 : 0;
    const size_t length = scheme ? strcspn(from + scheme, "/?") : 0;
    *host = NULL;
    if (scheme && (!length || memchr(from + scheme, '@', length)))
        return http_message_wrong(code, 400, error,
                                  "the first line names no host between '//' and the path, or a user beside it");
    if (scheme) {
        *host = memmove(from, from + scheme, length);
        from[length] = '\0';
        *target = from + scheme + length;
        if (**target != '/') /* there is room for it: the host has moved */
            *--*target = '/';
    }
    return **target == '/' ? WEFT_OK : http_message_wrong(code, 400, error, "the path does not begin with '/'");
}

static weft_status read_request_line(char *line, const char **host, struct message *message, unsigned *code,
                                     struct error *error)
{
    char *target = strchr(line, ' '), *version = target ? strchr(target + 1, ' ') : NULL;
    if (!version || strchr(version + 1, ' ') || strchr(line, '\t') || !is_token(line, (size_t)(target - line)))
        return http_message_wrong(code, 400, error, "the first line does not have the form 'METHOD /path HTTP/1.1'");
    *target++ = '\0';
    *version++ = '\0';
    for (const char *c = target; *c; c++)
        if ((unsigned char)*c >= 0x7f || *c == '#' || *c == '\\' || *c == '"' || *c == '<' || *c == '>')
            return http_message_wrong(code, 400, error, "the path holds a character that is to be written as %XX");
    weft_status status = read_target(&target, host, code, error);
    if (status != WEFT_OK)
        return status;
    message->method = line;
    message->target = target;
    return read_version(version, message, code, error);
}

weft_status message_read_request(char *head, size_t size, struct message *message, unsigned *code, struct error *error)
{
    char *at = head, *end = head + size;
    memset(message, 0, sizeof *message);
    message->method = message->target = "";
    char *line = http_message_take_line(&at, end);
    if (!line)
        return http_message_wrong(code, 400, error,
                                  "the first line holds a control character or does not end in CR LF");
    const char *host = NULL;
    weft_status status = read_request_line(line, &host, message, code, error);
    if (status == WEFT_OK)
        status = read_headers(at, end, message, code, error);
    if (status == WEFT_OK)
        status = read_framing(message, code, error);
    if (status != WEFT_OK)
        return status;
    size_t hosts = count_headers(message, "Host");
    if (hosts > 1 || (hosts == 0 && message->minor == 1))
        return http_message_wrong(code, 400, error, "there has to be one Host header");
    if (host && hosts && strcasecmp(host, message_header(message, "Host")) != 0)
        return http_message_wrong(code, 400, error, "the first line names another host than the Host header");
    const char *expectation = message_header(message, "Expect");
    if (expectation && strcasecmp(expectation, "100-continue") != 0)
        return http_message_wrong(code, 417, error, "the only Expect understood is '100-continue'");
    message->expects_continue = expectation && message->minor == 1;
    return WEFT_OK;
}

weft_status message_read_reply(char *head, size_t size, bool to_head, struct message *message, struct error *error)
{
    char *at = head, *end = head + size;
    memset(message, 0, sizeof *message);
    char *line = http_message_take_line(&at, end);
    if (!line || strlen(line) < 12 || line[8] != ' ' || (line[12] && line[12] != ' ') ||
        strspn(line + 9, "0123456789") != 3 || line[9] == '0')
        return http_message_wrong(NULL, 0, error, "the first line does not have the form 'HTTP/1.1 200 OK'");
    line[8] = '\0';
    message->status = (unsigned)(line[9] - '0') * 100 + (unsigned)(line[10] - '0') * 10 + (unsigned)(line[11] - '0');
    weft_status status = read_version(line, message, NULL, error);
    if (status == WEFT_OK)
        status = read_headers(at, end, message, NULL, error);
    if (status == WEFT_OK)
        status = read_framing(message, NULL, error);
    if (status != WEFT_OK)
        return status;
    if (to_head || message->status < 200 || message->status == 204 || message->status == 304) {
        message->framing = MESSAGE_NO_BODY;
    } else if (message->framing == MESSAGE_NO_BODY) {
        message->framing = MESSAGE_UNTIL_CLOSE;
        message->keep_alive = false;
    }
    return WEFT_OK;
}

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

bool message_decode(char *text, size_t length, bool plus)
{
    size_t size = 0;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (c == '%') {
            if (i + 2 >= length || digit(text[i + 1]) < 0 || digit(text[i + 2]) < 0)
                return false;
            c = (char)(digit(text[i + 1]) * 16 + digit(text[i + 2]));
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        if ((unsigned char)c < 0x20 || c == 0x7f)
            return false;
        text[size++] = c;
    }
    text[size] = '\0';
    for (size_t at = 0, step; at < size; at += step) {
        uint32_t character;
        step = utf8_read((const uint8_t *)text + at, size - at, &character);
        if (step == 0 || (character >= 0x80 && character < 0xa0))
            return false;
    }
    return true;
}

bool message_is_utf8(const char *bytes, size_t size)
{
    for (size_t at = 0, step; at < size; at += step) {
        uint32_t character;
        step = utf8_read((const uint8_t *)bytes + at, size - at, &character);
        if (step == 0)
            return false;
    }
    return true;
}

const char *message_reason(unsigned status)
{
    static const struct {
        unsigned status;
        const char *reason;
    } reasons[] = {
        {100, "Continue"},
        {101, "Switching Protocols"},
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {303, "See Other"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {411, "Length Required"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {507, "Insufficient Storage"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return status < 400 ? "OK" : "Error";
}

/* ---- bodies in chunks ---- */

#define UNREAD_MOST 4096 /* bytes of extensions and trailers */

/* Named for what is expected next. */
enum {
    SIZE,
    EXTENSION,
    SIZE_NEWLINE,
    DATA,
    DATA_RETURN,
    DATA_NEWLINE,
    TRAILER,
    TRAILER_TEXT,
    TRAILER_NEWLINE,
    LAST_NEWLINE,
    ENDED,
    WRONG
};

/* One character outside of data. */
static int http_message_step(struct chunks *chunks, char c)
{
    bool control = (unsigned char)c < 0x20 && c != '\t';
    switch (chunks->state) {
    case SIZE:
        if (digit(c) >= 0) {
            chunks->left = chunks->left * 16 + (uint64_t)digit(c);
            return ++chunks->digits > 12 ? WRONG : SIZE;
        }
        if (chunks->digits == 0)
            return WRONG;
        return c == '\r' ? SIZE_NEWLINE : c == ';' ? EXTENSION : WRONG;
    case EXTENSION:
        return c == '\r' ? SIZE_NEWLINE : control || ++chunks->spent > UNREAD_MOST ? WRONG : EXTENSION;
    case SIZE_NEWLINE:
        chunks->digits = 0;
        return c != '\n' ? WRONG : chunks->left ? DATA : TRAILER;
    case DATA_RETURN:
        return c == '\r' ? DATA_NEWLINE : WRONG;
    case DATA_NEWLINE:
        return c == '\n' ? SIZE : WRONG;
    case TRAILER:
        return c == '\r' ? LAST_NEWLINE : control || ++chunks->spent > UNREAD_MOST ? WRONG : TRAILER_TEXT;
    case TRAILER_TEXT:
        return c == '\r' ? TRAILER_NEWLINE : control || ++chunks->spent > UNREAD_MOST ? WRONG : TRAILER_TEXT;
    case TRAILER_NEWLINE:
        return c == '\n' ? TRAILER : WRONG;
    case LAST_NEWLINE:
        return c == '\n' ? ENDED : WRONG;
    default:
        return WRONG;
    }
}

enum chunks_result chunks_read(struct chunks *chunks, const char *bytes, size_t size, size_t *taken, const char **data,
                               size_t *data_size)
{
    size_t at = 0;
    while (at < size && chunks->state != DATA && chunks->state < ENDED)
        chunks->state = http_message_step(chunks, bytes[at++]);
    *taken = at;
    if (chunks->state >= ENDED)
        return chunks->state == ENDED ? CHUNKS_END : CHUNKS_WRONG;
    if (at == size)
        return CHUNKS_MORE;
    *data = bytes + at;
    *data_size = size - at < chunks->left ? size - at : (size_t)chunks->left;
    *taken += *data_size;
    chunks->left -= *data_size;
    if (chunks->left == 0)
        chunks->state = DATA_RETURN;
    return CHUNKS_DATA;
}
