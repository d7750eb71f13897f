/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/loop/internal/memory_search.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>

#define NODES_TIMES_MOST 16 /* more machines that are thought of */

#define ANY_NODE UINT32_MAX

/* What the node that needs most, or `node`, takes with another configuration; UINT64_MAX: it is not possible. */
static uint64_t need_with(const struct memory_problem *problem, const struct train_config *config,
                          const struct memory_ranks *ranks, uint32_t node)
{
    struct parallel_choice choice;
    uint64_t most = UINT64_MAX, *needs = calloc(ranks->count, sizeof *needs); /* there are at most as many nodes */
    weft_status status = parallel_choice_of(config, problem->description, ranks->count, &choice, NULL);
    choice.costs = problem->choice->costs;
    if (needs && status == WEFT_OK &&
        parallel_choice_place(config, problem->description, ranks->nodes, &choice, NULL) == WEFT_OK &&
        memory_needs_of_nodes(config, problem->description, &choice, ranks, needs, NULL) == WEFT_OK) {
        most = 0;
        for (uint32_t n = 0; n < ranks->count; n++)
            if ((node == ANY_NODE || n == node) && needs[n] > most)
                most = needs[n];
    }
    free(needs);
    return most;
}

/* ---- meshes ---- */

/* A mesh and ZeRO stage that fits. */
struct memory_fit {
    struct train_config config;
    struct mesh mesh;
    char text[MESH_TEXT_BYTES];
    struct memory_ranks ranks;
    uint64_t need; /* of the node that needs most; 0: nothing fits */
};

/* Try the ZeRO stages. */
static bool try_mesh(const struct memory_problem *problem, const struct mesh *mesh, struct memory_fit *fit)
{
    const bool shards = mesh->extent[MESH_DATA] > 1;
    fit->mesh = *mesh;
    mesh_print(mesh, fit->text);
    fit->config.mesh = fit->text;
    for (fit->config.zero = 0; fit->config.zero <= (shards ? 3 : 0); fit->config.zero++) {
        const uint64_t need = need_with(problem, &fit->config, &fit->ranks, ANY_NODE);
        if (need > problem->available)
            continue;
        fit->need = need;
        return true;
    }
    return false;
}

/* Weights and moments are on some rank, however they are divided. */
static bool may_fit(const struct memory_problem *problem, const struct memory_ranks *ranks)
{
    const uint64_t arrays = optimizer_has_second_moments(problem->config->optimizer.kind) ? 3 : 2,
                   state = arrays * problem->description->weights * sizeof(float);
    return state / memory_node_count(ranks) + MEMORY_OF_PROCESS <= problem->available;
}

static bool try_ranks(const struct memory_problem *problem, struct memory_fit *fit)
{
    const struct mesh *now = &problem->choice->mesh;
    const uint32_t tensor = now->extent[MESH_TENSOR], places = fit->ranks.count / tensor;
    if (!may_fit(problem, &fit->ranks))
        return false;
    if (mesh_ranks(now) == fit->ranks.count && try_mesh(problem, now, fit))
        return true;
    for (uint32_t pipeline = 1; pipeline <= places && pipeline <= problem->description->layer_count; pipeline++) {
        const struct mesh mesh = {{places / pipeline, pipeline, tensor}};
        if (places % pipeline == 0 && try_mesh(problem, &mesh, fit))
            return true;
    }
    return false;
}

/* `nodes` has room for all ranks. */
static void find_fit(const struct memory_problem *problem, uint32_t *nodes, struct memory_fit *fit)
{
    const struct memory_ranks *now = problem->ranks;
    const uint32_t count = memory_node_count(now);
    for (uint32_t times = 1; times <= NODES_TIMES_MOST && !fit->need; times *= 2) {
        fit->ranks.count = now->count * times;
        for (uint32_t r = 0; r < fit->ranks.count; r++)
            nodes[r] = now->nodes[r % now->count] + r / now->count * count;
        try_ranks(problem, fit);
    }
}

static bool same_mesh(const struct mesh *a, const struct mesh *b)
{
    for (unsigned axis = 0; axis < MESH_AXES; axis++)
        if (a->extent[axis] != b->extent[axis])
            return false;
    return true;
}

/* The options that a fit changes; returns the length. */
static int describe_fit(const struct memory_problem *problem, const struct memory_fit *fit, char *text, size_t size)
{
    const uint32_t ranks = fit->ranks.count;
    const bool data_alone = fit->mesh.extent[MESH_DATA] == ranks && !problem->config->mesh;
    char bytes[32];
    int used = 0;
    if (!data_alone && !same_mesh(&fit->mesh, &problem->choice->mesh))
        used += snprintf(text, size, "--mesh %s ", fit->text);
    if (fit->config.zero != problem->config->zero)
        used += snprintf(text + used, size - (size_t)used, "--zero %d ", (int)fit->config.zero);
    if (ranks != problem->ranks->count)
        used += snprintf(text + used, size - (size_t)used, "%s%u ranks on %u machines ", used ? "with " : "", ranks,
                         memory_node_count(&fit->ranks));
    return used +
           snprintf(text + used, size - (size_t)used, "(%s, which fits), ", text_bytes(fit->need, bytes, sizeof bytes));
}

/* ---- options ---- */

void memory_remedies(const struct memory_problem *problem, uint64_t need, uint32_t node,
                     char text[MEMORY_REMEDIES_BYTES])
{
    const struct train_config *config = problem->config;
    struct train_config remedies[] = {*config, *config, *config, *config};
    static const char *const options[] = {"--micro-batch 1", "--recompute all", "--zero 1", "--precision bf16"};
    const bool shards = config->optimizer.kind == OPTIMIZER_ADAMW || config->optimizer.kind == OPTIMIZER_SGD;
    uint32_t *nodes = calloc((size_t)problem->ranks->count * NODES_TIMES_MOST, sizeof *nodes);
    struct memory_fit fit = {.config = *config, .ranks = {.nodes = nodes, .casts_bf16 = problem->ranks->casts_bf16}};
    int used = 0;
    text[0] = '\0';
    if (nodes)
        find_fit(problem, nodes, &fit);
    if (fit.need)
        used = describe_fit(problem, &fit, text, MEMORY_REMEDIES_BYTES);
    fit.config.shares = remedies[0].shares = remedies[2].shares =
        NULL; /* they are for these micro-batches and stages */
    remedies[0].micro_batch = 1;
    remedies[1].recompute = MODEL_RECOMPUTE_ALL;
    remedies[1].recompute_layers = 0;
    remedies[2].zero = shards && !config->zero && !fit.need ? 1 : config->zero;
    if (config->activations == WEFT_F32)
        remedies[3].activations = WEFT_BF16;
    for (size_t i = 0; i < ARRAY_SIZE(remedies); i++) {
        const uint64_t lessened = need_with(problem, &remedies[i], problem->ranks, node);
        char bytes[32];
        if (lessened < need - need / 100)
            used += snprintf(text + used, MEMORY_REMEDIES_BYTES - (size_t)used, "%s (%s), ", options[i],
                             text_bytes(lessened, bytes, sizeof bytes));
    }
    free(nodes);
}
