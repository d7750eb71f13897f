/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/platform/runs/mpijob.h"

#include "base/macro.h"
#include "platform/registry/secret_store.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PASSED_MOST 240 /* variables: `weft run` takes 256 --env, some of which are others */
#define DIRECTORY   "/weft/run"

/* The variables that the launcher sets itself, as the platform does. */
static const char *const own_variables[] = {"WEFT_RUN", "WEFT_NODE", "WEFT_NODES", "WEFT_NODE_HOSTS"};

/* ---- variables ---- */

static size_t name_size(const char *entry)
{
    return strcspn(entry, "=");
}

static bool is_named(const char *entry, const char *name)
{
    return name_size(entry) == strlen(name) && strncmp(entry, name, strlen(name)) == 0;
}

/* Whether a secret becomes the variable of `entry`, which it then replaces. */
static bool is_secret(const struct run_specification *specification, const char *entry)
{
    char name[SECRET_NAME_BYTES];
    for (char **secret = specification->secrets; secret && *secret; secret++)
        if (is_named(entry, run_secret_variable(*secret, name)))
            return true;
    return false;
}

/* Whether the variable is set in the Pod: a Pod takes each name only once. */
static bool is_kept_in_pod(const struct run_specification *specification, const char *entry)
{
    for (size_t i = 0; i < ARRAY_SIZE(own_variables); i++)
        if (is_named(entry, own_variables[i]))
            return false;
    return !is_secret(specification, entry);
}

static bool mpijob_has_variable(const struct run_specification *specification, const char *name)
{
    for (char **entry = specification->environment; entry && *entry; entry++)
        if (is_named(*entry, name))
            return true;
    return is_secret(specification, name);
}

/* ---- what an MPIJob cannot do ---- */

static bool is_variable_name(const char *entry)
{
    const size_t size = name_size(entry);
    for (size_t i = 0; i < size; i++)
        if (!isalnum((unsigned char)entry[i]) && !strchr("_.-", entry[i]))
            return false;
    return size > 0 && !isdigit((unsigned char)entry[0]) && entry[0] != '.';
}

static weft_status check_image(const char *image, struct error *error)
{
    for (const char *byte = image; *byte; byte++)
        if (!isalnum((unsigned char)*byte) && !strchr("._-/:@", *byte))
            return error_set(error, WEFT_ERROR_ARGUMENT,
                             "'%.200s' is not the name of an image, such as registry.example.org/team/run-12:1", image);
    return *image ? WEFT_OK : error_set(error, WEFT_ERROR_ARGUMENT, "the name of the image is empty");
}

weft_status mpijob_check(const struct mpijob *job, struct error *error)
{
    const struct run_specification *specification = job->specification;
    char *const *words = specification->arguments;
    size_t passed = 0;
    if (job->image && check_image(job->image, error) != WEFT_OK)
        return error->status;
    if (specification->interactive && strcmp(words[0], "sleep") == 0 && words[1] && strcmp(words[1], "infinity") == 0)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "run %" PRId64 " is interactive and has no command that an MPIJob could run", job->run);
    for (char **entry = specification->environment; entry && *entry; entry++, passed++)
        if (!is_variable_name(*entry))
            return error_set(error, WEFT_ERROR_ARGUMENT,
                             "run %" PRId64 " has the variable '%.*s', a name that Kubernetes does not take", job->run,
                             (int)(name_size(*entry) < 80 ? name_size(*entry) : 80), *entry);
    for (char **secret = specification->secrets; secret && *secret; secret++)
        passed++;
    if (passed > PASSED_MOST)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "run %" PRId64 " has %zu variables, and an MPIJob can pass on %d: put them into a file",
                         job->run, passed, PASSED_MOST);
    return WEFT_OK;
}

/* ---- YAML ---- */

/* A string in double quotes. The specification holds printable UTF-8, lines and tabs. With `expands`, Kubernetes would
 * replace $(NAME): $$ is a $ for it. */
static void put_quoted(struct buffer *text, const char *value, bool expands)
{
    buffer_put_string(text, "\"");
    for (const unsigned char *byte = (const unsigned char *)value; *byte; byte++) {
        if (*byte == '\n')
            buffer_put_string(text, "\\n");
        else if (*byte < ' ' || *byte == 0x7f)
            buffer_print(text, "\\x%02x", *byte);
        else if (*byte == 0xef && byte[1] == 0xbf && byte[2] >= 0xbe) { /* U+FFFE, U+FFFF: not characters of YAML */
            buffer_print(text, "\\uff%02x", byte[2] + 0x40);
            byte += 2;
        } else if (*byte == '"' || *byte == '\\')
            buffer_put(text, (const char[]){'\\', (char)*byte}, 2);
        else if (*byte == '$' && expands)
            buffer_put_string(text, "$$");
        else
            buffer_put(text, byte, 1);
    }
    buffer_put_string(text, "\"\n");
}

