/* SPDX-License-Identifier: Apache-2.0 */
/** Schemas written as the JSON that they are. */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_SCHEMA_TEXT_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_SCHEMA_TEXT_H

/** The text of what stands between the parentheses: SCHEMA({"type": "object"}). */
#define SCHEMA(...) #__VA_ARGS__

#endif
