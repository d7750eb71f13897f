/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/policy.h"

#include "base/file/file.h"
#include "base/format/yaml.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OTHER       "other"
#define SECONDS_DAY INT64_C(86400)
#define KEEP_MOST   (36500 * SECONDS_DAY)
#define DISK_LEAST  (INT64_C(1) << 20) /* bytes */
#define DISK_MOST   (INT64_C(1) << 50)
#define OWN_KEYS    3 /* of the outermost map that are no maps themselves */

enum policy_kind { KIND_WHOLE, KIND_SHARE, KIND_DURATION, KIND_BOOL, KIND_BYTES };

/* A key of a map, and where its value goes. */
struct policy_key {
    const char *name;
    enum policy_kind kind;
    int64_t least, most; /* of a whole number, or seconds */
    void *to;            /* int64_t; double for a share; bool */
};

/* "6h", or 0; "50G". */
static weft_status read_amount(const struct yaml_value *value, const struct policy_key *key, struct error *error)
{
    const bool bytes = key->kind == KIND_BYTES;
    const char *text;
    int64_t amount = 0;
    uint64_t read = 0;
    struct error refusal = {0};
    weft_status status = yaml_value_get_text(value, &text, error);
    if (status != WEFT_OK)
        return status;
    if (bytes)
        status = text_parse_bytes(text, key->name, &read, &refusal);
    else if (strcmp(text, "0") != 0)
        status = text_parse_duration(text, key->name, &amount, &refusal);
    if (status != WEFT_OK)
        return yaml_value_fail(value, error, "%s", refusal.text);
    if (bytes)
        amount = read > INT64_MAX ? INT64_MAX : (int64_t)read;
    if (amount < key->least || amount > key->most) {
        const int64_t amounts[3] = {amount, key->least, key->most};
        char shown[3][32];
        for (int i = 0; i < 3; i++)
            if (bytes)
                text_bytes(i == 0 ? read : (uint64_t)amounts[i], shown[i], sizeof shown[i]);
            else
                text_duration(amounts[i], shown[i], sizeof shown[i]);
        return yaml_value_fail(value, error, "%s is %s; it must be from %s to %s", key->name, shown[0], shown[1],
                               shown[2]);
    }
    *(int64_t *)key->to = amount;
    return WEFT_OK;
}

static weft_status policy_read_value(const struct yaml_value *value, const struct policy_key *key, struct error *error)
{
    switch (key->kind) {
    case KIND_WHOLE:
        return yaml_value_get_whole(value, key->least, key->most, key->to, error);
    case KIND_SHARE:
        return yaml_value_get_number(value, 0, 1, key->to, error);
    case KIND_BOOL:
        return yaml_value_get_bool(value, key->to, error);
    case KIND_BYTES:
    case KIND_DURATION:
        break;
    }
    return read_amount(value, key, error);
}

/* `value` is not one of these: suggest the one that may be meant, or list all. */
static weft_status policy_unknown(const struct yaml_value *value, const char *where, const char *const *names,
                                  size_t count, struct error *error)
{
    const char *nearest = text_nearest(value->key, names, count);
    char all[512];
    size_t length = 0;
    if (nearest)
        return yaml_value_fail(value, error, "%s no '%.60s'; the nearest is '%s'", where, value->key, nearest);
    for (size_t i = 0; i < count && length < sizeof all; i++)
        length += (size_t)snprintf(all + length, sizeof all - length, "%s%s",
                                   i == 0          ? ""
                                   : i + 1 < count ? ", "
                                                   : " and ",
                                   names[i]);
    return yaml_value_fail(value, error, "%s no '%.60s', but %s", where, value->key, all);
}

