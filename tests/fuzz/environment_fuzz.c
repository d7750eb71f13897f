/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any texts in the variables of launchers and of users: a launcher that is there says where to meet, or there is a
 * message; the configuration is complete, or there is a message.
 */
#include "core/collective/communicator/configuration.h"
#include "core/control/wire/environment.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const launchers[] = {
    "WEFT_RANK",
    "WEFT_RANKS",
    "WEFT_RENDEZVOUS",
    "WEFT_SECRET",
    "SLURM_PROCID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "RANK",
    "SLURM_STEP_NODELIST",
    "WORLD_SIZE",
    "SLURM_STEP_NUM_NODES",
    "MASTER_ADDR",
    "WEFT_RENDEZVOUS_HOST",
    "TORCHELASTIC_RUN_ID",
    "WEFT_RENDEZVOUS_PORT",
    "MASTER_PORT",
    "WEFT_RENDEZVOUS_SERVED",
    "TORCHELASTIC_USE_AGENT_STORE",
};
#define LAUNCHERS (sizeof launchers / sizeof *launchers)

/* The variables by number: the launchers', then those of users. NULL: no more. */
static const char *name_of(size_t number)
{
    size_t count;
    const struct configuration_variable *variables = configuration_variables(&count);
    number %= LAUNCHERS + count;
    return number < LAUNCHERS ? launchers[number] : variables[number - LAUNCHERS].name;
}

static void clear_all(void)
{
    size_t count;
    (void)configuration_variables(&count);
    for (size_t i = 0; i < LAUNCHERS + count; i++)
        if (strncmp(name_of(i), "XDG_", 4) != 0)
            unsetenv(name_of(i));
}

static void check_launcher(enum launcher launcher)
{
    struct environment environment = {0};
    struct error error = {0};
    if (!launcher_is_present(launcher))
        return;
    weft_status status = environment_read(launcher, &environment, &error);
    const bool joins = environment.served && environment.rank >= environment.ranks; /* a running job */
    const bool meets = environment.ranks > 1 || joins;
    if (status != WEFT_OK ? !*error.text
                          : (environment.rank >= environment.ranks && !joins) || !environment.launcher ||
                                !memchr(environment.addresses, 0, sizeof environment.addresses) ||
                                (meets && (!*environment.addresses || !*environment.secret)))
        abort();
}

static void check_configuration(void)
{
    weft_config config = WEFT_CONFIG_DEFAULT;
    struct error error = {0};
    const char *path = NULL;
    uint64_t events = 0;
    if (configuration_complete(NULL, &config, &error) == WEFT_OK ? !(config.liveness_limit > 0 && config.time_limit > 0)
                                                                 : !*error.text)
        abort();
    error_clear(&error);
    if (configuration_trace(&path, &events, &error) == WEFT_OK ? events < 1 : !*error.text)
        abort();
    (void)configuration_run();
    (void)configuration_verbose();
}

/* For each variable its number and its text, which ends with a zero. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    clear_all();
    for (size_t at = 0; at < size; at += strlen(text + at) + 1) {
        const char *name = name_of((uint8_t)text[at]);
        setenv(name, text + at + (text[at] != '\0'), 1);
    }
    check_launcher(LAUNCHER_WEFT);
    check_launcher(LAUNCHER_SLURM);
    check_launcher(LAUNCHER_TORCHRUN);
    check_configuration();
    clear_all();
    free(text);
    return 0;
}
