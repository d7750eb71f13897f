/* SPDX-License-Identifier: Apache-2.0 */
/* `weft plan compare`: what a plan predicted against what its run measured. */
#include "cli/understand/plan_show.h"

#include "base/format/json_put.h"
#include "training/plan/run/measured_steps.h"
#include "training/plan/run/plan_file.h"

#include <math.h>

static struct {
    bool json;
} chosen;

static const struct cli_option compare_options[] = {
    CLI_FLAG("json", 0, &chosen.json, "print a JSON object"),
};

/* A predicted and a measured time; NAN: there is none. */
struct comparison {
    const char *name;
    double predicted, measured;
};

#define COMPARISONS_MOST 10

struct comparisons {
    struct comparison list[COMPARISONS_MOST]; /* the first one is the whole step */
    size_t count;
    const char *not_measured[STEP_TERMS]; /* terms that no row has by themselves */
    size_t not_measured_count;
};

static void comparisons_add(struct comparisons *all, const char *name, double predicted, double measured)
{
    all->list[all->count++] = (struct comparison){name, predicted, measured};
}

static void note_not_measured(struct comparisons *all, enum step_term term)
{
    all->not_measured[all->not_measured_count++] = step_term_names[term];
}

/* A rank cannot tell late ranks from slow messages, and its passes repeat forward passes. */
static void compare_terms(const double *terms, const struct measured_steps *measured, struct comparisons *all)
{
    const double computing = terms[STEP_TERM_COMPUTE] + terms[STEP_TERM_RECOMPUTATION],
                 others = terms[STEP_TERM_BUBBLE] + terms[STEP_TERM_PIPELINE];
    note_not_measured(all, STEP_TERM_RECOMPUTATION);
    note_not_measured(all, STEP_TERM_BUBBLE);
    note_not_measured(all, STEP_TERM_PIPELINE);
    if (measured->has_terms) {
        comparisons_add(all, "compute and recomputation", computing, measured->compute_seconds);
        comparisons_add(all, "bubble and pipeline", others,
                        measured->wait_seconds - measured->tensor_wait_seconds - measured->data_wait_seconds);
        comparisons_add(all, step_term_names[STEP_TERM_TENSOR], terms[STEP_TERM_TENSOR], measured->tensor_wait_seconds);
        comparisons_add(all, step_term_names[STEP_TERM_DATA], terms[STEP_TERM_DATA], measured->data_wait_seconds);
        comparisons_add(all, step_term_names[STEP_TERM_OPTIMIZER], terms[STEP_TERM_OPTIMIZER],
                        measured->optimizer_seconds);
    } else {
        comparisons_add(all, "computing and optimizer", computing + terms[STEP_TERM_OPTIMIZER],
                        measured->seconds - measured->wait_seconds - measured->data_seconds);
        comparisons_add(all, "waiting for ranks and links", others + terms[STEP_TERM_TENSOR] + terms[STEP_TERM_DATA],
                        measured->wait_seconds);
        note_not_measured(all, STEP_TERM_COMPUTE);
        note_not_measured(all, STEP_TERM_TENSOR);
        note_not_measured(all, STEP_TERM_DATA);
        note_not_measured(all, STEP_TERM_OPTIMIZER);
    }
}

static void compare_times(const struct plan *plan, const struct measured_steps *measured, struct comparisons *all)
{
    *all = (struct comparisons){0};
    comparisons_add(all, "step", plan->price.seconds, measured->seconds);
    compare_terms(plan->price.terms, measured, all);
    comparisons_add(all, "reading data", NAN, measured->data_seconds);
    if (measured->has_terms)
        comparisons_add(all, "all else", NAN,
                        fmax(0, measured->seconds - measured->compute_seconds - measured->wait_seconds -
                                    measured->optimizer_seconds - measured->data_seconds));
}

/* ---- output ---- */

static void print_time(double seconds, double step, FILE *output)
{
    if (isnan(seconds))
        fprintf(output, " %13s %8s", "-", "");
    else
        fprintf(output, " %10.3f ms %6.1f %%", seconds * 1e3, step > 0 ? 100 * seconds / step : 0);
}

