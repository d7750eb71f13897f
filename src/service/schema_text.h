/* SPDX-License-Identifier: Apache-2.0 */
/** Schemas written as the JSON that they are. */
#ifndef WEFT_SERVICE_SCHEMA_TEXT_H
#define WEFT_SERVICE_SCHEMA_TEXT_H

/** The text of what stands between the parentheses: SCHEMA({"type": "object"}). */
#define SCHEMA(...) #__VA_ARGS__

#endif
