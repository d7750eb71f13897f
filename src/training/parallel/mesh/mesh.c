/* SPDX-License-Identifier: Apache-2.0 */
/* Meshes as text. */
#include "training/parallel/mesh/mesh.h"

#include "base/buffer.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const axis_names[MESH_AXES] = {"data", "pipeline", "tensor"};

uint32_t mesh_ranks(const struct mesh *mesh)
{
    uint32_t ranks = 1;
    for (unsigned axis = 0; axis < MESH_AXES; axis++)
        ranks *= mesh->extent[axis];
    return ranks;
}

const char *mesh_print(const struct mesh *mesh, char text[MESH_TEXT_BYTES])
{
    size_t used = 0;
    for (unsigned axis = 0; axis < MESH_AXES; axis++)
        if (mesh->extent[axis] > 1)
            used += (size_t)snprintf(text + used, MESH_TEXT_BYTES - used, "%s%s=%u", used ? "," : "", axis_names[axis],
                                     mesh->extent[axis]);
    if (!used)
        snprintf(text, MESH_TEXT_BYTES, "data=1");
    return text;
}

static weft_status find_axis(const char *name, size_t length, const char *where, enum mesh_axis *axis,
                             struct error *error)
{
    for (unsigned i = 0; i < MESH_AXES; i++)
        if (strlen(axis_names[i]) == length && !memcmp(axis_names[i], name, length)) {
            *axis = (enum mesh_axis)i;
            return WEFT_OK;
        }
    char word[32];
    snprintf(word, sizeof word, "%.*s", (int)length, name);
    const char *nearest = text_nearest(word, axis_names, MESH_AXES);
    return error_set(error, WEFT_ERROR_ARGUMENT, "%s has no axis '%s'%s%s%s; the axes are data, pipeline and tensor",
                     where, word, nearest ? " (did you mean '" : "", nearest ? nearest : "", nearest ? "'?)" : "");
}

/* Meshes of `ranks` points that differ from `mesh` in one axis; else some that exist. */
static void suggest(const struct mesh *mesh, uint32_t ranks, struct buffer *text)
{
    char one[MESH_TEXT_BYTES];
    const uint32_t all = mesh_ranks(mesh);
    for (unsigned axis = 0; axis < MESH_AXES; axis++) {
        const uint32_t others = all / mesh->extent[axis];
        struct mesh other = *mesh;
        other.extent[axis] = ranks / others;
        if (ranks % others == 0)
            buffer_print(text, "%s%s", buffer_size(text) ? ", " : "", mesh_print(&other, one));
    }
    if (buffer_size(text))
        return;
    for (unsigned axis = 0; axis < MESH_AXES; axis++) {
        struct mesh other = {.extent = {1, 1, 1}};
        other.extent[axis] = ranks;
        buffer_print(text, "%s%s", axis ? ", " : "", mesh_print(&other, one));
    }
}

static weft_status refuse_size(const struct mesh *mesh, uint32_t ranks, struct error *error)
{
    char one[MESH_TEXT_BYTES];
    struct buffer others = {0};
    suggest(mesh, ranks, &others);
    const char *text = buffer_string(&others);
    const weft_status status =
        error_set(error, WEFT_ERROR_ARGUMENT, "the mesh %s has %u ranks, but there are %u; possible are %s",
                  mesh_print(mesh, one), mesh_ranks(mesh), ranks, text ? text : "others");
    buffer_free(&others);
    return status;
}

weft_status mesh_parse(const char *text, uint32_t ranks, struct mesh *mesh, struct error *error)
{
    struct mesh read = {.extent = {1, 1, 1}};
    bool named[MESH_AXES] = {false};
    int automatic = -1;
    if (!text || !*text)
        text = "data=auto";
    for (const char *at = text; *at;) {
        const size_t length = strcspn(at, "=,");
        enum mesh_axis axis;
        weft_status status = find_axis(at, length, "the mesh", &axis, error);
        if (status != WEFT_OK)
            return status;
        const char *number = at[length] == '=' ? at + length + 1 : "";
        const size_t digits = strcspn(number, ",");
        const bool is_auto = digits == 4 && !memcmp(number, "auto", 4);
        char *end = NULL;
        const unsigned long extent = is_auto ? 1 : strtoul(number, &end, 10);
        if (named[axis] || (is_auto && automatic >= 0))
            return error_set(error, WEFT_ERROR_ARGUMENT, "the mesh '%s' %s", text,
                             named[axis] ? "names an axis twice" : "leaves two axes to 'auto'; only one can be");
        if (!is_auto && (!digits || *number < '1' || *number > '9' || end != number + digits || extent > 1 << 20))
            return error_set(error, WEFT_ERROR_ARGUMENT,
                             "the mesh '%s' says '%.*s' for the axis %s; write a number of ranks from 1, or 'auto'",
                             text, (int)digits, number, axis_names[axis]);
        named[axis] = true;
        read.extent[axis] = (uint32_t)extent;
        if (is_auto)
            automatic = axis;
        at = number + digits;
        if (*at == ',' && *++at == '\0')
            return error_set(error, WEFT_ERROR_ARGUMENT, "the mesh '%s' ends in a comma", text);
    }
    const uint32_t others = mesh_ranks(&read);
    if (automatic >= 0 && ranks % others == 0)
        read.extent[automatic] = ranks / others;
    if (mesh_ranks(&read) != ranks)
        return refuse_size(&read, ranks, error);
    *mesh = read;
    return WEFT_OK;
}

weft_status mesh_placement_parse(const char *text, struct mesh_placement *placement, struct error *error)
{
    static const enum mesh_axis usual[] = {MESH_TENSOR, MESH_DATA, MESH_PIPELINE};
    struct mesh_placement read;
    bool named[MESH_AXES] = {false};
    unsigned count = 0;
    for (const char *at = text; *at;) {
        const size_t length = strcspn(at, ",");
        enum mesh_axis axis;
        const weft_status status = find_axis(at, length, "the placement", &axis, error);
        if (status != WEFT_OK)
            return status;
        if (named[axis])
            return error_set(error, WEFT_ERROR_ARGUMENT, "the placement '%s' names %s twice", text, axis_names[axis]);
        named[axis] = true;
        read.order[count++] = axis;
        at += length + (at[length] == ',');
    }
    for (unsigned i = 0; i < MESH_AXES; i++)
        if (!named[usual[i]])
            read.order[count++] = usual[i];
    *placement = read;
    return WEFT_OK;
}

const char *mesh_placement_print(const struct mesh_placement *placement, char text[MESH_TEXT_BYTES])
{
    snprintf(text, MESH_TEXT_BYTES, "%s,%s,%s", axis_names[placement->order[0]], axis_names[placement->order[1]],
             axis_names[placement->order[2]]);
    return text;
}
