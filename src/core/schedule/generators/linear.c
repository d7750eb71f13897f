/* SPDX-License-Identifier: Apache-2.0 */
/* What needs no algorithm: the root deals with everybody in turn; one message. */
#include "core/schedule/generators/internal/generators.h"

static const struct moment now = {0};

void write_linear_gather(struct builder *builder)
{
    struct stage stage = stage_whole(builder);
    if (stage.rank != stage.root) {
        stage_send(&stage, now, stage.root, &stage.input, 0, 1);
        return;
    }
    stage_copy(&stage, stage.send_lane, now, &stage.input, 0, &stage.output, stage.rank, 1);
    for (uint32_t k = 1; k < stage.ranks; k++) {
        uint32_t from = (stage.root + k) % stage.ranks;
        stage_receive(&stage, now, from, &stage.output, from, 1);
    }
}

void write_linear_scatter(struct builder *builder)
{
    struct stage stage = stage_whole(builder);
    if (stage.rank != stage.root) {
        stage_receive(&stage, now, stage.root, &stage.output, 0, 1);
        return;
    }
    for (uint32_t k = 1; k < stage.ranks; k++) {
        uint32_t to = (stage.root + k) % stage.ranks;
        stage_send(&stage, now, to, &stage.input, to, 1);
    }
    stage_copy(&stage, stage.receive_lane, now, &stage.input, stage.rank, &stage.output, 0, 1);
}

void write_message(struct builder *builder)
{
    struct stage stage = stage_whole(builder);
    if (stage.rank == builder->shape->root)
        stage_send(&stage, now, builder->shape->peer, &stage.input, 0, 1);
    else if (stage.rank == builder->shape->peer)
        stage_receive(&stage, now, builder->shape->root, &stage.output, 0, 1);
}
