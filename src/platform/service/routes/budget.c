/* SPDX-License-Identifier: Apache-2.0 */
/* Budgets: what projects have, and every posting of it. */
#include "base/format/json_put.h"
#include "platform/service/internal/service_state.h"
#include "platform/service/routes/budget_json.h"
#include "platform/service/runs/run_json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

void budget_json_put(struct json_writer *writer, const char *key, const struct ledger_budget *budget)
{
    JSON_PUT_OBJECT(writer, key, "limited", budget->limited, "rate_per_day", budget_json_amount(budget->rate), "cap",
                    budget_json_amount(budget->cap), "shared", budget->shared, "pool", budget_json_amount(budget->pool),
                    "accruing", budget_json_amount(budget->accruing), "members", budget_json_amount(budget->members),
                    "held", budget_json_amount(budget->held), "spent", budget_json_amount(budget->spent));
}

/* ---- changes ---- */

/* An amount of the body, in slot-minutes, as the ledger counts. */
static weft_status amount_of(const struct route_call *call, const char *key, int64_t *amount, struct error *error)
{
    double value = 0;
    weft_status status = json_get_number(call->body, key, "the body", &value, error);
    if (status == WEFT_OK && fabs(value) > (double)LEDGER_MOST / (double)LEDGER_SLOT_MINUTE)
        status = error_set(error, WEFT_ERROR_DATA, "%s is %g slot-minutes; the maximum is %g", key, value,
                           (double)LEDGER_MOST / (double)LEDGER_SLOT_MINUTE);
    if (status == WEFT_OK)
        *amount = (int64_t)llround(value * (double)LEDGER_SLOT_MINUTE);
    return status;
}

/* A text of the body; "" if it is not there. */
static const char *text_of(const struct route_call *call, const char *key)
{
    const char *text = "";
    json_get_text(call->body, key, "the body", &text, NULL);
    return text;
}

/* A budget was changed, and is the answer. */
static weft_status answer_budget(struct route_call *call, struct json_writer *answer, struct error *error)
{
    struct writer *writer = service_of(call)->writer;
    struct ledger_budget budget;
    controller_budgets_changed(writer_controller(writer));
    writer_project_changed(writer, call->project);
    weft_status status = ledger_budget_get(writer_registry(writer), call->project, writer_now(), &budget, error);
    if (status == WEFT_OK)
        budget_json_put(answer, NULL, &budget);
    return status;
}

static weft_status put_budget(struct route_call *call, struct json_writer *answer, struct error *error)
{
    int64_t rate = 0, cap = 0;
    bool shared = true;
    weft_status status = amount_of(call, "rate_per_day", &rate, error);
    if (status == WEFT_OK)
        status = amount_of(call, "cap", &cap, error);
    json_get_bool(call->body, "shared", "the body", &shared, NULL);
    if (status == WEFT_OK)
        status = ledger_budget_put(service_registry(call), call->project, rate, cap, shared, writer_now(), error);
    return status == WEFT_OK ? answer_budget(call, answer, error) : status;
}

static weft_status grant(struct route_call *call, struct json_writer *answer, struct error *error)
{
    int64_t amount = 0;
    weft_status status = amount_of(call, "amount", &amount, error);
    if (status == WEFT_OK)
        status = ledger_grant(service_registry(call), call->project, amount, call->who.user, text_of(call, "detail"),
                              writer_now(), error);
    return status == WEFT_OK ? answer_budget(call, answer, error) : status;
}

static weft_status transfer(struct route_call *call, struct json_writer *answer, struct error *error)
{
    int64_t amount = 0;
    weft_status status = amount_of(call, "amount", &amount, error);
    if (status == WEFT_OK)
        status = ledger_transfer(service_registry(call), call->project, text_of(call, "from"), text_of(call, "to"),
                                 amount, call->who.user, text_of(call, "detail"), writer_now(), error);
    return status == WEFT_OK ? answer_budget(call, answer, error) : status;
}

