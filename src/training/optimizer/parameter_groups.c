/* SPDX-License-Identifier: Apache-2.0 */
#include "training/optimizer/parameter_groups.h"

#include "base/text.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATTERN_BYTES 256

/* ---- patterns ---- */

/* The first "A-B" that stands alone between dots: where it begins and ends. */
static bool find_range(const char *pattern, size_t *begin, size_t *end, unsigned long *first, unsigned long *last)
{
    for (const char *part = pattern;; part++) {
        char *dash, *stop;
        if (isdigit((unsigned char)*part)) {
            *first = strtoul(part, &dash, 10);
            if (*dash == '-' && isdigit((unsigned char)dash[1])) {
                *last = strtoul(dash + 1, &stop, 10);
                if (*stop == '.' || *stop == '\0') {
                    *begin = (size_t)(part - pattern);
                    *end = (size_t)(stop - pattern);
                    return true;
                }
            }
        }
        part = strchr(part, '.');
        if (!part)
            return false;
    }
}

/* Without ranges: the whole name, or what stands before one of its dots. */
static bool matches_plain(const char *pattern, const char *name)
{
    char leading[MODEL_NAME_BYTES];
    if (fnmatch(pattern, name, 0) == 0)
        return true;
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
        snprintf(leading, sizeof leading, "%.*s", (int)(dot - name), name);
        if (fnmatch(pattern, leading, 0) == 0)
            return true;
    }
    return false;
}

bool parameter_pattern_matches(const char *pattern, const char *name)
{
    size_t begin, end;
    unsigned long first, last;
    if (!find_range(pattern, &begin, &end, &first, &last))
        return matches_plain(pattern, name);
    /* Only numbers that the name has can match. */
    for (const char *digit = name; *digit; digit++) {
        if (!isdigit((unsigned char)*digit) || (digit > name && digit[-1] != '.'))
            continue;
        char *stop, one[PATTERN_BYTES + 24];
        unsigned long number = strtoul(digit, &stop, 10);
        if ((*stop != '.' && *stop != '\0') || number < first || number > last)
            continue;
        snprintf(one, sizeof one, "%.*s%lu%s", (int)begin, pattern, number, pattern + end);
        if (parameter_pattern_matches(one, name))
            return true;
    }
    return false;
}

static void keep_nearer(const char *pattern, const char *candidate, char nearest[MODEL_NAME_BYTES])
{
    const char *const both[] = {nearest, candidate};
    if (text_nearest(pattern, both, 2) == candidate)
        snprintf(nearest, MODEL_NAME_BYTES, "%s", candidate);
}

/* Names, and what stands before their dots, are what people write. */
static weft_status nothing_matches(const struct model_description *description, const char *option, const char *pattern,
                                   struct error *error)
{
    char nearest[MODEL_NAME_BYTES] = "";
    for (size_t i = 0; i < description->parameter_count; i++) {
        const char *name = description->parameters[i].name;
        for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
            char leading[MODEL_NAME_BYTES];
            snprintf(leading, sizeof leading, "%.*s", (int)(dot - name), name);
            keep_nearer(pattern, leading, nearest);
        }
        keep_nearer(pattern, name, nearest);
    }
    return error_set(error, WEFT_ERROR_ARGUMENT, "%s: the model has no tensor '%s'; the nearest is '%s'", option,
                     pattern, *nearest ? nearest : description->parameters[0].name);
}

/* Mark the parameters that one of the patterns in `list` (`length` bytes) names. */
static weft_status match_list(const struct model_description *description, const char *option, const char *list,
                              size_t length, bool *matched, struct error *error)
{
    memset(matched, 0, description->parameter_count * sizeof *matched);
    for (size_t done = 0; done <= length;) {
        char pattern[PATTERN_BYTES];
        const char *comma = memchr(list + done, ',', length - done);
        const size_t size = (comma ? (size_t)(comma - list) : length) - done;
        if (size == 0 || size >= sizeof pattern)
            return error_set(error, WEFT_ERROR_ARGUMENT,
                             "%s '%.*s' has a pattern of %zu letters; each must have from 1 to %d", option,
                             length < PATTERN_BYTES ? (int)length : PATTERN_BYTES, list, size, PATTERN_BYTES - 1);
        snprintf(pattern, sizeof pattern, "%.*s", (int)size, list + done);
        bool any = false;
        for (size_t i = 0; i < description->parameter_count; i++)
            if (parameter_pattern_matches(pattern, description->parameters[i].name))
                any = matched[i] = true;
        if (!any)
            return nothing_matches(description, option, pattern, error);
        done += size + 1;
    }
    return WEFT_OK;
}

