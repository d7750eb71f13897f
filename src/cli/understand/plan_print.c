/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/understand/plan_print.h"

#include "base/format/json_put.h"
#include "base/text.h"
#include "training/plan/run/plan_file.h"

#include <inttypes.h>
#include <math.h>

static double tokens_of(const struct plan_answer *answer)
{
    return (double)answer->space->batch * answer->space->sequence;
}

/* ---- batches ---- */

static double hours_of(const struct plan_batch *batch)
{
    return batch->seconds * batch->point.steps / 3600;
}

/* The fewest sequences that any batch needs, as a share of those that this one needs. */
static double efficiency_of(const struct plan_answer *answer, const struct plan_batch *batch)
{
    double fewest = INFINITY;
    for (size_t i = 0; i < answer->batch_count; i++)
        fewest = fmin(fewest, answer->batches[i].point.batch * answer->batches[i].point.steps);
    return fewest / (batch->point.batch * batch->point.steps);
}

static void print_batches(const struct plan_answer *answer, FILE *output)
{
    if (!answer->batch_count)
        return;
    fprintf(output, "%10s %10s %12s %12s %12s\n", "batch", "steps", "step ms", "hours", "efficiency");
    for (size_t i = 0; i < answer->batch_count; i++) {
        const struct plan_batch *batch = &answer->batches[i];
        fprintf(output, "%10u %10.0f", batch->point.batch, batch->point.steps);
        if (batch->seconds > 0)
            fprintf(output, " %12.4g %12.4g", batch->seconds * 1e3, hours_of(batch));
        else
            fprintf(output, " %25s", "does not fit");
        fprintf(output, " %10.1f %%\n", 100 * efficiency_of(answer, batch));
    }
    const struct plan_batch *best = &answer->batches[answer->best_batch];
    fprintf(output,
            "the target is reached first with batches of %u, in %.4g hours (efficiency: the fewest sequences that any "
            "batch needs, as a share of those that this one needs)\n\n",
            best->point.batch, hours_of(best));
}

/* One that does not fit has no step. */
static void put_batches(struct json_writer *writer, const struct plan_answer *answer)
{
    if (!answer->batch_count)
        return;
    json_open_array(writer, "batches");
    for (size_t i = 0; i < answer->batch_count; i++) {
        const struct plan_batch *batch = &answer->batches[i];
        json_open_object(writer, NULL);
        JSON_PUT(writer, "batch", batch->point.batch, "steps", batch->point.steps, "fits", (bool)(batch->seconds > 0),
                 "efficiency", efficiency_of(answer, batch));
        if (batch->seconds > 0)
            JSON_PUT(writer, "step_ms", batch->seconds * 1e3, "hours", hours_of(batch));
        json_close(writer);
    }
    json_close(writer);
}

/* ---- as text ---- */

static void print_counts(const struct plan_answer *answer, FILE *output)
{
    const struct search_result *result = answer->result;
    fprintf(output,
            "%" PRIu64 " strategies: %" PRIu64 " priced, %" PRIu64 " do not fit, %" PRIu64 " are excluded by bounds",
            result->strategies, result->priced, result->unfit, result->excluded);
    if (result->gap > 0)
        fprintf(output, "; ended early: the best of all may be up to %.1f %% faster\n", 100 * result->gap);
    else
        fprintf(output, "; the best is proved (gap 0); %.1f s\n", answer->seconds);
}

static void print_best(const struct plan_answer *answer, FILE *output)
{
    const struct search_plan *best = &answer->result->plans[0];
    char text[STRATEGY_TEXT_BYTES], needed[32], available[32];
    fprintf(output, "\nbest: %s\n", strategy_describe(&best->strategy, text));
    fprintf(output, "  %.4g ms a step, %.4g tokens/s; %s of %s of memory a %s\n\n", best->price.seconds * 1e3,
            tokens_of(answer) / best->price.seconds, text_bytes(answer->needed, needed, sizeof needed),
            text_bytes(answer->available, available, sizeof available),
            answer->setting->cluster->host_memory ? "host" : "device");
    if (!answer->shares)
        return;
    fputs("  micro-batches of the data ranks, by the speed of their devices:", output);
    for (uint32_t d = 0; d < best->strategy.mesh.extent[MESH_DATA]; d++)
        fprintf(output, " %u", answer->shares[d]);
    fputs("\n\n", output);
}

static void print_terms(const struct plan_answer *answer, FILE *output)
{
    const struct price *price = &answer->result->plans[0].price;
    for (unsigned term = 0; term < STEP_TERMS; term++)
        fprintf(output, "  %-24s %10.3f ms %6.1f %%\n", step_term_names[term], price->terms[term] * 1e3,
                100 * price->terms[term] / price->seconds);
    char text[EXPLAIN_TEXT_BYTES], bytes[32];
    fprintf(output, "\nlimited by %s\n", explain_constraint(answer->result, text));
    for (unsigned level = 0; level < STEP_LINK_LEVELS; level++)
        if (price->bytes[level] > 0)
            fprintf(output, "  %-24s %13s a step; the busiest is used %.0f %% of the time\n", step_level_names[level],
                    text_bytes((uint64_t)price->bytes[level], bytes, sizeof bytes), 100 * price->peak[level]);
}

