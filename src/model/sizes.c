/* SPDX-License-Identifier: Apache-2.0 */
/* Networks by name. Those called gpt2 are the published ones (Radford et al. 2019); the others read bytes. */
#include "base/text.h"
#include "model/model.h"

#include <string.h>

static const struct model_size sizes[] = {
    {"gpt-nano", {"gpt", 4, 4, 64, 128, 256}, "0.2M parameters, bytes: seconds on a laptop"},
    {"gpt-micro", {"gpt", 4, 4, 128, 128, 256}, "0.8M parameters, bytes: learns to spell in a minute"},
    {"gpt-mini", {"gpt", 6, 6, 192, 256, 256}, "2.8M parameters, bytes"},
    {"gpt-small", {"gpt", 6, 6, 384, 256, 256}, "10.8M parameters, bytes"},
    {"gpt-base", {"gpt", 8, 8, 512, 512, 256}, "25.6M parameters, bytes"},
    {"gpt2", {"gpt", 12, 12, 768, 1024, 50257}, "GPT-2, 124M parameters"},
    {"gpt2-medium", {"gpt", 24, 16, 1024, 1024, 50257}, "GPT-2 medium, 355M parameters"},
    {"gpt2-large", {"gpt", 36, 20, 1280, 1024, 50257}, "GPT-2 large, 774M parameters"},
    {"gpt2-xl", {"gpt", 48, 25, 1600, 1024, 50257}, "GPT-2 XL, 1558M parameters"},
};
#define SIZES (sizeof sizes / sizeof *sizes)

const struct model_size *model_sizes(size_t *count)
{
    *count = SIZES;
    return sizes;
}

weft_status model_shape_find(const char *name, struct model_shape *shape, struct error *error)
{
    const char *names[SIZES];
    if (strcmp(name, "gpt") == 0)
        name = "gpt-micro"; /* what to begin with */
    for (size_t i = 0; i < SIZES; i++) {
        names[i] = sizes[i].name;
        if (strcmp(name, names[i]) == 0) {
            *shape = sizes[i].shape;
            return WEFT_OK;
        }
    }
    const char *nearest = text_nearest(name, names, SIZES);
    return error_set(
        error, WEFT_ERROR_ARGUMENT, "there is no model size '%s'%s%s%s; the smallest is %s and the largest %s", name,
        nearest ? ", did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "", names[0], names[SIZES - 1]);
}
