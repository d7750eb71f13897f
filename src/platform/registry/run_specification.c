/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/registry/run_specification.h"

#include "base/text.h"
#include "platform/registry/secret_store.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum run_specification_kind {
    KIND_NAME,     /* platform_name_check(), or "" */
    KIND_LINE,     /* one printable line */
    KIND_DIGITS,   /* hexadecimal digits: 64, or 40 as well where `most` says so; or "" */
    KIND_INTEGER,  /* from `least` to `most` */
    KIND_DURATION, /* text or seconds, from `least` to `most` */
    KIND_BOOL,
    KIND_CHOICE, /* one of `choices`, an enumeration */
    KIND_ARGUMENTS,
    KIND_ENVIRONMENT,
    KIND_SECRETS,
};

#define FIELD(member)                                                                                                  \
    .offset = offsetof(struct run_specification, member), .size = sizeof((struct run_specification *)0)->member

static const char *const slot_kinds[] = {[SLOT_GPU] = "gpu", [SLOT_CPU] = "cpu", NULL};
static const char *const launches[] = {
    [RUN_LAUNCH_RANKS] = "ranks", [RUN_LAUNCH_NODES] = "nodes", [RUN_LAUNCH_FIRST] = "first", NULL};

/* The keys, in the order in which they are written. */
static const struct run_specification_field {
    const char *key;
    enum run_specification_kind kind;
    size_t offset, size;
    bool required;
    const char *const *choices;  /* their names in the order of the enumeration; ends with NULL */
    int64_t least, most, absent; /* `absent`: the value of what is left out */
} fields[] = {
    {"project", KIND_NAME, FIELD(project), .required = true},
    {"owner", KIND_NAME, FIELD(owner)},
    {"name", KIND_LINE, FIELD(name)},
    {"class", KIND_NAME, FIELD(class_name)},
    {"command", KIND_ARGUMENTS, FIELD(arguments), .required = true},
    {"environment", KIND_ENVIRONMENT, FIELD(environment)},
    {"secrets", KIND_SECRETS, FIELD(secrets)},
    {"nodes", KIND_INTEGER, FIELD(nodes), .least = 1, .most = RUN_NODES_MOST, .absent = 1},
    {"min_nodes", KIND_INTEGER, FIELD(min_nodes), .most = RUN_NODES_MOST},
    {"slots", KIND_INTEGER, FIELD(slots), .least = 1, .most = RUN_SLOTS_MOST, .absent = 1},
    {"slot_kind", KIND_CHOICE, FIELD(slot_kind), .choices = slot_kinds},
    {"launch", KIND_CHOICE, FIELD(launch), .choices = launches},
    {"processors", KIND_INTEGER, FIELD(processors), .most = 65536},
    {"memory", KIND_INTEGER, FIELD(memory), .most = (int64_t)1 << 50},
    {"processes", KIND_INTEGER, FIELD(processes), .most = RUN_PROCESSES_MOST},
    {"disk", KIND_INTEGER, FIELD(disk), .most = (int64_t)1 << 50},
    {"time_limit", KIND_DURATION, FIELD(time_limit), .least = 1, .most = RUN_TIME_MOST,
     .absent = RUN_TIME_LIMIT_DEFAULT},
    {"time_slice", KIND_DURATION, FIELD(time_slice), .most = RUN_TIME_MOST},
    {"preemptible", KIND_BOOL, FIELD(preemptible)},
    {"may_span_pods", KIND_BOOL, FIELD(may_span_pods)},
    {"interactive", KIND_BOOL, FIELD(interactive)},
    {"priority", KIND_INTEGER, FIELD(priority), .least = -100, .most = 100},
    {"retries", KIND_INTEGER, FIELD(retries), .most = 100},
    {"parent", KIND_INTEGER, FIELD(parent), .most = JSON_EXACT - 1},
    {"checkpoint", KIND_LINE, FIELD(checkpoint)},
    {"snapshot", KIND_DIGITS, FIELD(snapshot), .most = 0},
    {"commit", KIND_DIGITS, FIELD(commit), .most = 40},
    {"commit_changed", KIND_BOOL, FIELD(commit_changed)},
};

#define FIELDS ARRAY_SIZE(fields)

