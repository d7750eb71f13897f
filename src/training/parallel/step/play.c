/* SPDX-License-Identifier: Apache-2.0 */
#include "training/parallel/step/show.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Messages of one direction between two neighbors of the pipeline, in the order of their sends and receives. */
struct message_queue {
    uint32_t *sends, *receives; /* operations that have begun, of the rank that sends and of its neighbor */
    uint32_t send_count, receive_count;
    uint32_t moved; /* messages that have been timed */
    double free_at; /* when the last of them had moved */
};

enum { TO_NEXT, TO_PREVIOUS, DIRECTIONS };

struct step_player {
    const struct step_shape *shape;
    const struct step_schedule *schedules;
    step_duration duration;
    void *context;
    struct step_times *times;
    size_t *at;                   /* of each rank: the operation that is next */
    double *now;                  /* and its time */
    size_t *collective_at;        /* and the first one that may be a collective that has not been timed */
    double *collectives_free_at;  /* and when the last collective before it ended */
    struct message_queue *queues; /* of each rank that sends and direction */
    struct error *error;
};

static const struct step_operation *player_operation(const struct step_player *player, uint32_t rank, size_t number)
{
    return &player->schedules[rank].operations[number];
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* When an operation's dependencies are complete; NAN: that is not known yet. */
static double dependencies_end(const struct step_player *player, uint32_t rank, size_t number)
{
    const struct step_operation *operation = player_operation(player, rank, number);
    double end = 0;
    for (uint32_t i = 0; i < operation->dependency_count; i++) {
        const uint32_t before = player->schedules[rank].dependencies[operation->dependency + i];
        if (before >= number) /* of the step before: complete */
            continue;
        const double one = player->times->end[rank][before];
        if (isnan(one))
            return NAN;
        end = larger(end, one);
    }
    return end;
}

/* Note when an operation took place. */
static void player_set(struct step_player *player, uint32_t rank, size_t number, double begin, double end)
{
    player->times->begin[rank][number] = begin;
    player->times->end[rank][number] = end;
}

/* ---- messages ---- */

static struct message_queue *queue_of(struct step_player *player, uint32_t rank, enum step_operation_kind kind)
{
    const uint32_t ranks = player->shape->pipeline;
    switch (kind) {
    case OPERATION_SEND_OUTPUT:
        return &player->queues[rank * DIRECTIONS + TO_NEXT];
    case OPERATION_RECEIVE_INPUT:
        return &player->queues[(rank + ranks - 1) % ranks * DIRECTIONS + TO_NEXT];
    case OPERATION_SEND_GRADIENT:
        return &player->queues[rank * DIRECTIONS + TO_PREVIOUS];
    case OPERATION_RECEIVE_GRADIENT:
        return &player->queues[(rank + 1) % ranks * DIRECTIONS + TO_PREVIOUS];
    default:
        return NULL;
    }
}

/* The next message of a queue, if both sides are there and its time is known. */
static weft_status move_message(struct step_player *player, uint32_t queue_number, bool *moved)
{
    const uint32_t ranks = player->shape->pipeline, sender = queue_number / DIRECTIONS;
    const bool forward = queue_number % DIRECTIONS == TO_NEXT;
    const uint32_t receiver = (forward ? sender + 1 : sender + ranks - 1) % ranks;
    struct message_queue *queue = &player->queues[queue_number];
    if (queue->moved >= queue->send_count || queue->moved >= queue->receive_count)
        return WEFT_OK;
    const uint32_t send = queue->sends[queue->moved], receive = queue->receives[queue->moved];
    const struct step_operation *sent = player_operation(player, sender, send),
                                *received = player_operation(player, receiver, receive);
    const uint32_t expected = forward ? sent->stage + 1 : sent->stage - 1;
    if (received->stage != expected || received->micro_batch != sent->micro_batch)
        return error_set(player->error, WEFT_ERROR_SCHEDULE,
                         "pipeline rank %u sends the %s of stage %u for micro-batch %u, but rank %u expects that of "
                         "micro-batch %u for stage %u",
                         sender, forward ? "output" : "gradient", sent->stage, sent->micro_batch, receiver,
                         received->micro_batch, received->stage);
    const double reached = larger(player->times->begin[sender][send], player->times->begin[receiver][receive]),
                 begin = larger(reached, queue->free_at), end = begin + player->duration(player->context, sent);
    player_set(player, sender, send, begin, end);
    player_set(player, receiver, receive, begin, end);
    queue->free_at = end;
    queue->moved++;
    *moved = true;
    return WEFT_OK;
}

/* ---- what ranks do ---- */

/* An asynchronous operation is reached: the list goes on. Messages are timed when both sides are there. */
static void begin_asynchronous(struct step_player *player, uint32_t rank, uint32_t number)
{
    const struct step_operation *operation = player_operation(player, rank, number);
    struct message_queue *queue = queue_of(player, rank, operation->kind);
    player->times->begin[rank][number] = player->now[rank];
    if (!queue)
        return;
    if (operation->kind == OPERATION_SEND_OUTPUT || operation->kind == OPERATION_SEND_GRADIENT)
        queue->sends[queue->send_count++] = number;
    else
        queue->receives[queue->receive_count++] = number;
}

/* The collective over other axes that comes next and has been reached, if its time is known. */
static void end_collectives(struct step_player *player, uint32_t rank, bool *moved)
{
    for (size_t i; (i = player->collective_at[rank]) < player->at[rank]; player->collective_at[rank]++) {
        const struct step_operation *operation = player_operation(player, rank, i);
        if (!step_operation_is_asynchronous(operation->kind) || queue_of(player, rank, operation->kind))
            continue;
        const double begin = larger(player->times->begin[rank][i], player->collectives_free_at[rank]);
        player_set(player, rank, i, begin, begin + player->duration(player->context, operation));
        player->collectives_free_at[rank] = player->times->end[rank][i];
        *moved = true;
    }
}

/* Whether all ranks have come to their norm, with what it depends on. */
static bool all_at_norm(const struct step_player *player, double *time)
{
    *time = 0;
    for (uint32_t rank = 0; rank < player->shape->pipeline; rank++) {
        const size_t at = player->at[rank];
        if (at >= player->schedules[rank].count || player_operation(player, rank, at)->kind != OPERATION_NORM)
            return false;
        const double ready = dependencies_end(player, rank, at);
        if (isnan(ready))
            return false;
        *time = larger(*time, larger(ready, player->now[rank]));
    }
    return true;
}

/* Go on to the first operation that has to wait. */
static void advance(struct step_player *player, uint32_t rank, bool *moved)
{
    for (size_t *at = &player->at[rank]; *at < player->schedules[rank].count; (*at)++, *moved = true) {
        const struct step_operation *operation = player_operation(player, rank, *at);
        const double ready = dependencies_end(player, rank, *at);
        if (isnan(ready) || operation->kind == OPERATION_NORM)
            return;
        if (step_operation_is_asynchronous(operation->kind)) {
            player->now[rank] = larger(ready, player->now[rank]);
            begin_asynchronous(player, rank, (uint32_t)*at);
            continue;
        }
        const double begin = larger(ready, player->now[rank]);
        player->now[rank] = begin + player->duration(player->context, operation);
        player_set(player, rank, *at, begin, player->now[rank]);
    }
}

static void take_norm(struct step_player *player, bool *moved)
{
    double begin;
    if (!all_at_norm(player, &begin))
        return;
    for (uint32_t rank = 0; rank < player->shape->pipeline; rank++) {
        const size_t at = player->at[rank]++;
        player->now[rank] = begin + player->duration(player->context, player_operation(player, rank, at));
        player_set(player, rank, at, begin, player->now[rank]);
    }
    *moved = true;
}

/* Ranks that wait for each other: the first of them, and what for. */
static weft_status explain_deadlock(const struct step_player *player)
{
    for (uint32_t rank = 0; rank < player->shape->pipeline; rank++) {
        if (player->at[rank] >= player->schedules[rank].count)
            continue;
        struct buffer text = {0};
        step_print_operation(&player->schedules[rank], player->at[rank], &text);
        const char *operation = buffer_string(&text);
        const weft_status status =
            error_set(player->error, WEFT_ERROR_SCHEDULE, "pipeline rank %u waits for ever at operation %s", rank,
                      operation ? operation : "");
        buffer_free(&text);
        return status;
    }
    return WEFT_OK;
}

static weft_status player_run(struct step_player *player)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t rank = 0; rank < player->shape->pipeline; rank++) {
            advance(player, rank, &moved);
            end_collectives(player, rank, &moved);
        }
        for (uint32_t queue = 0; queue < player->shape->pipeline * DIRECTIONS; queue++) {
            const weft_status status = move_message(player, queue, &moved);
            if (status != WEFT_OK)
                return status;
        }
        take_norm(player, &moved);
    }
    for (uint32_t rank = 0; rank < player->shape->pipeline; rank++)
        player->times->seconds = larger(player->times->seconds, player->now[rank]);
    return explain_deadlock(player);
}

