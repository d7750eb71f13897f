/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/store/internal/marks.h"

#include "base/hash.h"

#include <stdlib.h>

static struct metric_mark **marks_place_of(const struct metric_marks *marks, const struct metric_source *source)
{
    return &marks->places[hash_bytes(source, sizeof *source, 0) & (marks->room - 1)];
}

static bool marks_same(const struct metric_source *left, const struct metric_source *right)
{
    return left->run == right->run && left->attempt == right->attempt && left->number == right->number;
}

static weft_status marks_make_room(struct metric_marks *marks, struct error *error)
{
    if (marks->count < marks->room)
        return WEFT_OK;
    const struct metric_marks before = *marks;
    const size_t room = before.room ? 2 * before.room : 64;
    struct metric_mark **places = calloc(room, sizeof *places);
    if (!places)
        return error_memory(error, room * sizeof *places, "the marks of metrics");
    marks->places = places;
    marks->room = room;
    for (size_t i = 0; i < before.room; i++)
        for (struct metric_mark *mark = before.places[i], *next; mark; mark = next) {
            struct metric_mark **place = marks_place_of(marks, &mark->source);
            next = mark->chained;
            mark->chained = *place;
            *place = mark;
        }
    free(before.places);
    return WEFT_OK;
}

static struct metric_mark *marks_known(const struct metric_marks *marks, const struct metric_source *source)
{
    struct metric_mark *mark = marks->room ? *marks_place_of(marks, source) : NULL;
    while (mark && !marks_same(&mark->source, source))
        mark = mark->chained;
    return mark;
}

weft_status metric_marks_look(const struct metric_marks *marks, struct database *database,
                              const struct metric_source *source, uint64_t *sequence, struct error *error)
{
    const struct metric_mark *mark = marks_known(marks, source);
    if (!mark)
        return metric_rows_mark(database, source, sequence, error);
    *sequence = mark->sequence;
    return WEFT_OK;
}

weft_status metric_marks_find(struct metric_marks *marks, struct database *database, const struct metric_source *source,
                              struct metric_mark **mark, struct error *error)
{
    uint64_t sequence;
    if ((*mark = marks_known(marks, source)))
        return WEFT_OK;
    weft_status status = marks_make_room(marks, error);
    if (status == WEFT_OK)
        status = metric_rows_mark(database, source, &sequence, error);
    if (status != WEFT_OK)
        return status;
    struct metric_mark *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "a mark of metrics");
    struct metric_mark **place = marks_place_of(marks, source);
    *made = (struct metric_mark){.source = *source, .sequence = sequence, .chained = *place};
    *place = *mark = made;
    marks->count++;
    return WEFT_OK;
}

void metric_marks_set(struct metric_marks *marks, struct metric_mark *mark, uint64_t sequence, uint64_t now)
{
    mark->sequence = sequence;
    mark->used = now;
    if (mark->changed)
        return;
    mark->changed = true;
    mark->next_changed = marks->changed;
    marks->changed = mark;
}

weft_status metric_marks_write(const struct metric_marks *marks, struct database *database, struct error *error)
{
    weft_status status = WEFT_OK;
    for (const struct metric_mark *mark = marks->changed; mark && status == WEFT_OK; mark = mark->next_changed)
        status = metric_rows_put_mark(database, &mark->source, mark->sequence, error);
    return status;
}

void metric_marks_written(struct metric_marks *marks)
{
    for (struct metric_mark *mark = marks->changed; mark; mark = mark->next_changed)
        mark->changed = false;
    marks->changed = NULL;
}

void metric_marks_drop(struct metric_marks *marks, uint64_t before)
{
    for (size_t i = 0; i < marks->room; i++)
        for (struct metric_mark **at = &marks->places[i]; *at;) {
            struct metric_mark *mark = *at;
            if (mark->changed || mark->used > before) {
                at = &mark->chained;
            } else {
                *at = mark->chained;
                free(mark);
                marks->count--;
            }
        }
}

void metric_marks_free(struct metric_marks *marks)
{
    for (size_t i = 0; i < marks->room; i++)
        for (struct metric_mark *mark = marks->places[i], *next; mark; mark = next) {
            next = mark->chained;
            free(mark);
        }
    free(marks->places);
    *marks = (struct metric_marks){0};
}
