/* SPDX-License-Identifier: Apache-2.0 */
#include "server/http_internal.h"

#include <stdlib.h>

struct http_watch {
    struct event *event;
    bool paused;
    void (*ready)(void *context);
    void *context;
};

static void on_ready(evutil_socket_t descriptor, short what, void *context)
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
        event_new(server->base, descriptor, (short)((writing ? EV_WRITE : EV_READ) | EV_PERSIST), on_ready, watch);
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
