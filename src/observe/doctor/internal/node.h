/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The line protocol between the doctor (observe/doctor/hosts.c) and its far ends (observe/doctor/node.c):
 *
 *     doctor    check RANKS: look at your machine, for so many ranks; 0: one a core
 *     far end   DOCTOR_GREETING, then {"host","version","libfabric","addresses","findings":[...]}
 *     doctor    clock                        {"now": nanoseconds since 1970, as text}
 *     doctor    reach HOST ADDRESS:PORT      {"reached": whether HOST's doctor answered there, "why": otherwise}
 *
 * A far end sends DOCTOR_ANSWER, its host name and a newline to each client that connects to its port.
 */
#ifndef WEFT_OBSERVE_DOCTOR_INTERNAL_NODE_H
#define WEFT_OBSERVE_DOCTOR_INTERNAL_NODE_H

/** The first bytes of the far end; whatever a login shell prints before them is passed over. */
#define DOCTOR_GREETING   "\001weft-doctor\002"
#define DOCTOR_ANSWER     "weft-doctor "
#define DOCTOR_REACH_WAIT 2.0 /**< seconds to connect to a host */
#define DOCTOR_LINE_BYTES 4096

#endif
