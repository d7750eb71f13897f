/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state_check DIRECTORY: whether what a control plane that has ended left in its directory is whole: every page of its
 * databases, and all sums of the ledger. Prints a message for each that is not; exits with 1 then.
 */
#include "base/file/file.h"
#include "platform/access/access.h"
#include "platform/metrics/store/store.h"
#include "platform/registry/ledger/ledger.h"
#include "platform/registry/registry.h"

#include <stdio.h>

static int say(const struct error *error)
{
    printf("%s\n", error->text);
    return 1;
}

int main(int count, char **words)
{
    struct error error = {0};
    struct database *registry, *access;
    struct metric_store *metrics;
    char path[FILE_PATH_BYTES];
    int wrong = 0;
    if (count != 2)
        return 2;
    if (registry_open(words[1], DATABASE_WRITER, &registry, &error) == WEFT_OK) {
        if (database_check(registry, &error) != WEFT_OK || ledger_check(registry, &error) != WEFT_OK)
            wrong = say(&error);
        database_close(registry);
    } else {
        wrong = say(&error);
    }
    error_clear(&error);
    if (file_join(path, words[1], "access.db", &error) == WEFT_OK && access_open(path, &access, &error) == WEFT_OK) {
        if (database_check(access, &error) != WEFT_OK)
            wrong = say(&error);
        database_close(access);
    } else {
        wrong = say(&error);
    }
    error_clear(&error);
    if (file_join(path, words[1], "metrics.db", &error) == WEFT_OK &&
        metric_store_open(path, &(struct metric_options){0}, &metrics, &error) == WEFT_OK) {
        if (database_check(metric_store_database(metrics), &error) != WEFT_OK)
            wrong = say(&error);
        if (metric_store_close(metrics, &error) != WEFT_OK)
            wrong = say(&error);
    } else {
        wrong = say(&error);
    }
    return wrong;
}
