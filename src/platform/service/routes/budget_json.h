/* SPDX-License-Identifier: Apache-2.0 */
/** Budgets as the interface shows them: in slot-minutes. Thread-safe. */
#ifndef WEFT_PLATFORM_SERVICE_ROUTES_BUDGET_JSON_H
#define WEFT_PLATFORM_SERVICE_ROUTES_BUDGET_JSON_H

#include "base/format/json.h"
#include "platform/registry/ledger/ledger.h"

/** An amount of the ledger in slot-minutes, as JSON has it. */
static inline double budget_json_amount(int64_t amount)
{
    return (double)amount / (double)LEDGER_SLOT_MINUTE;
}

/** A budget as an object. */
void budget_json_put(struct json_writer *writer, const char *key, const struct ledger_budget *budget);

/** The keys of an entry of the ledger, for tables; NULL ends them. */
extern const char *const budget_json_entry_columns[];

#endif
