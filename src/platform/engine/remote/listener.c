/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that speaks to hosts: their connections, what they send, and what they get. */
#include "base/clock.h"
#include "platform/agent/order.h"
#include "platform/engine/remote/internal/state.h"
#include "platform/registry/secret_store.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#define TICK_SECONDS    0.5
#define HELLO_SECONDS   10.0 /* for a connection to say whose it is */
#define STRANGERS_MOST  1024 /* connections that have not said so */
#define LATE_SECONDS    2.0  /* a tick that comes so late says that this machine was busy, not that hosts are lost */
#define WAITING_STREAMS ((size_t)16 << 20)
#define OUTPUT_SPARE                                                                                                   \
    ((size_t)64 << 20)  /* bytes of output beyond what a node keeps, until it says what it has dropped */
#define HELLO_MOST 4096 /* bytes of the first message */

/* A connection. */
struct remote_link {
    struct remote *remote;
    struct tls_stream *stream;
    struct remote_node *node; /* NULL: it has not said whose it is, or is being closed */
    uint64_t opened_at;
    bool ordered; /* it has its order, and has said what it holds */
    struct remote_files files;
    struct remote_link *next;
};

static void close_link(struct remote_link *link, bool finish)
{
    struct remote_link **at = &link->remote->links;
    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    if (link->node) {
        remote_relays_lose(link->remote, link->node);
        link->node->link = NULL;
    }
    if (finish)
        tls_stream_finish(link->stream);
    else
        tls_stream_free(link->stream);
    free(link);
}

void remote_link_send(struct remote_link *link, uint16_t kind, struct buffer *payload)
{
    tls_stream_send_buffer(link->stream, kind, payload);
}

static void refuse_link(struct remote_link *link, const char *message)
{
    struct buffer payload = {0};
    buffer_put_text(&payload, message);
    tls_stream_send_buffer(link->stream, REMOTE_REFUSED, &payload);
    close_link(link, true);
}

/* Something went wrong here that may be over soon: the host tries again. */
static void put_off(struct remote_link *link, const struct error *error)
{
    fprintf(stderr, "weft: %s\n", error->text);
    close_link(link, false);
}

/* ---- the first message ---- */

/* The node of an attempt on a host. Errors: STATE. */
static weft_status find_by_host(struct remote *remote, const struct attempt *attempt, const char *host,
                                struct remote_node **node, struct error *error)
{
    uint32_t nodes;
    weft_status status = engine_directory_nodes(remote->directory, attempt, &nodes, error);
    for (uint32_t i = 0; status == WEFT_OK && i < nodes; i++) {
        status = remote_node_find(remote, attempt, i, node, error);
        if (status == WEFT_OK && strcmp((*node)->host, host) == 0)
            return WEFT_OK;
    }
    return status == WEFT_OK
               ? error_set(error, WEFT_ERROR_STATE, "no node of attempt %" PRIu64 " of run %s is on host %s",
                           attempt->epoch, attempt->run, host)
               : status;
}

/* Errors: STATE: there is no such attempt, or it has another token; SYSTEM. */
static weft_status check_token(const struct remote *remote, const struct attempt *attempt, const char *token,
                               struct error *error)
{
    char directory[FILE_PATH_BYTES], path[FILE_PATH_BYTES], *text = NULL;
    size_t size = 0;
    if (!attempt_is_valid(attempt))
        return error_set(error, WEFT_ERROR_STATE, "that is no name of an attempt");
    weft_status status = node_directory(directory, remote->directory, attempt, ATTEMPT_NODES_MOST, error);
    if (status == WEFT_OK)
        status = file_join(path, directory, "token", error);
    if (status == WEFT_OK && access(path, F_OK) != 0 && errno == ENOENT)
        return error_set(error, WEFT_ERROR_STATE, "the server does not know this attempt any more");
    if (status == WEFT_OK)
        status = file_read(path, 256, &text, &size, error);
    if (status != WEFT_OK)
        return status;
    if (size != strlen(token) || size != REMOTE_TOKEN_BYTES - 1 || sodium_memcmp(text, token, size) != 0)
        status = error_set(error, WEFT_ERROR_STATE, "this is not the token of the attempt");
    free(text);
    return status;
}

