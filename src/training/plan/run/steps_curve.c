/* SPDX-License-Identifier: Apache-2.0 */
#include "training/plan/run/steps_curve.h"

#include "base/file/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MOST ((size_t)1 << 20)

weft_status steps_curve_load(const char *path, struct curve_point **points, size_t *count, struct error *error)
{
    struct curve_point *list = NULL;
    size_t size, used = 0, room = 0, number = 0;
    char *content;
    weft_status status = file_read(path, FILE_MOST, &content, &size, error);
    if (status != WEFT_OK)
        return status;
    char *rest = content;
    for (char *line = strsep(&rest, "\n"); line && status == WEFT_OK; line = strsep(&rest, "\n")) {
        struct curve_point point;
        char after;
        number++;
        if (!*line)
            continue;
        if (sscanf(line, " %u , %lf %c", &point.batch, &point.steps, &after) == 2 && point.batch && point.steps > 0) {
            status = ARRAY_RESERVE(list, room, used + 1, "a curve of steps", error);
            if (status == WEFT_OK)
                list[used++] = point;
        } else if (number > 1) {
            status = error_set(error, WEFT_ERROR_DATA,
                               "%s, line %zu: '%.40s' is not a global batch and a number of steps ('256,12000')", path,
                               number, line);
        }
    }
    free(content);
    if (status == WEFT_OK && !used)
        status =
            error_set(error, WEFT_ERROR_DATA, "%s: there is no line with a global batch and a number of steps", path);
    if (status != WEFT_OK) {
        free(list);
        return status;
    }
    *points = list;
    *count = used;
    return WEFT_OK;
}
