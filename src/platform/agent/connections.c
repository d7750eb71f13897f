/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/agent/internal/connections.h"

#include "base/clock.h"
#include "platform/agent/link.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEAVE_SECONDS 2.0 /* from SIGHUP to SIGKILL for a command whose connection has closed */

weft_status node_connections_open(struct node_connections *connections, const struct node_place *place,
                                  struct error *error)
{
    char path[FILE_PATH_BYTES];
    *connections = (struct node_connections){.place = place, .listener = -1, .user = node_process_user(place)};
    weft_status status = node_listen(place->directory, &connections->listener, error);
    if (status == WEFT_OK && connections->user != geteuid())
        status = file_join(path, place->directory, NODE_SOCKET_NAME, error);
    if (status == WEFT_OK && connections->user != geteuid() && lchown(path, connections->user, (gid_t)-1) != 0)
        status = error_system(error, "cannot give '%s' to the run's user", path);
    return status;
}

static void drop_passed(struct node_connection *connection)
{
    for (int i = 0; i < 3; i++) {
        file_close(connection->passed[i]);
        connection->passed[i] = -1;
    }
}

/* Close a connection. Its command gets SIGHUP, and its entry is kept until that has ended. */
static void connections_drop(struct node_connection *connection)
{
    drop_passed(connection);
    buffer_free(&connection->in);
    file_close(connection->descriptor);
    connection->descriptor = -1;
    connection->watches = false;
    if (connection->process > 0 && connection->kill_at == 0) {
        kill(-connection->process, SIGHUP);
        kill(-connection->process, SIGCONT);
        connection->kill_at = clock_after(LEAVE_SECONDS);
    }
    connection->used = connection->process > 0;
}

static void connections_admit(struct node_connections *connections)
{
    int made = accept4(connections->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    if (made < 0)
        return;
    bool told = getsockopt(made, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
    bool trusted = told && (peer.uid == geteuid() || peer.uid == 0);
    bool known = trusted || (told && peer.uid == connections->user);
    for (int i = 0; known && i < NODE_CONNECTIONS_MOST; i++) {
        struct node_connection *connection = &connections->all[i];
        if (connection->used)
            continue;
        *connection =
            (struct node_connection){.descriptor = made, .used = true, .guest = !trusted, .passed = {-1, -1, -1}};
        return;
    }
    close(made);
}

/* Send a frame; a peer that does not read is dropped. */
static void connections_say(struct node_connection *connection, enum node_frame kind, const struct buffer *payload)
{
    struct buffer frames = {0};
    if (connection->descriptor < 0)
        return;
    frame_put(&frames, (uint16_t)kind, payload ? buffer_begin(payload) : NULL, payload ? buffer_size(payload) : 0);
    ssize_t n = send(connection->descriptor, buffer_begin(&frames), buffer_size(&frames), MSG_DONTWAIT | MSG_NOSIGNAL);
    bool full = n < 0 && errno == EAGAIN;
    /* A nudge may be dropped if the socket is full: earlier ones have not been read yet. */
    if (n != (ssize_t)buffer_size(&frames) && !(full && kind == NODE_NUDGE))
        shutdown(connection->descriptor, SHUT_RDWR); /* and the next turn drops it */
    buffer_free(&frames);
}

static void connections_refuse(struct node_connection *connection, const char *message, uint32_t code)
{
    struct buffer payload = {0};
    buffer_put_text(&payload, message);
    buffer_put_u32(&payload, code);
    connections_say(connection, NODE_REFUSED, &payload);
    buffer_free(&payload);
}

static void exec(struct node_connections *connections, struct node_connection *connection, const struct frame *frame)
{
    struct reader reader = {frame->payload, frame->size, false};
    struct string_list command = {0}, environment = {0};
    struct error error = {0};
    bool terminal = reader_u32(&reader) != 0;
    bool good = order_strings_take(&reader, &command) && order_strings_take(&reader, &environment) &&
                reader.left == 0 && command.count > 0;
    pid_t process = 0;
    if (!good || connection->process > 0 || connection->passed[2] < 0) {
        connections_refuse(connection, "a command for the node came damaged, without descriptors, or twice", 0);
    } else if (node_process_start(connections->place, command.items, environment.items, terminal, connection->passed,
                                  &process, &error) != WEFT_OK) {
        connections_refuse(connection, error.text, error.status == WEFT_ERROR_DATA ? NODE_NOT_RUN : 0);
    } else {
        struct buffer payload = {0};
        connection->process = process;
        buffer_put_u64(&payload, (uint64_t)process);
        connections_say(connection, NODE_STARTED, &payload);
        buffer_free(&payload);
    }
    drop_passed(connection);
    string_list_free(&command);
    string_list_free(&environment);
}

static void connections_obey(struct node_connections *connections, struct node_connection *connection,
                             const struct frame *frame)
{
    struct reader reader = {frame->payload, frame->size, false};
    if (connection->guest && frame->kind != NODE_EXEC && frame->kind != NODE_SIGNAL)
        return; /* a watch would renew the lease */
    if (frame->kind == NODE_WATCH) {
        connection->watches = true;
        connections->woken = true;
    } else if (frame->kind == NODE_WAKE) {
        connections->woken = true;
    } else if (frame->kind == NODE_EXEC) {
        exec(connections, connection, frame);
    } else if (frame->kind == NODE_SIGNAL) {
        uint32_t number = reader_u32(&reader);
        if (connection->process > 0 && number > 0 && number < NSIG)
            kill(-connection->process, (int)number);
    }
}

/* Take descriptors received with a message: three belong to a command, others are closed. */
static void take_descriptors(struct node_connection *connection, struct msghdr *message)
{
    int count = 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        size_t number = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < number; i++) {
            int descriptor;
            memcpy(&descriptor, CMSG_DATA(header) + i * sizeof descriptor, sizeof descriptor);
            if (count < 3 && connection->passed[count] < 0)
                connection->passed[count++] = descriptor;
            else
                close(descriptor);
        }
    }
}

