/* SPDX-License-Identifier: Apache-2.0 */
/* The reference kernels of cross entropy; reference.h includes this. */

static void reference_cross_entropy(struct device *device, size_t rows, size_t classes, size_t stride,
                                    const int32_t *targets, double smoothing, double scale, void *logits_,
                                    double *losses)
{
    for (size_t i = 0; i < rows; i++) {
        REAL *logits = (REAL *)logits_ + i * stride;
        double most = -INFINITY, sum = 0, expected = 0;
        if (targets[i] == DEVICE_NO_TARGET) {
            losses[i] = 0;
            reference_fill(device, scale == 0 ? 0 : classes, 0, logits);
            continue;
        }
        for (size_t j = 0; j < classes; j++)
            most = fmax(most, logits[j]);
        for (size_t j = 0; j < classes; j++) {
            double share = smoothing / (double)classes + (j == (size_t)targets[i] ? 1 - smoothing : 0);
            sum += exp(logits[j] - most);
            expected += share > 0 ? share * logits[j] : 0;
        }
        losses[i] = most + log(sum) - expected;
        if (scale == 0)
            continue;
        for (size_t j = 0; j < classes; j++) {
            double share = smoothing / (double)classes + (j == (size_t)targets[i] ? 1 - smoothing : 0);
            logits[j] = (REAL)(scale * (exp(logits[j] - most) / sum - share));
        }
    }
}

static void reference_class_sums(struct device *device, const struct divided_classes *shape, const void *logits_,
                                 struct class_sums *sums)
{
    for (size_t i = 0; i < shape->rows; i++) {
        const REAL *logits = (const REAL *)logits_ + i * shape->stride;
        sums[i] = (struct class_sums){.largest = -INFINITY};
        if (shape->targets[i] == DEVICE_NO_TARGET) {
            sums[i] = class_sums_empty();
            continue;
        }
        for (size_t j = 0; j < shape->classes; j++)
            sums[i].largest = fmax(sums[i].largest, logits[j]);
        for (size_t j = 0; j < shape->classes; j++) {
            sums[i].exponentials += exp(logits[j] - sums[i].largest);
            sums[i].sum += shape->smoothing > 0 ? logits[j] : 0;
        }
        if (classes_have_target(shape, i))
            sums[i].at_target = logits[shape->targets[i]];
        for (size_t j = 0; j < shape->classes; j++)
            if (logits[j] == sums[i].largest) {
                sums[i].right = (ptrdiff_t)j == (ptrdiff_t)shape->targets[i];
                break;
            }
    }
}

static void reference_divided_cross_entropy(struct device *device, const struct divided_classes *shape,
                                            const struct class_sums *sums, void *logits_, double *losses)
{
    for (size_t i = 0; i < shape->rows; i++) {
        const struct class_sums all = class_sums_join(shape, sums, i);
        REAL *logits = (REAL *)logits_ + i * shape->stride;
        if (shape->targets[i] == DEVICE_NO_TARGET) {
            losses[i] = 0;
            reference_fill(device, shape->scale == 0 ? 0 : shape->classes, 0, logits);
            continue;
        }
        losses[i] = class_sums_loss(shape, &all);
        for (size_t j = 0; shape->scale != 0 && j < shape->classes; j++) {
            const double share =
                shape->smoothing / (double)shape->all + (j == (size_t)shape->targets[i] ? 1 - shape->smoothing : 0);
            logits[j] = (REAL)(shape->scale * (exp(logits[j] - all.largest) / all.exponentials - share));
        }
    }
}