/* ---- groups ---- */

/* "PATTERNS=FACTOR" */
static weft_status apply_rate(struct parameter_groups *groups, const struct model_description *description,
                              const char *rule, bool *matched, struct error *error)
{
    double factor;
    const char *equals = strrchr(rule, '=');
    if (!equals)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--rate-for '%s' has no factor; write PATTERN=FACTOR, as in 'wte=0.1'", rule);
    weft_status status = text_parse_number(equals + 1, "--rate-for", 0, 1000, &factor, error);
    if (status == WEFT_OK)
        status = match_list(description, "--rate-for", rule, (size_t)(equals - rule), matched, error);
    for (size_t i = 0; status == WEFT_OK && i < description->parameter_count; i++)
        if (matched[i])
            groups->of[i].rate = factor;
    return status;
}

static weft_status apply_rules(struct parameter_groups *groups, const struct model_description *description,
                               const struct parameter_rules *rules, bool *matched, struct error *error)
{
    weft_status status = WEFT_OK;
    const size_t count = description->parameter_count;
    for (size_t i = 0; i < count; i++)
        groups->of[i] = (struct parameter_group){.rate = 1, .decays = description->parameters[i].decay};
    for (size_t r = 0; status == WEFT_OK && r < rules->rate_count; r++)
        status = apply_rate(groups, description, rules->rates[r], matched, error);
    if (status == WEFT_OK && rules->no_decay) {
        status = match_list(description, "--no-decay", rules->no_decay, strlen(rules->no_decay), matched, error);
        for (size_t i = 0; status == WEFT_OK && i < count; i++)
            groups->of[i].decays = groups->of[i].decays && !matched[i];
    }
    if (status == WEFT_OK && rules->freeze) {
        status = match_list(description, "--freeze", rules->freeze, strlen(rules->freeze), matched, error);
        for (size_t i = 0; status == WEFT_OK && i < count; i++)
            if (matched[i])
                groups->of[i] = (struct parameter_group){.frozen = true};
    }
    return status;
}

weft_status parameter_groups_open(struct parameter_groups *result, const struct model_description *description,
                                  const struct parameter_rules *rules, struct error *error)
{
    const size_t count = description->parameter_count;
    struct parameter_groups groups = {.of = calloc(count, sizeof *groups.of)};
    bool *matched = calloc(count, sizeof *matched);
    weft_status status = WEFT_OK;
    if (!groups.of || !matched)
        status = error_memory(error, count * sizeof *groups.of, "the groups of a model's parameters");
    if (status == WEFT_OK)
        status = apply_rules(&groups, description, rules, matched, error);
    free(matched);
    if (status != WEFT_OK) {
        free(groups.of);
        return status;
    }
    groups.first_trainable = count;
    for (size_t i = count; i-- > 0;) {
        if (groups.of[i].frozen)
            groups.frozen_weights += description->parameters[i].count;
        else
            groups.first_trainable = i;
    }
    if (groups.first_trainable == count) {
        free(groups.of);
        return error_set(error, WEFT_ERROR_ARGUMENT, "--freeze '%s' freezes every tensor: nothing is left to train",
                         rules->freeze);
    }
    *result = groups;
    return WEFT_OK;
}

void parameter_groups_close(struct parameter_groups *groups)
{
    free(groups->of);
    *groups = (struct parameter_groups){0};
}

size_t parameter_groups_run(const struct parameter_groups *groups, const struct model_description *description,
                            size_t i)
{
    const struct parameter_group *group = &groups->of[i];
    size_t next = i + 1;
    while (next < description->parameter_count && groups->of[next].frozen == group->frozen &&
           groups->of[next].decays == group->decays && groups->of[next].rate == group->rate)
        next++;
    return next;
}

void parameter_groups_clear_frozen(const struct parameter_groups *groups, const struct model_description *description,
                                   struct device *device, size_t first, size_t count, void *array)
{
    const size_t end = first + count;
    for (size_t i = 0, next; groups->frozen_weights && i < description->parameter_count; i = next) {
        next = parameter_groups_run(groups, description, i);
        size_t from = description->parameters[i].offset,
               to = next < description->parameter_count ? description->parameters[next].offset : description->elements;
        if (from < first)
            from = first;
        if (to > end)
            to = end;
        if (groups->of[i].frozen && from < to)
            device->fill(device, to - from, 0, (char *)array + (from - first) * weft_type_size(device->type));
    }
}
