/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The key-value store that MPI launchers and Slurm provide to the processes they start: put, fence, get. Weft uses it
 * once, for a secret that rank 0 creates and for the address of each rank's parent in a tree (a rank puts and gets at
 * most two values, however many ranks there are). The ranks' endpoint info travels over that tree (see rendezvous.h),
 * and the launcher is not needed afterwards.
 *
 * There is one store per process (the launcher's connection is), so of several ranks in one process only one can use
 * it.
 */
#ifndef WEFT_CORE_CONTROL_RENDEZVOUS_INTERNAL_KVS_H
#define WEFT_CORE_CONTROL_RENDEZVOUS_INTERNAL_KVS_H

#include "base/error.h"
#include "core/control/wire/secret.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kvs {
    const char *name; /**< launcher_name() */
    uint32_t rank, ranks;
    size_t value_most; /**< longest value in characters */
    /** Values are strings of letters and digits, visible to others after a fence. */
    weft_status (*put)(struct kvs *kvs, const char *key, const char *value, struct error *error);
    weft_status (*fence)(struct kvs *kvs, double limit_seconds, struct error *error);
    weft_status (*get)(struct kvs *kvs, uint32_t rank, const char *key, char *value, size_t room, struct error *error);
    /** `notify`: tell the launcher, which may take seconds to answer, or never answer while it ends the job. */
    void (*close)(struct kvs *kvs, bool notify);
};

/** Connect to the launcher; `kvs->close` frees it. Errors: RENDEZVOUS. */
weft_status kvs_open_pmix(struct kvs **kvs, struct error *error);
weft_status kvs_open_pmi1(struct kvs **kvs, struct error *error);
weft_status kvs_open_pmi2(struct kvs **kvs, struct error *error);

#define KVS_PLACE_BYTES 64

/**
 * Publish this rank's address (`place`, below KVS_PLACE_BYTES characters; empty: not needed), and get the address of
 * rank `other` (itself: none is read) and rank 0's secret (1 to 2 x SECRET_TEXT_BYTES - 1 characters). Collective.
 */
weft_status kvs_exchange(struct kvs *kvs, const char *place, uint32_t other, char others[KVS_PLACE_BYTES],
                         char secret[2 * SECRET_TEXT_BYTES], double limit_seconds, struct error *error);

#endif
