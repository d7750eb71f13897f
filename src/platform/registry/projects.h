/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Users, projects, and who is a member of which in what role. The rules of registry.h hold.
 *
 * A role includes those below it. An administrator is a manager of every project, member or not. Names follow
 * platform_name_check() (name.h).
 */
#ifndef WEFT_PLATFORM_REGISTRY_PROJECTS_H
#define WEFT_PLATFORM_REGISTRY_PROJECTS_H

#include "platform/registry/name.h"
#include "platform/registry/registry.h"

#define REGISTRY_TITLE_BYTES 256

#define REGISTRY_ACCOUNT_BYTES 64

struct registry_user {
    char user[PLATFORM_NAME_BYTES];
    char account[REGISTRY_ACCOUNT_BYTES]; /**< of the machines, whose processes their runs are; "": the platform's */
    bool admin, disabled;
    int64_t created;
};

struct registry_project {
    char project[PLATFORM_NAME_BYTES], title[REGISTRY_TITLE_BYTES];
    int64_t created, closed; /**< closed: 0 while runs may be submitted */
    bool personal;           /**< the user's of that name: for small runs that need no budget */
};

struct registry_member {
    char project[PLATFORM_NAME_BYTES], user[PLATFORM_NAME_BYTES];
    enum role role;
    int64_t since;
};

/** Make the user, or change `admin` of the one there is, who is enabled again. */
weft_status registry_user_put(struct database *database, const char *user, bool admin, int64_t now,
                              struct error *error);

/** Say whose processes the runs of a user are from now on: an account's name of the machines, or "". */
weft_status registry_user_account_put(struct database *database, const char *user, const char *account,
                                      struct error *error);

/** Nobody may act as that user from now on. */
weft_status registry_user_disable(struct database *database, const char *user, int64_t now, struct error *error);
weft_status registry_user_get(struct database *database, const char *user, struct registry_user *found,
                              struct error *error);

/** Make the project with `manager`, a user, as its first member. Errors: STATE if there is one of that name. */
weft_status registry_project_make(struct database *database, const char *project, const char *title,
                                  const char *manager, int64_t now, struct error *error);

/**
 * Make the personal project of a user, which has the user's name, if there is none. Errors: STATE if another project
 * has that name.
 */
weft_status registry_project_personal(struct database *database, const char *user, int64_t now, struct error *error);

/** No run may be submitted to it from now on; with `closed` 0 again. */
weft_status registry_project_close(struct database *database, const char *project, int64_t closed, struct error *error);
weft_status registry_project_get(struct database *database, const char *project, struct registry_project *found,
                                 struct error *error);

/** Give `user` that role; ROLE_NONE takes the membership away. Errors: STATE if no manager would be left; ARGUMENT
 * for a role above viewer in somebody else's personal project. */
weft_status registry_member_put(struct database *database, const char *project, const char *user, enum role role,
                                int64_t now, struct error *error);

/** The role that `user` has as a member, administrator or not; none if disabled. What somebody may who asks is
 * identity_role() of this. */
weft_status registry_membership_get(struct database *database, const char *project, const char *user, enum role *role,
                                    struct error *error);

/** The highest role of `user`: manager in every project if an administrator, otherwise the membership's. For questions
 * that do not depend on the token, such as who may own a run. Permission to see or change something depends on the
 * token, too. */
weft_status registry_role_get(struct database *database, const char *project, const char *user, enum role *role,
                              struct error *error);

/** OK if that is at least `least`; else STATE and a message that says what is missing. */
weft_status registry_role_need(struct database *database, const char *project, const char *user, enum role least,
                               struct error *error);

/** The users visible to `viewer`, which are the viewer and the members of their projects, of `project` alone unless
 * that is "" (NULL: all users); the projects that `viewer` is a member of (NULL: all); the members of a project. By
 * name; *list is to be freed.
 */
weft_status registry_users(struct database *database, const char *viewer, const char *project,
                           struct registry_user **list, size_t *count, struct error *error);
weft_status registry_projects(struct database *database, const char *viewer, struct registry_project **list,
                              size_t *count, struct error *error);
weft_status registry_members(struct database *database, const char *project, struct registry_member **list,
                             size_t *count, struct error *error);

#endif
