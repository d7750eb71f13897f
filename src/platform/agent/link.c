/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/agent/link.h"

#include "base/file/file.h"
#include "launch/order.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define WAITING_MOST 64
#define SEND_SECONDS 5 /* how long to wait for an agent that does not accept */

/*
 * Make a socket and its address in the directory. An address has room for 107 bytes only, so it names the directory by
 * a descriptor, which stays open in `*place`.
 */
static weft_status make_socket(const char *directory, int *place, int *descriptor, struct sockaddr_un *address,
                               struct error *error)
{
    *place = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*place < 0)
        return error_system(error, "cannot open the directory '%s'", directory);
    *descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*descriptor < 0) {
        error_system(error, "cannot make a socket");
        close(*place);
        return WEFT_ERROR_SYSTEM;
    }
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d/" NODE_SOCKET_NAME, *place);
    return WEFT_OK;
}

weft_status node_listen(const char *directory, int *descriptor, struct error *error)
{
    struct sockaddr_un address;
    int place = -1, made = -1;
    weft_status status = make_socket(directory, &place, &made, &address, error);
    if (status != WEFT_OK)
        return status;
    unlinkat(place, NODE_SOCKET_NAME, 0);
    if (bind(made, (struct sockaddr *)&address, sizeof address) != 0 ||
        fchmodat(place, NODE_SOCKET_NAME, 0600, 0) != 0 || listen(made, WAITING_MOST) != 0 ||
        fcntl(made, F_SETFL, O_NONBLOCK) != 0)
        status = error_system(error, "cannot listen at '%s/" NODE_SOCKET_NAME "'", directory);
    close(place);
    if (status != WEFT_OK)
        close(made);
    else
        *descriptor = made;
    return status;
}

weft_status node_connect(const char *directory, int *descriptor, struct error *error)
{
    struct sockaddr_un address;
    const struct timeval limit = {.tv_sec = SEND_SECONDS};
    int place = -1, made = -1;
    weft_status status = make_socket(directory, &place, &made, &address, error);
    if (status != WEFT_OK)
        return status;
    setsockopt(made, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit); /* also for connecting */
    if (connect(made, (struct sockaddr *)&address, sizeof address) != 0)
        status = error_system(error, "cannot reach the agent of '%s'", directory);
    close(place);
    if (status != WEFT_OK)
        close(made);
    else
        *descriptor = made;
    return status;
}

static weft_status send_all(int descriptor, const struct buffer *frames, struct error *error)
{
    size_t done = 0, size = buffer_size(frames);
    if (frames->failed)
        return error_memory(error, NODE_FRAME_MOST, "a message to an agent");
    while (done < size) {
        ssize_t n = send(descriptor, buffer_begin(frames) + done, size - done, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_system(error, "cannot write to the agent of a node");
        done += (size_t)n;
    }
    return WEFT_OK;
}

/* Connect and send one frame. */
static weft_status link_say(const char *directory, enum node_frame kind, int *descriptor, struct error *error)
{
    struct buffer frames = {0};
    int made;
    weft_status status = node_connect(directory, &made, error);
    if (status != WEFT_OK)
        return status;
    frame_put(&frames, (uint16_t)kind, NULL, 0);
    status = send_all(made, &frames, error);
    buffer_free(&frames);
    if (status != WEFT_OK)
        close(made);
    else
        *descriptor = made;
    return status;
}

weft_status node_wake(const char *directory, struct error *error)
{
    int descriptor;
    weft_status status = link_say(directory, NODE_WAKE, &descriptor, error);
    if (status == WEFT_OK)
        close(descriptor);
    return status;
}

weft_status node_watch(const char *directory, int *descriptor, struct error *error)
{
    return link_say(directory, NODE_WATCH, descriptor, error);
}

bool node_watch_take(int descriptor)
{
    uint8_t nudges[256];
    for (;;) {
        ssize_t n = recv(descriptor, nudges, sizeof nudges, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        if (n < 0 && errno == EAGAIN)
            return true;
    }
}

/* ---- commands ---- */

static weft_status put_list(struct buffer *payload, char *const *items, struct error *error)
{
    struct string_list list = {.items = (char **)items};
    while (items && items[list.count])
        list.count++;
    order_strings_put(payload, &list);
    if (buffer_size(payload) > NODE_FRAME_MOST)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the command and its environment are longer than %zu bytes",
                         NODE_FRAME_MOST);
    return WEFT_OK;
}

/* The first byte goes with the descriptors. */
static weft_status send_with(int descriptor, struct buffer *frames, const int descriptors[3], struct error *error)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(3 * sizeof(int))];
    } control = {0};
    struct iovec first = {buffer_begin(frames), 1};
    struct msghdr message = {
        .msg_iov = &first, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.bytes};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(3 * sizeof(int));
    memcpy(CMSG_DATA(header), descriptors, 3 * sizeof(int));
    if (sendmsg(descriptor, &message, MSG_NOSIGNAL) != 1)
        return error_system(error, "cannot pass descriptors to the agent of a node");
    buffer_consume(frames, 1);
    return send_all(descriptor, frames, error);
}

