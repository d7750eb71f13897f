/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher's side of a rank's release. */
#include "base/clock.h"
#include "core/control/regroup/internal/state.h"
#include "core/control/wire/address.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Milliseconds until `deadline`; 0: it is over. */
static int leave_time_left(uint64_t deadline)
{
    const uint64_t now = clock_now();
    return now < deadline ? (int)((deadline - now) / 1000000) + 1 : 0;
}

static weft_status leave_connect(const struct endpoint_info *leader, uint64_t deadline, int *descriptor,
                                 struct error *error)
{
    char host[ADDRESS_TEXT_BYTES];
    uint16_t port = 0;
    int reason = 0, result = 0;
    weft_status status = address_parse(leader->control, host, &port, error);
    if (status != WEFT_OK)
        return status;
    if (address_connect_begin(host, port, descriptor) != 0)
        return error_system(error, "cannot reach rank %u at %s", leader->rank, leader->control);
    while ((result = address_connect_result(*descriptor, &reason)) == 0 && leave_time_left(deadline) > 0)
        (void)poll(&(struct pollfd){*descriptor, POLLOUT, 0}, 1, leave_time_left(deadline));
    if (result == 1)
        return WEFT_OK;
    close(*descriptor);
    return error_set(error, WEFT_ERROR_NETWORK, "cannot reach rank %u at %s", leader->rank, leader->control);
}

/* Read and write until the handshake is done (`frame` NULL) or a frame has come. */
static weft_status leave_exchange(struct stream *stream, uint64_t deadline, struct frame *frame, struct error *error)
{
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && (stream->state != STREAM_OPEN || (frame && stream_peek(stream, frame) != 1))) {
        if (leave_time_left(deadline) == 0)
            return error_set(error, WEFT_ERROR_TIMEOUT, "the lowest rank has not answered in time");
        struct pollfd wait = {stream->descriptor, (short)(POLLIN | (stream_wants_write(stream) ? POLLOUT : 0)), 0};
        if (poll(&wait, 1, leave_time_left(deadline)) < 0 && errno != EINTR)
            return error_system(error, "cannot wait for the lowest rank");
        status = stream_write(stream, error);
        if (status == WEFT_OK && (wait.revents & (POLLIN | POLLHUP | POLLERR)))
            status = stream_read(stream, error);
    }
    return status;
}

weft_status regroup_ask_to_leave(const struct endpoint_info *leader, const uint8_t *secret, const uint32_t *ranks,
                                 uint32_t count, double limit_seconds, struct error *error)
{
    const struct stream_identity identity = {secret, STREAM_REGROUP, REGROUP_NONE, 0};
    const uint64_t deadline = clock_after(limit_seconds);
    struct buffer payload = {0};
    struct stream stream = {0};
    struct frame frame;
    int descriptor = -1;
    weft_status status = leave_connect(leader, deadline, &descriptor, error);
    if (status != WEFT_OK)
        return status;
    address_prepare(descriptor);
    status = stream_begin(&stream, descriptor, false, &identity, error);
    if (status == WEFT_OK)
        status = leave_exchange(&stream, deadline, NULL, error);
    for (uint32_t i = 0; i < count; i++)
        buffer_put_u32(&payload, ranks[i]);
    stream_put(&stream, REGROUP_RELEASE, buffer_begin(&payload), buffer_size(&payload));
    if (status == WEFT_OK)
        status = leave_exchange(&stream, deadline, &frame, error);
    buffer_free(&payload);
    stream_end(&stream);
    return status;
}
