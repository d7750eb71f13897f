/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Keys of OpenSSH for the nodes of runs, on the machine of the person who connects: for each node a key that logs in and a
 * key of the host, both made at the first connection. What may be reached is decided by the server of the platform (tokens);
 * these keys only let OpenSSH's programs speak through the connection that it grants.
 *
 *     ${XDG_CONFIG_HOME:-~/.config}/weft/ssh/run-12-node-0/key, key.pub    the person
 *                                                          host, host.pub  the node, which is given it with each connection
 *                                                          known_hosts     host.pub, as ssh reads it
 */
#ifndef WEFT_CLI_PLATFORM_RUNS_SSH_KEYS_H
#define WEFT_CLI_PLATFORM_RUNS_SSH_KEYS_H

#include "base/error.h"
#include "base/file/file.h"

/** The directory of all keys; it is not created. Errors: ARGUMENT without a home directory. */
weft_status ssh_keys_directory(char path[FILE_PATH_BYTES], struct error *error);

struct ssh_keys {
    char *host; /**< the private key of the host */
    char *user; /**< the public key of who connects */
};

/**
 * The keys of the node `name` ("run-12-node-0"); they are made if there are none, and others are removed
 * after 30 days without use. Several processes may ask at once. Errors: SYSTEM: files, or ssh-keygen is missing or fails; DATA.
 */
weft_status ssh_keys_get(const char *name, struct ssh_keys *keys, struct error *error);
void ssh_keys_free(struct ssh_keys *keys);

#endif
