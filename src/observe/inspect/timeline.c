/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/inspect/timeline.h"

#include "base/format/json.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MOST (1 << 20)
#define KINDS_MOST 1024 /* operations times algorithms; Weft has some hundred */

/* What is kept of an event until all are read. */
struct span {
    uint32_t rank; /* index of its rank among those of the timeline */
    uint32_t communicator;
    uint64_t sequence;
    double begin, end;
    double called;  /* of an operation */
    uint32_t kind;  /* of an operation */
    char category;  /* o: operation, n: near, m: message */
    uint32_t place; /* the first rank of its rank's machine, an index too */
};

struct timeline_reading {
    struct timeline *timeline;
    const char *path;
    uint64_t line;
    bool odd; /* a number of this line was not written by Weft */
    struct span *spans;
    size_t count, room, rank_room, kind_room;
};

/* ---- reading ---- */

static weft_status timeline_damaged(const struct timeline_reading *reading, struct error *error)
{
    return error_set(error, WEFT_ERROR_DATA, "%s, line %lu: this is no timeline as Weft writes them", reading->path,
                     (unsigned long)reading->line);
}

static double timeline_number(struct timeline_reading *reading, const cJSON *object, const char *key)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, key);
    double number = cJSON_IsNumber(value) ? value->valuedouble : 0;
    if (number >= -(double)JSON_EXACT && number <= (double)JSON_EXACT)
        return number;
    reading->odd = true;
    return 0;
}

static uint64_t timeline_count(struct timeline_reading *reading, const cJSON *object, const char *key)
{
    double value = timeline_number(reading, object, key);
    reading->odd |= value < 0;
    return value < 0 ? 0 : (uint64_t)value;
}

static const char *timeline_text(const cJSON *object, const char *key)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsString(value) ? value->valuestring : "";
}

/* A rank that the file has told of, by its number, or NULL. */
static struct timeline_rank *timeline_rank_of(const struct timeline *timeline, uint32_t number)
{
    uint32_t first = 0, end = timeline->rank_count;
    while (first < end) {
        uint32_t middle = first + (end - first) / 2;
        if (timeline->ranks[middle].rank < number)
            first = middle + 1;
        else
            end = middle;
    }
    return first < timeline->rank_count && timeline->ranks[first].rank == number ? &timeline->ranks[first] : NULL;
}

static weft_status timeline_kind_of(struct timeline_reading *reading, const char *name, const char *algorithm,
                                    uint32_t *number, struct error *error)
{
    struct timeline *timeline = reading->timeline;
    struct timeline_kind wanted = {0};
    snprintf(wanted.name, sizeof wanted.name, "%s", name);
    snprintf(wanted.algorithm, sizeof wanted.algorithm, "%s", algorithm);
    text_printable(wanted.name);
    text_printable(wanted.algorithm);
    for (*number = 0; *number < timeline->kind_count; ++*number)
        if (strcmp(timeline->kinds[*number].name, wanted.name) == 0 &&
            strcmp(timeline->kinds[*number].algorithm, wanted.algorithm) == 0)
            return WEFT_OK;
    if (timeline->kind_count == KINDS_MOST)
        return timeline_damaged(reading, error);
    if (ARRAY_RESERVE(timeline->kinds, reading->kind_room, timeline->kind_count + 1,
                      "the kinds of operations of a timeline", error) != WEFT_OK)
        return WEFT_ERROR_MEMORY;
    timeline->kinds[timeline->kind_count++] = wanted;
    return WEFT_OK;
}

