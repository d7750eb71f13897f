/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever a stranger sends: a connection's first bytes, at both ends, in pieces; then the same bytes as frames, and as
 * an order of the launcher. Nothing opens a stream without the secret, and every refusal has a message.
 */
#include "core/control/wire/stream.h"
#include "launch/order.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void greet(bool server, const uint8_t *data, size_t size, size_t piece)
{
    static const uint8_t secret[SECRET_BYTES] = {1, 2, 3};
    const struct stream_identity identity = {secret, STREAM_CONTROL, 1, 4};
    struct stream stream;
    struct error error = {0};
    if (stream_begin(&stream, -1, server, &identity, NULL) != WEFT_OK)
        return;
    weft_status status = WEFT_OK;
    while (size > 0 && status == WEFT_OK) {
        size_t now = size < piece ? size : piece;
        status = stream_feed(&stream, data, now, &error);
        data += now;
        size -= now;
    }
    if (stream.state == STREAM_OPEN || (status != WEFT_OK && !*error.text))
        abort();
    for (const char *c = stream.peer_host; *c; c++)
        if (*c < ' ' || *c > '~')
            abort();
    stream_end(&stream);
}

static void read_frames(const uint8_t *data, size_t size)
{
    struct buffer buffer = {0};
    struct frame frame;
    buffer_put(&buffer, data, size);
    while (frame_peek(&buffer, 4096, &frame) == 1) {
        struct order order;
        if (order_unpack(&frame, &order, NULL) == WEFT_OK) {
            if (!order.program.items[0] || order.program.items[order.program.count] ||
                order.first + order.count > order.ranks)
                abort();
            order_free(&order);
        }
        frame_drop(&buffer, &frame);
    }
    buffer_free(&buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t piece = size > 0 ? 1 + data[size - 1] : 1;
    greet(true, data, size, piece);
    greet(false, data, size, piece);
    read_frames(data, size);
    return 0;
}
