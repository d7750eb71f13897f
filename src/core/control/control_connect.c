/* SPDX-License-Identifier: Apache-2.0 */
/* Building the tree of the control plane: connect to the parent, accept the children, prove the secret both ways. */
#include "base/clock.h"
#include "core/control/internal/plane.h"
#include "core/control/wire/address.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define PENDING_MOST         64 /* accepted connections that are not yet authenticated */
#define ACCEPTED_AT_ONCE     16 /* so that each gets time to authenticate before others can take its place */
#define ATTEMPTS_MOST        100
#define ATTEMPT_MILLISECONDS 10
#define FAREWELL_SECONDS     2.0 /* to report a failure to neighbors that are still authenticating */

/* State that exists only while the tree is being built. */
struct building {
    struct control *control;
    struct stream_identity identity;
    struct stream pending[PENDING_MOST];
    uint32_t pending_count;
    uint32_t missing;  /* links that are not open yet */
    uint32_t attempts; /* to connect to the parent again */
};

static struct link *connect_link_to(struct control *control, uint32_t rank)
{
    for (uint32_t i = 0; i < control->link_count; i++)
        if (control->links[i].rank == rank)
            return &control->links[i];
    return NULL;
}

/* A neighbor is authenticated: watch its liveness from now on. */
static weft_status connect_link_open(struct building *building, struct link *link, struct error *error)
{
    struct control *control = building->control;
    unsigned milliseconds = (unsigned)(control->config.liveness_limit * 1e3);
    const int yes = 1;
    setsockopt(link->stream.descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
    /* On a link that data fills, packets are dropped. With timeouts that double, three of the same in a row would look like death. */
    setsockopt(link->stream.descriptor, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &yes, sizeof yes);
    weft_status status = plane_open_link(control, link, error);
    if (status != WEFT_OK)
        return status;
    building->missing--;
    return WEFT_OK;
}

static weft_status connect_tree_parent(struct building *building, struct error *error)
{
    struct control *control = building->control;
    const struct endpoint_info *endpoint = &control->endpoints[control->tree.parent];
    struct link *link = &control->links[0];
    char host[ADDRESS_TEXT_BYTES];
    uint16_t port = 0;
    int descriptor = -1, reason = 0;
    struct error why = {0};
    weft_status status = address_parse(endpoint->control, host, &port, error);
    if (status != WEFT_OK)
        return status;
    status = address_connect(host, port, control->config.connect_limit, &descriptor, &reason, &why);
    if (status != WEFT_OK && reason == ECONNREFUSED)
        return error_set(error, WEFT_ERROR_PEER, "rank %u on host %s (process %d) died before the ranks had connected",
                         endpoint->rank, endpoint->host, endpoint->process);
    if (status != WEFT_OK)
        return error_set(
            error, WEFT_ERROR_PEER,
            "rank %u on host %s cannot reach rank %u on host %s: %s; choose the network with the interface "
            "setting",
            control->config.rank, control->endpoints[control->config.rank].host, endpoint->rank, endpoint->host,
            why.text);
    return stream_begin(&link->stream, descriptor, false, &building->identity, error);
}

/* Pending connections stay in the order in which they came. */
static void connect_pending_remove(struct building *building, uint32_t index)
{
    building->pending_count--;
    memmove(&building->pending[index], &building->pending[index + 1],
            (building->pending_count - index) * sizeof building->pending[0]);
}

/*
 * When there are too many, the oldest is dropped: a connection that is held open cannot keep ranks out, and a child
 * that loses its connection connects again.
 */
static void connect_pending_accept(struct building *building)
{
    for (int i = 0; i < ACCEPTED_AT_ONCE; i++) {
        int fd = accept4(building->control->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        address_prepare(fd);
        if (building->pending_count == PENDING_MOST) {
            stream_end(&building->pending[0]);
            connect_pending_remove(building, 0);
        }
        struct stream *stream = &building->pending[building->pending_count];
        if (stream_begin(stream, fd, true, &building->identity, NULL) == WEFT_OK)
            building->pending_count++;
        else
            stream_end(stream);
    }
}

/* Advance the handshake of an accepted connection; when done, it becomes the link of a child. */
static weft_status connect_pending_greet(struct building *building, uint32_t index, struct error *error)
{
    struct control *control = building->control;
    struct stream *stream = &building->pending[index];
    bool well = stream_read(stream, NULL) == WEFT_OK && stream_write(stream, NULL) == WEFT_OK;
    if (well && stream->state != STREAM_OPEN)
        return WEFT_OK;
    struct link *link =
        well && stream->peer_rank != control->tree.parent ? connect_link_to(control, stream->peer_rank) : NULL;
    weft_status status = WEFT_OK;
    if (link && !link->open) {
        link->stream = *stream;
        status = connect_link_open(building, link, error);
    } else {
        stream_end(stream); /* another program, or another job */
    }
    connect_pending_remove(building, index);
    return status;
}

/* Stop waiting for a link that cannot be established. */
static void control_connect_give_up(struct building *building, struct link *link)
{
    link->ended = true;
    building->missing--;
}

static weft_status connect_parent_greet(struct building *building, struct error *error)
{
    struct link *link = &building->control->links[0];
    const struct endpoint_info *endpoint = &building->control->endpoints[link->rank];
    struct error reason = {0};
    weft_status status = stream_write(&link->stream, &reason);
    if (status == WEFT_OK)
        status = stream_read(&link->stream, &reason);
    if (status == WEFT_OK && link->stream.state == STREAM_OPEN)
        return connect_link_open(building, link, error);
    if (status == WEFT_OK)
        return WEFT_OK;
    if (link->stream.state == STREAM_ENDED && building->attempts++ < ATTEMPTS_MOST) {
        /*
         * The parent is dead, or it dropped this connection because there were too many: a dead rank does not listen.
         */
        stream_end(&link->stream);
        poll(NULL, 0, ATTEMPT_MILLISECONDS);
        status = connect_tree_parent(building, error);
        if (status != WEFT_OK)
            control_connect_give_up(building, link);
        return status;
    }
    control_connect_give_up(building, link);
    if (link->stream.state == STREAM_ENDED)
        return error_set(error, WEFT_ERROR_PEER, "rank %u on host %s (process %d) died before the ranks had connected",
                         endpoint->rank, endpoint->host, endpoint->process);
    return error_set(error, status, "%s", reason.text);
}

/* Wait for an event on the listener, handshakes or links, and handle it. */
static weft_status connect_tree_advance(struct building *building, uint64_t deadline, struct error *error)
{
    struct control *control = building->control;
    bool greeting = control->tree.parent != TREE_NONE && !control->links[0].open && !control->links[0].ended;
    struct pollfd polls[PENDING_MOST + 3];
    uint64_t now = clock_now();
    polls[0] = (struct pollfd){control->listener, POLLIN, 0};
    polls[1] = (struct pollfd){control->epoll, POLLIN, 0};
    polls[2] = (struct pollfd){greeting ? control->links[0].stream.descriptor : -1, POLLIN, 0};
    if (greeting && stream_wants_write(&control->links[0].stream))
        polls[2].events |= POLLOUT;
    uint32_t count = building->pending_count;
    for (uint32_t i = 0; i < count; i++)
        polls[3 + i] = (struct pollfd){building->pending[i].descriptor, POLLIN, 0};
    if (poll(polls, 3 + count, deadline > now ? (int)((deadline - now) / 1000000) + 1 : 0) < 0 && errno != EINTR)
        return error_system(error, "cannot wait for the other ranks");
    weft_status status = WEFT_OK;
    for (uint32_t i = count; status == WEFT_OK && i-- > 0;)
        if (polls[3 + i].revents)
            status = connect_pending_greet(building, i, error);
    if (status == WEFT_OK && polls[2].revents)
        status = connect_parent_greet(building, error);
    if (polls[0].revents)
        connect_pending_accept(building);
    if (status == WEFT_OK && polls[1].revents) {
        control_progress(control); /* a neighbor may report a failure, or die, while others are still missing */
        status = control_failure(control, error);
    }
    return status;
}

static weft_status control_connect_too_late(struct building *building, struct error *error)
{
    struct control *control = building->control;
    const struct link *link = NULL;
    for (uint32_t i = 0; i < control->link_count; i++)
        if (!control->links[i].open)
            link = &control->links[i];
    const struct endpoint_info *here = &control->endpoints[control->config.rank];
    return error_set(
        error, WEFT_ERROR_TIMEOUT,
        "rank %u on host %s and rank %u on host %s have not connected within %g s; is there a network or a "
        "firewall between them?",
        link->rank, control->endpoints[link->rank].host, here->rank, here->host, control->config.connect_limit);
}

/* Send all neighbors the reason why this rank gives up, including those that are still connecting. */
static void connect_failure_flood(struct building *building, weft_status status, const struct error *error)
{
    control_abort(building->control, status, error ? error->text : "a rank could not connect to the others");
    uint64_t deadline = clock_after(FAREWELL_SECONDS);
    while (building->missing > 0 && clock_now() < deadline)
        (void)connect_tree_advance(building, deadline, NULL);
}

weft_status control_connect(struct control *control, const struct endpoint_info *endpoints, const uint8_t *secret,
                            struct error *error)
{
    memcpy(control->secret, secret, sizeof control->secret);
    control->endpoints = endpoints;
    weft_status status = tree_build(endpoints, control->config.ranks, control->config.rank, &control->tree, error);
    if (status != WEFT_OK)
        return status;
    bool parent = control->tree.parent != TREE_NONE;
    uint32_t count = control->tree.count + parent;
    control->left = calloc(control->config.ranks, sizeof *control->left);
    control->links = calloc(count ? count : 1, sizeof *control->links);
    struct building *building = calloc(1, sizeof *building);
    if (!control->left || !control->links || !building) {
        free(building);
        return error_memory(error, count * sizeof *control->links, "the control plane's connections");
    }
    control->link_count = count;
    for (uint32_t i = 0; i < count; i++) {
        control->links[i].rank = parent && i == 0 ? control->tree.parent : control->tree.children[i - parent];
        control->links[i].stream.descriptor = -1;
    }
    building->control = control;
    building->missing = count;
    building->identity =
        (struct stream_identity){control->secret, STREAM_CONTROL, control->config.rank, control->config.ranks};
    uint64_t deadline = clock_after(control->config.connect_limit);
    if (parent)
        status = connect_tree_parent(building, error);
    if (status != WEFT_OK)
        control_connect_give_up(building, &control->links[0]);
    while (status == WEFT_OK && building->missing > 0)
        status = clock_now() < deadline ? connect_tree_advance(building, deadline, error)
                                        : control_connect_too_late(building, error);
    if (status != WEFT_OK)
        connect_failure_flood(building, status, error);
    for (uint32_t i = 0; i < building->pending_count; i++)
        stream_end(&building->pending[i]);
    free(building);
    return status;
}
