/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/loop/internal/spares.h"

#include "base/library_error.h"
#include "training/train/loop/internal/trainer_parts.h"

/* What a spare is sent. */
enum { MESSAGE_COMMAND, MESSAGE_SIGNAL, MESSAGE_NUMBERS };

weft_status spares_tell(struct trainer *trainer, enum spare_command command, struct error *error)
{
    const struct trainer_world *world = &trainer->world;
    const int32_t message[MESSAGE_NUMBERS] = {(int32_t)command, trainer->stopped_by};
    weft_status status = WEFT_OK;
    if (!world->is_whole) /* nobody waits yet */
        return WEFT_OK;
    for (uint32_t spare = world->ranks; world->rank == 0 && status == WEFT_OK && spare < world->job_ranks; spare++)
        status = library_error(trainer->context,
                               weft_send(message, MESSAGE_NUMBERS, WEFT_I32, (int)spare, world->commands), error);
    return status;
}

weft_status spares_wait(struct trainer *trainer, struct error *error)
{
    int32_t message[MESSAGE_NUMBERS];
    const weft_status status = library_error(
        trainer->context, weft_receive(message, MESSAGE_NUMBERS, WEFT_I32, 0, trainer->world.commands), error);
    if (status != WEFT_OK)
        return status;
    trainer->stopped_by = message[MESSAGE_SIGNAL];
    trainer->course.joining = message[MESSAGE_COMMAND] == SPARE_REGROUPS;
    if (message[MESSAGE_COMMAND] != SPARE_FAILS)
        return WEFT_OK;
    trainer->agreed = true;
    return error_set(error, WEFT_ERROR_STATE, "the run has failed; another rank says why");
}
