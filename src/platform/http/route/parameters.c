/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of a request: found in path and query, decoded, and held against what the table says of them. */
#include "platform/http/route/internal/table.h"

#include "base/text.h"
#include "platform/http/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool parameters_wrong(struct route_call *call, const struct route_parameter *parameter, const char *message)
{
    http_fail_parameter(call->request, 400, parameter->name, message);
    return false;
}

static bool wrong_choice(struct route_call *call, const struct route_parameter *parameter, const char *text)
{
    char message[600];
    int length = snprintf(message, sizeof message, "the parameter '%s' is '%.100s'; it can be", parameter->name, text);
    for (const char *const *choice = parameter->choices; *choice && length < (int)sizeof message; choice++)
        length += snprintf(message + length, sizeof message - (size_t)length, "%s %s",
                           choice == parameter->choices ? "" : ",", *choice);
    return parameters_wrong(call, parameter, message);
}

/* Understand one value; what is wrong is answered. */
static bool parameters_read_value(struct route_call *call, const struct route_parameter *parameter, const char *text,
                                  struct route_value *value)
{
    struct error error = {0};
    char what[128], message[400];
    snprintf(what, sizeof what, "the parameter '%s'", parameter->name);
    value->given = true;
    value->text = text;
    switch (parameter->type) {
    case ROUTE_INTEGER:
        if (text_parse_integer(text, what, (int64_t)parameter->least, (int64_t)parameter->most, &value->integer,
                               &error) != WEFT_OK)
            return parameters_wrong(call, parameter, error.text);
        value->number = (double)value->integer;
        return true;
    case ROUTE_NUMBER:
        return text_parse_number(text, what, parameter->least, parameter->most, &value->number, &error) == WEFT_OK ||
               parameters_wrong(call, parameter, error.text);
    case ROUTE_BOOL:
        value->truth = strcmp(text, "true") == 0;
        if (value->truth || strcmp(text, "false") == 0)
            return true;
        snprintf(message, sizeof message, "%s is '%.100s'; it can be true or false", what, text);
        return parameters_wrong(call, parameter, message);
    case ROUTE_NAME:
        if (platform_name_is_valid(text))
            return true;
        snprintf(message, sizeof message,
                 "%s is '%.100s', which is no name: small letters, digits, '-', '_' and '.', at most %d, the first a "
                 "letter or a digit",
                 what, text, PLATFORM_NAME_BYTES - 1);
        return parameters_wrong(call, parameter, message);
    case ROUTE_CHOICE:
        for (const char *const *choice = parameter->choices; *choice; choice++)
            if (strcmp(*choice, text) == 0)
                return true;
        return wrong_choice(call, parameter, text);
    case ROUTE_TEXT:
        break;
    }
    size_t least = parameter->most > 0 ? (size_t)parameter->least : 1, length = strlen(text);
    size_t most = parameter->most > 0 ? (size_t)parameter->most : ROUTE_TEXT_MOST;
    if (length >= least && length <= most)
        return true;
    snprintf(message, sizeof message, "%s has %zu bytes; it can have %zu to %zu", what, length, least, most);
    return parameters_wrong(call, parameter, message);
}

static bool parameters_unknown(struct route_call *call, const char *name)
{
    const char *names[ROUTE_PARAMETERS_MOST], *nearest;
    size_t count = 0;
    char message[400];
    for (size_t i = 0; i < route_parameter_count(call->route); i++)
        if (!route_is_path_parameter(call->route, call->route->parameters[i].name))
            names[count++] = call->route->parameters[i].name;
    nearest = text_nearest(name, names, count);
    snprintf(message, sizeof message, "there is no parameter '%.100s'%s%s%s", name, nearest ? "; did you mean '" : "",
             nearest ? nearest : "", nearest ? "'?" : "");
    http_fail_parameter(call->request, 400, NULL, message);
    return false;
}

static bool parameters_read_query(struct route_call *call)
{
    const struct route *route = call->route;
    call->texts = strdup(http_request_query(call->request));
    if (!call->texts) {
        http_fail(call->request, 503, "the server has no memory for the request at the moment");
        return false;
    }
    for (char *at = call->texts; at && *at;) {
        char *next = strchr(at, '&'), *name = at, *value;
        if (next)
            *next++ = '\0';
        at = next;
        if (!*name)
            continue;
        value = strchr(name, '=');
        if (value)
            *value++ = '\0';
        else
            value = name + strlen(name);
        if (!message_decode(name, strlen(name), true) || !message_decode(value, strlen(value), true)) {
            http_fail(call->request, 400,
                      "a parameter is not UTF-8 without control characters, or has a %% without its two digits");
            return false;
        }
        size_t i = 0, count = route_parameter_count(route);
        while (i < count && (strcmp(route->parameters[i].name, name) != 0 || route_is_path_parameter(route, name)))
            i++;
        if (i == count)
            return parameters_unknown(call, name);
        if (call->values[i].given)
            return parameters_wrong(call, &route->parameters[i], "the parameter is given twice");
        if (!parameters_read_value(call, &route->parameters[i], value, &call->values[i]))
            return false;
    }
    return true;
}

bool route_read_parameters(struct route_call *call, const struct router_entry *entry, const struct route_path *path)
{
    const struct route *route = call->route;
    size_t count = route_parameter_count(route);
    for (size_t i = 0; i < count; i++)
        for (unsigned j = 0; j < entry->segment_count; j++)
            if (entry->segments[j].parameter && strcmp(entry->segments[j].text, route->parameters[i].name) == 0 &&
                !parameters_read_value(call, &route->parameters[i], path->segments[j], &call->values[i]))
                return false;
    if (!parameters_read_query(call))
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct route_parameter *parameter = &route->parameters[i];
        if (call->values[i].given)
            continue;
        if (parameter->required)
            return parameters_wrong(call, parameter, "the parameter is needed, and is not given");
        if (parameter->fallback && !parameters_read_value(call, parameter, parameter->fallback, &call->values[i]))
            return false;
    }
    return true;
}

const struct route_value *route_value(const struct route_call *call, const char *name)
{
    static const struct route_value nothing;
    for (size_t i = 0; i < route_parameter_count(call->route); i++)
        if (strcmp(call->route->parameters[i].name, name) == 0)
            return &call->values[i];
    return &nothing;
}
