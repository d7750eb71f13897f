/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/train_plan.h"

#include "cli/frame/arguments.h"
#include "cli/train/training.h"
#include "training/parallel/agreement.h"
#include "training/plan/run/auto_plan.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- options ---- */

#define MEMBER(member) offsetof(struct train_config, member), sizeof((struct train_config *)0)->member

/* What a strategy chooses, but for the mesh and its placement. */
static const struct planned_option {
    const char *name;
    size_t offset, size; /* in the configuration */
} planned_options[] = {
    {"micro-batch", MEMBER(micro_batch)},    {"zero", MEMBER(zero)},
    {"pipeline-schedule", MEMBER(schedule)}, {"stages-per-rank", MEMBER(stages)},
    {"recompute", MEMBER(recompute)},        {"recompute-layers", MEMBER(recompute_layers)},
    {"precision", MEMBER(activations)},      {"sequence-parallel", MEMBER(sequence_parallel)},
    {"bucket", MEMBER(bucket_bytes)},        {"parameter-server", MEMBER(parameter_server)},
};

static void note_contradiction(struct train_plan *plan, const char *option)
{
    const size_t used = strlen(plan->differences);
    snprintf(plan->differences + used, sizeof plan->differences - used, "%s--%s is not the plan's", used ? "; " : "",
             option);
}

static void apply_option(struct train_plan *plan, char *const *arguments, const struct planned_option *option,
                         const struct train_config *planned, struct train_config *config)
{
    char *own = (char *)config + option->offset;
    const char *chosen = (const char *)planned + option->offset;
    if (!arguments_have(arguments, option->name, 0))
        memcpy(own, chosen, option->size);
    else if (memcmp(own, chosen, option->size) != 0)
        note_contradiction(plan, option->name);
}

static bool is_planned_mesh(const struct plan *plan, const char *text)
{
    struct mesh mesh;
    char given[MESH_TEXT_BYTES], planned[MESH_TEXT_BYTES];
    return mesh_parse(text, mesh_ranks(&plan->strategy.mesh), &mesh, NULL) == WEFT_OK &&
           strcmp(mesh_print(&mesh, given), mesh_print(&plan->strategy.mesh, planned)) == 0;
}

static bool is_planned_placement(const struct plan *plan, const char *text)
{
    struct mesh_placement placement;
    return mesh_placement_parse(text, &placement, NULL) == WEFT_OK &&
           memcmp(&placement, &plan->strategy.placement, sizeof placement) == 0;
}

/* Have the configuration follow the plan. */
static void follow_plan(struct train_plan *plan, char *const *arguments, struct train_config *config)
{
    const struct strategy *strategy = &plan->plan.strategy;
    struct train_config planned = *config;
    strategy_configure(strategy, &plan->words, &planned);
    for (size_t i = 0; i < ARRAY_SIZE(planned_options); i++)
        apply_option(plan, arguments, &planned_options[i], &planned, config);
    if (!arguments_have(arguments, "mesh", 0) || plan->automatic)
        config->mesh = planned.mesh;
    else if (!is_planned_mesh(&plan->plan, config->mesh))
        note_contradiction(plan, "mesh");
    if (!arguments_have(arguments, "placement", 0))
        config->placement = planned.placement;
    else if (!is_planned_placement(&plan->plan, config->placement))
        note_contradiction(plan, "placement");
    config->first_unit = plan->plan.first_unit;
    config->unit_stages = strategy->stages * strategy->mesh.extent[MESH_PIPELINE];
    config->shares = plan->plan.shares;
    config->share_ranks = strategy->mesh.extent[MESH_DATA];
}

static weft_status refuse_options(char *const *arguments, struct error *error)
{
    for (size_t i = 0; i < ARRAY_SIZE(planned_options); i++)
        if (strcmp(planned_options[i].name, "precision") != 0 && arguments_have(arguments, planned_options[i].name, 0))
            return error_set(error, WEFT_ERROR_ARGUMENT,
                             "--mesh auto chooses --%s, too; leave it out, or give the mesh (--mesh data=2,pipeline=2)",
                             planned_options[i].name);
    return WEFT_OK;
}

