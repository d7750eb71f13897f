/* SPDX-License-Identifier: Apache-2.0 */
#include "training/parallel/agreement.h"

#include "base/library_error.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- status ---- */

/*
 * Send the message of rank `first` to all ranks. A broadcast ends on one rank before others have received it, and a rank
 * that has the message may exit, which would break the broadcast for the others. The barrier keeps every rank until all
 * have the message. If the barrier itself fails, some rank has left it, so every rank has the message.
 */
static weft_status share_message(weft_comm *comm, int first, struct error *error)
{
    weft_status status = weft_broadcast(error->text, sizeof error->text, WEFT_I8, first, comm);
    if (status == WEFT_OK)
        (void)weft_barrier(comm);
    return status;
}

weft_status agreement_reach(weft_context *context, weft_comm *comm, weft_status status, struct error *error,
                            bool *speaks)
{
    int ranks = weft_comm_size(comm), first = 0;
    int32_t mine = (int32_t)status, *all = malloc((size_t)ranks * sizeof *all);
    *speaks = true;
    if (!all)
        return error_memory(error, (size_t)ranks * sizeof *all, "the states of the ranks");
    weft_status exchange = weft_allgather(&mine, all, 1, WEFT_I32, comm);
    if (exchange == WEFT_OK) {
        while (first < ranks && all[first] == WEFT_OK)
            first++;
        if (first == ranks) {
            free(all);
            return WEFT_OK;
        }
        status = (weft_status)all[first];
        exchange = share_message(comm, first, error);
    }
    free(all);
    if (exchange != WEFT_OK) {
        error_clear(error);
        return error_set(error, exchange, "%s", weft_message(context));
    }
    error->status = status;
    *speaks = first == weft_comm_rank(comm);
    return status;
}

/* ---- kernels ---- */

const char *const kernel_rule_names[KERNELS_NAMED + KERNEL_SETS + 1] = {"common", "same",       "baseline", "avx2",
                                                                        "avx512", "avx512bf16", "amx",      NULL};

/* The contribution of a rank: its rule, and its highest set. */
struct offer {
    uint8_t rule, best;
};

/* A rank, for messages. */
static const char *name(int rank, const weft_comm *comm, char text[128])
{
    snprintf(text, 128, "rank %d on host %.80s", rank, weft_comm_host(comm, rank));
    return text;
}

static weft_status check_rules(const struct offer *offers, const weft_comm *comm, struct error *error)
{
    char who[128];
    for (int r = 1; r < weft_comm_size(comm); r++)
        if (offers[r].rule != offers[0].rule)
            return error_set(error, WEFT_ERROR_ARGUMENT,
                             "%s was started with --kernels %s, but rank 0 with --kernels %s; give all ranks the same",
                             name(r, comm, who), kernel_rule_names[offers[r].rule], kernel_rule_names[offers[0].rule]);
    return WEFT_OK;
}

static weft_status apply_rule(const struct offer *offers, const weft_comm *comm, weft_type activations,
                              struct kernel_choice *choice, struct error *error)
{
    const int rule = offers[0].rule, ranks = weft_comm_size(comm);
    const enum kernel_set highest = kernel_set_highest(activations);
    char who[128], other[128];
    int best = 0;
    *choice = (struct kernel_choice){0};
    for (int r = 1; r < ranks; r++) {
        if (offers[r].best < offers[choice->lowest].best)
            choice->lowest = r;
        if (offers[r].best > offers[best].best)
            best = r;
    }
    const enum kernel_set common = offers[choice->lowest].best;
    choice->best = offers[best].best;
    choice->set = rule >= KERNELS_NAMED ? (enum kernel_set)(rule - KERNELS_NAMED) : common;
    for (int r = 0; r < ranks; r++)
        choice->better += offers[r].best > choice->set;
    if (choice->set > highest)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--kernels %s: %s makes use of %s at most; choose this",
                         kernel_set_names[choice->set], weft_type_name(activations), kernel_set_names[highest]);
    if (choice->set > common)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--kernels %s: %s can use %s at most; choose this, or common",
                         kernel_set_names[choice->set], name(choice->lowest, comm, who), kernel_set_names[common]);
    if (rule == KERNELS_SAME && choice->best != common)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--kernels same: %s has %s and %s has %s; choose ranks alike, or --kernels common",
                         name(choice->lowest, comm, who), kernel_set_names[common], name(best, comm, other),
                         kernel_set_names[choice->best]);
    return WEFT_OK;
}

weft_status kernel_choice_reach(weft_context *context, weft_comm *comm, int rule, weft_type activations,
                                struct kernel_choice *choice, bool *speaks, struct error *error)
{
    const struct offer mine = {(uint8_t)rule, (uint8_t)kernel_set_best(activations)};
    struct offer *offers = malloc((size_t)weft_comm_size(comm) * sizeof *offers);
    *speaks = true;
    if (!offers)
        return error_memory(error, (size_t)weft_comm_size(comm) * sizeof *offers, "the kernels of all ranks");
    weft_status status = library_error(context, weft_allgather(&mine, offers, sizeof mine, WEFT_U8, comm), error);
    if (status == WEFT_OK)
        status = check_rules(offers, comm, error);
    if (status == WEFT_OK)
        status = apply_rule(offers, comm, activations, choice, error);
    free(offers);
    return agreement_reach(context, comm, status, error, speaks);
}

const char *kernel_choice_describe(const struct kernel_choice *choice, const weft_comm *comm,
                                   char text[KERNEL_CHOICE_TEXT_BYTES])
{
    const int ranks = weft_comm_size(comm);
    char who[128];
    *text = 0;
    if (choice->better == ranks)
        snprintf(text, KERNEL_CHOICE_TEXT_BYTES, "%s, as requested; every rank could use more",
                 kernel_set_names[choice->set]);
    else if (choice->better)
        snprintf(
            text, KERNEL_CHOICE_TEXT_BYTES,
            "%s, so that all ranks compute the same bits: %s can use no more, but %d of %d ranks could use up to %s",
            kernel_set_names[choice->set], name(choice->lowest, comm, who), choice->better, ranks,
            kernel_set_names[choice->best]);
    return text;
}
