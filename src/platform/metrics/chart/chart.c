/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/chart/chart.h"

#include "base/text.h"
#include "platform/metrics/chart/internal/axis.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lengths are those of the SVG, pixels where it is shown in its own size. */
#define WIDTH        960
#define MARGIN       24 /* around all of it */
#define HEAD         62 /* title and subtitle */
#define LEGEND       26 /* a line of it */
#define PANEL_TITLE  30 /* above a panel's frame */
#define AXIS_LEFT    52 /* for labels of y */
#define AXIS_BELOW   44 /* for labels of x and what x is */
#define WIDE_HEIGHT  300
#define LOW_HEIGHT   150
#define BETWEEN      36  /* two panels of a row */
#define LETTER_WIDTH 6.6 /* about, at the size of the legend */

#define INK   "#1f2430"
#define QUIET "#667085"
#define GRID  "#e6e8ee"
#define FRAME "#c3c8d4"
#define PAPER "#ffffff"

/* Colors that color-blind readers can distinguish (Okabe and Ito 2008), darkened for lines on white. */
static const char *const palette[CHART_COLORS] = {"#0b6bb5", "#d9540b", "#0b8f6a", "#b5488f",
                                                  "#b98500", "#3aa0d8", "#7a4fc4", "#50555f"};

static const char *color_of(const struct chart_curve *curve)
{
    return palette[curve->color % CHART_COLORS];
}

static void chart_put_text(FILE *out, const char *text)
{
    char printable[512];
    snprintf(printable, sizeof printable, "%s", text);
    for (const char *letter = text_printable(printable); *letter; letter++)
        switch (*letter) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        default:
            fputc(*letter, out);
        }
}

static void put_label(FILE *out, double x, double y, const char *kind, const char *text)
{
    fprintf(out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", kind, x, y);
    chart_put_text(out, text);
    fputs("</text>\n", out);
}

/* ---- ranges ---- */

struct chart_range {
    double low, high; /* low > high: nothing yet */
};

static void chart_widen(struct chart_range *range, const double *values, const double *others, size_t count,
                        bool positive)
{
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(values[i]) || !isfinite(others[i]) || (positive && values[i] <= 0))
            continue;
        range->low = fmin(range->low, values[i]);
        range->high = fmax(range->high, values[i]);
    }
}

static void make_axes(const struct chart_panel *panel, struct chart_axis *x, struct chart_axis *y)
{
    struct chart_range across = {INFINITY, -INFINITY}, up = {INFINITY, -INFINITY};
    for (size_t i = 0; i < panel->curve_count; i++) {
        const struct chart_curve *curve = &panel->curves[i];
        chart_widen(&across, curve->x, curve->y, curve->count, false);
        chart_widen(&up, curve->y, curve->x, curve->count, panel->log);
    }
    if (panel->log && up.low > 0 && up.low < up.high) {
        const double room = pow(up.high / up.low, 0.04);
        up.low /= room;
        up.high *= room;
    } else if (up.low <= up.high) {
        const double room = 0.04 * (up.high - up.low);
        up.low = panel->zero && up.low >= 0 ? 0 : up.low - room;
        up.high += panel->zero ? 2 * room + 0.02 * up.high : room;
    }
    chart_axis_make(x, across.low, across.high, panel->wide ? 8 : 4, false);
    chart_axis_make(y, up.low, up.high, panel->wide ? 6 : 4, panel->log);
}

/* ---- one panel ---- */

struct chart_frame {
    double left, top, width, height;
    struct chart_axis x, y;
};

static double x_of(const struct chart_frame *frame, double value)
{
    return frame->left + frame->width * chart_axis_place(&frame->x, value);
}

static double y_of(const struct chart_frame *frame, double value)
{
    return frame->top + frame->height * (1 - chart_axis_place(&frame->y, value));
}

/* "loss", or where labels are shortened "learning rate (x 10^-3)". */
static void put_panel_title(FILE *out, const struct chart_frame *frame, const char *title)
{
    fprintf(out, "<text class=\"panel\" x=\"%.1f\" y=\"%.1f\">", frame->left, frame->top - 11);
    chart_put_text(out, title);
    if (frame->y.exponent)
        fprintf(out, "<tspan class=\"unit\" dx=\"5\">\xc3\x97 10<tspan dy=\"-5\" font-size=\"9\">%s%d</tspan></tspan>",
                frame->y.exponent < 0 ? "\xe2\x88\x92" : "", abs(frame->y.exponent));
    fputs("</text>\n", out);
}