static void print_next(const struct plan_answer *answer, FILE *output)
{
    const struct search_result *result = answer->result;
    const struct price *best = &result->plans[0].price;
    size_t shown = 0;
    char text[STRATEGY_TEXT_BYTES];
    for (size_t next = 0; shown < answer->show && (next = explain_next(result, next)) < result->count; shown++) {
        const struct search_plan *plan = &result->plans[next];
        if (!shown)
            fprintf(output, "\nnext, of those priced:\n");
        fprintf(output, "  %+8.1f %%  %s\n             ", 100 * (plan->price.seconds / best->seconds - 1),
                strategy_describe(&plan->strategy, text));
        const char *between = " ";
        for (unsigned term = 0; term < STEP_TERMS; term++) {
            const double more = plan->price.terms[term] - best->terms[term];
            if (more <= 1e-3 * best->seconds && more >= -1e-3 * best->seconds)
                continue;
            fprintf(output, "%s%s %+.3g ms", between, step_term_names[term], more * 1e3);
            between = "; ";
        }
        fputs(*between == ';' ? "\n" : " all terms are within 0.1 % of a step\n", output);
    }
}

static void print_sensitivities(const struct plan_answer *answer, FILE *output)
{
    const double best = answer->result->plans[0].price.seconds;
    if (answer->sensitivity_count)
        fprintf(output, "\nthe same strategy with\n");
    for (size_t i = 0; i < answer->sensitivity_count; i++)
        fprintf(output, "  %-32s %.2f times as fast\n", answer->sensitivities[i].what,
                best / answer->sensitivities[i].seconds);
}

void plan_print(const struct plan_answer *answer, FILE *output)
{
    const struct planner_cluster *cluster = answer->setting->cluster;
    const struct strategy_space *space = answer->space;
    char text[STRATEGY_TEXT_BYTES];
    print_batches(answer, output);
    fprintf(output, "%s on %s: %u host%s, %u rank%s (%s); a step is %u x %u tokens\n", answer->model, cluster->name,
            cluster->hosts, cluster->hosts == 1 ? "" : "s", cluster->step.ranks, cluster->step.ranks == 1 ? "" : "s",
            cluster->devices[0].kind, space->batch, space->sequence);
    print_counts(answer, output);
    print_best(answer, output);
    print_terms(answer, output);
    print_next(answer, output);
    print_sensitivities(answer, output);
    const struct strategy *best = &answer->result->plans[0].strategy;
    fprintf(output, "\nrun it: weft run -n %u -- weft train --model %s --batch %u --sequence %u %s",
            mesh_ranks(&best->mesh), answer->model, space->batch, space->sequence, strategy_options(best, text));
    const struct train_config *config = answer->setting->config;
    if (model_samples_of(&config->shape) == SAMPLES_OF_TEXTS && config->shape.classes)
        fputs(" --task classify", output);
    if (config->optimizer.kind != OPTIMIZER_ADAMW)
        fprintf(output, " --optimizer %s", optimizer_names[config->optimizer.kind]);
    if (config->gradients != WEFT_F32)
        fprintf(output, " --gradients %s", weft_type_name(config->gradients));
    fprintf(output, " --data FILE\n");
    if (answer->shares)
        fputs(
            "equal shares of micro-batches take longer: keep the plan (--save FILE) and run it (weft train --plan FILE)\n",
            output);
}

/* ---- as JSON ---- */

static void put_plan(struct json_writer *writer, const char *key, const struct search_plan *plan)
{
    json_open_object(writer, key);
    JSON_PUT(writer, "ranks", mesh_ranks(&plan->strategy.mesh), "shares_by_speed", plan->strategy.shares_by_speed);
    plan_put_strategy(writer, &plan->strategy);
    JSON_PUT(writer, "step_ms", plan->price.seconds * 1e3);
    json_open_object(writer, "terms_ms");
    for (unsigned term = 0; term < STEP_TERMS; term++)
        json_put_number(writer, step_term_names[term], plan->price.terms[term] * 1e3);
    json_close(writer);
    json_open_object(writer, "bytes");
    for (unsigned level = 0; level < STEP_LINK_LEVELS; level++)
        json_put_number(writer, step_level_names[level], plan->price.bytes[level]);
    json_close(writer);
    json_close(writer);
}

weft_status plan_print_json(const struct plan_answer *answer, FILE *output, struct error *error)
{
    const struct search_result *result = answer->result;
    char text[EXPLAIN_TEXT_BYTES];
    struct json_writer writer;
    size_t shown = 0;
    json_begin(&writer, JSON_INDENTED);
    json_open_object(&writer, NULL);
    JSON_PUT(&writer, "model", answer->model, "cluster", answer->setting->cluster->name, "ranks",
             answer->setting->cluster->step.ranks, "batch", answer->space->batch, "sequence", answer->space->sequence,
             "strategies", result->strategies, "priced", result->priced, "unfit", result->unfit, "excluded",
             result->excluded, "gap", result->gap, "planning_seconds", answer->seconds, "tokens_per_second",
             tokens_of(answer) / result->plans[0].price.seconds, "memory_bytes", answer->needed, "memory_available",
             answer->available, "limited_by", explain_constraint(result, text));
    put_batches(&writer, answer);
    put_plan(&writer, "best", &result->plans[0]);
    plan_put_shares(&writer, answer->shares, result->plans[0].strategy.mesh.extent[MESH_DATA]);
    json_open_array(&writer, "next");
    for (size_t next = 0; shown < answer->show && (next = explain_next(result, next)) < result->count; shown++)
        put_plan(&writer, NULL, &result->plans[next]);
    json_close(&writer);
    json_open_array(&writer, "sensitivities");
    for (size_t i = 0; i < answer->sensitivity_count; i++)
        JSON_PUT_OBJECT(&writer, NULL, "what", answer->sensitivities[i].what, "speedup",
                        result->plans[0].price.seconds / answer->sensitivities[i].seconds);
    json_close(&writer);
    return json_complete(&writer, output, error);
}