/* One specification being read. */
struct run_specification_reading {
    const char *where;
    struct run_specification *to;
    size_t bytes; /* of arguments and environment so far */
    struct error *error;
};

static weft_status run_specification_refuse(const struct run_specification_reading *reading, const char *key,
                                            const char *what)
{
    return error_set(reading->error, WEFT_ERROR_DATA, "'%s' in %s is not %s", key, reading->where, what);
}

static weft_status refuse_character(const struct run_specification_reading *reading, const char *key, const char *text,
                                    bool lines)
{
    char code[TEXT_CODE_BYTES];
    return error_set(reading->error, WEFT_ERROR_DATA, "'%s' in %s contains %s; it must be %s", key, reading->where,
                     text_unprintable_code(text, lines, code),
                     lines ? "printable UTF-8" : "one line of printable UTF-8");
}

/* ---- reading ---- */

static weft_status run_specification_read_text(const struct run_specification_reading *reading,
                                               const struct run_specification_field *field, const cJSON *item, char *to)
{
    if (!cJSON_IsString(item))
        return run_specification_refuse(reading, field->key, "a string");
    const char *text = item->valuestring;
    size_t length = strlen(text);
    if (length >= field->size)
        return error_set(reading->error, WEFT_ERROR_DATA, "'%s' in %s has %zu bytes; %zu are the most", field->key,
                         reading->where, length, field->size - 1);
    if (field->kind == KIND_LINE && !text_is_printable(text, false))
        return refuse_character(reading, field->key, text, false);
    if (field->kind == KIND_DIGITS && length &&
        ((length != 64 && length != (size_t)field->most) || strspn(text, "0123456789abcdef") != length))
        return run_specification_refuse(reading, field->key,
                                        field->most ? "40 or 64 hexadecimal digits in small letters"
                                                    : "64 hexadecimal digits in small letters");
    if (field->kind == KIND_NAME && (length || field->required)) {
        char what[64];
        snprintf(what, sizeof what, "'%s' in %s", field->key, reading->where);
        weft_status status = platform_name_check(text, what, reading->error);
        if (status != WEFT_OK)
            return status;
    }
    memcpy(to, text, length + 1);
    return WEFT_OK;
}

/* A number without a fraction from `least` to `most`, or a duration as text. */
static weft_status read_integer(const struct run_specification_reading *reading,
                                const struct run_specification_field *field, const cJSON *item, int64_t *to)
{
    int64_t value = 0;
    bool duration = field->kind == KIND_DURATION;
    if (duration && cJSON_IsString(item)) {
        if (text_parse_duration(item->valuestring, field->key, &value, NULL) != WEFT_OK)
            return run_specification_refuse(reading, field->key, "a duration such as \"6h\", or seconds");
    } else if (!cJSON_IsNumber(item) || !(fabs(item->valuedouble) < (double)JSON_EXACT) ||
               item->valuedouble != floor(item->valuedouble)) {
        return run_specification_refuse(reading, field->key,
                                        duration ? "a duration such as \"6h\", or seconds" : "a whole number");
    } else {
        value = (int64_t)item->valuedouble;
    }
    if (value < field->least || value > field->most)
        return error_set(reading->error, WEFT_ERROR_DATA,
                         "'%s' in %s is %" PRId64 "%s, but must be from %" PRId64 " to %" PRId64, field->key,
                         reading->where, value, duration ? " s" : "", field->least, field->most);
    *to = value;
    return WEFT_OK;
}

/* Count `item`'s words and bytes before anything is allocated for them. */
static weft_status run_specification_check_words(struct run_specification_reading *reading, const char *key,
                                                 const cJSON *item, size_t *count)
{
    const cJSON *word;
    *count = 0;
    cJSON_ArrayForEach(word, item) {
        if (!cJSON_IsString(word))
            return run_specification_refuse(reading, key, "made of strings only");
        if (!text_is_printable(word->valuestring, true))
            return refuse_character(reading, key, word->valuestring, true);
        if (word->string && !text_is_printable(word->string, false))
            return refuse_character(reading, key, word->string, false);
        reading->bytes += strlen(word->valuestring) + 1 + (word->string ? strlen(word->string) + 1 : 0);
        if (++*count > RUN_WORDS_MOST)
            return error_set(reading->error, WEFT_ERROR_DATA, "'%s' in %s has more than %d entries", key,
                             reading->where, RUN_WORDS_MOST);
    }
    if (reading->bytes > RUN_SPECIFICATION_MOST)
        return error_set(reading->error, WEFT_ERROR_DATA,
                         "command and environment in %s have more than %zu bytes together", reading->where,
                         RUN_SPECIFICATION_MOST);
    return WEFT_OK;
}

