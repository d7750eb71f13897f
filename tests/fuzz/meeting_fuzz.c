/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever comes to a meeting once it has proved itself, and whatever a server that has proved itself answers: the
 * meeting goes on or fails with a sentence. (What strangers send: stream_fuzz.)
 */
#include "control/address.h"
#include "control/rendezvous.h"
#include "control/stream.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define RANKS 2

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t secret[SECRET_BYTES] = {1, 2, 3};

struct server {
    struct rendezvous_server what;
    int listener;
    struct error error;
    weft_status status;
};

static void *serve(void *argument)
{
    struct server *server = argument;
    server->status = rendezvous_serve(server->listener, &server->what, &server->error);
    return NULL;
}

static void check_sentence(void *context, const char *sentence)
{
    if (!*sentence)
        abort();
}

/* Prove the secret on a connection, from either end; false: the other end went away. */
static bool greet(struct stream *stream, int descriptor, bool is_server, uint32_t rank)
{
    const struct stream_identity identity = {secret, STREAM_MEETING, rank, RANKS};
    if (stream_begin(stream, descriptor, is_server, &identity, NULL) != WEFT_OK)
        return false;
    while (stream->state != STREAM_OPEN) {
        if (stream_write(stream, NULL) != WEFT_OK)
            return false;
        struct pollfd wait = {descriptor, POLLIN, 0};
        poll(&wait, 1, 1000);
        if (stream_read(stream, NULL) != WEFT_OK)
            return false;
    }
    return stream_write(stream, NULL) == WEFT_OK;
}

static void drain(int descriptor)
{
    char bytes[4096];
    shutdown(descriptor, SHUT_WR);
    struct pollfd wait = {descriptor, POLLIN, 0};
    while (poll(&wait, 1, 1000) > 0 && recv(descriptor, bytes, sizeof bytes, 0) > 0)
        ;
}

static int connect_to(const char *host, uint16_t port)
{
    int descriptor = -1;
    return address_connect(host, port, 5, &descriptor, NULL, NULL) == WEFT_OK ? descriptor : -1;
}

/* To the server: two guests, of which the second says what the input says. */
static void come(const uint8_t *data, size_t size)
{
    struct server server = {.what = {.ranks = RANKS,
                                     .secret = secret,
                                     .limit_seconds = 5,
                                     .stop = eventfd(0, EFD_CLOEXEC),
                                     .report = check_sentence}};
    struct stream streams[RANKS];
    pthread_t thread;
    uint16_t port = 0;
    if (address_listen("127.0.0.1", 0, &server.listener, &port, NULL) != WEFT_OK)
        abort();
    pthread_create(&thread, NULL, serve, &server);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        int descriptor = connect_to("127.0.0.1", port);
        if (descriptor < 0 || !greet(&streams[rank], descriptor, false, rank))
            abort();
        if (rank == 0)
            stream_put(&streams[rank], 1, "card", 4);
        else
            buffer_put(&streams[rank].out, data, size);
        (void)stream_write(&streams[rank], NULL);
    }
    drain(streams[1].descriptor);
    eventfd_write(server.what.stop, 1);
    pthread_join(thread, NULL);
    if (server.status != WEFT_OK && !*server.error.text)
        abort();
    for (uint32_t rank = 0; rank < RANKS; rank++)
        stream_end(&streams[rank]);
    close(server.listener);
    close(server.what.stop);
}

struct answer {
    int listener;
    const uint8_t *data;
    size_t size;
};

static void *answer(void *argument)
{
    struct answer *given = argument;
    struct stream stream;
    struct pollfd wait = {given->listener, POLLIN, 0};
    poll(&wait, 1, 5000);
    int descriptor = accept4(given->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    close(given->listener);
    if (descriptor >= 0 && greet(&stream, descriptor, true, 0)) {
        buffer_put(&stream.out, given->data, given->size);
        (void)stream_write(&stream, NULL);
        drain(descriptor);
    }
    stream_end(&stream);
    return NULL;
}

/* From a server that says what the input says. */
static void be_answered(const uint8_t *data, size_t size)
{
    struct answer given = {.data = data, .size = size};
    struct rendezvous_result result = {0};
    struct error error = {0};
    char address[32];
    pthread_t thread;
    uint16_t port = 0;
    if (address_listen("127.0.0.1", 0, &given.listener, &port, NULL) != WEFT_OK)
        abort();
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    pthread_create(&thread, NULL, answer, &given);
    const struct rendezvous_client client = {address, 0, RANKS, secret, 0.05, -1};
    if (rendezvous_join(&client, "card", 4, &result, &error) == WEFT_OK)
        free(result.blobs);
    else if (!*error.text || result.blobs)
        abort();
    pthread_join(thread, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    if (data[0] & 1)
        come(data + 1, size - 1);
    else
        be_answered(data + 1, size - 1);
    return 0;
}
