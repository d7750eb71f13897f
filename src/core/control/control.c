/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane's progress, failure and end. */
#include "core/control/control.h"

#include "base/thread.h"
#include "core/control/internal/plane.h"
#include "core/control/wire/address.h"
#include "core/control/wire/process_state.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define DEFAULT_CONNECT_SECONDS 30.0
#define DEFAULT_HEARTBEAT       0.1
#define DEFAULT_LIVENESS        1.5
#define CROWDED_LIVENESS        10.0 /* of a process that is runnable but does not get a processor */
#define LINGER_SECONDS          0.5  /* for neighbors to read the last bytes */
#define EVENTS                  32

/* ---- opening ---- */

static weft_status control_descriptors_open(struct control *control, const char *interface,
                                            struct endpoint_info *endpoint, struct error *error)
{
    control->epoll = epoll_create1(EPOLL_CLOEXEC);
    control->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (control->epoll < 0 || control->wake < 0)
        return error_system(error, "cannot make the control plane's descriptors");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (epoll_ctl(control->epoll, EPOLL_CTL_ADD, control->wake, &event) != 0)
        return error_system(error, "cannot watch the control plane's descriptors");
    if (control->config.ranks == 1)
        return WEFT_OK;
    char address[64];
    uint16_t port = 0;
    weft_status status = address_of_interface(interface, address, sizeof address, error);
    if (status == WEFT_OK)
        status = address_listen(address, 0, &control->listener, &port, error);
    if (status == WEFT_OK &&
        snprintf(endpoint->control, sizeof endpoint->control, strchr(address, ':') ? "[%s]:%u" : "%s:%u", address,
                 port) >= (int)sizeof endpoint->control)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "the address %s is too long for an endpoint info", address);
    return status;
}

static void control_link_end(struct link *link)
{
    stream_end(&link->stream);
    buffer_free(&link->early);
    link->open = false;
    link->ended = true;
}

static void control_free(struct control *control)
{
    for (uint32_t i = 0; i < control->link_count; i++)
        control_link_end(&control->links[i]);
    if (control->listener >= 0)
        close(control->listener);
    if (control->wake >= 0)
        close(control->wake);
    if (control->epoll >= 0)
        close(control->epoll);
    exchange_free_all(control);
    gather_free_all(control);
    log_free_all(control);
    tree_free(&control->tree);
    free(control->links);
    free(control->left);
    pthread_cond_destroy(&control->changed);
    pthread_mutex_destroy(&control->lock);
    free(control);
}

weft_status control_open(const struct control_config *config, const char *interface, struct control **result,
                         struct endpoint_info *endpoint, struct error *error)
{
    struct control *control = calloc(1, sizeof *control);
    if (!control)
        return error_memory(error, sizeof *control, "the control plane");
    control->config = *config;
    if (!(control->config.connect_limit > 0))
        control->config.connect_limit = DEFAULT_CONNECT_SECONDS;
    if (!(control->config.heartbeat > 0))
        control->config.heartbeat = DEFAULT_HEARTBEAT;
    if (!(control->config.liveness_limit > 0))
        control->config.liveness_limit = DEFAULT_LIVENESS;
    control->listener = control->epoll = control->wake = -1;
    thread_condition_init(&control->lock, &control->changed);
    weft_status status = control_descriptors_open(control, interface, endpoint, error);
    if (status != WEFT_OK) {
        control_free(control);
        return status;
    }
    *result = control;
    return WEFT_OK;
}

void control_renumber(struct control *control, uint32_t rank, uint32_t ranks, double connect_limit)
{
    control->config.rank = rank;
    control->config.ranks = ranks;
    control->config.connect_limit = connect_limit;
}

int control_take_listener(struct control *control)
{
    int listener = control->listener;
    control->listener = -1;
    return listener;
}

void control_abandon(struct control *control)
{
    if (control)
        control_free(control);
}

int control_descriptor(const struct control *control)
{
    return control->epoll;
}

static bool control_handle_frames(struct control *control, struct link *link);

/* ---- sending ---- */

