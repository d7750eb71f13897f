/* SPDX-License-Identifier: Apache-2.0 */
/* The walk of all players through their lists, in the order of virtual time. */
#include "training/simulate/step_simulate.h"

#include "base/random.h"
#include "training/parallel/step/show.h"
#include "training/simulate/internal/step_players.h"

static const struct step_operation *operation_of_player(const struct class_player *player, uint32_t number)
{
    return &player->program->schedule.operations[number];
}

static void player_add(struct class_player *player, enum step_term term, double seconds)
{
    player->terms[term] += seconds;
}

static void player_enter(struct step_simulation *simulation, struct class_player *player, enum player_state state)
{
    player->state = state;
    player->since = simulation->now;
}

static uint32_t norm_object(const struct step_simulation *simulation)
{
    return simulation->fold.class_count + simulation->fold.channel_count;
}

/* ---- work ---- */

/* How fast a rank computes, given what else it is doing. */
static double work_rate(const struct step_simulation *simulation, const struct class_player *player)
{
    if (simulation->costs->messages_block && player->messages)
        return 0;
    return player->active ? 1 / (1 + simulation->costs->cluster->overlap_slowdown) : 1;
}

static void settle_work(struct step_simulation *simulation, struct class_player *player)
{
    if (player->state != PLAYER_WORKS)
        return;
    const double rate = work_rate(simulation, player);
    if (rate == player->rate)
        return;
    player->left -= (simulation->now - player->settled) * player->rate;
    player->left = player->left > 0 ? player->left : 0;
    player->settled = simulation->now;
    player->rate = rate;
    if (rate > 0)
        step_events_set(&simulation->events, player->class, simulation->now + player->left / rate);
    else
        step_events_remove(&simulation->events, player->class);
}

static void begin_work(struct step_simulation *simulation, struct class_player *player, double seconds, double repeated)
{
    const struct step_perturbation *perturbation = &simulation->options->perturbation;
    if (perturbation->slow_factor > 0 && perturbation->slow_rank == player->rank)
        seconds *= perturbation->slow_factor;
    if (perturbation->jitter > 0)
        seconds *=
            1 + perturbation->jitter * random_exponential(random_bits(perturbation->seed, player->rank), player->at);
    player_enter(simulation, player, PLAYER_WORKS);
    player->work = player->left = seconds;
    player->repeated = seconds > 0 ? repeated : 0;
    player->settled = simulation->now;
    player->rate = work_rate(simulation, player);
    if (player->rate > 0)
        step_events_set(&simulation->events, player->class, simulation->now + seconds / player->rate);
}

static const struct step_unit_costs *unit_costs(const struct step_simulation *simulation,
                                                const struct class_player *player, uint32_t unit)
{
    return &simulation->costs->layers[(size_t)player->device * simulation->costs->units + unit];
}

static enum work_pass pass_of(enum step_operation_kind kind)
{
    return kind == OPERATION_FORWARD          ? WORK_FORWARD
           : kind == OPERATION_BACKWARD_INPUT ? WORK_BACKWARD_INPUT
                                              : WORK_BACKWARD_WEIGHTS;
}

/* Whether a pass begins with repeating the forward pass. */
static bool pass_repeats(const struct class_player *player, const struct step_operation *operation)
{
    return operation->kind == OPERATION_BACKWARD_INPUT || player->program->repeats[player->at];
}

static void player_begin_pass(struct step_simulation *simulation, struct class_player *player,
                              const struct step_operation *operation)
{
    const struct step_unit_costs *costs = unit_costs(simulation, player, operation->unit);
    const double repeated = pass_repeats(player, operation) ? costs->passes[WORK_RECOMPUTE] : 0,
                 seconds = costs->passes[pass_of(operation->kind)] + repeated;
    begin_work(simulation, player, seconds, seconds > 0 ? repeated / seconds : 0);
}

static double norm_work(const struct step_simulation *simulation, const struct class_player *player)
{
    const struct step_costs *costs = simulation->costs;
    return costs->norms[(size_t)player->device * costs->shape.pipeline + player->program->schedule.pipeline_rank];
}

