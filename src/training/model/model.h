/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Networks as explicit forward and backward passes.
 *
 * A *shape* is the size of a network, by name ("gpt-micro") or by numbers. A *description* lists the layers of that
 * network, and its parameters with their offsets in one flat array. A *model* is a description on a device, with memory
 * for the activations of one micro-batch. Weights and gradients belong to the caller, which passes the flat arrays:
 *
 *     struct model_shape shape;
 *     struct model_description *description;
 *     struct model *model;
 *
 *     status = model_shape_find("gpt-micro", &shape, error);
 *     status = model_describe(&shape, &description, error);
 *
 *     float *parameters = weft_alloc(context, description->elements * sizeof(float));
 *     float *gradients = weft_alloc(context, description->gradient_elements * sizeof(float));
 *     status = model_initialize(description, device, parameters, seed, error);
 *
 *     struct model_options options = {.batch = batch, .sequence = sequence, .training = true};
 *     status = model_open(description, device, &options, &model, error);
 *
 *     struct model_batch micro_batch = {.tokens = tokens, .targets = targets};
 *     status = model_forward(model, parameters, &micro_batch, &loss, error);
 *     status = model_backward(model, parameters, gradients, ready, context, error);
 *
 * A description never changes and may be used by several threads and models at once. A model belongs to one thread at a
 * time, as its device does. Close models first, then their device and description.
 */
#ifndef WEFT_TRAINING_MODEL_MODEL_H
#define WEFT_TRAINING_MODEL_MODEL_H

#include "base/error.h"
#include "training/model/inputs.h"
#include "training/tensor/device.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_NAME_BYTES 64
#define MODEL_DIMENSIONS 4

/** The dimensions of a network. 0 means the kind's default where one is documented. Dimensions that a kind does not use
 * are 0. */
struct model_shape {
    const char *kind; /**< a name of networks.def: "gpt"; a static string */
    size_t layers;
    size_t heads;
    size_t width;        /**< of the residual stream; a multiple of heads. mlp: of an embedding */
    size_t context;      /**< longest sequence */
    size_t vocabulary;   /**< number of different tokens; 256 for bytes */
    size_t kv_heads;     /**< heads of keys and values, a divisor of heads; 0: heads */
    size_t hidden;       /**< width within the feed-forward layers, of an mlp's hidden layers; 0: default */
    size_t window;       /**< mlp: tokens that a prediction is made from */
    double rotary_base;  /**< of rotary positions; 0: default */
    double norm_epsilon; /**< 0: default */
    size_t classes;      /**< of a whole sample; bert: 0 to pre-train */
    size_t image;        /**< height and width of an image, pixels */
    size_t channels;     /**< of an image: 1 or 3 */
    double multiplier;   /**< of the channels of all layers; 0: 1 */
    bool untied;         /**< the head has a matrix of its own; otherwise it is the embedding table */
};

#define MODEL_SMALL_IMAGE 64 /**< pixels */

/** Whether images are small, below MODEL_SMALL_IMAGE: then the stem and the first stage that would halve them keep their
 * size, and augmentation moves them instead of cropping. */
static inline bool model_has_small_images(const struct model_shape *shape)
{
    return shape->image < MODEL_SMALL_IMAGE;
}

/** A named shape. */
struct model_size {
    const char *name;
    struct model_shape shape;
    const char *about; /**< "0.8M parameters: learns a text in minutes on a laptop" */
};

/** All named shapes, grouped by kind, smallest first; `count` receives their number. */
const struct model_size *model_sizes(size_t *count);

/** The shape called `name` ("gpt" alone is gpt-micro, a good first choice). An unknown name is WEFT_ERROR_ARGUMENT, and
 * the message suggests the nearest one. model_shape_load() (training/model/file/model_file.h) also accepts files. */
weft_status model_shape_find(const char *name, struct model_shape *shape, struct error *error);

#define MODEL_SEGMENTS 3

/**
 * How a tensor is divided over the ranks of a tensor axis: along one dimension, each segment of it by itself. Rank r of
 * R has elements n r / R to n (r + 1) / R, rounded down, of a segment of n.
 */
struct model_division {
    size_t segments; /**< 0: it is not divided, every rank has the whole tensor */
    size_t dimension;
    size_t lengths[MODEL_SEGMENTS]; /**< of the segments along that dimension, over all ranks */
};

