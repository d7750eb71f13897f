/* SPDX-License-Identifier: Apache-2.0 */
/* `weft bench train`: how long whole training steps take on a mesh of ranks, and why. */
#include "cli/measure/bench_train.h"

#include "base/file/file.h"
#include "base/format/json_put.h"
#include "cli/measure/bench_pace.h"
#include "cli/measure/bench_steps.h"
#include "cli/train/training.h"
#include "observe/proc/kernel_tables.h"
#include "training/train/loop/trainer.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/resource.h>

static struct {
    struct training_measure measure;
    struct bench_pace_source pace;
    int64_t together;
    bool json;
} chosen;

static const struct cli_option options[] = {
    TRAINING_MEASURE_OPTIONS(chosen.measure),
    TRAINING_MESH_OPTIONS(chosen.measure.mesh),
    TRAINING_RECOMPUTE_OPTIONS(chosen.measure.recompute),
    CLI_INTEGER("steps", 's', "N", &chosen.measure.steps, "10", 1, 1e6, "measured steps"),
    CLI_INTEGER("warm", 0, "N", &chosen.measure.warm, "3", 0, 1e6, "warm-up steps before them"),
    CLI_NUMBER("dropout", 0, "X", &chosen.measure.dropout, "0", 0, 0.99, "dropout, as in weft train",
               .default_text = "none"),
    CLI_BYTES("bucket", 0, "BYTES", &chosen.measure.bucket_bytes, "4M", "gradient bytes fused into one all-reduce"),
    CLI_NUMBER("paced", 0, "X", &chosen.pace.scale, "0", 0, 1000,
               "passes of layers sleep X times as long as a rank computes them, instead of computing: to time "
               "schedules on more ranks than processors",
               .default_text = "compute", .advanced = true),
    CLI_TEXT("layer-times", 0, "FILE", &chosen.pace.layer_times, NULL,
             "with --paced: how long passes take, as weft profile layers has measured it",
             .default_text = "rank 0 measures them", .advanced = true),
    CLI_INTEGER("together", 0, "N", &chosen.together, "1", 1, 4096,
                "with --paced: how many ranks compute at the same time while rank 0 measures", .advanced = true),
    CLI_FLAG("json", 0, &chosen.json, "print a line of JSON"),
};

/* What the steps are measured with. */
struct bench_train {
    struct bench_steps *steps;
    struct bench_pace *pace; /* NULL: none */
};

struct figures {
    struct bench_steps_figures steps;
    int ranks;
    struct mesh mesh;
    const struct step_shape *shape;
    int64_t micro_batch;
    double tokens_per_second;
    double utilization;                                 /* of all ranks' peak */
    double peak_flops;                                  /* of all ranks together */
    uint64_t peak_memory_bytes, predicted_memory_bytes; /* of the rank that has most */
    const char *kernels;
};

static weft_status bench_train_print_json(FILE *output, const struct figures *figures, struct error *error)
{
    const struct training_measure *measure = &chosen.measure;
    char mesh[MESH_TEXT_BYTES];
    return JSON_PRINT(
        output, error, "model", measure->model, "ranks", figures->ranks, "mesh", mesh_print(&figures->mesh, mesh),
        "pipeline_schedule", step_pipeline_name(figures->shape->order), "stages", (int64_t)figures->shape->stages,
        "zero", (int64_t)figures->shape->zero, "threads", measure->threads, "precision", measure->precision,
        "gradients", measure->mesh.gradients, "batch", measure->batch, "micro_batch", figures->micro_batch, "sequence",
        measure->sequence, "steps", measure->steps, "paced", chosen.pace.scale, "step_ms", figures->steps.seconds * 1e3,
        "tokens_per_second", figures->tokens_per_second, "exposed_communication_ms", figures->steps.wait_seconds * 1e3,
        "predicted_exposed_communication_ms", figures->steps.predicted_wait_seconds * 1e3, "optimizer_ms",
        figures->steps.optimizer_seconds * 1e3, "bubble_share", figures->steps.bubble, "predicted_bubble_share",
        figures->steps.predicted_bubble, "model_flops_utilization", figures->utilization, "peak_flops",
        figures->peak_flops, "peak_memory_bytes",
        json_known(chosen.pace.scale == 0, (int64_t)figures->peak_memory_bytes), "predicted_memory_bytes",
        figures->predicted_memory_bytes, "kernels", figures->kernels);
}

