/* SPDX-License-Identifier: Apache-2.0 */
/* `weft checkpoint`: show, verify, export checkpoints, and compare them by hash. */
#include "training/checkpoint/checkpoint.h"
#include "base/format/json_put.h"
#include "base/text.h"
#include "cli/frame/command.h"
#include "training/checkpoint/manifest.h"
#include "training/train/state/public_export.h"

#include <inttypes.h>
#include <stdlib.h>

static struct {
    bool json;
    const char *output, *type;
} chosen;

#define DIR_DESCRIPTION                                                                                                     \
    "DIR is a checkpoint (a directory like step-00000200) or a run directory, whose newest checkpoint is used. Every byte " \
    "of it is verified first."

/* ---- hash ---- */

static weft_status run_hash(struct command_call *call, struct error *error)
{
    struct checkpoint *checkpoint;
    uint8_t digest[SHA256_BYTES];
    char text[SHA256_TEXT_BYTES];
    weft_status status = checkpoint_open(call->words[0], &checkpoint, error);
    if (status != WEFT_OK)
        return status;
    status = checkpoint_hash(checkpoint, digest, error);
    checkpoint_close(checkpoint);
    if (status == WEFT_OK)
        fprintf(call->output, "%s\n", sha256_text(digest, text));
    return status;
}

static const struct command command_checkpoint_hash = {
    .name = "hash",
    .summary = "print the SHA-256 of all tensors of a checkpoint, weights and optimizer state",
    .description = DIR_DESCRIPTION
    "\n\nThe hash covers names, types, shapes and elements, and nothing else: it does not depend on how many files the "
    "tensors lie in, nor on how many ranks wrote them. Equal hashes mean equal bits.",
    .examples = "  weft checkpoint hash runs/first\n  weft checkpoint hash runs/first/step-00000200\n",
    .words = "DIR",
    .run = run_hash,
};

/* ---- show ---- */

/* Sums over all tensors. */
struct train_checkpoint_totals {
    uint64_t elements, bytes;
};

static struct train_checkpoint_totals add_up(const struct named_tensor *tensors, size_t count)
{
    struct train_checkpoint_totals totals = {0, 0};
    for (size_t i = 0; i < count; i++) {
        uint64_t elements = named_tensor_elements(&tensors[i]);
        totals.elements += elements;
        totals.bytes += elements * weft_type_size(tensors[i].type);
    }
    return totals;
}

/* "layers 12, width 768, ..." */
static void print_settings(FILE *output, const char *label, const cJSON *object)
{
    fprintf(output, "  %-12s", label);
    const char *separator = "";
    for (const cJSON *item = object->child; item; item = item->next) {
        char *value = cJSON_IsString(item) ? NULL : cJSON_PrintUnformatted(item);
        fprintf(output, "%s%s %s", separator, item->string, value ? value : cJSON_GetStringValue(item));
        cJSON_free(value);
        separator = ", ";
    }
    fputc('\n', output);
}

static void print_checkpoint(FILE *output, const struct checkpoint *checkpoint)
{
    const struct checkpoint_state *state = checkpoint_get_state(checkpoint);
    size_t file_count, tensor_count;
    const struct checkpoint_record *files = checkpoint_files(checkpoint, &file_count);
    const struct named_tensor *tensors = checkpoint_tensors(checkpoint, &tensor_count);
    struct train_checkpoint_totals totals = add_up(tensors, tensor_count);
    char text[256], digest[SHA256_TEXT_BYTES];
    fprintf(output, "%s: whole, every byte verified\n", checkpoint_directory(checkpoint));
    fprintf(output, "  %-12s%" PRIu64 "\n", "step", state->step);
    fprintf(output, "  %-12s%" PRIu64 " samples read\n", "position", state->position);
    fprintf(output, "  %-12s%" PRIu64 "\n", "seed", state->seed);
    fprintf(output, "  %-12sweft %s\n", "written by", checkpoint_library(checkpoint));
    print_settings(output, "model", state->model);
    if (state->training)
        print_settings(output, "training", state->training);
    fprintf(output, "Files\n");
    for (size_t i = 0; i < file_count; i++)
        fprintf(output, "  %-36s %10s  sha256 %s\n", files[i].name,
                text_bytes(files[i].digest.bytes, text, sizeof text), sha256_text(files[i].digest.sha256, digest));
    fprintf(output, "Tensors: %zu of %" PRIu64 " elements, %s\n", tensor_count, totals.elements,
            text_bytes(totals.bytes, text, sizeof text));
    for (size_t i = 0; i < tensor_count; i++)
        fprintf(output, "  %-36s %-5s %s\n", tensors[i].name, weft_type_name(tensors[i].type),
                named_tensor_shape_text(&tensors[i], text, sizeof text));
}

