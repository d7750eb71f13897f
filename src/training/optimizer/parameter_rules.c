/* SPDX-License-Identifier: Apache-2.0 */
#include "training/optimizer/parameter_rules.h"

#include "base/text.h"
#include "training/optimizer/optimizer.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATTERN_BYTES 256

/* ---- patterns ---- */

/* Find the first range "A-B" between two dots, and where it begins and ends. */
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

/* Match a pattern without ranges with the whole name, or with the part before one of its dots. */
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

static void keep_nearest(const char *pattern, const char *candidate, char nearest[MODEL_NAME_BYTES])
{
    const char *const both[] = {nearest, candidate};
    if (text_nearest(pattern, both, 2) == candidate)
        snprintf(nearest, MODEL_NAME_BYTES, "%s", candidate);
}

/* Users write whole names, or the part before a dot. */
static weft_status nothing_matches(const struct model_description *description, const char *option, const char *pattern,
                                   struct error *error)
{
    char nearest[MODEL_NAME_BYTES] = "";
    for (size_t i = 0; i < description->parameter_count; i++) {
        const char *name = description->parameters[i].name;
        for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
            char leading[MODEL_NAME_BYTES];
            snprintf(leading, sizeof leading, "%.*s", (int)(dot - name), name);
            keep_nearest(pattern, leading, nearest);
        }
        keep_nearest(pattern, name, nearest);
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

/* ---- rules ---- */

/* "PATTERNS=FACTOR" */
static weft_status apply_rate(const struct model_description *description, struct model_parameter *changed,
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
            changed[i].rate_factor = factor;
    return status;
}

static weft_status apply_rules(const struct model_description *description, struct model_parameter *changed,
                               const struct parameter_rules *rules, bool *matched, struct error *error)
{
    weft_status status = WEFT_OK;
    const size_t count = description->parameter_count;
    bool trained = false;
    for (size_t r = 0; status == WEFT_OK && r < rules->rate_count; r++)
        status = apply_rate(description, changed, rules->rates[r], matched, error);
    if (status == WEFT_OK && rules->no_decay) {
        status = match_list(description, "--no-decay", rules->no_decay, strlen(rules->no_decay), matched, error);
        for (size_t i = 0; status == WEFT_OK && i < count; i++)
            changed[i].decay = changed[i].decay && !matched[i];
    }
    if (status == WEFT_OK && rules->freeze) {
        status = match_list(description, "--freeze", rules->freeze, strlen(rules->freeze), matched, error);
        for (size_t i = 0; status == WEFT_OK && i < count; i++) {
            if (!matched[i])
                continue;
            changed[i].frozen = true;
            changed[i].decay = false;
            changed[i].rate_factor = 0;
        }
        for (size_t i = 0; i < count; i++)
            trained |= optimizer_counts(&changed[i]);
        if (status == WEFT_OK && !trained)
            status = error_set(error, WEFT_ERROR_ARGUMENT,
                               "--freeze '%s' freezes every tensor: nothing is left to train", rules->freeze);
    }
    return status;
}

weft_status parameter_rules_apply(const struct parameter_rules *rules, struct model_description *description,
                                  struct error *error)
{
    const size_t count = description->parameter_count;
    struct model_parameter *changed = malloc(count * sizeof *changed);
    bool *matched = calloc(count, sizeof *matched);
    weft_status status = WEFT_OK;
    if (!changed || !matched) {
        status = error_memory(error, count * sizeof *changed, "the rules for a model's parameters");
    } else {
        memcpy(changed, description->parameters, count * sizeof *changed);
        status = apply_rules(description, changed, rules, matched, error);
        if (status == WEFT_OK)
            memcpy(description->parameters, changed, count * sizeof *changed);
        model_lay_out_parameters(description);
    }
    free(changed);
    free(matched);
    return status;
}
