/* SPDX-License-Identifier: Apache-2.0 */
/* `weft profile`: where the time of a training step goes, by layer and by kernel. */
#include "training/train/report/profile.h"
#include "cli/train/training.h"
#include "cli/understand/profile_print.h"
#include "training/train/loop/trainer.h"

#include <inttypes.h>
#include <math.h>

static struct {
    struct training_measure measure;
    const char *recompute;
    bool all, json;
} chosen;

static const struct cli_option options[] = {
    TRAINING_MEASURE_OPTIONS(chosen.measure),
    CLI_CHOICE("recompute", 0, "WHAT", &chosen.recompute, "nothing", training_recomputes,
               "what the backward pass computes again instead of keeping"),
    CLI_INTEGER("steps", 's', "N", &chosen.measure.steps, "10", 1, 10000, "measured steps; the median one is shown"),
    CLI_INTEGER("warm", 0, "N", &chosen.measure.warm, "3", 0, 1e6, "warm-up steps before them"),
    CLI_FLAG("all", 'a', &chosen.all, "show each layer instead of a sum per kind"),
    CLI_FLAG("json", 0, &chosen.json, "print JSON, a record per layer"),
};

static void profile_note_step(void *profile, const struct report_step *step)
{
    profile_step_done(profile, step->seconds, step->wait_seconds);
}

static weft_status make_config(int ranks, struct profile *profile, struct train_config *config, struct error *error)
{
    const weft_status status = training_measure_config(&chosen.measure, ranks, config, error);
    config->recompute = (enum model_recompute)cli_choice_index(chosen.recompute, training_recomputes);
    config->profile = profile;
    config->observe = profile_note_step;
    config->observer = profile;
    return status;
}

static weft_status profile_measure_steps(const struct train_config *config, weft_context *context, FILE *output,
                                         bool *speaks, struct error *error)
{
    struct trainer *trainer = NULL;
    weft_status status = trainer_open(config, context, weft_world(context), NULL, NULL, &trainer, speaks, error);
    if (status != WEFT_OK)
        return status;
    struct device *device = trainer_device(trainer);
    const double peak = device->peak(device);
    status = trainer_run(trainer, speaks, error);
    if (status == WEFT_OK && weft_comm_rank(weft_world(context)) == 0) {
        const struct profile_print print = {
            .model = chosen.measure.model,
            .precision = chosen.measure.precision,
            .kernels = device->kernels,
            .ranks = weft_comm_size(weft_world(context)),
            .threads = chosen.measure.threads,
            .batch = chosen.measure.batch,
            .micro_batch = config->micro_batch,
            .sequence = chosen.measure.sequence,
            .steps = chosen.measure.steps,
            .peak = fmax(peak, device->peak(device)), /* something else may have had a core */
            .model_flops = trainer_step_flops(trainer) / weft_comm_size(weft_world(context)),
            .all = chosen.all,
            .description = trainer_description(trainer),
            .step = profile_median(config->profile),
        };
        status = chosen.json ? profile_print_json(&print, output, error) : profile_print_tables(&print, output, error);
    }
    trainer_close(trainer);
    return status;
}

static weft_status profile_run(struct command_call *call, struct error *error)
{
    weft_context *context;
    struct profile *profile;
    weft_status status = profile_open((size_t)chosen.measure.warm, (size_t)chosen.measure.steps, &profile, error);
    if (status != WEFT_OK)
        return status;
    training_prepare_process();
    status = weft_init(NULL, &context);
    if (status != WEFT_OK) {
        profile_close(profile);
        return error_set(error, status, "%s", weft_message(NULL));
    }
    struct train_config config;
    bool speaks = true;
    status = make_config(weft_comm_size(weft_world(context)), profile, &config, error);
    if (status == WEFT_OK)
        status = profile_measure_steps(&config, context, call->output, &speaks, error);
    profile_close(profile);
    return training_leave(call, context, status, speaks, error);
}

const struct command command_profile = {
    .name = "profile",
    .group = COMMAND_MEASURE,
    .summary = "show where the time of a training step goes",
    .description =
        "Runs training steps on random tokens, as weft bench train does, and times each layer and each kernel. The "
        "median step is shown, so that its parts add up to its time. Timing does not change the results.\n\n"
        "By layer: its forward and backward pass, its share of the step, and the arithmetic of its matrix products "
        "and attention, also as a share of the peak (measured with multiply-adds in registers). By kernel: calls, "
        "time, and GFLOP/s or GB/s; each array that a kernel reads or writes counts once. With several ranks, rank "
        "0's times are shown.",
    .examples = "weft profile --model gpt2-124m --batch 4 --sequence 64\n"
                "weft profile --model llama --precision bf16 --all\n",
    COMMAND_OPTIONS(options),
    .run = profile_run,
};
