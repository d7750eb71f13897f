/* SPDX-License-Identifier: Apache-2.0 */
/* `weft profile`: where the time of a training step goes, by layer and by kernel. */
#include "training/train/report/profile.h"
#include "cli/measure/machine/profile_layers.h"
#include "cli/measure/machine/profile_machine.h"
#include "cli/train/training.h"
#include "cli/understand/profile_print.h"
#include "training/train/loop/trainer.h"

#include <inttypes.h>

static struct {
    struct training_measure measure;
    bool all, json;
} chosen;

static const struct cli_option options[] = {
    TRAINING_MEASURE_OPTIONS(chosen.measure),
    TRAINING_RECOMPUTE_OPTIONS(chosen.measure.recompute),
    CLI_INTEGER("steps", 's', "N", &chosen.measure.steps, "10", 1, 10000, "measured steps; the median one is shown"),
    CLI_INTEGER("warm", 0, "N", &chosen.measure.warm, "3", 0, 1e6, "warm-up steps before them"),
    CLI_FLAG("all", 'a', &chosen.all, "show each layer instead of a sum per kind"),
    CLI_FLAG("json", 0, &chosen.json, "print JSON, a record per layer"),
};

static void profile_note_step(void *profile, const struct report_step *step)
{
    profile_step_done(profile, step->seconds, step->wait_seconds);
}

static weft_status profile_print_steps(struct trainer *trainer, const struct train_config *config,
                                       weft_context *context, double peak, FILE *output, struct error *error)
{
    const int ranks = weft_comm_size(weft_world(context));
    const struct profile_print print = {
        .model = chosen.measure.model,
        .precision = chosen.measure.precision,
        .kernels = trainer_device(trainer)->kernels,
        .ranks = ranks,
        .threads = chosen.measure.threads,
        .batch = chosen.measure.batch,
        .micro_batch = config->micro_batch,
        .sequence = chosen.measure.sequence,
        .steps = chosen.measure.steps,
        .peak = peak,
        .model_flops = trainer_step_flops(trainer) / ranks,
        .all = chosen.all,
        .description = trainer_description(trainer),
        .step = profile_median(config->profile),
    };
    if (weft_comm_rank(weft_world(context)) != 0)
        return WEFT_OK;
    return chosen.json ? profile_print_json(&print, output, error) : profile_print_tables(&print, output, error);
}

static weft_status profile_run(struct command_call *call, struct error *error)
{
    struct profile *profile;
    weft_status status = profile_open((size_t)chosen.measure.warm, (size_t)chosen.measure.steps, &profile, error);
    if (status != WEFT_OK)
        return status;
    chosen.measure.profile = profile;
    chosen.measure.observe = profile_note_step;
    chosen.measure.observer = profile;
    status = training_measure_run(call, &chosen.measure, profile_print_steps, error);
    profile_close(profile);
    return status;
}

const struct command command_profile = {
    .name = "profile",
    .group = COMMAND_MEASURE,
    .summary = "show where the time of a training step goes; or measure this machine",
    .description =
        "Runs training steps on random tokens, as weft bench train does, and times each layer and each kernel. The "
        "median step is shown, so that its parts add up to its time. Timing does not change the results.\n\n"
        "By layer: its forward and backward pass, its share of the step, and the arithmetic of its matrix products "
        "and attention, also as a share of the peak (the better of multiply-adds in registers and a large matrix product). By kernel: calls, "
        "time, and GFLOP/s or GB/s; each array that a kernel reads or writes counts once. With several ranks, rank "
        "0's times are shown.",
    .examples = "weft profile --model gpt2-124m --batch 4 --sequence 64\n"
                "weft profile --model llama --precision bf16 --all\n",
    COMMAND_OPTIONS(options),
    COMMAND_SUBCOMMANDS(&profile_layers, &profile_machine),
    .run = profile_run,
};
