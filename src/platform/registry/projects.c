/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/registry/projects.h"

#include "base/text.h"
#include "platform/registry/internal/list.h"
#include "platform/store/query.h"

#include <string.h>

/* ---- users ---- */

weft_status registry_user_put(struct database *database, const char *user, bool admin, int64_t now, struct error *error)
{
    weft_status status = platform_name_check(user, "the user", error);
    if (status != WEFT_OK)
        return status;
    return DATABASE_RUN(database, error,
                        "INSERT INTO users (user, admin, created) VALUES (?, ?, ?) "
                        "ON CONFLICT DO UPDATE SET admin = excluded.admin, disabled = 0",
                        user, admin, now);
}

weft_status registry_user_account_put(struct database *database, const char *user, const char *account,
                                      struct error *error)
{
    if (strlen(account) >= REGISTRY_ACCOUNT_BYTES || strpbrk(account, ":/ \t\n"))
        return error_set(error, WEFT_ERROR_DATA, "the account of '%s' is '%.80s', which can be no account's name", user,
                         account);
    weft_status status = DATABASE_RUN(database, error, "UPDATE users SET account = ? WHERE user = ?", account, user);
    if (status == WEFT_OK && database_changes(database) == 0)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "there is no user '%s'", user);
    return status;
}

weft_status registry_user_disable(struct database *database, const char *user, int64_t now, struct error *error)
{
    weft_status status = DATABASE_RUN(database, error, "UPDATE users SET disabled = ? WHERE user = ?", now, user);
    if (status == WEFT_OK && database_changes(database) == 0)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "there is no user '%s'", user);
    return status;
}

static void read_user(struct statement *select, struct registry_user *user)
{
    STATEMENT_READ(select, 0, user->user, &user->admin, &user->created, &user->disabled, user->account);
}

weft_status registry_user_get(struct database *database, const char *user, struct registry_user *found,
                              struct error *error)
{
    struct statement *select =
        DATABASE_QUERY(database, "SELECT user, admin, created, disabled, account FROM users WHERE user = ?", user);
    bool there = statement_next(select);
    if (there)
        read_user(select, found);
    weft_status status = statement_end(select, error);
    if (status == WEFT_OK && !there)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "there is no user '%s'", user);
    return status;
}

weft_status registry_users(struct database *database, const char *viewer, const char *project,
                           struct registry_user **list, size_t *count, struct error *error)
{
    struct registry_list users = {0};
    struct statement *select = DATABASE_QUERY(
        database,
        "SELECT user, admin, created, disabled, account FROM users WHERE ?1 = '' OR user = ?1 OR user IN "
        "(SELECT user FROM members WHERE project IN (SELECT project FROM members WHERE user = ?1) AND "
        "(?2 = '' OR project = ?2)) ORDER BY user",
        viewer ? viewer : "", project);
    for (struct registry_user *user; (user = registry_list_next(&users, select, sizeof *user));)
        read_user(select, user);
    return registry_list_end(&users, select, list, count, error);
}

/* ---- projects ---- */

weft_status registry_project_make(struct database *database, const char *project, const char *title,
                                  const char *manager, int64_t now, struct error *error)
{
    char code[TEXT_CODE_BYTES];
    weft_status status = platform_name_check(project, "the project", error);
    if (status == WEFT_OK && !text_is_printable(title, false))
        return error_set(error, WEFT_ERROR_DATA, "the title of project '%s' contains %s, which cannot be printed",
                         project, text_unprintable_code(title, false, code));
    if (status == WEFT_OK && strlen(title) >= REGISTRY_TITLE_BYTES)
        status = error_set(error, WEFT_ERROR_DATA, "the title of project '%s' has more than %d bytes", project,
                           REGISTRY_TITLE_BYTES - 1);
    if (status != WEFT_OK)
        return status;
    status = DATABASE_RUN(database, error,
                          "INSERT INTO projects (project, title, created) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                          project, title, now);
    if (status == WEFT_OK && database_changes(database) == 0)
        status = error_set(error, WEFT_ERROR_STATE, "there is a project '%s' already", project);
    return status == WEFT_OK ? registry_member_put(database, project, manager, ROLE_MANAGER, now, error) : status;
}

weft_status registry_project_personal(struct database *database, const char *user, int64_t now, struct error *error)
{
    struct registry_project found;
    struct error missing = {0};
    weft_status status = registry_project_get(database, user, &found, &missing);
    if (status == WEFT_OK && !found.personal)
        return error_set(error, WEFT_ERROR_STATE,
                         "there is a project '%s' that is not the personal one of the user of that name; personal runs "
                         "of '%s' are not possible",
                         user, user);
    if (status == WEFT_OK)
        return WEFT_OK;
    if (status != WEFT_ERROR_ARGUMENT)
        return error_set(error, status, "%s", missing.text);
    status = registry_project_make(database, user, "", user, now, error);
    if (status != WEFT_OK)
        return status;
    return DATABASE_RUN(database, error, "UPDATE projects SET personal = 1 WHERE project = ?", user);
}

weft_status registry_project_close(struct database *database, const char *project, int64_t closed, struct error *error)
{
    weft_status status =
        DATABASE_RUN(database, error, "UPDATE projects SET closed = ? WHERE project = ?", closed, project);
    if (status == WEFT_OK && database_changes(database) == 0)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "there is no project '%s'", project);
    return status;
}

