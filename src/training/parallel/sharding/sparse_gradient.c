/* SPDX-License-Identifier: Apache-2.0 */
#include "training/parallel/sharding/sparse_gradient.h"

#include "base/waiting.h"
#include "training/parallel/sharding/internal/rounded_sums.h"
#include "training/parallel/sharding/internal/shared_array.h"

#include <stdlib.h>
#include <string.h>

#define NO_TOKEN INT32_MAX /* after the last one of a micro-batch */

/* The part of one micro-batch in the tree. */
struct sparse_row {
    uint32_t micro_batch;
    float *values;
};

struct sparse_gradient {
    struct sparse_gradient_config config;
    weft_comm *comm;
    uint32_t rank, ranks;
    char *all;                /* a block for each micro-batch: its tokens, then its rows; a rank's are neighbors */
    char **blocks;            /* of each micro-batch */
    size_t *counts, *places;  /* elements of f32 of each rank's blocks */
    size_t *next;             /* of each micro-batch: the first row that is not added yet */
    struct sparse_row *found; /* of one token */
    weft_request *request;
};

/* ---- memory ---- */

static size_t token_elements(const struct sparse_gradient_config *config)
{
    return (config->rows + 15) / 16 * 16; /* rows begin on cache lines */
}

static size_t block_elements(const struct sparse_gradient_config *config)
{
    return (token_elements(config) + config->rows * config->width + 15) / 16 * 16;
}

size_t sparse_gradient_memory(const struct sparse_gradient_config *config)
{
    return config->micro_batches * block_elements(config) * sizeof(float);
}

static int32_t *block_tokens(char *block)
{
    return (int32_t *)(void *)block;
}

static float *block_rows(const struct sparse_gradient *gradient, char *block)
{
    return (float *)(void *)block + token_elements(&gradient->config);
}

static struct micro_batch_share sparse_share_of(const struct sparse_gradient *gradient, uint32_t rank)
{
    const struct micro_batch_division division = {
        .total = gradient->config.micro_batches, .ranks = gradient->ranks, .counts = gradient->config.shares};
    return micro_batch_share_of(gradient->config.zero, &division, rank);
}

static void lay_out_blocks(struct sparse_gradient *gradient)
{
    const size_t each = block_elements(&gradient->config);
    size_t used = 0;
    for (uint32_t r = 0; r < gradient->ranks; r++) {
        const struct micro_batch_share share = sparse_share_of(gradient, r);
        gradient->places[r] = used * each;
        gradient->counts[r] = share.count * each;
        for (uint32_t i = 0; i < share.count; i++)
            gradient->blocks[share.first + i * share.stride] = gradient->all + used++ * each * sizeof(float);
    }
    for (uint32_t m = 0; m < gradient->config.micro_batches; m++)
        block_tokens(gradient->blocks[m])[0] = NO_TOKEN;
}

weft_status sparse_gradient_open(const struct sparse_gradient_config *config, struct sparse_gradient **result,
                                 struct error *error)
{
    weft_comm *comm = NULL;
    weft_status status = library_error(config->context, weft_comm_duplicate(config->comm, &comm), error);
    if (status != WEFT_OK)
        return status;
    const size_t bytes = sparse_gradient_memory(config), count = config->micro_batches,
                 ranks = (size_t)weft_comm_size(comm);
    struct sparse_gradient *gradient = calloc(1, sizeof *gradient);
    if (!gradient) {
        weft_comm_free(comm);
        return error_memory(error, sizeof *gradient, "a sparse gradient");
    }
    *gradient = (struct sparse_gradient){.config = *config,
                                         .comm = comm,
                                         .rank = (uint32_t)weft_comm_rank(comm),
                                         .ranks = (uint32_t)ranks,
                                         .blocks = calloc(count, sizeof *gradient->blocks),
                                         .counts = calloc(ranks, sizeof *gradient->counts),
                                         .places = calloc(ranks, sizeof *gradient->places),
                                         .next = calloc(count, sizeof *gradient->next),
                                         .found = calloc(count, sizeof *gradient->found)};
    if (!gradient->blocks || !gradient->counts || !gradient->places || !gradient->next || !gradient->found)
        status = error_memory(error, count * sizeof *gradient->found, "a sparse gradient");
    gradient->all = shared_array_new(config->context, bytes, 1, &status, error);
    if (status != WEFT_OK) {
        sparse_gradient_close(gradient);
        return status;
    }
    lay_out_blocks(gradient);
    *result = gradient;
    return WEFT_OK;
}

void sparse_gradient_close(struct sparse_gradient *gradient)
{
    if (!gradient)
        return;
    weft_wait(&gradient->request); /* after a failure the job has been aborted, so it ends at once */
    if (gradient->all)
        weft_free(gradient->config.context, gradient->all);
    weft_comm_free(gradient->comm);
    free((void *)gradient->blocks);
    free(gradient->counts);
    free(gradient->places);
    free(gradient->next);
    free(gradient->found);
    free(gradient);
}

/* ---- the rows of this rank ---- */

static char *own_block(const struct sparse_gradient *gradient, uint32_t number)
{
    const struct micro_batch_share share = sparse_share_of(gradient, gradient->rank);
    return gradient->blocks[share.first + number * share.stride];
}

