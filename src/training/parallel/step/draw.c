/* SPDX-License-Identifier: Apache-2.0 */
/* A step's timeline in SVG: colors of style sheets that know light and dark, no scripts, no fonts of its own. */
#include "training/parallel/step/show.h"

#define DRAW_WIDTH      1200.0
#define DRAW_LEFT       70.0 /* for the ranks' names */
#define DRAW_ROW        30.0
#define DRAW_ROW_GAP    8.0
#define DRAW_TOP        40.0 /* for the legend */
#define DRAW_TEXT_LEAST 11.0 /* a block this wide has room for a number */

/* What a kind of operation is called in the legend and its class; NULL: it is not drawn. */
static const char *class_of(enum step_operation_kind kind)
{
    switch (kind) {
    case OPERATION_FORWARD:
        return "forward";
    case OPERATION_BACKWARD_INPUT:
        return "input";
    case OPERATION_BACKWARD_WEIGHTS:
        return "weights";
    case OPERATION_NORM:
    case OPERATION_UPDATE:
        return "update";
    default:
        return NULL;
    }
}

static void draw_legend(struct buffer *svg)
{
    static const char *const entries[][2] = {{"forward", "forward"},
                                             {"input", "backward, inputs"},
                                             {"weights", "backward, weights"},
                                             {"update", "norm and optimizer"}};
    double x = DRAW_LEFT;
    for (size_t i = 0; i < ARRAY_SIZE(entries); i++, x += 170)
        buffer_print(svg,
                     "<rect class=\"%s\" x=\"%.0f\" y=\"10\" width=\"14\" height=\"14\"/>"
                     "<text x=\"%.0f\" y=\"21\">%s</text>\n",
                     entries[i][0], x, x + 20, entries[i][1]);
}

/* One block for neighboring units of a pass. */
static void draw_block(const struct step_operation *operation, double begin, double end, double scale, double y,
                       struct buffer *svg)
{
    const double x = DRAW_LEFT + begin * scale, width = (end - begin) * scale;
    const bool second = operation->stage != STEP_NONE && operation->micro_batch != STEP_NONE;
    buffer_print(svg, "<g><title>%s", step_operation_name(operation->kind));
    if (second)
        buffer_print(svg, ", stage %u, micro-batch %u", operation->stage, operation->micro_batch);
    buffer_print(svg,
                 ", %.3f to %.3f ms</title><rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"/>",
                 begin * 1e3, end * 1e3, class_of(operation->kind), x, y, width, DRAW_ROW);
    if (second && width >= DRAW_TEXT_LEAST)
        buffer_print(svg, "<text class=\"number\" x=\"%.2f\" y=\"%.1f\">%u</text>", x + width / 2, y + DRAW_ROW / 2 + 4,
                     operation->micro_batch);
    buffer_put_string(svg, "</g>\n");
}

static bool is_same_pass(const struct step_operation *a, const struct step_operation *b)
{
    return class_of(a->kind) == class_of(b->kind) && a->stage == b->stage && a->micro_batch == b->micro_batch;
}

static void draw_rank(const struct step_schedule *schedule, const double *begin, const double *end, double scale,
                      double y, struct buffer *svg)
{
    buffer_print(svg, "<text x=\"4\" y=\"%.1f\">rank %u</text>\n", y + DRAW_ROW / 2 + 4, schedule->pipeline_rank);
    for (size_t i = 0; i < schedule->count; i++) {
        const struct step_operation *first = &schedule->operations[i];
        size_t last = i;
        if (!class_of(first->kind))
            continue;
        for (size_t next = i + 1; next < schedule->count; next++) {
            const struct step_operation *operation = &schedule->operations[next];
            if (!class_of(operation->kind))
                continue;
            if (!is_same_pass(first, operation) || begin[next] > end[last])
                break;
            last = next;
        }
        if (end[last] > begin[i])
            draw_block(first, begin[i], end[last], scale, y, svg);
        i = last;
    }
}

void step_draw(const struct step_shape *shape, const struct step_schedule *schedules, const struct step_times *times,
               struct buffer *svg)
{
    const double scale = (DRAW_WIDTH - DRAW_LEFT - 10) / (times->seconds > 0 ? times->seconds : 1),
                 height = DRAW_TOP + shape->pipeline * (DRAW_ROW + DRAW_ROW_GAP) + 24;
    buffer_print(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n"
        "<title>A training step on %u pipeline rank%s, %s, %u micro-batch%s: %.3f ms</title>\n<style>\n"
        "text { font: 13px system-ui, sans-serif; fill: #222 } .number { text-anchor: middle; fill: #fff }\n"
        ".forward { fill: #2a6fbb } .input { fill: #2f855a } .weights { fill: #b7791f } .update { fill: #6b46c1 }\n"
        "@media (prefers-color-scheme: dark) { text { fill: #eee } }\n</style>\n",
        DRAW_WIDTH, height, shape->pipeline, shape->pipeline == 1 ? "" : "s", step_pipeline_name(shape->order),
        shape->micro_batches, shape->micro_batches == 1 ? "" : "es", times->seconds * 1e3);
    draw_legend(svg);
    for (uint32_t rank = 0; rank < shape->pipeline; rank++)
        draw_rank(&schedules[rank], times->begin[rank], times->end[rank], scale,
                  DRAW_TOP + rank * (DRAW_ROW + DRAW_ROW_GAP), svg);
    buffer_print(
        svg,
        "<text x=\"%.0f\" y=\"%.0f\">0</text><text x=\"%.0f\" y=\"%.0f\" text-anchor=\"end\">%.3f ms</text>\n</svg>\n",
        DRAW_LEFT, height - 8, DRAW_WIDTH - 10, height - 8, times->seconds * 1e3);
}
