/* SPDX-License-Identifier: Apache-2.0 */
/* A GPT on a device: its workspace, forward and backward. The architecture is told in gpt.h. */
#include "model/gpt.h"

#include <stdlib.h>
#include <string.h>

/* What a layer norm leaves for others: `tokens` rows of the model's width, and one number each for a row. */
struct norm {
    void *out;
    void *means, *reciprocals;
};

/* What the forward pass keeps of one block: `tokens` rows each, of the width given, except where said. */
struct block {
    void *input; /* width: the residual stream that enters */
    struct norm norm_1;
    void *qkv;      /* 3 width */
    void *attended; /* width */
    void *logsums;  /* heads */
    void *middle;   /* width: the residual stream between attention and MLP */
    struct norm norm_2;
    void *hidden; /* 4 width, before GELU */
    void *active; /* 4 width, behind it */
};

struct gpt {
    struct model model;
    size_t size; /* bytes of an element */
    void *memory;
    struct block *blocks;
    void *branch; /* width: what a block adds to the residual stream, until the next norm adds it */
    void *output; /* width: the residual stream that leaves the last block */
    struct norm norm_f;
    void *logits; /* logit_rows rows of logit_stride: a backward pass needs all tokens', else a part at a time */
    size_t logit_rows, logit_stride;
    double *losses; /* on the device, of each token */
    int32_t *tokens, *targets;
    void *gradient;        /* width: of the residual stream */
    void *gradient_narrow; /* width: within a branch */
    void *gradient_wide;   /* 4 width: within a branch */
    double *host;          /* losses or a row of logits, on their way out */
    bool prepared;         /* a forward pass waits for its backward pass */
};

/* ---- workspace --------------------------------------------------------------------------------------------------- */

#define LOGITS_OUTSIDE_TRAINING ((size_t)4 << 20) /* elements */

/* Hands out memory from `base`, or, with NULL, only counts it. */
struct purse {
    char *base;
    size_t used;
};

static void *take(struct purse *purse, size_t bytes)
{
    void *memory = purse->base ? purse->base + purse->used : NULL;
    purse->used += (bytes + 63) / 64 * 64;
    return memory;
}

static void plan_norm(struct norm *norm, struct purse *purse, size_t row, size_t column)
{
    norm->out = take(purse, row);
    norm->means = take(purse, column);
    norm->reciprocals = take(purse, column);
}

/* Outside of training all blocks share one set of arrays, except keys and values, which sampling reads again. */
static void plan_blocks(struct gpt *gpt, struct purse *purse)
{
    const struct model_shape *shape = &gpt->model.description->shape;
    const size_t tokens = gpt->model.batch * gpt->model.sequence, column = tokens * gpt->size,
                 row = column * shape->width;
    for (size_t layer = 0; layer < shape->layers; layer++) {
        struct block *block = &gpt->blocks[layer];
        if (layer > 0 && !gpt->model.training) {
            *block = gpt->blocks[0];
            block->qkv = take(purse, 3 * row);
            continue;
        }
        block->input = take(purse, row);
        plan_norm(&block->norm_1, purse, row, column);
        block->qkv = take(purse, 3 * row);
        block->attended = take(purse, row);
        block->logsums = take(purse, column * shape->heads);
        block->middle = take(purse, row);
        plan_norm(&block->norm_2, purse, row, column);
        block->hidden = take(purse, 4 * row);
        block->active = take(purse, 4 * row);
    }
}

