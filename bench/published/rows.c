/* SPDX-License-Identifier: Apache-2.0 */
#include "rows.h"

#include "base/array.h"
#include "base/file/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MOST 24

/* A line of a file, by the names in its first one. */
struct csv_line {
    const char *path;
    size_t number;
    char *names[COLUMNS_MOST], *values[COLUMNS_MOST];
    size_t name_count, value_count;
};

static size_t split_line(char *line, char *parts[COLUMNS_MOST])
{
    size_t count = 0;
    line[strcspn(line, "\r\n")] = '\0';
    for (char *part; count < COLUMNS_MOST && (part = strsep(&line, ",")); count++)
        parts[count] = part;
    return count;
}

/* The text in a column; "" where the file has no such column. */
static const char *text_of(const struct csv_line *line, const char *name)
{
    for (size_t i = 0; i < line->value_count; i++)
        if (!strcmp(line->names[i], name))
            return line->values[i];
    return "";
}

static double number_of(const struct csv_line *line, const char *name)
{
    return strtod(text_of(line, name), NULL);
}

static uint32_t count_of(const struct csv_line *line, const char *name, uint32_t otherwise)
{
    const double number = number_of(line, name);
    return number >= 1 ? (uint32_t)number : otherwise;
}

/* What all files have: the network and its mesh. */
static struct row row_of(const struct csv_line *line)
{
    const char *role = text_of(line, "role");
    struct row row = {.shape = {.kind = "gpt",
                                .layers = count_of(line, "layers", 0),
                                .heads = count_of(line, "heads", 0),
                                .width = count_of(line, "hidden", 0),
                                .context = count_of(line, "sequence", 2048),
                                .vocabulary = count_of(line, "vocabulary", 51200)},
                      .ranks = count_of(line, "gpus", 0),
                      .tensor = count_of(line, "tensor", 1),
                      .pipeline = count_of(line, "pipeline", 1),
                      .global_batch = count_of(line, "global_batch", 0),
                      .micro_batch = count_of(line, "micro_batch", 0),
                      .virtual_stages = 1,
                      .recompute = MODEL_RECOMPUTE_ALL,
                      .role = !strcmp(role, "fit")     ? ROW_FIT
                              : !strcmp(role, "check") ? ROW_CHECK
                                                       : ROW_MEMORY};
    row.data = row.ranks / (row.tensor * row.pipeline);
    snprintf(row.model, sizeof row.model, "%s", text_of(line, "model"));
    return row;
}

/* ---- the files ---- */

struct row_list {
    struct row *rows;
    size_t count, room;
};

static weft_status append_row(struct row_list *list, const struct row *row, struct error *error)
{
    weft_status status = ARRAY_RESERVE(list->rows, list->room, list->count + 1, "published rows", error);
    if (status == WEFT_OK)
        list->rows[list->count++] = *row;
    return status;
}

static weft_status add_vtrain(struct row_list *list, const struct csv_line *line, struct error *error)
{
    struct row row = row_of(line);
    row.source = "vtrain";
    row.cluster = "vtrain-a100";
    row.seconds = number_of(line, "iteration_ms") * 1e-3;
    weft_status status = implementation_find("megatron-deepspeed", &row.implementation, error);
    return status == WEFT_OK ? append_row(list, &row, error) : status;
}

/* Throughput is given, by the formula of section 5.1, which counts recomputation:
 * F = 96 B s l h^2 (1 + s / 6h + V / 16lh). */
static weft_status add_ptdp(struct row_list *list, const struct csv_line *line, struct error *error)
{
    struct row row = row_of(line);
    const double h = (double)row.shape.width, l = (double)row.shape.layers, s = (double)row.shape.context,
                 flops = 96 * row.global_batch * s * l * h * h *
                         (1 + s / (6 * h) + (double)row.shape.vocabulary / (16 * l * h));
    row.source = "ptdp";
    row.cluster = "dgx-a100";
    row.virtual_stages = row.pipeline > 1 ? 0 : 1;
    row.seconds = flops / (row.ranks * number_of(line, "tflops_per_gpu") * 1e12);
    snprintf(row.model, sizeof row.model, "%sB", text_of(line, "parameters_billion"));
    weft_status status = implementation_find("megatron-2021", &row.implementation, error);
    return status == WEFT_OK ? append_row(list, &row, error) : status;
}

static weft_status add_korthikanti(struct row_list *list, const struct csv_line *line, struct error *error)
{
    struct row row = row_of(line);
    row.source = "korthikanti";
    row.cluster = "dgx-a100";
    row.virtual_stages = count_of(line, "virtual_stages", 1);
    row.seconds = number_of(line, "full_recompute_s");
    weft_status status = implementation_find("megatron-2022", &row.implementation, error);
    if (status == WEFT_OK)
        status = append_row(list, &row, error);
    row.recompute = MODEL_RECOMPUTE_ATTENTION;
    row.divides_rows = true;
    row.seconds = number_of(line, "sequence_parallel_selective_s");
    return status == WEFT_OK ? append_row(list, &row, error) : status;
}

static weft_status add_bloom(struct row_list *list, const struct csv_line *line, struct error *error)
{
    struct row row = row_of(line);
    const char *memory = text_of(line, "memory_gb");
    row.source = "bloom";
    row.cluster = "jean-zay-a100";
    row.zero = count_of(line, "zero", 0);
    row.seconds = number_of(line, "iteration_s");
    row.memory_bytes = !strcmp(memory, "out of memory") ? INFINITY : strtod(memory, NULL) * 1073741824;
    snprintf(row.model, sizeof row.model, "BLOOM");
    weft_status status = implementation_find("megatron-deepspeed", &row.implementation, error);
    return status == WEFT_OK ? append_row(list, &row, error) : status;
}

static weft_status read_file(const char *directory, const char *name,
                             weft_status (*add)(struct row_list *, const struct csv_line *, struct error *),
                             struct row_list *list, struct error *error)
{
    char path[FILE_PATH_BYTES], header[1024], text[1024];
    struct csv_line line = {.path = path};
    weft_status status = WEFT_OK;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "re");
    if (!file || !fgets(header, sizeof header, file)) {
        if (file)
            fclose(file);
        return error_system(error, "%s cannot be read", path);
    }
    line.name_count = split_line(header, line.names);
    for (line.number = 2; status == WEFT_OK && fgets(text, sizeof text, file); line.number++) {
        line.value_count = split_line(text, line.values);
        if (line.value_count != line.name_count)
            status = error_set(error, WEFT_ERROR_DATA, "%s, line %zu has %zu columns, not %zu", path, line.number,
                               line.value_count, line.name_count);
        else
            status = add(list, &line, error);
    }
    fclose(file);
    return status;
}

weft_status rows_read(const char *directory, struct row **rows, size_t *count, struct error *error)
{
    struct row_list list = {0};
    weft_status status = read_file(directory, "vtrain_a100.csv", add_vtrain, &list, error);
    if (status == WEFT_OK)
        status = read_file(directory, "ptdp_a100.csv", add_ptdp, &list, error);
    if (status == WEFT_OK)
        status = read_file(directory, "korthikanti_a100.csv", add_korthikanti, &list, error);
    if (status == WEFT_OK)
        status = read_file(directory, "bloom_a100_memory.csv", add_bloom, &list, error);
    if (status != WEFT_OK) {
        free(list.rows);
        return status;
    }
    *rows = list.rows;
    *count = list.count;
    return WEFT_OK;
}
