/* SPDX-License-Identifier: Apache-2.0 */
/** What weft ssh-config runs in a node: OpenSSH's server, for one connection, without a daemon. */
#ifndef WEFT_PLATFORM_AGENT_SSH_SERVER_H
#define WEFT_PLATFORM_AGENT_SSH_SERVER_H

/** Variables with what the server needs; sessions do not see them. */
#define SSH_HOST_KEY_VARIABLE "WEFT_SSH_HOST_KEY" /**< its private key, in OpenSSH's format */
#define SSH_USER_KEY_VARIABLE "WEFT_SSH_USER_KEY" /**< the public key that may log in: a line of authorized_keys */
#define SSH_LOGIN_VARIABLE    "WEFT_SSH_LOGIN"    /**< the account that the client logs in as */

/**
 * Run `sshd -i` between standard input and output, as this process's user, the only one who can log in, with that key
 * alone. Sessions have this process's environment (the node's, secrets included, but for values with line breaks), and
 * their programs are processes of the node and end with it. Keys, settings and environment stay in memory: nothing is
 * written to disk. Returns the exit code of the process: sshd's; after a message on standard error, 127 if there is no
 * sshd, else 1.
 */
int node_ssh_main(void);

#endif
