/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/state/internal/settings.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define OF(kind) (1u << OPTIMIZER_##kind)

/* The settings that are compared, in the order of messages. */
static const struct setting {
    const char *key;     /* in a checkpoint */
    const char *option;  /* of weft train */
    unsigned optimizers; /* that it matters to; 0: all */
    bool may_change;     /* without being named */
    bool may_lack;       /* if it is missing in a checkpoint, it was not set; otherwise the checkpoint predates the
                            setting */
} settings[] = {
    {.key = "data_identity", .option = "data"},
    {.key = "sequence", .option = "sequence"},
    {.key = "micro_batch", .option = "micro-batch"},
    {.key = "precision", .option = "precision"},
    {.key = "gradients", .option = "gradients"},
    {.key = "dropout", .option = "dropout"},
    {.key = "label_smoothing", .option = "label-smoothing"},
    {.key = "task", .option = "task", .may_lack = true},
    {.key = "whole_words", .option = "whole-words", .may_lack = true},
    {.key = "augment", .option = "augment", .may_lack = true},
    {.key = "mixup", .option = "mixup", .may_lack = true},
    {.key = "erase", .option = "erase", .may_lack = true},
    {.key = "sync_batch_norm", .option = "sync-batch-norm", .may_lack = true},
    {.key = "steps", .option = "steps", .may_change = true},
    {.key = "learning_rate", .option = "learning-rate"},
    {.key = "rate_shape", .option = "rate-shape"},
    {.key = "floor_share", .option = "final-rate"},
    {.key = "warmup", .option = "warmup"},
    {.key = "scale_rate", .option = "scale-rate"},
    {.key = "rate_for", .option = "rate-for", .may_lack = true},
    {.key = "freeze", .option = "freeze", .may_lack = true},
    {.key = "no_decay", .option = "no-decay", .may_lack = true},
    {.key = "weight_decay", .option = "weight-decay"},
    {.key = "clip", .option = "clip"},
    {.key = "beta1", .option = "beta1", .optimizers = OF(ADAMW) | OF(LAMB)},
    {.key = "beta2", .option = "beta2", .optimizers = OF(ADAMW) | OF(LAMB)},
    {.key = "epsilon", .option = "epsilon", .optimizers = OF(ADAMW) | OF(LAMB)},
    {.key = "momentum", .option = "momentum", .optimizers = OF(SGD) | OF(LARS)},
    {.key = "trust", .option = "trust", .optimizers = OF(LARS)},
    {.key = "evaluate_every", .option = "evaluate-every"},
    {.key = "evaluate_sequences", .option = "evaluate-sequences"},
};

#define SETTINGS ARRAY_SIZE(settings)

/* ---- describing ---- */

/* The rules for parameters, as the user gave them. */
static void add_rules(cJSON *object, const struct parameter_rules *rules)
{
    if (rules->freeze)
        cJSON_AddStringToObject(object, "freeze", rules->freeze);
    if (rules->no_decay)
        cJSON_AddStringToObject(object, "no_decay", rules->no_decay);
    cJSON *rates = rules->rate_count ? cJSON_AddArrayToObject(object, "rate_for") : NULL;
    for (size_t i = 0; i < rules->rate_count; i++)
        cJSON_AddItemToArray(rates, cJSON_CreateString(rules->rates[i]));
}

const char *const image_changes_names[] = {"auto", "none", "small", "large", NULL};

/* Only of networks whose samples these decide, so that settings of others stay as they are. */
static void add_samples(cJSON *object, const struct train_config *config)
{
    const enum model_samples samples = model_samples_of(&config->shape);
    if (samples == SAMPLES_OF_TEXTS)
        cJSON_AddStringToObject(object, "task", config->classify ? "classify" : "pretrain");
    if (config->whole_words)
        cJSON_AddBoolToObject(object, "whole_words", true);
    if (samples != SAMPLES_OF_IMAGES)
        return;
    cJSON_AddStringToObject(object, "augment", image_changes_names[config->images.changes]);
    cJSON_AddNumberToObject(object, "mixup", config->images.mixup);
    cJSON_AddNumberToObject(object, "erase", config->images.erase);
    if (config->sync_batch_norm)
        cJSON_AddBoolToObject(object, "sync_batch_norm", true);
}

static void add_identity(cJSON *object, const struct dataset_identity *data)
{
    char text[64] = "random";
    if (data->tokens)
        snprintf(text, sizeof text, "%" PRIu64 " tokens with hash %016" PRIx64, data->tokens, data->hash);
    cJSON_AddStringToObject(object, "data_identity", text);
}

cJSON *settings_describe(const struct train_config *config, const struct dataset_identity *data)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "optimizer", optimizer_names[config->optimizer.kind]);
    cJSON_AddStringToObject(object, "data", config->data);
    if (data)
        add_identity(object, data);
    cJSON_AddNumberToObject(object, "steps", (double)config->steps);
    cJSON_AddNumberToObject(object, "batch", (double)config->batch);
    cJSON_AddNumberToObject(object, "micro_batch", (double)config->micro_batch);
    cJSON_AddNumberToObject(object, "sequence", (double)config->sequence);
    cJSON_AddStringToObject(object, "precision", weft_type_name(config->activations));
    cJSON_AddStringToObject(object, "gradients", weft_type_name(config->gradients));
    cJSON_AddNumberToObject(object, "learning_rate", config->rate);
    cJSON_AddStringToObject(object, "rate_shape", learning_rate_shapes[config->rate_shape]);
    cJSON_AddNumberToObject(object, "floor_share", config->floor_share);
    cJSON_AddNumberToObject(object, "warmup", (double)config->warmup);
    cJSON_AddStringToObject(object, "scale_rate", learning_rate_scalings[config->scaling]);
    cJSON_AddNumberToObject(object, "beta1", config->optimizer.beta1);
    cJSON_AddNumberToObject(object, "beta2", config->optimizer.beta2);
    cJSON_AddNumberToObject(object, "epsilon", config->optimizer.epsilon);
    cJSON_AddNumberToObject(object, "momentum", config->optimizer.momentum);
    cJSON_AddNumberToObject(object, "trust", config->optimizer.trust);
    cJSON_AddNumberToObject(object, "weight_decay", config->optimizer.weight_decay);
    cJSON_AddNumberToObject(object, "clip", config->clip);
    cJSON_AddNumberToObject(object, "dropout", config->dropout);
    cJSON_AddNumberToObject(object, "label_smoothing", config->label_smoothing);
    add_samples(object, config);
    add_rules(object, &config->rules);
    if (config->patience) { /* they decide when it ends, and which evaluation is the best */
        cJSON_AddNumberToObject(object, "evaluate_every", (double)config->evaluate_every);
        cJSON_AddNumberToObject(object, "evaluate_sequences", (double)config->evaluate_sequences);
    }
    return object;
}