/* ---- channels ---- */

/* The lane of a channel at one of its ends. */
static enum step_lane lane_of(const struct step_channel *channel, uint32_t end)
{
    switch (channel->kind) {
    case CHANNEL_TO_NEXT:
        return end ? LANE_RECEIVE_INPUT : LANE_SEND_OUTPUT;
    case CHANNEL_TO_PREVIOUS:
        return end ? LANE_RECEIVE_GRADIENT : LANE_SEND_GRADIENT;
    case CHANNEL_TIE:
        return LANE_TIE;
    default:
        return LANE_DATA;
    }
}

static struct class_player *channel_player(const struct step_simulation *simulation, const struct step_channel *channel,
                                           uint32_t end)
{
    return &simulation->players[simulation->fold.channel_classes[channel->first_class + end]];
}

/* The operation that is the next of a lane to begin; STEP_NONE: it has not been reached. */
static uint32_t lane_next(struct class_player *player, enum step_lane lane)
{
    for (; player->begun[lane] < player->reached[lane]; player->begun[lane]++) {
        const uint32_t number = player->program->lanes[lane][player->begun[lane]];
        if (!player_lacks(player, operation_of_player(player, number)))
            return number;
    }
    return STEP_NONE;
}

static const struct step_transfer *transfer_of(const struct step_simulation *simulation,
                                               const struct step_channel *channel,
                                               const struct step_operation *operation)
{
    const struct step_costs *costs = simulation->costs;
    const size_t place = (size_t)channel->group_class * costs->units + operation->unit;
    switch (operation->kind) {
    case OPERATION_GATHER:
        return &costs->gathers[place];
    case OPERATION_REDUCE:
        return costs->last_reductions && operation->micro_batch + 1 == costs->shape.micro_batches
                   ? &costs->last_reductions[place]
                   : &costs->reductions[place];
    case OPERATION_SHARE:
        return &costs->sharings[place];
    case OPERATION_TIE:
        return &costs->ties[channel->level];
    default:
        return &costs->messages[channel->level];
    }
}

static bool is_message(const struct step_channel *channel)
{
    return channel->kind == CHANNEL_TO_NEXT || channel->kind == CHANNEL_TO_PREVIOUS;
}

/* The activity of a channel is under way: its ranks compute more slowly. */
static void channel_moves(struct step_simulation *simulation, uint32_t number)
{
    const struct step_channel *channel = &simulation->fold.channels[number];
    for (uint32_t end = 0; end < channel->class_count; end++) {
        struct class_player *player = channel_player(simulation, channel, end);
        player->active++;
        settle_work(simulation, player);
    }
}

/* Begin a channel's next activity, if it is idle and all its ranks are there. */
static void channel_try(struct step_simulation *simulation, uint32_t number)
{
    const struct step_channel *channel = &simulation->fold.channels[number];
    const struct step_operation *operation = NULL;
    if (simulation->busy[number])
        return;
    for (uint32_t end = 0; end < channel->class_count; end++) {
        struct class_player *player = channel_player(simulation, channel, end);
        const uint32_t next = lane_next(player, lane_of(channel, end));
        if (next == STEP_NONE)
            return;
        if (!operation)
            operation = operation_of_player(player, next);
    }
    simulation->busy[number] = true;
    simulation->began[number] = simulation->now;
    for (uint32_t end = 0; end < channel->class_count; end++) {
        struct class_player *player = channel_player(simulation, channel, end);
        const enum step_lane lane = lane_of(channel, end);
        if (player->begin)
            player->begin[player->program->lanes[lane][player->begun[lane]]] = simulation->now;
        player->begun[lane]++;
        player->messages += is_message(channel);
        settle_work(simulation, player);
    }
    if (step_network_begin(&simulation->network, number, transfer_of(simulation, channel, operation), simulation->now))
        channel_moves(simulation, number);
}