/**
 * One tensor of the flat array. Its index in the description's list is the parameter's number everywhere: in layers, the
 * optimizer, gradient buckets and checkpoints.
 */
struct model_parameter {
    char name[MODEL_NAME_BYTES]; /**< as in the network's public safetensors: "h.0.attn.c_attn.weight" */
    size_t dimensions;
    size_t shape[MODEL_DIMENSIONS]; /**< row-major; of a description that is divided: this rank's part */
    struct model_division division;
    size_t count;           /**< elements: the product of `shape` */
    size_t offset;          /**< of its first element in the flat array; a multiple of 16 elements (64 bytes in f32) */
    bool decay;             /**< weight decay applies: tensors of two dimensions and more, embeddings among them */
    bool frozen;            /**< not trained: no gradient, no weight decay, moments stay as they are */
    bool statistic;         /**< a running statistic, such as a batch norm's mean: the optimizer does not train it, its
                               gradient is its difference from the micro-batch's, and a step moves it by a part of
                               that (training/optimizer/optimizer.h). A frozen one stays, and its layer uses it in
                               training, too */
    bool absent;            /**< no layer that this rank keeps uses it: it has a name and a shape, but takes no room in
                               the flat array, and its offset is where the next one begins */
    double rate_factor;     /**< the learning rate is multiplied by it; default 1 */
    double mean, deviation; /**< of its initial values, normal numbers; a deviation of 0 is a constant */
};

/** No parameter, group or layer of that kind. */
#define NO_PARAMETER SIZE_MAX

/**
 * Parameters that are gathered, reduced and updated as one: those of a layer. A table that two layers share (a tied
 * embedding and head) is a group of its own. Groups follow each other in the order of the flat array. Each takes whole
 * blocks of DEVICE_SQUARES_BLOCK elements, so the blocks' sums of squares are the same wherever a group lies.
 */
struct model_group {
    size_t parameter; /**< its first parameter; the others follow it */
    size_t parameter_count;
    size_t offset; /**< of its first element in the flat array */
    size_t count;  /**< elements, with the gaps after parameters: whole blocks; 0 if it is absent */
    size_t block;  /**< number of its first block of DEVICE_SQUARES_BLOCK elements in the whole network */
};

/** The layers and parameters of a network. Indices, numbers of layers and counts are those of the whole network, on a
 * rank that keeps some of its layers, too. Only offsets and lengths of flat arrays differ. */
struct model_description {
    struct model_shape shape;
    struct model_parameter *parameters; /**< in forward order, offsets rising */
    size_t parameter_count, parameter_room;
    size_t tensor_ranks; /**< of the axis that it is divided over, and this rank's place there: model_divide() */
    size_t tensor_rank;
    size_t weights;           /**< elements of the whole network's parameters, without statistics: its published size */
    size_t frozen_weights;    /**< of these, frozen ones */
    size_t statistics;        /**< elements of its running statistics */
    size_t first_trainable;   /**< index of the first parameter that is not frozen: backward ends at its layer, and sets
                               the gradients of the layers before it to 0 */
    size_t elements;          /**< length of the flat array: weights and the gaps of alignment, which stay 0 */
    size_t gradient_elements; /**< length of the flat array of gradients: the head's part of the gradient of a tied
                                   table follows those of the groups if both layers that use it are kept */
    struct model_group *groups; /**< none where there are no layers */
    size_t group_count;
    size_t blocks;        /**< of DEVICE_SQUARES_BLOCK elements, in the whole network */
    size_t tied;          /**< the parameter that two layers share, or NO_PARAMETER */
    size_t tied_users;    /**< the kept layers that use it: 2 in a whole network */
    struct layer *layers; /**< from tokens to losses; training/model/layer.h */
    size_t layer_count, layer_room;
    size_t widest; /**< elements of the widest row between two layers */
};

/** Describe the network of `shape`; impossible numbers are WEFT_ERROR_ARGUMENT. Free with model_description_free(). */
weft_status model_describe(const struct model_shape *shape, struct model_description **description,
                           struct error *error);
void model_description_free(struct model_description *description);

/** A copy, with the rules that were applied to its parameters, divided and restricted to layers as the original is.
 * Errors: MEMORY. */