static void put_axes(FILE *out, const struct chart_frame *frame, const char *x_title)
{
    const double right = frame->left + frame->width, bottom = frame->top + frame->height;
    fputs("<path class=\"grid\" d=\"", out);
    for (size_t i = 0; i < frame->y.tick_count; i++)
        fprintf(out, "M%.1f %.1fH%.1f", frame->left, y_of(frame, frame->y.ticks[i]), right);
    fprintf(out, "\"/>\n<path class=\"axis\" d=\"M%.1f %.1fH%.1f", frame->left, bottom, right);
    for (size_t i = 0; i < frame->x.tick_count; i++)
        fprintf(out, "M%.1f %.1fv5", x_of(frame, frame->x.ticks[i]), bottom);
    fputs("\"/>\n", out);
    for (size_t i = 0; i < frame->y.tick_count; i++)
        put_label(out, frame->left - 8, y_of(frame, frame->y.ticks[i]) + 4, "y", frame->y.labels[i]);
    for (size_t i = 0; i < frame->x.tick_count; i++)
        put_label(out, x_of(frame, frame->x.ticks[i]), bottom + 19, "x", frame->x.labels[i]);
    put_label(out, right, bottom + 36, "x-title", x_title);
}

/* Numbers of one decimal; a new line begins after a gap. */
static void chart_put_line(FILE *out, const struct chart_frame *frame, const struct chart_curve *curve)
{
    static const char *const kinds[] = {[CHART_FAINT] = "faint", [CHART_STRONG] = "strong", [CHART_DOTTED] = "joint"};
    bool drawing = false;
    fprintf(out, "<path class=\"%s\" stroke=\"%s\" d=\"", kinds[curve->style], color_of(curve));
    for (size_t i = 0; i < curve->count; i++) {
        const bool gap = !isfinite(curve->y[i]) || !isfinite(curve->x[i]) || (frame->y.log && curve->y[i] <= 0);
        if (!gap)
            fprintf(out, "%c%.1f %.1f", drawing ? 'L' : 'M', x_of(frame, curve->x[i]), y_of(frame, curve->y[i]));
        drawing = !gap;
    }
    fputs("\"/>\n", out);
}

static void put_dots(FILE *out, const struct chart_frame *frame, const struct chart_curve *curve)
{
    fprintf(out, "<g fill=\"%s\" stroke=\"" PAPER "\">\n", color_of(curve));
    for (size_t i = 0; i < curve->count; i++)
        if (isfinite(curve->y[i]) && isfinite(curve->x[i]) && (!frame->y.log || curve->y[i] > 0))
            fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%s\"/>\n", x_of(frame, curve->x[i]),
                    y_of(frame, curve->y[i]), curve->count > 60 ? "2" : "3.5");
    fputs("</g>\n", out);
}

static void put_panel(FILE *out, const struct chart *chart, const struct chart_panel *panel, double left, double top,
                      double width, double height)
{
    struct chart_frame frame = {
        .left = left + AXIS_LEFT, .top = top + PANEL_TITLE, .width = width - AXIS_LEFT, .height = height};
    make_axes(panel, &frame.x, &frame.y);
    put_panel_title(out, &frame, panel->title);
    put_axes(out, &frame, chart->x_title);
    for (size_t i = 0; i < panel->curve_count; i++) {
        const struct chart_curve *curve = &panel->curves[i];
        chart_put_line(out, &frame, curve);
        if (curve->style == CHART_DOTTED)
            put_dots(out, &frame, curve);
    }
}

/* ---- the whole ---- */