static uint32_t channel_of_lane(const struct step_simulation *simulation, const struct class_player *player,
                                enum step_lane lane)
{
    const struct step_fold *fold = &simulation->fold;
    const struct step_costs *costs = simulation->costs;
    const uint32_t *points = costs->points;
    switch (lane) {
    case LANE_SEND_OUTPUT:
        return fold->channel_of[CHANNEL_TO_NEXT][player->class];
    case LANE_SEND_GRADIENT:
        return fold->channel_of[CHANNEL_TO_PREVIOUS][player->class];
    case LANE_RECEIVE_INPUT:
        return fold->channel_of[CHANNEL_TO_NEXT][fold->previous[player->class]];
    case LANE_RECEIVE_GRADIENT:
        return fold->channel_of[CHANNEL_TO_PREVIOUS][fold->next[player->class]];
    case LANE_TIE:
        return fold->channel_of
            [CHANNEL_TIE]
            [points[(size_t)player->rank * MESH_AXES + MESH_PIPELINE] == 0 ? player->class : fold->next[player->class]];
    default:
        return fold->channel_of[CHANNEL_DATA][player->class];
    }
}

/* ---- players ---- */

/* An asynchronous operation is reached. Those that move nothing are complete. */
static void player_reach(struct step_simulation *simulation, struct class_player *player, uint32_t number)
{
    const struct step_operation *operation = operation_of_player(player, number);
    const enum step_lane lane = step_lane_of(operation->kind);
    if (operation->kind == OPERATION_REDUCE && simulation->costs->reductions_wait) {
        player->held++;
        return;
    }
    player->reached[lane]++;
    const uint32_t channel = channel_of_lane(simulation, player, lane);
    if (channel == STEP_NONE || player_lacks(player, operation)) {
        player->complete[number] = true;
        if (player->begin)
            player->begin[number] = player->end[number] = simulation->now;
        return;
    }
    channel_try(simulation, channel);
}

/* After the last pass: the reductions that have waited for it. */
static void release_held(struct step_simulation *simulation, struct class_player *player)
{
    if (!player->held)
        return;
    player->reached[LANE_DATA] += player->held;
    player->held = 0;
    channel_try(simulation, channel_of_lane(simulation, player, LANE_DATA));
}

static bool dependencies_complete(struct class_player *player)
{
    const struct step_operation *operation = operation_of_player(player, player->at);
    const uint32_t *dependencies = player->program->schedule.dependencies + operation->dependency;
    while (player->dependency < operation->dependency_count && player->complete[dependencies[player->dependency]])
        player->dependency++;
    return player->dependency == operation->dependency_count;
}

/* A synchronous operation is over. */
static void next_operation(struct step_simulation *simulation, struct class_player *player)
{
    if (player->end)
        player->end[player->at] = simulation->now;
    player->complete[player->at] = true;
    player->at++;
    player->dependency = 0;
    simulation->operations++;
}

static void begin_synchronous(struct step_simulation *simulation, struct class_player *player,
                              const struct step_operation *operation)
{
    if (player->begin)
        player->begin[player->at] = simulation->now;
    if (step_operation_computes(operation->kind) && !player_lacks(player, operation))
        player_begin_pass(simulation, player, operation);
    else if (operation->kind == OPERATION_UPDATE)
        begin_work(simulation, player, unit_costs(simulation, player, operation->unit)->update, 0);
    else if (operation->kind == OPERATION_NORM)
        begin_work(simulation, player, norm_work(simulation, player), 0);
    else
        next_operation(simulation, player);
}

/* Go on until the player has to wait or works. */
static void player_go(struct step_simulation *simulation, struct class_player *player)
{
    player->state = PLAYER_READY;
    while (player->state == PLAYER_READY && player->at < player->program->schedule.count) {
        const struct step_operation *operation = operation_of_player(player, player->at);
        if (operation->kind == OPERATION_TIE || operation->kind == OPERATION_NORM)
            release_held(simulation, player);
        if (!dependencies_complete(player)) {
            player_enter(simulation, player, PLAYER_WAITS);
        } else if (step_operation_is_asynchronous(operation->kind)) {
            player_reach(simulation, player, player->at++);
            player->dependency = 0;
            simulation->operations++;
        } else {
            begin_synchronous(simulation, player, operation);
        }
    }
    if (player->state == PLAYER_READY) {
        player_enter(simulation, player, PLAYER_DONE);
        player->finished = simulation->now;
        simulation->done++;
    }
}