/* Every entry of `map` is one of `keys`. */
static weft_status read_map(const struct yaml_value *map, const struct policy_key *keys, size_t count,
                            struct error *error)
{
    const char *names[16];
    if (map->kind != YAML_MAP)
        return yaml_value_fail(map, error, "here must be a map: 'key: value', a line each");
    for (size_t i = 0; i < count; i++)
        names[i] = keys[i].name;
    for (const struct yaml_value *value = map->child; value; value = value->next) {
        const struct policy_key *key = keys;
        while (key < keys + count && strcmp(key->name, value->key) != 0)
            key++;
        if (key == keys + count)
            return policy_unknown(value, "here is", names, count, error);
        weft_status status = policy_read_value(value, key, error);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

static weft_status policy_read_class(const struct yaml_value *map, struct service_policy *policy, struct error *error)
{
    int64_t runs = 0;
    struct error refusal = {0};
    if (policy->class_count == POLICY_CLASSES_MOST)
        return yaml_value_fail(map, error, "these are more than %d classes", POLICY_CLASSES_MOST);
    struct controller_class *class = &policy->classes[policy->class_count];
    char *name = policy->names[policy->class_count];
    if (platform_name_check(map->key, "the class", &refusal) != WEFT_OK)
        return yaml_value_fail(map, error, "%s", refusal.text);
    *class = (struct controller_class){0};
    const struct policy_key keys[] = {
        {"time_limit", KIND_DURATION, 0, RUN_TIME_MOST, &class->time_limit},
        {"time_slice", KIND_DURATION, 0, RUN_TIME_MOST, &class->time_slice},
        {"runs", KIND_WHOLE, 0, 1000000, &runs},
        {"idle", KIND_DURATION, 60, 30 * SECONDS_DAY, &class->idle_limit},
        {"idle_stops", KIND_BOOL, 0, 0, &class->idle_stops},
    };
    weft_status status = read_map(map, keys, ARRAY_SIZE(keys), error);
    snprintf(name, PLATFORM_NAME_BYTES, "%s", strcmp(map->key, OTHER) == 0 ? "" : map->key);
    class->name = name;
    class->runs_most = (uint32_t)runs;
    policy->class_count++;
    return status;
}

static weft_status read_classes(const struct yaml_value *classes, struct service_policy *policy, struct error *error)
{
    weft_status status = WEFT_OK;
    if (classes->kind != YAML_MAP || !classes->child)
        return yaml_value_fail(classes, error, "classes must be a map of at least one class and its limits");
    for (const struct yaml_value *map = classes->child; map && status == WEFT_OK; map = map->next)
        status = policy_read_class(map, policy, error);
    return status;
}

static weft_status policy_read_root(const struct yaml_value *root, struct service_policy *policy, struct error *error)
{
    static const char *const names[] = {"personal", "failures", "disk", "classes", "grace", "budget_least", "keep"};
    const struct policy_key personal[] = {{"share", KIND_SHARE, 0, 0, &policy->personal_share},
                                          {"slots", KIND_WHOLE, 0, RUN_SLOTS_MOST, &policy->personal_slots},
                                          {"runs", KIND_WHOLE, 0, 1000000, &policy->personal_runs}};
    const struct policy_key failures[] = {{"attempts", KIND_WHOLE, 0, 1000, &policy->attempts},
                                          {"of_a_host", KIND_WHOLE, 1, 1000, &policy->host_failures}};
    const struct policy_key disk[] = {{"run", KIND_BYTES, DISK_LEAST, DISK_MOST, &policy->disk_run},
                                      {"project", KIND_BYTES, DISK_LEAST, DISK_MOST, &policy->disk_project},
                                      {"reserve", KIND_BYTES, DISK_LEAST, DISK_MOST, &policy->disk_reserve}};
    const struct policy_key own[] = {{"grace", KIND_DURATION, 1, SECONDS_DAY, &policy->grace},
                                     {"budget_least", KIND_DURATION, 0, RUN_TIME_MOST, &policy->budget_least},
                                     {"keep", KIND_DURATION, 0, KEEP_MOST, &policy->keep}};
    weft_status status = WEFT_OK;
    if (root->kind != YAML_MAP)
        return yaml_value_fail(root, error, "a policy is a map: 'personal: ...', 'classes: ...' and so on");
    for (const struct yaml_value *value = root->child; value && status == WEFT_OK; value = value->next) {
        const struct policy_key *key = own;
        while (key < own + OWN_KEYS && strcmp(key->name, value->key) != 0)
            key++;
        if (key < own + OWN_KEYS)
            status = policy_read_value(value, key, error);
        else if (strcmp(value->key, "personal") == 0)
            status = read_map(value, personal, ARRAY_SIZE(personal), error);
        else if (strcmp(value->key, "failures") == 0)
            status = read_map(value, failures, ARRAY_SIZE(failures), error);
        else if (strcmp(value->key, "disk") == 0)
            status = read_map(value, disk, ARRAY_SIZE(disk), error);
        else if (strcmp(value->key, "classes") == 0)
            status = read_classes(value, policy, error);
        else
            status = policy_unknown(value, "a policy has", names, ARRAY_SIZE(names), error);
    }
    return status;
}

void policy_default(struct service_policy *policy)
{
    *policy = (struct service_policy){.attempts = 3, .host_failures = 3, .grace = 30, .budget_least = 600};
}

/* Whether there are comments and empty lines alone: all of a policy is optional. */
static bool says_nothing(const char *text, size_t size)
{
    for (const char *end = text + size; text < end; text++) {
        if (*text == '#')
            text = memchr(text, '\n', (size_t)(end - text));
        if (!text)
            return true;
        if (!strchr(" \t\r\n", *text) || !*text)
            return false;
    }
    return true;
}

weft_status policy_parse(const char *text, size_t size, const char *where, struct service_policy *policy,
                         struct error *error)
{
    struct yaml_tree *tree;
    policy_default(policy);
    if (says_nothing(text, size))
        return WEFT_OK;
    weft_status status = yaml_tree_parse(text, size, where, &tree, error);
    if (status != WEFT_OK)
        return status;
    status = policy_read_root(yaml_tree_root(tree), policy, error);
    yaml_tree_free(tree);
    return status;
}

weft_status policy_read(const char *path, struct service_policy *policy, struct error *error)
{
    char *text;
    size_t size;
    weft_status status = file_read(path, YAML_BYTES_MOST, &text, &size, error);
    if (status != WEFT_OK)
        return status;
    status = policy_parse(text, size, path, policy, error);
    free(text);
    return status;
}
