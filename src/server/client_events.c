/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events, read line by line; the connection made again when it is cut. */
#include "base/clock.h"
#include "server/client_internal.h"
#include "server/events_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define QUIET_SECONDS 50.0 /* three heartbeats of the server */
#define DATA_MOST     ((size_t)4 << 20)

struct parse {
    char id[EVENTS_ID_BYTES]; /* of the last event that was whole */
    char next_id[EVENTS_ID_BYTES], kind[64];
    char *data; /* NULL: no line of it has come */
    size_t size;
    bool any; /* something came on this connection */
    bool (*event)(void *context, const struct client_event *event);
    void *context;
};

/* Several lines of data are one text with line breaks. What is too long is cut. */
static void add_data(struct parse *parse, const char *text, size_t size)
{
    size_t before = parse->data ? parse->size + 1 : 0;
    if (before + size + 1 > DATA_MOST)
        return;
    char *grown = realloc(parse->data, before + size + 1);
    if (!grown)
        return;
    if (before > 0)
        grown[before - 1] = '\n';
    memcpy(grown + before, text, size);
    grown[before + size] = '\0';
    parse->data = grown;
    parse->size = before + size;
}

static bool take_event(struct parse *parse)
{
    bool more = true;
    memcpy(parse->id, parse->next_id, sizeof parse->id);
    if (parse->data) {
        const struct client_event event = {parse->id, *parse->kind ? parse->kind : "message", parse->data};
        more = parse->event(parse->context, &event);
    }
    free(parse->data);
    parse->data = NULL;
    parse->kind[0] = '\0';
    return more;
}

/* It goes back to the server in a header. */
static bool is_id(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] <= 0x20 || (unsigned char)text[i] >= 0x7f)
            return false;
    return size < EVENTS_ID_BYTES;
}

static bool take_line(void *context, const char *line, size_t size)
{
    struct parse *parse = context;
    const char *colon = memchr(line, ':', size);
    size_t name = colon ? (size_t)(colon - line) : size;
    parse->any = true;
    if (size == 0)
        return take_event(parse);
    if (!colon || name == 0)
        return true;
    const char *value = colon + 1;
    size_t length = size - name - 1;
    if (length > 0 && *value == ' ') {
        value++;
        length--;
    }
    if (name == 4 && memcmp(line, "data", 4) == 0)
        add_data(parse, value, length);
    else if (name == 5 && memcmp(line, "event", 5) == 0)
        snprintf(parse->kind, sizeof parse->kind, "%.*s", (int)length, value);
    else if (name == 2 && memcmp(line, "id", 2) == 0 && is_id(value, length))
        snprintf(parse->next_id, sizeof parse->next_id, "%.*s", (int)length, value);
    return true;
}

weft_status client_events(struct client *client, const char *path, const char *after, double patience_seconds,
                          bool (*event)(void *context, const struct client_event *event), void *context,
                          struct error *error)
{
    const struct client_request request = {.method = "GET", .path = path};
    struct parse parse = {.event = event, .context = context};
    uint64_t heard = clock_now();
    double pause = 0.1;
    weft_status status;
    snprintf(parse.id, sizeof parse.id, "%s", after ? after : "");
    memcpy(parse.next_id, parse.id, sizeof parse.id);
    for (;;) {
        char header[EVENTS_ID_BYTES + 32] = "";
        struct error why = {0};
        bool stopped = false;
        if (*parse.id)
            snprintf(header, sizeof header, "Last-Event-ID: %s\r\n", parse.id);
        status = client_lines_with(client, &request, header, QUIET_SECONDS, take_line, &parse, &stopped, &why);
        free(parse.data); /* an event that was cut off comes again */
        parse.data = NULL;
        parse.kind[0] = '\0';
        memcpy(parse.next_id, parse.id, sizeof parse.id);
        if (stopped)
            break;
        if (parse.any) {
            heard = clock_now();
            pause = 0.1;
            parse.any = false;
        }
        bool refused = status == WEFT_ERROR_ARGUMENT || status == WEFT_ERROR_MEMORY;
        if (refused || clock_now() > heard + (uint64_t)(patience_seconds * 1e9)) {
            if (status == WEFT_OK)
                status = error_set(error, WEFT_ERROR_NETWORK, "the Weft server at %s ended the stream of events",
                                   client_server(client));
            else
                error_set(error, status, "%s", why.text);
            break;
        }
        struct timespec wait = {(time_t)pause, (long)((pause - (double)(time_t)pause) * 1e9)};
        nanosleep(&wait, NULL);
        pause = pause < 2 ? pause * 2 : 2;
    }
    return status;
}
