/* SPDX-License-Identifier: Apache-2.0 */
/* The timeline: events are appended over the closing bracket, which is written again after each round. */
#include "core/collective/negotiation/internal/timeline.h"

#include "base/clock.h"
#include "base/format/json.h"

#include <ctype.h>
#include <inttypes.h>
#include <time.h>

#define NAME_BYTES 64

weft_status timeline_open(struct negotiation_timeline *timeline, const char *path, bool marks, struct error *error)
{
    FILE *file = fopen(path, "we");
    if (!file)
        return error_system(error, "cannot write the timeline '%s'", path);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *timeline = (struct negotiation_timeline){.file = file,
                                              .begin = clock_now(),
                                              .marks = marks,
                                              .changed = true,
                                              .rows = timeline->rows,
                                              .first_row = timeline->rows};
    fprintf(file,
            "[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"args\":{\"name\":\"rounds\","
            "\"start_time_since_epoch_in_micros\":%" PRId64 "}}",
            (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    timeline_complete(timeline);
    return WEFT_OK;
}

void timeline_close(struct negotiation_timeline *timeline)
{
    if (!timeline->file)
        return;
    timeline_complete(timeline);
    fclose(timeline->file);
    *timeline = (struct negotiation_timeline){.rows = timeline->rows};
}

static double timeline_microseconds(const struct negotiation_timeline *timeline, uint64_t time)
{
    return time > timeline->begin ? (double)(time - timeline->begin) * 1e-3 : 0;
}

int timeline_row(struct negotiation_timeline *timeline, const char *name)
{
    if (!timeline->file)
        return 0;
    const int row = ++timeline->rows;
    struct json_writer arguments;
    struct error error = {0};
    json_begin_line(&arguments);
    json_put_text(&arguments, "name", name);
    fprintf(timeline->file, ",\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":", row);
    json_complete(&arguments, timeline->file, &error);
    fprintf(timeline->file,
            "},\n{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"sort_index\":%d}}", row, row);
    timeline->changed = true;
    return row;
}

void timeline_span(struct negotiation_timeline *timeline, int row, const char *prefix, const char *name, uint64_t begin,
                   uint64_t end)
{
    if (!timeline->file)
        return;
    char capitals[NAME_BYTES];
    snprintf(capitals, sizeof capitals, "%s%s", prefix, name);
    for (char *c = capitals; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    fprintf(timeline->file, ",\n{\"name\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":0,\"ts\":%.3f,\"dur\":%.3f}", capitals,
            row, timeline_microseconds(timeline, begin), end > begin ? (double)(end - begin) * 1e-3 : 0);
    timeline->changed = true;
}

void timeline_mark_round(struct negotiation_timeline *timeline)
{
    if (!timeline->file || !timeline->marks)
        return;
    fprintf(timeline->file, ",\n{\"name\":\"CYCLE_START\",\"ph\":\"i\",\"s\":\"g\",\"pid\":0,\"tid\":0,\"ts\":%.3f}",
            timeline_microseconds(timeline, clock_now()));
    timeline->changed = true;
}

void timeline_complete(struct negotiation_timeline *timeline)
{
    if (!timeline->file || !timeline->changed)
        return;
    fputs("\n]\n", timeline->file);
    fflush(timeline->file);
    fseek(timeline->file, -3, SEEK_CUR);
    timeline->changed = false;
}
