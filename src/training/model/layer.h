/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A layer: one step of a network, from an array of rows to the next. For the files of this module only.
 *
 * A network's description is a list of layers (networks/). A model walks through it, forward and
 * backward (model.c). A layer computes `rows` rows, one per token.
 *
 * Rows between layers, the residual stream, are of the device's type, and so are weights and all gradients of weights;
 * arrays inside a layer are activations (training/tensor/device.h).
 *
 * A new layer is a file in layers/ with a `struct layer_kind` and a function that appends such a layer to a
 * description.
 */
#ifndef WEFT_TRAINING_MODEL_LAYER_H
#define WEFT_TRAINING_MODEL_LAYER_H

#include "training/model/norm_group.h"
#include "training/model/passes.h"
#include "training/model/tensor_group.h"

/** Offsets in the flat array are multiples of this many elements. */
#define MODEL_ALIGNMENT 16

/** A pass as layers see it, besides rows and memory. */
struct pass {
    struct device *device;
    const struct model_description *description;
    const struct tensor_group *tensor; /**< the ranks that the layer is divided over; NULL: this one has all of it */
    const struct norm_group *norms;    /**< the ranks whose batch norms are synchronized; NULL: none */
    const struct layer_arrays *arrays; /**< parameters: pass_parameter() and the like */
    size_t origin;                     /**< offset of the layer's group in the flat array */
    size_t batch;
    size_t sequence;           /**< rows are positions first to first + sequence - 1 of `batch` sequences */
    size_t first;              /**< other than 0 only where one sequence is extended */
    bool prepare;              /**< a backward pass may follow: keep what it needs */
    bool training;             /**< of the model: see layer_memory */
    const int32_t *tokens;     /**< on the device, one a row; those of another tensor rank's rows are negative */
    const int32_t *table_rows; /**< on the device, one a row: where its gradient goes in a sparse gradient of the
                                         embedding table; NULL: to the row of its token */
    size_t table_row_count;    /**< of that gradient */
    const int32_t *targets;    /**< on the device, one a row, counted from this tensor rank's first class; NULL:
                                         logits are wanted */
    double *losses;            /**< on the device: loss_count() of the last layer; one a row where it has none */
    size_t target_count;       /**< targets of the micro-batch that are not -1 */
    const int32_t *segments, *lengths, *positions, *labels; /**< on the device: struct model_arrays; NULL: not read */
    const float *pixels, *shares;
    double smoothing;                 /**< of labels */
    double dropout;                   /**< share of what layers add to the stream that is dropped; 0: none */
    uint64_t seed, sample;            /**< of dropout: see struct model_batch */
    double loss_scale;                /**< of gradients: see struct model_batch */
    size_t room_batch, room_sequence; /**< as planned for in the memory; the pass may have less */
    const void *x;                    /**< in the weights pass, which has no other: the rows that enter */
};

static inline size_t pass_rows(const struct pass *pass)
{
    return pass->batch * pass->sequence;
}

/** Whether this rank has a part of the rows between layers. */
static inline bool pass_divides_rows(const struct pass *pass)
{
    return pass->tensor && pass->tensor->divides_rows;
}

/** How many rows between layers this rank has, and which of the micro-batch's rows is the first. */
static inline size_t pass_own_rows(const struct pass *pass)
{
    return pass_divides_rows(pass) ? pass_rows(pass) / pass->tensor->ranks : pass_rows(pass);
}

static inline size_t pass_own_first(const struct pass *pass)
{
    return pass_divides_rows(pass) ? pass_own_rows(pass) * pass->tensor->rank : 0;
}

/** Bytes of memory that a layer needs. */
struct layer_memory {
    size_t own;      /**< for the lifetime of the model */
    size_t kept;     /**< from forward to backward; where no backward pass follows, until the next layer runs */
    size_t deferred; /**< from the input pass to the weights pass */
    size_t scratch;  /**< within one call */
};

/** The same memory, as pointers. */
struct layer_places {
    void *own;
    void *kept;
    void *deferred;
    void *scratch;
};

/** The sizes for which memory is planned. */
struct layer_room {
    size_t element;    /**< bytes of an element of the device's type */
    size_t activation; /**< bytes of an activation */
    size_t batch;
    size_t sequence;
    size_t ranks; /**< of the tensor axis */
    bool divides_rows;
    bool synchronizes_norms;
    bool training;
};

