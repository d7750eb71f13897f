/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/measure/sweep_record.h"

#include "base/format/json_put.h"
#include "core/topology/links.h"
#include "core/topology/machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME     "sweeps.json"
#define SWEEP_VERSION 1

void sweep_record_kind_here(char kind[SWEEP_KIND_BYTES])
{
    struct machine *machine = NULL;
    snprintf(kind, SWEEP_KIND_BYTES, "unknown");
    if (machine_discover(&machine, NULL) == WEFT_OK)
        machine_kind(machine, kind, SWEEP_KIND_BYTES);
    machine_free(machine);
}

/* Beside the measured links. */
weft_status sweep_record_path(char path[FILE_PATH_BYTES], struct error *error)
{
    char links[FILE_PATH_BYTES];
    weft_status status = links_default_path(links, error);
    if (status != WEFT_OK)
        return status;
    links[file_name(links) - links - 1] = '\0';
    return file_join(path, links, FILE_NAME, error);
}

static struct sweep_record_figure *measure_sweep_record_find(const struct sweep_record *sweep, uint64_t block_bytes,
                                                             const char *algorithm)
{
    for (size_t i = 0; i < sweep->count; i++)
        if (sweep->figures[i].block_bytes == block_bytes && strcmp(sweep->figures[i].algorithm, algorithm) == 0)
            return &sweep->figures[i];
    return NULL;
}

weft_status sweep_record_put(struct sweep_record *sweep, uint64_t block_bytes, const char *algorithm, double seconds,
                             struct error *error)
{
    struct sweep_record_figure *figure = measure_sweep_record_find(sweep, block_bytes, algorithm);
    if (!figure) {
        size_t bytes = (sweep->count + 1) * sizeof *figure;
        struct sweep_record_figure *grown = realloc(sweep->figures, bytes);
        if (!grown)
            return error_memory(error, bytes, "the sweep");
        sweep->figures = grown;
        figure = &grown[sweep->count++];
    }
    *figure = (struct sweep_record_figure){.block_bytes = block_bytes, .seconds = seconds};
    snprintf(figure->algorithm, sizeof figure->algorithm, "%s", algorithm);
    return WEFT_OK;
}

double sweep_record_find(const struct sweep_record *sweep, uint64_t block_bytes, const char *algorithm)
{
    const struct sweep_record_figure *figure = measure_sweep_record_find(sweep, block_bytes, algorithm);
    return figure ? figure->seconds : 0;
}

void sweep_record_free(struct sweep_record *sweep)
{
    free(sweep->figures);
    sweep->figures = NULL;
    sweep->count = 0;
}

/* The list of sweeps in the file; NULL where there is none of this version. The tree is the caller's. */
static const cJSON *sweep_record_read_file(cJSON **root)
{
    char path[FILE_PATH_BYTES];
    const cJSON *sweeps = NULL;
    int64_t version = 0;
    *root = NULL;
    if (sweep_record_path(path, NULL) != WEFT_OK || !file_exists(path) || json_read(path, root, NULL) != WEFT_OK ||
        json_get_integer(*root, "version", path, SWEEP_VERSION, SWEEP_VERSION, &version, NULL) != WEFT_OK ||
        json_get_array(*root, "sweeps", path, &sweeps, NULL) != WEFT_OK)
        return NULL;
    return sweeps;
}

/* Whether the object is a sweep made at this place. */
static bool is_of(const cJSON *object, const struct sweep_record_place *place)
{
    const char *collective = NULL, *kind = NULL;
    int64_t ranks = 0, nodes = 0;
    return json_get_text(object, "collective", "", &collective, NULL) == WEFT_OK &&
           json_get_text(object, "kind", "", &kind, NULL) == WEFT_OK &&
           json_get_integer(object, "ranks", "", 1, UINT32_MAX, &ranks, NULL) == WEFT_OK &&
           json_get_integer(object, "nodes", "", 1, UINT32_MAX, &nodes, NULL) == WEFT_OK && ranks == place->ranks &&
           nodes == place->nodes && strcmp(collective, place->collective) == 0 && strcmp(kind, place->kind) == 0;
}

static void read_figures(const cJSON *object, struct sweep_record *sweep)
{
    const cJSON *figures = NULL, *figure;
    if (json_get_array(object, "figures", "", &figures, NULL) != WEFT_OK)
        return;
    cJSON_ArrayForEach(figure, figures) {
        uint64_t bytes = 0;
        const char *algorithm = NULL;
        double seconds = 0;
        if (json_get_unsigned(figure, "block_bytes", "", &bytes, NULL) == WEFT_OK &&
            json_get_text(figure, "algorithm", "", &algorithm, NULL) == WEFT_OK &&
            json_get_number(figure, "seconds", "", &seconds, NULL) == WEFT_OK && seconds > 0 && isfinite(seconds) &&
            !measure_sweep_record_find(sweep, bytes, algorithm))
            sweep_record_put(sweep, bytes, algorithm, seconds, NULL);
    }
}

void sweep_record_load(struct sweep_record *sweep)
{
    cJSON *root;
    const cJSON *sweeps = sweep_record_read_file(&root), *object;
    sweep->figures = NULL;
    sweep->count = 0;
    cJSON_ArrayForEach(object, sweeps)
        if (is_of(object, &sweep->place))
            read_figures(object, sweep);
    cJSON_Delete(root);
}

static void write_sweep_record(const struct sweep_record *sweep, struct json_writer *writer)
{
    json_open_object(writer, NULL);
    JSON_PUT(writer, "collective", sweep->place.collective, "ranks", sweep->place.ranks, "nodes", sweep->place.nodes,
             "kind", sweep->place.kind);
    json_open_array(writer, "figures");
    for (size_t i = 0; i < sweep->count; i++) {
        JSON_PUT_OBJECT(writer, NULL, "block_bytes", sweep->figures[i].block_bytes, "algorithm",
                        sweep->figures[i].algorithm, "seconds", sweep->figures[i].seconds);
    }
    json_close(writer);
    json_close(writer);
}

weft_status sweep_record_save(const struct sweep_record *sweep, struct error *error)
{
    char path[FILE_PATH_BYTES], directory[FILE_PATH_BYTES];
    weft_status status = sweep_record_path(path, error);
    if (status != WEFT_OK)
        return status;
    snprintf(directory, sizeof directory, "%.*s", (int)(file_name(path) - path) - 1, path);
    status = file_make_directory(directory, error);
    if (status != WEFT_OK)
        return status;
    cJSON *root;
    const cJSON *others = sweep_record_read_file(&root), *other;
    struct sweep_record whole = {.place = sweep->place};
    struct json_writer writer;
    sweep_record_load(&whole);
    for (size_t i = 0; i < sweep->count && status == WEFT_OK; i++)
        status = sweep_record_put(&whole, sweep->figures[i].block_bytes, sweep->figures[i].algorithm,
                                  sweep->figures[i].seconds, error);
    json_begin(&writer, JSON_INDENTED);
    json_open_object(&writer, NULL);
    json_put_integer(&writer, "version", SWEEP_VERSION);
    json_open_array(&writer, "sweeps");
    write_sweep_record(&whole, &writer);
    cJSON_ArrayForEach(other, others)
        if (!is_of(other, &sweep->place))
            json_put_tree(&writer, NULL, other);
    json_close(&writer);
    json_close(&writer);
    const char *text = json_text(&writer);
    if (status == WEFT_OK)
        status =
            text ? file_write(path, text, strlen(text), error) : error_memory(error, json_size(&writer), "the sweep");
    json_end(&writer);
    sweep_record_free(&whole);
    cJSON_Delete(root);
    return status;
}
