/* SPDX-License-Identifier: Apache-2.0 */
#include "training/plan/run/measured_steps.h"

#include "base/file/file.h"
#include "base/format/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MOST ((size_t)1 << 30)

struct step_list {
    struct measured_steps *items; /* of one step each */
    size_t count, room;
};

static weft_status add_step(const cJSON *line, const char *where, struct step_list *list, struct error *error)
{
    const cJSON *event = cJSON_GetObjectItemCaseSensitive(line, "event");
    struct measured_steps step = {.steps = 1};
    if (!cJSON_IsString(event) || strcmp(event->valuestring, "step") != 0)
        return WEFT_OK;
    weft_status status = json_get_number(line, "seconds", where, &step.seconds, error);
    if (status == WEFT_OK)
        status = json_get_number(line, "wait_seconds", where, &step.wait_seconds, error);
    if (status == WEFT_OK)
        status = json_get_number(line, "data_seconds", where, &step.data_seconds, error);
    if (status == WEFT_OK)
        status = ARRAY_RESERVE(list->items, list->room, list->count + 1, "the steps of a run", error);
    if (status == WEFT_OK)
        list->items[list->count++] = step;
    return status;
}

static int compare_measured(const void *first, const void *second)
{
    const double a = *(const double *)first, b = *(const double *)second;
    return (a > b) - (a < b);
}

/* The median of a member over the last `count` steps. `numbers` has room for them. */
static double median_of(const struct measured_steps *steps, size_t count, size_t member, double *numbers)
{
    for (size_t i = 0; i < count; i++)
        memcpy(&numbers[i], (const char *)&steps[i] + member, sizeof *numbers);
    qsort(numbers, count, sizeof *numbers, compare_measured);
    return count % 2 ? numbers[count / 2] : (numbers[count / 2 - 1] + numbers[count / 2]) / 2;
}

static weft_status summarize(const struct step_list *list, const char *path, struct measured_steps *measured,
                             struct error *error)
{
    const size_t skipped = (list->count + 9) / 10;
    if (list->count <= skipped)
        return error_set(error, WEFT_ERROR_DATA, "%s: it has %zu steps; at least 2 are needed", path, list->count);
    const size_t count = list->count - skipped;
    const struct measured_steps *steps = list->items + skipped;
    double *numbers = malloc(count * sizeof *numbers);
    if (!numbers)
        return error_memory(error, count * sizeof *numbers, "the steps of a run");
    *measured = (struct measured_steps){
        .steps = (uint32_t)count,
        .seconds = median_of(steps, count, offsetof(struct measured_steps, seconds), numbers),
        .wait_seconds = median_of(steps, count, offsetof(struct measured_steps, wait_seconds), numbers),
        .data_seconds = median_of(steps, count, offsetof(struct measured_steps, data_seconds), numbers),
    };
    free(numbers);
    return WEFT_OK;
}

weft_status measured_steps_load(const char *path, struct measured_steps *measured, struct error *error)
{
    struct step_list list = {0};
    char *content;
    size_t size;
    weft_status status = file_read(path, FILE_MOST, &content, &size, error);
    if (status != WEFT_OK)
        return status;
    for (size_t begin = 0; begin < size && status == WEFT_OK;) {
        const char *end = memchr(content + begin, '\n', size - begin);
        const size_t length = end ? (size_t)(end - content) - begin : size - begin;
        cJSON *line = NULL;
        if (length)
            status = json_parse(content + begin, length, path, &line, error);
        if (status == WEFT_OK && line)
            status = add_step(line, path, &list, error);
        cJSON_Delete(line);
        begin += length + 1;
    }
    if (status == WEFT_OK)
        status = summarize(&list, path, measured, error);
    free(list.items);
    free(content);
    return status;
}
