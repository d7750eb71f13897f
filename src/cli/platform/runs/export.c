/* SPDX-License-Identifier: Apache-2.0 */
/* `weft export`: a run as files for another system. */
#include "base/file/file.h"
#include "cli/frame/command.h"
#include "cli/platform/client/run_reference.h"
#include "cli/platform/runs/mpijob.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

static struct {
    const char *image, *directory;
} chosen;

static const struct cli_option options[] = {
    CLI_TEXT("image", 0, "NAME", &chosen.image, NULL, "name of the image, as the cluster gets it",
             .default_text = "weft-run-N"),
    CLI_TEXT("directory", 'd', "DIR", &chosen.directory, NULL, "write the files there", .default_text = "run-N-mpijob"),
};

/* A file to write. */
struct exported {
    const char *name;
    void (*put)(struct buffer *text, const struct mpijob *job);
    struct buffer text;
    char path[FILE_PATH_BYTES];
};

static weft_status prepare_file(struct exported *file, const char *directory, const struct mpijob *job,
                                struct error *error)
{
    weft_status status = file_join(file->path, directory, file->name, error);
    if (status == WEFT_OK && faccessat(AT_FDCWD, file->path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        status = error_set(error, WEFT_ERROR_ARGUMENT,
                           "'%s' exists already: remove it, or choose another directory with --directory", file->path);
    if (status != WEFT_OK)
        return status;
    file->put(&file->text, job);
    return file->text.failed ? error_memory(error, file->text.room, file->name) : WEFT_OK;
}

/* All of them or none. */
static weft_status export_write_files(struct exported *files, size_t count, const char *directory, struct error *error)
{
    const bool there = file_is_directory(directory);
    size_t written = 0;
    weft_status status = file_make_directory(directory, error);
    while (status == WEFT_OK && written < count) {
        const struct buffer *text = &files[written].text;
        status = file_write(files[written].path, buffer_begin(text), buffer_size(text), error);
        if (status == WEFT_OK)
            written++;
    }
    if (status == WEFT_OK)
        return status;
    while (written > 0)
        unlink(files[--written].path);
    if (!there)
        rmdir(directory);
    return status;
}

static weft_status export_mpijob(const struct mpijob *job, FILE *output, struct error *error)
{
    static struct exported files[] = {{.name = "mpijob.yaml", .put = mpijob_put_manifest},
                                      {.name = "Containerfile", .put = mpijob_put_containerfile}};
    char usual[64];
    snprintf(usual, sizeof usual, "run-%" PRId64 "-mpijob", job->run);
    const char *directory = chosen.directory ? chosen.directory : usual;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < ARRAY_SIZE(files) && status == WEFT_OK; i++)
        status = prepare_file(&files[i], directory, job, error);
    if (status == WEFT_OK)
        status = export_write_files(files, ARRAY_SIZE(files), directory, error);
    for (size_t i = 0; i < ARRAY_SIZE(files); i++)
        buffer_free(&files[i].text);
    if (status == WEFT_OK)
        fprintf(output,
                "run %" PRId64 " is exported to %s and %s\n"
                "next: build the image as the Containerfile says, then kubectl apply -f %s\n",
                job->run, files[0].path, files[1].path, files[0].path);
    return status;
}

static weft_status export_mpijob_run(struct command_call *call, struct error *error)
{
    struct platform platform;
    struct run_specification specification = {0};
    struct mpijob job = {.image = chosen.image, .specification = &specification};
    cJSON *object = NULL;
    if (chosen.directory && !*chosen.directory)
        return command_misused(call, error_set(error, WEFT_ERROR_ARGUMENT, "the name of the directory is empty"));
    weft_status status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    status = run_reference_get(&platform, call->words[0], &job.run, &object, error);
    if (status == WEFT_OK)
        status =
            run_specification_read(field(object, "specification"), "the run's specification", &specification, error);
    if (status == WEFT_OK)
        status = mpijob_check(&job, error);
    if (status == WEFT_OK)
        status = export_mpijob(&job, call->output, error);
    run_specification_free(&specification);
    cJSON_Delete(object);
    platform_close(&platform);
    return status;
}

static const struct command mpijob = {
    .name = "mpijob",
    .summary = "write a run as an MPIJob for Kubernetes, and a Containerfile for its image",
    .description =
        "Writes DIR/mpijob.yaml, for a cluster with the MPI operator of Kubeflow (kubeflow.org/v2beta1), and "
        "DIR/Containerfile, from which the image is built. Neither file may exist. No cluster is asked, and the files "
        "have not been run on one: read them first.\n\n"
        "The MPIJob has a worker for each node of the run, with the slots as nvidia.com/gpu or cpu, processors and memory "
        "where the run asks for them, and a launcher that runs weft run on the operator's hostfile. Command, "
        "environment, time limit and retries are the run's. Of secrets only the names are written: the values are read "
        "from a Secret of Kubernetes that you make. Comments in the files say what is left to do: the run's files for the "
        "image, and a volume for checkpoints.",
    .examples = "weft export mpijob 12\nweft export mpijob baseline --image registry.example.org/vision/baseline:1 "
                "--directory k8s\n",
    .words = "RUN",
    COMMAND_OPTIONS(options),
    .run = export_mpijob_run,
};

const struct command command_export = {
    .name = "export",
    .group = COMMAND_PLATFORM,
    .summary = "take a run to another system",
    COMMAND_SUBCOMMANDS(&mpijob),
};
