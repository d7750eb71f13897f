/* SPDX-License-Identifier: Apache-2.0 */
/* What needs no algorithm: the root deals with everybody in turn; one message. */
#include "core/schedule/generators/internal/generators.h"

static const struct dependency none = {0};

void write_linear_gather(struct builder *builder)
{
    struct stage stage = stage_whole(builder);
    if (stage.rank != stage.root) {
        stage_send(&stage, none, stage.root, &stage.input, 0, 1);
        return;
    }
    stage_copy(&stage, stage.send_lane, none, &stage.input, 0, &stage.output, stage.rank, 1);
    for (uint32_t k = 1; k < stage.ranks; k++) {
        uint32_t from = (stage.root + k) % stage.ranks;
        stage_receive(&stage, none, from, &stage.output, from, 1);
    }
}

void write_linear_scatter(struct builder *builder)
{
    struct stage stage = stage_whole(builder);
    if (stage.rank != stage.root) {
        stage_receive(&stage, none, stage.root, &stage.output, 0, 1);
        return;
    }
    for (uint32_t k = 1; k < stage.ranks; k++) {
        uint32_t to = (stage.root + k) % stage.ranks;
        stage_send(&stage, none, to, &stage.input, to, 1);
    }
    stage_copy(&stage, stage.receive_lane, none, &stage.input, stage.rank, &stage.output, 0, 1);
}

void write_message(struct builder *builder)
{
    struct stage stage = stage_whole(builder);
    if (stage.rank == builder->shape->root)
        stage_send(&stage, none, builder->shape->peer, &stage.input, 0, 1);
    else if (stage.rank == builder->shape->peer)
        stage_receive(&stage, none, builder->shape->root, &stage.output, 0, 1);
}