/* The values of the secrets that an order names; those that cannot be read are left out, as in platform/agent/agent.c. */
static void put_secrets(struct buffer *payload, const struct node_order *order)
{
    struct string_list values = {0};
    for (uint32_t i = 0; i < order->secrets.count; i++) {
        const char *entry = order->secrets.items[i], *place = strchr(entry, '=') + 1;
        char *value, *variable;
        size_t size;
        if (secret_store_get(order->secret_directory, place, &value, &size, NULL) != WEFT_OK)
            continue;
        if (asprintf(&variable, "%.*s%s", (int)(place - entry), entry, value) >= 0) {
            payload->failed |= string_list_add(&values, variable, NULL) != WEFT_OK;
            sodium_memzero(variable, strlen(variable));
            free(variable);
        }
        sodium_memzero(value, size);
        free(value);
    }
    order_strings_put(payload, &values);
    for (uint32_t i = 0; i < values.count; i++)
        sodium_memzero(values.items[i], strlen(values.items[i]));
    string_list_free(&values);
}

/* A stop that was asked for; also to a host that only prepares its node. */
static bool say_stop(struct remote_link *link)
{
    struct buffer payload = {0};
    struct node_stop stop;
    bool found;
    if (node_stop_load(link->node->directory, &stop, &found, NULL) != WEFT_OK)
        return false; /* at the next tick */
    if (!found)
        return true;
    buffer_put_u32(&payload, (uint32_t)stop.signal);
    buffer_put_u64(&payload, stop.grace);
    tls_stream_send_buffer(link->stream, REMOTE_STOP, &payload);
    return true;
}

static void send_order(struct remote_link *link, struct error *error)
{
    struct node_order order;
    struct buffer bytes = {0}, payload = {0};
    if (remote_files_load(link->remote, &link->node->attempt, &link->files, error) != WEFT_OK ||
        node_order_load(link->node->directory, &order, error) != WEFT_OK) {
        put_off(link, error);
        return;
    }
    node_order_pack(&order, &bytes);
    buffer_put_u32(&payload, (uint32_t)buffer_size(&bytes));
    buffer_put(&payload, buffer_begin(&bytes), buffer_size(&bytes));
    put_secrets(&payload, &order);
    buffer_put_u32(&payload, link->files.storage);
    buffer_put_text(&payload, link->files.text);
    payload.failed = payload.failed || bytes.failed;
    buffer_free(&bytes);
    node_order_free(&order);
    tls_stream_send_buffer(link->stream, REMOTE_ORDER, &payload);
    say_stop(link);
}

/* What a host may not have: NULL, it is welcome. */
static const char *why_refused(const struct remote *remote, const struct remote_node *node, const char *instance)
{
    uint64_t fence = 0;
    if (*node->instance && strcmp(node->instance, instance) != 0)
        return "another process has this node already";
    if (node_fence_read(remote->directory, node->attempt.run, &fence, NULL) == WEFT_OK && fence > node->attempt.epoch)
        return "a newer attempt of the run exists";
    return node->to_refuse ? "it was given up" : NULL;
}

static void link_hear_hello(struct remote_link *link, struct reader *reader)
{
    struct remote *remote = link->remote;
    struct attempt attempt = {0};
    char host[REMOTE_HOST_BYTES], token[REMOTE_TOKEN_BYTES + 1], instance[REMOTE_INSTANCE_BYTES + 1];
    struct error error = {0};
    struct remote_node *node = NULL;
    const uint32_t version = reader_u32(reader);
    reader_text(reader, attempt.run, sizeof attempt.run);
    attempt.epoch = reader_u64(reader);
    reader_text(reader, host, sizeof host);
    reader_text(reader, token, sizeof token);
    reader_text(reader, instance, sizeof instance);
    if (reader->bad || version != REMOTE_VERSION || strlen(instance) != REMOTE_INSTANCE_BYTES - 1) {
        refuse_link(link, "the weft on this host is of another version than the server");
        return;
    }
    weft_status status = check_token(remote, &attempt, token, &error);
    if (status == WEFT_OK)
        status = find_by_host(remote, &attempt, host, &node, &error);
    const char *why = status == WEFT_ERROR_STATE ? error.text
                      : status == WEFT_OK        ? why_refused(remote, node, instance)
                                                 : NULL;
    if (why) {
        refuse_link(link, why);
        return;
    }
    if (status != WEFT_OK) {
        put_off(link, &error);
        return;
    }
    if (node->journal.ended) { /* only its end did not reach the host */
        tls_stream_send(link->stream, *node->instance ? REMOTE_FORGET : REMOTE_REFUSED, NULL, 0);
        close_link(link, true);
        return;
    }
    if (!*node->instance && remote_node_bind(node, instance, &error) != WEFT_OK) {
        put_off(link, &error);
        return;
    }
    tls_stream_set_most(link->stream, REMOTE_FRAME_MOST);
    if (node->link) /* the same process, which has found its former connection broken */
        close_link(node->link, false);
    link->node = node;
    node->link = link;
    node->silent_at = clock_after(REMOTE_LOSS_SECONDS);
    send_order(link, &error);
}