/* ---- names ---- */

/* Whether `name`, of `length` bytes, is among `names`. */
static bool settings_is_named(const char *names, const char *name, size_t length)
{
    while (names) {
        const size_t part = strcspn(names, ",");
        if (part == length && memcmp(names, name, length) == 0)
            return true;
        names = names[part] ? names + part + 1 : NULL;
    }
    return false;
}

weft_status settings_check_names(const char *names, struct error *error)
{
    char known[SETTINGS_TEXT_BYTES];
    size_t length = 0;
    for (size_t i = 0; i < SETTINGS; i++)
        length += (size_t)snprintf(known + length, sizeof known - length, "%s%s", i ? "," : "", settings[i].option);
    while (names) {
        const size_t part = strcspn(names, ",");
        if (!settings_is_named(known, names, part))
            return error_set(error, WEFT_ERROR_ARGUMENT,
                             "--resume-change names '%.*s', which is not a setting that can change; these are: %s",
                             (int)part, names, known);
        names = names[part] ? names + part + 1 : NULL;
    }
    return WEFT_OK;
}

/* ---- comparing ---- */

/* A value as its option takes it. */
static const char *settings_value_text(const cJSON *value, char text[SETTINGS_TEXT_BYTES])
{
    char *printed = value && !cJSON_IsString(value) ? cJSON_PrintUnformatted(value) : NULL;
    const char *string = cJSON_GetStringValue(value);
    snprintf(text, SETTINGS_TEXT_BYTES, "%s", printed ? printed : string ? string : "not set");
    cJSON_free(printed);
    return text;
}

static bool differs(const struct setting *setting, const cJSON *there, const cJSON *here, enum optimizer_kind kind)
{
    if (setting->optimizers && !(setting->optimizers & 1u << kind))
        return false;
    if (!there && !here)
        return false;
    if (!there || !here)
        return setting->may_lack;
    return !cJSON_Compare(there, here, true);
}

/* Append a difference to a list. What does not fit is left out. */
static void settings_add(char list[SETTINGS_TEXT_BYTES], const char *text)
{
    const size_t length = strlen(list), room = SETTINGS_TEXT_BYTES - length;
    if ((size_t)snprintf(list + length, room, "%s%s", length ? ", " : "", text) >= room)
        list[length] = 0;
}

weft_status settings_match(const cJSON *there, const struct train_config *config, const struct dataset_identity *data,
                           const char *checkpoint, char changes[SETTINGS_TEXT_BYTES], struct error *error)
{
    char refused[SETTINGS_TEXT_BYTES] = "", names[SETTINGS_TEXT_BYTES] = "", before[SETTINGS_TEXT_BYTES],
         now[SETTINGS_TEXT_BYTES], text[3 * SETTINGS_TEXT_BYTES];
    cJSON *described = settings_describe(config, data);
    *changes = 0;
    for (size_t i = 0; there && i < SETTINGS; i++) {
        const struct setting *setting = &settings[i];
        const cJSON *old = cJSON_GetObjectItemCaseSensitive(there, setting->key),
                    *new = cJSON_GetObjectItemCaseSensitive(described, setting->key);
        if (!differs(setting, old, new, config->optimizer.kind))
            continue;
        const bool accepted =
            setting->may_change || settings_is_named(config->resume_change, setting->option, strlen(setting->option));
        snprintf(text, sizeof text, accepted ? "--%s from %s to %s" : "--%s %s (here %s)", setting->option,
                 settings_value_text(old, before), settings_value_text(new, now));
        settings_add(accepted ? changes : refused, text);
        if (!accepted)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", *names ? "," : "", setting->option);
    }
    cJSON_Delete(described);
    if (!*refused)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_DATA,
                     "the checkpoint '%s' is of a run with %s: resumed with other options it would not give the bits "
                     "of an uninterrupted run; give the same ones, or change them on purpose with --resume-change %s",
                     checkpoint, refused, names);
}
