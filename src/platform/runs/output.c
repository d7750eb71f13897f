/* SPDX-License-Identifier: Apache-2.0 */
/* Pages and following: decides which segment of which node to read next, and which lines to keep.
 * platform/runs/output_scan.c reads the segments. */
#include "platform/runs/output.h"

#include "platform/agent/journal/file.h"
#include "platform/agent/order.h"
#include "platform/runs/internal/output_scan.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_MOST   ((uint64_t)128 << 20) /* bytes of journals for a page */
#define TEXT_MOST   ((size_t)4 << 20)     /* bytes of lines in a page */
#define FOLLOW_MOST ((size_t)256 << 10)   /* bytes of all journals per call when following */
#define LINES_MOST  4096                  /* and lines */
#define TIME_BYTES  24                    /* beginning of a record's header, including its time */

/* A node's journal, read by segments. */
struct runs_output_source {
    uint32_t node;
    char directory[FILE_PATH_BYTES];
    uint64_t *firsts; /* its segments */
    size_t count;
    size_t left;       /* backwards: the segment after the next to read; forwards: the next to read */
    uint64_t frontier; /* unread records are not later (backwards) or earlier (forwards) than this */
    bool exhausted;
};

struct paging {
    struct runs_output_source *sources;
    uint32_t count;
    bool forwards;
    size_t most;
    struct run_output_scan scan;
    bool dropped; /* lines left for another page */
};

/* ---- cursors ---- */

char *run_output_cursor(const struct run_output_line *line, char cursor[RUN_OUTPUT_CURSOR_BYTES])
{
    snprintf(cursor, RUN_OUTPUT_CURSOR_BYTES, "%" PRIu64 ".%" PRIu32 ".%" PRIu64 ".%" PRIu32, line->time, line->node,
             line->sequence, line->index);
    return cursor;
}

static weft_status runs_output_read_cursor(const char *cursor, struct run_output_line *line, struct error *error)
{
    uint64_t numbers[4];
    const char *at = cursor;
    for (int i = 0; i < 4; i++) {
        char *end;
        errno = 0;
        numbers[i] = *at >= '0' && *at <= '9' ? strtoull(at, &end, 10) : 0;
        if (!(*at >= '0' && *at <= '9') || errno || *end != (i < 3 ? '.' : '\0') ||
            (i % 2 == 1 && numbers[i] > UINT32_MAX))
            return error_set(error, WEFT_ERROR_ARGUMENT,
                             "'%.100s' is no cursor of a line: give back one that came with a line", cursor);
        at = end + 1;
    }
    *line = (struct run_output_line){
        .time = numbers[0], .node = (uint32_t)numbers[1], .sequence = numbers[2], .index = (uint32_t)numbers[3]};
    return WEFT_OK;
}

/* ---- opening ---- */

/* The time of a segment's first record; 0: none. */
static uint64_t segment_time(const struct runs_output_source *source, uint64_t first)
{
    char path[FILE_PATH_BYTES];
    uint8_t header[TIME_BYTES];
    uint64_t time = 0;
    if (journal_segment_path(path, source->directory, first, NULL) != WEFT_OK)
        return 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0 && pread(file, header, sizeof header, 0) == (ssize_t)sizeof header)
        memcpy(&time, header + 16, sizeof time);
    file_close(file);
    return le64toh(time);
}

/* The last segment that may contain the cursor's line. */
static size_t runs_output_find_segment(const struct runs_output_source *source, const struct run_output_line *cursor)
{
    for (size_t i = source->count; i-- > 1;)
        if (cursor->node == source->node ? source->firsts[i] <= cursor->sequence
                                         : segment_time(source, source->firsts[i]) - 1 < cursor->time)
            return i;
    return 0;
}

static weft_status open_source(const struct run_output_query *query, uint32_t node, struct runs_output_source *source,
                               struct error *error)
{
    char directory[FILE_PATH_BYTES];
    source->node = node;
    weft_status status = node_directory(directory, query->engine, &query->attempt, node, error);
    return status == WEFT_OK ? file_join(source->directory, directory, "journal", error) : status;
}

static void close_sources(struct runs_output_source *sources, uint32_t count)
{
    for (uint32_t i = 0; sources && i < count; i++)
        free(sources[i].firsts);
    free(sources);
}

