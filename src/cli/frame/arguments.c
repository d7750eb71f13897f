/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/frame/arguments.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_option(const char *word)
{
    bool number = isdigit((unsigned char)word[1]) || (word[1] == '.' && isdigit((unsigned char)word[2]));
    return word[0] == '-' && word[1] && !number && strcmp(word, "--") != 0;
}

weft_status arguments_divide(const char *const *words, size_t count, struct argument **list, size_t *arguments,
                             struct error *error)
{
    struct argument *found = calloc(count + 1, sizeof *found);
    size_t used = 0;
    if (!found)
        return error_memory(error, (count + 1) * sizeof *found, "arguments");
    for (size_t i = 0; i < count; i++) {
        struct argument *argument = &found[used++];
        argument->words[0] = words[i];
        if (!is_option(words[i]))
            continue;
        argument->name_length = strcspn(words[i], "=");
        if (words[i][argument->name_length]) {
            argument->value = words[i] + argument->name_length + 1;
        } else if (i + 1 < count && !is_option(words[i + 1]) && strcmp(words[i + 1], "--") != 0) {
            argument->words[1] = argument->value = words[++i];
        }
    }
    *list = found;
    *arguments = used;
    return WEFT_OK;
}

bool argument_is_same_option(const struct argument *left, const struct argument *right)
{
    return left->name_length > 0 && left->name_length == right->name_length &&
           strncmp(left->words[0], right->words[0], left->name_length) == 0;
}

/* Make one change to the list, which has room for one more. */
static void frame_arguments_change(struct argument *list, size_t *count, const struct argument *argument)
{
    for (size_t i = *count; i-- > 0;) {
        if (!argument_is_same_option(&list[i], argument))
            continue;
        /* A flag that is there already stays: its apparent value may be a separate word. */
        if (argument->value)
            list[i] = *argument;
        return;
    }
    list[(*count)++] = *argument;
}

weft_status arguments_change(const char *const *parent, size_t parent_count, const char *const *changes,
                             size_t change_count, const char ***words, struct error *error)
{
    struct argument *old = NULL, *new = NULL, *all = NULL;
    const char **result = NULL;
    size_t old_count = 0, new_count = 0, used = 0;
    weft_status status = arguments_divide(parent, parent_count, &old, &old_count, error);
    if (status == WEFT_OK)
        status = arguments_divide(changes, change_count, &new, &new_count, error);
    if (status == WEFT_OK) {
        all = realloc(old, (old_count + new_count + 1) * sizeof *all);
        result = calloc(parent_count + 2 * change_count + 1, sizeof *result);
        if (!all || !result)
            status = error_memory(error, (parent_count + change_count) * sizeof *all, "arguments");
        else
            old = NULL;
    }
    if (status == WEFT_OK) {
        for (size_t i = 0; i < new_count; i++)
            frame_arguments_change(all, &old_count, &new[i]);
        for (size_t i = 0; i < old_count; i++)
            for (size_t w = 0; w < 2; w++)
                if (all[i].words[w])
                    result[used++] = all[i].words[w];
        *words = result;
        result = NULL;
    }
    free(result);
    free(all);
    free(new);
    if (!all)
        free(old);
    return status;
}

bool arguments_have(char *const *arguments, const char *name, char letter)
{
    struct argument *list = NULL;
    size_t words = 0, count = 0;
    bool given = false;
    while (arguments && arguments[words])
        words++;
    if (arguments_divide((const char *const *)arguments, words, &list, &count, NULL) != WEFT_OK)
        return false;
    for (size_t i = 0; i < count; i++) {
        const char *word = list[i].words[0];
        if (strncmp(word, "--", 2) == 0)
            given = given || (list[i].name_length == strlen(name) + 2 && strncmp(word + 2, name, strlen(name)) == 0);
        else
            given = given || (letter && word[0] == '-' && word[1] == letter);
    }
    free(list);
    return given;
}
