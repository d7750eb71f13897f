// SPDX-License-Identifier: Apache-2.0
// What the user may do, so that nothing else is offered. The server decides: where it cannot be asked, all is offered.
import { get, server } from "./api.js";

let asked = null;

/** {maySubmit(project), mayChange(run)}; asked for once. */
export function rights() {
    asked ??= Promise.all([server(), get("/projects")]).then(
        ([{ user }, { projects }]) => rightsOf(user, new Map(projects.map(({ project, role }) => [project, role]))),
        () => ({ maySubmit: () => true, mayChange: () => true }),
    );
    return asked;
}

/** `roles`: project -> role of `user`. Members submit, and change runs of their own; managers change all runs. */
function rightsOf(user, roles) {
    const maySubmit = (project) => ["member", "manager"].includes(roles.get(project) ?? "member");
    return {
        maySubmit,
        mayChange: (run) => roles.get(run.project) === "manager" || (run.owner === user && maySubmit(run.project)),
    };
}
