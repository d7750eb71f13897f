/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/understand/profile_print.h"

#include "base/format/json_put.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 192

/* A row of the table of layers: one layer, or all of a kind. */
struct row {
    char name[NAME_BYTES];
    struct profile_turn turns[2];
};

static double row_seconds(const struct row *row)
{
    return row->turns[MODEL_FORWARD].seconds + row->turns[MODEL_BACKWARD].seconds;
}

static double layers_seconds(const struct profile_print *print)
{
    double sum = 0;
    for (size_t i = 0; i < print->description->layer_count; i++)
        sum += print->step->layers[i].turns[0].seconds + print->step->layers[i].turns[1].seconds;
    return sum;
}

static double kernels_seconds(const struct profiled_count counts[PROFILED_KERNELS])
{
    double sum = 0;
    for (size_t k = 0; k < PROFILED_KERNELS; k++)
        sum += counts[k].seconds;
    return sum;
}

/* "h.3" of "h.3.attn": its place in the network. */
static int place_length(const char *name)
{
    const char *dot = strrchr(name, '.');
    return (int)(dot ? (size_t)(dot - name) : strlen(name));
}

/* Layer `first` and those of its kind that follow: "attention x12, h.0 to h.11". */
static void make_row(const struct profile_print *print, size_t first, struct row *row)
{
    const struct model_description *description = print->description;
    const char *kind = model_layer_kind(description, first), *name = model_layer_name(description, first), *last = name;
    size_t number = 0;
    *row = (struct row){0};
    for (size_t i = first; i < description->layer_count; i++)
        if (i == first || (!print->all && strcmp(model_layer_kind(description, i), kind) == 0)) {
            for (int turn = 0; turn < 2; turn++) {
                row->turns[turn].seconds += print->step->layers[i].turns[turn].seconds;
                row->turns[turn].flops += print->step->layers[i].turns[turn].flops;
            }
            last = model_layer_name(description, i);
            number++;
        }
    if (number > 1)
        snprintf(row->name, sizeof row->name, "%s \xc3\x97%zu, %.*s to %.*s", kind, number, place_length(name), name,
                 place_length(last), last);
    else
        snprintf(row->name, sizeof row->name, "%s", name);
}

static bool begins_row(const struct profile_print *print, size_t i)
{
    for (size_t before = 0; before < i && !print->all; before++)
        if (strcmp(model_layer_kind(print->description, before), model_layer_kind(print->description, i)) == 0)
            return false;
    return true;
}

/* ---- tables ---- */

/* printf counts bytes, and the times sign is two of them. */
static void print_name(FILE *output, const char *name)
{
    const int width = 36 + (strstr(name, "\xc3\x97") ? 1 : 0);
    fprintf(output, "%-*s", width, name);
}

static void print_milliseconds(FILE *output, double seconds)
{
    fprintf(output, " %10.3f", seconds * 1e3);
}

static void print_share(FILE *output, const struct profile_print *print, double seconds)
{
    fprintf(output, " %8.1f%%", 100 * seconds / print->step->seconds);
}

static void print_rate(FILE *output, const struct profile_print *print, double flops, double seconds)
{
    if (flops > 0 && seconds > 0)
        fprintf(output, " %9.1f %7.1f%%", flops / seconds * 1e-9, 100 * flops / seconds / print->peak);
}

/* A row of one time. */
static void print_sum(const struct profile_print *print, FILE *output, const char *name, double seconds)
{
    print_name(output, name);
    fprintf(output, " %21.3f", seconds * 1e3);
    print_share(output, print, seconds);
    fputc('\n', output);
}

static void print_layers(const struct profile_print *print, FILE *output)
{
    const struct profile_step *step = print->step;
    double outside = 0;
    fprintf(output, "%-36s %10s %10s %9s %9s %8s\n", "layer", "forward ms", "backw. ms", "share", "GFLOP/s", "of peak");
    for (size_t i = 0; i < print->description->layer_count; i++) {
        struct row row;
        if (!begins_row(print, i))
            continue;
        make_row(print, i, &row);
        print_name(output, row.name);
        print_milliseconds(output, row.turns[MODEL_FORWARD].seconds);
        print_milliseconds(output, row.turns[MODEL_BACKWARD].seconds);
        print_share(output, print, row_seconds(&row));
        print_rate(output, print, row.turns[MODEL_FORWARD].flops + row.turns[MODEL_BACKWARD].flops, row_seconds(&row));
        fputc('\n', output);
    }
    fprintf(output, "outside of layers:\n");
    for (size_t k = 0; k < PROFILED_KERNELS; k++) {
        if (step->outside[k].seconds < 5e-4 * step->seconds)
            continue; /* part of "other" */
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "  %s", profiled_names[k]);
        print_sum(print, output, name, step->outside[k].seconds);
        outside += step->outside[k].seconds;
    }
    const double wait = print->ranks > 1 ? step->wait_seconds : 0;
    if (print->ranks > 1)
        print_sum(print, output, "  waiting for other ranks", wait);
    print_sum(print, output, "  other", step->seconds - layers_seconds(print) - outside - wait);
    print_sum(print, output, "step", step->seconds);
}

