/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules and players before a simulation. */
#include "training/simulate/internal/step_players.h"

#include <stdlib.h>

static const enum step_lane lanes_of_kinds[OPERATION_KINDS] = {
    [OPERATION_FORWARD] = STEP_LANES,
    [OPERATION_BACKWARD_INPUT] = STEP_LANES,
    [OPERATION_BACKWARD_WEIGHTS] = STEP_LANES,
    [OPERATION_SEND_OUTPUT] = LANE_SEND_OUTPUT,
    [OPERATION_RECEIVE_INPUT] = LANE_RECEIVE_INPUT,
    [OPERATION_SEND_GRADIENT] = LANE_SEND_GRADIENT,
    [OPERATION_RECEIVE_GRADIENT] = LANE_RECEIVE_GRADIENT,
    [OPERATION_GATHER] = LANE_DATA,
    [OPERATION_RELEASE] = STEP_LANES,
    [OPERATION_REDUCE] = LANE_DATA,
    [OPERATION_TIE] = LANE_TIE,
    [OPERATION_NORM] = STEP_LANES,
    [OPERATION_UPDATE] = STEP_LANES,
    [OPERATION_SHARE] = LANE_DATA,
    [OPERATION_FINISH] = STEP_LANES,
};

enum step_lane step_lane_of(enum step_operation_kind kind)
{
    return lanes_of_kinds[kind];
}

/* Passes for weights that do not follow their pass for inputs find no activations where these are recomputed. */
static void find_repeats(const struct step_costs *costs, struct step_program *program)
{
    const struct step_operation *last = NULL; /* pass */
    for (size_t i = 0; i < program->schedule.count; i++) {
        const struct step_operation *operation = &program->schedule.operations[i];
        if (!step_operation_computes(operation->kind))
            continue;
        program->repeats[i] = costs->shape.recomputes && operation->kind == OPERATION_BACKWARD_WEIGHTS &&
                              !(last && last->kind == OPERATION_BACKWARD_INPUT && last->unit == operation->unit &&
                                last->micro_batch == operation->micro_batch);
        last = operation;
    }
}

static weft_status open_program(const struct step_costs *costs, uint32_t pipeline_rank, struct step_program *program,
                                struct error *error)
{
    weft_status status = step_write(&costs->shape, pipeline_rank, &program->schedule, error);
    if (status == WEFT_OK && step_shares_move_on(&costs->shape))
        status = step_rotate(&program->schedule, error);
    if (status != WEFT_OK)
        return status;
    const size_t count = program->schedule.count;
    program->repeats = calloc(count, sizeof *program->repeats);
    for (uint32_t lane = 0; lane < STEP_LANES; lane++)
        if (!(program->lanes[lane] = calloc(count, sizeof **program->lanes)))
            return error_memory(error, count * sizeof **program->lanes, "a step");
    if (!program->repeats)
        return error_memory(error, count * sizeof *program->repeats, "a step");
    for (size_t i = 0; i < count; i++) {
        const enum step_lane lane = step_lane_of(program->schedule.operations[i].kind);
        if (lane < STEP_LANES)
            program->lanes[lane][program->lane_counts[lane]++] = (uint32_t)i;
    }
    find_repeats(costs, program);
    return WEFT_OK;
}

static weft_status simulation_open_player(struct step_simulation *simulation, uint32_t class, struct error *error)
{
    const struct step_costs *costs = simulation->costs;
    struct class_player *player = &simulation->players[class];
    const uint32_t rank = simulation->fold.representative[class], *point = costs->points + (size_t)rank * MESH_AXES;
    *player = (struct class_player){.program = &simulation->programs[point[MESH_PIPELINE]],
                                    .class = class,
                                    .rank = rank,
                                    .device = costs->cluster->device_of ? costs->cluster->device_of[rank] : 0,
                                    .micro_batches = costs->shares[point[MESH_DATA]]};
    const size_t count = player->program->schedule.count;
    player->complete = calloc(count, sizeof *player->complete);
    if (simulation->options->keep_times) {
        player->begin = calloc(count, sizeof *player->begin);
        player->end = calloc(count, sizeof *player->end);
    }
    return player->complete && (!simulation->options->keep_times || (player->begin && player->end))
               ? WEFT_OK
               : error_memory(error, count * 2 * sizeof *player->begin, "a step's times");
}

weft_status step_simulation_open(struct step_simulation *simulation, const struct step_costs *costs,
                                 const struct step_options *options, struct error *error)
{
    *simulation = (struct step_simulation){.costs = costs, .options = options};
    weft_status status = step_fold_open(costs, options, &simulation->fold, error);
    if (status != WEFT_OK)
        return status;
    const struct step_fold *fold = &simulation->fold;
    const uint32_t pipeline = costs->shape.pipeline;
    simulation->programs = calloc(pipeline, sizeof *simulation->programs);
    simulation->players = calloc(fold->class_count, sizeof *simulation->players);
    simulation->busy = calloc((size_t)fold->channel_count + 1, sizeof *simulation->busy);
    simulation->began = calloc((size_t)fold->channel_count + 1, sizeof *simulation->began);
    if (!simulation->programs || !simulation->players || !simulation->busy || !simulation->began)
        return error_memory(error, fold->class_count * sizeof *simulation->players, "the ranks of a mesh");
    for (uint32_t p = 0; status == WEFT_OK && p < pipeline; p++)
        status = open_program(costs, p, &simulation->programs[p], error);
    for (uint32_t class = 0; status == WEFT_OK && class < fold->class_count; class ++)
        status = simulation_open_player(simulation, class, error);
    if (status == WEFT_OK) /* and one object for the norm */
        status = step_events_open(&simulation->events, fold->class_count + fold->channel_count + 1, error);
    return status == WEFT_OK
               ? step_network_open(&simulation->network, fold, &simulation->events, fold->class_count, error)
               : status;
}

void step_simulation_close(struct step_simulation *simulation)
{
    if (simulation->network.fold)
        step_network_close(&simulation->network);
    step_events_close(&simulation->events);
    for (uint32_t class = 0; simulation->players && class < simulation->fold.class_count; class ++) {
        free(simulation->players[class].complete);
        free(simulation->players[class].begin);
        free(simulation->players[class].end);
    }
    for (uint32_t p = 0; simulation->programs && p < simulation->costs->shape.pipeline; p++) {
        step_free(&simulation->programs[p].schedule);
        free(simulation->programs[p].repeats);
        for (uint32_t lane = 0; lane < STEP_LANES; lane++)
            free(simulation->programs[p].lanes[lane]);
    }
    free(simulation->programs);
    free(simulation->players);
    free(simulation->busy);
    free(simulation->began);
    step_fold_free(&simulation->fold);
}