static void print_mesh(FILE *output, const struct figures *figures)
{
    char mesh[MESH_TEXT_BYTES];
    if (figures->ranks > 1)
        fprintf(output, ", %s", mesh_print(&figures->mesh, mesh));
    if (figures->shape->pipeline > 1)
        fprintf(output, " (%s, %u stages)", step_pipeline_name(figures->shape->order), figures->shape->stages);
    if (figures->shape->zero)
        fprintf(output, ", ZeRO-%u", figures->shape->zero);
}

static weft_status print_figures(FILE *output, const struct figures *figures, struct error *error)
{
    const struct training_measure *measure = &chosen.measure;
    const struct bench_steps_figures *steps = &figures->steps;
    if (chosen.json)
        return bench_train_print_json(output, figures, error);
    fprintf(output, "%s, %d rank%s of %" PRId64 " thread%s (%s)", measure->model, figures->ranks,
            figures->ranks == 1 ? "" : "s", measure->threads, measure->threads == 1 ? "" : "s", figures->kernels);
    print_mesh(output, figures);
    fprintf(output, ", %s, batches of %" PRId64 " x %" PRId64 " tokens%s, median of %" PRId64 " steps:\n",
            measure->precision, measure->batch, measure->sequence, chosen.pace.scale > 0 ? ", paced" : "",
            measure->steps);
    fprintf(output, "  %.1f ms a step, %.0f tokens/s", steps->seconds * 1e3, figures->tokens_per_second);
    if (chosen.pace.scale == 0)
        fprintf(output,
                ", %.1f%% of the peak of %.0f GFLOP/s; at most %.0f MiB of memory a rank (%.0f "
                "predicted)",
                figures->utilization * 100, figures->peak_flops * 1e-9, (double)figures->peak_memory_bytes / 1048576.0,
                (double)figures->predicted_memory_bytes / 1048576.0);
    if (figures->ranks > 1)
        fprintf(output,
                "\n  a rank waits for others for %.1f ms (%.1f if messages took no time); bubble %.1f%% (%.1f%%)",
                steps->wait_seconds * 1e3, steps->predicted_wait_seconds * 1e3, steps->bubble * 100,
                steps->predicted_bubble * 100);
    fputc('\n', output);
    return WEFT_OK;
}

/* Figures of this rank become those of all: the sum of the peaks, the most memory. */
static weft_status gather_figures(weft_context *context, struct figures *figures, struct error *error)
{
    double most[] = {(double)figures->peak_memory_bytes, (double)figures->predicted_memory_bytes};
    weft_status status = weft_allreduce(most, most, 2, WEFT_F64, WEFT_MAX, weft_world(context));
    if (status == WEFT_OK)
        status = weft_allreduce(&figures->peak_flops, &figures->peak_flops, 1, WEFT_F64, WEFT_SUM, weft_world(context));
    figures->peak_memory_bytes = (uint64_t)most[0];
    figures->predicted_memory_bytes = (uint64_t)most[1];
    return command_check(context, status, error);
}

/* The most memory that this process has had. Of what ranks share, the kernel counts pages of others that it has read in full,
 * and in PSS each rank's share. */
static uint64_t peak_memory(void)
{
    char status[4096], shares[4096];
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    file_read_small(AT_FDCWD, "/proc/self/status", status, sizeof status);
    file_read_small(AT_FDCWD, "/proc/self/smaps_rollup", shares, sizeof shares);
    const uint64_t all = kernel_number_of(status, "RssShmem", 0), own = kernel_number_of(shares, "Pss_Shmem", all);
    return ((uint64_t)usage.ru_maxrss - (all > own ? all - own : 0)) * 1024;
}