static void connections_hear(struct node_connections *connections, struct node_connection *connection)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(8 * sizeof(int))];
    } control;
    uint8_t *place = buffer_reserve(&connection->in, 4096);
    struct iovec piece = {place, 4096};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.bytes};
    ssize_t n = place ? recvmsg(connection->descriptor, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        take_descriptors(connection, &message);
        connection->in.end += (size_t)n;
    }
    struct frame frame;
    int found = 0;
    while (n > 0 && (found = frame_peek(&connection->in, NODE_FRAME_MOST, &frame)) == 1) {
        connections_obey(connections, connection, &frame);
        frame_drop(&connection->in, &frame);
    }
    if (n <= 0 || found < 0)
        connections_drop(connection);
}

void node_connections_watch(const struct node_connections *connections, struct pollfd *polls)
{
    polls[0] = (struct pollfd){connections->listener, POLLIN, 0};
    for (int i = 0; i < NODE_CONNECTIONS_MOST; i++) {
        const struct node_connection *connection = &connections->all[i];
        polls[1 + i] = (struct pollfd){connection->used ? connection->descriptor : -1, POLLIN, 0};
    }
}

void node_connections_turn(struct node_connections *connections, const struct pollfd *polls)
{
    uint64_t now = clock_now();
    for (int i = 0; i < NODE_CONNECTIONS_MOST; i++) {
        struct node_connection *connection = &connections->all[i];
        if (polls[1 + i].revents && connection->used && connection->descriptor >= 0)
            connections_hear(connections, connection);
        if (connection->kill_at && now >= connection->kill_at && connection->process > 0)
            kill(-connection->process, SIGKILL);
    }
    if (polls[0].revents)
        connections_admit(connections);
}

bool node_connections_reap(struct node_connections *connections, pid_t process, int status)
{
    for (int i = 0; i < NODE_CONNECTIONS_MOST; i++) {
        struct node_connection *connection = &connections->all[i];
        if (!connection->used || connection->process != process)
            continue;
        struct buffer payload = {0};
        buffer_put_u32(&payload, WIFEXITED(status) ? (uint32_t)WEXITSTATUS(status) : 0);
        buffer_put_u32(&payload, WIFSIGNALED(status) ? (uint32_t)WTERMSIG(status) : 0);
        connections_say(connection, NODE_EXITED, &payload);
        buffer_free(&payload);
        connection->process = 0;
        if (connection->descriptor < 0)
            connection->used = false;
        return true;
    }
    return false;
}

void node_connections_nudge(struct node_connections *connections)
{
    for (int i = 0; i < NODE_CONNECTIONS_MOST; i++)
        if (connections->all[i].used && connections->all[i].watches)
            connections_say(&connections->all[i], NODE_NUDGE, NULL);
}

bool node_connections_watched(const struct node_connections *connections)
{
    for (int i = 0; i < NODE_CONNECTIONS_MOST; i++)
        if (connections->all[i].used && connections->all[i].watches)
            return true;
    return false;
}

void node_connections_close(struct node_connections *connections)
{
    for (int i = 0; i < NODE_CONNECTIONS_MOST; i++) {
        struct node_connection *connection = &connections->all[i];
        if (!connection->used)
            continue;
        connection->process = 0;
        connections_drop(connection);
    }
    file_close(connections->listener);
    connections->listener = -1;
}
