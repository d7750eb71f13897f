/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a server answers to the client: a reply, lines, or a message. The first byte says what is asked. */
#include "platform/client/client.h"

#include "core/control/wire/address.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct answer {
    int listener;
    const uint8_t *data;
    size_t size;
};

static void *answer(void *argument)
{
    const struct answer *given = argument;
    char request[4096];
    for (int i = 0; i < 2; i++) { /* an idempotent request may come twice */
        int descriptor = accept4(given->listener, NULL, NULL, SOCK_CLOEXEC);
        if (descriptor < 0)
            return NULL;
        if (recv(descriptor, request, sizeof request, 0) > 0) {
            (void)!send(descriptor, given->data, given->size, MSG_NOSIGNAL);
            shutdown(descriptor, SHUT_WR);
            while (recv(descriptor, request, sizeof request, 0) > 0)
                ;
        }
        close(descriptor);
    }
    return NULL;
}

static bool take_line(void *context, const char *line, size_t size)
{
    volatile char last = size > 0 ? line[size - 1] : 0;
    (void)last;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct client *client = NULL;
    struct error error = {0};
    struct answer given = {.listener = -1, .data = data + 1, .size = size - 1};
    uint16_t port = 0;
    pthread_t thread;
    char server[64];
    if (size < 1 || size > 60000)
        return 0;
    if (address_listen("127.0.0.1", 0, &given.listener, &port, NULL) != WEFT_OK)
        abort();
    fcntl(given.listener, F_SETFL, 0); /* blocking: the thread has nothing else to do */
    snprintf(server, sizeof server, "http://127.0.0.1:%u", port);
    const struct client_config config = {.server = server, .token = "", .reply_seconds = 2, .connect_seconds = 2};
    if (client_open(&config, &client, &error) != WEFT_OK)
        abort();
    pthread_create(&thread, NULL, answer, &given);
    const struct client_request request = {.method = data[0] & 4 ? "HEAD" : "POST", .path = "/", .body = "{}"};
    weft_status status;
    if (data[0] % 4 == 1) {
        status = client_lines(client, &request, 1, take_line, NULL, &error);
    } else {
        struct client_reply reply;
        status = client_ask(client, &request, &reply, &error);
        if (status == WEFT_OK && reply.size > 0 && strlen(reply.text) > reply.size)
            abort();
        client_reply_free(&reply);
    }
    if (status != WEFT_OK && !*error.text)
        abort();
    client_close(client);
    shutdown(given.listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(given.listener);
    return 0;
}