static weft_status read_arguments(struct run_specification_reading *reading, const char *key, const cJSON *item)
{
    size_t count;
    if (!cJSON_IsArray(item))
        return run_specification_refuse(reading, key, "an array of strings");
    weft_status status = run_specification_check_words(reading, key, item, &count);
    if (status != WEFT_OK)
        return status;
    if (count == 0 || !*item->child->valuestring)
        return run_specification_refuse(reading, key, "a program with its arguments: it is empty");
    char **words = reading->to->arguments = calloc(count + 1, sizeof *words);
    if (!words)
        return error_memory(reading->error, count * sizeof *words, "a command");
    const cJSON *word;
    cJSON_ArrayForEach(word, item)
        if (!(*words++ = strdup(word->valuestring)))
            return error_memory(reading->error, strlen(word->valuestring), "a command");
    return WEFT_OK;
}

#define VARIABLE_BYTES 256

/* POSIX: letters, digits and '_', not beginning with a digit. */
static bool is_variable(const char *name)
{
    return *name && strlen(name) < VARIABLE_BYTES && !(*name >= '0' && *name <= '9') &&
           name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';
}

static int run_specification_compare_words(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static weft_status run_specification_read_environment(struct run_specification_reading *reading, const char *key,
                                                      const cJSON *item)
{
    size_t count, done = 0;
    if (!cJSON_IsObject(item))
        return run_specification_refuse(reading, key, "an object of strings");
    weft_status status = run_specification_check_words(reading, key, item, &count);
    if (status != WEFT_OK)
        return status;
    char **words = reading->to->environment = calloc(count + 1, sizeof *words);
    if (!words)
        return error_memory(reading->error, count * sizeof *words, "an environment");
    const cJSON *word;
    cJSON_ArrayForEach(word, item) {
        if (!is_variable(word->string))
            return error_set(reading->error, WEFT_ERROR_DATA, "'%s' in %s has '%.64s', which is no name of a variable",
                             key, reading->where, word->string);
        if (asprintf(&words[done], "%s=%s", word->string, word->valuestring) < 0) {
            words[done] = NULL;
            return error_memory(reading->error, strlen(word->valuestring), "an environment");
        }
        done++;
    }
    /* Sorted, so that two specifications can be compared, and so that duplicates are neighbors. */
    qsort(words, count, sizeof *words, run_specification_compare_words);
    for (size_t i = 1; i < count; i++) {
        size_t name = strcspn(words[i], "=") + 1;
        if (strncmp(words[i - 1], words[i], name) == 0)
            return error_set(reading->error, WEFT_ERROR_DATA, "'%s' in %s has '%.*s' twice", key, reading->where,
                             (int)(name - 1), words[i]);
    }
    return WEFT_OK;
}

const char *run_secret_variable(const char *entry, char *name)
{
    const size_t length = strcspn(entry, "=");
    snprintf(name, SECRET_NAME_BYTES, "%.*s", (int)length, entry);
    return entry[length] ? entry + length + 1 : entry;
}

static weft_status read_secrets(struct run_specification_reading *reading, const char *key, const cJSON *item)
{
    size_t count;
    char name[SECRET_NAME_BYTES];
    if (!cJSON_IsArray(item))
        return run_specification_refuse(reading, key, "an array of strings");
    weft_status status = run_specification_check_words(reading, key, item, &count);
    if (status != WEFT_OK)
        return status;
    if (count > RUN_SECRETS_MOST)
        return error_set(reading->error, WEFT_ERROR_DATA, "'%s' in %s has %zu entries; %d are the most", key,
                         reading->where, count, RUN_SECRETS_MOST);
    char **words = reading->to->secrets = calloc(count + 1, sizeof *words);
    if (!words)
        return error_memory(reading->error, count * sizeof *words, "the secrets of a run");
    const cJSON *word;
    cJSON_ArrayForEach(word, item) {
        const char *variable = run_secret_variable(word->valuestring, name);
        if (strcspn(word->valuestring, "=") >= SECRET_NAME_BYTES || !secret_name_is_valid(name) ||
            !is_variable(variable) || strncmp(variable, "WEFT_", 5) == 0)
            return error_set(reading->error, WEFT_ERROR_DATA,
                             "'%s' in %s has '%.130s', but needs NAME or NAME=VARIABLE: letters, digits and _, not "
                             "beginning with a digit, and no variable of Weft's own (WEFT_...)",
                             key, reading->where, word->valuestring);
        if (!(*words++ = strdup(word->valuestring)))
            return error_memory(reading->error, strlen(word->valuestring), "the secrets of a run");
    }
    return WEFT_OK;
}

static weft_status read_choice(const struct run_specification_reading *reading,
                               const struct run_specification_field *field, const cJSON *item, unsigned *to)
{
    char wanted[128] = "";
    for (unsigned i = 0; field->choices[i]; i++) {
        if (cJSON_IsString(item) && strcmp(item->valuestring, field->choices[i]) == 0) {
            *to = i;
            return WEFT_OK;
        }
        size_t used = strlen(wanted);
        const char *before = i == 0 ? "" : field->choices[i + 1] ? ", " : " or ";
        snprintf(wanted + used, sizeof wanted - used, "%s\"%s\"", before, field->choices[i]);
    }
    return run_specification_refuse(reading, field->key, wanted);
}

static weft_status read_field(struct run_specification_reading *reading, const struct run_specification_field *field,
                              const cJSON *item)
{
    void *to = (char *)reading->to + field->offset;
    switch (field->kind) {
    case KIND_NAME:
    case KIND_LINE:
    case KIND_DIGITS:
        return run_specification_read_text(reading, field, item, to);
    case KIND_INTEGER:
    case KIND_DURATION:
        return read_integer(reading, field, item, to);
    case KIND_BOOL:
        if (!cJSON_IsBool(item))
            return run_specification_refuse(reading, field->key, "true or false");
        *(bool *)to = cJSON_IsTrue(item);
        return WEFT_OK;
    case KIND_CHOICE:
        return read_choice(reading, field, item, to);
    case KIND_ARGUMENTS:
        return read_arguments(reading, field->key, item);
    case KIND_ENVIRONMENT:
        return run_specification_read_environment(reading, field->key, item);
    case KIND_SECRETS:
        return read_secrets(reading, field->key, item);
    }
    return WEFT_OK;
}

static weft_status refuse_key(const struct run_specification_reading *reading, const char *key)
{
    const char *keys[FIELDS];
    char shown[64];
    for (size_t i = 0; i < FIELDS; i++)
        keys[i] = fields[i].key;
    snprintf(shown, sizeof shown, "%s", key);
    const char *nearest = text_nearest(text_printable(shown), keys, FIELDS);
    return error_set(reading->error, WEFT_ERROR_DATA, "%s has '%s', which no run has%s%s%s", reading->where, shown,
                     nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

static weft_status run_specification_read_all(struct run_specification_reading *reading, const cJSON *object)
{
    bool seen[FIELDS] = {false};
    if (!cJSON_IsObject(object))
        return error_set(reading->error, WEFT_ERROR_DATA, "%s is no JSON object", reading->where);
    for (size_t i = 0; i < FIELDS; i++)
        if (fields[i].kind == KIND_INTEGER || fields[i].kind == KIND_DURATION)
            *(int64_t *)((char *)reading->to + fields[i].offset) = fields[i].absent;
    const cJSON *item;
    cJSON_ArrayForEach(item, object) {
        size_t i = 0;
        while (i < FIELDS && strcmp(fields[i].key, item->string) != 0)
            i++;
        if (i == FIELDS)
            return refuse_key(reading, item->string);
        if (seen[i])
            return error_set(reading->error, WEFT_ERROR_DATA, "%s has '%s' twice", reading->where, fields[i].key);
        seen[i] = true;
        weft_status status = read_field(reading, &fields[i], item);
        if (status != WEFT_OK)
            return status;
    }
    for (size_t i = 0; i < FIELDS; i++)
        if (fields[i].required && !seen[i])
            return error_set(reading->error, WEFT_ERROR_DATA, "%s lacks '%s'", reading->where, fields[i].key);
    if (reading->to->min_nodes > reading->to->nodes)
        return error_set(reading->error, WEFT_ERROR_DATA,
                         "'min_nodes' in %s is %" PRId64 ", more than its %" PRId64 " node%s", reading->where,
                         reading->to->min_nodes, reading->to->nodes, reading->to->nodes == 1 ? "" : "s");
    if (!*reading->to->class_name)
        strcpy(reading->to->class_name, "batch");
    if (!reading->to->secrets && !(reading->to->secrets = calloc(1, sizeof(char *))))
        return error_memory(reading->error, sizeof(char *), "the secrets of a run");
    if (!reading->to->environment && !(reading->to->environment = calloc(1, sizeof(char *))))
        return error_memory(reading->error, sizeof(char *), "an environment");
    return WEFT_OK;
}

weft_status run_specification_read(const cJSON *object, const char *where, struct run_specification *specification,
                                   struct error *error)
{
    struct run_specification read = {0};
    struct run_specification_reading reading = {.where = where, .to = &read, .error = error};
    weft_status status = run_specification_read_all(&reading, object);
    if (status != WEFT_OK) {
        run_specification_free(&read);
        return status;
    }
    *specification = read;
    return WEFT_OK;
}

weft_status run_specification_parse(const char *text, size_t size, const char *where,
                                    struct run_specification *specification, struct error *error)
{
    cJSON *root;
    weft_status status = json_parse(text, size, where, &root, error);
    if (status != WEFT_OK)
        return status;
    status = run_specification_read(root, where, specification, error);
    cJSON_Delete(root);
    return status;
}

/* ---- writing ---- */

static void write_variable(struct json_writer *writer, const char *variable)
{
    char name[VARIABLE_BYTES];
    size_t length = strcspn(variable, "=");
    snprintf(name, sizeof name, "%.*s", (int)length, variable);
    json_put_text(writer, name, variable + length + 1);
}

static void write_field(struct json_writer *writer, const struct run_specification_field *field,
                        const struct run_specification *specification)
{
    const void *from = (const char *)specification + field->offset;
    char text[64], *const *words = field->kind >= KIND_ARGUMENTS ? *(char **const *)from : NULL;
    switch (field->kind) {
    case KIND_NAME:
    case KIND_LINE:
    case KIND_DIGITS:
        json_put_text(writer, field->key, from);
        break;
    case KIND_INTEGER:
        json_put_integer(writer, field->key, *(const int64_t *)from);
        break;
    case KIND_DURATION:
        if (*(const int64_t *)from)
            json_put_text(writer, field->key, text_duration(*(const int64_t *)from, text, sizeof text));
        else
            json_put_integer(writer, field->key, 0);
        break;
    case KIND_BOOL:
        json_put_bool(writer, field->key, *(const bool *)from);
        break;
    case KIND_CHOICE:
        json_put_text(writer, field->key, field->choices[*(const unsigned *)from]);
        break;
    case KIND_SECRETS:
        if (!words || !*words) /* as in most runs */
            break;
        /* fall through */
    case KIND_ARGUMENTS:
        json_open_array(writer, field->key);
        for (; words && *words; words++)
            json_put_text(writer, NULL, *words);
        json_close(writer);
        break;
    case KIND_ENVIRONMENT:
        json_open_object(writer, field->key);
        for (; words && *words; words++)
            write_variable(writer, *words);
        json_close(writer);
        break;
    }
}

void run_specification_write(struct json_writer *writer, const char *key, const struct run_specification *specification)
{
    json_open_object(writer, key);
    for (size_t i = 0; i < FIELDS; i++)
        write_field(writer, &fields[i], specification);
    json_close(writer);
}

static void free_words(char **words)
{
    for (char **word = words; word && *word; word++)
        free(*word);
    free(words);
}

void run_specification_free(struct run_specification *specification)
{
    free_words(specification->arguments);
    free_words(specification->environment);
    free_words(specification->secrets);
    *specification = (struct run_specification){0};
}

const char *slot_kind_name(enum slot_kind kind)
{
    return slot_kinds[kind];
}