static void plan_workspace(struct gpt *gpt, struct purse *purse)
{
    const struct model_shape *shape = &gpt->model.description->shape;
    const size_t tokens = gpt->model.batch * gpt->model.sequence, column = tokens * gpt->size,
                 row = column * shape->width;
    plan_blocks(gpt, purse);
    gpt->branch = take(purse, row);
    gpt->output = take(purse, row);
    plan_norm(&gpt->norm_f, purse, row, column);
    gpt->logit_stride = (shape->vocabulary + MODEL_ALIGNMENT - 1) / MODEL_ALIGNMENT * MODEL_ALIGNMENT;
    gpt->logit_rows = tokens;
    if (!gpt->model.training && tokens > LOGITS_OUTSIDE_TRAINING / gpt->logit_stride + 1)
        gpt->logit_rows = LOGITS_OUTSIDE_TRAINING / gpt->logit_stride + 1;
    gpt->logits = take(purse, gpt->logit_rows * gpt->logit_stride * gpt->size);
    gpt->losses = take(purse, tokens * sizeof *gpt->losses);
    gpt->tokens = take(purse, tokens * sizeof *gpt->tokens);
    gpt->targets = take(purse, tokens * sizeof *gpt->targets);
    if (gpt->model.training) {
        gpt->gradient = take(purse, row);
        gpt->gradient_narrow = take(purse, row);
        gpt->gradient_wide = take(purse, 4 * row);
    }
}

static size_t gpt_memory(const struct model_description *description, weft_type type, size_t batch, size_t sequence,
                         bool training)
{
    struct model base = {.description = description, .batch = batch, .sequence = sequence, .training = training};
    struct gpt gpt = {.model = base, .size = weft_type_size(type)};
    struct purse purse = {0};
    struct block *blocks = calloc(description->shape.layers, sizeof *blocks);
    if (!blocks)
        return 0;
    gpt.blocks = blocks;
    plan_workspace(&gpt, &purse);
    free(blocks);
    return purse.used;
}

static void gpt_close(struct model *model)
{
    struct gpt *gpt = (struct gpt *)model;
    model->device->release(model->device, gpt->memory);
    free(gpt->blocks);
    free(gpt->host);
    free(gpt);
}

static weft_status gpt_open(const struct model *base, struct model **model, struct error *error)
{
    const struct model_shape *shape = &base->description->shape;
    size_t tokens = base->batch * base->sequence;
    struct gpt *gpt = calloc(1, sizeof *gpt);
    if (!gpt)
        return error_memory(error, sizeof *gpt, "a model");
    gpt->model = *base;
    gpt->size = weft_type_size(base->device->type);
    gpt->blocks = calloc(shape->layers, sizeof *gpt->blocks);
    gpt->host = calloc(tokens + shape->vocabulary, sizeof *gpt->host);
    struct purse purse = {0};
    weft_status status = WEFT_OK;
    if (!gpt->blocks || !gpt->host) {
        error_memory(error, (tokens + shape->vocabulary) * sizeof *gpt->host, "a model");
        status = WEFT_ERROR_MEMORY;
    } else {
        plan_workspace(gpt, &purse);
        gpt->memory = base->device->allocate(base->device, purse.used, "a model's activations", error);
        if (!gpt->memory)
            status = WEFT_ERROR_MEMORY;
    }
    if (status != WEFT_OK) {
        gpt_close(&gpt->model);
        return status;
    }
    purse = (struct purse){.base = gpt->memory};
    plan_workspace(gpt, &purse);
    *model = &gpt->model;
    return WEFT_OK;
}

/* ---- pieces of both passes --------------------------------------------------------------------------------------- */

/* Row `row` of an array with rows of `width` elements. */
static void *at(const struct gpt *gpt, const void *array, size_t row, size_t width)
{
    return (char *)array + row * width * gpt->size;
}

/* Parameter number `which` of the flat array. */
static void *tensor(const struct gpt *gpt, const void *flat, size_t which)
{
    return (char *)flat + gpt->model.description->parameters[which].offset * gpt->size;
}

/* y = x weight + bias; weight and bias are parameters `which` and `which` + 1. */
static void linear_forward(const struct gpt *gpt, const void *parameters, size_t which, size_t rows, const void *x,
                           void *y)
{
    const size_t *shape = gpt->model.description->parameters[which].shape;
    struct device *device = gpt->model.device;
    device->matmul(device, &(struct matmul){.rows = rows,
                                            .columns = shape[1],
                                            .inner = shape[0],
                                            .a = x,
                                            .b = tensor(gpt, parameters, which),
                                            .bias = tensor(gpt, parameters, which + 1),
                                            .c = y});
}