weft_status model_description_copy(const struct model_description *description, struct model_description **copy,
                                   struct error *error);

/** Compute counts, offsets and all derived members from the shapes in the list of parameters. For code that makes or
 * changes such a list. */
void model_lay_out_parameters(struct model_description *description);

/**
 * Keep the parameters that the layers with kept[layer] use. The others become absent, so flat arrays hold the kept ones
 * only. May be repeated with other layers. A group's number, block and parameters do not change.
 */
void model_keep_layers(struct model_description *description, const bool *kept);

/**
 * Turn the description of a whole network into that of rank `rank` of a tensor axis of `ranks` (Shoeybi et al. 2019,
 * "Megatron-LM"): each rank has some of the heads, of the hidden elements, and of the vocabulary's rows.
 *
 *     divided by outputs     queries, keys and values; up and gate; dense; the head
 *     divided by inputs      the products that end a branch: out, down
 *     divided by rows        the embedding table, which may be the head's matrix
 *     whole on every rank    norms, positions, and biases of products that are divided by inputs
 *
 * The vocabulary's rows may be divided unevenly. description->shape, names and numbers stay those of the whole network,
 * and so do the blocks of groups: they have room for the rank with the most. A description is divided once. Errors:
 * ARGUMENT if heads, kv_heads or hidden cannot be divided evenly, the vocabulary is too small, or it is a network of
 * convolutions.
 */
weft_status model_divide(struct model_description *description, size_t ranks, size_t rank, struct error *error);

/** Whether that is possible. Errors: as above. */
weft_status model_check_division(const struct model_description *description, size_t ranks, struct error *error);

/** Elements of the whole tensor along one of its dimensions. */
size_t model_whole_length(const struct model_description *description, size_t parameter, size_t dimension);

/** Elements of a parameter that this rank has: neighbors here and in the whole tensor, row-major. */
struct model_range {
    size_t first; /**< in the whole tensor */
    size_t local; /**< in this rank's part */
    size_t count;
};

/** The ranges of a parameter that make up this rank's part, in order; one where it is not divided. */
size_t model_range_count(const struct model_description *description, size_t parameter);
struct model_range model_get_range(const struct model_description *description, size_t parameter, size_t number);

/** The group of a layer's own parameters, NO_PARAMETER where it has none; a tied table is not among them. */
size_t model_layer_group(const struct model_description *description, size_t layer);

/** Elements of a row that leaves a layer; 0: its output is losses. */
size_t model_layer_width(const struct model_description *description, size_t layer);

/** Whether a layer reads its matrices as they are. Others read them as activations, and their vectors as they are. */
bool model_layer_reads_values(const struct model_description *description, size_t layer);

/** Whether a layer uses the tied table, and the table's group; NO_PARAMETER where no table is tied. */
bool model_layer_uses_tied(const struct model_description *description, size_t layer);
size_t model_tied_group(const struct model_description *description);

/** The first element of the flat array after a parameter and its gap, where the next parameter begins. */
static inline size_t model_parameter_end(const struct model_description *description, size_t parameter)
{
    return parameter + 1 < description->parameter_count ? description->parameters[parameter + 1].offset
                                                        : description->elements;
}

/** The name of layer `layer` ("h.3.attention") and of its kind ("attention"). */
const char *model_layer_name(const struct model_description *description, size_t layer);
const char *model_layer_kind(const struct model_description *description, size_t layer);

/** The tensor called `name`, or NULL. */
const struct model_parameter *model_parameter_find(const struct model_description *description, const char *name);

/**
 * Floating-point operations to train on one token (forward and backward) in sequences of `sequence`: 6 for each weight
 * that a matrix product reads, and 12 layers width sequence for attention (Chowdhery et al. 2022, "PaLM", appendix B;
 * causal attention is counted in full, as there). Forward alone is a third.
 */
double model_flops_per_token(const struct model_description *description, size_t sequence);

/** A layer and its costs. The backward pass takes twice the operations of the forward pass. */
struct model_layer {
    const char *name; /**< "h.3.attention" */
    const char *kind; /**< "attention" */
    size_t width;     /**< elements of an output row; 0: its output is losses */
    size_t parameter; /**< index of its first parameter; those of all layers are consecutive */
    size_t parameter_count;
    size_t weights; /**< elements of its parameters */
    double flops;   /**< floating-point operations of the forward pass for one token */
    size_t own;     /**< bytes for the lifetime of the model */
    size_t kept;    /**< bytes from forward to backward */
    size_t scratch; /**< bytes within one call; layers share them */
};

