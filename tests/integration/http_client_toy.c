/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client, driven from a script: each argument is a request, answered with a line. METHOD:PATH[:BODY[:KEY]] prints
 * "STATUS text" or "error: message"; "lines:PATH:COUNT" prints what comes; "sleep:MILLISECONDS" waits.
 */
#include "platform/client/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int left;

static bool print_line(void *context, const char *line, size_t size)
{
    printf("line %zu %.*s\n", size, size < 60 ? (int)size : 60, line);
    fflush(stdout);
    return --left > 0;
}

/* The next part of `*at`, divided by colons. */
static char *part(char **at)
{
    char *begin = *at, *colon = begin ? strchr(begin, ':') : NULL;
    if (colon)
        *colon++ = '\0';
    *at = colon;
    return begin;
}

int main(int argc, char **argv)
{
    struct client *client = NULL;
    struct error error = {0};
    const char *limit = getenv("TOY_SECONDS");
    const struct client_config config = {.reply_seconds = limit ? atof(limit) : 10, .connect_seconds = 2};
    if (client_open(&config, &client, &error) != WEFT_OK)
        return printf("error: %s\n", error.text), 1;
    for (int i = 1; i < argc; i++) {
        char *at = argv[i], *method = part(&at), *path = part(&at), *body = part(&at), *key = part(&at);
        weft_status status;
        error = (struct error){0};
        if (strcmp(method, "sleep") == 0) {
            usleep((useconds_t)atoi(path) * 1000);
            continue;
        }
        if (strcmp(method, "lines") == 0) {
            left = atoi(body);
            status = client_lines(client, &(struct client_request){.method = "GET", .path = path}, 5, print_line, NULL,
                                  &error);
        } else {
            struct client_reply reply;
            /* A colon in a body is written as '~'. */
            for (char *c = body; c && *c; c++)
                *c = *c == '~' ? ':' : *c;
            const struct client_request request = {
                .method = method, .path = path, .body = body && *body ? body : NULL, .idempotency_key = key};
            status = client_ask(client, &request, &reply, &error);
            if (status == WEFT_OK)
                printf("%u %zu %.60s%s", reply.status, reply.size, reply.json ? "json " : "",
                       reply.size && reply.size < 200 ? reply.text : "\n");
            client_reply_free(&reply);
        }
        if (status != WEFT_OK)
            printf("error: %s\n", error.text);
        fflush(stdout);
    }
    client_close(client);
    return 0;
}
