/* SPDX-License-Identifier: Apache-2.0 */
/* Networks by name. Of those that read text, the ones of 100M parameters and more are published; the others read bytes. */
#include "base/text.h"
#include "training/model/model.h"

#include <string.h>

#define GPT(l, h, w, c, v)                                                                                             \
    {                                                                                                                  \
        .kind = "gpt", .layers = l, .heads = h, .width = w, .context = c, .vocabulary = v                              \
    }
#define LLAMA(l, h, kv, w, n, c, v, ...)                                                                               \
    {                                                                                                                  \
        .kind = "llama", .layers = l, .heads = h, .kv_heads = kv, .width = w, .hidden = n, .context = c,               \
        .vocabulary = v, __VA_ARGS__                                                                                   \
    }

#define MLP(l, w, n, h, c, v)                                                                                          \
    {                                                                                                                  \
        .kind = "mlp", .layers = l, .width = w, .window = n, .hidden = h, .context = c, .vocabulary = v                \
    }

#define BERT(l, h, w, c, v)                                                                                            \
    {                                                                                                                  \
        .kind = "bert", .layers = l, .heads = h, .width = w, .context = c, .vocabulary = v                             \
    }
#define IMAGES(of_kind, pixels, depth, count, ...)                                                                     \
    {                                                                                                                  \
        .kind = of_kind, .image = pixels, .channels = depth, .classes = count, __VA_ARGS__                             \
    }

static const struct model_size sizes[] = {
    /* layers, heads, width, context, vocabulary */
    {"bert-micro", BERT(3, 4, 128, 128, 2000), "0.9M parameters, word pieces: minutes on a laptop"},
    {"bert-mini", BERT(4, 4, 256, 512, 30522), "BERT mini, 11M parameters"},
    {"bert-small", BERT(4, 8, 512, 512, 30522), "BERT small, 29M parameters"},
    {"bert-medium", BERT(8, 8, 512, 512, 30522), "BERT medium, 41M parameters"},
    {"bert-base", BERT(12, 12, 768, 512, 30522), "BERT base, 110M parameters"},
    {"bert-large", BERT(24, 16, 1024, 512, 30522), "BERT large, 336M parameters"},
    /* layers, heads, width, context, vocabulary */
    {"gpt-nano", GPT(4, 4, 64, 128, 256), "0.2M parameters, bytes: seconds on a laptop"},
    {"gpt-micro", GPT(4, 4, 128, 128, 256), "0.8M parameters, bytes: learns to spell in a minute"},
    {"gpt-mini", GPT(6, 6, 192, 256, 256), "2.8M parameters, bytes"},
    {"gpt-small", GPT(6, 6, 384, 256, 256), "10.8M parameters, bytes"},
    {"gpt-base", GPT(8, 8, 512, 512, 256), "25.6M parameters, bytes"},
    {"gpt2", GPT(12, 12, 768, 1024, 50257), "GPT-2, 124M parameters"},
    {"gpt2-medium", GPT(24, 16, 1024, 1024, 50257), "GPT-2 medium, 355M parameters"},
    {"gpt2-large", GPT(36, 20, 1280, 1024, 50257), "GPT-2 large, 774M parameters"},
    {"gpt2-xl", GPT(48, 25, 1600, 1024, 50257), "GPT-2 XL, 1558M parameters"},
    /* layers, heads, of keys, width, within feed-forward layers, context, vocabulary */
    {"llama-micro", LLAMA(4, 4, 2, 128, 352, 128, 256, ), "0.8M parameters, bytes"},
    {"llama-mini", LLAMA(6, 6, 2, 192, 512, 256, 256, ), "2.4M parameters, bytes"},
    {"llama-small", LLAMA(6, 6, 2, 384, 1024, 256, 256, ), "9.5M parameters, bytes"},
    {"smollm-135m", LLAMA(30, 9, 3, 576, 1536, 2048, 49152, ), "SmolLM, 135M parameters"},
    {"llama-160m", LLAMA(12, 12, 12, 768, 3072, 2048, 32000, .norm_epsilon = 1e-6, .untied = true),
     "Llama's shape, 162M parameters"},
    {"smollm-360m", LLAMA(32, 15, 5, 960, 2560, 2048, 49152, ), "SmolLM, 362M parameters"},
    {"tinyllama", LLAMA(22, 32, 4, 2048, 5632, 2048, 32000, .untied = true), "TinyLlama, 1100M parameters"},
    /* hidden layers, width of an embedding, window, width of hidden layers, context, vocabulary */
    {"mlp-micro", MLP(2, 48, 16, 512, 128, 256), "0.8M parameters, bytes: what a window of 16 can tell"},
    /* height and width of an image, its channels, classes, multiplier of the layers' channels */
    {"mobilenet-v1-micro", IMAGES("mobilenet-v1", 28, 1, 10, .multiplier = 0.5),
     "0.8M parameters, 28 x 28 gray images"},
    {"mobilenet-v1", IMAGES("mobilenet-v1", 224, 3, 1000, ), "MobileNet, 4.2M parameters"},
    {"mobilenet-v2-micro", IMAGES("mobilenet-v2", 28, 1, 10, .multiplier = 0.5),
     "0.7M parameters, 28 x 28 gray images"},
    {"mobilenet-v2", IMAGES("mobilenet-v2", 224, 3, 1000, ), "MobileNetV2, 3.5M parameters"},
    {"resnet-micro", IMAGES("resnet", 28, 1, 10, .layers = 18, .multiplier = 0.25),
     "0.7M parameters, 28 x 28 gray images"},
    {"resnet-18", IMAGES("resnet", 224, 3, 1000, .layers = 18), "ResNet-18, 11.7M parameters"},
    {"resnet-50", IMAGES("resnet", 224, 3, 1000, .layers = 50), "ResNet-50, 25.6M parameters"},
};
#define SIZES ARRAY_SIZE(sizes)

const struct model_size *model_sizes(size_t *count)
{
    *count = SIZES;
    return sizes;
}

/* Aliases. */
static const char *const others[][2] = {
    {"bert", "bert-micro"},      {"gpt", "gpt-micro"},          {"llama", "llama-micro"}, {"mlp", "mlp-micro"},
    {"gpt2-124m", "gpt2"},       {"mobilenet", "mobilenet-v2"}, {"resnet", "resnet-18"},  {"gpt2-355m", "gpt2-medium"},
    {"gpt2-774m", "gpt2-large"}, {"gpt2-1558m", "gpt2-xl"},
};
#define OTHERS ARRAY_SIZE(others)

weft_status model_shape_find(const char *name, struct model_shape *shape, struct error *error)
{
    const char *const asked = name;
    const char *names[SIZES + OTHERS];
    for (size_t i = 0; i < OTHERS; i++)
        if (strcmp(name, others[i][0]) == 0)
            name = others[i][1];
    for (size_t i = 0; i < SIZES; i++) {
        names[i] = sizes[i].name;
        if (strcmp(name, names[i]) == 0) {
            *shape = sizes[i].shape;
            return WEFT_OK;
        }
    }
    for (size_t i = 0; i < OTHERS; i++)
        names[SIZES + i] = others[i][0];
    const char *nearest = text_nearest(asked, names, SIZES + OTHERS);
    return error_set(
        error, WEFT_ERROR_ARGUMENT,
        "there is no model size '%s'%s%s%s (weft model list shows all; a name with a slash or one that ends in "
        ".yaml is a file's)",
        asked, nearest ? ", did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}
