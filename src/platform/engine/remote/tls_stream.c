/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/engine/remote/internal/tls_stream.h"

#include "base/file/file.h"
#include "platform/engine/remote/internal/frames.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define FINISH_SECONDS 5 /* to send what is queued on a stream that is to be closed */

struct tls_stream {
    struct bufferevent *bufferevent;
    struct tls_stream_calls calls;
    void *context;
    struct buffer in;
    size_t most; /* bytes of a frame */
    bool closed, finishing;
    bool calling, freed; /* within a callback; it was freed there */
};

static void tls_stream_destroy(struct tls_stream *stream)
{
    SSL *ssl = bufferevent_openssl_get_ssl(stream->bufferevent);
    SSL_set_shutdown(ssl, SSL_RECEIVED_SHUTDOWN); /* libevent does not send the closing alert otherwise */
    SSL_shutdown(ssl);
    ERR_clear_error();
    bufferevent_free(stream->bufferevent);
    buffer_free(&stream->in);
    free(stream);
}

void tls_stream_free(struct tls_stream *stream)
{
    if (!stream)
        return;
    stream->freed = true;
    if (!stream->calling)
        tls_stream_destroy(stream);
}

/* Within callbacks the stream may be freed: false if it was. */
static bool still_there(struct tls_stream *stream)
{
    stream->calling = false;
    if (!stream->freed)
        return true;
    tls_stream_destroy(stream);
    return false;
}

/* False: the stream is gone. */
static bool tls_stream_close(struct tls_stream *stream, const char *reason)
{
    if (stream->finishing) {
        tls_stream_destroy(stream);
        return false;
    }
    if (stream->closed)
        return true;
    stream->closed = true;
    bufferevent_disable(stream->bufferevent, EV_READ | EV_WRITE);
    stream->calling = true;
    stream->calls.closed(stream->context, reason);
    return still_there(stream);
}

static void tls_stream_on_read(struct bufferevent *bufferevent, void *context)
{
    struct tls_stream *stream = context;
    struct evbuffer *input = bufferevent_get_input(bufferevent);
    struct frame frame;
    int found = 0;
    const size_t size = evbuffer_get_length(input);
    uint8_t *place = buffer_reserve(&stream->in, size);
    if (!place) {
        tls_stream_close(stream, "out of memory");
        return;
    }
    evbuffer_remove(input, place, size);
    stream->in.end += size;
    while (!stream->closed && !stream->finishing && (found = frame_peek(&stream->in, stream->most, &frame)) > 0) {
        stream->calling = true;
        stream->calls.frame(stream->context, &frame);
        if (!still_there(stream))
            return;
        frame_drop(&stream->in, &frame);
    }
    if (found < 0)
        tls_stream_close(stream, "it sent something that is no message");
}

static void tls_stream_on_write(struct bufferevent *bufferevent, void *context)
{
    struct tls_stream *stream = context;
    if (stream->finishing && evbuffer_get_length(bufferevent_get_output(bufferevent)) == 0)
        tls_stream_destroy(stream);
}

static void tls_stream_on_event(struct bufferevent *bufferevent, short what, void *context)
{
    struct tls_stream *stream = context;
    char text[160];
    if (what & BEV_EVENT_CONNECTED) {
        if (!stream->calls.ready)
            return;
        stream->calling = true;
        stream->calls.ready(stream->context);
        still_there(stream);
        return;
    }
    const int failure = EVUTIL_SOCKET_ERROR();
    const unsigned long code = bufferevent_get_openssl_error(bufferevent);
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    if (what & BEV_EVENT_EOF)
        snprintf(text, sizeof text, "the other end has closed the connection");
    else if (what & BEV_EVENT_TIMEOUT)
        snprintf(text, sizeof text, "nothing was heard for too long");
    else
        snprintf(text, sizeof text, "%s", reason ? reason : failure ? strerror(failure) : "the connection broke");
    ERR_clear_error();
    tls_stream_close(stream, text);
}

weft_status tls_stream_new(struct event_base *base, int descriptor, SSL_CTX *tls, bool server,
                           const struct tls_stream_calls *calls, void *context, struct tls_stream **stream,
                           struct error *error)
{
    const int yes = 1;
    struct tls_stream *made = calloc(1, sizeof *made);
    SSL *ssl = SSL_new(tls);
    if (!made || !ssl) {
        free(made);
        SSL_free(ssl);
        file_close(descriptor);
        return error_memory(error, sizeof *made, "a connection");
    }
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    made->calls = *calls;
    made->context = context;
    made->most = REMOTE_FRAME_MOST;
    made->bufferevent = bufferevent_openssl_socket_new(base, descriptor, ssl,
                                                       server ? BUFFEREVENT_SSL_ACCEPTING : BUFFEREVENT_SSL_CONNECTING,
                                                       BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
    if (!made->bufferevent) {
        SSL_free(ssl);
        file_close(descriptor);
        free(made);
        return error_memory(error, sizeof *made, "a connection");
    }
    bufferevent_openssl_set_allow_dirty_shutdown(made->bufferevent, 1);
    bufferevent_setcb(made->bufferevent, tls_stream_on_read, tls_stream_on_write, tls_stream_on_event, made);
    bufferevent_enable(made->bufferevent, EV_READ | EV_WRITE);
    *stream = made;
    return WEFT_OK;
}

void tls_stream_set_most(struct tls_stream *stream, size_t most)
{
    stream->most = most;
}

void tls_stream_send(struct tls_stream *stream, uint16_t kind, const void *payload, size_t size)
{
    struct buffer header = {0};
    if (stream->closed || stream->finishing)
        return;
    struct evbuffer *output = bufferevent_get_output(stream->bufferevent);
    frame_put(&header, kind, NULL, size);
    if (!header.failed) {
        evbuffer_expand(output, buffer_size(&header) + size);
        evbuffer_add(output, buffer_begin(&header), buffer_size(&header));
        evbuffer_add(output, payload, size);
    }
    buffer_free(&header);
}

void tls_stream_send_buffer(struct tls_stream *stream, uint16_t kind, struct buffer *payload)
{
    if (!payload->failed)
        tls_stream_send(stream, kind, buffer_begin(payload), buffer_size(payload));
    else
        bufferevent_trigger_event(stream->bufferevent, BEV_EVENT_ERROR, BEV_TRIG_DEFER_CALLBACKS);
    buffer_free(payload);
}

size_t tls_stream_queued(const struct tls_stream *stream)
{
    return evbuffer_get_length(bufferevent_get_output(stream->bufferevent));
}

SSL *tls_stream_tls(const struct tls_stream *stream)
{
    return bufferevent_openssl_get_ssl(stream->bufferevent);
}

void tls_stream_finish(struct tls_stream *stream)
{
    const struct timeval limit = {FINISH_SECONDS, 0};
    if (stream->closed || tls_stream_queued(stream) == 0) {
        tls_stream_free(stream);
        return;
    }
    stream->finishing = true;
    bufferevent_set_timeouts(stream->bufferevent, NULL, &limit);
    bufferevent_disable(stream->bufferevent, EV_READ);
}