static void put_field(struct buffer *text, const char *key, const char *value, bool expands)
{
    buffer_put_string(text, key);
    buffer_put_string(text, " ");
    put_quoted(text, value, expands);
}

/* A word of the launcher's command. */
static void put_word(struct buffer *text, const char *word)
{
    put_field(text, "                -", word, true);
}

static void mpijob_put_words(struct buffer *text, const char *const *words)
{
    for (; *words; words++)
        put_word(text, *words);
}

/* ---- the launcher ---- */

static void put_image(struct buffer *text, const struct mpijob *job)
{
    char usual[64];
    snprintf(usual, sizeof usual, "weft-run-%" PRId64, job->run);
    put_field(text, "              image:", job->image ? job->image : usual, false);
}

static void put_passed(struct buffer *text, const char *name, size_t size)
{
    char word[SECRET_NAME_BYTES + 32];
    put_word(text, "--env");
    if (size < sizeof word) {
        snprintf(word, sizeof word, "%.*s", (int)size, name);
        put_word(text, word);
        return;
    }
    struct buffer whole = {0};
    buffer_put(&whole, name, size);
    const char *string = buffer_string(&whole);
    put_word(text, string ? string : "");
    text->failed |= !string;
    buffer_free(&whole);
}

static void put_passed_number(struct buffer *text, const char *name, int64_t value)
{
    char entry[64];
    snprintf(entry, sizeof entry, "%s=%" PRId64, name, value);
    put_passed(text, entry, strlen(entry));
}

/* The names of the Pod's variables, for `weft run` to pass on: sessions of sshd have none of a Pod's. */
static void put_passed_variables(struct buffer *text, const struct run_specification *specification)
{
    static const char *const of_image[] = {"PATH", "LD_LIBRARY_PATH"};
    char name[SECRET_NAME_BYTES];
    for (size_t i = 0; i < ARRAY_SIZE(of_image); i++)
        if (!mpijob_has_variable(specification, of_image[i]))
            put_passed(text, of_image[i], strlen(of_image[i]));
    for (char **entry = specification->environment; entry && *entry; entry++)
        if (is_kept_in_pod(specification, *entry))
            put_passed(text, *entry, name_size(*entry));
    for (char **secret = specification->secrets; secret && *secret; secret++) {
        const char *variable = run_secret_variable(*secret, name);
        put_passed(text, variable, strlen(variable));
    }
}

static void put_command(struct buffer *text, const struct mpijob *job)
{
    static const char *const run[] = {"/usr/local/bin/weft", "run", "--no-record", "--hostfile",
                                      "/etc/mpi/hostfile",   NULL};
    /* There is a rank on each node. */
    static const char *const on_node[] = {"/bin/sh", "-c", "WEFT_NODE=$WEFT_RANK exec \"$@\"", "sh", NULL};
    const struct run_specification *specification = job->specification;
    char script[160], number[32];
    buffer_put_string(text, "              command:\n");
    if (specification->launch != RUN_LAUNCH_RANKS) { /* "host slots=1" becomes "host:SLOTS", with commas between */
        snprintf(script, sizeof script,
                 "WEFT_NODE_HOSTS=$(/usr/bin/sed 's/ slots=.*/:%" PRId64
                 "/' /etc/mpi/hostfile | /usr/bin/paste -s -d , -) "
                 "exec \"$@\"",
                 specification->slots);
        mpijob_put_words(text, (const char *const[]){"/bin/sh", "-c", script, "sh", NULL});
    }
    mpijob_put_words(text, run);
    if (specification->launch == RUN_LAUNCH_FIRST)
        mpijob_put_words(text, (const char *const[]){"--ranks", "1", NULL});
    if (specification->launch == RUN_LAUNCH_RANKS && specification->min_nodes &&
        specification->min_nodes < specification->nodes) {
        snprintf(number, sizeof number, "%" PRId64, specification->min_nodes * specification->slots);
        mpijob_put_words(text, (const char *const[]){"--min-ranks", number, NULL});
    }
    put_passed_variables(text, specification);
    put_passed_number(text, "WEFT_RUN", job->run);
    put_passed_number(text, "WEFT_NODES", specification->nodes);
    if (specification->launch == RUN_LAUNCH_FIRST)
        put_passed_number(text, "WEFT_NODE", 0);
    put_word(text, "--");
    if (specification->launch == RUN_LAUNCH_NODES)
        mpijob_put_words(text, on_node);
    mpijob_put_words(text, (const char *const *)specification->arguments);
}

