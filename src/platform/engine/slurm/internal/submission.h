/* SPDX-License-Identifier: Apache-2.0 */
/** A job that is to be submitted, kept in memory and on disk: Slurm may not answer for hours, and the server may be
 * restarted meanwhile. Thread-safe. */
#ifndef WEFT_PLATFORM_ENGINE_SLURM_INTERNAL_SUBMISSION_H
#define WEFT_PLATFORM_ENGINE_SLURM_INTERNAL_SUBMISSION_H

#include "platform/engine/slurm/commands.h"

/** Copy all but the comment; the pointers are into `*texts`, which the caller frees. Errors: MEMORY. */
weft_status submission_copy(const struct slurm_submission *from, struct slurm_submission *to, char **texts,
                            struct error *error);

/** Write it to a file that only this user may read; read it. Errors: SYSTEM, DATA, MEMORY. */
weft_status submission_save(const char *path, const struct slurm_submission *submission, struct error *error);
weft_status submission_load(const char *path, struct slurm_submission *submission, char **texts, struct error *error);

#endif