/* Every attempt of a run that has ended and cost something. */
static weft_status routes_budget_give_back(struct database *registry, int64_t run, const char *actor,
                                           const char *detail, int64_t *refunded, struct error *error)
{
    struct ledger_hold *holds = NULL;
    size_t count = 0;
    weft_status status = ledger_holds_of(registry, run, &holds, &count, error);
    *refunded = 0;
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        int64_t amount = 0;
        status = ledger_refund(registry, run, holds[i].epoch, actor, detail, writer_now(), &amount, error);
        *refunded += amount;
    }
    free(holds);
    if (status == WEFT_OK && *refunded == 0)
        status = error_set(error, WEFT_ERROR_STATE, "run %" PRId64 " has no charges that were not refunded", run);
    return status;
}

static weft_status refund(struct route_call *call, struct json_writer *answer, struct error *error)
{
    struct writer *writer = service_of(call)->writer;
    const int64_t run = route_value(call, "run")->integer;
    int64_t refunded = 0;
    weft_status status = routes_budget_give_back(writer_registry(writer), run, call->who.user, text_of(call, "detail"),
                                                 &refunded, error);
    if (status != WEFT_OK)
        return status;
    controller_budgets_changed(writer_controller(writer));
    writer_project_changed(writer, call->project);
    JSON_PUT_OBJECT(answer, NULL, "run", run, "project", call->project, "refunded", budget_json_amount(refunded));
    return WEFT_OK;
}

/* ---- the ledger ---- */

static void routes_budget_put_entry(struct json_writer *writer, const struct ledger_entry *entry)
{
    JSON_PUT_OBJECT(writer, NULL, "posting", entry->posting, "time", json_time(entry->time), "kind", entry->kind,
                    "account", entry->account, "user", entry->user, "amount", budget_json_amount(entry->amount), "run",
                    entry->run, "epoch", entry->epoch, "actor", entry->actor, "detail", entry->detail);
}

const char *const budget_json_entry_columns[] = {"posting", "time",  "kind",  "account", "user", "amount",
                                                 "run",     "epoch", "actor", "detail",  NULL};

static void show_ledger(struct route_call *call)
{
    struct database *reader = service_of(call)->reader;
    struct ledger_entry *entries = NULL, *older = NULL;
    size_t count = 0, older_count = 0;
    struct json_writer writer;
    struct error error = {0};
    weft_status status = ledger_entries(reader, call->project, route_value(call, "before")->integer,
                                        (size_t)route_value(call, "most")->integer, &entries, &count, &error);
    if (status == WEFT_OK && count)
        status = ledger_entries(reader, call->project, entries[count - 1].posting, 3, &older, &older_count, &error);
    json_begin(&writer, JSON_LINE);
    json_open_list(&writer, "entries");
    for (size_t i = 0; status == WEFT_OK && i < count; i++)
        routes_budget_put_entry(&writer, &entries[i]);
    json_close_page(&writer, older_count > 0);
    free(entries);
    free(older);
    table_answer(call, status, &writer, "entries", budget_json_entry_columns, &error);
}

/* ---- tables ---- */

#define PROJECT ROUTE_NAMED("project", "The name of the project.")
static const struct route_parameter project_parameters[] = {PROJECT, {0}};
static const struct route_parameter ledger_parameters[] = {
    PROJECT,
    ROUTE_BEFORE("Only postings of smaller numbers: the last of the page before."),
    ROUTE_NUMBERED("most", 3, 1000, "100", "How many entries at most; those of a posting come together."),
    TABLE_ANSWER_PARAMETER,
    {0}};

