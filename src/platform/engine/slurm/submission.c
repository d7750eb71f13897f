/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/engine/slurm/internal/submission.h"

#include "base/file/file.h"
#include "core/control/wire/frame.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAGIC     "weft-slurm-job 1\n"
#define TEXTS     7
#define SIZE_MOST ((size_t)1 << 20)

/* The fields that are texts. */
static void list_texts(struct slurm_submission *submission, const char **texts[TEXTS])
{
    const char **const fields[TEXTS] = {&submission->name,        &submission->node_list, &submission->user,
                                        &submission->reservation, &submission->directory, &submission->output,
                                        &submission->script};
    memcpy(texts, fields, sizeof fields);
}

weft_status submission_copy(const struct slurm_submission *from, struct slurm_submission *to, char **texts,
                            struct error *error)
{
    const char **fields[TEXTS];
    size_t size = 1;
    *to = *from;
    list_texts(to, fields);
    for (size_t i = 0; i < TEXTS; i++)
        size += *fields[i] ? strlen(*fields[i]) + 1 : 0;
    char *at = *texts = malloc(size);
    if (!at)
        return error_memory(error, size, "a job");
    for (size_t i = 0; i < TEXTS; i++) {
        if (!*fields[i])
            continue;
        const size_t length = strlen(*fields[i]) + 1;
        memcpy(at, *fields[i], length);
        *fields[i] = at;
        at += length;
    }
    return WEFT_OK;
}

weft_status submission_save(const char *path, const struct slurm_submission *submission, struct error *error)
{
    struct slurm_submission copy = *submission;
    const char **fields[TEXTS];
    struct buffer bytes = {0};
    list_texts(&copy, fields);
    buffer_put(&bytes, MAGIC, sizeof MAGIC - 1);
    for (size_t i = 0; i < TEXTS; i++)
        buffer_put_text(&bytes, *fields[i] ? *fields[i] : "");
    buffer_put_u32(&bytes, copy.nodes);
    buffer_put_u32(&bytes, copy.cpus_per_node);
    buffer_put_u32(&bytes, copy.gpus_per_node);
    buffer_put_u32(&bytes, copy.exclusive);
    buffer_put_u64(&bytes, copy.memory_per_node);
    buffer_put_u64(&bytes, copy.seconds);
    weft_status status = bytes.failed ? error_memory(error, SIZE_MOST, "a job")
                                      : file_write(path, buffer_begin(&bytes), buffer_size(&bytes), error);
    buffer_free(&bytes);
    if (status == WEFT_OK && chmod(path, 0600) != 0)
        status = error_system(error, "cannot keep others from reading '%s'", path);
    return status;
}

weft_status submission_load(const char *path, struct slurm_submission *submission, char **texts, struct error *error)
{
    struct slurm_submission read = {0};
    const char **fields[TEXTS];
    char *copies[TEXTS] = {0}, *bytes;
    size_t size;
    weft_status status = file_read(path, SIZE_MOST, &bytes, &size, error);
    if (status != WEFT_OK)
        return status;
    struct reader reader = {(const uint8_t *)bytes, size, false};
    const uint8_t *magic = reader_bytes(&reader, sizeof MAGIC - 1);
    bool good = magic && memcmp(magic, MAGIC, sizeof MAGIC - 1) == 0;
    list_texts(&read, fields);
    for (size_t i = 0; i < TEXTS && good; i++) {
        good = (copies[i] = reader_text_copy(&reader)) != NULL;
        *fields[i] = good && *copies[i] ? copies[i] : NULL;
    }
    read.nodes = reader_u32(&reader);
    read.cpus_per_node = reader_u32(&reader);
    read.gpus_per_node = reader_u32(&reader);
    read.exclusive = reader_u32(&reader) != 0;
    read.memory_per_node = reader_u64(&reader);
    read.seconds = reader_u64(&reader);
    status = !good || reader.bad ? error_set(error, WEFT_ERROR_DATA, "'%s' is damaged", path)
                                 : submission_copy(&read, submission, texts, error);
    for (size_t i = 0; i < TEXTS; i++)
        free(copies[i]);
    free(bytes);
    return status;
}