static void put_variable(struct buffer *text, const char *entry)
{
    const size_t size = name_size(entry);
    buffer_put_string(text, "                - name: \"");
    buffer_put(text, entry, size);
    buffer_put_string(text, "\"\n");
    put_field(text, "                  value:", entry + size + 1, true);
}

static void mpijob_put_environment(struct buffer *text, const struct mpijob *job)
{
    /* Hosts have the same keys, which are in the image. Kubernetes kills after 30 s. */
    static const char *const usual[] = {
        "WEFT_AGENT=/usr/bin/ssh -o BatchMode=yes -o ConnectTimeout=20 -o ConnectionAttempts=10", "WEFT_GRACE=24"};
    const struct run_specification *specification = job->specification;
    buffer_put_string(text, "              env:\n");
    for (size_t i = 0; i < ARRAY_SIZE(usual); i++) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)name_size(usual[i]), usual[i]);
        if (!mpijob_has_variable(specification, name))
            put_variable(text, usual[i]);
    }
    for (char **entry = specification->environment; entry && *entry; entry++)
        if (is_kept_in_pod(specification, *entry))
            put_variable(text, *entry);
    for (char **secret = specification->secrets; secret && *secret; secret++) {
        char name[SECRET_NAME_BYTES];
        const char *variable = run_secret_variable(*secret, name);
        buffer_print(text,
                     "                - name: \"%s\"\n"
                     "                  valueFrom:\n"
                     "                    secretKeyRef:\n"
                     "                      name: weft-run-%" PRId64 "-secrets\n"
                     "                      key: \"%s\"\n",
                     variable, job->run, name);
    }
}

static void put_launcher(struct buffer *text, const struct mpijob *job)
{
    const struct run_specification *specification = job->specification;
    buffer_put_string(text, "    Launcher:\n"
                            "      replicas: 1\n"
                            "      restartPolicy: Never\n"
                            "      template:\n"
                            "        spec:\n");
    if (specification->retries) /* runPolicy has that of all attempts together */
        buffer_print(text, "          activeDeadlineSeconds: %" PRId64 "\n", specification->time_limit);
    buffer_put_string(text, "          containers:\n"
                            "            - name: launcher\n");
    put_image(text, job);
    buffer_put_string(text, "              workingDir: " DIRECTORY "\n");
    put_command(text, job);
    mpijob_put_environment(text, job);
}

/* ---- the workers ---- */

static void put_worker(struct buffer *text, const struct mpijob *job)
{
    const struct run_specification *specification = job->specification;
    const bool gpu = specification->slot_kind == SLOT_GPU;
    const int64_t processors = specification->processors ? specification->processors : gpu ? 0 : specification->slots;
    buffer_print(text,
                 "    Worker:\n"
                 "      replicas: %" PRId64 "\n"
                 "      restartPolicy: Never\n"
                 "      template:\n"
                 "        spec:\n"
                 "          containers:\n"
                 "            - name: worker\n",
                 specification->nodes);
    put_image(text, job);
    buffer_put_string(text, "              command: [\"/usr/sbin/sshd\", \"-De\", \"-o\", \"StrictModes=no\", \"-o\", "
                            "\"UsePAM=no\"]\n"
                            "              readinessProbe:\n"
                            "                tcpSocket:\n"
                            "                  port: 22\n"
                            "              resources:\n"
                            "                limits:\n");
    if (gpu)
        buffer_print(text, "                  nvidia.com/gpu: %" PRId64 "\n", specification->slots);
    if (processors)
        buffer_print(text, "                  cpu: %" PRId64 "\n", processors);
    if (specification->memory)
        buffer_print(text, "                  memory: %" PRId64 "\n", specification->memory);
    buffer_put_string(text, "              volumeMounts:\n"
                            "                - name: shared-memory\n"
                            "                  mountPath: /dev/shm\n"
                            "          volumes:\n"
                            "            - name: shared-memory # of ranks on one node; counts as memory\n"
                            "              emptyDir:\n"
                            "                medium: Memory\n");
}

/* ---- the files ---- */

