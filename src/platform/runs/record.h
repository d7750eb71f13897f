/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Run records: what was run, by whom, where, and how it ended.
 *
 * `weft run` writes one when it starts and completes it when the run has ended, so that `weft runs` can tell
 * afterwards. A record is one JSON file, RECORDS/ID.json, replaced atomically. A run whose launcher vanished without
 * completing its record is shown as lost. Thread-safe; a struct belongs to one thread at a time.
 */
#ifndef WEFT_PLATFORM_RUNS_RECORD_H
#define WEFT_PLATFORM_RUNS_RECORD_H

#include "base/file/file.h"

#define RUN_ID_BYTES   32
#define RUN_TEXT_BYTES 1024

enum run_record_state {
    RUN_RECORD_RUNNING,
    RUN_RECORD_SUCCEEDED,
    RUN_RECORD_FAILED,
    RUN_RECORD_LOST, /**< never completed, and its launcher is gone; never written */
};

struct run_record {
    char id[RUN_ID_BYTES]; /**< "20260131-142503-1234": start time (UTC) and launcher's process */
    char project[64];      /**< "default" unless chosen */
    char user[64];
    char directory[FILE_PATH_BYTES]; /**< where it was started */
    char command[RUN_TEXT_BYTES];    /**< as typed, cut where longer */
    char hosts[RUN_TEXT_BYTES];      /**< as given; "" for this machine alone */
    int64_t ranks;
    int64_t launcher;       /**< process id of the launcher */
    char machine[96];       /**< identity of the launcher's machine (core/topology/identity.h) */
    int64_t started, ended; /**< seconds since 1970; ended is 0 while it runs */
    int64_t exit_code;
    char reason[RUN_TEXT_BYTES]; /**< why it failed; "" otherwise */
    enum run_record_state state;
};

/** "running", "succeeded", "failed", "lost"; a static string. */
const char *run_record_state_name(enum run_record_state state);

/** Where records are by default: ${XDG_STATE_HOME:-~/.local/state}/weft/runs. */
weft_status run_records_directory(char directory[FILE_PATH_BYTES], struct error *error);

/** Fill in id, user, directory, launcher, machine, start and state for a run of this process that begins now. */
weft_status run_record_begin(struct run_record *record, struct error *error);

/** Set end and state from an exit code and a reason (may be NULL). */
void run_record_complete(struct run_record *record, int exit_code, const char *reason);

/** Write `record` below `directory`, atomically, making the directory. */
weft_status run_record_save(const struct run_record *record, const char *directory, struct error *error);

/** Read the record `id` below `directory`; a run that cannot be running any more is lost. DATA for a damaged file. */
weft_status run_record_load(const char *directory, const char *id, struct run_record *record, struct error *error);

/** Identities of all records below `directory`, oldest first; *ids is the caller's to free. No directory: none. */
weft_status run_records_list(const char *directory, char (**ids)[RUN_ID_BYTES], size_t *count, struct error *error);

#endif
