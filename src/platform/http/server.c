/* SPDX-License-Identifier: Apache-2.0 */
/* Listening, the thread and its loop, and what the application watches in it. */
#include "platform/http/internal/server_state.h"

#include "base/thread.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

/* Whether all addresses of `host` are this machine's own. */
static bool http_server_is_loopback(const char *host)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    if (getaddrinfo(host, NULL, &hints, &list) != 0)
        return false;
    bool loopback = list;
    for (struct addrinfo *each = list; each; each = each->ai_next) {
        if (each->ai_family == AF_INET)
            loopback &= ntohl(((struct sockaddr_in *)each->ai_addr)->sin_addr.s_addr) >> 24 == 127;
        else if (each->ai_family == AF_INET6)
            loopback &= IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)each->ai_addr)->sin6_addr);
        else
            loopback = false;
    }
    freeaddrinfo(list);
    return loopback;
}

/* The address that limits count: IPv4 in full, of IPv6 the network of 64 bits, as that is what one client has. */
static void address_text(const struct sockaddr *address, char text[INET6_ADDRSTRLEN])
{
    snprintf(text, INET6_ADDRSTRLEN, "unknown");
    if (address->sa_family == AF_INET) {
        inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, text, INET6_ADDRSTRLEN);
    } else if (address->sa_family == AF_INET6) {
        struct in6_addr six = ((const struct sockaddr_in6 *)address)->sin6_addr;
        if (IN6_IS_ADDR_V4MAPPED(&six)) {
            inet_ntop(AF_INET, six.s6_addr + 12, text, INET6_ADDRSTRLEN);
            return;
        }
        if (!IN6_IS_ADDR_LOOPBACK(&six))
            memset(six.s6_addr + 8, 0, 8);
        inet_ntop(AF_INET6, &six, text, INET6_ADDRSTRLEN);
    }
}

static void on_connection(struct evconnlistener *listener, evutil_socket_t descriptor, struct sockaddr *address,
                          int length, void *context)
{
    char text[INET6_ADDRSTRLEN];
    address_text(address, text);
    const struct http_listener *listening = context;
    http_connection_open(listening->server, &listening->application, descriptor, text);
}

/* No descriptors are left, say: wait a little instead of turning in circles. */
static void on_listening_failed(struct evconnlistener *listener, void *context)
{
    const struct http_listener *listening = context;
    const struct timeval soon = {0, 100000};
    evconnlistener_disable(listener);
    event_add(listening->server->resume_event, &soon);
}

static void on_resume(evutil_socket_t descriptor, short what, void *context)
{
    const struct http_server *server = context;
    for (struct http_listener *each = server->listeners; each; each = each->next)
        evconnlistener_enable(each->listener);
}

static void on_sweep(evutil_socket_t descriptor, short what, void *context)
{
    struct http_server *server = context;
    struct http_connection *connection = TAILQ_FIRST(&server->connections);
    uint64_t now = clock_now();
    /* A connection that changes its state goes to the end, where it is met again, which does no harm; only the one that
     * is looked at can be closed by that. */
    for (uint32_t left = server->connection_count; connection && left > 0; left--) {
        struct http_connection *next = TAILQ_NEXT(connection, entry);
        http_connection_sweep(connection, now);
        connection = next;
    }
}

static void run_posted(struct http_server *server)
{
    for (;;) {
        pthread_mutex_lock(&server->lock);
        struct http_posted *first = server->posted;
        const struct http_posted posted = first ? *first : (struct http_posted){0};
        if (first && !(server->posted = first->next))
            server->last_posted = &server->posted;
        pthread_mutex_unlock(&server->lock);
        if (!first)
            return;
        posted.function(posted.context); /* which may free the place */
    }
}

static void on_wake(evutil_socket_t descriptor, short what, void *context)
{
    struct http_server *server = context;
    eventfd_t count;
    eventfd_read(server->wake, &count);
    run_posted(server);
    pthread_mutex_lock(&server->lock);
    bool stopping = server->stopping;
    pthread_mutex_unlock(&server->lock);
    if (stopping)
        event_base_loopbreak(server->base);
}

bool http_post(struct http_server *server, struct http_posted *posted, void (*function)(void *context), void *context)
{
    *posted = (struct http_posted){.function = function, .context = context};
    pthread_mutex_lock(&server->lock);
    const bool open = !server->stopping;
    if (open) {
        *server->last_posted = posted;
        server->last_posted = &posted->next;
    }
    pthread_mutex_unlock(&server->lock);
    if (open)
        eventfd_write(server->wake, 1);
    return open;
}

static void end_all(struct http_server *server)
{
    struct http_connection *connection;
    struct http_request *request;
    for (struct http_listener *each = server->listeners; each; each = each->next)
        evconnlistener_disable(each->listener);
    while ((connection = TAILQ_FIRST(&server->connections)))
        http_connection_close(connection);
    run_posted(server);
    if (server->base) /* connections whose callbacks are still to come are freed after them */
        event_base_loop(server->base, EVLOOP_NONBLOCK);
    while ((request = LIST_FIRST(&server->requests)))
        http_request_free(request);
}