static void put_head(struct buffer *text, const struct mpijob *job)
{
    const struct run_specification *specification = job->specification;
    buffer_print(
        text,
        "# Made by weft export from run %" PRId64 "; not run on a cluster.\n"
        "# It needs the MPI operator, 0.5 or newer, and the image that the Containerfile beside this file makes.\n"
        "# Nothing is kept when the Pods end: for checkpoints mount a volume that all workers share, and set\n"
        "# WEFT_CHECKPOINT_DIR in env.\n",
        job->run);
    if (*specification->checkpoint)
        buffer_put_string(
            text, "# The run began from a checkpoint (annotation weft/checkpoint), which is not in the image.\n");
    if (specification->secrets && *specification->secrets)
        buffer_print(text,
                     "# Secrets are read from a Secret; each file has one value, and no line end after it:\n"
                     "#     kubectl create secret generic weft-run-%" PRId64 "-secrets --from-file=NAME=FILE ...\n",
                     job->run);
}

static void put_annotation(struct buffer *text, const char *key, const char *value)
{
    if (*value)
        put_field(text, key, value, false);
}

void mpijob_put_manifest(struct buffer *text, const struct mpijob *job)
{
    const struct run_specification *specification = job->specification;
    put_head(text, job);
    buffer_print(text,
                 "apiVersion: kubeflow.org/v2beta1\n"
                 "kind: MPIJob\n"
                 "metadata:\n"
                 "  name: weft-run-%" PRId64 "\n"
                 "  annotations:\n"
                 "    weft/run: \"%" PRId64 "\"\n",
                 job->run, job->run);
    put_annotation(text, "    weft/project:", specification->project);
    put_annotation(text, "    weft/name:", specification->name);
    put_annotation(text, "    weft/snapshot:", specification->snapshot);
    put_annotation(text, "    weft/commit:", specification->commit);
    put_annotation(text, "    weft/checkpoint:", specification->checkpoint);
    buffer_print(text,
                 "spec:\n"
                 "  slotsPerWorker: %" PRId64 "\n"
                 "  mpiImplementation: OpenMPI # for the form of the hostfile\n"
                 "  launcherCreationPolicy: WaitForWorkersReady\n"
                 "  sshAuthMountPath: /root/.ssh\n"
                 "  runPolicy:\n"
                 "    cleanPodPolicy: Running\n"
                 "    backoffLimit: %" PRId64 "\n"
                 "    activeDeadlineSeconds: %" PRId64 "\n"
                 "  mpiReplicaSpecs:\n",
                 specification->launch == RUN_LAUNCH_RANKS ? specification->slots : 1, specification->retries,
                 specification->time_limit * (specification->retries + 1));
    put_launcher(text, job);
    put_worker(text, job);
}

void mpijob_put_containerfile(struct buffer *text, const struct mpijob *job)
{
    const bool code = *job->specification->snapshot != '\0';
    char usual[64];
    snprintf(usual, sizeof usual, "weft-run-%" PRId64, job->run);
    buffer_print(text,
                 "# Made by weft export for run %" PRId64 "; not run on a cluster.\n"
                 "# Put beside this file the command weft of a machine with Debian 12:\n"
                 "#     cp \"$(command -v weft)\" .\n",
                 job->run);
    if (code)
        buffer_print(text,
                     "# and the files of the run's snapshot, which a fork of the run has on the platform:\n"
                     "#     copy=$(weft fork %" PRId64
                     " -q --nodes 1 --min-nodes 0 --slots 1 --launch nodes --time 1h -- sleep 1h)\n"
                     "#     weft exec \"$copy\" -- tar c . >code.tar   # once 'weft why' says that it runs\n"
                     "#     weft stop \"$copy\"\n",
                     job->run);
    buffer_print(
        text,
        "# Then: podman build -t %s -f Containerfile .\n"
        "# What the run's program needs besides has to be in the base image, or installed here.\n"
        "ARG BASE=docker.io/library/debian:12\n"
        "FROM ${BASE}\n"
        "RUN apt-get update && apt-get install -y --no-install-recommends openssh-client openssh-server \\\n"
        "        libcjson1 libdnnl2 libevent-2.1-7 libevent-openssl-2.1-7 libfabric1 libgomp1 libhwloc15 libpcre2-8-0 \\\n"
        "        libsodium23 libsqlite3-0 libssl3 libxxhash0 libyaml-0-2 zlib1g && rm -rf /var/lib/apt/lists/*\n"
        "# All Pods have the host key of the image, and ssh accepts no other one.\n"
        "RUN mkdir -p /run/sshd && ssh-keygen -A && \\\n"
        "    sed 's/^/* /' /etc/ssh/ssh_host_*_key.pub >/etc/ssh/ssh_known_hosts\n"
        "COPY weft /usr/local/bin/weft\n"
        "%s"
        "WORKDIR " DIRECTORY "\n",
        job->image ? job->image : usual, code ? "ADD code.tar " DIRECTORY "/\n" : "");
}
