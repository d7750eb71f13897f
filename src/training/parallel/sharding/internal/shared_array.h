/* SPDX-License-Identifier: Apache-2.0 */
/** Arrays that move between ranks, in memory of weft_alloc(). */
#ifndef WEFT_TRAINING_PARALLEL_SHARDING_INTERNAL_SHARED_ARRAY_H
#define WEFT_TRAINING_PARALLEL_SHARDING_INTERNAL_SHARED_ARRAY_H

#include "base/library_error.h"

/** A zeroed array; free it with weft_free(). Several may be allocated before one look at *status: after a
 * failure it keeps the error, and NULL is returned, as for an array without elements. */
static inline void *shared_array_new(weft_context *context, size_t elements, size_t element_bytes, weft_status *status,
                                     struct error *error)
{
    if (!elements || *status != WEFT_OK)
        return NULL;
    void *array = weft_alloc(context, elements * element_bytes);
    if (!array)
        *status = library_error(context, WEFT_ERROR_MEMORY, error);
    return array;
}

#endif
