/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/run_submission.h"

#include "base/format/json_put.h"
#include "base/text.h"
#include "platform/registry/owner.h"
#include "platform/registry/projects.h"
#include "platform/registry/secret_store.h"
#include "platform/runs/directory.h"
#include "platform/service/internal/accounts.h"
#include "platform/service/internal/snapshot_stores.h"
#include "platform/snapshot/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool run_wanted_set(cJSON *object, const char *key, const char *value)
{
    cJSON_DeleteItemFromObjectCaseSensitive(object, key);
    return cJSON_AddStringToObject(object, key, value) != NULL;
}

/* Runs are named by either: who means one run by its number is not to hit another one by its name. */
static weft_status run_submission_check_name(const struct run_specification *specification, struct error *error)
{
    const char *name = specification->name;
    if (!*name || name[strspn(name, "0123456789")])
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_ARGUMENT,
                     "the run's name is '%s', and what has digits alone is the number of a run: put a letter to it",
                     name);
}

static weft_status run_submission_check_kind(const struct run_specification *specification,
                                             const struct writer_slots *slots, struct error *error)
{
    if (specification->slot_kind == slots->kind)
        return WEFT_OK;
    return slots->kind == SLOT_CPU
               ? error_set(error, WEFT_ERROR_STATE,
                           "the run asks for GPUs, and there are none here: the %" PRId64
                           " slots of this cluster are processors; ask for them with --slots %" PRId64,
                           slots->slots, specification->slots)
               : error_set(error, WEFT_ERROR_STATE, "the run asks for CPU slots, and all slots here are GPUs");
}

/* Whether there is room for it, and it asks for no more than it may. */
static weft_status check_disk(const struct writer *writer, const struct run_specification *specification,
                              struct error *error)
{
    char asked[32], most[32];
    const int64_t limit = writer_disk_limit(writer);
    if (limit && specification->disk > limit)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the run asks for %s on disk, and a run may have %s",
                         text_bytes((uint64_t)specification->disk, asked, sizeof asked),
                         text_bytes((uint64_t)limit, most, sizeof most));
    return disk_watch_check(writer_disk(writer), specification->project, error);
}

/* The audit log has which secrets a run asks for. */
static void tell_secrets(struct route_call *call, const struct run_specification *specification)
{
    struct run_order *order = call->kept;
    size_t used = 0;
    for (char **wanted = specification->secrets; *wanted && used < sizeof order->used; wanted++)
        used +=
            (size_t)snprintf(order->used + used, sizeof order->used - used, "%s%s", used ? " " : "secrets: ", *wanted);
    if (used)
        call->detail = order->used;
}

/* Whether the owner, or else the project, has the secrets that the run asks for, and whether they can be had. */
static weft_status run_submission_check_secrets(const struct service *service,
                                                const struct run_specification *specification, struct error *error)
{
    char directory[FILE_PATH_BYTES], name[SECRET_NAME_BYTES], place[SECRET_PLACE_BYTES], *value;
    size_t size;
    weft_status status = file_join(directory, service->directory, SERVICE_SECRETS, error);
    for (char **wanted = specification->secrets; status == WEFT_OK && *wanted; wanted++) {
        run_secret_variable(*wanted, name);
        if (!secret_store_has(directory, secret_place(place, false, specification->owner, name)) &&
            !secret_store_has(directory, secret_place(place, true, specification->project, name)))
            return error_set(
                error, WEFT_ERROR_STATE,
                "the run asks for the secret '%s', which neither '%s' nor project '%s' has; 'weft secret set "
                "%s' makes one of your own",
                name, specification->owner, specification->project, name);
        status = secret_store_get(directory, place, &value, &size, error);
        if (status != WEFT_OK)
            break;
        explicit_bzero(value, size);
        free(value);
    }
    return status;
}

/* Read what is wanted, with what follows from who asks and from what this cluster has. */
static weft_status read_wanted(struct writer *writer, const struct run_submission *submission,
                               struct run_specification *specification, struct error *error)
{
    cJSON *wanted = submission->wanted;
    struct writer_slots slots = writer_slots(writer);
    bool chosen = cJSON_HasObjectItem(wanted, "slot_kind");
    if (!run_wanted_set(wanted, "project", submission->project) ||
        !run_wanted_set(wanted, "owner", submission->owner) ||
        (!chosen && !run_wanted_set(wanted, "slot_kind", slot_kind_name(slots.kind))))
        return error_memory(error, 64, "a run");
    weft_status status = run_specification_read(wanted, "the run", specification, error);
    if (status != WEFT_OK)
        return status;
    if (slots.pretended)
        specification->slot_kind = slots.kind; /* what would be GPUs elsewhere */
    status = run_submission_check_name(specification, error);
    if (status == WEFT_OK)
        status = run_submission_check_kind(specification, &slots, error);
    if (status != WEFT_OK)
        run_specification_free(specification);
    return status;
}

