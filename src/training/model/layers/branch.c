/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/layers/internal/branch.h"

struct dropout pass_dropout(const struct pass *pass, const struct layer *layer)
{
    return (struct dropout){.share = pass->dropout,
                            .seed = pass->seed,
                            .sample = pass->sample,
                            .layer = (uint16_t)(layer - pass->description->layers),
                            .sequence = pass->sequence};
}

void branch_join(const struct pass *pass, const struct layer *layer, const void *x, const void *branch, void *y)
{
    struct device *device = pass->device;
    const struct dropout dropout = pass_dropout(pass, layer);
    if (dropout.share > 0)
        device->dropout_add_branch(device, &dropout, pass_rows(pass), layer->width, x, branch, y);
    else
        device->add_branch(device, pass_rows(pass) * layer->width, x, branch, y);
}

const void *branch_gradient(const struct pass *pass, const struct layer *layer, const void *gradient, void *scratch)
{
    struct device *device = pass->device;
    const struct dropout dropout = pass_dropout(pass, layer);
    if (!(dropout.share > 0))
        return pass_narrowed(pass, pass_rows(pass) * layer->width, gradient, scratch);
    device->dropout_narrow(device, &dropout, pass_rows(pass), layer->width, gradient, scratch);
    return scratch;
}