/* With `out` NULL only the lines are counted. */
static size_t put_legend(FILE *out, const struct chart *chart, double top)
{
    double x = MARGIN;
    size_t lines = 0;
    for (size_t p = 0; p < chart->panel_count; p++)
        for (size_t i = 0; i < chart->panels[p].curve_count; i++) {
            const struct chart_curve *curve = &chart->panels[p].curves[i];
            if (!curve->label)
                continue;
            const double width = 34 + LETTER_WIDTH * (double)strlen(curve->label) + 22;
            if (lines == 0 || (x + width > WIDTH - MARGIN && x > MARGIN)) {
                x = MARGIN;
                lines++;
            }
            const double y = top + LEGEND * (double)(lines - 1) + 13;
            if (out) {
                const double ends[] = {x, x + 24}, same[] = {y - 4, y - 4};
                const char *kind = curve->style == CHART_FAINT    ? "faint key"
                                   : curve->style == CHART_STRONG ? "strong"
                                                                  : "joint";
                fprintf(out, "<path class=\"%s\" stroke=\"%s\" d=\"M%.1f %.1fH%.1f\"/>\n", kind, color_of(curve),
                        ends[0], same[0], ends[1]);
                if (curve->style == CHART_DOTTED)
                    fprintf(out, "<circle fill=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>\n", color_of(curve), x + 12,
                            y - 4);
                put_label(out, x + 32, y, "legend", curve->label);
            }
            x += width;
        }
    return lines;
}

static void put_style(FILE *out)
{
    fputs("<style>\n"
          "text{font-family:system-ui,-apple-system,\"Segoe UI\",\"DejaVu Sans\",sans-serif;font-size:12px;fill:" QUIET
          "}\n"
          ".title{font-size:20px;font-weight:600;fill:" INK "}\n"
          ".subtitle{font-size:13px}\n"
          ".panel{font-size:13px;font-weight:600;fill:" INK "}\n"
          ".unit{font-weight:400;fill:" QUIET "}\n"
          ".legend{fill:" INK "}\n"
          ".y{text-anchor:end}\n"
          ".x{text-anchor:middle}\n"
          ".x-title{text-anchor:end}\n"
          ".grid{stroke:" GRID ";fill:none}\n"
          ".axis{stroke:" FRAME ";fill:none}\n"
          ".faint{fill:none;stroke-width:1;stroke-opacity:.28;stroke-linejoin:round}\n"
          ".key{stroke-width:5}\n"
          ".strong{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}\n"
          ".joint{fill:none;stroke-width:1.2;stroke-dasharray:4 3}\n"
          "</style>\n",
          out);
}

static double height_of(const struct chart_panel *panel)
{
    return PANEL_TITLE + (panel->wide ? WIDE_HEIGHT : LOW_HEIGHT) + AXIS_BELOW;
}

/* Draws the panels below `top`; with `out` NULL only measures. Returns where they end. */
static double put_panels(FILE *out, const struct chart *chart, double top)
{
    const double half = (WIDTH - 2 * MARGIN - BETWEEN) / 2.0;
    bool second = false;
    for (size_t i = 0; i < chart->panel_count; i++) {
        const struct chart_panel *panel = &chart->panels[i];
        const double left = second ? MARGIN + half + BETWEEN : MARGIN;
        const double width = panel->wide ? WIDTH - 2 * MARGIN : half;
        if (out)
            put_panel(out, chart, panel, left, top, width, panel->wide ? WIDE_HEIGHT : LOW_HEIGHT);
        second = !panel->wide && !second && i + 1 < chart->panel_count && !chart->panels[i + 1].wide;
        if (!second)
            top += height_of(panel);
    }
    return top;
}

static void put_chart(FILE *out, const struct chart *chart)
{
    const double begin = MARGIN / 2.0 + HEAD, panels = begin + LEGEND * (double)put_legend(NULL, chart, begin) + 8;
    const double height = put_panels(NULL, chart, panels) + MARGIN / 2.0;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\" height=\"%.0f\" "
            "role=\"img\">\n<title>",
            WIDTH, height, WIDTH, height);
    chart_put_text(out, chart->title);
    fputs("</title>\n", out);
    put_style(out);
    fprintf(out, "<rect width=\"%d\" height=\"%.0f\" rx=\"8\" fill=\"" PAPER "\"/>\n", WIDTH, height);
    put_label(out, MARGIN, MARGIN / 2.0 + 26, "title", chart->title);
    put_label(out, MARGIN, MARGIN / 2.0 + 47, "subtitle", chart->subtitle);
    put_legend(out, chart, begin);
    put_panels(out, chart, panels);
    fputs("</svg>\n", out);
}

weft_status chart_draw(const struct chart *chart, char **svg, size_t *size, struct error *error)
{
    char *text = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&text, &length);
    if (memory)
        put_chart(memory, chart);
    if (!memory || fclose(memory) != 0) {
        free(text);
        return error_memory(error, length, "a chart");
    }
    *svg = text;
    *size = length;
    return WEFT_OK;
}
