/* SPDX-License-Identifier: Apache-2.0 */
#define REAL           float
#define REAL_TYPE      WEFT_F32
#define REFERENCE_NAME "reference-f32"
#define REFERENCE_OPEN reference_f32_open
#include "training/tensor/internal/reference.h"
