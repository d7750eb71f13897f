/* SPDX-License-Identifier: Apache-2.0 */
#include "training/simulate/step_trace.h"

#include "base/file/named_output.h"
#include "training/parallel/step/show.h"

/* A timeline while it is being written. */
struct step_timeline {
    const struct step_costs *costs;
    const struct step_result *result;
    FILE *out;
    uint64_t events; /* so far; also numbers asynchronous ones */
};

static uint32_t timeline_host(const struct step_timeline *timeline, uint32_t rank)
{
    const uint32_t *hosts = timeline->costs->cluster->hosts;
    return hosts ? hosts[rank] : 0;
}

static void timeline_separate(struct step_timeline *timeline)
{
    fputs(timeline->events++ ? ",\n" : "\n", timeline->out);
}

static void timeline_name(struct step_timeline *timeline, uint32_t rank)
{
    const uint32_t host = timeline_host(timeline, rank), *point = timeline->costs->points + (size_t)rank * MESH_AXES;
    if (rank == 0 || timeline_host(timeline, rank - 1) != host) {
        timeline_separate(timeline);
        fprintf(timeline->out, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":\"host %u\"}}",
                host, host);
    }
    timeline_separate(timeline);
    fprintf(
        timeline->out,
        "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":\"rank %u: data %u, pipeline %u, "
        "tensor %u\"}}",
        host, rank, rank, point[MESH_DATA], point[MESH_PIPELINE], point[MESH_TENSOR]);
}

/* "forward 3.12": the stage and the micro-batch, as far as the operation has them. */
static void timeline_label(const struct step_timeline *timeline, const struct step_operation *operation)
{
    fprintf(timeline->out, "\"name\":\"%s", step_operation_name(operation->kind));
    if (operation->stage != STEP_NONE)
        fprintf(timeline->out, " %u", operation->stage);
    if (operation->micro_batch != STEP_NONE)
        fprintf(timeline->out, ".%u", operation->micro_batch);
    fputc('"', timeline->out);
}

static void timeline_pass(struct step_timeline *timeline, uint32_t rank, const struct step_operation *operation,
                          double begin, double end)
{
    timeline_separate(timeline);
    fputs("{\"ph\":\"X\",", timeline->out);
    timeline_label(timeline, operation);
    fprintf(timeline->out, ",\"cat\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f}",
            step_operation_name(operation->kind), timeline_host(timeline, rank), rank, begin * 1e6,
            (end - begin) * 1e6);
}

static void timeline_transfer(struct step_timeline *timeline, uint32_t rank, const struct step_operation *operation,
                              double begin, double end)
{
    const uint64_t number = timeline->events;
    for (uint32_t way = 0; way < 2; way++) {
        timeline_separate(timeline);
        fprintf(timeline->out, "{\"ph\":\"%c\",\"id\":%llu,", way ? 'e' : 'b', (unsigned long long)number);
        timeline_label(timeline, operation);
        fprintf(timeline->out, ",\"cat\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f}",
                step_operation_name(operation->kind), timeline_host(timeline, rank), rank, (way ? end : begin) * 1e6);
    }
}

/* Whether two synchronous operations, one after the other, belong to one event. */
static bool is_continued(const struct step_operation *operation, const struct step_operation *next)
{
    return operation->kind == next->kind && operation->micro_batch == next->micro_batch &&
           (operation->kind == OPERATION_UPDATE || operation->stage == next->stage);
}

static void timeline_rank(struct step_timeline *timeline, uint32_t rank)
{
    const uint32_t class = timeline->result->class_of[rank];
    const struct step_schedule *schedule = &timeline->result->schedules[timeline->result->pipeline_of[class]];
    const double *begin = timeline->result->begin[class], *end = timeline->result->end[class];
    const struct step_operation *open = NULL; /* the event that is not written yet: its first and last operation */
    size_t first = 0, last = 0;
    for (size_t i = 0; i < schedule->count; i++) {
        const struct step_operation *operation = &schedule->operations[i];
        if (!(end[i] > begin[i]))
            continue;
        if (step_operation_is_asynchronous(operation->kind)) {
            timeline_transfer(timeline, rank, operation, begin[i], end[i]);
            continue;
        }
        if (open && (!is_continued(open, operation) || begin[i] > end[last] + 1e-9)) {
            timeline_pass(timeline, rank, open, begin[first], end[last]);
            open = NULL;
        }
        if (!open)
            first = i;
        open = operation;
        last = i;
    }
    if (open)
        timeline_pass(timeline, rank, open, begin[first], end[last]);
}

void step_trace_write(const struct step_costs *costs, const struct step_result *result, FILE *out)
{
    struct step_timeline timeline = {.costs = costs, .result = result, .out = out};
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", out);
    for (uint32_t rank = 0; rank < costs->ranks; rank++) {
        timeline_name(&timeline, rank);
        timeline_rank(&timeline, rank);
    }
    fputs("\n]}\n", out);
}

weft_status step_draw_file(const struct step_shape *shape, const struct step_schedule *schedules,
                           const struct step_times *times, const char *path, struct error *error)
{
    struct buffer svg = {0};
    step_draw(shape, schedules, times, &svg);
    const weft_status status = buffer_string(&svg)
                                   ? named_output_write(path, buffer_begin(&svg), buffer_size(&svg), error)
                                   : error_memory(error, 0, "a timeline");
    buffer_free(&svg);
    return status;
}

weft_status step_result_draw(const struct step_costs *costs, const struct step_result *result, const char *path,
                             struct error *error)
{
    struct step_times times;
    weft_status status = step_result_times(costs, result, &times, error);
    if (status != WEFT_OK)
        return status;
    status = step_draw_file(&costs->shape, result->schedules, &times, path, error);
    step_times_free(&costs->shape, &times);
    return status;
}
