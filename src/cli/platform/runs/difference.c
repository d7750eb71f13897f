/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/platform/runs/difference.h"

#include "base/format/json.h"
#include "base/text.h"
#include "cli/frame/arguments.h"
#include "cli/frame/moments.h"
#include "cli/platform/client/client.h"
#include "cli/platform/client/metric_value.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- the list ---- */

static char *difference_copy(struct run_differences *differences, const char *text)
{
    char *made = text ? strdup(text) : NULL;
    differences->failed = differences->failed || (text && !made);
    return made;
}

/* Record a difference, unless both sides are the same. */
static void difference_note(struct run_differences *differences, const char *section, const char *what,
                            const char *left, const char *right)
{
    if ((!left && !right) || (left && right && strcmp(left, right) == 0))
        return;
    if (ARRAY_RESERVE(differences->list, differences->room, differences->count + 1, "differences", NULL) != WEFT_OK) {
        differences->failed = true;
        return;
    }
    differences->list[differences->count++] = (struct run_difference){.section = section,
                                                                      .what = difference_copy(differences, what),
                                                                      .left = difference_copy(differences, left),
                                                                      .right = difference_copy(differences, right)};
}

void run_differences_free(struct run_differences *differences)
{
    for (size_t i = 0; i < differences->count; i++) {
        free(differences->list[i].what);
        free(differences->list[i].left);
        free(differences->list[i].right);
    }
    free(differences->list);
    *differences = (struct run_differences){0};
}

/* ---- objects: specification and environment ---- */

/* For these keys, 0 means that nothing was asked for. */
static bool is_nothing_at_0(const char *key)
{
    return key && (strcmp(key, "parent") == 0 || strcmp(key, "processors") == 0 || strcmp(key, "memory") == 0 ||
                   strcmp(key, "processes") == 0 || strcmp(key, "disk") == 0 || strcmp(key, "time_slice") == 0);
}

/* Format a value into `buffer`; NULL if it is missing or empty. */
static const char *difference_value_text(const cJSON *item, char *buffer, size_t size)
{
    if (!item || cJSON_IsNull(item) || (cJSON_IsString(item) && !*item->valuestring) ||
        (cJSON_IsNumber(item) && item->valuedouble == 0 && is_nothing_at_0(item->string)))
        return NULL;
    if (cJSON_IsString(item))
        snprintf(buffer, size, "%s", item->valuestring);
    else if (cJSON_IsBool(item))
        snprintf(buffer, size, "%s", cJSON_IsTrue(item) ? "yes" : "no");
    else if (cJSON_IsNumber(item))
        snprintf(buffer, size, "%.15g", item->valuedouble);
    else
        return NULL;
    return buffer;
}

static bool is_left_out(const char *key, const char *const *left_out)
{
    for (; left_out && *left_out; left_out++)
        if (strcmp(key, *left_out) == 0)
            return true;
    return false;
}

/* Compare the values of two objects, in the order of the left one. */
static void compare_objects(struct run_differences *differences, const char *section, const cJSON *left,
                            const cJSON *right, const char *const *left_out)
{
    char texts[2][4096];
    const cJSON *item;
    cJSON_ArrayForEach(item, left) {
        if (!is_left_out(item->string, left_out))
            difference_note(differences, section, item->string, difference_value_text(item, texts[0], sizeof texts[0]),
                            difference_value_text(field(right, item->string), texts[1], sizeof texts[1]));
    }
    cJSON_ArrayForEach(item, right) {
        if (!is_left_out(item->string, left_out) && !field(left, item->string))
            difference_note(differences, section, item->string, NULL,
                            difference_value_text(item, texts[1], sizeof texts[1]));
    }
}

/* ---- arguments ---- */

struct divided {
    const char **words;
    struct argument *list;
    size_t count;
};

static weft_status difference_divide(const cJSON *command, struct divided *divided, struct error *error)
{
    size_t count = 0;
    const cJSON *word;
    divided->words = calloc((size_t)cJSON_GetArraySize(command) + 1, sizeof *divided->words);
    if (!divided->words)
        return error_memory(error, sizeof *divided->words, "arguments");
    cJSON_ArrayForEach(word, command)
        divided->words[count++] = cJSON_IsString(word) ? word->valuestring : "";
    return arguments_divide(divided->words, count, &divided->list, &divided->count, error);
}

/* Move the words among the arguments to the front of the list; returns their number. */
static size_t keep_words(struct divided *divided)
{
    size_t kept = 0;
    for (size_t i = 0; i < divided->count; i++)
        if (divided->list[i].name_length == 0)
            divided->list[kept++] = divided->list[i];
    return kept;
}

/* Words have no names: skip those that are the same at both ends; all between them differ. */
static void difference_compare_words(struct run_differences *differences, struct divided *left, struct divided *right)
{
    size_t left_count = keep_words(left), right_count = keep_words(right), begin = 0;
    while (begin < left_count && begin < right_count &&
           strcmp(left->list[begin].words[0], right->list[begin].words[0]) == 0)
        begin++;
    while (left_count > begin && right_count > begin &&
           strcmp(left->list[left_count - 1].words[0], right->list[right_count - 1].words[0]) == 0) {
        left_count--;
        right_count--;
    }
    for (size_t i = begin; i < left_count || i < right_count; i++)
        difference_note(differences, "arguments", "", i < left_count ? left->list[i].words[0] : NULL,
                        i < right_count ? right->list[i].words[0] : NULL);
}