/* Where one person has the server for themselves, a project is made when it is first named. */
static weft_status run_submission_make_project(struct writer *writer, struct run_submission *submission,
                                               struct error *error)
{
    struct registry_project project;
    if (registry_project_get(writer_registry(writer), submission->project, &project, NULL) == WEFT_OK)
        return WEFT_OK;
    submission->project_made = true;
    return registry_project_make(writer_registry(writer), submission->project, "", submission->owner, writer_now(),
                                 error);
}

/* Whether the run has less time than it asks for. */
static weft_status say_limited(struct database *registry, int64_t asked, struct run_submission *submission,
                               struct error *error)
{
    struct registry_run run;
    weft_status status = registry_run_get(registry, submission->run, &run, error);
    if (status == WEFT_OK && run.time_limit < asked)
        controller_limit_say(run.time_limit, run.class_name, submission->limited, sizeof submission->limited);
    return status;
}

/* Two runs that continue the same run would do the same work twice. */
static weft_status check_resumed(struct database *registry, const struct run_submission *submission,
                                 struct error *error)
{
    int64_t other = 0;
    weft_status status = submission->resumes && !submission->again
                             ? registry_run_duplicate(registry, submission->run, &other, error)
                             : WEFT_OK;
    return status != WEFT_OK || !other
               ? status
               : error_set(error, WEFT_ERROR_STATE,
                           "run %" PRId64 " goes on already, as run %" PRId64 ": stop that first, or fork run %" PRId64
                           " to have another one beside it",
                           submission->resumes, other, submission->resumes);
}

/* See that the code and the checkpoint that a specification names are there, before the run is queued. */
static weft_status run_origin_check(const struct controller_directories *directories,
                                    const struct run_specification *specification, struct error *error)
{
    char path[FILE_PATH_BYTES];
    weft_status status = WEFT_OK;
    if (*specification->checkpoint && specification->parent <= 0)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "a run that begins from checkpoint '%.100s' is a fork of the run that has it",
                         specification->checkpoint);
    if (*specification->snapshot) {
        status = snapshot_stores_find(directories, specification->project, specification->owner,
                                      specification->snapshot, specification->parent, path, error);
    }
    return status;
}

weft_status run_submission_enter(struct route_call *call, struct run_submission *submission, struct error *error)
{
    struct writer *writer = service_of(call)->writer;
    struct database *registry = writer_registry(writer);
    const struct run_order *order = call->kept;
    struct run_specification specification;
    int64_t now = writer_now();
    char account[REGISTRY_ACCOUNT_BYTES];
    weft_status status =
        run_owner_of_user(registry, submission->owner, accounts_own_user(service_of(call)), account, error);
    if (status == WEFT_OK)
        status = read_wanted(writer, submission, &specification, error);
    if (status != WEFT_OK)
        return status;
    status = check_disk(writer, &specification, error);
    tell_secrets(call, &specification);
    if (status == WEFT_OK)
        status = run_submission_check_secrets(service_of(call), &specification, error);
    if (status == WEFT_OK)
        status = run_origin_check(writer_directories(writer), &specification, error);
    if (status == WEFT_OK)
        status = database_begin(registry, DATABASE_DURABLE, error);
    if (status == WEFT_OK) {
        if (strcmp(submission->project, submission->owner) == 0)
            status = registry_project_personal(registry, submission->owner, now, error);
        else if (!service_of(call)->tokens)
            status = run_submission_make_project(writer, submission, error);
        if (status == WEFT_OK)
            status = controller_check(writer_controller(writer), &specification, error);
        if (status == WEFT_OK)
            status = registry_run_submit(registry, &specification, order->key.text ? &order->key : NULL, now,
                                         &submission->run, &submission->again, error);
        if (status == WEFT_OK)
            status = check_resumed(registry, submission, error);
        status = database_end(registry, status, error);
    }
    submission->on_nodes = writer_engine(writer)->sends_files;
    const int64_t asked = specification.time_limit;
    run_specification_free(&specification);
    /* It is in the registry and will be run, so no later failure may be reported as the result. */
    struct error trouble = {0};
    if (status == WEFT_OK && !submission->again &&
        controller_submitted(writer_controller(writer), submission->run, now, &trouble) != WEFT_OK)
        writer_doubt(writer, &trouble);
    return status == WEFT_OK ? say_limited(registry, asked, submission, error) : status;
}