/* ---- what hosts send ---- */

static void say_taken(struct remote_link *link)
{
    struct buffer payload = {0};
    buffer_put_u64(&payload, link->node->journal.next - 1);
    tls_stream_send_buffer(link->stream, REMOTE_TAKEN, &payload);
}

/* Say to the host what was ordered since it was last connected. */
static void say_orders(struct remote_link *link)
{
    struct remote_node *node = link->node;
    struct buffer payload = {0};
    char message[ERROR_TEXT_BYTES];
    bool found;
    node->to_stop = !say_stop(link);
    if (node_remark_take(node->directory, message, sizeof message, &found, NULL) == WEFT_OK && found) {
        buffer_put_text(&payload, message);
        tls_stream_send_buffer(link->stream, REMOTE_REMARK, &payload);
    }
    node->to_remark = false;
}

static void hear_held(struct remote_link *link)
{
    link->ordered = true;
    say_taken(link);
    say_orders(link);
}

/* It could not start the node, or was asked to stop before it had. */
static void hear_failed(struct remote_link *link, struct reader *reader)
{
    const bool stopped = reader_u32(reader) != 0;
    const struct journal_record end = {
        .kind = JOURNAL_EXITED,
        .exited = {.code = EX_TEMPFAIL, .cause = stopped ? JOURNAL_STOPPED : JOURNAL_NOT_STARTED}};
    char message[ERROR_TEXT_BYTES];
    struct error error = {0};
    reader_text(reader, message, sizeof message);
    if (remote_node_end(link->remote, link->node, &end, message, &error) != WEFT_OK) {
        fprintf(stderr, "weft: %s\n", error.text);
        close_link(link, false); /* the host says it again */
        return;
    }
    tls_stream_send(link->stream, REMOTE_FORGET, NULL, 0);
}

/* Keep what a node's journal has, and say so: the host then sends more. */
static void link_hear_records(struct remote_link *link, const struct frame *frame)
{
    struct remote_node *node = link->node;
    struct journal_record record;
    struct error error = {0};
    size_t used;
    weft_status status = WEFT_OK;
    for (size_t at = 0; at < frame->size && status == WEFT_OK; at += used) {
        if (journal_get(frame->payload + at, frame->size - at, &record, &used) != JOURNAL_FOUND ||
            record.sequence > INT64_MAX || node->journal.kept > node->journal.limits.output_bytes + OUTPUT_SPARE) {
            refuse_link(link, "it sends what no agent does");
            return;
        }
        status = journal_append_copy(&node->journal, &record, &error);
        if (status == WEFT_OK && (record.kind == JOURNAL_STARTED || journal_is_end(record.kind)))
            status = journal_sync(&node->journal, &error);
    }
    remote_node_tell(link->remote, node);
    if (status != WEFT_OK) { /* the disk is full: the host keeps it, and sends it again */
        fprintf(stderr, "weft: %s\n", error.text);
        close_link(link, false);
        return;
    }
    say_taken(link);
    if (node->journal.ended) {
        node->silent_at = 0;
        remote_node_note_end(node);
        tls_stream_send(link->stream, REMOTE_FORGET, NULL, 0);
    }
}