/* The kernels of a step, the longest first. */
static size_t sort_kernels(const struct profile_step *step, size_t order[PROFILED_KERNELS])
{
    size_t count = 0;
    for (size_t k = 0; k < PROFILED_KERNELS; k++) {
        size_t place = count;
        if (!step->kernels[k].calls)
            continue;
        for (; place > 0 && step->kernels[order[place - 1]].seconds < step->kernels[k].seconds; place--)
            order[place] = order[place - 1];
        order[place] = k;
        count++;
    }
    return count;
}

static void print_kernels(const struct profile_print *print, FILE *output)
{
    const struct profile_step *step = print->step;
    size_t order[PROFILED_KERNELS];
    const size_t count = sort_kernels(step, order);
    fprintf(output, "\n%-36s %10s %10s %9s %9s %8s %8s\n", "kernel", "calls", "ms", "share", "GFLOP/s", "of peak",
            "GB/s");
    for (size_t i = 0; i < count; i++) {
        const struct profiled_count *kernel = &step->kernels[order[i]];
        print_name(output, profiled_names[order[i]]);
        fprintf(output, " %10" PRIu64, kernel->calls);
        print_milliseconds(output, kernel->seconds);
        print_share(output, print, kernel->seconds);
        if (kernel->flops > 0)
            print_rate(output, print, kernel->flops, kernel->seconds);
        else
            fprintf(output, " %27.1f", kernel->bytes / kernel->seconds * 1e-9);
        fputc('\n', output);
    }
    print_sum(print, output, "other, between kernels", step->seconds - kernels_seconds(step->kernels));
    print_sum(print, output, "step", step->seconds);
}

weft_status profile_print_tables(const struct profile_print *print, FILE *output, struct error *error)
{
    const double seconds = print->step->seconds;
    fprintf(output,
            "%s, %d rank%s of %" PRId64 " thread%s (%s), %s, batches of %" PRId64 " x %" PRId64
            " tokens, the median of %" PRId64 " steps:\n"
            "%.1f ms a step, %.0f tokens/s, %.1f%% of a rank's peak of %.0f GFLOP/s\n\n",
            print->model, print->ranks, print->ranks == 1 ? "" : "s", print->threads, print->threads == 1 ? "" : "s",
            print->kernels, print->precision, print->batch, print->sequence, print->steps, seconds * 1e3,
            (double)(print->batch * print->sequence) / seconds, 100 * print->model_flops / seconds / print->peak,
            print->peak * 1e-9);
    print_layers(print, output);
    print_kernels(print, output);
    return ferror(output) ? error_system(error, "cannot write the profile") : WEFT_OK;
}

/* ---- JSON ---- */

static void put_kernels(struct json_writer *writer, const char *key, const struct profiled_count *counts)
{
    json_open_array(writer, key);
    for (size_t k = 0; k < PROFILED_KERNELS; k++) {
        if (!counts[k].calls)
            continue;
        JSON_PUT_OBJECT(writer, NULL, "name", profiled_names[k], "calls", counts[k].calls, "seconds", counts[k].seconds,
                        "flops", counts[k].flops, "bytes", counts[k].bytes);
    }
    json_close(writer);
}

static void put_layers(struct json_writer *writer, const struct profile_print *print)
{
    json_open_array(writer, "layers");
    for (size_t i = 0; i < print->description->layer_count; i++) {
        const struct profile_turn *turns = print->step->layers[i].turns;
        JSON_PUT_OBJECT(writer, NULL, "name", model_layer_name(print->description, i), "kind",
                        model_layer_kind(print->description, i), "forward_seconds", turns[MODEL_FORWARD].seconds,
                        "backward_seconds", turns[MODEL_BACKWARD].seconds, "forward_flops", turns[MODEL_FORWARD].flops,
                        "backward_flops", turns[MODEL_BACKWARD].flops);
    }
    json_close(writer);
}

weft_status profile_print_json(const struct profile_print *print, FILE *output, struct error *error)
{
    struct json_writer writer;
    json_begin(&writer, JSON_INDENTED);
    json_open_object(&writer, NULL);
    JSON_PUT(&writer, "model", print->model, "precision", print->precision, "ranks", print->ranks, "threads",
             print->threads, "batch", print->batch, "micro_batch", print->micro_batch, "sequence", print->sequence,
             "steps", print->steps, "kernels_are", print->kernels, "peak_flops", print->peak, "model_flops",
             print->model_flops, "step_seconds", print->step->seconds, "wait_seconds", print->step->wait_seconds);
    put_layers(&writer, print);
    put_kernels(&writer, "kernels", print->step->kernels);
    put_kernels(&writer, "kernels_outside_layers", print->step->outside);
    return json_complete(&writer, output, error);
}
