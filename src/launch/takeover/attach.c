/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/takeover/attach.h"

#include "launch/internal/job_record.h"

#include <stdlib.h>

weft_status attach_begin(const char *path, struct attach *attach, struct error *error)
{
    *attach = (struct attach){.directory = {.directory = -1, .lock = -1, .events = -1, .listener = -1}};
    attach->record = calloc(1, sizeof *attach->record);
    if (!attach->record)
        return error_memory(error, sizeof *attach->record, "the record of a job");
    weft_status status = job_directory_attach(path, &attach->directory, error);
    if (status == WEFT_OK)
        status = job_record_read(&attach->directory, attach->record, &attach->config, error);
    if (status != WEFT_OK)
        return status;
    attach->directory.began = attach->record->began;
    attach->config.job_directory = &attach->directory;
    return WEFT_OK;
}

void attach_end(struct attach *attach)
{
    hosts_free(&attach->config.hosts);
    string_list_free(&attach->config.program);
    if (attach->record)
        job_record_close(attach->record);
    free(attach->record);
    job_directory_close(&attach->directory);
}

const char *attach_variable(const struct attach *attach, const char *name)
{
    return order_variable(&attach->record->environment, name);
}

weft_status attach_check_free(const struct job_directory *directory, struct error *error)
{
    if (!job_record_exists(directory))
        return WEFT_OK;
    return error_set(
        error, WEFT_ERROR_STATE,
        "the job in '%s' has lost its launcher and may still run; take it over with weft run --attach %s, or choose "
        "another directory",
        directory->path, directory->path);
}