/* ---- events ---- */

static const struct step_transfer *within_of(const struct step_simulation *simulation,
                                             const struct step_channel *channel, const struct step_operation *operation,
                                             enum work_pass pass)
{
    return &simulation->costs
                ->within[((size_t)channel->group_class * simulation->costs->units + operation->unit) * WORK_PASSES +
                         pass];
}

/* The ranks of a tensor group meet after their passes. False: nothing is exchanged. */
static bool simulation_begin_exchange(struct step_simulation *simulation, struct class_player *player)
{
    const struct step_operation *operation = operation_of_player(player, player->at);
    const uint32_t number = simulation->fold.channel_of[CHANNEL_TENSOR][player->class];
    if (number == STEP_NONE)
        return false;
    const struct step_channel *channel = &simulation->fold.channels[number];
    const struct step_transfer *transfer =
        within_of(simulation, channel, operation,
                  player->program->repeats[player->at] ? WORK_RECOMPUTE : pass_of(operation->kind));
    if (!(transfer->seconds > 0))
        return false;
    player_enter(simulation, player, PLAYER_TENSOR);
    for (uint32_t end = 0; end < channel->class_count; end++)
        if (channel_player(simulation, channel, end)->state != PLAYER_TENSOR)
            return true;
    simulation->busy[number] = true;
    step_network_begin(&simulation->network, number, transfer, simulation->now);
    return true;
}

static void end_norm(struct step_simulation *simulation)
{
    for (uint32_t class = 0; class < simulation->fold.class_count; class ++) {
        struct class_player *player = &simulation->players[class];
        const double waited = simulation->now - simulation->costs->norm.seconds - player->since;
        player_add(player, STEP_TERM_BUBBLE, waited);
        player_add(player, STEP_TERM_OPTIMIZER, simulation->costs->norm.seconds);
        next_operation(simulation, player);
    }
    for (uint32_t class = 0; class < simulation->fold.class_count; class ++)
        player_go(simulation, &simulation->players[class]);
}

static void end_work(struct step_simulation *simulation, struct class_player *player)
{
    const struct step_operation *operation = operation_of_player(player, player->at);
    const double taken = simulation->now - player->since;
    if (operation->kind == OPERATION_NORM) {
        player_add(player, STEP_TERM_OPTIMIZER, taken);
        player_enter(simulation, player, PLAYER_AT_NORM);
        if (++simulation->at_norm == simulation->fold.class_count)
            step_events_set(&simulation->events, norm_object(simulation),
                            simulation->now + simulation->costs->norm.seconds);
        return;
    }
    if (operation->kind == OPERATION_UPDATE) {
        player_add(player, STEP_TERM_OPTIMIZER, taken);
    } else {
        const double worked = simulation->costs->messages_block && taken > player->work ? player->work : taken;
        player_add(player, STEP_TERM_PIPELINE, taken - worked);
        player_add(player, STEP_TERM_RECOMPUTATION, worked * player->repeated);
        player_add(player, STEP_TERM_COMPUTE, worked * (1 - player->repeated));
        if (simulation_begin_exchange(simulation, player))
            return;
    }
    next_operation(simulation, player);
    player_go(simulation, player);
}

/* The last thing that a player has waited for has come: was it on its way, or was somebody late? */
static void add_wait(const struct step_simulation *simulation, struct class_player *player,
                     const struct step_channel *channel, double began)
{
    const double from = player->since, moving = began > from ? began : from;
    if (!is_message(channel)) {
        player_add(player, STEP_TERM_DATA, simulation->now - from);
        return;
    }
    player_add(player, STEP_TERM_BUBBLE, moving - from);
    player_add(player, STEP_TERM_PIPELINE, simulation->now - moving);
}