/* Ranks come in order, each once, before their events. */
static weft_status read_rank(struct timeline_reading *reading, uint32_t number_of_rank, const cJSON *arguments,
                             struct error *error)
{
    struct timeline *timeline = reading->timeline;
    if (timeline->rank_count && timeline->ranks[timeline->rank_count - 1].rank >= number_of_rank)
        return timeline_damaged(reading, error);
    if (ARRAY_RESERVE(timeline->ranks, reading->rank_room, timeline->rank_count + 1, "the ranks of a timeline",
                      error) != WEFT_OK)
        return WEFT_ERROR_MEMORY;
    struct timeline_rank *rank = &timeline->ranks[timeline->rank_count++];
    *rank = (struct timeline_rank){.rank = number_of_rank};
    snprintf(rank->host, sizeof rank->host, "%s", timeline_text(arguments, "host"));
    text_printable(rank->host);
    snprintf(rank->machine, sizeof rank->machine, "%s", timeline_text(arguments, "machine"));
    rank->events = timeline_count(reading, arguments, "events");
    rank->lost = timeline_count(reading, arguments, "lost");
    rank->clock_uncertainty = timeline_number(reading, arguments, "clock_uncertainty_us") * 1e-6;
    return WEFT_OK;
}

/* An operation or a step that the sums are about. */
static weft_status read_span(struct timeline_reading *reading, struct timeline_rank *own, const cJSON *event,
                             const cJSON *arguments, struct error *error)
{
    const char *category = timeline_text(event, "cat");
    bool operation = strcmp(category, "operation") == 0, near = strcmp(category, "near") == 0;
    if (!operation && !near && strcmp(category, "message") != 0)
        return WEFT_OK;
    if (ARRAY_RESERVE(reading->spans, reading->room, reading->count + 1, "the events of a timeline", error) != WEFT_OK)
        return WEFT_ERROR_MEMORY;
    struct span *span = &reading->spans[reading->count++];
    *span = (struct span){.rank = (uint32_t)(own - reading->timeline->ranks),
                          .communicator = (uint32_t)timeline_count(reading, arguments, "communicator"),
                          .sequence = timeline_count(reading, arguments, "sequence"),
                          .begin = timeline_number(reading, event, "ts") * 1e-6,
                          .category = operation ? 'o'
                                      : near    ? 'n'
                                                : 'm'};
    span->end = span->begin + timeline_number(reading, event, "dur") * 1e-6;
    if (!operation)
        return WEFT_OK;
    span->called = span->begin - timeline_number(reading, arguments, "queued_us") * 1e-6;
    weft_status status = timeline_kind_of(reading, timeline_text(event, "name"), timeline_text(arguments, "algorithm"),
                                          &span->kind, error);
    if (status != WEFT_OK)
        return status;
    struct timeline_kind *kind = &reading->timeline->kinds[span->kind];
    double waited = timeline_number(reading, arguments, "waited_us") * 1e-6;
    kind->calls++;
    kind->bytes += timeline_count(reading, arguments, "bytes");
    kind->time += span->end - span->begin;
    kind->waited += waited;
    own->first = own->operations == 0 || span->begin < own->first ? span->begin : own->first;
    own->last = span->end > own->last ? span->end : own->last;
    own->operations++;
    own->inside += span->end - span->begin;
    own->waited += waited;
    return WEFT_OK;
}

static weft_status read_event(struct timeline_reading *reading, const cJSON *event, struct error *error)
{
    double process = timeline_number(reading, event, "pid");
    const cJSON *arguments = cJSON_GetObjectItemCaseSensitive(event, "args");
    if (!cJSON_IsObject(event) || reading->odd || process < 0 || process >= RANKS_MOST)
        return timeline_damaged(reading, error);
    weft_status status = WEFT_OK;
    if (strcmp(timeline_text(event, "name"), "process_name") == 0) {
        status = read_rank(reading, (uint32_t)process, arguments, error);
    } else if (strcmp(timeline_text(event, "ph"), "X") == 0) {
        struct timeline_rank *rank = timeline_rank_of(reading->timeline, (uint32_t)process);
        status = rank ? read_span(reading, rank, event, arguments, error) : timeline_damaged(reading, error);
    }
    return status == WEFT_OK && reading->odd ? timeline_damaged(reading, error) : status;
}