/* ---- opening ---- */

static weft_status open_player(struct step_player *player)
{
    const uint32_t ranks = player->shape->pipeline;
    struct step_times *times = player->times;
    size_t most = 0;
    times->begin = calloc(ranks, sizeof *times->begin);
    times->end = calloc(ranks, sizeof *times->end);
    player->at = calloc(2 * (size_t)ranks, sizeof *player->at);
    player->now = calloc(2 * (size_t)ranks, sizeof *player->now);
    player->queues = calloc((size_t)ranks * DIRECTIONS, sizeof *player->queues);
    if (!times->begin || !times->end || !player->at || !player->now || !player->queues)
        return error_memory(player->error, ranks * sizeof *player->queues, "a step's times");
    player->collective_at = player->at + ranks;
    player->collectives_free_at = player->now + ranks;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const size_t count = player->schedules[rank].count;
        most = count > most ? count : most;
        times->begin[rank] = calloc(count + 1, sizeof **times->begin);
        times->end[rank] = malloc((count + 1) * sizeof **times->end);
        if (!times->begin[rank] || !times->end[rank])
            return error_memory(player->error, 2 * count * sizeof(double), "a step's times");
        for (size_t i = 0; i < count; i++)
            times->end[rank][i] = NAN;
    }
    for (uint32_t i = 0; i < ranks * DIRECTIONS; i++) {
        player->queues[i].sends = calloc(2 * most + 1, sizeof(uint32_t));
        if (!player->queues[i].sends)
            return error_memory(player->error, 2 * most * sizeof(uint32_t), "a step's messages");
        player->queues[i].receives = player->queues[i].sends + most;
    }
    return WEFT_OK;
}

