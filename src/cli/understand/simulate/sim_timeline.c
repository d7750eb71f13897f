/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/understand/simulate/sim_timeline.h"

#include "base/format/json_put.h"

/* Put a line into the array of events. */
static void sim_timeline_put(struct sim_timeline *timeline, struct json_writer *line)
{
    FILE *stream = timeline->output.stream;
    json_close(line);
    const char *text = json_text(line);
    timeline->failed |= !text || fprintf(stream, "%s%s", timeline->empty ? "" : ",\n", text) < 0;
    timeline->empty = false;
    json_end(line);
}

weft_status sim_timeline_open(struct sim_timeline *timeline, const char *path, const struct schedule_shape *shape,
                              struct error *error)
{
    *timeline = (struct sim_timeline){.shape = shape, .empty = true};
    weft_status status = named_output_open(&timeline->output, path, error);
    if (status != WEFT_OK)
        return status;
    fprintf(timeline->output.stream, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    uint32_t last = UINT32_MAX;
    for (uint32_t rank = 0; rank < shape->ranks; rank++) {
        uint32_t node = shape_node(shape, rank);
        char name[32];
        struct json_writer line;
        if (node == last)
            continue;
        last = node;
        snprintf(name, sizeof name, "node %u", node);
        json_begin_line(&line);
        JSON_PUT(&line, "name", "process_name", "ph", "M", "pid", node);
        JSON_PUT_OBJECT(&line, "args", "name", name);
        sim_timeline_put(timeline, &line);
    }
    return WEFT_OK;
}

static bool has_peer(enum step_kind kind)
{
    return kind <= STEP_RECEIVE_REDUCE || kind == STEP_READ || kind == STEP_DELIVER;
}

void sim_timeline_step(void *context, const struct simulated_step *seen)
{
    struct sim_timeline *timeline = context;
    enum step_kind kind = (enum step_kind)seen->step->kind;
    struct json_writer line;
    if (seen->end <= seen->begin) /* nothing to see */
        return;
    json_begin_line(&line);
    JSON_PUT(&line, "name", step_kind_name(kind), "cat", kind <= STEP_RECEIVE_REDUCE ? "message" : "local", "ph", "X",
             "pid", shape_node(timeline->shape, seen->rank), "tid", seen->rank * SCHEDULE_LANES + seen->lane, "ts",
             seen->begin * 1e6, "dur", (seen->end - seen->begin) * 1e6);
    json_open_object(&line, "args");
    JSON_PUT(&line, "rank", seen->rank, "lane", seen->lane, "segment", seen->iteration, "bytes", seen->bytes);
    if (has_peer(kind))
        json_put_integer(&line, "peer", seen->step->peer);
    json_close(&line);
    sim_timeline_put(timeline, &line);
}

weft_status sim_timeline_close(struct sim_timeline *timeline, bool keep, struct error *error)
{
    if (!keep) {
        named_output_discard(&timeline->output);
        return WEFT_OK;
    }
    timeline->failed |= fprintf(timeline->output.stream, "\n]}\n") < 0;
    if (!timeline->failed)
        return named_output_close(&timeline->output, error);
    named_output_discard(&timeline->output);
    return error_set(error, WEFT_ERROR_SYSTEM, "cannot write the timeline to '%s'", timeline->output.path);
}
