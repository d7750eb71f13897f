/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/http/events_stream.h"

#include "base/clock.h"

#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define QUEUED_MOST 65536 /* bytes on their way to a subscriber, above which it is not written to */

/* Shared by the ring and the subscribers that it is on its way to. */
struct event {
    atomic_uint references;
    uint64_t number; /* from 1, without gaps */
    size_t size;     /* of `text`, as it goes out */
    const char *topic, *kind;
    char *text;
};

struct events_stream_subscriber {
    TAILQ_ENTRY(events_stream_subscriber) entry;
    struct events_stream *events;
    struct http_request *request;
    uint64_t next;    /* the number of the event that is to go out next */
    uint64_t written; /* when something went out last */
    events_filter *filter;
    void *context;
    void (*release)(void *context);
};

struct events_stream {
    struct events_config config;
    struct http_server *server;
    struct http_posted delivery; /* in its queue if `woken` */
    char start[17];              /* tells this server's ids from those of others */
    pthread_mutex_t lock;
    struct event **ring; /* number n is at n % count_most; the oldest that is kept: `first` */
    uint64_t first, next;
    size_t bytes;
    bool woken;                                         /* the server's thread will deliver soon */
    TAILQ_HEAD(, events_stream_subscriber) subscribers; /* the server's thread's, as is what follows */
    uint32_t count;
    _Atomic uint64_t subscriber_count, delivered, missed;
};

weft_status events_new(const struct events_config *config, struct events_stream **result, struct error *error)
{
    struct events_stream *events = calloc(1, sizeof *events);
    uint8_t random[8];
    if (!events)
        return error_memory(error, sizeof *events, "the stream of events");
    if (sodium_init() < 0) {
        free(events);
        return error_set(error, WEFT_ERROR_SYSTEM, "libsodium finds no random numbers on this machine");
    }
    events->config = *config;
    if (!events->config.count_most)
        events->config.count_most = 4096;
    if (!events->config.bytes_most)
        events->config.bytes_most = (size_t)8 << 20;
    if (!events->config.subscribers)
        events->config.subscribers = 4096;
    if (events->config.heartbeat_seconds <= 0)
        events->config.heartbeat_seconds = 15;
    events->ring = calloc(events->config.count_most, sizeof *events->ring);
    if (!events->ring) {
        size_t bytes = events->config.count_most * sizeof *events->ring;
        free(events);
        return error_memory(error, bytes, "the stream of events");
    }
    randombytes_buf(random, sizeof random);
    sodium_bin2hex(events->start, sizeof events->start, random, sizeof random);
    events->first = events->next = 1;
    pthread_mutex_init(&events->lock, NULL);
    TAILQ_INIT(&events->subscribers);
    *result = events;
    return WEFT_OK;
}

static void let_go(void *context)
{
    struct event *event = context;
    if (atomic_fetch_sub(&event->references, 1) == 1)
        free(event);
}

void events_free(struct events_stream *events)
{
    if (!events)
        return;
    for (uint64_t number = events->first; number < events->next; number++)
        let_go(events->ring[number % events->config.count_most]);
    pthread_mutex_destroy(&events->lock);
    free(events->ring);
    free(events);
}

void events_attach(struct events_stream *events, struct http_server *server)
{
    pthread_mutex_lock(&events->lock);
    events->server = server;
    pthread_mutex_unlock(&events->lock);
}

static bool is_line(const char *text)
{
    return !text[strcspn(text, "\r\n")];
}

/* With the lock held: the oldest goes. */
static void forget_oldest(struct events_stream *events)
{
    struct event **place = &events->ring[events->first++ % events->config.count_most];
    events->bytes -= (*place)->size;
    let_go(*place);
    *place = NULL;
}

static void deliver_all(void *context);

