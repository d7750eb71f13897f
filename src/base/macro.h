/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Macros that treat each of their arguments alike.
 *
 *     #define EACH(x, ...) use(x); __VA_OPT__(EACH_MORE MACRO_PARENTHESES (__VA_ARGS__))
 *     #define EACH_MORE() EACH
 *     #define ALL(...) MACRO_REPEAT(EACH(__VA_ARGS__))
 *
 * The preprocessor does not expand a macro inside itself. EACH_MORE hides the name until MACRO_REPEAT() scans the text
 * again, once for each argument, up to 50 of them.
 */
#ifndef WEFT_BASE_MACRO_H
#define WEFT_BASE_MACRO_H

#define MACRO_PARENTHESES ()
#define MACRO_REPEAT(...) MACRO_SCAN_9(MACRO_SCAN_9(MACRO_SCAN_9(MACRO_SCAN_9(__VA_ARGS__))))
#define MACRO_SCAN_9(...) MACRO_SCAN_3(MACRO_SCAN_3(MACRO_SCAN_3(__VA_ARGS__)))
#define MACRO_SCAN_3(...) MACRO_SCAN(MACRO_SCAN(MACRO_SCAN(__VA_ARGS__)))
#define MACRO_SCAN(...)   __VA_ARGS__

#endif