float *sparse_gradient_place(struct sparse_gradient *gradient, uint32_t number)
{
    return block_rows(gradient, own_block(gradient, number));
}

void sparse_gradient_put(struct sparse_gradient *gradient, uint32_t number, const int32_t *tokens, size_t count)
{
    const struct sparse_gradient_config *config = &gradient->config;
    char *block = own_block(gradient, number);
    memcpy(block_tokens(block), tokens, count * sizeof *tokens);
    if (count < config->rows)
        block_tokens(block)[count] = NO_TOKEN;
    rounded_sums_round(config->device, config->type == WEFT_BF16, block_rows(gradient, block), count * config->width);
}

/* ---- the rows of all ranks ---- */

weft_status sparse_gradient_gather_start(struct sparse_gradient *gradient, struct error *error)
{
    float *all = (float *)(void *)gradient->all;
    if (gradient->ranks == 1)
        return WEFT_OK;
    return library_error(gradient->config.context,
                         weft_allgatherv_start(all + gradient->places[gradient->rank], all, gradient->counts,
                                               gradient->places, WEFT_F32, gradient->comm, &gradient->request),
                         error);
}

weft_status sparse_gradient_gather_finish(struct sparse_gradient *gradient, struct error *error)
{
    return waiting_for(gradient->config.context, &gradient->request, gradient->config.waited, error);
}

static size_t all_elements(const struct sparse_gradient *gradient)
{
    return gradient->config.micro_batches * block_elements(&gradient->config);
}

weft_status sparse_gradient_send_start(struct sparse_gradient *gradient, int peer, weft_comm *comm,
                                       weft_request **request, struct error *error)
{
    return library_error(gradient->config.context,
                         weft_send_start(gradient->all, all_elements(gradient), WEFT_F32, peer, comm, request), error);
}

weft_status sparse_gradient_receive_start(struct sparse_gradient *gradient, int peer, weft_comm *comm,
                                          weft_request **request, struct error *error)
{
    return library_error(gradient->config.context,
                         weft_receive_start(gradient->all, all_elements(gradient), WEFT_F32, peer, comm, request),
                         error);
}

/* ---- sums ---- */

static int32_t next_token(const struct sparse_gradient *gradient, uint32_t micro_batch)
{
    const size_t next = gradient->next[micro_batch];
    return next < gradient->config.rows ? block_tokens(gradient->blocks[micro_batch])[next] : NO_TOKEN;
}

/* The smallest token whose rows are not added yet. */
static int32_t smallest_token(const struct sparse_gradient *gradient)
{
    int32_t smallest = NO_TOKEN;
    for (uint32_t m = 0; m < gradient->config.micro_batches; m++) {
        const int32_t token = next_token(gradient, m);
        smallest = token < smallest ? token : smallest;
    }
    return smallest;
}

/* Take the rows of a token; returns in how many micro-batches it occurs. */
static uint32_t take_rows(struct sparse_gradient *gradient, int32_t token)
{
    uint32_t count = 0;
    for (uint32_t m = 0; m < gradient->config.micro_batches; m++) {
        if (next_token(gradient, m) != token)
            continue;
        float *rows = block_rows(gradient, gradient->blocks[m]);
        gradient->found[count++] =
            (struct sparse_row){.micro_batch = m, .values = rows + gradient->next[m]++ * gradient->config.width};
    }
    return count;
}

/* The canonical sum of micro-batches [first, first + length), in the first of its rows; adding 0 is left out, for it is
 * exact. */
static float *sum_rows(const struct sparse_gradient *gradient, const struct sparse_row *rows, uint32_t count,
                       uint32_t first, uint32_t length)
{
    const struct sparse_gradient_config *config = &gradient->config;
    uint32_t left = 1, left_count = 0;
    if (count < 2)
        return count ? rows->values : NULL;
    while (left * 2 < length)
        left *= 2;
    while (left_count < count && rows[left_count].micro_batch < first + left)
        left_count++;
    float *sum = sum_rows(gradient, rows, left_count, first, left);
    float *right = sum_rows(gradient, rows + left_count, count - left_count, first + left, length - left);
    if (!sum || !right)
        return sum ? sum : right;
    rounded_sums_add(config->device, config->type == WEFT_BF16, sum, right, config->width);
    return sum;
}

void sparse_gradient_add_to(struct sparse_gradient *gradient, struct group_slice slice, float *total)
{
    const struct sparse_gradient_config *config = &gradient->config;
    const size_t width = config->width, end = slice.first + slice.count;
    memset(gradient->next, 0, config->micro_batches * sizeof *gradient->next);
    for (int32_t token; (token = smallest_token(gradient)) != NO_TOKEN;) {
        const uint32_t count = take_rows(gradient, token);
        const size_t row = (size_t)token * width, begin = row > slice.first ? row : slice.first,
                     stop = row + width < end ? row + width : end;
        if (begin >= stop)
            continue;
        const float *sum = sum_rows(gradient, gradient->found, count, 0, config->micro_batches);
        rounded_sums_add(config->device, config->type == WEFT_BF16, total + (begin - slice.first), sum + (begin - row),
                         stop - begin);
    }
}