static void note_option(struct run_differences *differences, const struct argument *left, const struct argument *right)
{
    char name[256];
    const struct argument *any = left ? left : right;
    snprintf(name, sizeof name, "%.*s", (int)any->name_length, any->words[0]);
    difference_note(differences, "arguments", name, left ? left->value ? left->value : "" : NULL,
                    right ? right->value ? right->value : "" : NULL);
}

static void compare_options(struct run_differences *differences, const struct divided *left,
                            const struct divided *right, bool *used)
{
    for (size_t i = 0; i < left->count; i++) {
        size_t k = 0;
        if (left->list[i].name_length == 0)
            continue;
        while (k < right->count && (used[k] || !argument_is_same_option(&left->list[i], &right->list[k])))
            k++;
        if (k < right->count)
            used[k] = true;
        note_option(differences, &left->list[i], k < right->count ? &right->list[k] : NULL);
    }
    for (size_t k = 0; k < right->count; k++)
        if (!used[k] && right->list[k].name_length > 0)
            note_option(differences, NULL, &right->list[k]);
}

static weft_status compare_commands(struct run_differences *differences, const cJSON *left, const cJSON *right,
                                    struct error *error)
{
    struct divided divided[2] = {{0}};
    bool *used = NULL;
    weft_status status = difference_divide(left, &divided[0], error);
    if (status == WEFT_OK)
        status = difference_divide(right, &divided[1], error);
    if (status == WEFT_OK && !(used = calloc(divided[1].count + 1, sizeof *used)))
        status = error_memory(error, divided[1].count, "arguments");
    if (status == WEFT_OK) {
        compare_options(differences, &divided[0], &divided[1], used);
        difference_compare_words(differences, &divided[0], &divided[1]);
    }
    free(used);
    for (int i = 0; i < 2; i++) {
        free(divided[i].list);
        free(divided[i].words);
    }
    return status;
}

/* ---- code ---- */

/* Describe an entry of a snapshot, so that different entries have different descriptions. */
static const char *entry_text(const cJSON *entry, char *buffer, size_t size)
{
    const char *kind = field_text(entry, "kind");
    char bytes[32];
    if (!entry)
        return NULL;
    if (strcmp(kind, "folder") == 0)
        snprintf(buffer, size, "a directory");
    else if (strcmp(kind, "link") == 0)
        snprintf(buffer, size, "a link to %s", field_text(entry, "target"));
    else
        snprintf(buffer, size, "%s%s, %.8s", strcmp(kind, "program") == 0 ? "executable, " : "",
                 text_bytes((uint64_t)field_integer(entry, "bytes"), bytes, sizeof bytes),
                 field_text(entry, "content"));
    return buffer;
}

/* Entries are compared as two lists sorted by path, whatever order the server has. */
static int difference_by_path(const void *left, const void *right)
{
    return strcmp(field_text(*(const cJSON *const *)left, "path"), field_text(*(const cJSON *const *)right, "path"));
}

static const cJSON **sorted(const cJSON *entries, size_t *count)
{
    const cJSON **list = calloc((size_t)cJSON_GetArraySize(entries) + 1, sizeof *list), *entry;
    *count = 0;
    if (!list)
        return NULL;
    cJSON_ArrayForEach(entry, entries)
        list[(*count)++] = entry;
    qsort(list, *count, sizeof *list, difference_by_path);
    return list;
}

static weft_status difference_compare_entries(struct run_differences *differences, const cJSON *left,
                                              const cJSON *right, struct error *error)
{
    size_t counts[2], i = 0, k = 0;
    char texts[2][4200];
    const cJSON **lists[2] = {sorted(left, &counts[0]), sorted(right, &counts[1])};
    while (lists[0] && lists[1] && (i < counts[0] || k < counts[1])) {
        const cJSON *a = i < counts[0] ? lists[0][i] : NULL, *b = k < counts[1] ? lists[1][k] : NULL;
        int order = !a ? 1 : !b ? -1 : difference_by_path(&a, &b);
        i += order <= 0;
        k += order >= 0;
        difference_note(differences, "code", field_text(order <= 0 ? a : b, "path"),
                        entry_text(order <= 0 ? a : NULL, texts[0], sizeof texts[0]),
                        entry_text(order >= 0 ? b : NULL, texts[1], sizeof texts[1]));
    }
    bool whole = lists[0] && lists[1];
    free(lists[0]);
    free(lists[1]);
    return whole ? WEFT_OK : error_memory(error, sizeof(cJSON *), "lists of files");
}