weft_status node_exec_begin(const char *directory, const struct node_exec_order *order, struct node_exec *exec,
                            struct error *error)
{
    struct buffer payload = {0}, frames = {0};
    int made = -1;
    buffer_put_u32(&payload, order->terminal);
    weft_status status = put_list(&payload, order->command, error);
    if (status == WEFT_OK)
        status = put_list(&payload, order->environment, error);
    if (status == WEFT_OK)
        status = node_connect(directory, &made, error);
    if (status == WEFT_OK) {
        frame_put(&frames, NODE_EXEC, buffer_begin(&payload), buffer_size(&payload));
        status = payload.failed || frames.failed ? error_memory(error, NODE_FRAME_MOST, "a command")
                                                 : send_with(made, &frames, order->descriptors, error);
    }
    buffer_free(&payload);
    buffer_free(&frames);
    if (status != WEFT_OK && made >= 0)
        close(made);
    if (status == WEFT_OK)
        *exec = (struct node_exec){.descriptor = made};
    return status;
}

static weft_status hear_frame(struct node_exec *exec, const struct frame *frame, struct error *error)
{
    struct reader reader = {frame->payload, frame->size, false};
    char message[ERROR_TEXT_BYTES];
    if (frame->kind == NODE_STARTED) {
        exec->process = (int64_t)reader_u64(&reader);
    } else if (frame->kind == NODE_EXITED) {
        exec->code = (int)reader_u32(&reader);
        exec->signal = (int)reader_u32(&reader);
        exec->ended = true;
    } else if (frame->kind == NODE_REFUSED) {
        reader_text(&reader, message, sizeof message);
        exec->code = reader.left > 0 ? (int)reader_u32(&reader) : 0; /* older agents do not send it */
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s", message);
    }
    return WEFT_OK;
}

weft_status node_exec_hear(struct node_exec *exec, bool wait, struct error *error)
{
    struct pollfd ready = {exec->descriptor, POLLIN, 0};
    if (exec->ended)
        return WEFT_OK;
    if (wait && poll(&ready, 1, -1) < 0 && errno != EINTR)
        return error_system(error, "cannot wait for a command");
    uint8_t *place = buffer_reserve(&exec->in, 4096);
    if (!place)
        return error_memory(error, 4096, "what an agent says");
    ssize_t n = recv(exec->descriptor, place, 4096, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        return error_set(error, WEFT_ERROR_PEER, "the node has ended, and the command with it");
    if (n > 0)
        exec->in.end += (size_t)n;
    struct frame frame;
    int found;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && (found = frame_peek(&exec->in, NODE_FRAME_MOST, &frame)) != 0) {
        if (found < 0)
            return error_set(error, WEFT_ERROR_DATA, "the agent of a node sent a malformed message");
        status = hear_frame(exec, &frame, error);
        frame_drop(&exec->in, &frame);
    }
    return status;
}

weft_status node_exec_signal(struct node_exec *exec, int number, struct error *error)
{
    struct buffer payload = {0}, frames = {0};
    buffer_put_u32(&payload, (uint32_t)number);
    frame_put(&frames, NODE_SIGNAL, buffer_begin(&payload), buffer_size(&payload));
    weft_status status = send_all(exec->descriptor, &frames, error);
    buffer_free(&payload);
    buffer_free(&frames);
    return status;
}

void node_exec_close(struct node_exec *exec)
{
    if (exec->descriptor > 0)
        close(exec->descriptor);
    exec->descriptor = -1;
    buffer_free(&exec->in);
}
