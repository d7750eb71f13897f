/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of requests and replies at a web port. The first byte says which: what is written of them is a head again, without
 * cookies of the platform's names. */
#include "platform/service/internal/port_head.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define WRITTEN_MOST 4 /* headers that are added */
#define OWN          "weft_port_8401.12.3.6006."

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_request(struct buffer *out, const struct port_ends *ends)
{
    char name[PORT_COOKIE_BYTES], value[4096];
    struct message message;
    unsigned code;
    if (message_read_request((char *)buffer_begin(out), buffer_size(out), &message, &code, NULL) != WEFT_OK ||
        strcmp(message_header(&message, "Host"), "localhost:6006") != 0 ||
        port_cookie_find(&message, port_cookie_name(ends, name), 0, value, sizeof value) ||
        message_header(&message, "Weft-Session"))
        abort();
}

static void check_reply(struct buffer *out)
{
    struct message message;
    if (buffer_size(out) == 0)
        return;
    if (message_read_reply((char *)buffer_begin(out), buffer_size(out), false, &message, NULL) != WEFT_OK)
        abort();
    for (size_t i = 0; i < message.header_count; i++)
        if (strcasecmp(message.headers[i].name, "Set-Cookie") == 0 &&
            strncasecmp(message.headers[i].value, "weft_", 5) == 0 &&
            strncmp(message.headers[i].value, OWN, strlen(OWN)) != 0)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 60000)
        return 0;
    const struct port_ends ends = {.web_port = 8401, .run = 12, .node = 3, .port = 6006, .encrypted = data[0] & 2};
    struct buffer out = {0};
    struct message message;
    unsigned code;
    char *head = malloc(size - 1); /* no byte more, so that the sanitizer sees reads beyond it */
    memcpy(head, data + 1, size - 1);
    if (data[0] & 1) {
        if (message_read_request(head, size - 1, &message, &code, NULL) == WEFT_OK &&
            message_header(&message, "Host")) {
            volatile bool foreign = port_head_foreign(&message, &ends);
            (void)foreign;
            port_head_request(&message, &ends, &out);
            if (message.header_count + WRITTEN_MOST <= MESSAGE_HEADERS_MOST)
                check_request(&out, &ends);
        }
    } else if (port_head_reply(head, size - 1, data[0] & 4, &ends, &message, &out, NULL) == WEFT_OK &&
               message.header_count + WRITTEN_MOST <= MESSAGE_HEADERS_MOST) {
        check_reply(&out);
    }
    buffer_free(&out);
    free(head);
    return 0;
}