/* Send a link's queued bytes, and let epoll report when there is room for the rest. */
static void control_flush(struct control *control, struct link *link)
{
    if (!link->open || stream_write(&link->stream, NULL) != WEFT_OK)
        return; /* the end of a link is handled where it is read */
    bool arm = stream_wants_write(&link->stream);
    if (arm == link->armed)
        return;
    link->armed = arm;
    struct epoll_event event = {.events = EPOLLIN | (arm ? EPOLLOUT : 0), .data.ptr = link};
    epoll_ctl(control->epoll, EPOLL_CTL_MOD, link->stream.descriptor, &event);
}

static void control_heartbeat_send(struct control *control, struct link *link);

weft_status plane_open_link(struct control *control, struct link *link, struct error *error)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = link};
    if (epoll_ctl(control->epoll, EPOLL_CTL_ADD, link->stream.descriptor, &event) != 0)
        return error_system(error, "cannot watch the connection to rank %u", link->rank);
    link->open = true;
    link->heard = link->sent = clock_now();
    buffer_put(&link->stream.out, buffer_begin(&link->early), buffer_size(&link->early));
    buffer_free(&link->early);
    control_heartbeat_send(control, link);
    control_flush(control, link);
    control_handle_frames(control, link); /* some may have come together with the proof */
    return WEFT_OK;
}

void plane_send(struct control *control, struct link *link, uint16_t kind, const void *payload, size_t size)
{
    if (!link->open) {
        if (!link->ended)
            frame_put(&link->early, kind, payload, size);
        return;
    }
    stream_put(&link->stream, kind, payload, size);
    link->sent = clock_now();
    control_flush(control, link);
}

static void control_heartbeat_send(struct control *control, struct link *link)
{
    char doing[OPERATION_TEXT_BYTES];
    struct buffer payload = {0};
    buffer_put_text(&payload, log_describe(control, doing, sizeof doing));
    plane_send(control, link, CONTROL_HEARTBEAT, buffer_begin(&payload), buffer_size(&payload));
    buffer_free(&payload);
}

void plane_flood(struct control *control, uint16_t kind, const void *payload, size_t size, const struct link *except)
{
    for (uint32_t i = 0; i < control->link_count; i++)
        if (&control->links[i] != except)
            plane_send(control, &control->links[i], kind, payload, size);
}

void plane_route(struct control *control, uint16_t kind, const void *payload, size_t size)
{
    struct reader reader = {payload, size, false};
    uint32_t next = control->tree.toward[reader_u32(&reader)];
    for (uint32_t i = 0; i < control->link_count; i++)
        if (control->links[i].rank == next)
            plane_send(control, &control->links[i], kind, payload, size);
}

/* ---- failure ---- */

static void plane_fail(struct control *control, weft_status status, const char *message, const struct link *except)
{
    if (control->failure.status != WEFT_OK)
        return;
    error_set(&control->failure, status, "%s", message);
    struct buffer payload = {0};
    buffer_put_u32(&payload, (uint32_t)status);
    buffer_put_text(&payload, control->failure.text);
    plane_flood(control, CONTROL_FAILURE, buffer_begin(&payload), buffer_size(&payload), except);
    buffer_free(&payload);
    /* Only after the frames to the neighbors are queued: a thread that sees `failed` may end the process. */
    atomic_store_explicit(&control->failed, true, memory_order_release);
    pthread_cond_broadcast(&control->changed);
    eventfd_write(control->wake, 1);
}

weft_status plane_failure(struct control *control, struct error *error)
{
    return error_set(error, control->failure.status, "%s", control->failure.text);
}

bool plane_wait(struct control *control, uint64_t deadline)
{
    atomic_fetch_add_explicit(&control->waiting, 1, memory_order_relaxed);
    const bool in_time = thread_wait_until(&control->changed, &control->lock, deadline);
    atomic_fetch_sub_explicit(&control->waiting, 1, memory_order_relaxed);
    return in_time;
}

bool control_is_waited_in(const struct control *control)
{
    return atomic_load_explicit(&control->waiting, memory_order_relaxed) > 0;
}

bool control_failed(const struct control *control)
{
    return atomic_load_explicit(&control->failed, memory_order_acquire);
}