/** A layer of a description. */
struct layer {
    const struct layer_kind *kind;
    char name[MODEL_NAME_BYTES]; /**< for people: "h.3.attn" */
    size_t parameter;            /**< index of its first parameter in the description */
    size_t parameter_count;
    bool uses_tied; /**< reads the tied table, its own or an earlier layer's */
    size_t width;   /**< elements of an output row; 0: its output is losses or logits */
    void *settings; /**< the kind's own; owned by the description */
    size_t settings_bytes;
};

struct layer_kind {
    const char *name;  /**< "attention" */
    bool reads_values; /**< reads its matrices as they are, not as activations */
    bool is_attention; /**< keeps much memory for little arithmetic, so selective recomputation drops it */

    struct layer_memory (*memory)(const struct layer *layer, const struct layer_room *room);

    /** Make a layer's settings those of one rank of a tensor axis. Its parameters follow their divisions. NULL: the layer is
     * in no network that has that axis. */
    void (*divide)(void *settings, size_t ranks, size_t rank);

    /** Whether two layers with these settings and equal shapes of parameters do the same. Parameters may have other
     * numbers, but both layers have them or neither. NULL: none are taken to be, for kinds that a network has once. */
    bool (*is_alike)(const void *settings, const void *others);

    /** Floating-point operations of the forward pass for one row in sequences of `sequence`. */
    double (*flops)(const struct layer *layer, size_t sequence);

    /**
     * From the rows of x to those of y. The first layer has no x, the last no y unless pass->targets is NULL: then y
     * receives logits, which are activations. Other layers without y recompute what they keep for the backward pass.
     */
    void (*forward)(const struct layer *layer, const struct pass *pass, const struct layer_places *places,
                    const void *x, void *y);

    /**
     * From the gradient of y to that of x, in the same memory, which has room for either. The last layer has no gradient
     * of y, the first none of x. Also stores what the weights pass needs: the gradients of linear maps' outputs, and
     * those parameters' gradients that the same kernels compute.
     */
    void (*backward_input)(const struct layer *layer, const struct pass *pass, const struct layer_places *places,
                           const void *x, void *gradient);

    /** Of a last layer: the numbers that its forward pass leaves in pass->losses, and the loss of the micro-batch and the
     * share of its predictions that are right made from a copy of them in host memory. NULL: one loss a row, and their
     * mean; NULL: the share is not known. */
    size_t (*loss_count)(const struct layer *layer, const struct layer_room *room);
    double (*loss)(const struct layer *layer, const struct pass *pass, const double *losses);
    double (*accuracy)(const struct layer *layer, const struct pass *pass, const double *losses);

    /** The gradients of the layer's parameters, which it overwrites: on a tensor axis those of this rank's part, and the
     * same on all ranks for parameters that are not divided. Of a tied table, this layer's part. */
    void (*backward_weights)(const struct layer *layer, const struct pass *pass, const struct layer_places *places);
};

static inline struct layer_room pass_room(const struct pass *pass)
{
    return (struct layer_room){.element = weft_type_size(pass->device->type),
                               .activation = weft_type_size(pass->device->activations),
                               .batch = pass->room_batch,
                               .sequence = pass->room_sequence,
                               .ranks = pass->description->tensor_ranks,
                               .divides_rows = pass_divides_rows(pass),
                               .synchronizes_norms = pass->norms != NULL,
                               .training = pass->training};
}

/* ---- building a description ---- */

/** Initial values of a parameter: normal with this mean and standard deviation; a deviation of 0 is a constant. */
struct initial {
    double mean;
    double deviation;
};

/**
 * Append a layer; the parameters that are added next are its own. A copy of the `size` bytes of settings is kept and
 * returned in *own, for the caller to fill in. `name` is a format.
 */
weft_status description_add_layer(struct model_description *description, const struct layer_kind *kind, size_t width,
                                  const void *settings, size_t size, void **own, struct error *error, const char *name,
                                  ...) __attribute__((format(printf, 8, 9)));

/**
 * Append a tensor to the last layer: of `rows` x `columns`, or of `rows` elements where `columns` is 0; *number
 * receives its index. Its name is `prefix` and `name`; where `name` is NULL there is no such tensor, and *number is
 * NO_PARAMETER. Tensors of two dimensions get weight decay.
 */