weft_status step_play(const struct step_shape *shape, const struct step_schedule *schedules, step_duration duration,
                      void *context, struct step_times *times, struct error *error)
{
    *times = (struct step_times){0};
    struct step_player player = {.shape = shape,
                                 .schedules = schedules,
                                 .duration = duration,
                                 .context = context,
                                 .times = times,
                                 .error = error};
    weft_status status = open_player(&player);
    if (status == WEFT_OK)
        status = player_run(&player);
    for (uint32_t i = 0; player.queues && i < shape->pipeline * DIRECTIONS; i++)
        free(player.queues[i].sends);
    free(player.queues);
    free(player.at);
    free(player.now);
    if (status != WEFT_OK)
        step_times_free(shape, times);
    return status;
}

void step_times_free(const struct step_shape *shape, struct step_times *times)
{
    for (uint32_t rank = 0; rank < shape->pipeline; rank++) {
        if (times->begin)
            free(times->begin[rank]);
        if (times->end)
            free(times->end[rank]);
    }
    free(times->begin);
    free(times->end);
    *times = (struct step_times){0};
}

double step_bubble(const struct step_shape *shape, const struct step_schedule *schedules,
                   const struct step_times *times)
{
    double computing = 0, until = 0;
    for (uint32_t rank = 0; rank < shape->pipeline; rank++)
        for (size_t i = 0; i < schedules[rank].count; i++) {
            const enum step_operation_kind kind = schedules[rank].operations[i].kind;
            if (step_operation_computes(kind))
                computing += times->end[rank][i] - times->begin[rank][i];
            else if (kind == OPERATION_NORM)
                until = times->begin[rank][i];
        }
    return until > 0 ? 1 - computing / (until * shape->pipeline) : 0;
}