weft_status control_failure(const struct control *control, struct error *error)
{
    /* Written once, before `failed` is set. */
    if (!control_failed(control))
        return WEFT_OK;
    return error_set(error, control->failure.status, "%s", control->failure.text);
}

void control_abort(struct control *control, weft_status status, const char *message)
{
    pthread_mutex_lock(&control->lock);
    plane_fail(control, status, message, NULL);
    pthread_mutex_unlock(&control->lock);
}

void control_on_failure(struct control *control, void (*callback)(void *context), void *context)
{
    pthread_mutex_lock(&control->lock);
    control->callback = callback;
    control->callback_context = context;
    pthread_mutex_unlock(&control->lock);
    eventfd_write(control->wake, 1);
}

uint64_t control_exchange_frames(struct control *control)
{
    pthread_mutex_lock(&control->lock);
    uint64_t frames = control->exchange_frames;
    pthread_mutex_unlock(&control->lock);
    return frames;
}

/* A neighbor is dead. The message names only the victim, so that all its neighbors build the same message. */
static void control_fail_dead_peer(struct control *control, const struct link *link, const char *how)
{
    const struct endpoint_info *endpoint = &control->endpoints[link->rank];
    char message[ERROR_TEXT_BYTES], doing[OPERATION_TEXT_BYTES + 128] = "";
    if (link->told)
        snprintf(doing, sizeof doing, "; by its last heartbeat, %.2f s before, it %s%s",
                 (double)(clock_now() - link->told) * 1e-9,
                 *link->doing ? "was " : "had not begun any operation; nothing is known of the time since then",
                 link->doing);
    snprintf(message, sizeof message, "rank %u on host %s (process %d) %s%s", link->rank, endpoint->host,
             endpoint->process, how, doing);
    plane_fail(control, WEFT_ERROR_PEER, message, NULL);
}

/* ---- receiving ---- */

/* Pass READY up once all children's subtrees are leaving, and RELEASE down once the parent has released this rank. */
static void control_closing_advance(struct control *control)
{
    if (!control->closing || control->release_seen)
        return;
    struct link *parent = NULL;
    for (uint32_t i = 0; i < control->link_count; i++) {
        if (control->links[i].rank == control->tree.parent)
            parent = &control->links[i];
        else if (!control->links[i].ready)
            return;
    }
    if (parent && !parent->ready) {
        parent->ready = true; /* READY is sent once */
        plane_send(control, parent, CONTROL_READY, NULL, 0);
    }
    if (parent && !parent->released)
        return;
    for (uint32_t i = 0; i < control->link_count; i++) {
        if (&control->links[i] != parent)
            plane_send(control, &control->links[i], CONTROL_RELEASE, NULL, 0);
        control->links[i].released = true;
    }
    control->release_seen = true;
}

static bool control_left_handle(struct control *control, struct link *link, const struct frame *frame)
{
    struct reader reader = {frame->payload, frame->size, false};
    uint32_t rank = reader_u32(&reader);
    if (reader.bad || reader.left > 0 || rank >= control->config.ranks)
        return false;
    if (control->left[rank])
        return true;
    control->left[rank] = true;
    plane_flood(control, CONTROL_LEAVING, frame->payload, frame->size, link);
    exchange_note_left(control, rank);
    pthread_cond_broadcast(&control->changed);
    return true;
}

/* Handle a routed frame for this rank, or pass it on. */
static bool control_routed_handle(struct control *control, const struct frame *frame)
{
    struct reader reader = {frame->payload, frame->size, false};
    uint32_t destination = reader_u32(&reader), source = reader_u32(&reader);
    if (reader.bad || destination >= control->config.ranks || source >= control->config.ranks)
        return false;
    if (destination != control->config.rank) {
        plane_route(control, frame->kind, frame->payload, frame->size);
        return true;
    }
    switch (frame->kind) {
    case CONTROL_BLOB:
        control->exchange_frames++;
        return exchange_receive_routed_blob(control, source, reader);
    case CONTROL_TABLE:
        control->exchange_frames++;
        return exchange_receive_table(control, reader);
    case CONTROL_ASK:
        return log_receive_ask(control, source, reader);
    default:
        return log_receive_answer(control, source, reader);
    }
}

