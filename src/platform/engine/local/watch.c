/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes have news: by connections to their agents, and before these exist by inotify on their journals. */
#include "platform/agent/agent.h"
#include "platform/engine/local/internal/state.h"

#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#define HEARD_MOST 256

void local_watch_stop(struct engine_local *local, struct local_node *node)
{
    if (node->watch >= 0) {
        /* While a process that is being started has a copy, closing alone leaves it in the set. */
        epoll_ctl(local->engine.descriptor, EPOLL_CTL_DEL, node->watch, NULL);
        close(node->watch);
    }
    node->watch = -1;
}

void local_notice_start(struct engine_local *local, struct local_node *node)
{
    char directory[FILE_PATH_BYTES];
    if (node->notice < 0 && file_join(directory, node->directory, "journal", NULL) == WEFT_OK)
        node->notice = inotify_add_watch(local->notices, directory, IN_CREATE | IN_MODIFY);
}

void local_notice_stop(struct engine_local *local, struct local_node *node)
{
    if (node->notice >= 0)
        inotify_rm_watch(local->notices, node->notice);
    node->notice = -1;
}

void local_watch_start(struct engine_local *local, struct local_node *node)
{
    if (node->watch >= 0 || node_watch(node->directory, &node->watch, NULL) != WEFT_OK)
        return;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = node};
    if (epoll_ctl(local->engine.descriptor, EPOLL_CTL_ADD, node->watch, &event) != 0)
        local_watch_stop(local, node);
    else
        local_notice_stop(local, node);
}

/* Visit nodes whose journal directory has changed. */
static void read_notices(struct engine_local *local, engine_heard_visit *visit, void *context, bool *more)
{
    _Alignas(struct inotify_event) char bytes[4096];
    ssize_t got;
    while (*more && (got = read(local->notices, bytes, sizeof bytes)) > 0)
        for (char *at = bytes; *more && at < bytes + got;) {
            const struct inotify_event *event = (const struct inotify_event *)at;
            at += sizeof *event + event->len;
            struct local_node *node = local_nodes_first(&local->nodes);
            while (node && node->notice != event->wd)
                node = local_nodes_next(&local->nodes, node);
            if (node)
                *more = visit(context, &node->attempt, node->node);
        }
}

weft_status local_heard(struct engine *engine, engine_heard_visit *visit, void *context, struct error *error)
{
    struct engine_local *local = (struct engine_local *)engine;
    struct epoll_event events[HEARD_MOST];
    bool more = true, noticed = false;
    struct attempt attempts[HEARD_MOST];
    uint32_t numbers[HEARD_MOST];
    int count = epoll_wait(engine->descriptor, events, HEARD_MOST, 0), heard = 0;
    /* Copy all names first: the caller's polls free nodes. */
    for (int i = 0; i < count; i++) {
        const struct local_node *node = events[i].data.ptr;
        noticed = noticed || !node;
        if (!node)
            continue;
        attempts[heard] = node->attempt;
        numbers[heard++] = node->node;
    }
    for (int i = 0; i < heard && more; i++)
        more = visit(context, &attempts[i], numbers[i]);
    if (noticed && more)
        read_notices(local, visit, context, &more);
    return WEFT_OK;
}