static void put_tensors(struct json_writer *writer, const struct checkpoint *checkpoint)
{
    size_t count;
    const struct named_tensor *tensors = checkpoint_tensors(checkpoint, &count);
    struct train_checkpoint_totals totals = add_up(tensors, count);
    JSON_PUT(writer, "elements", totals.elements, "bytes", totals.bytes);
    json_open_array(writer, "tensors");
    for (size_t i = 0; i < count; i++) {
        json_open_object(writer, NULL);
        JSON_PUT(writer, "name", tensors[i].name, "type", weft_type_name(tensors[i].type));
        json_open_array(writer, "shape");
        for (unsigned d = 0; d < tensors[i].dimensions; d++)
            json_put_unsigned(writer, NULL, tensors[i].shape[d]);
        json_close(writer);
        json_close(writer);
    }
    json_close(writer);
}

static void put_checkpoint(struct json_writer *writer, const struct checkpoint *checkpoint)
{
    size_t file_count;
    const struct checkpoint_record *files = checkpoint_files(checkpoint, &file_count);
    const struct checkpoint_state *state = checkpoint_get_state(checkpoint);
    JSON_PUT(writer, "folder", checkpoint_directory(checkpoint), "step", state->step, "position", state->position,
             "seed", state->seed, "library", checkpoint_library(checkpoint));
    json_put_tree(writer, "model", state->model);
    json_put_tree(writer, "training", state->training);
    manifest_put_files(writer, files, file_count);
    put_tensors(writer, checkpoint);
}

/* With --json, a checkpoint that cannot be opened is a result too, with the reason in the object. */
static weft_status show_json(struct command_call *call, struct error *error)
{
    struct checkpoint *checkpoint = NULL;
    struct error problem = {0};
    struct json_writer writer;
    bool whole = checkpoint_open(call->words[0], &checkpoint, &problem) == WEFT_OK;
    json_begin(&writer, JSON_INDENTED);
    json_open_object(&writer, NULL);
    json_put_bool(&writer, "whole", whole);
    if (whole) {
        put_checkpoint(&writer, checkpoint);
    } else {
        json_put_text(&writer, "problem", problem.text);
        call->exit_code = 1;
    }
    weft_status status = json_complete(&writer, call->output, error);
    checkpoint_close(checkpoint);
    return status;
}

static weft_status checkpoint_show_run(struct command_call *call, struct error *error)
{
    if (chosen.json)
        return show_json(call, error);
    struct checkpoint *checkpoint;
    weft_status status = checkpoint_open(call->words[0], &checkpoint, error);
    if (status != WEFT_OK)
        return status;
    print_checkpoint(call->output, checkpoint);
    checkpoint_close(checkpoint);
    return WEFT_OK;
}

static const struct cli_option show_options[] = {
    CLI_FLAG("json", 0, &chosen.json,
             "print a JSON object; \"whole\" says whether the checkpoint is valid, \"problem\" why not"),
};