static const struct route routes[] = {
    {.method = "PUT",
     .path = "/api/v1/projects/{project}/budget",
     .operation = "changeBudget",
     .summary = "Give a project a budget, or change how it grows.",
     .permission = ROUTE_ADMINISTRATOR,
     .parameters = project_parameters,
     .request = "BudgetRequest",
     .response = "Budget",
     .handler = service_change,
     .work = put_budget},
    {.method = "POST",
     .path = "/api/v1/projects/{project}/grants",
     .operation = "grantBudget",
     .summary = "Add an amount to a project's pool, beyond its cap if need be.",
     .permission = ROUTE_ADMINISTRATOR,
     .parameters = project_parameters,
     .request = "Grant",
     .response = "Budget",
     .handler = service_change,
     .work = grant},
    {.method = "POST",
     .path = "/api/v1/projects/{project}/transfers",
     .operation = "transferBudget",
     .summary = "Move an amount between members and the pool.",
     .permission = ROUTE_MANAGER,
     .parameters = project_parameters,
     .request = "Transfer",
     .response = "Budget",
     .handler = service_change,
     .work = transfer},
    {.method = "POST",
     .path = "/api/v1/runs/{run}/refund",
     .operation = "refundRun",
     .summary = "Refund the charges of a run's ended attempts, once, if the platform turns out to have caused their "
                "failure.",
     .permission = ROUTE_ADMINISTRATOR,
     SERVICE_OF_RUN,
     .request = "Refund",
     .response = "Refunded",
     .handler = service_change,
     .work = refund},
    {.method = "GET",
     .path = "/api/v1/projects/{project}/ledger",
     .operation = "showLedger",
     .summary = "The entries of a project's ledger, newest first; those of a posting sum to zero.",
     .permission = ROUTE_VIEWER,
     .parameters = ledger_parameters,
     .response = "Ledger",
     .produces_also = TABLE_ANSWER_CSV,
     .handler = show_ledger},
};

/* clang-format off */
static const struct schema schemas[] = {
    {"Budget", SCHEMA({"type": "object", "description": "Amounts in slot-minutes.", "properties": {
        "limited": {"type": "boolean", "description": "false: the project has no budget, and is not limited."},
        "rate_per_day": {"type": "number"},
        "cap": {"type": "number", "description": "Accrual stops when pool, members and held together reach this."},
        "shared": {"type": "boolean", "description": "Members may also use the pool."},
        "pool": {"type": "number", "description": "Including the amount accrued until now."},
        "accruing": {"type": "number", "description": "The part of the pool that has accrued and is not yet posted to the ledger."},
        "members": {"type": "number"},
        "held": {"type": "number", "description": "Reserved for running runs."}, "spent": {"type": "number"}}})},
    {"BudgetRequest", SCHEMA({"type": "object", "required": ["rate_per_day", "cap"], "additionalProperties": false,
        "properties": {"rate_per_day": {"type": "number", "minimum": 0}, "cap": {"type": "number", "minimum": 0},
                       "shared": {"type": "boolean"}}})},
    {"Grant", SCHEMA({"type": "object", "required": ["amount"], "additionalProperties": false, "properties": {
        "amount": {"type": "number", "description": "Slot-minutes; negative amounts are withdrawn."},
        "detail": {"type": "string", "maxLength": 400}}})},
    {"Transfer", SCHEMA({"type": "object", "required": ["amount"], "additionalProperties": false, "properties": {
        "from": {"type": "string", "maxLength": 63, "description": "A member; empty: the pool."},
        "to": {"type": "string", "maxLength": 63, "description": "A member; empty: the pool."},
        "amount": {"type": "number"}, "detail": {"type": "string", "maxLength": 400}}})},
    {"Refund", SCHEMA({"type": "object", "additionalProperties": false, "properties": {
        "detail": {"type": "string", "maxLength": 400, "description": "The reason, stored in the ledger."}}})},
    {"Refunded", SCHEMA({"type": "object", "properties": {
        "run": {"type": "integer"}, "project": {"type": "string"},
        "refunded": {"type": "number", "description": "Slot-minutes."}}})},
    {"Ledger", SCHEMA({"type": "object", "properties": {
        "entries": {"type": "array", "items": {"type": "object", "properties": {
            "posting": {"type": "integer"}, "time": {"type": "integer"}, "kind": {"type": "string"},
            "account": {"type": "string"}, "user": {"type": "string"}, "amount": {"type": "number"},
            "run": {"type": "integer"}, "epoch": {"type": "integer"}, "actor": {"type": "string"},
            "detail": {"type": "string"}}}},
        "more": {"type": "boolean"}}})},
};
/* clang-format on */

const struct route_table budget_routes = ROUTE_TABLE("budgets");
