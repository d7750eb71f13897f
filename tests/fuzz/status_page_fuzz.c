/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boards of which any bytes are others than a rank would write: a job is shown in texts that can be printed, or the
 * it is not a status page. The input is a list of changes to two status pages of a few ranks.
 */
#include "fuzz_file.h"

#include "../forged_status_page.h"
#include "base/text.h"
#include "observe/inspect/inspection.h"

#define STATUS_PAGES 2

static void check_text(const char *text, size_t room)
{
    char copy[INSPECTION_TEXT_BYTES];
    if (!memchr(text, 0, room) || room > sizeof copy)
        abort();
    memcpy(copy, text, room);
    if (strcmp(text_printable(copy), text) != 0)
        abort();
}

static void check_rank(const struct inspected_job *job, const struct inspected_rank *rank)
{
    check_text(rank->host, sizeof rank->host);
    if (!inspected_state_name(rank->state) || rank->skew.last > rank->skew.operations ||
        (rank->current &&
         (rank->current < rank->operations || rank->current >= rank->operations + rank->operation_count)) ||
        (rank->state == INSPECTED_WAITING && !rank->current))
        abort();
    for (uint32_t i = 0; i < rank->operation_count; i++) {
        const struct inspected_operation *operation = &rank->operations[i];
        check_text(operation->text, sizeof operation->text);
        check_text(operation->place, sizeof operation->place);
        if (operation->phase > OPERATION_DONE || operation->started == INT64_MIN || operation->since == INT64_MIN)
            abort();
    }
    (void)job;
}

static void check_job(const struct inspected_job *job)
{
    check_text(job->name, sizeof job->name);
    check_text(job->launcher, sizeof job->launcher);
    check_text(job->command, sizeof job->command);
    check_text(job->verdict, sizeof job->verdict);
    if (!*job->verdict || job->here > job->rank_count || job->waiting > job->rank_count ||
        (job->straggler != INSPECTION_NOBODY && job->straggler >= job->rank_count))
        abort();
    for (uint32_t r = 0; r < job->rank_count; r++)
        check_rank(job, &job->ranks[r]);
}

/* Where a change begins: of a status page's parts, so that a small number reaches each. */
static uint8_t *part_of(struct status_page *status_page, uint32_t ranks, uint8_t which, uint8_t number)
{
    struct operation_log *log = &status_page->log;
    struct status_page_answer *answer = &status_page_answers(status_page, ranks)[number % ranks];
    switch (which % 6) {
    case 0:
        return (uint8_t *)status_page;
    case 1:
        return (uint8_t *)log;
    case 2:
        return (uint8_t *)&log->entries[number % OPERATION_LOG_ENTRIES];
    case 3:
        return (uint8_t *)&status_page->who[number % ranks];
    case 4:
        return (uint8_t *)answer;
    default:
        return (uint8_t *)&answer->log.entries[number / ranks % OPERATION_LOG_ENTRIES];
    }
}

/* Bytes: how many ranks and which of them; then changes: status page and part, number, offset, length, and what to put there.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct forged_status_page status_pages[STATUS_PAGES];
    struct status_page_view views[STATUS_PAGES];
    struct inspection inspection;
    uint32_t ranks[STATUS_PAGES], count = 0;
    if (size < STATUS_PAGES)
        return 0;
    for (uint32_t i = 0; i < STATUS_PAGES; i++) {
        ranks[i] = 1 + data[i] % 4;
        forged_status_page_make(&status_pages[i], (data[i] >> 2) % ranks[i], ranks[i]);
    }
    const uint8_t *end = data + size;
    for (data += STATUS_PAGES; end - data > 4;) {
        uint32_t which = data[0] % STATUS_PAGES;
        struct status_page *status_page = status_pages[which].status_page;
        uint8_t *place = part_of(status_page, ranks[which], data[0] / STATUS_PAGES, data[1]) + data[2];
        size_t length = 1 + data[3] % 64, room = (size_t)((uint8_t *)status_page + status_pages[which].bytes - place);
        data += 4;
        length = length < (size_t)(end - data) ? length : (size_t)(end - data);
        memcpy(place, data, length < room ? length : room);
        data += length;
    }
    for (uint32_t i = 0; i < STATUS_PAGES; i++) {
        atomic_store(&status_pages[i].status_page->answered, UINT64_MAX);
        count += status_page_view_open(status_pages[i].path, getpid(), &views[count]);
    }
    if (inspection_read(views, count, true, &inspection, NULL) != WEFT_OK)
        abort();
    for (uint32_t j = 0; j < inspection.job_count; j++)
        check_job(&inspection.jobs[j]);
    inspection_close(&inspection);
    for (uint32_t i = 0; i < count; i++)
        status_page_view_close(&views[i]);
    for (uint32_t i = 0; i < STATUS_PAGES; i++)
        forged_status_page_close(&status_pages[i]);
    return 0;
}