weft_status events_publish(struct events_stream *events, const char *topic, const char *kind, const char *data,
                           struct error *error)
{
    size_t topic_size = strlen(topic) + 1, kind_size = strlen(kind) + 1;
    size_t room = strlen(data) + kind_size + EVENTS_ID_BYTES + 32;
    if (!is_line(topic) || !is_line(kind) || !is_line(data))
        return error_set(error, WEFT_ERROR_ARGUMENT, "an event of kind '%s' holds a line break", kind);
    if (room > events->config.bytes_most)
        return error_set(error, WEFT_ERROR_ARGUMENT, "an event of kind '%s' has %zu bytes; at most %zu are allowed",
                         kind, room, events->config.bytes_most);
    struct event *event = malloc(sizeof *event + topic_size + kind_size + room);
    if (!event)
        return error_memory(error, room, "an event");
    char *names = (char *)(event + 1);
    memcpy(names, topic, topic_size);
    memcpy(names + topic_size, kind, kind_size);
    event->topic = names;
    event->kind = names + topic_size;
    event->text = names + topic_size + kind_size;
    atomic_init(&event->references, 1);
    pthread_mutex_lock(&events->lock);
    event->number = events->next;
    event->size = (size_t)snprintf(event->text, room, "id: %s-%llu\nevent: %s\ndata: %s\n\n", events->start,
                                   (unsigned long long)event->number, kind, data);
    while (events->next > events->first && (events->next - events->first == events->config.count_most ||
                                            events->bytes + event->size > events->config.bytes_most))
        forget_oldest(events);
    events->ring[events->next++ % events->config.count_most] = event;
    events->bytes += event->size;
    /* Within the lock, so that events_attach() can take the server away. */
    if (!events->woken && events->server)
        events->woken = http_post(events->server, &events->delivery, deliver_all, events);
    pthread_mutex_unlock(&events->lock);
    return WEFT_OK;
}

void events_newest(struct events_stream *events, char id[EVENTS_ID_BYTES])
{
    pthread_mutex_lock(&events->lock);
    snprintf(id, EVENTS_ID_BYTES, "%s-%llu", events->start, (unsigned long long)events->next - 1);
    pthread_mutex_unlock(&events->lock);
}

/* The event to send to a subscriber next, held for it; NULL: none. `*missed` receives the number of dropped events
 * before it. */
static struct event *events_stream_take_next(struct events_stream *events, struct events_stream_subscriber *subscriber,
                                             uint64_t *missed)
{
    struct event *event = NULL;
    pthread_mutex_lock(&events->lock);
    *missed = 0;
    if (subscriber->next < events->first) {
        *missed = events->first - subscriber->next;
        subscriber->next = events->first;
    }
    if (subscriber->next < events->next) {
        event = events->ring[subscriber->next++ % events->config.count_most];
        atomic_fetch_add(&event->references, 1);
    }
    pthread_mutex_unlock(&events->lock);
    return event;
}

/* The subscriber must reload its data. It continues with event number `next`. */
static void tell_missed(struct events_stream_subscriber *subscriber, uint64_t next, uint64_t missed)
{
    char text[160];
    int length = snprintf(text, sizeof text, "id: %s-%llu\nevent: missed\ndata: {\"missed\":%llu}\n\n",
                          subscriber->events->start, (unsigned long long)next - 1, (unsigned long long)missed);
    http_stream_write(subscriber->request, text, (size_t)length);
    atomic_fetch_add_explicit(&subscriber->events->missed, missed ? missed : 1, memory_order_relaxed);
}

/* Write what there is and fits. */
static void events_stream_deliver(void *context)
{
    struct events_stream_subscriber *subscriber = context;
    struct events_stream *events = subscriber->events;
    bool wrote = false;
    while (http_stream_queued(subscriber->request) < QUEUED_MOST) {
        uint64_t missed;
        uint64_t before = subscriber->next;
        struct event *event = events_stream_take_next(events, subscriber, &missed);
        if (missed > 0) {
            tell_missed(subscriber, before + missed, missed);
            wrote = true;
        }
        if (!event)
            break;
        if (subscriber->filter && !subscriber->filter(subscriber->context, event->topic, event->kind)) {
            let_go(event);
            continue;
        }
        http_stream_write_kept(subscriber->request, event->text, event->size, let_go, event);
        atomic_fetch_add_explicit(&events->delivered, 1, memory_order_relaxed);
        wrote = true;
    }
    if (wrote)
        subscriber->written = clock_now();
}

