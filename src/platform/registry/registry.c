/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/registry/registry.h"

#include "base/file/file.h"
#include "platform/store/query.h"

/*
 * Times are milliseconds since 1970, 0 or NULL where something has not happened. States and causes are stored by their
 * names (platform/registry/run/state.h), so that a reader of the file needs no table of numbers.
 */
static const char *const migrations[] = {
    "CREATE TABLE users ("
    "  user TEXT PRIMARY KEY, admin INTEGER NOT NULL, created INTEGER NOT NULL, disabled INTEGER NOT NULL DEFAULT 0"
    ") STRICT, WITHOUT ROWID;"
    "CREATE TABLE projects ("
    "  project TEXT PRIMARY KEY, title TEXT NOT NULL, created INTEGER NOT NULL, closed INTEGER NOT NULL DEFAULT 0"
    ") STRICT, WITHOUT ROWID;"
    "CREATE TABLE members ("
    "  project TEXT NOT NULL REFERENCES projects, user TEXT NOT NULL REFERENCES users, role INTEGER NOT NULL,"
    "  since INTEGER NOT NULL, PRIMARY KEY (project, user)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX members_by_user ON members (user, project);"

    /* A run's number is never used twice, so that what is named after it can never be another's. `words`: what a search
     * looks through, in small letters; it stands near the front of the row because the search reads it in all rows. */
    "CREATE TABLE runs ("
    "  run INTEGER PRIMARY KEY AUTOINCREMENT, project TEXT NOT NULL REFERENCES projects,"
    "  owner TEXT NOT NULL REFERENCES users, words TEXT NOT NULL, name TEXT NOT NULL, class TEXT NOT NULL,"
    "  state TEXT NOT NULL,"
    "  cause TEXT NOT NULL, asked TEXT NOT NULL, epoch INTEGER NOT NULL DEFAULT 0,"
    "  nodes INTEGER NOT NULL, slots INTEGER NOT NULL, slot_kind TEXT NOT NULL, processors INTEGER NOT NULL,"
    "  memory INTEGER NOT NULL, time_limit INTEGER NOT NULL, time_slice INTEGER NOT NULL,"
    "  preemptible INTEGER NOT NULL, may_span_pods INTEGER NOT NULL, interactive INTEGER NOT NULL,"
    "  priority INTEGER NOT NULL, retries INTEGER NOT NULL, program_failures INTEGER NOT NULL DEFAULT 0,"
    "  platform_failures INTEGER NOT NULL DEFAULT 0, submitted INTEGER NOT NULL, waiting_since INTEGER NOT NULL,"
    "  first_started INTEGER NOT NULL DEFAULT 0, started INTEGER NOT NULL DEFAULT 0,"
    "  ended INTEGER NOT NULL DEFAULT 0, changed INTEGER NOT NULL, served INTEGER NOT NULL DEFAULT 0,"
    "  detail TEXT NOT NULL"
    ") STRICT;"
    "CREATE INDEX runs_by_project ON runs (project, run);"
    "CREATE INDEX runs_by_project_state ON runs (project, state, run);"
    "CREATE INDEX runs_by_owner ON runs (owner, run);"
    "CREATE INDEX runs_by_state ON runs (state, run);"
    /* Apart, because lists do not need it and it is long. */
    "CREATE TABLE run_specifications (run INTEGER PRIMARY KEY REFERENCES runs, specification TEXT NOT NULL) STRICT;"
    "CREATE TABLE submissions ("
    "  owner TEXT NOT NULL, key TEXT NOT NULL, digest BLOB NOT NULL, run INTEGER NOT NULL REFERENCES runs,"
    "  time INTEGER NOT NULL, PRIMARY KEY (owner, key)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX submissions_by_time ON submissions (time);"
    "CREATE TABLE attempts ("
    "  run INTEGER NOT NULL REFERENCES runs, epoch INTEGER NOT NULL, pod TEXT NOT NULL, placed INTEGER NOT NULL,"
    "  started INTEGER NOT NULL DEFAULT 0, ended INTEGER NOT NULL DEFAULT 0, cause TEXT NOT NULL DEFAULT '',"
    "  detail TEXT NOT NULL DEFAULT '', PRIMARY KEY (run, epoch)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE TABLE nodes ("
    "  run INTEGER NOT NULL, epoch INTEGER NOT NULL, node INTEGER NOT NULL, host TEXT NOT NULL, slots TEXT NOT NULL,"
    "  started INTEGER NOT NULL DEFAULT 0, ended INTEGER NOT NULL DEFAULT 0, how INTEGER NOT NULL DEFAULT 0,"
    "  code INTEGER NOT NULL DEFAULT 0, signal INTEGER NOT NULL DEFAULT 0, detail TEXT NOT NULL DEFAULT '',"
    "  sequence INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (run, epoch, node),"
    "  FOREIGN KEY (run, epoch) REFERENCES attempts"
    ") STRICT, WITHOUT ROWID;"
    "CREATE TABLE run_events ("
    "  event INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs, epoch INTEGER NOT NULL, time INTEGER NOT NULL,"
    "  cause TEXT NOT NULL, from_state TEXT NOT NULL, to_state TEXT NOT NULL, verdict INTEGER NOT NULL,"
    "  actor TEXT NOT NULL, detail TEXT NOT NULL"
    ") STRICT;"
    "CREATE INDEX run_events_by_run ON run_events (run, event);"
    /* An orphan that goes on reporting is recorded once. */
    "CREATE UNIQUE INDEX run_events_refused ON run_events (run, epoch, cause, from_state, verdict) WHERE verdict != 0;"

    "CREATE TABLE pods (pod TEXT PRIMARY KEY, created INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE hosts ("
    "  host TEXT PRIMARY KEY, pod TEXT NOT NULL REFERENCES pods, slots INTEGER NOT NULL, slot_kind TEXT NOT NULL,"
    "  processors INTEGER NOT NULL, memory INTEGER NOT NULL, state TEXT NOT NULL, heard INTEGER NOT NULL,"
    "  changed INTEGER NOT NULL, detail TEXT NOT NULL"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX hosts_by_pod ON hosts (pod, host);"
    "CREATE TABLE host_events ("
    "  event INTEGER PRIMARY KEY, host TEXT NOT NULL, time INTEGER NOT NULL, what TEXT NOT NULL,"
    "  from_state TEXT NOT NULL, to_state TEXT NOT NULL, actor TEXT NOT NULL, detail TEXT NOT NULL"
    ") STRICT;"
    "CREATE INDEX host_events_by_host ON host_events (host, what, time);"

    /* The ledger (ledger.h): amounts in slot-milliseconds. `least` is what the balance may not fall below. */
    "CREATE TABLE accounts ("
    "  account INTEGER PRIMARY KEY, kind TEXT NOT NULL, project TEXT NOT NULL, user TEXT NOT NULL,"
    "  balance INTEGER NOT NULL DEFAULT 0, least INTEGER NOT NULL DEFAULT 0,"
    "  UNIQUE (project, kind, user), CHECK (balance >= least)"
    ") STRICT;"
    "CREATE TABLE budgets ("
    "  project TEXT PRIMARY KEY REFERENCES projects, rate INTEGER NOT NULL, cap INTEGER NOT NULL,"
    "  accrued INTEGER NOT NULL, remainder INTEGER NOT NULL DEFAULT 0, shared INTEGER NOT NULL DEFAULT 1"
    ") STRICT, WITHOUT ROWID;"
    "CREATE TABLE postings ("
    "  posting INTEGER PRIMARY KEY, time INTEGER NOT NULL, kind TEXT NOT NULL, project TEXT NOT NULL,"
    "  run INTEGER, epoch INTEGER, actor TEXT NOT NULL, detail TEXT NOT NULL"
    ") STRICT;"
    "CREATE INDEX postings_by_project ON postings (project, posting);"
    "CREATE INDEX postings_by_run ON postings (run) WHERE run IS NOT NULL;"
    "CREATE TABLE entries ("
    "  posting INTEGER NOT NULL REFERENCES postings, account INTEGER NOT NULL REFERENCES accounts,"
    "  amount INTEGER NOT NULL, PRIMARY KEY (posting, account)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX entries_by_account ON entries (account, amount);"
    "CREATE TABLE holds ("
    "  run INTEGER NOT NULL, epoch INTEGER NOT NULL, payer INTEGER NOT NULL REFERENCES accounts,"
    "  amount INTEGER NOT NULL, opened INTEGER NOT NULL, settled INTEGER NOT NULL DEFAULT 0,"
    "  charged INTEGER NOT NULL DEFAULT 0, refunded INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (run, epoch),"
    "  FOREIGN KEY (run, epoch) REFERENCES attempts"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX holds_open ON holds (run, epoch) WHERE settled = 0;",

    "ALTER TABLE projects ADD COLUMN personal INTEGER NOT NULL DEFAULT 0;",

    /* What overlaps a time: attempts that are under way (0), and those that ended after its beginning. */
    "CREATE INDEX attempts_by_end ON attempts (ended);",

    /* How many runs of a project are in a state, kept with each change: a history grows for years. */
    "CREATE TABLE run_counts ("
    "  project TEXT NOT NULL REFERENCES projects, state TEXT NOT NULL, runs INTEGER NOT NULL,"
    "  PRIMARY KEY (project, state)"
    ") STRICT, WITHOUT ROWID;"
    "INSERT INTO run_counts SELECT project, state, count(*) FROM runs GROUP BY project, state;"
    "CREATE TRIGGER runs_added AFTER INSERT ON runs BEGIN"
    "  INSERT INTO run_counts VALUES (new.project, new.state, 1) ON CONFLICT DO UPDATE SET runs = runs + 1;"
    "END;"
    "CREATE TRIGGER runs_changed AFTER UPDATE OF state, project ON runs"
    "  WHEN (old.project, old.state) != (new.project, new.state) BEGIN"
    "  UPDATE run_counts SET runs = runs - 1 WHERE project = old.project AND state = old.state;"
    "  INSERT INTO run_counts VALUES (new.project, new.state, 1) ON CONFLICT DO UPDATE SET runs = runs + 1;"
    "END;"
    "CREATE TRIGGER runs_removed AFTER DELETE ON runs BEGIN"
    "  UPDATE run_counts SET runs = runs - 1 WHERE project = old.project AND state = old.state;"
    "END;",

    /* When it was decided that what a run has left is to go. */
    "ALTER TABLE runs ADD COLUMN discarded INTEGER NOT NULL DEFAULT 0;",

    /* The account of the machines that a user's runs belong to; '': that of the platform itself. */
    "ALTER TABLE users ADD COLUMN account TEXT NOT NULL DEFAULT '';",

    /* The run from a checkpoint of which a run begins; few do, and a history grows for years. */
    "ALTER TABLE run_specifications ADD COLUMN heir_of INTEGER NOT NULL DEFAULT 0;"
    "UPDATE run_specifications SET heir_of = json_extract(specification, '$.parent')"
    "  WHERE json_extract(specification, '$.checkpoint') != '' AND json_extract(specification, '$.parent') > 0;"
    "CREATE INDEX run_heirs ON run_specifications (heir_of) WHERE heir_of != 0;"
    /* What failed runs have said is in the events, not in what everybody reads of a host. */
    "UPDATE hosts SET detail = substr(detail, 1, instr(detail, ', last: ') - 1)"
    "  WHERE detail LIKE 'failed % times, last: %';"
    "UPDATE host_events SET detail = substr(detail, 1, instr(detail, ', last: ') - 1)"
    "  WHERE what = 'cordoned' AND detail LIKE 'failed % times, last: %';",

    /* When the present attempt of a run was seen to use nothing of what it holds; 0: it was not. */
    "ALTER TABLE runs ADD COLUMN idle_since INTEGER NOT NULL DEFAULT 0;",

    /* What the platform took out of use by itself is cordoned, and was called drained: hosts, and their past. */
    "UPDATE hosts SET state = replace(state, 'drained', 'cordoned') WHERE (SELECT what FROM host_events"
    "  WHERE host_events.host = hosts.host AND what IN ('drained', 'cordoned') ORDER BY event DESC LIMIT 1)"
    "  = 'cordoned';"
    "UPDATE host_events SET from_state = replace(from_state, 'drained', 'cordoned') WHERE (SELECT before.what"
    "  FROM host_events AS before WHERE before.host = host_events.host AND before.event < host_events.event"
    "  AND before.what IN ('drained', 'cordoned', 'resumed') ORDER BY before.event DESC LIMIT 1) = 'cordoned';"
    "UPDATE host_events SET to_state = replace(to_state, 'drained', 'cordoned') WHERE (SELECT before.what"
    "  FROM host_events AS before WHERE before.host = host_events.host AND before.event <= host_events.event"
    "  AND before.what IN ('drained', 'cordoned', 'resumed') ORDER BY before.event DESC LIMIT 1) = 'cordoned';",

    /* One row: which platform this is (registry_platform_get()). */
    ("CREATE TABLE platform (identity TEXT NOT NULL, adopts INTEGER NOT NULL) STRICT;"
     "INSERT INTO platform SELECT lower(hex(randomblob(16))), EXISTS (SELECT 1 FROM runs);"),

    /* What the last attempt of a run has reported of its progress (platform/registry/run/progress.h); progress_at 0: nothing. */
    ("ALTER TABLE runs ADD COLUMN progress_at INTEGER NOT NULL DEFAULT 0;"
     "ALTER TABLE runs ADD COLUMN progress_rank INTEGER NOT NULL DEFAULT 0;"
     "ALTER TABLE runs ADD COLUMN progress_done REAL NOT NULL DEFAULT 0;"
     "ALTER TABLE runs ADD COLUMN progress_total REAL NOT NULL DEFAULT 0;"
     "ALTER TABLE runs ADD COLUMN progress_left REAL NOT NULL DEFAULT 0;"),

    /* Nodes that ended before their attempt, which went on without them (registry_node_drop()). */
    "ALTER TABLE nodes ADD COLUMN dropped INTEGER NOT NULL DEFAULT 0;",
};