/* Without the lock, because it reads from a disk. */
static void hear_want(struct remote_link *link, struct reader *reader)
{
    struct buffer piece = {0};
    if (tls_stream_queued(link->stream) > WAITING_STREAMS)
        return; /* it asks for more than it may */
    remote_files_answer(&link->files, reader, &piece);
    tls_stream_send_buffer(link->stream, REMOTE_PART, &piece);
}

static void link_frame(void *context, const struct frame *frame)
{
    struct remote_link *link = context;
    struct remote *remote = link->remote;
    struct reader reader = {frame->payload, frame->size, false};
    pthread_mutex_lock(&remote->lock);
    if (link->node && !link->node->journal.ended)
        link->node->silent_at = clock_after(REMOTE_LOSS_SECONDS);
    const bool wants = frame->kind == REMOTE_WANT && link->node;
    if (frame->kind == REMOTE_HELLO && !link->node)
        link_hear_hello(link, &reader);
    else if (!link->node)
        close_link(link, false);
    else if (frame->kind == REMOTE_HELD)
        hear_held(link);
    else if (frame->kind == REMOTE_RECORDS && link->ordered)
        link_hear_records(link, frame);
    else if (frame->kind == REMOTE_FAILED && !link->ordered)
        hear_failed(link, &reader);
    else if (frame->kind >= REMOTE_EXEC)
        remote_relay_hear(remote, link->node, frame);
    pthread_mutex_unlock(&remote->lock);
    if (wants)
        hear_want(link, &reader);
}

static void link_closed(void *context, const char *reason)
{
    struct remote_link *link = context;
    struct remote *remote = link->remote;
    (void)reason;
    pthread_mutex_lock(&remote->lock);
    close_link(link, false);
    pthread_mutex_unlock(&remote->lock);
}

/* Of too many connections that have not said what they are for, the oldest is closed. */
static void make_room_for_stranger(struct remote *remote)
{
    struct remote_link *oldest = NULL;
    uint32_t strangers = 0;
    pthread_mutex_lock(&remote->lock);
    for (struct remote_link *each = remote->links; each; each = each->next)
        if (!each->node) {
            strangers++;
            oldest = each; /* new ones are put at the front */
        }
    if (strangers >= STRANGERS_MOST)
        close_link(oldest, false);
    pthread_mutex_unlock(&remote->lock);
}

