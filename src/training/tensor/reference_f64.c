/* SPDX-License-Identifier: Apache-2.0 */
#define REAL           double
#define REAL_TYPE      WEFT_F64
#define REFERENCE_NAME "reference"
#define REFERENCE_OPEN reference_f64_open
#include "training/tensor/internal/reference.h"
