/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/layers/internal/pooler.h"

#include "training/tensor/class_sums.h"

weft_status pooler_add_dense(struct model_description *description, struct pooler *pooler, double deviation,
                             const struct pooler_names *names, struct error *error)
{
    pooler->dense =
        (struct linear){.inputs = pooler->width, .outputs = pooler->width, .outputs_first = true, .whole = true};
    return linear_add(description, &pooler->dense, deviation, "", names->dense, names->dense_bias, error);
}

weft_status pooler_add_classifier(struct model_description *description, struct pooler *pooler, double deviation,
                                  const struct pooler_names *names, struct error *error)
{
    pooler->classifier =
        (struct linear){.inputs = pooler->width, .outputs = pooler->classes, .outputs_first = true, .whole = true};
    return linear_add(description, &pooler->classifier, deviation, "", names->classifier, names->classifier_bias,
                      error);
}

void pooler_plan(const struct pooler *pooler, const struct layer_room *room, struct arena *kept, struct arena *deferred,
                 struct arena *scratch, struct pooler_arrays *arrays)
{
    const size_t column = room->batch * room->activation, row = column * pooler->width;
    arrays->first = arena_take(kept, row);
    arrays->pooled = arena_take(kept, row);
    arrays->dropped = pooler->drops ? arena_take(kept, row) : arrays->pooled;
    arrays->logits = arena_take(kept, column * pooler->classes);
    arrays->to_dense = room->training ? arena_take(deferred, row) : NULL;
    arrays->to_first = room->training ? arena_take(scratch, row) : NULL;
    arrays->wide = pooler->drops ? arena_take(scratch, room->batch * pooler->width * room->element) : NULL;
}

struct pass pass_of_rows(const struct pass *pass, size_t count, struct tensor_group *group)
{
    struct pass part = *pass;
    part.sequence = part.room_sequence = count;
    if (pass->tensor) {
        *group = *pass->tensor;
        group->divides_rows = false;
        part.tensor = group;
    }
    return part;
}

const void *pass_all_rows(const struct pass *pass, size_t width, const void *x, void *all)
{
    struct device *device = pass->device;
    if (!pass_divides_rows(pass))
        return x;
    device->copy(device, pass_at(pass, all, pass_own_first(pass) * width), x,
                 pass_own_rows(pass) * width * weft_type_size(device->type));
    pass_gather_rows(pass, device->type, width, all);
    return all;
}

void pass_own_gradient(const struct pass *pass, size_t width, const void *all, void *gradient)
{
    struct device *device = pass->device;
    if (all != gradient)
        device->copy(device, gradient, pass_at(pass, all, pass_own_first(pass) * width),
                     pass_own_rows(pass) * width * weft_type_size(device->type));
}

static struct row_choice first_rows(const struct pooler *pooler, const struct pass *pass)
{
    return (struct row_choice){.batch = pass->batch, .sequence = pass->sequence, .width = pooler->width, .count = 1};
}

/* The dropout of pooled rows: a sample has one. */
static struct dropout pooler_dropout(const struct pooler *pooler, const struct pass *pass, const struct layer *layer)
{
    struct dropout dropout = pass_dropout(pass, layer);
    dropout.sequence = 1;
    dropout.first = 0;
    if (!pooler->drops)
        dropout.share = 0;
    return dropout;
}

void pooler_forward(const struct pooler *pooler, const struct pass *pass, const struct layer *layer,
                    const struct pooler_arrays *arrays, const void *x, void *logits)
{
    struct device *device = pass->device;
    struct tensor_group group;
    const struct pass samples = pass_of_rows(pass, 1, &group);
    const struct row_choice first = first_rows(pooler, pass);
    const struct dropout dropout = pooler_dropout(pooler, pass, layer);
    const size_t count = pass->batch * pooler->width;
    device->gather_rows(device, &first, x, arrays->first);
    linear_forward(&samples, &pooler->dense, arrays->first, arrays->pooled, 0);
    device->tanh_forward(device, count, arrays->pooled);
    if (pooler->drops) {
        device->from_activations(device, count, arrays->pooled, arrays->wide);
        if (dropout.share > 0)
            device->dropout_to_activations(device, &dropout, pass->batch, pooler->width, arrays->wide, arrays->dropped);
        else
            device->to_activations(device, count, arrays->wide, arrays->dropped);
    }
    linear_forward(&samples, &pooler->classifier, arrays->dropped, logits ? logits : arrays->logits, 0);
}

/* The samples' losses, then the sums that they were made from. */
size_t pooler_loss_count(size_t batch)
{
    return batch + batch * sizeof(struct class_sums) / sizeof(double);
}

void pooler_losses(const struct pooler *pooler, const struct pass *pass, const struct pooler_arrays *arrays,
                   double *losses)
{
    struct device *device = pass->device;
    struct class_sums *sums = (struct class_sums *)(losses + pass->batch);
    const struct divided_classes shape = {.rows = pass->batch,
                                          .classes = pooler->classes,
                                          .all = pooler->classes,
                                          .ranks = 1,
                                          .stride = pooler->classes,
                                          .targets = pass->labels,
                                          .smoothing = pass->smoothing,
                                          .scale = pass->prepare ? pass->loss_scale / (double)pass->batch : 0};
    device->class_sums(device, &shape, arrays->logits, sums);
    device->divided_cross_entropy(device, &shape, sums, arrays->logits, losses);
}

double pooler_loss(const double *losses, size_t batch)
{
    double sum = 0;
    for (size_t i = 0; i < batch; i++)
        sum += losses[i];
    return sum / (double)batch;
}

double pooler_accuracy(const double *losses, size_t batch)
{
    const struct class_sums *sums = (const struct class_sums *)(losses + batch);
    size_t right = 0;
    for (size_t i = 0; i < batch; i++)
        right += class_sums_are_right(&sums[i]);
    return (double)right / (double)batch;
}

void pooler_backward_input(const struct pooler *pooler, const struct pass *pass, const struct layer *layer,
                           const struct pooler_arrays *arrays, void *gradient)
{
    struct device *device = pass->device;
    struct tensor_group group;
    const struct pass samples = pass_of_rows(pass, 1, &group);
    const struct row_choice first = first_rows(pooler, pass);
    const struct dropout dropout = pooler_dropout(pooler, pass, layer);
    const size_t count = pass->batch * pooler->width;
    linear_backward_input(&samples, &pooler->classifier, arrays->logits, 0, false, arrays->to_dense);
    if (dropout.share > 0) {
        device->from_activations(device, count, arrays->to_dense, arrays->wide);
        device->dropout_to_activations(device, &dropout, pass->batch, pooler->width, arrays->wide, arrays->to_dense);
    }
    device->tanh_backward(device, count, arrays->pooled, arrays->to_dense);
    linear_backward_input(&samples, &pooler->dense, arrays->to_dense, 0, false, arrays->to_first);
    device->scatter_rows(device, &first, arrays->to_first, gradient);
}

void pooler_backward_weights(const struct pooler *pooler, const struct pass *pass, const struct pooler_arrays *arrays)
{
    struct tensor_group group;
    const struct pass samples = pass_of_rows(pass, 1, &group);
    linear_backward_weights(&samples, &pooler->dense, arrays->first, arrays->to_dense, 0);
    linear_backward_weights(&samples, &pooler->classifier, arrays->dropped, arrays->logits, 0);
}

double pooler_flops(const struct pooler *pooler)
{
    return 2 * (double)(pooler->width * (pooler->width + pooler->classes));
}
