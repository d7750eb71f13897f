/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A run as an MPIJob of the MPI operator for Kubernetes (kubeflow.org/v2beta1), and the file from which its image is built.
 *
 * Workers run sshd, a Pod for each node of the run. The launcher runs `weft run` on the operator's hostfile and reaches
 * them with ssh, whose keys the operator mounts. Variables are set in the launcher, which passes them to the ranks;
 * secrets are references to a Secret of Kubernetes, and no value of them is known here. Thread-safe.
 */
#ifndef WEFT_CLI_PLATFORM_RUNS_MPIJOB_H
#define WEFT_CLI_PLATFORM_RUNS_MPIJOB_H

#include "base/buffer.h"
#include "base/error.h"
#include "platform/registry/run_specification.h"

struct mpijob {
    int64_t run;       /**< its number */
    const char *image; /**< name of the image that all Pods use; NULL: weft-run-N */
    const struct run_specification *specification;
};

/** Whether an MPIJob can do what the run does. Errors: ARGUMENT if not: no program, too many variables, or a variable
 * whose name Kubernetes does not take; or if `image` is not the name of an image. */
weft_status mpijob_check(const struct mpijob *job, struct error *error);

/** Append the manifest, after mpijob_check(). */
void mpijob_put_manifest(struct buffer *text, const struct mpijob *job);

/** Append the Containerfile. */
void mpijob_put_containerfile(struct buffer *text, const struct mpijob *job);

#endif
