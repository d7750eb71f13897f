/* SPDX-License-Identifier: Apache-2.0 */
/* `weft bench train`: how long whole training steps take, and what share of the processor's arithmetic that is. */
#include "cli/measure/bench_train.h"

#include "cli/measure/bench_timing.h"
#include "cli/train/training.h"
#include "training/train/loop/trainer.h"

#include "base/format/json_put.h"
#include "training/model/file/model_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static struct {
    struct training_measure measure;
    bool json;
} chosen;

static const struct cli_option options[] = {
    TRAINING_MEASURE_OPTIONS(chosen.measure),
    CLI_INTEGER("steps", 's', "N", &chosen.measure.steps, "10", 1, 1e6, "measured steps"),
    CLI_INTEGER("warm", 0, "N", &chosen.measure.warm, "3", 0, 1e6, "warm-up steps before them"),
    CLI_NUMBER("dropout", 0, "X", &chosen.measure.dropout, "0", 0, 0.99, "dropout, as in weft train",
               .default_text = "none"),
    CLI_INTEGER("zero", 0, "N", &chosen.measure.zero, "0", 0, 1,
                "1: divide the optimizer's state among the ranks (ZeRO-1)"),
    CLI_BYTES("bucket", 0, "BYTES", &chosen.measure.bucket_bytes, "4M", "gradient bytes fused into one all-reduce"),
    CLI_FLAG("json", 0, &chosen.json, "print a line of JSON"),
};

struct bench_train_times {
    double *seconds; /* of the measured steps */
    size_t warm, count, room;
};

static void bench_train_note_step(void *observer, const struct report_step *step)
{
    struct bench_train_times *times = observer;
    if (step->step > times->warm && times->count < times->room)
        times->seconds[times->count++] = step->seconds;
}

struct figures {
    int ranks;
    double step_seconds;
    double tokens_per_second;
    double utilisation;                                 /* of all ranks' peak */
    double peak_flops;                                  /* of all ranks together */
    uint64_t peak_memory_bytes, predicted_memory_bytes; /* of the rank that has most */
    const char *kernels;
};

static weft_status bench_train_print_json(FILE *output, const struct figures *figures, struct error *error)
{
    return JSON_PRINT(output, error, "model", chosen.measure.model, "ranks", figures->ranks, "threads",
                      chosen.measure.threads, "precision", chosen.measure.precision, "zero", chosen.measure.zero,
                      "batch", chosen.measure.batch, "sequence", chosen.measure.sequence, "steps", chosen.measure.steps,
                      "step_ms", figures->step_seconds * 1e3, "tokens_per_s", figures->tokens_per_second,
                      "model_flops_utilisation", figures->utilisation, "peak_flops", figures->peak_flops,
                      "peak_memory_bytes", figures->peak_memory_bytes, "predicted_memory_bytes",
                      figures->predicted_memory_bytes, "kernels", figures->kernels);
}

static weft_status print_figures(FILE *output, const struct figures *figures, struct error *error)
{
    if (chosen.json)
        return bench_train_print_json(output, figures, error);
    fprintf(output,
            "%s, %d rank%s of %" PRId64 " thread%s (%s), %s, batches of %" PRId64 " x %" PRId64
            " tokens, median of %" PRId64 " steps:\n"
            "  %.1f ms a step, %.0f tokens/s, %.1f%% of the %.0f GFLOP/s that multiply-adds reach; at most %.0f MiB "
            "of memory a rank (%.0f predicted)\n",
            chosen.measure.model, figures->ranks, figures->ranks == 1 ? "" : "s", chosen.measure.threads,
            chosen.measure.threads == 1 ? "" : "s", figures->kernels, chosen.measure.precision, chosen.measure.batch,
            chosen.measure.sequence, chosen.measure.steps, figures->step_seconds * 1e3, figures->tokens_per_second,
            figures->utilisation * 100, figures->peak_flops * 1e-9, (double)figures->peak_memory_bytes / 1048576.0,
            (double)figures->predicted_memory_bytes / 1048576.0);
    return WEFT_OK;
}

/* Figures of this rank become those of all: the slowest step, the sum of the peaks, the most memory. */
static weft_status gather_figures(weft_context *context, struct figures *figures, struct error *error)
{
    double most[] = {figures->step_seconds, (double)figures->peak_memory_bytes,
                     (double)figures->predicted_memory_bytes};
    weft_status status = weft_allreduce(most, most, 3, WEFT_F64, WEFT_MAX, weft_world(context));
    if (status == WEFT_OK)
        status = weft_allreduce(&figures->peak_flops, &figures->peak_flops, 1, WEFT_F64, WEFT_SUM, weft_world(context));
    figures->step_seconds = most[0];
    figures->peak_memory_bytes = (uint64_t)most[1];
    figures->predicted_memory_bytes = (uint64_t)most[2];
    return command_check(context, status, error);
}

static weft_status bench_train_report(struct trainer *trainer, const struct train_config *config, weft_context *context,
                                      double peak, FILE *output, struct error *error)
{
    const struct bench_train_times *times = config->observer;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    struct figures figures = {.ranks = weft_comm_size(weft_world(context)),
                              .kernels = trainer_device(trainer)->kernels,
                              .peak_flops = peak,
                              .step_seconds = bench_median(times->seconds, times->count),
                              .peak_memory_bytes = (uint64_t)usage.ru_maxrss * 1024,
                              .predicted_memory_bytes = trainer_predicted_memory(trainer)};
    weft_status status = gather_figures(context, &figures, error);
    figures.tokens_per_second = (double)(config->batch * config->sequence) / figures.step_seconds;
    figures.utilisation = trainer_step_flops(trainer) / figures.step_seconds / figures.peak_flops;
    if (status == WEFT_OK && weft_comm_rank(weft_world(context)) == 0)
        status = print_figures(output, &figures, error);
    return status;
}

static weft_status bench_train_run(struct command_call *call, struct error *error)
{
    struct bench_train_times times = {.seconds = calloc((size_t)chosen.measure.steps, sizeof *times.seconds),
                                      .warm = (size_t)chosen.measure.warm,
                                      .room = (size_t)chosen.measure.steps};
    if (!times.seconds)
        return error_memory(error, times.room * sizeof *times.seconds, "a list of times");
    chosen.measure.observe = bench_train_note_step;
    chosen.measure.observer = &times;
    weft_status status = training_measure_run(call, &chosen.measure, bench_train_report, error);
    free(times.seconds);
    return status;
}

const struct command command_bench_train = {
    .name = "train",
    .summary = "measure whole training steps",
    .description =
        "Runs training steps on random tokens: forward, backward, sum over ranks, clipping, AdamW. Prints the "
        "median time of a step, tokens/s, the model's arithmetic as a share of the processor's peak, and the "
        "highest memory use of a rank. Arithmetic per token is 6 operations per weight plus 12 x layers x width x "
        "sequence for attention; the peak is measured with multiply-adds in registers.",
    .examples = "weft bench train --model gpt2-124m --batch 4 --sequence 64\n"
                "weft run -n 2 -- weft bench train --model gpt2-124m --batch 4 --json\n",
    COMMAND_OPTIONS(options),
    .run = bench_train_run,
};