static void print_comparisons(const struct plan *plan, const struct measured_steps *measured,
                              const struct comparisons *all, FILE *output)
{
    const struct comparison *step = &all->list[0];
    char text[STRATEGY_TEXT_BYTES];
    fprintf(output, "%s: %s; %s of %u step%s\n", plan->model, strategy_describe(&plan->strategy, text),
            measured->steps == 1 ? "times" : "medians", measured->steps, measured->steps == 1 ? "" : "s");
    fprintf(output, "%-27s %13s %8s %13s %8s %13s\n", "", "predicted", "", "measured", "", "difference");
    for (size_t i = 0; i < all->count; i++) {
        const struct comparison *row = &all->list[i];
        fprintf(output, "%-27s", row->name);
        print_time(row->predicted, step->predicted, output);
        print_time(row->measured, step->measured, output);
        if (!isnan(row->predicted))
            fprintf(output, " %+10.3f ms", (row->predicted - row->measured) * 1e3);
        fputc('\n', output);
    }
    fprintf(output, "not measured by themselves:");
    for (size_t i = 0; i < all->not_measured_count; i++)
        fprintf(output, "%s %s", i ? "," : "", all->not_measured[i]);
    fputc('\n', output);
}

static void put_comparison(struct json_writer *writer, const char *key, const struct comparison *row,
                           const struct comparison *step)
{
    json_open_object(writer, key);
    if (!key)
        json_put_text(writer, "term", row->name);
    if (!isnan(row->predicted))
        JSON_PUT(writer, "predicted_ms", row->predicted * 1e3, "predicted_share", row->predicted / step->predicted);
    JSON_PUT(writer, "measured_ms", row->measured * 1e3, "measured_share", row->measured / step->measured);
    if (!isnan(row->predicted))
        json_put_number(writer, "difference_ms", (row->predicted - row->measured) * 1e3);
    json_close(writer);
}

static weft_status print_comparisons_json(const struct measured_steps *measured, const struct comparisons *all,
                                          FILE *output, struct error *error)
{
    struct json_writer writer;
    json_begin(&writer, JSON_INDENTED);
    json_open_object(&writer, NULL);
    JSON_PUT(&writer, "steps", measured->steps);
    put_comparison(&writer, "step", &all->list[0], &all->list[0]);
    json_open_array(&writer, "terms");
    for (size_t i = 1; i < all->count; i++)
        put_comparison(&writer, NULL, &all->list[i], &all->list[0]);
    json_close(&writer);
    json_open_array(&writer, "not_measured");
    for (size_t i = 0; i < all->not_measured_count; i++)
        json_put_text(&writer, NULL, all->not_measured[i]);
    json_close(&writer);
    return json_complete(&writer, output, error);
}

static weft_status plan_compare_run(struct command_call *call, struct error *error)
{
    struct plan plan;
    struct measured_steps measured;
    struct comparisons all;
    weft_status status = plan_load(call->words[0], &plan, error);
    if (status != WEFT_OK)
        return status;
    status = measured_steps_load(call->words[1], &measured, error);
    if (status == WEFT_OK) {
        compare_times(&plan, &measured, &all);
        if (chosen.json)
            status = print_comparisons_json(&measured, &all, call->output, error);
        else
            print_comparisons(&plan, &measured, &all, call->output);
    }
    plan_free(&plan);
    return status;
}

const struct command command_plan_compare = {
    .name = "compare",
    .summary = "compare a plan's prediction with what its run measured",
    .description =
        "Reads a plan of weft plan --save and the metrics of a run by it (weft train --plan PLAN --metrics FILE): "
        "the file, or a directory with a metrics.jsonl. Predictions are means over the ranks; measured times are those "
        "of rank 0, medians over the steps but the first tenth.\n\n"
        "A rank measures its passes, which include recomputation, the optimizer, and how long it waits for the tensor "
        "and the data axis. It cannot tell late ranks (the bubble) from messages under way, so these two are compared "
        "together. Reading data is not predicted.",
    .examples = "weft plan compare plan.json metrics.jsonl\n"
                "weft plan compare plan.json runs/first --json\n",
    .words = "PLAN RUN",
    COMMAND_OPTIONS(compare_options),
    .run = plan_compare_run,
};