/**
 * How much the backward pass recomputes from a layer's input rows instead of keeping it: saves memory, costs time (Chen
 * et al. 2016, "Training deep nets with sublinear memory cost"; of attention alone, Korthikanti et al. 2022).
 */
enum model_recompute {
    MODEL_RECOMPUTE_NOTHING,
    MODEL_RECOMPUTE_ATTENTION,
    MODEL_RECOMPUTE_ALL,
};

/** "nothing", "attention", "all", in the order of enum model_recompute; NULL at the end. */
extern const char *const model_recompute_names[];

/**
 * Whether layer `layer` is recomputed where `count` of the layers that `recompute` means are, spread evenly over the
 * network; 0: all of them. The last layer never is, for its backward pass comes next.
 */
bool model_recomputes_layer(const struct model_description *description, enum model_recompute recompute, uint32_t count,
                            size_t layer);

/** How many layers that is at most. */
uint32_t model_recompute_most(const struct model_description *description, enum model_recompute recompute);

/** Options of a model on a device. */
struct model_options {
    size_t batch;    /**< sequences in a micro-batch */
    size_t sequence; /**< tokens in a sequence */
    bool training;   /**< false: no memory for the backward pass */
    enum model_recompute recompute;
    uint32_t recompute_layers; /**< as model_recomputes_layer() has it; 0: all that `recompute` means */
    double label_smoothing;    /**< share of a target that is spread over all tokens, in training; below 1 */
    /**
     * Share of elements that are dropped, in training, of the embedding's rows and of what each branch adds to them
     * (GPT-2's embd_pdrop and resid_pdrop; probabilities within attention are not dropped); below 1. The numbers of
     * struct model_batch choose them: training/tensor/dropout.h.
     */
    double dropout;
    const bool *layers; /**< the layers that this model runs (model_open() copies the list); NULL: all */
    size_t slots; /**< for passes layer by layer (training/model/passes.h): micro-batches that are under way at a time.
                     0: one, and the model also makes passes through all layers */
    bool split;   /**< layer by layer: a layer's weights pass may come any time after its input pass, as in zero-bubble
                     schedules, and costs memory; otherwise it follows immediately */
    bool sparse_table;                 /**< layer by layer: the first layer's gradient of the tied table is sparse, see
                          model_slot_table_rows() */
    const struct tensor_group *tensor; /**< of a description that is divided: training/model/tensor_group.h. Borrowed;
                                          NULL: one rank. Such a model makes passes layer by layer only. */
    const struct norm_group *norms;    /**< whose micro-batches batch norms normalize together, in training:
                                          training/model/norm_group.h. Borrowed; NULL: each by itself */
};

/** Layer `number` of `layer_count`, its bytes as for model_memory(). Text lives as long as the description. */
void model_get_layer(const struct model_description *description, size_t number, weft_type type, weft_type activations,
                     const struct model_options *options, struct model_layer *layer);

/** Whether a model can be opened with these: WEFT_ERROR_ARGUMENT for a batch or sequence that does not fit. */
weft_status model_check_options(const struct model_description *description, const struct model_options *options,
                                struct error *error);

/** Bytes that a model takes on a device of these types, without weights, gradients and moments; 0 without memory. */
size_t model_memory(const struct model_description *description, weft_type type, weft_type activations,
                    const struct model_options *options);

/**
 * Set all `elements` of the flat array: GPT-2's initial values (normal 0.02; residual projections divided by sqrt(2
 * layers); gains 1, biases and gaps 0). Value i of the whole tensor j is a function of (seed, j, i), so every rank
 * computes the same bits, on any mesh.
 */
weft_status model_initialize(const struct model_description *description, struct device *device, void *parameters,
                             uint64_t seed, struct error *error);

/** The same for a group alone: its `count` elements at `values`. */
weft_status model_initialize_group(const struct model_description *description, struct device *device, size_t group,
                                   void *values, uint64_t seed, struct error *error);

struct model;

/** Input and expected output of one micro-batch: those arrays that the network reads (struct model_arrays). `targets` may
 * be NULL for logits only. */
