/* SPDX-License-Identifier: Apache-2.0 */
/* `weft data pack` of images: a directory per class to tar shards. */
#include "base/clock.h"
#include "base/text.h"
#include "cli/train/data.h"
#include "training/data/image/image_pack.h"

#include <inttypes.h>

static void print_packed_images(FILE *output, const char *what, const struct image_packed *packed,
                                enum dataset_split split)
{
    char bytes[32];
    const uint64_t files = packed->splits[split].files;
    fprintf(output, "%-12s%" PRIu64 " images, %s, %" PRIu64 " file%s\n", what, packed->splits[split].images,
            text_bytes(packed->splits[split].bytes, bytes, sizeof bytes), files, files == 1 ? "" : "s");
}

weft_status data_images_pack(struct command_call *call, const char *path, const struct image_pack_options *options,
                             struct error *error)
{
    struct image_packed packed;
    char took[32];
    const uint64_t begin = clock_now();
    weft_status status = image_pack(path, options, &packed, error);
    if (status != WEFT_OK)
        return status;
    const double seconds = (double)(clock_now() - begin) * 1e-9;
    const uint64_t images = packed.splits[DATASET_TRAIN].images + packed.splits[DATASET_HELD_OUT].images;
    print_packed_images(call->output, "train", &packed, DATASET_TRAIN);
    print_packed_images(call->output, "held out", &packed, DATASET_HELD_OUT);
    if (packed.skipped > 0)
        fprintf(call->output, "left out    %" PRIu64 " damaged images\n", packed.skipped);
    fprintf(call->output, "wrote %s: %" PRIu64 " classes, %" PRIu64 " images made smaller, in %s (%.0f images/s)\n",
            options->output, packed.classes, packed.resized, text_seconds(seconds, took, sizeof took),
            (double)images / seconds);
    return WEFT_OK;
}