static void *http_server_serve(void *context)
{
    struct http_server *server = context;
    event_base_loop(server->base, EVLOOP_NO_EXIT_ON_EMPTY);
    end_all(server); /* here, where SIGPIPE is blocked, and where the application expects its calls */
    return NULL;
}

static void complete_limits(struct http_limits *limits)
{
    struct rlimit files;
    if (!limits->connections)
        limits->connections = 4096;
    if (!limits->files_kept)
        limits->files_kept = HTTP_FILES_KEPT;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY) {
        const rlim_t kept = limits->files_kept;
        rlim_t room = files.rlim_cur > 2 * kept ? files.rlim_cur - kept : files.rlim_cur / 2;
        if (room < limits->connections)
            limits->connections = (uint32_t)room;
    }
    if (!limits->address_connections)
        limits->address_connections = 512;
    if (!limits->head_bytes)
        limits->head_bytes = 16 << 10;
    if (limits->head_bytes > HTTP_INPUT_MOST - 4096)
        limits->head_bytes = HTTP_INPUT_MOST - 4096;
    if (!limits->body_bytes)
        limits->body_bytes = 1 << 20;
    if (!limits->bodies_bytes)
        limits->bodies_bytes = (size_t)512 << 20;
    if (limits->head_seconds <= 0)
        limits->head_seconds = 10;
    if (limits->idle_seconds <= 0)
        limits->idle_seconds = 60;
    if (limits->stall_seconds <= 0)
        limits->stall_seconds = 30;
    if (limits->bytes_per_second <= 0)
        limits->bytes_per_second = 4096;
}

/* Where it may listen, and with what. */
static weft_status http_server_check(const struct http_config *config, const char *host, bool local,
                                     struct error *error)
{
    if (!config->certificate != !config->key)
        return error_set(error, WEFT_ERROR_ARGUMENT, "TLS takes a certificate and its key: only the %s is given",
                         config->key ? "key" : "certificate");
    if (!local && !config->certificate)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "'%s' is not this machine's loopback: beyond it the server listens only with TLS, so give a "
                         "certificate and its key, or listen at %s",
                         host, HTTP_HOST);
    if (!local && !config->tokens)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "'%s' is not this machine's loopback: beyond it the server listens only where everybody needs "
                         "a token, so ask for tokens, or listen at %s",
                         host, HTTP_HOST);
    return WEFT_OK;
}

static struct event_base *new_loop(void)
{
    struct event_config *config = event_config_new();
    struct event_base *base = NULL;
    if (config && event_config_set_max_dispatch_interval(config, NULL, HTTP_STREAMS_A_TURN, HTTP_PRIORITY_STREAM) == 0)
        base = event_base_new_with_config(config);
    if (config)
        event_config_free(config);
    if (base && event_base_priority_init(base, HTTP_PRIORITIES) != 0) {
        event_base_free(base);
        base = NULL;
    }
    return base;
}

static void http_server_free(struct http_server *server)
{
    end_all(server);
    for (struct http_listener *each = server->listeners, *next; each; each = next) {
        next = each->next;
        evconnlistener_free(each->listener);
        free(each);
    }
    if (server->wake_event)
        event_free(server->wake_event);
    if (server->sweep_event)
        event_free(server->sweep_event);
    if (server->resume_event)
        event_free(server->resume_event);
    if (server->base)
        event_base_free(server->base);
    if (server->wake >= 0)
        close(server->wake);
    tls_free(server->tls);
    pthread_mutex_destroy(&server->lock);
    free(server);
}

weft_status http_server_prepare(const struct http_config *config, struct http_server **result, struct error *error)
{
    const char *host = config->host ? config->host : HTTP_HOST;
    bool local = http_server_is_loopback(host);
    weft_status status = http_server_check(config, host, local, error);
    if (status != WEFT_OK)
        return status;
    struct http_server *server = calloc(1, sizeof *server);
    if (!server)
        return error_memory(error, sizeof *server, "the HTTP server");
    server->limits = config->limits;
    server->application = config->application;
    server->local = local;
    server->limits_own = config->limits.address_connections != 0;
    snprintf(server->host, sizeof server->host, "%s", host);
    complete_limits(&server->limits);
    TAILQ_INIT(&server->connections);
    LIST_INIT(&server->requests);
    server->last_posted = &server->posted;
    pthread_mutex_init(&server->lock, NULL);
    server->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    server->base = new_loop();
    if (server->wake < 0 || !server->base)
        status = error_system(error, "cannot start the loop of the HTTP server");
    if (status == WEFT_OK && config->certificate)
        status = tls_server(config->certificate, config->key, &server->tls, error);
    if (status == WEFT_OK) {
        const struct timeval period = {0, (suseconds_t)(HTTP_SWEEP_SECONDS * 1e6)};
        server->wake_event = event_new(server->base, server->wake, EV_READ | EV_PERSIST, on_wake, server);
        server->sweep_event = event_new(server->base, -1, EV_PERSIST, on_sweep, server);
        server->resume_event = event_new(server->base, -1, 0, on_resume, server);
        if (!server->wake_event || !server->sweep_event || !server->resume_event ||
            event_add(server->wake_event, NULL) != 0 || event_add(server->sweep_event, &period) != 0)
            status = error_memory(error, sizeof(struct event *), "the loop of the HTTP server");
    }
    if (status != WEFT_OK) {
        http_server_free(server);
        return status;
    }
    *result = server;
    return WEFT_OK;
}

