/* SPDX-License-Identifier: Apache-2.0 */
/**
 * One Event of TensorBoard, as protocol buffers write it (tensorflow/core/util/event.proto, summary.proto,
 * tensor.proto): its scalars. For tensorboard_events.c.
 */
#ifndef WEFT_PLATFORM_METRICS_READ_INTERNAL_EVENT_MESSAGE_H
#define WEFT_PLATFORM_METRICS_READ_INTERNAL_EVENT_MESSAGE_H

#include "platform/metrics/read/internal/tensorboard_events.h"

/** Pass on the scalars of the Event; `*left_out` is added to. What makes no sense ends the Event, without a word. */
weft_status event_message_read(const uint8_t *bytes, size_t size, events_take *take, void *state, uint64_t *left_out,
                               struct error *error);

#endif
