/* SPDX-License-Identifier: Apache-2.0 */
/* What a mesh on its places decides: how many bytes have to enter which units, and which links messages take. */
#include "training/plan/planner/internal/parts.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

/* Ranks by their coordinates, and what is counted in a level's units. */
struct place_counting {
    const struct planner *planner;
    struct planner_place *place;
    const struct mesh *mesh;
    uint32_t *rank_at; /* [(pipeline x tensor ranks + tensor) x data ranks + data] */
    uint32_t *members; /* of each unit: in the group that is counted */
    uint32_t *seen;    /* of each unit: 1 + the pipeline rank that was counted there last */
};

static uint32_t place_rank(const struct place_counting *counting, uint32_t data, uint32_t pipeline, uint32_t tensor)
{
    const uint32_t *extent = counting->mesh->extent;
    return counting->rank_at[((size_t)pipeline * extent[MESH_TENSOR] + tensor) * extent[MESH_DATA] + data];
}

static void list_ranks(struct place_counting *counting)
{
    const uint32_t *extent = counting->mesh->extent, *point = counting->place->groups.points;
    for (uint32_t rank = 0; rank < counting->place->groups.ranks; rank++, point += MESH_AXES)
        counting
            ->rank_at[((size_t)point[MESH_PIPELINE] * extent[MESH_TENSOR] + point[MESH_TENSOR]) * extent[MESH_DATA] +
                      point[MESH_DATA]] = rank;
}

/* ---- bytes ---- */

static uint32_t unit_of(const struct place_counting *counting, uint32_t rank, uint32_t level)
{
    return step_cluster_unit(&counting->planner->setting.cluster->step, rank, level);
}

/* One group. Of an array that it assembles or exchanges, a unit with m of its n ranks lacks (n - m) / n; of one that it
 * sums, k units take in 2 (k - 1) arrays together: each must give its part and receive the total; k ranks of a host, which
 * read each other's memory, k arrays. */
static void count_group(struct place_counting *counting, uint32_t level, uint32_t pipeline, uint32_t tensor,
                        struct place_volume *volume)
{
    const uint32_t ranks = counting->mesh->extent[MESH_DATA];
    double units = 0;
    for (uint32_t d = 0; d < ranks; d++)
        counting->members[unit_of(counting, place_rank(counting, d, pipeline, tensor), level)]++;
    for (uint32_t d = 0; d < ranks; d++) {
        const uint32_t unit = unit_of(counting, place_rank(counting, d, pipeline, tensor), level);
        const double members = counting->members[unit], lacks = (ranks - members) / ranks;
        if (members == 0)
            continue; /* counted before */
        counting->members[unit] = 0;
        units++;
        volume->arrays[PLACE_GATHER] += lacks;
        volume->arrays[PLACE_EXCHANGE] += members * lacks;
        if (counting->seen[unit] != pipeline + 1)
            volume->units++;
        counting->seen[unit] = pipeline + 1;
    }
    volume->arrays[PLACE_REDUCE] += level ? 2 * (units - 1) : units;
}

static void count_level(struct place_counting *counting, uint32_t level)
{
    struct planner_place *place = counting->place;
    const uint32_t pipeline = counting->mesh->extent[MESH_PIPELINE], ranks = place->groups.ranks;
    memset(counting->seen, 0, ranks * sizeof *counting->seen);
    for (uint32_t p = 0; p < pipeline; p++)
        for (uint32_t t = 0; t < counting->mesh->extent[MESH_TENSOR]; t++)
            count_group(counting, level, p, t, &place->volumes[level * pipeline + p]);
    for (uint32_t unit = 0; unit < ranks; unit++)
        place->units[level] += counting->seen[unit] > 0;
}

/* ---- messages, devices, prices ---- */

static void find_levels(const struct place_counting *counting)
{
    const struct step_cluster *cluster = &counting->planner->setting.cluster->step;
    const uint32_t *extent = counting->mesh->extent, pipeline = extent[MESH_PIPELINE];
    for (uint32_t p = 0; p < pipeline; p++) {
        uint32_t least = STEP_LINK_LEVELS - 1;
        for (uint32_t t = 0; t < extent[MESH_TENSOR]; t++)
            for (uint32_t d = 0; d < extent[MESH_DATA]; d++) {
                const uint32_t level = step_cluster_level(cluster, place_rank(counting, d, p, t),
                                                          place_rank(counting, d, (p + 1) % pipeline, t));
                least = level < least ? level : least;
            }
        counting->place->levels[p] = least;
    }
}