static void deliver_all(void *context)
{
    struct events_stream *events = context;
    struct events_stream_subscriber *subscriber;
    pthread_mutex_lock(&events->lock);
    events->woken = false;
    pthread_mutex_unlock(&events->lock);
    TAILQ_FOREACH(subscriber, &events->subscribers, entry)
    events_stream_deliver(subscriber);
}

static void beat(void *context)
{
    static const char comment[] = ": here\n\n";
    struct events_stream_subscriber *subscriber = context;
    uint64_t now = clock_now(), period = (uint64_t)(subscriber->events->config.heartbeat_seconds * 1e9);
    if (now < subscriber->written + period || http_stream_queued(subscriber->request) > 0)
        return;
    http_stream_write(subscriber->request, comment, sizeof comment - 1);
    subscriber->written = now;
}

static void close_subscriber(void *context)
{
    struct events_stream_subscriber *subscriber = context;
    struct events_stream *events = subscriber->events;
    TAILQ_REMOVE(&events->subscribers, subscriber, entry);
    atomic_store(&events->subscriber_count, --events->count);
    if (subscriber->release)
        subscriber->release(subscriber->context);
    free(subscriber);
}

/* Where to begin, from an id. False: it is no id of this server's start, or of what is still to come. */
static bool events_stream_find_place(struct events_stream *events, const char *id, uint64_t *place)
{
    size_t length = strlen(events->start);
    char *end = NULL;
    pthread_mutex_lock(&events->lock);
    uint64_t next = events->next;
    pthread_mutex_unlock(&events->lock);
    *place = next;
    if (!id || !*id)
        return true;
    if (strncmp(id, events->start, length) != 0 || id[length] != '-' || strlen(id) > EVENTS_ID_BYTES)
        return false;
    unsigned long long number = strtoull(id + length + 1, &end, 10);
    if (*end || id[length + 1] < '0' || id[length + 1] > '9' || number >= next)
        return false;
    *place = number + 1;
    return true;
}

void events_subscribe(struct events_stream *events, struct http_request *request, const char *after,
                      events_filter *filter, void *context, void (*release)(void *context))
{
    static const char greeting[] = "retry: 2000\n\n";
    const char *last = http_request_header(request, "Last-Event-ID");
    struct events_stream_subscriber *subscriber =
        events->count < events->config.subscribers ? calloc(1, sizeof *subscriber) : NULL;
    if (!subscriber) {
        if (release)
            release(context);
        http_reply_header(request, "Retry-After", "10");
        http_fail(request, 503, "%u readers of events are here already, which is the most", events->count);
        return;
    }
    *subscriber = (struct events_stream_subscriber){.events = events,
                                                    .request = request,
                                                    .written = clock_now(),
                                                    .filter = filter,
                                                    .context = context,
                                                    .release = release};
    bool known = events_stream_find_place(events, last ? last : after, &subscriber->next);
    TAILQ_INSERT_TAIL(&events->subscribers, subscriber, entry);
    atomic_store(&events->subscriber_count, ++events->count);
    http_reply_header(request, "X-Accel-Buffering", "no"); /* a proxy is to hand events on as they come */
    http_stream_begin(
        request, 200, "text/event-stream",
        &(struct http_stream_events){
            .drained = events_stream_deliver, .closed = close_subscriber, .idle = beat, .context = subscriber});
    http_stream_write(request, greeting, sizeof greeting - 1);
    if (!known)
        tell_missed(subscriber, subscriber->next, 0);
    events_stream_deliver(subscriber);
}

struct events_counts events_counts(struct events_stream *events)
{
    pthread_mutex_lock(&events->lock);
    uint64_t published = events->next - 1;
    pthread_mutex_unlock(&events->lock);
    return (struct events_counts){.subscribers = atomic_load(&events->subscriber_count),
                                  .published = published,
                                  .delivered = atomic_load(&events->delivered),
                                  .missed = atomic_load(&events->missed)};
}
