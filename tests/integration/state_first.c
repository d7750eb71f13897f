/* SPDX-License-Identifier: Apache-2.0 */
/* state_first DIRECTORY: the platform's database as the first version of its schema was, empty: what later ones bring up.
 */
#include "base/file/file.h"
#include "platform/registry/registry.h"

#include <stdio.h>

int main(int count, char **words)
{
    struct error error = {0};
    struct database *database;
    struct database_schema first = registry_schema;
    char path[FILE_PATH_BYTES];
    first.version = 1;
    if (count != 2)
        return 2;
    if (file_join(path, words[1], REGISTRY_FILE, &error) != WEFT_OK ||
        database_open(path, &first, DATABASE_WRITER, &database, &error) != WEFT_OK) {
        printf("%s\n", error.text);
        return 1;
    }
    database_close(database);
    return 0;
}