static void read_project(struct statement *select, struct registry_project *project)
{
    STATEMENT_READ(select, 0, project->project, project->title, &project->created, &project->closed,
                   &project->personal);
}

weft_status registry_project_get(struct database *database, const char *project, struct registry_project *found,
                                 struct error *error)
{
    struct statement *select = DATABASE_QUERY(
        database, "SELECT project, title, created, closed, personal FROM projects WHERE project = ?", project);
    bool there = statement_next(select);
    if (there)
        read_project(select, found);
    weft_status status = statement_end(select, error);
    if (status == WEFT_OK && !there)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "there is no project '%s'", project);
    return status;
}

weft_status registry_projects(struct database *database, const char *viewer, struct registry_project **list,
                              size_t *count, struct error *error)
{
    struct registry_list projects = {0};
    struct statement *select = DATABASE_QUERY(
        database,
        "SELECT project, title, created, closed, personal FROM projects WHERE ?1 IS NULL "
        "OR project IN (SELECT project FROM members NATURAL JOIN users WHERE user = ?1 AND disabled = 0) "
        "ORDER BY project",
        viewer);
    for (struct registry_project *project; (project = registry_list_next(&projects, select, sizeof *project));)
        read_project(select, project);
    return registry_list_end(&projects, select, list, count, error);
}

/* ---- members ---- */

/* A project must not be left without a manager. */
static weft_status check_managers(struct database *database, const char *project, struct error *error)
{
    struct statement *select =
        DATABASE_QUERY(database, "SELECT count(*) FROM members WHERE project = ? AND role = ?", project, ROLE_MANAGER);
    int64_t managers = 0;
    weft_status status = statement_end_integer(select, &managers, error);
    if (status == WEFT_OK && managers == 0)
        status =
            error_set(error, WEFT_ERROR_STATE, "project '%s' would have no manager; name another one first", project);
    return status;
}

weft_status registry_member_put(struct database *database, const char *project, const char *user, enum role role,
                                int64_t now, struct error *error)
{
    struct registry_project in;
    struct registry_user who;
    weft_status status = registry_project_get(database, project, &in, error);
    if (status == WEFT_OK)
        status = registry_user_get(database, user, &who, error);
    if (status == WEFT_OK && in.personal && role > ROLE_VIEWER && strcmp(user, project) != 0)
        status = error_set(error, WEFT_ERROR_ARGUMENT,
                           "project '%s' is the personal one of '%s', and what runs there needs no budget: others can "
                           "only look, as viewers",
                           project, project);
    if (status != WEFT_OK)
        return status;
    struct statement *change;
    if (role == ROLE_NONE) {
        change = DATABASE_QUERY(database, "DELETE FROM members WHERE project = ? AND user = ?", project, user);
    } else {
        change = DATABASE_QUERY(database,
                                "INSERT INTO members (project, user, role, since) VALUES (?, ?, ?, ?) "
                                "ON CONFLICT DO UPDATE SET role = excluded.role",
                                project, user, role, now);
    }
    status = statement_run(change, error);
    return status == WEFT_OK ? check_managers(database, project, error) : status;
}

static weft_status find_role(struct database *database, const char *project, const char *user, bool administrators,
                             enum role *role, struct error *error)
{
    struct statement *select =
        DATABASE_QUERY(database,
                       "SELECT CASE WHEN u.disabled THEN 0 WHEN u.admin AND ? THEN 3 ELSE ifnull(m.role, 0) END "
                       "FROM users u LEFT JOIN members m ON m.user = u.user AND m.project = ? WHERE u.user = ?",
                       administrators, project, user);
    int64_t found = ROLE_NONE;
    weft_status status = statement_end_integer(select, &found, error);
    if (status == WEFT_OK)
        *role = (enum role)found;
    return status;
}

weft_status registry_membership_get(struct database *database, const char *project, const char *user, enum role *role,
                                    struct error *error)
{
    return find_role(database, project, user, false, role, error);
}

weft_status registry_role_get(struct database *database, const char *project, const char *user, enum role *role,
                              struct error *error)
{
    return find_role(database, project, user, true, role, error);
}

weft_status registry_role_need(struct database *database, const char *project, const char *user, enum role least,
                               struct error *error)
{
    enum role role;
    weft_status status = registry_role_get(database, project, user, &role, error);
    if (status == WEFT_OK && role < least)
        status =
            error_set(error, WEFT_ERROR_STATE, "'%s' is %s%s of project '%s'; this needs a %s; ask one of its managers",
                      user, role == ROLE_NONE ? "no member" : "a ", role == ROLE_NONE ? "" : role_name(role), project,
                      role_name(least));
    return status;
}

weft_status registry_members(struct database *database, const char *project, struct registry_member **list,
                             size_t *count, struct error *error)
{
    struct registry_list members = {0};
    struct statement *select = DATABASE_QUERY(
        database, "SELECT project, user, role, since FROM members WHERE project = ? ORDER BY user", project);
    for (struct registry_member *member; (member = registry_list_next(&members, select, sizeof *member));)
        STATEMENT_READ(select, 0, member->project, member->user, &member->role, &member->since);
    return registry_list_end(&members, select, list, count, error);
}
