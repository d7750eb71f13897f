/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an event file, and as one Event with right checksums: read to the end, in pieces as well as at once.
 */
#include "fuzz_file.h"

#include "platform/metrics/read/internal/event_message.h"
#include "platform/metrics/read/internal/tensorboard_events.h"

#include <string.h>

static weft_status take(void *state, const struct events_scalar *scalar, struct error *error)
{
    const size_t length = strnlen(scalar->name, EVENTS_NAME_MOST + 1);
    if (length == 0 || length > EVENTS_NAME_MOST || scalar->time < 0)
        abort();
    ++*(uint64_t *)state;
    return WEFT_OK;
}

static uint64_t read_all(const uint8_t *data, size_t size, size_t first)
{
    char path[FUZZ_PATH_BYTES];
    struct events_reader reader;
    uint64_t scalars = 0;
    const int descriptor = fuzz_file(data, first, path);
    if (events_open(&reader, path, 0, NULL) != WEFT_OK || events_read(&reader, take, &scalars, NULL) != WEFT_OK)
        abort();
    if (write(descriptor, data + first, size - first) != (ssize_t)(size - first) ||
        events_read(&reader, take, &scalars, NULL) != WEFT_OK || (reader.offset > size && reader.skipped == 0))
        abort();
    scalars += reader.damaged << 32;
    events_close(&reader);
    close(descriptor);
    return scalars;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t scalars = 0, left_out = 0;
    if (read_all(data, size, size) != read_all(data, size, size / 2))
        abort();
    if (event_message_read(data, size, take, &scalars, &left_out, NULL) != WEFT_OK)
        abort();
    return 0;
}
