/* SPDX-License-Identifier: Apache-2.0 */
/* A step among many, from norm to norm. */
#include "training/parallel/step/step.h"

#include <stdlib.h>

weft_status step_rotate(struct step_schedule *schedule, struct error *error)
{
    const size_t count = schedule->count;
    size_t first = 0;
    while (first < count && schedule->operations[first].kind != OPERATION_NORM)
        first++;
    if (++first >= count)
        return WEFT_OK;
    struct step_operation *rotated = malloc(count * sizeof *rotated);
    if (!rotated)
        return error_memory(error, count * sizeof *rotated, "a step");
    for (size_t i = 0; i < count; i++)
        rotated[i] = schedule->operations[(first + i) % count];
    for (size_t i = 0; i < schedule->dependency_count; i++)
        schedule->dependencies[i] = (uint32_t)((schedule->dependencies[i] + count - first) % count);
    free(schedule->operations);
    schedule->operations = rotated;
    schedule->room = count;
    return WEFT_OK;
}
