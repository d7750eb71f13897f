/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/measure/bench_sweep.h"

#include "base/format/json_put.h"
#include "cli/measure/bench_timing.h"
#include "core/collective/communicator/context.h"

#include <stdlib.h>
#include <string.h>

/* An algorithm at the present size. */
struct bench_sweep_candidate {
    const char *name;
    double predicted;
    double seconds[BENCH_SWEEP_ROUNDS_MOST];
    double again[BENCH_SWEEP_ROUNDS_MOST]; /* of the choice: its second series */
    double figure;
};

static bool speaks(const struct bench_sweep *sweep)
{
    return weft_comm_rank(sweep->what->comm) == 0;
}

weft_status bench_sweep_open(struct bench_sweep *sweep, struct error *error)
{
    weft_comm *comm = sweep->what->comm;
    sweep->figures.place = (struct sweep_record_place){.collective = sweep->what->collective->name,
                                                       .ranks = (uint32_t)weft_comm_size(comm),
                                                       .nodes = (uint32_t)weft_comm_nodes(comm)};
    sweep_record_kind_here(sweep->figures.place.kind);
    if (speaks(sweep) && !sweep->json) {
        fprintf(sweep->output,
                "# weft %s, %s: %d ranks on %d nodes, %s buffers, %s place, medians of %u rounds; links are %s\n",
                weft_version(), sweep->what->collective->name, weft_comm_size(comm), weft_comm_nodes(comm),
                sweep->what->registered ? "registered" : "ordinary", sweep->in_place ? "in" : "out of", sweep->rounds,
                sweep->what->context->tuner.source);
        fprintf(sweep->output, "#%10s | %-26s %10s %10s | %-26s %10s | %7s %7s\n", "size", "the tuner's choice",
                "predicted", "time us", "the best", "time us", "slower", "spread");
    }
    return WEFT_OK;
}

void bench_sweep_close(struct bench_sweep *sweep)
{
    sweep_record_free(&sweep->figures);
    free(sweep->excess);
    free(sweep->beyond);
}

/* ---- one size ---- */

/* Those that the tuner chooses among; *chosen is the one that it takes. All ranks find the same. */
static weft_status find_candidates(const struct bench_sweep *sweep, size_t count,
                                   struct bench_sweep_candidate *candidates, size_t *found, size_t *chosen,
                                   struct error *error)
{
    const struct bench_case *what = sweep->what;
    const char *name = what->collective->name;
    struct algorithm_prices prices;
    const struct algorithm *cheapest;
    enum collective collective;
    weft_status status = collective_parse(name, &collective, error);
    if (status != WEFT_OK)
        return status;
    struct schedule_key key = {.collective = (uint8_t)collective,
                               .in_place = sweep->in_place && collective == COLLECTIVE_ALLTOALL,
                               .reproducible = sweep->reproducible,
                               .root = (uint32_t)what->root};
    struct schedule_shape shape = schedule_shape_of(what->comm, &key);
    shape.block_bytes = count * weft_type_size(what->type);
    status = tuner_choose(what->comm, &shape, &cheapest, &prices, error);
    if (status != WEFT_OK)
        return status;
    weft_comm_set_algorithm(what->comm, name, NULL);
    const char *choice = weft_comm_algorithm(what->comm, name, count, what->type);
    *found = 0;
    *chosen = SIZE_MAX;
    for (size_t i = 0; i < prices.count; i++) {
        if (prices.prices[i].refusal)
            continue;
        if (choice && strcmp(choice, prices.prices[i].algorithm->name) == 0)
            *chosen = *found;
        candidates[(*found)++] = (struct bench_sweep_candidate){.name = prices.prices[i].algorithm->name,
                                                                .predicted = prices.prices[i].seconds};
    }
    if (*chosen == SIZE_MAX)
        return error_set(error, WEFT_ERROR_STATE,
                         "the tuner's choice for %s of %zu bytes is not one of its candidates: %s", name,
                         (size_t)shape.block_bytes, choice ? choice : weft_message(what->context));
    return WEFT_OK;
}

static weft_status take_turn(struct bench_sweep *sweep, size_t bytes, const char *algorithm, double *seconds,
                             struct error *error)
{
    const struct bench_case *what = sweep->what;
    struct bench_result result;
    weft_status status = weft_comm_set_algorithm(what->comm, what->collective->name, algorithm);
    if (status != WEFT_OK)
        return error_set(error, status, "%s", weft_message(what->context));
    status = bench_measure(sweep->bench, bytes, sweep->in_place, &result, error);
    *seconds = result.seconds;
    sweep->errors += status == WEFT_OK ? result.errors : 0;
    return status;
}

static weft_status bench_sweep_print_json(const struct bench_sweep *sweep, size_t bytes,
                                          const struct bench_sweep_candidate *candidate, bool chosen, double spread,
                                          struct error *error)
{
    struct json_writer writer;
    json_begin_line(&writer);
    JSON_PUT(&writer, "collective", sweep->what->collective->name, "ranks", sweep->figures.place.ranks, "nodes",
             sweep->figures.place.nodes, "buffers", sweep->what->registered ? "registered" : "ordinary", "in_place",
             sweep->in_place, "bytes", bytes, "algorithm", candidate->name, "chosen", chosen, "predicted_us",
             candidate->predicted * 1e6, "time_us", candidate->figure * 1e6);
    json_open_array(&writer, "rounds_us");
    for (uint32_t round = 0; round < sweep->rounds; round++)
        json_put_number(&writer, NULL, candidate->seconds[round] * 1e6);
    json_close(&writer);
    if (chosen)
        json_put_number(&writer, "spread", spread);
    return json_complete(&writer, sweep->output, error);
}