void run_submission_put(struct json_writer *answer, const struct run_submission *submission)
{
    json_open_object(answer, NULL);
    JSON_PUT(answer, "run", submission->run, "again", submission->again, "project_made", submission->project_made);
    if (submission->secrets)
        json_put_unsigned(answer, "secrets_left_out", submission->secrets);
    if (*submission->limited)
        json_put_text(answer, "limited", submission->limited);
    if (submission->on_nodes)
        json_put_text(answer, "storage",
                      "the cluster has no shared directory: checkpoints stay on the nodes' own disks and are lost when "
                      "the run is tried again elsewhere");
    json_close(answer);
}

/* ---- before the writer is asked ---- */

/* The digest of what is asked for: not of what that means now, which may be something else when it is asked again. */
static weft_status run_submission_read_key(struct route_call *call, struct registry_key *key, struct error *error)
{
    struct json_writer asked;
    weft_status status = WEFT_OK;
    if (!call->idempotency_key)
        return WEFT_OK;
    json_begin_line(&asked);
    json_put_text(&asked, "path", http_request_path(call->request));
    json_put_tree(&asked, "body", call->body);
    json_close(&asked);
    status = json_text(&asked)
                 ? registry_key_make(call->idempotency_key, json_text(&asked), json_size(&asked), key, error)
                 : error_memory(error, json_size(&asked), "a request");
    json_end(&asked);
    return status;
}

bool run_order_begin(struct route_call *call)
{
    struct run_order *order = calloc(1, sizeof *order);
    struct run_submission submission = {.again = true};
    struct json_writer writer;
    struct error error = {0};
    if (!order) {
        http_fail(call->request, 503, "the server is out of memory at the moment");
        return false;
    }
    call->kept = order;
    call->release = free;
    weft_status status = run_submission_read_key(call, &order->key, &error);
    if (status == WEFT_OK && order->key.text)
        status = registry_key_find(service_of(call)->reader, call->who.user, &order->key, &submission.run, &error);
    if (status != WEFT_OK) {
        http_fail_error(call->request, &error);
        return false;
    }
    if (!submission.run)
        return true;
    json_begin(&writer, JSON_LINE);
    run_submission_put(&writer, &submission);
    route_reply(call, &writer);
    return false;
}

/* ---- what a run begins from ---- */

weft_status run_origin_find(const struct controller_directories *directories, int64_t parent, const char *checkpoint,
                            char found[RUN_CHECKPOINT_NAME_BYTES], struct error *error)
{
    char path[FILE_PATH_BYTES];
    weft_status status = run_directory_path(directories->runs, parent, "checkpoints", path, error);
    return status == WEFT_OK ? run_checkpoint_find(path, checkpoint, found, error) : status;
}

weft_status run_origin_take(const struct controller_directories *directories, const char *project, int64_t run,
                            const char *owner, const char *user, struct snapshot *taken, struct error *error)
{
    char store[FILE_PATH_BYTES], private[FILE_PATH_BYTES], work[FILE_PATH_BYTES];
    struct error failure = {0};
    bool refused = false;
    const struct snapshot_options public = {.foreign = true, .refused = &refused}, all = {.foreign = true};
    weft_status status = snapshot_store_of(directories, project, store, error);
    *taken = (struct snapshot){.id = ""};
    if (status == WEFT_OK)
        status = run_directory_path(directories->runs, run, "work", work, error);
    if (status != WEFT_OK || !file_is_directory(work))
        return status;
    status = snapshot_take(store, work, &public, taken, &failure);
    if (status != WEFT_OK && (!refused || strcmp(owner, user) != 0))
        error_set(error, status, "%s%s", failure.text,
                  refused
                      ? ": so only the owner can promote the run, unless the file is made readable for others (chmod "
                        "go+r)"
                      : "");
    else if (status != WEFT_OK && (status = snapshot_store_make_private(private, store, owner, error)) == WEFT_OK)
        status = snapshot_take(private, work, &all, taken, error);
    return status;
}
