/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a neighbor in the control plane's tree sends once it has proved itself: the plane goes on or fails with a
 * message. */
#include "core/control/internal/plane.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RANKS 6

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Rank 1 of six on hosts of their own: its parent is 0, its children are 3 and 4. */
static struct control *open_plane(struct endpoint_info endpoints[RANKS])
{
    struct control_config config = {.rank = 1, .ranks = 1};
    struct control *control = NULL;
    struct endpoint_info own;
    if (control_open(&config, NULL, &control, &own, NULL) != WEFT_OK)
        abort();
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        endpoints[rank] = (struct endpoint_info){.rank = rank};
        snprintf(endpoints[rank].machine, sizeof endpoints[rank].machine, "m%u", rank);
    }
    control->config.ranks = RANKS;
    control->endpoints = endpoints;
    control->left = calloc(RANKS, sizeof *control->left);
    control->links = calloc(3, sizeof *control->links);
    control->link_count = 3;
    if (tree_build(endpoints, RANKS, 1, &control->tree, NULL) != WEFT_OK)
        abort();
    return control;
}

/* A neighbor that has proved itself; its end of the connection is returned. */
static int open_neighbour(struct control *control, uint32_t index, uint32_t rank)
{
    int pair[2];
    struct link *link = &control->links[index];
    const struct stream_identity identity = {control->secret, STREAM_CONTROL, 1, RANKS};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) != 0 ||
        stream_begin(&link->stream, pair[0], true, &identity, NULL) != WEFT_OK)
        abort();
    link->rank = rank;
    link->stream.state = STREAM_OPEN;
    if (plane_open_link(control, link, NULL) != WEFT_OK)
        abort();
    return pair[1];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t neighbours[3] = {0, 3, 4};
    struct endpoint_info endpoints[RANKS];
    struct control *control = open_plane(endpoints);
    struct error error = {0};
    int ends[3];
    for (uint32_t i = 0; i < 3; i++)
        ends[i] = open_neighbour(control, i, neighbours[i]);
    uint32_t from = size > 0 ? data[0] % 3 : 0;
    if (size > 1 && send(ends[from], data + 1, size - 1, MSG_NOSIGNAL) != (ssize_t)size - 1)
        abort();
    control_progress(control);
    close(ends[from]);
    control_progress(control);
    if (control_failed(control) && (control_failure(control, &error) == WEFT_OK || !*error.text))
        abort();
    control_abort(control, WEFT_ERROR_ABORTED, "the end");
    for (uint32_t i = 0; i < 3; i++)
        if (i != from)
            close(ends[i]);
    control_close(control);
    return 0;
}