static weft_status timeline_read_lines(struct timeline_reading *reading, FILE *file, struct error *error)
{
    char *line = NULL;
    size_t room = 0;
    weft_status status = WEFT_OK;
    bool ended = false;
    for (ssize_t length; status == WEFT_OK && (length = getline(&line, &room, file)) >= 0;) {
        reading->line++;
        while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == ','))
            line[--length] = '\0';
        if (reading->line == 1 && strncmp(line, "{\"displayTimeUnit\"", 18) != 0)
            status = timeline_damaged(reading, error);
        ended = ended || strcmp(line, "]}") == 0;
        if (reading->line == 1 || length == 0 || ended)
            continue;
        cJSON *event = cJSON_ParseWithLength(line, (size_t)length);
        status = event ? read_event(reading, event, error) : timeline_damaged(reading, error);
        cJSON_Delete(event);
    }
    free(line);
    if (status == WEFT_OK && ferror(file))
        status = error_system(error, "cannot read the timeline '%s'", reading->path);
    if (status == WEFT_OK && !ended)
        status = error_set(error, WEFT_ERROR_DATA, "%s: the timeline ends before its end; was it written whole?",
                           reading->path);
    return status;
}

/* ---- summing up ---- */

/* By operation, then place, then what they are, then time. */
static int compare_spans(const void *left, const void *right)
{
    const struct span *a = left, *b = right;
    if (a->communicator != b->communicator)
        return a->communicator < b->communicator ? -1 : 1;
    if (a->sequence != b->sequence)
        return a->sequence < b->sequence ? -1 : 1;
    if ((a->category == 'o') != (b->category == 'o'))
        return a->category == 'o' ? -1 : 1;
    if (a->category == 'o')
        return a->called < b->called ? -1 : a->called > b->called;
    if (a->place != b->place)
        return a->place < b->place ? -1 : 1;
    if (a->category != b->category)
        return a->category < b->category ? -1 : 1;
    if (a->category == 'n' && a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

/* How late each rank was called to an operation; `spans` are its operation events by the time of the call. */
static void sum_lateness(struct timeline *timeline, const struct span *spans, size_t count)
{
    for (size_t i = 0; count > 1 && i < count; i++) {
        struct timeline_rank *rank = &timeline->ranks[spans[i].rank];
        double late = spans[i].called - spans[0].called;
        rank->late_operations++;
        rank->late_last += i + 1 == count;
        rank->late_mean += (late - rank->late_mean) / (double)rank->late_operations;
        rank->late_most = late > rank->late_most ? late : rank->late_most;
    }
}

/* Join spans that overlap, in place, of those sorted by begin; how many are left. */
static size_t timeline_join(struct span *spans, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept && spans[i].begin <= spans[kept - 1].end && spans[i].rank == spans[kept - 1].rank)
            spans[kept - 1].end = spans[i].end > spans[kept - 1].end ? spans[i].end : spans[kept - 1].end;
        else
            spans[kept++] = spans[i];
    }
    return kept;
}

static double length_of(const struct span *spans, size_t count)
{
    double length = 0;
    for (size_t i = 0; i < count; i++)
        length += spans[i].end - spans[i].begin;
    return length;
}

/* Of `inner` (several ranks', each sorted and joined) what lies within `outer` (sorted and joined). */
static double common(const struct span *inner, size_t inner_count, const struct span *outer, size_t outer_count)
{
    double length = 0;
    for (size_t i = 0, first = 0; i < inner_count; i++) {
        if (i > 0 && inner[i].rank != inner[i - 1].rank)
            first = 0;
        while (first < outer_count && outer[first].end <= inner[i].begin)
            first++;
        for (size_t o = first; o < outer_count && outer[o].begin < inner[i].end; o++) {
            double begin = inner[i].begin > outer[o].begin ? inner[i].begin : outer[o].begin;
            double end = inner[i].end < outer[o].end ? inner[i].end : outer[o].end;
            length += end - begin;
        }
    }
    return length;
}

