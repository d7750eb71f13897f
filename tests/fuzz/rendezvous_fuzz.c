/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever comes to a rendezvous once it has proved itself, to its server or to a rank from below, and whatever a server
 * or a parent that has proved itself answers: the rendezvous goes on or fails with a message. (What strangers send:
 * stream_fuzz.)
 */
#include "core/control/rendezvous/internal/wire.h"
#include "core/control/rendezvous/rendezvous.h"
#include "core/control/wire/address.h"
#include "core/control/wire/stream.h"

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

static void check_message(void *context, const char *message)
{
    if (!*message)
        abort();
}

/* Prove the secret on a connection, from either end; false: the other end went away. */
static bool greet(struct stream *stream, int descriptor, bool is_server, uint32_t rank)
{
    const struct stream_identity identity = {secret, STREAM_RENDEZVOUS, rank, RANKS};
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

/* What rank 0 says to the server, with a endpoint info of 4 bytes. */
static void put_come(struct stream *stream)
{
    struct buffer payload = {0};
    buffer_put_u32(&payload, 0);
    buffer_put_u32(&payload, 4);
    buffer_put_text(&payload, "127.0.0.1:9");
    buffer_put_u32(&payload, 0);
    buffer_put_u32(&payload, 1);
    stream_put(stream, RENDEZVOUS_JOIN, buffer_begin(&payload), buffer_size(&payload));
    buffer_free(&payload);
}

/* To the server: two guests; the second says what the input says. */
static void come(const uint8_t *data, size_t size)
{
    struct server server = {.what = {.ranks = RANKS,
                                     .secret = secret,
                                     .limit_seconds = 5,
                                     .stop = eventfd(0, EFD_CLOEXEC),
                                     .report = check_message}};
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
            put_come(&streams[rank]);
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

/* A server, or a parent, that says what the input says; or a rank that does, to one that has to be the root. */
enum speaker { SERVER, PARENT, CHILD };

struct answer {
    enum speaker who;
    int listener, parent;
    int stop; /* ends the rank's waiting after the last message */
    uint16_t parent_port;
    const uint8_t *data;
    size_t size;
};

/* Accept somebody and prove the secret. */
static bool receive(struct stream *stream, int listener)
{
    struct pollfd wait = {listener, POLLIN, 0};
    poll(&wait, 1, 5000);
    int descriptor = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    return descriptor >= 0 && greet(stream, descriptor, true, 0);
}

static void say(struct stream *stream, const struct answer *given)
{
    buffer_put(&stream->out, given->data, given->size);
    (void)stream_write(stream, NULL);
    drain(stream->descriptor);
}

/* Tell the guest its place, once it has come; at which port others find it. */
static uint16_t give_place(struct stream *stream, const struct answer *given)
{
    struct buffer place = {0};
    struct frame frame;
    char address[128], host[ADDRESS_TEXT_BYTES], parent[32] = "";
    uint16_t port = 0;
    while (stream_peek(stream, &frame) != 1) {
        struct pollfd wait = {stream->descriptor, POLLIN, 0};
        if (poll(&wait, 1, 5000) <= 0 || stream_read(stream, NULL) != WEFT_OK)
            abort();
    }
    struct reader reader = {frame.payload, frame.size, false};
    reader_bytes(&reader, 8);
    reader_text(&reader, address, sizeof address);
    if (frame.kind != RENDEZVOUS_JOIN || address_parse(address, host, &port, NULL) != WEFT_OK)
        abort();
    if (given->who == PARENT)
        snprintf(parent, sizeof parent, "127.0.0.1:%u", given->parent_port);
    buffer_put_u32(&place, 1);
    buffer_put_u32(&place, given->who == PARENT ? 1 : RANKS);
    buffer_put_text(&place, parent);
    if (given->who == CHILD) {
        buffer_put_u32(&place, 1);
        buffer_put_text(&place, "elsewhere");
    }
    stream_put(stream, RENDEZVOUS_PLACE, buffer_begin(&place), buffer_size(&place));
    buffer_free(&place);
    (void)stream_write(stream, NULL);
    return port;
}

static void *answer(void *argument)
{
    struct answer *given = argument;
    struct stream stream = {.descriptor = -1}, other = {.descriptor = -1};
    bool here = receive(&stream, given->listener);
    close(given->listener);
    if (here && given->who == SERVER)
        say(&stream, given);
    uint16_t port = here && given->who != SERVER ? give_place(&stream, given) : 0;
    if (here && given->who == PARENT && receive(&other, given->parent))
        say(&other, given);
    if (here && given->who == CHILD && greet(&other, connect_to("127.0.0.1", port), false, 1))
        say(&other, given);
    eventfd_write(given->stop, 1);
    stream_end(&stream);
    stream_end(&other);
    return NULL;
}

/* A place whose parent may be any address of the world: nobody is to be called there. */
static bool calls_somebody(const uint8_t *data, size_t size)
{
    struct reader reader = {data, size, false};
    uint32_t bytes = reader_u32(&reader), kind = reader_u32(&reader);
    reader_bytes(&reader, 8);
    return reader_u32(&reader) != 0 && kind == RENDEZVOUS_PLACE && bytes > 12;
}

/* To a rank, from above or below. `patient`: it tries again to its limit, which is slow. */
static void speak(enum speaker who, bool patient, const uint8_t *data, size_t size)
{
    struct answer given = {.who = who, .stop = eventfd(0, EFD_CLOEXEC), .data = data, .size = size};
    struct rendezvous *rendezvous = NULL;
    struct rendezvous_result result = {0};
    struct error error = {0};
    char address[32];
    pthread_t thread;
    uint16_t port = 0;
    if (who == SERVER && calls_somebody(data, size))
        return;
    if (address_listen("127.0.0.1", 0, &given.listener, &port, NULL) != WEFT_OK ||
        address_listen("127.0.0.1", 0, &given.parent, &given.parent_port, NULL) != WEFT_OK)
        abort();
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    pthread_create(&thread, NULL, answer, &given);
    const struct rendezvous_client client = {.addresses = address,
                                             .ranks = RANKS,
                                             .secret = secret,
                                             .limit_seconds = 0.2,
                                             .stop = patient ? -1 : given.stop};
    weft_status status = rendezvous_open(&client, &rendezvous, &error);
    if (status == WEFT_OK)
        status = rendezvous_join(rendezvous, NULL, "endpoint info", 4, &result, &error);
    if (status == WEFT_OK)
        free(result.blobs);
    else if (!*error.text || result.blobs)
        abort();
    rendezvous_close(rendezvous);
    pthread_join(thread, NULL);
    close(given.parent);
    close(given.stop);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    if (data[0] % 4 == 1)
        come(data + 1, size - 1);
    else
        speak(data[0] % 4 == 0 ? SERVER : data[0] % 4 == 2 ? PARENT : CHILD, data[0] / 4 == 63, data + 1, size - 1);
    return 0;
}