/* Open the nodes that a query selects. */
static weft_status open_sources(const struct run_output_query *query, struct runs_output_source **sources,
                                uint32_t *count, struct error *error)
{
    bool one = query->node != RUN_OUTPUT_ANY;
    if (!attempt_is_valid(&query->attempt) || (one && (query->node < 0 || query->node >= (int64_t)query->nodes)))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "attempt %" PRIu64 " of run %.63s has no node %" PRId64 "; it has %" PRIu32,
                         query->attempt.epoch, query->attempt.run, query->node, query->nodes);
    if (!one && query->nodes > RUN_OUTPUT_NODES_MOST)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "run %.63s has %" PRIu32 " nodes, more than the %d whose lines are shown at once; choose one",
                         query->attempt.run, query->nodes, RUN_OUTPUT_NODES_MOST);
    *count = one ? 1 : query->nodes;
    *sources = calloc(*count, sizeof **sources);
    if (!*sources)
        return error_memory(error, *count * sizeof **sources, "the nodes of a run");
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; status == WEFT_OK && i < *count; i++)
        status = open_source(query, one ? (uint32_t)query->node : i, &(*sources)[i], error);
    if (status != WEFT_OK)
        close_sources(*sources, *count);
    return status;
}

static weft_status place_sources(struct paging *paging, const struct run_output_line *cursor, struct error *error)
{
    for (uint32_t i = 0; i < paging->count; i++) {
        struct runs_output_source *source = &paging->sources[i];
        weft_status status = journal_segments(source->directory, &source->firsts, &source->count, error);
        if (status != WEFT_OK)
            return status;
        source->frontier = cursor ? cursor->time : paging->forwards ? 0 : UINT64_MAX;
        source->left = cursor ? runs_output_find_segment(source, cursor) : paging->forwards ? 0 : source->count - 1;
        source->left += !paging->forwards;
        source->exhausted = source->count == 0;
    }
    return WEFT_OK;
}

/* ---- pages ---- */