/* The phases of one operation on one machine: messages ('m') come first, then the work in memory ('n') by rank. */
static void sum_phases(struct timeline_kind *kind, struct span *spans, size_t count)
{
    size_t messages = 0;
    while (messages < count && spans[messages].category == 'm') {
        spans[messages].rank = 0; /* whosever it is: it is under way */
        messages++;
    }
    if (messages == 0 || messages == count)
        return;
    size_t outer = timeline_join(spans, messages), inner = timeline_join(spans + messages, count - messages);
    kind->outer += length_of(spans, outer);
    kind->inner += length_of(spans + messages, inner);
    kind->overlapped += common(spans + messages, inner, spans, outer);
}

static int compare_machines(const void *left, const void *right)
{
    const struct timeline_rank *a = *(struct timeline_rank *const *)left, *b = *(struct timeline_rank *const *)right;
    int order = strcmp(a->machine, b->machine);
    return order ? order : (a->rank > b->rank) - (a->rank < b->rank);
}

/* Give every span its place. */
static weft_status find_places(struct timeline_reading *reading, struct error *error)
{
    const struct timeline *timeline = reading->timeline;
    uint32_t ranks = timeline->rank_count;
    const struct timeline_rank **sorted = calloc(ranks ? ranks : 1, sizeof *sorted);
    uint32_t *places = calloc(ranks ? ranks : 1, sizeof *places);
    if (!sorted || !places) {
        free(sorted);
        free(places);
        return error_memory(error, ranks * (sizeof *sorted + sizeof *places), "the machines of a timeline");
    }
    for (uint32_t i = 0; i < ranks; i++)
        sorted[i] = &timeline->ranks[i];
    qsort(sorted, ranks, sizeof *sorted, compare_machines);
    for (uint32_t i = 0, first = 0; i < ranks; i++) {
        if (strcmp(sorted[i]->machine, sorted[first]->machine) != 0)
            first = i;
        places[sorted[i] - timeline->ranks] = (uint32_t)(sorted[first] - timeline->ranks);
    }
    for (size_t i = 0; i < reading->count; i++)
        reading->spans[i].place = places[reading->spans[i].rank];
    free(sorted);
    free(places);
    return WEFT_OK;
}

static void timeline_sum_up(struct timeline_reading *reading)
{
    struct timeline *timeline = reading->timeline;
    struct span *spans = reading->spans;
    if (reading->count)
        qsort(spans, reading->count, sizeof *spans, compare_spans);
    for (size_t first = 0, end; first < reading->count; first = end) {
        for (end = first + 1; end < reading->count && spans[end].communicator == spans[first].communicator &&
                              spans[end].sequence == spans[first].sequence;)
            end++;
        size_t operations = first;
        while (operations < end && spans[operations].category == 'o')
            operations++;
        sum_lateness(timeline, spans + first, operations - first);
        if (operations == first)
            continue; /* its operation has been lost from the ring */
        for (size_t begin = operations, next; begin < end; begin = next) {
            for (next = begin + 1; next < end && spans[next].place == spans[begin].place;)
                next++;
            sum_phases(&timeline->kinds[spans[first].kind], spans + begin, next - begin);
        }
    }
}

static int compare_kinds(const void *left, const void *right)
{
    const struct timeline_kind *a = left, *b = right;
    return a->time > b->time ? -1 : a->time < b->time;
}

weft_status timeline_read(const char *path, struct timeline *timeline, struct error *error)
{
    struct timeline made = {0};
    struct timeline_reading reading = {.timeline = &made, .path = path};
    FILE *file = fopen(path, "r");
    if (!file)
        return error_system(error, "cannot read the timeline '%s'", path);
    weft_status status = timeline_read_lines(&reading, file, error);
    fclose(file);
    if (status == WEFT_OK)
        status = find_places(&reading, error);
    if (status == WEFT_OK)
        timeline_sum_up(&reading);
    free(reading.spans);
    if (status != WEFT_OK) {
        timeline_free(&made);
        return status;
    }
    if (made.kind_count)
        qsort(made.kinds, made.kind_count, sizeof *made.kinds, compare_kinds);
    *timeline = made;
    return WEFT_OK;
}

void timeline_free(struct timeline *timeline)
{
    free(timeline->ranks);
    free(timeline->kinds);
    *timeline = (struct timeline){0};
}