static weft_status compare_code(struct run_differences *differences, const struct run_compared *left,
                                const struct run_compared *right, struct error *error)
{
    static const char *const keys[] = {"commit", "snapshot"};
    const cJSON *specifications[] = {field(left->run, "specification"), field(right->run, "specification")};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *texts[] = {field_text(specifications[0], keys[i]), field_text(specifications[1], keys[i])};
        difference_note(differences, "code", keys[i], *texts[0] ? texts[0] : NULL, *texts[1] ? texts[1] : NULL);
    }
    return left->entries && right->entries
               ? difference_compare_entries(differences, left->entries, right->entries, error)
               : WEFT_OK;
}

/* ---- result ---- */

static const char *difference_ran_text(const cJSON *run, char buffer[MOMENT_BYTES])
{
    return field_number(run, "served_ms") >= 100 ? moment_span(field_integer(run, "served_ms"), buffer) : NULL;
}

/* Measurements of the machine always differ and are not results. */
static bool is_measured(const char *name)
{
    return strncmp(name, "system/", strlen("system/")) == 0;
}

/* The metric called `name`, or NULL. *at starts at the first metric of a list sorted by name and moves forward, so
 * calls must come in that order too. */
static const cJSON *metric_called(const cJSON **at, const char *name)
{
    while (*at && strcmp(field_text(*at, "name"), name) < 0)
        *at = (*at)->next;
    return *at && strcmp(field_text(*at, "name"), name) == 0 ? *at : NULL;
}

static const char *last_text(const cJSON *metric, char *buffer, size_t size)
{
    const cJSON *last = field(metric, "last");
    if (!last)
        return NULL;
    if (field_present(last, "step"))
        snprintf(buffer, size, "%.6g at step %" PRId64, metric_value_of(field(last, "value")),
                 field_integer(last, "step"));
    else
        snprintf(buffer, size, "%.6g", metric_value_of(field(last, "value")));
    return buffer;
}

static void compare_results(struct run_differences *differences, const struct run_compared *left,
                            const struct run_compared *right)
{
    static const char *const keys[] = {"state", "reason", "epoch", "program_failures", "platform_failures"};
    static const char *const names[] = {"state", "reason", "attempts", "failures of the program",
                                        "failures of the platform"};
    char texts[2][1024], spans[2][MOMENT_BYTES];
    const cJSON *metric;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        difference_note(differences, "result", names[i],
                        difference_value_text(field(left->run, keys[i]), texts[0], sizeof texts[0]),
                        difference_value_text(field(right->run, keys[i]), texts[1], sizeof texts[1]));
    difference_note(differences, "result", "ran for", difference_ran_text(left->run, spans[0]),
                    difference_ran_text(right->run, spans[1]));
    if (!left->metrics || !right->metrics)
        return;
    const cJSON *at = right->metrics->child;
    cJSON_ArrayForEach(metric, left->metrics) {
        const char *name = field_text(metric, "name");
        if (is_measured(name))
            continue;
        difference_note(differences, "result", name, last_text(metric, texts[0], sizeof texts[0]),
                        last_text(metric_called(&at, name), texts[1], sizeof texts[1]));
    }
    at = left->metrics->child;
    cJSON_ArrayForEach(metric, right->metrics) {
        const char *name = field_text(metric, "name");
        if (!is_measured(name) && !metric_called(&at, name))
            difference_note(differences, "result", name, NULL, last_text(metric, texts[1], sizeof texts[1]));
    }
}

/* ---- all of it ---- */

weft_status run_differences_find(const struct run_compared *left, const struct run_compared *right,
                                 struct run_differences *differences, struct error *error)
{
    static const char *const elsewhere[] = {"command", "environment", "snapshot", "commit", NULL};
    const cJSON *a = field(left->run, "specification"), *b = field(right->run, "specification");
    struct run_differences found = {0};
    compare_objects(&found, "specification", a, b, elsewhere);
    weft_status status = compare_commands(&found, field(a, "command"), field(b, "command"), error);
    if (status == WEFT_OK) {
        compare_objects(&found, "environment", field(a, "environment"), field(b, "environment"), NULL);
        status = compare_code(&found, left, right, error);
    }
    if (status == WEFT_OK) {
        compare_results(&found, left, right);
        if (found.failed)
            status = error_memory(error, found.count * sizeof *found.list, "differences");
    }
    if (status != WEFT_OK) {
        run_differences_free(&found);
        return status;
    }
    *differences = found;
    return WEFT_OK;
}

static void print_side(FILE *output, char sign, const struct run_difference *difference, const char *value)
{
    char text[8192];
    if (!value)
        return;
    const char *between = !*difference->what || !*value                     ? ""
                          : strcmp(difference->section, "environment") == 0 ? "="
                                                                            : " ";
    snprintf(text, sizeof text, "%s%s%s", difference->what, between, value);
    fprintf(output, "%c %s\n", sign, text_printable(text));
}

void run_differences_print(const struct run_differences *differences, FILE *output)
{
    const char *section = "";
    for (size_t i = 0; i < differences->count; i++) {
        const struct run_difference *difference = &differences->list[i];
        if (strcmp(section, difference->section) != 0)
            fprintf(output, "\n%s\n", difference->section);
        section = difference->section;
        print_side(output, '-', difference, difference->left);
        print_side(output, '+', difference, difference->right);
    }
}