/* `*chosen`: the port. */
static weft_status http_server_listen_at(struct http_server *server, uint16_t port,
                                         const struct http_application *application, uint16_t *chosen,
                                         struct error *error)
{
    int listening = -1;
    weft_status status = address_listen(server->host, port, &listening, chosen, error);
    if (status != WEFT_OK)
        return status;
    struct http_listener *made = calloc(1, sizeof *made);
    if (made) {
        *made = (struct http_listener){.next = server->listeners, .server = server, .application = *application};
        made->listener = evconnlistener_new(server->base, on_connection, made,
                                            LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, listening);
    }
    if (!made || !made->listener) {
        free(made);
        close(listening);
        return error_memory(error, sizeof *made, "a listener of the HTTP server");
    }
    evconnlistener_set_error_cb(made->listener, on_listening_failed);
    server->listeners = made;
    return WEFT_OK;
}

weft_status http_listen(struct http_server *server, uint16_t port, const struct http_application *application,
                        struct error *error)
{
    uint16_t chosen;
    return http_server_listen_at(server, port, application, &chosen, error);
}

weft_status http_open(const struct http_config *config, struct http_server **result, struct error *error)
{
    struct http_server *server = NULL;
    weft_status status = http_server_prepare(config, &server, error);
    if (status != WEFT_OK)
        return status;
    status = http_server_listen_at(server, config->port, &server->application, &server->port, error);
    if (status != WEFT_OK) {
        http_server_free(server);
        return status;
    }
    *result = server;
    return WEFT_OK;
}

weft_status http_start(struct http_server *server, struct error *error)
{
    /* Signals are for the other threads; SIGPIPE would come from a connection that the client has ended. */
    int code = thread_start(&server->thread, http_server_serve, server);
    server->running = code == 0;
    return code == 0 ? WEFT_OK
                     : error_set(error, WEFT_ERROR_SYSTEM, "cannot start the HTTP server's thread: %s", strerror(code));
}

void http_stop(struct http_server *server)
{
    if (!server)
        return;
    pthread_mutex_lock(&server->lock);
    server->stopping = true;
    pthread_mutex_unlock(&server->lock);
    eventfd_write(server->wake, 1);
    if (server->running)
        pthread_join(server->thread, NULL);
    http_server_free(server);
}

char *http_address(const struct http_server *server, char *text, size_t room)
{
    bool six = strchr(server->host, ':');
    snprintf(text, room, "%s://%s%s%s:%u", server->tls ? "https" : "http", six ? "[" : "", server->host, six ? "]" : "",
             server->port);
    return text;
}

struct http_counts http_counts(struct http_server *server)
{
    return (struct http_counts){.connections = atomic_load(&server->now_connections),
                                .most_connections = atomic_load(&server->most_connections),
                                .accepted = atomic_load(&server->accepted),
                                .refused = atomic_load(&server->refused),
                                .requests = atomic_load(&server->count_requests),
                                .errors = atomic_load(&server->errors),
                                .timeouts = atomic_load(&server->timeouts),
                                .streams = atomic_load(&server->streams),
                                .body_bytes = atomic_load(&server->body_bytes)};
}

/* ---- descriptors of the application ---- */

struct http_watch {
    struct event *event;
    bool paused;
    void (*ready)(void *context);
    void *context;
};

static void watch_ready(evutil_socket_t descriptor, short what, void *context)
{
    struct http_watch *watch = context;
    watch->ready(watch->context);
}

struct http_watch *http_watch_new(struct http_server *server, int descriptor, bool writing,
                                  void (*ready)(void *context), void *context)
{
    struct http_watch *watch = malloc(sizeof *watch);
    if (!watch)
        return NULL;
    *watch = (struct http_watch){.ready = ready, .context = context};
    watch->event =
        event_new(server->base, descriptor, (short)((writing ? EV_WRITE : EV_READ) | EV_PERSIST), watch_ready, watch);
    if (!watch->event || event_add(watch->event, NULL) != 0) {
        http_watch_free(watch);
        return NULL;
    }
    return watch;
}

void http_watch_pause(struct http_watch *watch, bool paused)
{
    if (!watch || watch->paused == paused)
        return;
    watch->paused = paused;
    if (paused)
        event_del(watch->event);
    else
        event_add(watch->event, NULL);
}

void http_watch_free(struct http_watch *watch)
{
    if (!watch)
        return;
    if (watch->event)
        event_free(watch->event);
    free(watch);
}