/* Figures of all candidates from their rounds (which are sorted by this); returns the spread of the choice. */
static double bench_sweep_settle(struct bench_sweep *sweep, struct bench_sweep_candidate *candidates, size_t found,
                                 size_t chosen)
{
    struct bench_sweep_candidate *choice = &candidates[chosen];
    double both[2 * BENCH_SWEEP_ROUNDS_MOST];
    memcpy(both, choice->seconds, sweep->rounds * sizeof *both);
    memcpy(both + sweep->rounds, choice->again, sweep->rounds * sizeof *both);
    for (size_t i = 0; i < found; i++)
        candidates[i].figure = bench_median(candidates[i].seconds, sweep->rounds);
    double first = choice->figure, second = bench_median(choice->again, sweep->rounds);
    choice->figure = bench_median(both, (size_t)2 * sweep->rounds);
    return first > second ? first / second - 1 : second / first - 1;
}

static weft_status bench_sweep_tell(struct bench_sweep *sweep, size_t bytes, size_t count,
                                    struct bench_sweep_candidate *candidates, size_t found, size_t chosen,
                                    struct error *error)
{
    double spread = bench_sweep_settle(sweep, candidates, found, chosen);
    const struct bench_sweep_candidate *choice = &candidates[chosen], *best = choice;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < found && status == WEFT_OK; i++) {
        if (candidates[i].figure < best->figure)
            best = &candidates[i];
        status = sweep_record_put(&sweep->figures, count * weft_type_size(sweep->what->type), candidates[i].name,
                                  candidates[i].figure, error);
        if (status == WEFT_OK && sweep->json && speaks(sweep))
            status = bench_sweep_print_json(sweep, bytes, &candidates[i], i == chosen, spread, error);
    }
    double slower = choice->figure / best->figure - 1;
    double *excess = realloc(sweep->excess, (sweep->count + 1) * sizeof *excess);
    sweep->excess = excess ? excess : sweep->excess;
    double *beyond = realloc(sweep->beyond, (sweep->count + 1) * sizeof *beyond);
    sweep->beyond = beyond ? beyond : sweep->beyond;
    if (!excess || !beyond)
        return error_memory(error, (sweep->count + 1) * sizeof *excess, "the sweep");
    excess[sweep->count] = slower;
    beyond[sweep->count++] = slower <= spread ? 0 : slower;
    if (speaks(sweep) && !sweep->json)
        fprintf(sweep->output, " %10zu | %-26s %10.2f %10.2f | %-26s %10.2f | %6.1f%% %6.1f%%\n", bytes, choice->name,
                choice->predicted * 1e6, choice->figure * 1e6, best->name, best->figure * 1e6, slower * 100,
                spread * 100);
    fflush(sweep->output);
    return status;
}

weft_status bench_sweep_size(struct bench_sweep *sweep, size_t bytes, struct error *error)
{
    const struct bench_case *what = sweep->what;
    size_t blocks = bench_collective_blocks(what->collective, weft_comm_size(what->comm));
    size_t count = bench_collective_has_data(what->collective) ? bytes / weft_type_size(what->type) / blocks : 0;
    struct bench_sweep_candidate *candidates = calloc(ALGORITHM_PRICES, sizeof *candidates);
    size_t found = 0, chosen = 0;
    if (!candidates)
        return error_memory(error, ALGORITHM_PRICES * sizeof *candidates, "the sweep");
    weft_status status = find_candidates(sweep, count, candidates, &found, &chosen, error);
    for (uint32_t round = 0; round < sweep->rounds && status == WEFT_OK; round++) {
        /* Each round begins with another one, so that none always follows the same. */
        for (size_t k = 0; k < found && status == WEFT_OK; k++) {
            struct bench_sweep_candidate *candidate = &candidates[(k + round) % found];
            status = take_turn(sweep, bytes, candidate->name, &candidate->seconds[round], error);
        }
        if (status == WEFT_OK)
            status = take_turn(sweep, bytes, candidates[chosen].name, &candidates[chosen].again[round], error);
    }
    if (status == WEFT_OK)
        status = bench_sweep_tell(sweep, bytes, count, candidates, found, chosen, error);
    free(candidates);
    return status;
}

/* ---- the end ---- */

weft_status bench_sweep_end(struct bench_sweep *sweep, struct error *error)
{
    char path[FILE_PATH_BYTES];
    if (!speaks(sweep) || !sweep->count)
        return WEFT_OK;
    double median = bench_median(sweep->excess, sweep->count), worst = sweep->excess[sweep->count - 1];
    double beyond = bench_median(sweep->beyond, sweep->count), worst_beyond = sweep->beyond[sweep->count - 1];
    weft_status status = sweep_record_save(&sweep->figures, error);
    if (status != WEFT_OK || sweep->json)
        return status;
    fprintf(
        sweep->output,
        "# over %zu sizes the choice is %.1f%% slower than the best in the median, %.1f%% at worst; where more than "
        "its spread: %.1f%% and %.1f%%\n",
        sweep->count, median * 100, worst * 100, beyond * 100, worst_beyond * 100);
    if (sweep_record_path(path, NULL) == WEFT_OK)
        fprintf(sweep->output, "# kept in %s, for weft explain\n", path);
    return WEFT_OK;
}