static void find_devices(const struct place_counting *counting)
{
    const struct planner_place *place = counting->place;
    for (uint32_t rank = 0; rank < place->groups.ranks; rank++)
        place->devices[place->groups.points[(size_t)rank * MESH_AXES + MESH_PIPELINE]] |=
            1u << planner_device_of(counting->planner, rank);
}

/* Of the group that is spread least: the mean of its hosts, for each interface that their ranks may use. */
static double tensor_lacks_of(const struct place_counting *counting)
{
    const struct simulated_cluster *links = &counting->planner->setting.cluster->links;
    const uint32_t *extent = counting->mesh->extent, ranks = extent[MESH_TENSOR];
    double least = 1;
    for (uint32_t p = 0; p < extent[MESH_PIPELINE]; p++)
        for (uint32_t d = 0; d < extent[MESH_DATA]; d++) {
            double hosts = 0, lacks = 0;
            for (uint32_t t = 0; t < ranks; t++)
                counting->members[unit_of(counting, place_rank(counting, d, p, t), 1)]++;
            for (uint32_t t = 0; t < ranks; t++) {
                uint32_t *members = &counting->members[unit_of(counting, place_rank(counting, d, p, t), 1)];
                const double interfaces = links->interfaces > 1 && *members > 1
                                              ? *members < links->interfaces ? *members : links->interfaces
                                              : 1;
                hosts += *members > 0;
                lacks += *members ? (double)(ranks - *members) / ranks / interfaces : 0;
                *members = 0;
            }
            least = lacks / hosts < least ? lacks / hosts : least;
        }
    return least;
}

static uint64_t key_of_placements(const struct step_placements *placements)
{
    uint64_t key = placements->count;
    for (uint32_t class = 0; class < placements->count; class ++)
        key = hash_number(placements->classes[class].hash, key);
    return key;
}

/* ---- all of it ---- */

static void place_free(void *value)
{
    struct planner_place *place = value;
    step_placements_free(&place->tensor);
    step_placements_free(&place->data);
    step_costs_free(&place->groups);
    free(place->volumes);
    free(place->levels);
    free(place->first_rank);
    free(place->devices);
    free(place);
}

static weft_status place_fill(struct place_counting *counting, const struct strategy *strategy, struct error *error)
{
    const struct step_cluster *cluster = &counting->planner->setting.cluster->step;
    struct planner_place *place = counting->place;
    weft_status status = mesh_place(&strategy->mesh, &strategy->placement, cluster->hosts, place->groups.points, error);
    if (status == WEFT_OK)
        status = step_placements_open(&place->groups, MESH_TENSOR, &place->tensor, error);
    if (status == WEFT_OK)
        status = step_placements_open(&place->groups, MESH_DATA, &place->data, error);
    if (status != WEFT_OK)
        return status;
    place->tensor_key = key_of_placements(&place->tensor);
    list_ranks(counting);
    for (uint32_t p = 0; p < strategy->mesh.extent[MESH_PIPELINE]; p++)
        place->first_rank[p] = place_rank(counting, 0, p, 0);
    for (uint32_t level = 0; level < STEP_LINK_LEVELS; level++)
        count_level(counting, level);
    place->tensor_lacks = tensor_lacks_of(counting);
    find_levels(counting);
    find_devices(counting);
    return WEFT_OK;
}