static weft_status bench_train_report(struct trainer *trainer, const struct train_config *config, weft_context *context,
                                      double peak, FILE *output, struct error *error)
{
    struct bench_train *bench = config->observer;
    struct figures figures = {.ranks = weft_comm_size(weft_world(context)),
                              .shape = executor_shape(trainer_executor(trainer)),
                              .micro_batch = config->micro_batch,
                              .kernels = trainer_device(trainer)->kernels,
                              .peak_flops = peak,
                              .peak_memory_bytes = peak_memory(),
                              .predicted_memory_bytes = trainer_predicted_memory(trainer)};
    weft_status status = mesh_parse(config->mesh, (uint32_t)figures.ranks, &figures.mesh, error);
    if (status == WEFT_OK)
        status = bench_steps_gather(bench->steps, trainer, context, &figures.steps, error);
    if (status == WEFT_OK)
        status = gather_figures(context, &figures, error);
    figures.tokens_per_second = (double)(config->batch * config->sequence) / figures.steps.seconds;
    figures.utilization = trainer_step_flops(trainer) / figures.steps.seconds / figures.peak_flops;
    if (status == WEFT_OK && weft_comm_rank(weft_world(context)) == 0)
        status = print_figures(output, &figures, error);
    return status;
}

static void bench_train_note_step(void *observer, const struct report_step *step)
{
    bench_steps_note(((struct bench_train *)observer)->steps, step);
}

static weft_status bench_train_prepare(void *observer, struct train_config *config, weft_context *context, bool *speaks,
                                       struct error *error)
{
    struct bench_train *bench = observer;
    if (chosen.pace.scale == 0)
        return WEFT_OK;
    chosen.pace.together = (uint32_t)chosen.together;
    weft_status status = bench_pace_open(config, &chosen.pace, context, &bench->pace, speaks, error);
    if (status != WEFT_OK)
        return status;
    config->pace = bench_pace_hook(bench->pace);
    config->costs = bench_pace_costs(bench->pace);
    return WEFT_OK;
}

static weft_status bench_train_run(struct command_call *call, struct error *error)
{
    struct bench_train bench = {0};
    if (chosen.pace.scale == 0 && (chosen.pace.layer_times || chosen.together > 1))
        return error_set(error, WEFT_ERROR_ARGUMENT, "--%s is for --paced, which is not given",
                         chosen.pace.layer_times ? "layer-times" : "together");
    weft_status status =
        bench_steps_open((size_t)chosen.measure.warm, (size_t)chosen.measure.steps, &bench.steps, error);
    if (status != WEFT_OK)
        return status;
    chosen.measure.prepare = bench_train_prepare;
    chosen.measure.observe = bench_train_note_step;
    chosen.measure.observer = &bench;
    status = training_measure_run(call, &chosen.measure, bench_train_report, error);
    bench_pace_close(bench.pace);
    bench_steps_close(bench.steps);
    return status;
}

const struct command command_bench_train = {
    .name = "train",
    .summary = "measure whole training steps",
    .description =
        "Runs training steps on random tokens: forward, backward, sum over ranks, clipping, AdamW. Prints the "
        "median time of a step, tokens/s, the model's arithmetic as a share of the processor's peak, and the "
        "highest memory use of a rank. Arithmetic per token is 6 operations per weight plus 12 x layers x width x "
        "sequence for attention; the peak is the better of multiply-adds in registers and a large matrix product.\n\n"
        "With several ranks it also prints how long a rank waits for messages and collectives, and the bubble: the share "
        "of the ranks' time, until the last one has its gradients, in which they do not compute passes of layers. "
        "Beside both is what the schedule alone would need, with passes as long as the measured ones and messages that "
        "take no time.\n\n"
        "--paced times schedules on more ranks than there are processors. Rank 0 measures the passes of all layers, or "
        "reads them from a file of weft profile layers; then every rank sleeps for as long instead of computing. Messages, sums of gradients and the optimizer are real; "
        "losses and weights are not. A rank that sleeps leaves its processor to communication.",
    .examples =
        "weft bench train --model gpt2-124m --batch 4 --sequence 64\n"
        "weft run -n 2 -- weft bench train --model gpt2-124m --batch 4 --json\n"
        "weft run -n 4 -- weft bench train --model gpt-base --batch 32 --micro-batch 4 --mesh data=2,pipeline=2 "
        "--paced 1\n",
    COMMAND_OPTIONS(options),
    .run = bench_train_run,
};
