/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The key-value store that MPI launchers and Slurm give to the processes they start: put, fence, get. Weft uses it
 * once, for a secret that rank 0 draws and for where each rank finds the one above it in a tree (at most two values are
 * put and two got by a rank, however many there are); the ranks' endpoint infos travel over that tree (see rendezvous.h), and
 * nothing of the launcher is needed afterwards.
 *
 * A store is one per process (the launcher's connection is), so of several ranks in one process only one can use it.
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
    size_t value_most; /**< characters of a value, most */
    /** Values are texts of letters and digits; visible to others after a fence. */
    weft_status (*put)(struct kvs *kvs, const char *key, const char *value, struct error *error);
    weft_status (*fence)(struct kvs *kvs, double limit_seconds, struct error *error);
    weft_status (*get)(struct kvs *kvs, uint32_t rank, const char *key, char *value, size_t room, struct error *error);
    /** `farewell`: tell the launcher, which may take seconds to answer or never do where it is ending the job. */
    void (*close)(struct kvs *kvs, bool farewell);
};

/** Connect to the launcher; `kvs->close` frees it. Errors: RENDEZVOUS. */
weft_status kvs_open_pmix(struct kvs **kvs, struct error *error);
weft_status kvs_open_pmi1(struct kvs **kvs, struct error *error);
weft_status kvs_open_pmi2(struct kvs **kvs, struct error *error);

#define KVS_PLACE_BYTES 64

/**
 * Tell all where this rank is found (`place`, below KVS_PLACE_BYTES characters; empty: nobody will ask), and hear where
 * rank `other` is (itself: nothing is heard), and rank 0's secret (of at least 1 character, below SECRET_TEXT_BYTES x
 * 2). Collective.
 */
weft_status kvs_exchange(struct kvs *kvs, const char *place, uint32_t other, char others[KVS_PLACE_BYTES],
                         char secret[2 * SECRET_TEXT_BYTES], double limit_seconds, struct error *error);

#endif
