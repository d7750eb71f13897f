/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/agent/internal/environment.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An environment that grows; `lacking`: memory ran out. */
struct growing {
    struct string_list *list;
    bool lacking;
};

/* The entry of this name, of `length` bytes, or NULL. */
static char **agent_environment_find(const struct growing *growing, const char *name, size_t length)
{
    for (uint32_t i = 0; i < growing->list->count; i++)
        if (strncmp(growing->list->items[i], name, length) == 0 && growing->list->items[i][length] == '=')
            return &growing->list->items[i];
    return NULL;
}

/* The current value of a variable, or NULL. */
static const char *agent_environment_variable(const struct growing *growing, const char *name)
{
    char **entry = agent_environment_find(growing, name, strlen(name));
    return entry ? *entry + strlen(name) + 1 : NULL;
}

/* Set NAME=VALUE, replacing an entry of that name. */
static void set_entry(struct growing *growing, const char *entry)
{
    char **before = agent_environment_find(growing, entry, (size_t)(strchr(entry, '=') - entry));
    if (!before) {
        growing->lacking |= string_list_add(growing->list, entry, NULL) != WEFT_OK;
        return;
    }
    char *copy = strdup(entry);
    growing->lacking |= !copy;
    if (copy) {
        free(*before);
        *before = copy;
    }
}

static void set(struct growing *growing, const char *name, const char *value)
{
    char *entry;
    if (asprintf(&entry, "%s=%s", name, value) < 0) {
        growing->lacking = true;
        return;
    }
    set_entry(growing, entry);
    free(entry);
}

static void agent_environment_set_number(struct growing *growing, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    set(growing, name, text);
}

static void set_entries(struct growing *growing, char *const *entries)
{
    for (; entries && *entries; entries++)
        if (strchr(*entries, '='))
            set_entry(growing, *entries);
}

/* ---- what it begins with ---- */

/* Whether an entry of the agent's environment may be passed to another account. */
static bool is_shared(const char *entry)
{
    static const char *const shared[] = {"PATH=", "LANG=", "LANGUAGE=", "LC_", "TZ=", "LD_LIBRARY_PATH="};
    for (size_t i = 0; i < ARRAY_SIZE(shared); i++)
        if (strncmp(entry, shared[i], strlen(shared[i])) == 0)
            return true;
    return false;
}

/* Start from the agent's environment. Another account gets little of it: it may hold secrets of the server's user. */
static void take_own(struct growing *growing, const struct passwd *user)
{
    for (char **entry = environ; entry && *entry; entry++)
        if (strncmp(*entry, "WEFT_GRACE=", strlen("WEFT_GRACE=")) != 0 && (!user || is_shared(*entry)))
            growing->lacking |= string_list_add(growing->list, *entry, NULL) != WEFT_OK;
    if (!user)
        return;
    set(growing, "HOME", user->pw_dir);
    set(growing, "USER", user->pw_name);
    set(growing, "LOGNAME", user->pw_name);
    set(growing, "SHELL", *user->pw_shell ? user->pw_shell : "/bin/sh");
}

/* ---- where programs are ---- */

/* Whether the list `directories` (as PATH) contains `directory`. */
static bool is_among(const char *directories, const char *directory)
{
    const size_t length = strlen(directory);
    for (const char *at = directories; at; at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL)
        if (strncmp(at, directory, length) == 0 && (at[length] == ':' || at[length] == '\0'))
            return true;
    return false;
}

/* Append the directory of this executable to PATH, so that `weft` is found even if it is not installed. */
static void add_own_directory(struct growing *growing, struct node_environment *environment)
{
    char own[PATH_MAX], standard[256] = "", *path;
    const char *before = agent_environment_variable(growing, "PATH");
    const ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length <= 0)
        return;
    own[length] = '\0';
    *strrchr(own, '/') = '\0';
    if (!before) { /* the default search path */
        confstr(_CS_PATH, standard, sizeof standard);
        before = standard;
    }
    if (!*own || strchr(own, ':') || is_among(before, own))
        return;
    environment->own = strdup(own);
    if (!environment->own || asprintf(&path, "PATH=%s:%s", before, own) < 0) {
        growing->lacking = true;
        return;
    }
    char **entry = agent_environment_find(growing, "PATH", strlen("PATH"));
    environment->path = entry ? (uint32_t)(entry - growing->list->items) : growing->list->count;
    if (entry) {
        environment->without = *entry;
        *entry = path;
        return;
    }
    growing->lacking |= string_list_add(growing->list, path, NULL) != WEFT_OK;
    free(path);
}

/* ---- the whole ---- */

weft_status node_environment_make(const struct node_place *place, char *const *more, const struct passwd *user,
                                  struct node_environment *environment, struct error *error)
{
    const struct node_order *order = place->order;
    struct node_environment made = {0};
    struct growing growing = {.list = &made.entries};
    char text[FILE_PATH_BYTES];
    take_own(&growing, user);
    set_entries(&growing, order->environment.items);
    set_entries(&growing, more);
    for (uint32_t i = 0; place->secrets && i < place->secrets->count; i++)
        set_entry(&growing, place->secrets->items[i]);
    set(&growing, "WEFT_RUN", order->attempt.run);
    agent_environment_set_number(&growing, "WEFT_ATTEMPT", order->attempt.epoch);
    agent_environment_set_number(&growing, "WEFT_NODE", order->node);
    agent_environment_set_number(&growing, "WEFT_NODES", order->nodes);
    set(&growing, "WEFT_NODE_HOSTS", order->hosts);
    set(&growing, "WEFT_SLOTS", order->slots);
    set(&growing, "CUDA_VISIBLE_DEVICES", order->gpus ? order->slots : "");
    if (order->gpus)
        set(&growing, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    snprintf(text, sizeof text, "%.1f", (double)order->grace * 0.8e-3);
    if (!agent_environment_variable(&growing, "WEFT_GRACE"))
        set(&growing, "WEFT_GRACE", text);
    set(&growing, "WEFT_NODE_DIRECTORY", place->directory);
    if (file_join(text, place->directory, "metrics", NULL) == WEFT_OK)
        set(&growing, "WEFT_METRICS", text);
    add_own_directory(&growing, &made);
    if (growing.lacking) {
        node_environment_free(&made);
        return error_set(error, WEFT_ERROR_MEMORY, "out of memory for the environment of a process");
    }
    *environment = made;
    return WEFT_OK;
}

void node_environment_enter(const struct node_environment *environment)
{
    /* With a directory that this user may not enter in PATH, every mistyped command would fail with EACCES. */
    if (environment->own && access(environment->own, X_OK) != 0)
        environment->entries.items[environment->path] = environment->without;
    environ = environment->entries.items;
}

void node_environment_free(struct node_environment *environment)
{
    string_list_free(&environment->entries);
    free(environment->own);
    free(environment->without);
    *environment = (struct node_environment){0};
}