static void end_exchange(struct step_simulation *simulation, const struct step_channel *channel)
{
    for (uint32_t end = 0; end < channel->class_count; end++) {
        struct class_player *player = channel_player(simulation, channel, end);
        player_add(player, STEP_TERM_TENSOR, simulation->now - player->since);
        next_operation(simulation, player);
        player->state = PLAYER_READY;
    }
    for (uint32_t end = 0; end < channel->class_count; end++)
        player_go(simulation, channel_player(simulation, channel, end));
}

static void end_activity(struct step_simulation *simulation, uint32_t number)
{
    const struct step_channel *channel = &simulation->fold.channels[number];
    const double began = simulation->began[number];
    step_network_end(&simulation->network, number);
    simulation->busy[number] = false;
    if (channel->kind == CHANNEL_TENSOR) {
        end_exchange(simulation, channel);
        return;
    }
    for (uint32_t end = 0; end < channel->class_count; end++) {
        struct class_player *player = channel_player(simulation, channel, end);
        const enum step_lane lane = lane_of(channel, end);
        const uint32_t operation = player->program->lanes[lane][player->begun[lane] - 1];
        player->complete[operation] = true;
        if (player->end)
            player->end[operation] = simulation->now;
        player->active--;
        player->messages -= is_message(channel);
        settle_work(simulation, player);
    }
    channel_try(simulation, number);
    for (uint32_t end = 0; end < channel->class_count; end++) {
        struct class_player *player = channel_player(simulation, channel, end);
        if (player->state != PLAYER_WAITS || !dependencies_complete(player))
            continue;
        add_wait(simulation, player, channel, began);
        player_go(simulation, player);
    }
}

static void handle_event(struct step_simulation *simulation, const struct step_event *event)
{
    const uint32_t classes = simulation->fold.class_count;
    simulation->now = event->time;
    if (event->object < classes)
        end_work(simulation, &simulation->players[event->object]);
    else if (event->object == norm_object(simulation))
        end_norm(simulation);
    else
        end_activity(simulation, event->object - classes);
}

/* Ranks that wait for each other: the first of them, and what for. */
static weft_status simulation_explain_deadlock(const struct step_simulation *simulation, struct error *error)
{
    const struct class_player *player = simulation->players;
    while (player->state == PLAYER_DONE)
        player++;
    struct buffer text = {0};
    step_print_operation(&player->program->schedule, player->at, &text);
    const char *operation = buffer_string(&text);
    const weft_status status = error_set(error, WEFT_ERROR_SCHEDULE, "rank %u waits for ever at operation %s",
                                         player->rank, operation ? operation : "");
    buffer_free(&text);
    return status;
}

/* Share the links again; messages that have got their turn begin to move. */
static void settle_network(struct step_simulation *simulation)
{
    step_network_settle(&simulation->network, simulation->now);
    for (uint32_t i = 0; i < simulation->network.begun_count; i++)
        channel_moves(simulation, simulation->network.begun[i]);
}

/* Take the next event. Rates and turns are settled before time goes on, by more than what is rounded. */
static bool simulation_next_event(struct step_simulation *simulation, struct step_event *event)
{
    if (step_network_changes(&simulation->network) &&
        step_events_next(&simulation->events) > simulation->now * STEP_LATER)
        settle_network(simulation);
    return step_events_take(&simulation->events, event);
}

static weft_status step_simulation_run(struct step_simulation *simulation, struct error *error)
{
    struct step_event event;
    for (uint32_t class = 0; class < simulation->fold.class_count; class ++)
        player_go(simulation, &simulation->players[class]);
    while (simulation_next_event(simulation, &event))
        handle_event(simulation, &event);
    return simulation->done == simulation->fold.class_count ? WEFT_OK : simulation_explain_deadlock(simulation, error);
}

weft_status step_simulate(const struct step_costs *costs, const struct step_options *options,
                          struct step_result *result, struct error *error)
{
    struct step_simulation simulation;
    *result = (struct step_result){0};
    weft_status status = step_simulation_open(&simulation, costs, options, error);
    if (status == WEFT_OK)
        status = step_simulation_run(&simulation, error);
    if (status == WEFT_OK)
        status = step_simulation_result(&simulation, result, error);
    step_simulation_close(&simulation);
    if (status != WEFT_OK)
        step_result_free(result);
    return status;
}