static int runs_output_by_time(const void *left, const void *right)
{
    const struct run_output_line *a = left, *b = right;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    if (a->sequence != b->sequence)
        return a->sequence < b->sequence ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static void runs_output_sort(struct run_output_scan *scan)
{
    if (scan->count > 1)
        qsort(scan->lines, scan->count, sizeof *scan->lines, runs_output_by_time);
}

/* Keep the sorted lines [begin, end). */
static void runs_output_keep(struct paging *paging, size_t begin, size_t end)
{
    struct run_output_scan *scan = &paging->scan;
    paging->dropped = paging->dropped || begin > 0 || end < scan->count;
    if (begin > 0 && end > begin)
        memmove(scan->lines, scan->lines + begin, (end - begin) * sizeof *scan->lines);
    scan->count = end - begin;
}

/* Keep as many lines as fit a page, nearest to the cursor. */
static weft_status trim(struct paging *paging, struct error *error)
{
    size_t count = paging->scan.count, most = paging->most;
    runs_output_sort(&paging->scan);
    if (count > most)
        runs_output_keep(paging, paging->forwards ? 0 : count - most, paging->forwards ? most : count);
    return run_output_scan_compact(&paging->scan, error);
}

/* The source whose next segment may contain the nearest lines; NULL: all are read. */
static struct runs_output_source *nearest(struct paging *paging)
{
    struct runs_output_source *found = NULL;
    for (uint32_t i = 0; i < paging->count; i++) {
        struct runs_output_source *source = &paging->sources[i];
        if (!source->exhausted &&
            (!found || (paging->forwards ? source->frontier < found->frontier : source->frontier > found->frontier)))
            found = source;
    }
    return found;
}

/* Whether the page is full and no unread line belongs on it. */
static bool is_complete(struct paging *paging, uint64_t frontier)
{
    if (paging->scan.count < paging->most)
        return false;
    const struct run_output_line *last = &paging->scan.lines[paging->forwards ? paging->scan.count - 1 : 0];
    return paging->forwards ? last->time < frontier : last->time > frontier;
}

static weft_status read_next(struct paging *paging, struct runs_output_source *source, struct run_output_place *end,
                             struct error *error)
{
    size_t index = paging->forwards ? source->left : source->left - 1;
    struct run_output_seen seen;
    struct run_output_place place = {source->firsts[index], 0};
    weft_status status =
        run_output_scan(&paging->scan, source->directory, source->node, &place, SIZE_MAX, &seen, error);
    if (status != WEFT_OK)
        return status;
    if (end && index + 1 == source->count)
        *end = place;
    if (seen.any)
        source->frontier = paging->forwards ? seen.last : seen.first;
    source->left = paging->forwards ? index + 1 : index;
    source->exhausted = paging->forwards ? source->left == source->count : source->left == 0;
    return trim(paging, error);
}

/* Reading stopped at its limit: leave lines beyond `frontier` to the next page. */
static void runs_output_cut(struct paging *paging, uint64_t frontier)
{
    struct run_output_scan *scan = &paging->scan;
    size_t begin = 0, end = scan->count;
    while (paging->forwards && end > 0 && scan->lines[end - 1].time >= frontier)
        end--;
    while (!paging->forwards && begin < end && scan->lines[begin].time <= frontier)
        begin++;
    runs_output_keep(paging, begin, end);
}

static weft_status runs_output_read_all(struct paging *paging, struct run_output_place *ends, uint64_t *frontier,
                                        struct error *error)
{
    struct runs_output_source *source;
    *frontier = 0;
    while ((source = nearest(paging)) && !is_complete(paging, source->frontier)) {
        if (paging->scan.read > READ_MOST) {
            *frontier = source->frontier;
            runs_output_cut(paging, *frontier);
            return WEFT_OK;
        }
        weft_status status = read_next(paging, source, ends ? &ends[source - paging->sources] : NULL, error);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

/* Limit the text of a page. */
static void limit_text(struct paging *paging)
{
    struct run_output_scan *scan = &paging->scan;
    size_t bytes = 0, kept = 0;
    for (; kept < scan->count; kept++) {
        const struct run_output_line *line = &scan->lines[paging->forwards ? kept : scan->count - 1 - kept];
        bytes += run_output_scan_size(scan, line);
        if (bytes > TEXT_MOST && kept > 0)
            break;
    }
    runs_output_keep(paging, paging->forwards ? 0 : scan->count - kept, paging->forwards ? kept : scan->count);
}

/* Set the cursors of the adjacent pages. */
static void set_cursors(const struct paging *paging, const char *cursor, uint64_t frontier,
                        struct run_output_page *page)
{
    if (page->count > 0) {
        run_output_cursor(&page->lines[0], page->before);
        run_output_cursor(&page->lines[page->count - 1], page->after);
    } else if (frontier > 0) { /* a position between lines, of no node */
        const struct run_output_line none = {.time = frontier - paging->forwards, .node = UINT32_MAX};
        run_output_cursor(&none, page->before);
        run_output_cursor(&none, page->after);
    } else if (cursor) {
        snprintf(page->before, sizeof page->before, "%s", cursor);
        snprintf(page->after, sizeof page->after, "%s", cursor);
    }
}

weft_status run_output_page(const struct run_output_query *query, const char *cursor, bool forwards, size_t most,
                            struct run_output_page *page, struct error *error)
{
    struct run_output_line place;
    struct paging paging = {.forwards = forwards, .most = most < 1 ? 1 : most};
    struct run_output_page made = {0};
    uint64_t frontier = 0;
    if (paging.most > RUN_OUTPUT_LINES_MOST)
        paging.most = RUN_OUTPUT_LINES_MOST;
    weft_status status = cursor ? runs_output_read_cursor(cursor, &place, error) : WEFT_OK;
    if (status == WEFT_OK)
        status = open_sources(query, &paging.sources, &paging.count, error);
    if (status != WEFT_OK)
        return status;
    run_output_scan_begin(&paging.scan, query, cursor ? &place : NULL, forwards);
    if (!cursor && !forwards && !(made.ends = calloc(paging.count, sizeof *made.ends)))
        status = error_memory(error, paging.count * sizeof *made.ends, "a page of lines");
    if (status == WEFT_OK)
        status = place_sources(&paging, cursor ? &place : NULL, error);
    if (status == WEFT_OK)
        status = runs_output_read_all(&paging, made.ends, &frontier, error);
    if (status == WEFT_OK) {
        limit_text(&paging);
        made.more = paging.dropped || nearest(&paging);
        run_output_scan_give(&paging.scan, &made);
        set_cursors(&paging, cursor, frontier, &made);
        *page = made;
    } else {
        free(made.ends);
    }
    run_output_scan_end(&paging.scan);
    close_sources(paging.sources, paging.count);
    return status;
}

void run_output_page_free(struct run_output_page *page)
{
    free(page->lines);
    free(page->ends);
    buffer_free(&page->texts);
    *page = (struct run_output_page){0};
}

/* ---- what is added ---- */

struct run_output_follow {
    struct run_output_query query;
    struct runs_output_source *sources;
    struct run_output_place *places;
    uint32_t count, first; /* the node to begin with next time */
    bool has_cursor;
    struct run_output_line cursor;
};

weft_status run_output_follow(const struct run_output_query *query, const struct run_output_place *ends,
                              const char *cursor, struct run_output_follow **follow, struct error *error)
{
    struct run_output_follow *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "watching a run");
    made->query = *query;
    made->has_cursor = cursor != NULL;
    weft_status status = cursor ? runs_output_read_cursor(cursor, &made->cursor, error) : WEFT_OK;
    if (status == WEFT_OK)
        status = open_sources(query, &made->sources, &made->count, error);
    if (status == WEFT_OK && !(made->places = calloc(made->count, sizeof *made->places))) {
        close_sources(made->sources, made->count);
        status = error_memory(error, made->count * sizeof *made->places, "watching a run");
    }
    if (status != WEFT_OK) {
        free(made);
        return status;
    }
    if (ends)
        memcpy(made->places, ends, made->count * sizeof *ends);
    *follow = made;
    return WEFT_OK;
}

/* Read about `most` bytes added to a node's journal; `*taken` is how many. */
static weft_status follow_source(struct run_output_follow *follow, uint32_t i, struct run_output_scan *scan,
                                 size_t most, size_t *taken, bool *more, struct error *error)
{
    struct runs_output_source *source = &follow->sources[i];
    struct run_output_place *place = &follow->places[i];
    struct run_output_seen seen = {0};
    size_t at = 0;
    *taken = 0;
    free(source->firsts);
    source->firsts = NULL;
    weft_status status = journal_segments(source->directory, &source->firsts, &source->count, error);
    if (status != WEFT_OK || source->count == 0)
        return status;
    if (place->segment == 0)
        *place = (struct run_output_place){
            source->firsts[follow->has_cursor ? runs_output_find_segment(source, &follow->cursor) : 0], 0};
    /* Find out before reading whether another segment follows, which means that this one is complete. */
    while (at < source->count && source->firsts[at] <= place->segment)
        at++;
    status = run_output_scan(scan, source->directory, source->node, place, most, &seen, error);
    if (status == WEFT_OK && !seen.partial && at < source->count) {
        *place = (struct run_output_place){source->firsts[at], 0};
        *more = true;
    }
    *more = *more || seen.partial;
    *taken = seen.bytes;
    return status;
}

weft_status run_output_follow_next(struct run_output_follow *follow, struct run_output_page *page, struct error *error)
{
    struct run_output_scan scan;
    struct run_output_page made = {0};
    weft_status status = WEFT_OK;
    size_t left = FOLLOW_MOST, taken = 0;
    run_output_scan_begin(&scan, &follow->query, follow->has_cursor ? &follow->cursor : NULL, true);
    scan.count_most = LINES_MOST;
    /* Divide the remaining limit among the remaining nodes, so that lines of the same time come together. */
    for (uint32_t i = 0; status == WEFT_OK && i < follow->count; i++) {
        const size_t share = left / (follow->count - i);
        if (share == 0 || scan.count >= LINES_MOST) {
            made.more = true;
            break;
        }
        status = follow_source(follow, (follow->first + i) % follow->count, &scan, share, &taken, &made.more, error);
        left -= taken < left ? taken : left;
    }
    follow->first = (follow->first + 1) % follow->count;
    if (status == WEFT_OK) {
        runs_output_sort(&scan);
        run_output_scan_give(&scan, &made);
        *page = made;
    }
    run_output_scan_end(&scan);
    return status;
}

void run_output_follow_close(struct run_output_follow *follow)
{
    if (!follow)
        return;
    close_sources(follow->sources, follow->count);
    free(follow->places);
    free(follow);
}
