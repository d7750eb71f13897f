/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The kinds of networks there are. A new one is a file beside this that lists its layers, a line in networks.c and, for
 * sizes with names, lines in sizes.c.
 */
#ifndef WEFT_MODEL_NETWORKS_NETWORKS_H
#define WEFT_MODEL_NETWORKS_NETWORKS_H

#include "model/layers/layers.h"

struct network {
    const char *kind; /**< "gpt" */
    /** Fill in those numbers of the shape that are 0 and have a usual value. */
    void (*complete)(struct model_shape *shape);
    /** Append the layers of description->shape, which is complete and whose numbers are within bounds. */
    weft_status (*describe)(struct model_description *description, struct error *error);
};

/** All kinds; ends with NULL. */
extern const struct network *const networks[];

/** The kind of this name, or NULL with a sentence. */
const struct network *network_find(const char *kind, struct error *error);

/** Whether numbers that transformers share are possible; a sentence names the first that is not. */
weft_status transformer_check(const struct model_shape *shape, struct error *error);

extern const struct network gpt_network, llama_network;

#endif
