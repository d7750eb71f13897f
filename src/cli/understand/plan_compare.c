/* SPDX-License-Identifier: Apache-2.0 */
/* `weft plan compare`: what a plan predicted against what its run measured. */
#include "cli/understand/plan_show.h"

#include "base/format/json_put.h"
#include "training/plan/run/measured_steps.h"
#include "training/plan/run/plan_file.h"

static struct {
    bool json;
} chosen;

static const struct cli_option compare_options[] = {
    CLI_FLAG("json", 0, &chosen.json, "print a JSON object"),
};

/* A predicted and a measured time. */
struct comparison {
    const char *name;
    double predicted, measured;
};

#define COMPARISONS 4

static void compare_times(const struct plan *plan, const struct measured_steps *measured,
                          struct comparison list[COMPARISONS])
{
    const double *terms = plan->price.terms;
    const double computing = terms[STEP_TERM_COMPUTE] + terms[STEP_TERM_RECOMPUTATION] + terms[STEP_TERM_OPTIMIZER];
    list[0] = (struct comparison){"step", plan->price.seconds, measured->seconds};
    list[1] = (struct comparison){"computing and optimizer", computing,
                                  measured->seconds - measured->wait_seconds - measured->data_seconds};
    list[2] =
        (struct comparison){"waiting for ranks and links", plan->price.seconds - computing, measured->wait_seconds};
    list[3] = (struct comparison){"reading data", 0, measured->data_seconds};
}

static weft_status plan_compare_run(struct command_call *call, struct error *error)
{
    struct plan plan;
    struct measured_steps measured;
    struct comparison list[COMPARISONS];
    char text[STRATEGY_TEXT_BYTES];
    weft_status status = plan_load(call->words[0], &plan, error);
    if (status != WEFT_OK)
        return status;
    status = measured_steps_load(call->words[1], &measured, error);
    if (status == WEFT_OK && chosen.json) {
        struct json_writer writer;
        compare_times(&plan, &measured, list);
        json_begin(&writer, JSON_INDENTED);
        json_open_object(&writer, NULL);
        JSON_PUT(&writer, "steps", measured.steps);
        for (size_t i = 0; i < COMPARISONS; i++)
            JSON_PUT_OBJECT(&writer, list[i].name, "predicted_ms", list[i].predicted * 1e3, "measured_ms",
                            list[i].measured * 1e3);
        status = json_complete(&writer, call->output, error);
    } else if (status == WEFT_OK) {
        compare_times(&plan, &measured, list);
        fprintf(call->output, "%s: %s; medians of %u steps\n", plan.model, strategy_describe(&plan.strategy, text),
                measured.steps);
        fprintf(call->output, "%-30s %13s %13s %13s\n", "", "predicted", "measured", "difference");
        for (size_t i = 0; i < COMPARISONS; i++)
            fprintf(call->output, "%-30s %10.3f ms %10.3f ms %+10.3f ms\n", list[i].name, list[i].predicted * 1e3,
                    list[i].measured * 1e3, (list[i].predicted - list[i].measured) * 1e3);
    }
    plan_free(&plan);
    return status;
}

const struct command command_plan_compare = {
    .name = "compare",
    .summary = "compare a plan's prediction with what its run measured",
    .description =
        "Reads a plan of weft plan --save and the metrics of a run by it (weft train --plan PLAN --metrics METRICS). "
        "Times are those of rank 0: medians over the steps but the first tenth.",
    .examples = "weft plan compare plan.json metrics.jsonl\n",
    .words = "PLAN METRICS",
    COMMAND_OPTIONS(compare_options),
    .run = plan_compare_run,
};