/* Gradients of the weight (which) and of x, from that of y. The bias's is the caller's: it comes free with other
 * passes. */
static void linear_backward(const struct gpt *gpt, const void *parameters, void *gradients, size_t which, const void *x,
                            const void *gradient_y, void *gradient_x)
{
    const size_t *shape = gpt->model.description->parameters[which].shape;
    const size_t tokens = gpt->model.batch * gpt->model.sequence;
    struct device *device = gpt->model.device;
    device->matmul(device, &(struct matmul){.rows = shape[0],
                                            .columns = shape[1],
                                            .inner = tokens,
                                            .transpose_a = true,
                                            .a = x,
                                            .b = gradient_y,
                                            .c = tensor(gpt, gradients, which)});
    device->matmul(device, &(struct matmul){.rows = tokens,
                                            .columns = shape[0],
                                            .inner = shape[1],
                                            .transpose_b = true,
                                            .a = gradient_y,
                                            .b = tensor(gpt, parameters, which),
                                            .c = gradient_x});
}

/* out = norm(x + branch) with the gain `which` and the bias behind it; the sum is kept. Rows [first, first + rows). */
static void norm_forward(const struct gpt *gpt, const void *parameters, size_t which, size_t first, size_t rows,
                         const void *x, const void *branch, void *sum, const struct norm *norm)
{
    const size_t width = gpt->model.description->shape.width;
    struct device *device = gpt->model.device;
    device->layer_norm_forward(
        device, rows, width, at(gpt, x, first, width), branch ? at(gpt, branch, first, width) : NULL,
        tensor(gpt, parameters, which), tensor(gpt, parameters, which + 1), at(gpt, sum, first, width),
        at(gpt, norm->out, first, width), at(gpt, norm->means, first, 1), at(gpt, norm->reciprocals, first, 1));
}