/* "WEFT", as SQLite's `PRAGMA application_id` and file(1) show it. */
const struct database_schema registry_schema = {"the platform's state", 0x57454654, migrations,
                                                (int)ARRAY_SIZE(migrations)};

weft_status registry_open(const char *directory, enum database_access access, struct database **database,
                          struct error *error)
{
    char path[FILE_PATH_BYTES];
    weft_status status = file_join(path, directory, REGISTRY_FILE, error);
    return status == WEFT_OK ? database_open(path, &registry_schema, access, database, error) : status;
}

/* ---- which platform this is ---- */

weft_status registry_platform_get(struct database *database, struct registry_platform *platform, struct error *error)
{
    struct registry_platform found = {0};
    struct statement *select = database_prepare(database, "SELECT identity, adopts FROM platform");
    if (statement_next(select))
        STATEMENT_READ(select, 0, found.identity, &found.adopts);
    weft_status status = statement_end(select, error);
    if (status == WEFT_OK && !*found.identity)
        status = error_set(error, WEFT_ERROR_DATA, "'%s' is damaged: it has lost the platform's identity",
                           database_path(database));
    if (status == WEFT_OK)
        *platform = found;
    return status;
}

/* SQLite's own table of the last number that each table has given out; a table that has given out none is not in it. */
weft_status registry_number_above(struct database *database, int64_t run, int64_t *last, struct error *error)
{
    struct statement *select = database_prepare(database, "SELECT seq FROM sqlite_sequence WHERE name = 'runs'");
    const bool known = statement_next(select);
    const int64_t found = known ? statement_integer(select, 0) : 0;
    weft_status status = statement_end(select, error);
    if (status != WEFT_OK)
        return status;
    *last = found;
    if (run <= found)
        return WEFT_OK;
    return DATABASE_RUN(database, error,
                        known ? "UPDATE sqlite_sequence SET seq = ? WHERE name = 'runs'"
                              : "INSERT INTO sqlite_sequence (seq, name) VALUES (?, 'runs')",
                        run);
}
