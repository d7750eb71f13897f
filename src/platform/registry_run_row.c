/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/registry_run_row.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

weft_status registry_run_row(struct statement *select, struct registry_run *run, struct error *error)
{
    int64_t *const integers[] = {
        &run->nodes,      &run->slots,      &run->processors, &run->memory,
        &run->time_limit, &run->time_slice, &run->priority,   &run->retries,
    };
    int64_t *const times[] = {
        &run->program_failures, &run->platform_failures, &run->submitted,  &run->waiting_since,
        &run->first_started,    &run->started,           &run->ended,      &run->changed,
        &run->served,           &run->discarded,         &run->idle_since, &run->progress.reported,
        &run->progress.rank,
    };
    double *const numbers[] = {&run->progress.done, &run->progress.total, &run->progress.left};
    char *const names[] = {run->project, run->owner, run->class_name};
    bool *const flags[] = {&run->preemptible, &run->may_span_pods, &run->interactive};
    int column = 0;
    run->run = statement_integer(select, column++);
    run->epoch = statement_integer(select, column++);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        statement_copy_text(select, column++, names[i], PLATFORM_NAME_BYTES);
    statement_copy_text(select, column++, run->name, sizeof run->name);
    bool found = run_state_find(statement_text(select, column), &run->state) &&
                 run_cause_find(statement_text(select, column + 1), &run->cause) &&
                 run_cause_find(statement_text(select, column + 2), &run->asked);
    column += 3;
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        *integers[i] = statement_integer(select, column++);
    run->slot_kind = strcmp(statement_text(select, column++), slot_kind_name(SLOT_CPU)) == 0 ? SLOT_CPU : SLOT_GPU;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        *flags[i] = statement_integer(select, column++) != 0;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        *times[i] = statement_integer(select, column++);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        *numbers[i] = statement_number(select, column++);
    statement_copy_text(select, column, run->detail, sizeof run->detail);
    return found ? WEFT_OK
                 : error_set(error, WEFT_ERROR_DATA, "run %" PRId64 " has a state that this program does not know",
                             run->run);
}

char *registry_detail(const char *detail, const char *otherwise, char kept[REGISTRY_DETAIL_BYTES])
{
    snprintf(kept, REGISTRY_DETAIL_BYTES, "%s", *detail ? detail : otherwise);
    return text_printable(kept);
}