weft_status description_add_parameter(struct model_description *description, size_t rows, size_t columns,
                                      struct initial initial, const char *prefix, const char *name, size_t *number,
                                      struct error *error);

/** The lengths of a tensor's dimensions; 0 after the last. */
struct tensor_shape {
    size_t lengths[MODEL_DIMENSIONS];
};

/** The same for a tensor of any number of dimensions, such as a convolution's. */
weft_status description_add_tensor(struct model_description *description, const struct tensor_shape *shape,
                                   struct initial initial, const char *prefix, const char *name, size_t *number,
                                   struct error *error);

/** Append a running statistic of `count` elements, which begin as `value`. */
weft_status description_add_statistic(struct model_description *description, size_t count, double value,
                                      const char *prefix, const char *name, size_t *number, struct error *error);

/** Say how a parameter is divided over a tensor axis; nothing for NO_PARAMETER. */
void description_divide(struct model_description *description, size_t number, const struct model_division *division);

/** Elements of a parameter: of the whole tensor, and of the largest part that a rank of the tensor axis has. */
struct division_counts {
    size_t whole, largest;
};
struct division_counts division_counts_of(const struct model_description *description, size_t number);

/** Have the last layer use parameter `table` of an earlier layer: the network's tied table. That must be the first
 * parameter of its layer. */
void description_tie(struct model_description *description, size_t table);

/** Put the parameters of all layers into groups, when all are added. */
weft_status description_group_parameters(struct model_description *description, struct error *error);

/* ---- helpers for layers ---- */

/** Allocates pieces of a layer's memory from `base`; with NULL it only adds up their sizes. */
struct arena {
    char *base;
    size_t used;
};

static inline void *arena_take(struct arena *arena, size_t bytes)
{
    void *memory = arena->base ? arena->base + arena->used : NULL;
    arena->used += (bytes + 63) / 64 * 64;
    return memory;
}

/** Element `index` of an array of the device's type. */
static inline void *pass_at(const struct pass *pass, const void *array, size_t index)
{
    return (char *)array + index * weft_type_size(pass->device->type);
}

/** Element `index` of an array of activations. */
static inline void *pass_activation_at(const struct pass *pass, const void *array, size_t index)
{
    return (char *)array + index * weft_type_size(pass->device->activations);
}

/**
 * Rows within a layer, all of them: complete this rank's own ones by summing over the tensor axis, and fetch the rows of
 * other ranks. The first does all rows where they are not divided, and the second nothing. Both do nothing on one rank.
 */
static inline void pass_sum_rows(const struct pass *pass, weft_type type, size_t width, void *array)
{
    const struct tensor_group *tensor = pass->tensor;
    if (pass_divides_rows(pass))
        tensor->sum_part(tensor->context, type, pass_own_rows(pass) * width, array);
    else if (tensor)
        tensor->sum(tensor->context, type, pass_rows(pass) * width, array);
}

static inline void pass_gather_rows(const struct pass *pass, weft_type type, size_t width, void *array)
{
    if (pass_divides_rows(pass))
        pass->tensor->gather(pass->tensor->context, pass_own_rows(pass) * width * weft_type_size(type), array);
}

/** Elements between the beginning of the array that holds parameter `which` and the parameter. */
static inline size_t pass_offset(const struct pass *pass, size_t which)
{
    return which == pass->description->tied ? 0 : pass->description->parameters[which].offset - pass->origin;
}

/** Parameter `which`, one of the layer's own or the tied table. */
static inline const void *pass_parameter(const struct pass *pass, size_t which)
{
    const struct layer_arrays *arrays = pass->arrays;
    return pass_at(pass, which == pass->description->tied ? arrays->tied : arrays->own, pass_offset(pass, which));
}

/** The same as activations, for matrix products. */
static inline const void *pass_weight(const struct pass *pass, size_t which)
{
    const struct layer_arrays *arrays = pass->arrays;
    return pass_activation_at(pass,
                              which == pass->description->tied ? arrays->tied_activations : arrays->own_activations,
                              pass_offset(pass, which));
}

/** Where the weights pass stores its gradient. */
static inline void *pass_gradient(const struct pass *pass, size_t which)
{
    const struct layer_arrays *arrays = pass->arrays;
    return pass_at(pass, which == pass->description->tied ? arrays->tied_gradients : arrays->gradients,
                   pass_offset(pass, which));
}

#endif
