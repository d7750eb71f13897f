/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A network that keeps no order at all, between a fabric and libfabric: completions (messages and chunks that have
 * arrived or left) are kept back and handed on in a random order, and so are the chunks that the fabric writes. What
 * passes for many seeds does not depend on the order of a provider that happens to keep it.
 */
#ifndef WEFT_TESTS_FABRIC_SHUFFLE_H
#define WEFT_TESTS_FABRIC_SHUFFLE_H

#include "core/transport/fabric/fabric.h"

struct fabric_shuffle;

/** Shuffle what `fabric` does from now on; before it is connected. Without memory the program ends. */
struct fabric_shuffle *fabric_shuffle_open(struct fabric *fabric, uint64_t seed);

/** How many completions and how many chunks were handed on before an older one. */
void fabric_shuffle_overtakes(const struct fabric_shuffle *shuffle, uint64_t *completions, uint64_t *chunks);

/** After fabric_close(). NULL is allowed. */
void fabric_shuffle_close(struct fabric_shuffle *shuffle);

#endif