struct model_batch {
    union {
        const void *inputs[MODEL_INPUTS];
        struct {
            const int32_t *tokens, *targets, *segments, *lengths, *positions, *labels;
            const float *pixels, *shares;
        };
    };
    uint64_t seed;     /**< of dropout: of the run */
    uint64_t sample;   /**< of dropout: number of the first sequence within the run; the others follow */
    double loss_scale; /**< all gradients are multiplied by it; 0: 1 */
};

/**
 * Open a model of a network on `device`. All memory is allocated here. The description and device must outlive the
 * model.
 */
weft_status model_open(const struct model_description *description, struct device *device,
                       const struct model_options *options, struct model **model, struct error *error);
void model_close(struct model *model);

/**
 * Mean loss over the predictions of one micro-batch, natural logarithm. A token number outside the
 * vocabulary is WEFT_ERROR_DATA, and so are other numbers out of bounds. In a model for training this also prepares model_backward().
 */
weft_status model_forward(struct model *model, const void *parameters, const struct model_batch *batch, double *loss,
                          struct error *error);

/**
 * Called from within model_backward(), on its thread, as soon as the gradient of a parameter, with the gap after it, is
 * final. It is called once per parameter and pass, from the last parameter to the first.
 */
typedef void (*model_ready)(void *context, size_t parameter);

/**
 * Gradients of the mean loss of the last model_forward(), which must have had targets and the same parameters. Those of
 * layers before description->first_trainable are 0. Overwrites all `gradient_elements` of `gradients`; the caller sums the
 * first `elements` of them over micro-batches: a tied table's gradient is that of both layers. `ready` may be NULL. Each
 * forward pass allows one backward pass, which consumes its activations.
 */
weft_status model_backward(struct model *model, const void *parameters, void *gradients, model_ready ready,
                           void *context, struct error *error);

/**
 * On a device whose activations are not of its type, a model has a copy of the weights as activations. It is made when
 * a pass gets a different array than the previous one. Call model_weights_changed() after changing the array, or let
 * optimizer_update() update the copy, which is at model_weights_as_activations() (NULL where there is none).
 */
void model_weights_changed(struct model *model);
void *model_weights_as_activations(struct model *model);

/** Mean loss without preparing a backward pass. */
weft_status model_evaluate(struct model *model, const void *parameters, const struct model_batch *batch, double *loss,
                           struct error *error);

/**
 * For sampling: read `count` tokens at positions first to first + count - 1 of one sequence, and return the logits of
 * the next token (`vocabulary` doubles). Positions before `first` must have been read by earlier calls with the same
 * parameters, whose keys and values are kept. The model must have been opened with batch 1.
 */
weft_status model_extend(struct model *model, const void *parameters, size_t first, const int32_t *tokens, size_t count,
                         double *logits, struct error *error);

/**
 * The logits of the classes of a micro-batch's samples, batch x shape.classes doubles. The model must have been opened
 * without training. Errors: STATE for a network that does not classify samples; DATA for numbers out of bounds.
 */
weft_status model_classify(struct model *model, const void *parameters, const struct model_batch *batch, double *logits,
                           struct error *error);

/** The direction of a pass. */
enum model_direction {
    MODEL_FORWARD,
    MODEL_BACKWARD, /**< recomputation of a layer's forward pass included */
};

/** A layer's pass begins, or has ended with its output. */
struct model_turn {
    size_t layer; /**< its number in the description */
    enum model_direction direction;
    bool weights;       /**< backward: the pass for weights, whose gradients are its output; otherwise for the input */
    bool begins;        /**< if so, the members below are 0, as they are for weights */
    const void *values; /**< on the device: rows, or losses after the last layer; backward the gradient of the rows that
                           entered it, NULL for the first layer */
    size_t count;
    weft_type type;
};

/** Called from within passes, on their thread. May read from the device. */
typedef void (*model_watcher)(void *context, const struct model_turn *turn);

/** Have `watcher` called before and after every pass of a layer, in model_forward(), model_evaluate(), model_backward()
 * and training/model/passes.h; NULL stops it. */
void model_watch(struct model *model, model_watcher watcher, void *context);

const struct model_description *model_get_description(const struct model *model);
size_t model_get_batch(const struct model *model);
size_t model_get_sequence(const struct model *model);

#endif