static weft_status place_open(const struct planner *planner, const struct strategy *strategy,
                              struct planner_place **result, struct error *error)
{
    const uint32_t ranks = mesh_ranks(&strategy->mesh), pipeline = strategy->mesh.extent[MESH_PIPELINE];
    struct planner_place *place = calloc(1, sizeof *place);
    struct place_counting counting = {.planner = planner,
                                      .place = place,
                                      .mesh = &strategy->mesh,
                                      .rank_at = calloc(ranks, sizeof(uint32_t)),
                                      .members = calloc(ranks, sizeof(uint32_t)),
                                      .seen = calloc(ranks, sizeof(uint32_t))};
    weft_status status = WEFT_OK;
    if (place) {
        place->groups =
            (struct step_costs){.ranks = ranks, .mesh = strategy->mesh, .cluster = &planner->setting.cluster->step};
        place->groups.points = calloc((size_t)ranks * MESH_AXES, sizeof *place->groups.points);
        place->volumes = calloc((size_t)pipeline * STEP_LINK_LEVELS, sizeof *place->volumes);
        place->levels = calloc(pipeline, sizeof *place->levels);
        place->first_rank = calloc(pipeline, sizeof *place->first_rank);
        place->devices = calloc(pipeline, sizeof *place->devices);
    }
    if (!place || !place->groups.points || !place->volumes || !place->levels || !place->first_rank || !place->devices ||
        !counting.rank_at || !counting.members || !counting.seen)
        status = error_memory(error, ranks * MESH_AXES * sizeof(uint32_t), "the places of ranks");
    else
        status = place_fill(&counting, strategy, error);
    free(counting.rank_at);
    free(counting.members);
    free(counting.seen);
    if (status == WEFT_OK)
        *result = place;
    else if (place)
        place_free(place);
    return status;
}

weft_status planner_place_of(struct planner *planner, const struct strategy *strategy,
                             const struct planner_place **result, struct error *error)
{
    const uint64_t key = hash_bytes(&strategy->placement, sizeof strategy->placement,
                                    hash_bytes(&strategy->mesh, sizeof strategy->mesh, 0));
    struct planner_place *place = hash_index_find(&planner->places, key);
    weft_status status = WEFT_OK;
    if (!place) {
        status = place_open(planner, strategy, &place, error);
        if (status == WEFT_OK && (status = hash_index_add(&planner->places, key, place, error)) != WEFT_OK)
            place_free(place);
    }
    *result = place;
    return status;
}

void planner_places_free(struct planner *planner)
{
    hash_index_free(&planner->places, place_free);
}

/* ---- bounds ---- */

static double level_bandwidth(const struct planner *planner, uint32_t level)
{
    const struct simulated_cluster *links = &planner->setting.cluster->links;
    return level == 0   ? planner->near_bandwidth
           : level == 1 ? planner->host_bandwidth
                        : links->above[level - 2].bandwidth;
}

/* A level's busiest unit takes in no less than the mean: of all units, and of those in which a pipeline rank has members. */
double planner_data_seconds(const struct planner *planner, const struct planner_place *place,
                            const double *const bytes[PLACE_TRANSFERS])
{
    const uint32_t pipeline = place->groups.mesh.extent[MESH_PIPELINE];
    double most = 0;
    for (uint32_t level = 0; level < STEP_LINK_LEVELS; level++) {
        const double bandwidth = level_bandwidth(planner, level);
        double all = 0;
        for (uint32_t p = 0; p < pipeline && bandwidth > 0; p++) {
            const struct place_volume *volume = &place->volumes[level * pipeline + p];
            double entering = 0;
            for (int transfer = 0; transfer < PLACE_TRANSFERS; transfer++)
                entering += bytes[transfer] ? volume->arrays[transfer] * bytes[transfer][p] : 0;
            all += entering;
            if (entering > most * bandwidth * volume->units)
                most = entering / bandwidth / volume->units;
        }
        if (all > most * bandwidth * place->units[level])
            most = all / bandwidth / place->units[level];
    }
    return most;
}

void planner_pipeline_devices(const struct planner *planner, const struct planner_place *place,
                              const struct pass_work *work, bool fastest, uint32_t *devices)
{
    double times[CLUSTER_DEVICES_MOST] = {0};
    for (uint32_t d = 0; d < planner->setting.cluster->step.device_count; d++)
        for (size_t u = 0; u < planner->units; u++)
            times[d] += work->balance[d * planner->units + u];
    for (uint32_t p = 0; p < place->groups.mesh.extent[MESH_PIPELINE]; p++) {
        uint32_t found = UINT32_MAX;
        for (uint32_t d = 0; d < CLUSTER_DEVICES_MOST; d++)
            if (place->devices[p] >> d & 1 &&
                (found == UINT32_MAX || (fastest ? times[d] < times[found] : times[d] > times[found])))
                found = d;
        devices[p] = found;
    }
}
