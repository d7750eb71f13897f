/* SPDX-License-Identifier: Apache-2.0 */
/* The conditions that a set of schedules must meet, and the bindings under which they are checked. */
#include "core/schedule/verify/verify.h"

#include "core/schedule/verify/internal/machine.h"

/* All combinations with shared memory; without it registered buffers make no difference. In place last. */
static const struct verify_binding shm_bindings[] = {
    {CHOICE_ALL, CHOICE_NONE}, {CHOICE_NONE, CHOICE_NONE}, {CHOICE_ALTERNATING, CHOICE_NONE},
    {CHOICE_ALL, CHOICE_ALL},  {CHOICE_NONE, CHOICE_ALL},  {CHOICE_ALTERNATING, CHOICE_ALTERNATING},
};
static const struct verify_binding message_bindings[] = {{CHOICE_NONE, CHOICE_NONE}, {CHOICE_NONE, CHOICE_ALL}};
static const struct verify_binding in_place_bindings[] = {
    {CHOICE_ALL, CHOICE_ALL}, {CHOICE_NONE, CHOICE_ALL}, {CHOICE_ALTERNATING, CHOICE_ALL}};

bool schedules_use_shm(struct schedule *const *schedules, uint32_t ranks)
{
    for (uint32_t rank = 0; rank < ranks; rank++)
        for (uint32_t i = 0; i < schedules[rank]->step_count; i++)
            if (schedules[rank]->steps[i].kind >= STEP_EXPOSE && schedules[rank]->steps[i].kind != STEP_EXCHANGE)
                return true;
    return false;
}

const struct verify_binding *verify_bindings(struct schedule *const *schedules, uint32_t ranks,
                                             const struct schedule_shape *shape, uint32_t *count)
{
    bool shm = schedules_use_shm(schedules, ranks);
    switch (shape->collective) {
    case COLLECTIVE_ALLTOALLV: /* never in place */
    case COLLECTIVE_SENDRECEIVE:
    case COLLECTIVE_BARRIER:
        *count = shm ? 3 : 1;
        return shm ? shm_bindings : message_bindings;
    case COLLECTIVE_BROADCAST: /* always in place */
        *count = shm ? 3 : 1;
        return in_place_bindings;
    case COLLECTIVE_ALLTOALL: /* the schedule says */
        *count = shm ? 3 : 1;
        return shape->in_place ? in_place_bindings : shm_bindings;
    default:
        *count = shm ? 6 : 2;
        return shm ? shm_bindings : message_bindings;
    }
}

weft_status schedule_verify(struct schedule *const *schedules, uint32_t ranks, const struct schedule_shape *shape,
                            struct error *error)
{
    for (uint32_t rank = 0; rank < ranks; rank++) {
        weft_status status = schedule_check(schedules[rank], error);
        if (status != WEFT_OK)
            return status;
    }
    return verify_prove(schedules, ranks, shape, error);
}