static void accept_link(evutil_socket_t listening, short what, void *context)
{
    static const struct tls_stream_calls calls = {.frame = link_frame, .closed = link_closed};
    struct remote *remote = context;
    (void)what;
    for (int descriptor; (descriptor = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;) {
        make_room_for_stranger(remote);
        struct remote_link *link = calloc(1, sizeof *link);
        if (!link) {
            close(descriptor);
            continue;
        }
        *link = (struct remote_link){.remote = remote, .opened_at = clock_now()};
        if (tls_stream_new(remote->base, descriptor, remote->tls, true, &calls, link, &link->stream, NULL) != WEFT_OK) {
            free(link);
            continue;
        }
        tls_stream_set_most(link->stream, HELLO_MOST);
        pthread_mutex_lock(&remote->lock);
        link->next = remote->links;
        remote->links = link;
        pthread_mutex_unlock(&remote->lock);
    }
    if (errno == EMFILE || errno == ENFILE) /* until the next tick, as it would be readable all the time */
        event_del(remote->accept_event);
}

/* ---- what hosts get ---- */

static void listener_woken(evutil_socket_t wake, short what, void *context)
{
    struct remote *remote = context;
    uint64_t rung;
    (void)what;
    if (read(wake, &rung, sizeof rung) < 0)
        return;
    pthread_mutex_lock(&remote->lock);
    if (remote->stopping)
        event_base_loopbreak(remote->base);
    for (struct remote_node *node = remote->nodes; node; node = node->next) {
        if (node->to_refuse && node->link)
            refuse_link(node->link, "a newer attempt of the run exists, or it was given up");
        else if ((node->to_stop || node->to_remark) && node->link && node->link->ordered)
            say_orders(node->link);
        else if (node->to_stop && node->link)
            say_stop(node->link);
    }
    remote_relays_begin(remote);
    pthread_mutex_unlock(&remote->lock);
}

/* A host that has been silent for too long is lost. */
static void look_for_silence(struct remote *remote, uint64_t now)
{
    static const struct journal_record lost = {.kind = JOURNAL_LOST};
    const bool late = now > remote->ticked_at + (uint64_t)(LATE_SECONDS * 1e9);
    for (struct remote_node *node = remote->nodes; node; node = node->next) {
        char reason[REMOTE_HOST_BYTES + 96];
        if (!node->silent_at || node->journal.ended)
            continue;
        if (late && node->silent_at < now + (uint64_t)(REMOTE_LOSS_SECONDS * 1e9))
            node->silent_at = now + (uint64_t)(REMOTE_LOSS_SECONDS * 1e9);
        if (now < node->silent_at)
            continue;
        snprintf(reason, sizeof reason, "host %s has not been heard for %.0f seconds", node->host, REMOTE_LOSS_SECONDS);
        (void)remote_node_end(remote, node, &lost, reason, NULL); /* if that fails, at the next tick */
        if (node->link)
            refuse_link(node->link, "it was not heard for too long, and counts as lost");
    }
}

static void listener_tick(evutil_socket_t none, short what, void *context)
{
    struct remote *remote = context;
    const uint64_t now = clock_now();
    (void)none;
    (void)what;
    pthread_mutex_lock(&remote->lock);
    look_for_silence(remote, now);
    for (struct remote_link *link = remote->links, *next; link; link = next) {
        next = link->next;
        if (!link->node && now > link->opened_at + (uint64_t)(HELLO_SECONDS * 1e9)) {
            close_link(link, false);
            continue;
        }
        if (link->node && tls_stream_queued(link->stream) < WAITING_STREAMS)
            tls_stream_send(link->stream, REMOTE_ALIVE, NULL, 0);
        if (link->node && link->node->to_stop && link->ordered)
            say_orders(link);
    }
    remote->ticked_at = now;
    event_add(remote->accept_event, NULL);
    pthread_mutex_unlock(&remote->lock);
}

void remote_listener_wake(struct remote *remote)
{
    const uint64_t one = 1;
    if (write(remote->wake, &one, sizeof one) < 0 && errno != EAGAIN)
        perror("weft: the descriptor of an engine");
}

static void *listener_run(void *context)
{
    struct remote *remote = context;
    event_base_dispatch(remote->base);
    return NULL;
}

static bool add_event(struct event *event, double seconds)
{
    const struct timeval time = {(time_t)seconds, (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)};
    return event && event_add(event, seconds > 0 ? &time : NULL) == 0;
}

weft_status remote_listener_start(struct remote *remote, struct error *error)
{
    sigset_t all, before;
    remote->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    remote->base = event_base_new();
    remote->ticked_at = clock_now();
    if (remote->wake < 0 || !remote->base)
        return error_system(error, "cannot make an event loop");
    remote->wake_event = event_new(remote->base, remote->wake, EV_READ | EV_PERSIST, listener_woken, remote);
    remote->accept_event = event_new(remote->base, remote->listening, EV_READ | EV_PERSIST, accept_link, remote);
    remote->tick_event = event_new(remote->base, -1, EV_PERSIST, listener_tick, remote);
    if (!add_event(remote->wake_event, 0) || !add_event(remote->accept_event, 0) ||
        !add_event(remote->tick_event, TICK_SECONDS))
        return error_memory(error, sizeof(void *), "an event loop");
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const int failed = pthread_create(&remote->thread, NULL, listener_run, remote);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        errno = failed;
        return error_system(error, "cannot start the thread that speaks to hosts");
    }
    remote->started = true;
    return WEFT_OK;
}

static void free_event(struct event *event)
{
    if (event)
        event_free(event);
}

void remote_listener_stop(struct remote *remote)
{
    if (remote->started) {
        pthread_mutex_lock(&remote->lock);
        remote->stopping = true;
        pthread_mutex_unlock(&remote->lock);
        remote_listener_wake(remote);
        pthread_join(remote->thread, NULL);
    }
    while (remote->links)
        close_link(remote->links, false);
    remote_relays_free(remote);
    free_event(remote->wake_event);
    free_event(remote->accept_event);
    free_event(remote->tick_event);
    if (remote->base)
        event_base_free(remote->base);
    file_close(remote->wake);
}