weft_status train_plan_begin(struct train_plan *plan, char *const *arguments, struct train_config *config,
                             struct error *error)
{
    plan->automatic = config->mesh && strcmp(config->mesh, "auto") == 0;
    if (plan->automatic && plan->path)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--mesh auto makes a plan, and --plan has one; use one of them");
    if (plan->automatic)
        return refuse_options(arguments, error);
    if (!plan->path)
        return WEFT_OK;
    weft_status status = plan_load(plan->path, &plan->plan, error);
    if (status != WEFT_OK)
        return status;
    if (!config->model && !arguments_have(arguments, "from", 0))
        config->model = plan->plan.model;
    if (!arguments_have(arguments, "batch", 'b'))
        config->batch = plan->plan.batch;
    if (!arguments_have(arguments, "sequence", 0))
        config->sequence = plan->plan.sequence;
    if (!arguments_have(arguments, "gradients", 0))
        config->gradients = plan->plan.gradients;
    if (!arguments_have(arguments, "optimizer", 0))
        config->optimizer.kind = plan->plan.optimizer;
    follow_plan(plan, arguments, config);
    return WEFT_OK;
}

/* ---- the run ---- */

static weft_status settle_given(struct train_plan *plan, const struct model_description *description, uint32_t ranks,
                                struct train_config *config, FILE *warnings, struct error *error)
{
    char differences[PLAN_DIFFERENCES_BYTES], strategy[STRATEGY_TEXT_BYTES];
    plan_differences(&plan->plan, config, description, ranks, differences);
    if (!*differences && !*plan->differences)
        return WEFT_OK;
    const char *between = *differences && *plan->differences ? "; " : "";
    if (!plan->force)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "the run does not match the plan in '%s' (%s): %s%s%s; correct the options, or add --force",
                         plan->path, strategy_describe(&plan->plan.strategy, strategy), plan->differences, between,
                         differences);
    if (warnings)
        fprintf(warnings, "weft: warning: the run does not match the plan in '%s': %s%s%s\n", plan->path,
                plan->differences, between, differences);
    config->shares = NULL; /* the micro-batches may be others */
    if (plan_model_hash(description) != plan->plan.model_hash)
        config->first_unit = NULL; /* its layers are others */
    return WEFT_OK;
}

static weft_status settle_automatic(struct train_plan *plan, const struct model_description *description,
                                    weft_context *context, struct train_config *config, FILE *output, bool *speaks,
                                    struct error *error)
{
    char text[STRATEGY_TEXT_BYTES];
    plan_free(&plan->plan); /* of a beginning that failed */
    const weft_status status =
        auto_plan_reach(config, description, context, weft_world(context), &plan->plan, speaks, error);
    if (status != WEFT_OK)
        return status;
    follow_plan(plan, NULL, config);
    if (output)
        fprintf(output, "auto   %s; predicted %.4g ms a step\n", strategy_describe(&plan->plan.strategy, text),
                plan->plan.price.seconds * 1e3);
    return WEFT_OK;
}

weft_status train_plan_settle(struct train_plan *plan, weft_context *context, uint32_t first_ranks,
                              struct train_config *config, FILE *warnings, FILE *output, bool *speaks,
                              struct error *error)
{
    const bool first = weft_comm_rank(weft_world(context)) == 0;
    struct model_description *description;
    struct model_shape shape = config->shape;
    if (!plan->path && !plan->automatic)
        return WEFT_OK;
    training_shape_for_task(config->classify, &shape);
    if (!config->sequence)
        config->sequence = (int64_t)config->shape.context;
    *speaks = first; /* the same on all ranks */
    weft_status status = model_describe(&shape, &description, error);
    if (status != WEFT_OK)
        return status;
    if (plan->automatic)
        status = settle_automatic(plan, description, context, config, first ? output : NULL, speaks, error);
    else
        status = settle_given(plan, description, first_ranks, config, first ? warnings : NULL, error);
    model_description_free(description);
    return status;
}

void train_plan_free(struct train_plan *plan)
{
    plan_free(&plan->plan);
}
