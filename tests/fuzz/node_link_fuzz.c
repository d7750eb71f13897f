/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes between an agent and who speaks to it. The first byte says to which side: the agent, which without
 * descriptors starts nothing, answers in whole frames and does for the run's own user no more than that one may ask
 * for; or who waits for a command of its own, and learns of its end, or a message.
 */
#include "platform/agent/cgroup/cgroup.h"
#include "platform/agent/internal/connections.h"
#include "platform/agent/link.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the agent answers: refusals, each with its message. */
static void check_answers(int descriptor)
{
    struct buffer answers = {0};
    struct frame frame;
    ssize_t n;
    do {
        uint8_t *place = buffer_reserve(&answers, 4096);
        n = place ? recv(descriptor, place, 4096, MSG_DONTWAIT) : 0;
        answers.end += n > 0 ? (size_t)n : 0;
    } while (n > 0);
    while (frame_peek(&answers, NODE_FRAME_MOST, &frame) == 1) {
        if (frame.kind != NODE_REFUSED || frame.size <= sizeof(uint32_t))
            abort();
        frame_drop(&answers, &frame);
    }
    if (buffer_size(&answers) > 0)
        abort();
    buffer_free(&answers);
}

static void speak_to_agent(const uint8_t *data, size_t size, bool guest)
{
    static const struct node_order order = {.host = "host", .directory = "/"};
    static const struct cgroup no_group;
    static const struct node_place place = {&order, "/", &no_group, NULL};
    struct node_connections connections = {.place = &place, .listener = -1};
    struct pollfd polls[1 + NODE_CONNECTIONS_MOST];
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        abort();
    connections.all[0] =
        (struct node_connection){.descriptor = ends[0], .used = true, .guest = guest, .passed = {-1, -1, -1}};
    if (send(ends[1], data, size, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)size)
        abort();
    for (int ready = 1; ready > 0;) {
        node_connections_watch(&connections, polls);
        ready = poll(polls, sizeof polls / sizeof *polls, 0);
        node_connections_turn(&connections, polls);
    }
    if (connections.all[0].process || (guest && (connections.woken || node_connections_watched(&connections))))
        abort();
    check_answers(ends[1]);
    node_connections_close(&connections);
    close(ends[1]);
}

static void hear_agent(const uint8_t *data, size_t size)
{
    struct error error = {0};
    struct node_exec exec = {0};
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0 ||
        send(ends[1], data, size, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)size || shutdown(ends[1], SHUT_WR) != 0)
        abort();
    exec.descriptor = ends[0];
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && !exec.ended)
        status = node_exec_hear(&exec, true, &error);
    if (status != WEFT_OK && !*error.text && status != WEFT_ERROR_ARGUMENT) /* the agent's own message may be empty */
        abort();
    node_exec_close(&exec);
    close(ends[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 60000)
        return 0;
    if (data[0] & 1)
        hear_agent(data + 1, size - 1);
    else
        speak_to_agent(data + 1, size - 1, data[0] & 2);
    return 0;
}
