/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Server-sent events (the WHATWG's text/event-stream) to any number of subscribers.
 *
 * Events are kept in one ring of bounded count and bytes. A subscriber is a position in it: nothing is queued per
 * subscriber, so a thousand slow readers cost as much as a thousand fast ones. Nothing is written to a slow reader
 * until it has caught up. If the ring has meanwhile moved past its position, it gets:
 *
 *     event: missed
 *     data: {"missed": 1203}
 *
 * and must reload its data. Each event has an id. A browser that reconnects sends the last one it saw (Last-Event-ID,
 * or ?after=ID for the first time), and continues after it, or gets "missed". Ids of an earlier server process are
 * recognized. A comment is sent every few seconds if nothing else is, so that both ends detect a broken connection.
 *
 * events_publish() may be called from any thread; everything else runs on the server's.
 */
#ifndef WEFT_PLATFORM_HTTP_EVENTS_STREAM_H
#define WEFT_PLATFORM_HTTP_EVENTS_STREAM_H

#include "platform/http/http.h"

#define EVENTS_ID_BYTES 48

struct events_config {
    uint32_t count_most;      /**< events kept [4096] */
    size_t bytes_most;        /**< and their bytes [8 MiB] */
    uint32_t subscribers;     /**< [4096] */
    double heartbeat_seconds; /**< [15] */
};

struct events_stream;

/** events_free() frees it, after http_stop(). */
weft_status events_new(const struct events_config *config, struct events_stream **events, struct error *error);
void events_free(struct events_stream *events);

/** Events go out by this server's thread: before http_start(). NULL, before http_stop(), where other threads may still
 * publish: from then on events are only kept. */
void events_attach(struct events_stream *events, struct http_server *server);

/**
 * Publish an event: `kind` is its name for subscribers ("run", "queue"), `topic` decides who may see it (a project; ""
 * for all users), `data` is one line. From any thread. Errors: ARGUMENT (line breaks, or larger than the ring), MEMORY.
 */
weft_status events_publish(struct events_stream *events, const char *topic, const char *kind, const char *data,
                           struct error *error);

/** The id of the newest event: what is asked for after it was read is not older than that event. */
void events_newest(struct events_stream *events, char id[EVENTS_ID_BYTES]);

/** Whether a subscriber wants an event. Called at each; `context` is the subscriber's. */
typedef bool events_filter(void *context, const char *topic, const char *kind);

/**
 * Answer a request with the stream. `after` is an id, or NULL for what is new; the header Last-Event-ID goes before it.
 * `filter` may be NULL: everything. `release` (may be NULL) is called with `context` when the subscriber has gone.
 */
void events_subscribe(struct events_stream *events, struct http_request *request, const char *after,
                      events_filter *filter, void *context, void (*release)(void *context));

struct events_counts {
    uint64_t subscribers, published, delivered, missed;
};
struct events_counts events_counts(struct events_stream *events);

#endif
