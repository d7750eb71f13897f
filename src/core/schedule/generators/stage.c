/* SPDX-License-Identifier: Apache-2.0 */
/* The building blocks of all stages. */
#include "core/schedule/generators/stage.h"

struct stage stage_whole(struct builder *builder)
{
    return (struct stage){
        .builder = builder,
        .ranks = builder->schedule->ranks,
        .rank = builder->schedule->rank,
        .root = builder->schedule->root,
        .input = {.buffer = BUFFER_INPUT},
        .output = {.buffer = BUFFER_OUTPUT},
        .chunks = builder->schedule->parts,
        .send_lane = 0,
        .receive_lane = 1,
        .finishes = true,
    };
}

uint32_t stage_chunk(const struct pieces *pieces, uint32_t piece)
{
    return pieces->first + (pieces->index ? pieces->index[piece] : piece);
}

uint32_t stage_part(const struct stage *stage, const struct pieces *pieces, uint32_t piece)
{
    uint32_t parts = stage->builder->schedule->parts;
    return parts == 1 ? 0 : (pieces->part + piece) % parts;
}

uint32_t tree_split(uint32_t n)
{
    uint32_t split = 1;
    while (split * 2 < n)
        split *= 2;
    return split;
}

/* A message of `chunks` pieces from `piece` on, whose size is that of `pieces`. Written in place: schedules have
 * many. */
static struct step *message(const struct stage *stage, uint32_t lane, struct dependency after, enum step_kind kind,
                            uint32_t peer, const struct pieces *pieces, uint32_t piece, uint32_t chunks)
{
    struct step *step = builder_append(stage->builder, lane, after);
    step->kind = (uint8_t)kind;
    step->chunks = (uint16_t)chunks;
    step->value = stage_part(stage, pieces, piece);
    step->channel = stage->channel;
    step->peer = stage->members ? stage->members[peer] : peer;
    return step;
}

struct dependency stage_send(const struct stage *stage, struct dependency after, uint32_t peer,
                             const struct pieces *from, uint32_t piece, uint32_t chunks)
{
    struct step *step = message(stage, stage->send_lane, after, STEP_SEND, peer, from, piece, chunks);
    step->source = from->buffer;
    step->source_chunk = stage_chunk(from, piece);
    return builder_now(stage->builder, stage->send_lane);
}

struct dependency stage_receive(const struct stage *stage, struct dependency after, uint32_t peer,
                                const struct pieces *into, uint32_t piece, uint32_t chunks)
{
    struct step *step = message(stage, stage->receive_lane, after, STEP_RECEIVE, peer, into, piece, chunks);
    step->target = into->buffer;
    step->target_chunk = stage_chunk(into, piece);
    return builder_now(stage->builder, stage->receive_lane);
}

struct dependency stage_receive_reduce(const struct stage *stage, struct dependency after, uint32_t peer,
                                       const struct pieces *from, const struct pieces *into, uint32_t piece,
                                       uint32_t chunks, unsigned flags)
{
    struct step *step = message(stage, stage->receive_lane, after, STEP_RECEIVE_REDUCE, peer, into, piece, chunks);
    step->flags = (uint8_t)flags;
    step->source = from->buffer;
    step->source_chunk = stage_chunk(from, piece);
    step->target = into->buffer;
    step->target_chunk = stage_chunk(into, piece);
    return builder_now(stage->builder, stage->receive_lane);
}

struct dependency stage_copy(const struct stage *stage, uint32_t lane, struct dependency after,
                             const struct pieces *from, uint32_t from_piece, const struct pieces *into,
                             uint32_t into_piece, uint32_t chunks)
{
    return builder_add_after(stage->builder, lane, after,
                             (struct step){.kind = STEP_COPY,
                                           .source = from->buffer,
                                           .source_chunk = stage_chunk(from, from_piece),
                                           .target = into->buffer,
                                           .target_chunk = stage_chunk(into, into_piece),
                                           .chunks = (uint16_t)chunks,
                                           .value = stage_part(stage, from, from_piece)});
}

void stage_alone(const struct stage *stage, uint32_t chunks)
{
    stage_copy(stage, stage->receive_lane, stage->ready, &stage->input, 0, &stage->output, 0, chunks);
    if (stage->finishes)
        builder_add(stage->builder, stage->receive_lane,
                    (struct step){.kind = STEP_FINISH,
                                  .target = stage->output.buffer,
                                  .target_chunk = stage_chunk(&stage->output, 0),
                                  .chunks = (uint16_t)chunks,
                                  .value = stage_part(stage, &stage->output, 0)});
}
