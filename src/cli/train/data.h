/* SPDX-License-Identifier: Apache-2.0 */
/** The commands of `weft data`. */
#ifndef WEFT_CLI_TRAIN_DATA_H
#define WEFT_CLI_TRAIN_DATA_H

#include "cli/frame/command.h"

extern const struct command command_data_show;
extern const struct command command_data_tokenizer;

struct image_pack_options;

/** `weft data pack` of the images at `path`. Errors: those of image_pack(). */
weft_status data_images_pack(struct command_call *call, const char *path, const struct image_pack_options *options,
                             struct error *error);

#define DATA_TEXTS_MOST 4096 /**< texts that a command line may name */

#endif