static void bias_backward(const struct gpt *gpt, void *gradients, size_t which, const void *gradient_y)
{
    struct device *device = gpt->model.device;
    device->column_sums(device, gpt->model.batch * gpt->model.sequence, gpt->model.description->parameters[which].count,
                        gradient_y, tensor(gpt, gradients, which));
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* Rows [first, first + rows) through block `layer`; the branch of the block before it is still to be added. */
static void block_forward(const struct gpt *gpt, const void *parameters, size_t layer, size_t first, size_t rows)
{
    const struct model_shape *shape = &gpt->model.description->shape;
    const struct block *block = &gpt->blocks[layer];
    const size_t width = shape->width;
    struct device *device = gpt->model.device;
    void *branch = at(gpt, gpt->branch, first, width);

    norm_forward(gpt, parameters, gpt_parameter(layer, GPT_LN_1_GAIN), first, rows,
                 layer == 0 ? block->input : gpt->blocks[layer - 1].middle, layer == 0 ? NULL : gpt->branch,
                 block->input, &block->norm_1);
    linear_forward(gpt, parameters, gpt_parameter(layer, GPT_ATTN_WEIGHT), rows,
                   at(gpt, block->norm_1.out, first, width), at(gpt, block->qkv, first, 3 * width));
    struct attention attention = {.batch = gpt->model.batch,
                                  .sequence = gpt->model.batch == 1 ? first + rows : gpt->model.sequence,
                                  .heads = shape->heads,
                                  .head_width = width / shape->heads,
                                  .causal = true,
                                  .first = first};
    device->attention_forward(device, &attention, block->qkv, block->attended,
                              gpt->model.training ? block->logsums : NULL);
    linear_forward(gpt, parameters, gpt_parameter(layer, GPT_ATTN_PROJ_WEIGHT), rows,
                   at(gpt, block->attended, first, width), branch);

    void *hidden = at(gpt, block->hidden, first, 4 * width), *active = at(gpt, block->active, first, 4 * width);
    norm_forward(gpt, parameters, gpt_parameter(layer, GPT_LN_2_GAIN), first, rows, block->input, gpt->branch,
                 block->middle, &block->norm_2);
    linear_forward(gpt, parameters, gpt_parameter(layer, GPT_FC_WEIGHT), rows, at(gpt, block->norm_2.out, first, width),
                   hidden);
    device->gelu_forward(device, rows * 4 * width, hidden, active);
    linear_forward(gpt, parameters, gpt_parameter(layer, GPT_FC_PROJ_WEIGHT), rows, active, branch);
}

/* Rows [first, first + rows) from tokens to the end of the last block. The rows of one sequence, if not all. */
static void blocks_forward(struct gpt *gpt, const void *parameters, const int32_t *tokens, size_t first, size_t rows)
{
    const struct model_shape *shape = &gpt->model.description->shape;
    struct device *device = gpt->model.device;
    size_t batch = rows == gpt->model.batch * gpt->model.sequence ? gpt->model.batch : 1;
    device->write(device, gpt->tokens + first, tokens, rows * sizeof *tokens);
    device->embedding_forward(device, batch, rows / batch, shape->width, first, gpt->tokens + first,
                              tensor(gpt, parameters, GPT_WTE), tensor(gpt, parameters, GPT_WPE),
                              at(gpt, gpt->blocks[0].input, first, shape->width));
    for (size_t layer = 0; layer < shape->layers; layer++)
        block_forward(gpt, parameters, layer, first, rows);
}

/* The last norm and the head, for rows [first, first + rows), at most logit_rows of them. */
static void head_forward(const struct gpt *gpt, const void *parameters, size_t first, size_t rows)
{
    const struct model_shape *shape = &gpt->model.description->shape;
    struct device *device = gpt->model.device;
    norm_forward(gpt, parameters, gpt_parameter(shape->layers, GPT_LN_F_GAIN), first, rows,
                 gpt->blocks[shape->layers - 1].middle, gpt->branch, gpt->output, &gpt->norm_f);
    device->matmul(device, &(struct matmul){.rows = rows,
                                            .columns = shape->vocabulary,
                                            .inner = shape->width,
                                            .transpose_b = true,
                                            .a = at(gpt, gpt->norm_f.out, first, shape->width),
                                            .b = tensor(gpt, parameters, GPT_WTE),
                                            .c = gpt->logits,
                                            .stride_c = gpt->logit_stride});
}

static weft_status gpt_forward(struct model *model, const void *parameters, const struct model_batch *batch,
                               bool prepare, double *loss, struct error *error)
{
    struct gpt *gpt = (struct gpt *)model;
    struct device *device = model->device;
    const size_t tokens = model->batch * model->sequence;
    blocks_forward(gpt, parameters, batch->tokens, 0, tokens);
    device->write(device, gpt->targets, batch->targets, tokens * sizeof *batch->targets);
    for (size_t first = 0; first < tokens; first += gpt->logit_rows) {
        size_t rows = tokens - first < gpt->logit_rows ? tokens - first : gpt->logit_rows;
        head_forward(gpt, parameters, first, rows);
        device->cross_entropy(device, rows, model->description->shape.vocabulary, gpt->logit_stride,
                              gpt->targets + first, prepare ? 1.0 / (double)tokens : 0, gpt->logits,
                              gpt->losses + first);
    }
    device->read(device, gpt->host, gpt->losses, tokens * sizeof *gpt->losses);
    weft_status status = device->finish(device, error);
    gpt->prepared = prepare && status == WEFT_OK;
    if (status != WEFT_OK)
        return status;
    double sum = 0;
    for (size_t i = 0; i < tokens; i++)
        sum += gpt->host[i];
    *loss = sum / (double)tokens;
    return WEFT_OK;
}

static weft_status gpt_extend(struct model *model, const void *parameters, size_t first, const int32_t *tokens,
                              size_t count, double *logits, struct error *error)
{
    struct gpt *gpt = (struct gpt *)model;
    struct device *device = model->device;
    size_t vocabulary = model->description->shape.vocabulary;
    blocks_forward(gpt, parameters, tokens, first, count);
    head_forward(gpt, parameters, first + count - 1, 1);
    gpt->prepared = false;
    device->read(device, gpt->host, gpt->logits, vocabulary * gpt->size);
    weft_status status = device->finish(device, error);
    if (status != WEFT_OK)
        return status;
    for (size_t i = 0; i < vocabulary; i++)
        logits[i] = device->type == WEFT_F64 ? gpt->host[i] : (double)((float *)gpt->host)[i];
    return WEFT_OK;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

struct backward {
    struct gpt *gpt;
    const void *parameters;
    void *gradients;
    model_ready ready;
    void *context;
};

/* Parameters [first, last) have their gradients: clear the gaps behind them and tell. */
static void announce(const struct backward *pass, size_t first, size_t last)
{
    const struct model_description *description = pass->gpt->model.description;
    struct device *device = pass->gpt->model.device;
    const struct model_parameter *parameters = description->parameters;
    for (size_t i = first; i < last; i++) {
        size_t behind = parameters[i].offset + parameters[i].count;
        size_t next = i + 1 < description->parameter_count ? parameters[i + 1].offset : description->elements;
        if (behind < next)
            device->fill(device, next - behind, 0, at(pass->gpt, pass->gradients, behind, 1));
    }
    size_t end = last < description->parameter_count ? parameters[last].offset : description->elements;
    if (pass->ready)
        pass->ready(pass->context, parameters[first].offset, end - parameters[first].offset);
}

/* The norm whose gain is parameter `which`, of `x`: adds to (or, for the last one, begins) the gradient of the residual
 * stream. */
static void norm_backward(const struct backward *pass, size_t which, const void *gradient_out, const void *x,
                          const struct norm *norm, bool accumulate)
{
    const struct gpt *gpt = pass->gpt;
    struct device *device = gpt->model.device;
    device->layer_norm_backward(device, gpt->model.batch * gpt->model.sequence, gpt->model.description->shape.width,
                                gradient_out, x, tensor(gpt, pass->parameters, which), norm->means, norm->reciprocals,
                                accumulate, gpt->gradient, tensor(gpt, pass->gradients, which),
                                tensor(gpt, pass->gradients, which + 1));
}

/* From the gradient of the logits, which the forward pass left in their place, to that of the residual stream. */
static void head_backward(const struct backward *pass)
{
    const struct gpt *gpt = pass->gpt;
    const struct model_shape *shape = &gpt->model.description->shape;
    const size_t tokens = gpt->model.batch * gpt->model.sequence;
    struct device *device = gpt->model.device;
    device->matmul(device, &(struct matmul){.rows = shape->vocabulary,
                                            .columns = shape->width,
                                            .inner = tokens,
                                            .transpose_a = true,
                                            .a = gpt->logits,
                                            .b = gpt->norm_f.out,
                                            .c = tensor(gpt, pass->gradients, GPT_WTE),
                                            .stride_a = gpt->logit_stride});
    device->matmul(device, &(struct matmul){.rows = tokens,
                                            .columns = shape->width,
                                            .inner = shape->vocabulary,
                                            .a = gpt->logits,
                                            .b = tensor(gpt, pass->parameters, GPT_WTE),
                                            .c = gpt->gradient_narrow,
                                            .stride_a = gpt->logit_stride});
    norm_backward(pass, gpt_parameter(shape->layers, GPT_LN_F_GAIN), gpt->gradient_narrow, gpt->output, &gpt->norm_f,
                  false);
    announce(pass, gpt_parameter(shape->layers, GPT_LN_F_GAIN), gpt_parameter(shape->layers, GPT_LN_F_BIAS) + 1);
}

/* The MLP's half of a block, then attention's; each half's parameters are told as soon as they are final. */
static void block_backward(const struct backward *pass, size_t layer)
{
    const struct gpt *gpt = pass->gpt;
    const struct model_shape *shape = &gpt->model.description->shape;
    const struct block *block = &gpt->blocks[layer];
    const size_t tokens = gpt->model.batch * gpt->model.sequence;
    const void *parameters = pass->parameters;
    void *gradients = pass->gradients;
    struct device *device = gpt->model.device;

    bias_backward(gpt, gradients, gpt_parameter(layer, GPT_FC_PROJ_BIAS), gpt->gradient);
    linear_backward(gpt, parameters, gradients, gpt_parameter(layer, GPT_FC_PROJ_WEIGHT), block->active, gpt->gradient,
                    gpt->gradient_wide);
    device->gelu_backward(device, tokens, 4 * shape->width, block->hidden, gpt->gradient_wide,
                          tensor(gpt, gradients, gpt_parameter(layer, GPT_FC_BIAS)));
    linear_backward(gpt, parameters, gradients, gpt_parameter(layer, GPT_FC_WEIGHT), block->norm_2.out,
                    gpt->gradient_wide, gpt->gradient_narrow);
    norm_backward(pass, gpt_parameter(layer, GPT_LN_2_GAIN), gpt->gradient_narrow, block->middle, &block->norm_2, true);
    announce(pass, gpt_parameter(layer, GPT_LN_2_GAIN), gpt_parameter(layer, GPT_FC_PROJ_BIAS) + 1);

    bias_backward(gpt, gradients, gpt_parameter(layer, GPT_ATTN_PROJ_BIAS), gpt->gradient);
    linear_backward(gpt, parameters, gradients, gpt_parameter(layer, GPT_ATTN_PROJ_WEIGHT), block->attended,
                    gpt->gradient, gpt->gradient_narrow);
    struct attention attention = {.batch = gpt->model.batch,
                                  .sequence = gpt->model.sequence,
                                  .heads = shape->heads,
                                  .head_width = shape->width / shape->heads,
                                  .causal = true};
    device->attention_backward(device, &attention, block->qkv, block->attended, block->logsums, gpt->gradient_narrow,
                               gpt->gradient_wide);
    bias_backward(gpt, gradients, gpt_parameter(layer, GPT_ATTN_BIAS), gpt->gradient_wide);
    linear_backward(gpt, parameters, gradients, gpt_parameter(layer, GPT_ATTN_WEIGHT), block->norm_1.out,
                    gpt->gradient_wide, gpt->gradient_narrow);
    norm_backward(pass, gpt_parameter(layer, GPT_LN_1_GAIN), gpt->gradient_narrow, block->input, &block->norm_1, true);
    announce(pass, gpt_parameter(layer, GPT_LN_1_GAIN), gpt_parameter(layer, GPT_ATTN_PROJ_BIAS) + 1);
}

/* The table has the head's gradient already; rows of positions that no sequence reached have none. */
static void embedding_backward(const struct backward *pass)
{
    const struct gpt *gpt = pass->gpt;
    const struct model_shape *shape = &gpt->model.description->shape;
    const size_t sequence = gpt->model.sequence;
    struct device *device = gpt->model.device;
    void *positions = tensor(gpt, pass->gradients, GPT_WPE);
    device->embedding_backward(device, gpt->model.batch, sequence, shape->width, gpt->tokens, gpt->gradient,
                               tensor(gpt, pass->gradients, GPT_WTE), positions);
    if (sequence < shape->context)
        device->fill(device, (shape->context - sequence) * shape->width, 0, at(gpt, positions, sequence, shape->width));
    announce(pass, GPT_WTE, GPT_WPE + 1);
}

static weft_status gpt_backward(struct model *model, const void *parameters, void *gradients, model_ready ready,
                                void *context, struct error *error)
{
    struct gpt *gpt = (struct gpt *)model;
    if (!gpt->prepared)
        return error_set(error, WEFT_ERROR_STATE, "a backward pass needs a forward pass of its own before it");
    gpt->prepared = false;
    struct backward pass = {gpt, parameters, gradients, ready, context};
    head_backward(&pass);
    for (size_t layer = model->description->shape.layers; layer-- > 0;)
        block_backward(&pass, layer);
    embedding_backward(&pass);
    return model->device->finish(model->device, error);
}

const struct model_operations gpt_operations = {
    .kind = "gpt",
    .describe = gpt_describe,
    .initial = gpt_initial,
    .flops_per_token = gpt_flops_per_token,
    .memory = gpt_memory,
    .open = gpt_open,
    .close = gpt_close,
    .forward = gpt_forward,
    .backward = gpt_backward,
    .extend = gpt_extend,
};
