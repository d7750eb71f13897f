/* SPDX-License-Identifier: Apache-2.0 */
/* The conditions that a set of schedules must meet, and the bindings under which they are checked. */
#include "core/schedule/verify/verify.h"

#include "core/schedule/verify/internal/state.h"

#include <stdlib.h>

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

/*
 * Steps that write must change a value under one binding at least; otherwise the schedule does not do what its author
 * intended.
 */
static bool verify_machine_check_use(struct verify_machine *machine)
{
    for (uint32_t rank = 0; rank < machine->ranks; rank++) {
        const struct schedule *schedule = machine->schedules[rank];
        for (uint32_t lane = 0; lane < schedule->lane_count; lane++) {
            struct thread *thread = &machine->threads[machine->first_thread[rank] + lane];
            for (uint32_t i = schedule->lane_first[lane]; i < schedule->lane_first[lane + 1]; i++) {
                const struct step *step = &schedule->steps[i];
                bool writes = step->kind > STEP_RECEIVE_REDUCE && step->kind < STEP_EXCHANGE &&
                              step->kind != STEP_SIGNAL && step->kind != STEP_AWAIT && step->chunks;
                uint8_t use = machine->useful[machine->step_base[rank] + i];
                if (!writes || use == (USE_CHANGED | USE_READ))
                    continue;
                thread->at = i - schedule->lane_first[lane];
                thread->iteration = 0;
                return verify_complain(machine, thread, "is superfluous: %s, whatever the buffers",
                                       use & USE_CHANGED ? "no step reads the chunks it writes"
                                                         : "the chunks it writes already have those values");
            }
        }
    }
    return true;
}

/* Run under each of some bindings. `doubt`: the complaint is about order, which narrow clocks may have missed. */
static weft_status verify_machine_prove(struct verify_machine machine, bool narrow,
                                        const struct verify_binding *bindings, uint32_t count, bool complete,
                                        bool *doubt)
{
    if (!verify_machine_open(&machine, narrow) ||
        (complete && !(machine.useful = calloc((size_t)machine.step_count + 1, sizeof *machine.useful))))
        verify_machine_exhausted(&machine);
    for (uint32_t i = 0; i < count && machine.status == WEFT_OK; i++) {
        verify_machine_bind(&machine, &bindings[i]);
        if (verify_machine_run(&machine))
            for (uint32_t rank = 0; rank < machine.ranks && verify_machine_check_end(&machine, rank); rank++) {
            }
        if (machine.status == WEFT_OK && symbols_exhausted(machine.symbols))
            verify_machine_exhausted(&machine);
    }
    if (machine.status == WEFT_OK && machine.useful)
        verify_machine_check_use(&machine);
    *doubt = machine.doubt && machine.scopes.narrow;
    verify_machine_close(&machine);
    return machine.status;
}

weft_status verify_run(struct schedule *const *schedules, uint32_t ranks, const struct schedule_shape *shape,
                       const struct verify_binding *bindings, uint32_t count, bool complete, struct error *error)
{
    struct error own = {0};
    struct verify_machine machine = {
        .schedules = schedules, .shape = shape, .ranks = ranks, .error = error ? error : &own};
    bool doubt = false;
    weft_status status = verify_machine_prove(machine, true, bindings, count, complete, &doubt);
    if (!doubt)
        return status;
    error_clear(machine.error);
    return verify_machine_prove(machine, false, bindings, count, complete, &doubt);
}

weft_status schedule_verify(struct schedule *const *schedules, uint32_t ranks, const struct schedule_shape *shape,
                            struct error *error)
{
    for (uint32_t rank = 0; rank < ranks; rank++) {
        weft_status status = schedule_check(schedules[rank], error);
        if (status != WEFT_OK)
            return status;
    }
    uint32_t count;
    const struct verify_binding *bindings = verify_bindings(schedules, ranks, shape, &count);
    return verify_run(schedules, ranks, shape, bindings, count, true, error);
}