static bool control_handle(struct control *control, struct link *link, const struct frame *frame)
{
    struct reader reader = {frame->payload, frame->size, false};
    char message[ERROR_TEXT_BYTES];
    uint32_t status;
    switch (frame->kind) {
    case CONTROL_HEARTBEAT:
        reader_text(&reader, link->doing, sizeof link->doing);
        link->told = clock_now();
        return !reader.bad;
    case CONTROL_FAILURE:
        status = reader_u32(&reader);
        reader_text(&reader, message, sizeof message);
        if (reader.bad || !*message)
            return false;
        plane_fail(control, stream_failure(status), message, link);
        return true;
    case CONTROL_LEAVING:
        return control_left_handle(control, link, frame);
    case CONTROL_READY:
        link->ready = true;
        control_closing_advance(control);
        return true;
    case CONTROL_RELEASE:
        link->released = true;
        control_closing_advance(control);
        return true;
    case CONTROL_GATHER:
        control->exchange_frames++;
        return gather_receive(control, reader);
    case CONTROL_SPREAD:
        control->exchange_frames++;
        return exchange_receive_spread(control, link, reader);
    case CONTROL_FLUSH:
        return gather_receive_flush(control, link, reader);
    case CONTROL_BLOB:
    case CONTROL_TABLE:
    case CONTROL_ASK:
    case CONTROL_ANSWER:
        return control_routed_handle(control, frame);
    default:
        return false;
    }
}

/* Handle all complete frames; false after a malformed one. */
static bool control_handle_frames(struct control *control, struct link *link)
{
    struct frame frame;
    int found = 0;
    bool good = true;
    while (good && (found = stream_peek(&link->stream, &frame)) == 1) {
        good = control_handle(control, link, &frame);
        stream_drop(&link->stream, &frame);
    }
    if (found == 0 && good)
        return true;
    control_fail_dead_peer(control, link, "sent a malformed frame; do all hosts have the same build of Weft?");
    return false;
}

static void plane_receive(struct control *control, struct link *link)
{
    weft_status status = stream_read(&link->stream, NULL);
    link->heard = clock_now();
    bool good = control_handle_frames(control, link);
    if (good && status != WEFT_OK && !link->released)
        control_fail_dead_peer(control, link,
                               link->stream.broken_off ? "cannot be reached any more: the network to its host is down"
                                                       : "died, or ended without weft_finalize(): its connection "
                                                         "closed without a farewell");
    if (status == WEFT_OK && good)
        return;
    epoll_ctl(control->epoll, EPOLL_CTL_DEL, link->stream.descriptor, NULL);
    control_link_end(link);
}

/* ---- progress ---- */