static const struct command command_checkpoint_show = {
    .name = "show",
    .summary = "verify a checkpoint and show its step, model, files and tensors",
    .description = DIR_DESCRIPTION " The exit code is 1 if anything is damaged or missing.",
    .examples = "  weft checkpoint show runs/first\n  weft checkpoint show --json runs/first/step-00000200\n",
    .words = "DIR",
    COMMAND_OPTIONS(show_options),
    .run = checkpoint_show_run,
};

/* ---- list ---- */

static weft_status checkpoint_list_run(struct command_call *call, struct error *error)
{
    size_t count, room;
    weft_status status = checkpoint_list(call->words[0], NULL, 0, &room, error);
    if (status != WEFT_OK)
        return status;
    uint64_t *steps = malloc((room + 1) * sizeof *steps);
    if (!steps)
        return error_memory(error, room * sizeof *steps, "a list of checkpoints");
    status = checkpoint_list(call->words[0], steps, room, &count, error);
    for (size_t i = 0; status == WEFT_OK && i < (count < room ? count : room); i++)
        fprintf(call->output, "%" PRIu64 "\n", steps[i]);
    free(steps);
    return status;
}

static const struct command command_checkpoint_list = {
    .name = "list",
    .summary = "print the steps of a run that have a checkpoint, oldest first",
    .examples = "  weft checkpoint list runs/first\n",
    .words = "DIR",
    .run = checkpoint_list_run,
};

/* ---- export ---- */

static const char *const export_types[] = {"f32", "f16", "bf16", NULL};

/* Image models have none. */
static bool exports_config(const char *directory)
{
    char path[FILE_PATH_BYTES];
    return file_join(path, directory, "config.json", NULL) == WEFT_OK && file_exists(path);
}

static weft_status run_export(struct command_call *call, struct error *error)
{
    static const weft_type types[] = {WEFT_F32, WEFT_F16, WEFT_BF16};
    struct checkpoint *checkpoint;
    if (!chosen.output)
        return error_set(error, WEFT_ERROR_ARGUMENT, "weft checkpoint export needs --output: the directory to make");
    weft_status status = checkpoint_open(call->words[0], &checkpoint, error);
    if (status != WEFT_OK)
        return status;
    status = public_export(checkpoint, chosen.output, types[cli_choice_index(chosen.type, export_types)], error);
    if (status == WEFT_OK)
        fprintf(call->output, "%s: the weights of %s as %s%s\n", chosen.output, checkpoint_directory(checkpoint),
                chosen.type, exports_config(chosen.output) ? ", and config.json" : "");
    checkpoint_close(checkpoint);
    return status;
}

static const struct cli_option export_options[] = {
    CLI_TEXT("output", 'o', "FOLDER", &chosen.output, NULL,
             "the directory to make; it must not be there yet, or be empty"),
    CLI_CHOICE("type", 0, "TYPE", &chosen.type, "f32", export_types, "of the elements; f16 and bf16 are rounded"),
};

static const struct command command_checkpoint_export = {
    .name = "export",
    .summary = "write a checkpoint's weights as other tools load them",
    .description = DIR_DESCRIPTION
    "\n\nWrites model.safetensors with the public tensor names of GPT-2, Llama, BERT or torchvision, and, but for "
    "image models, config.json with the shape, as the transformers library and many others read "
    "them; and the tokenizer's files, where the checkpoint has one. weft train --from and weft eval --from "
    "read them too.",
    .examples = "weft checkpoint export runs/first --output first-f32\n"
                "weft checkpoint export runs/first/best --output first-bf16 --type bf16\n",
    .words = "DIR",
    COMMAND_OPTIONS(export_options),
    .run = run_export,
};

const struct command command_checkpoint = {
    .name = "checkpoint",
    .group = COMMAND_TRAIN,
    .summary = "verify, show, compare and export checkpoints",
    COMMAND_SUBCOMMANDS(&command_checkpoint_export, &command_checkpoint_hash, &command_checkpoint_list,
                        &command_checkpoint_show),
};
