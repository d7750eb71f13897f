/* SPDX-License-Identifier: Apache-2.0 */
#include "training/plan/run/measured_steps.h"

#include "base/file/file.h"
#include "base/format/json.h"
#include "training/train/report/names.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MOST ((size_t)1 << 30)

struct step_list {
    struct measured_steps *items; /* of one step each */
    size_t count, room;
};

static const struct measured_member {
    enum report_name name;
    size_t offset;
    bool of_terms;
} measured_members[] = {
    {REPORT_NAME_SECONDS, offsetof(struct measured_steps, seconds), false},
    {REPORT_NAME_WAIT_SECONDS, offsetof(struct measured_steps, wait_seconds), false},
    {REPORT_NAME_DATA_SECONDS, offsetof(struct measured_steps, data_seconds), false},
    {REPORT_NAME_TENSOR_WAIT_SECONDS, offsetof(struct measured_steps, tensor_wait_seconds), true},
    {REPORT_NAME_DATA_WAIT_SECONDS, offsetof(struct measured_steps, data_wait_seconds), true},
    {REPORT_NAME_COMPUTE_SECONDS, offsetof(struct measured_steps, compute_seconds), true},
    {REPORT_NAME_OPTIMIZER_SECONDS, offsetof(struct measured_steps, optimizer_seconds), true},
};

static double *measured_member_of(struct measured_steps *steps, size_t member)
{
    return (double *)((char *)steps + measured_members[member].offset);
}

static weft_status add_step(const cJSON *line, const char *where, struct step_list *list, struct error *error)
{
    const cJSON *event = cJSON_GetObjectItemCaseSensitive(line, "event");
    struct measured_steps step = {.steps = 1, .has_terms = true};
    if (!cJSON_IsString(event) || strcmp(event->valuestring, "step") != 0)
        return WEFT_OK;
    weft_status status = WEFT_OK;
    for (size_t m = 0; m < ARRAY_SIZE(measured_members) && status == WEFT_OK; m++) {
        const char *key = report_name_keys[measured_members[m].name];
        if (measured_members[m].of_terms && !cJSON_HasObjectItem(line, key))
            step.has_terms = false;
        else
            status = json_get_number(line, key, where, measured_member_of(&step, m), error);
    }
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

/* The median of a member over `count` steps. `numbers` has room for them. */
static double median_of(struct measured_steps *steps, size_t count, size_t member, double *numbers)
{
    for (size_t i = 0; i < count; i++)
        numbers[i] = *measured_member_of(&steps[i], member);
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
    struct measured_steps *steps = list->items + skipped;
    double *numbers = malloc(count * sizeof *numbers);
    if (!numbers)
        return error_memory(error, count * sizeof *numbers, "the steps of a run");
    *measured = (struct measured_steps){.steps = (uint32_t)count, .has_terms = true};
    for (size_t i = 0; i < count; i++)
        measured->has_terms = measured->has_terms && steps[i].has_terms;
    for (size_t m = 0; m < ARRAY_SIZE(measured_members); m++)
        *measured_member_of(measured, m) = median_of(steps, count, m, numbers);
    free(numbers);
    return WEFT_OK;
}

weft_status measured_steps_load(const char *word, struct measured_steps *measured, struct error *error)
{
    struct step_list list = {0};
    char *content, path[FILE_PATH_BYTES];
    size_t size;
    weft_status status = report_find_metrics(word, path, error);
    if (status == WEFT_OK)
        status = file_read(path, FILE_MOST, &content, &size, error);
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