static void control_events_handle(struct control *control)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(control->epoll, events, EVENTS, 0);
    for (int i = 0; i < count; i++) {
        struct link *link = events[i].data.ptr;
        eventfd_t ignored;
        if (!link)
            eventfd_read(control->wake, &ignored);
        else if (link->open && (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
            plane_receive(control, link);
        if (link && link->open)
            control_flush(control, link);
    }
}

/*
 * Seconds that a neighbor may be silent. A process of this host that is runnable is not dead but waits for a processor,
 * so it gets more time.
 */
static double control_silence_limit(const struct control *control, const struct link *link)
{
    const struct endpoint_info *endpoint = &control->endpoints[link->rank],
                               *own = &control->endpoints[control->config.rank];
    double limit = control->config.liveness_limit;
    if (limit < CROWDED_LIVENESS && strcmp(endpoint->host, own->host) == 0 && process_is_well(endpoint->process))
        return CROWDED_LIVENESS;
    return limit;
}

static void control_judge_silence(struct control *control, struct link *link, uint64_t now)
{
    double limit = control->config.liveness_limit;
    if (now <= link->heard + (uint64_t)(limit * 1e9))
        return;
    limit = control_silence_limit(control, link);
    if (now <= link->heard + (uint64_t)(limit * 1e9))
        return;
    char how[160];
    snprintf(how, sizeof how,
             "has shown no sign of life for %g s: it is stopped, or its host or the network to it is down", limit);
    control_fail_dead_peer(control, link, how);
}

/* Send heartbeats and check for silent neighbors. Returns the nanoseconds until the next of either is due. */
static uint64_t control_heartbeats_keep(struct control *control, uint64_t now)
{
    uint64_t beat = (uint64_t)(control->config.heartbeat * 1e9),
             limit = (uint64_t)(control->config.liveness_limit * 1e9);
    uint64_t next = UINT64_MAX;
    /* If this process itself was stopped, it cannot judge the silence of others: restart all their limits. */
    bool was_stopped = now - control->progressed > limit / 2 + beat;
    control->progressed = now;
    for (uint32_t i = 0; i < control->link_count; i++) {
        struct link *link = &control->links[i];
        if (!link->open)
            continue;
        if (was_stopped && link->heard < now)
            link->heard = now;
        if (now >= link->sent + beat)
            control_heartbeat_send(control, link);
        control_judge_silence(control, link, now);
        if (link->sent + beat < next)
            next = link->sent + beat;
        if (link->heard + limit > now && link->heard + limit < next)
            next = link->heard + limit;
    }
    return next > now ? next - now : 0;
}

int control_progress(struct control *control)
{
    pthread_mutex_lock(&control->lock);
    control_events_handle(control);
    uint64_t next = control_heartbeats_keep(control, clock_now());
    void (*callback)(void *context) = NULL;
    if (control->failure.status != WEFT_OK && control->callback && !control->called) {
        callback = control->callback;
        control->called = true;
    }
    void *context = control->callback_context;
    pthread_mutex_unlock(&control->lock);
    if (callback)
        callback(context);
    log_deliver(control);
    return next == UINT64_MAX ? -1 : (int)(next / 1000000) + 1;
}

/* ---- closing ---- */

/*
 * Give neighbors time to read the last frames: closing a socket that has unread bytes resets it, and the frames are
 * lost.
 */
static void control_sent_drain(struct control *control)
{
    uint64_t end = clock_after(LINGER_SECONDS);
    for (uint32_t i = 0; i < control->link_count; i++) {
        struct stream *stream = &control->links[i].stream;
        if (!control->links[i].open)
            continue;
        for (uint64_t now = clock_now(); stream_wants_write(stream) && now < end; now = clock_now()) {
            struct pollfd wait = {stream->descriptor, POLLOUT, 0};
            if (poll(&wait, 1, (int)((end - now) / 1000000) + 1) <= 0 || stream_write(stream, NULL) != WEFT_OK)
                break;
        }
        shutdown(stream->descriptor, SHUT_WR);
    }
    for (uint32_t i = 0; i < control->link_count; i++) {
        struct pollfd wait = {control->links[i].stream.descriptor, POLLIN, 0};
        char ignored[4096];
        ssize_t n = 1;
        while (control->links[i].open && n > 0 && clock_now() < end) {
            if (poll(&wait, 1, (int)((end - clock_now()) / 1000000)) <= 0)
                break;
            n = recv(wait.fd, ignored, sizeof ignored, MSG_DONTWAIT);
        }
    }
}

void control_close(struct control *control)
{
    if (!control)
        return;
    pthread_mutex_lock(&control->lock);
    control->closing = true;
    if (control->left && !control->left[control->config.rank]) {
        struct buffer payload = {0};
        buffer_put_u32(&payload, control->config.rank);
        control->left[control->config.rank] = true;
        plane_flood(control, CONTROL_LEAVING, buffer_begin(&payload), buffer_size(&payload), NULL);
        buffer_free(&payload);
    }
    control_closing_advance(control);
    pthread_mutex_unlock(&control->lock);
    while (!control->release_seen && !control_failed(control)) {
        int timeout = control_progress(control);
        struct pollfd wait = {control->epoll, POLLIN, 0};
        if (!control->release_seen && !control_failed(control))
            poll(&wait, 1, timeout);
    }
    control_sent_drain(control);
    control_free(control);
}
