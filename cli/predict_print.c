/* predict_print.c - what a model says about an image: classes, numbers, a mask or boxes, as a
 * table, JSON lines or values separated by commas; masks as PNG, boxes as JSON in a folder. */
#include "cli_predict.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include <vivace/detection.h>
#include <vivace/ext/data_files.h>
#include <vivace/memory.h>

enum { OUTSIDE = 255 }; /* in a mask: pixels that the model did not see */

typedef enum form { FORM_CLASSES, FORM_NUMBERS, FORM_MASK, FORM_BOXES } form;

static form form_of(const cli_printer *p, const vv_prediction *one)
{
    const vv_model *model = vv_predictor_model(p->predictor);
    if (model->task == VV_TASK_DETECT)
        return FORM_BOXES;
    if (model->task != VV_TASK_CLASSIFY)
        return FORM_NUMBERS;
    return one->ndim == 3 ? FORM_MASK : FORM_CLASSES;
}

static void add_class(const cli_printer *p, vv_str *out, int64_t i)
{
    const char *name = vv_predictor_class_name(p->predictor, i);
    if (name)
        vv_str_add(out, name);
    else
        vv_str_addf(out, "%lld", (long long)i);
}

/* A value of a CSV table: quoted where it must be. */
static void add_cell(vv_str *out, const char *text)
{
    if (!strpbrk(text, ",\"\n\r")) {
        vv_str_add(out, text);
        return;
    }
    vv_str_add(out, "\"");
    for (; *text; text++)
        vv_str_addf(out, *text == '"' ? "\"\"" : "%c", *text);
    vv_str_add(out, "\"");
}

static void add_class_cell(const cli_printer *p, vv_str *out, int64_t i)
{
    const char *name = vv_predictor_class_name(p->predictor, i);
    add_cell(out, name ? name : "");
}

static void add_class_json(const cli_printer *p, vv_str *out, int64_t i)
{
    const char *name = vv_predictor_class_name(p->predictor, i);
    vv_str_addf(out, "\"class\": %lld, \"label\": ", (long long)i);
    if (name)
        vv_str_add_json(out, name);
    else
        vv_str_add(out, "null");
}

static void begin_json(vv_str *out, const vv_prediction *one)
{
    vv_str_add(out, "{\"path\": ");
    vv_str_add_json(out, one->path);
}

static void head(cli_printer *p, vv_str *out, const char *columns)
{
    if (p->format == CLI_CSV && !p->begun)
        vv_str_addf(out, "%s\n", columns);
    p->begun = true;
}

/* ---- shares of classes: an image's, or a mask's ---- */

static vv_status add_shares(cli_printer *p, vv_str *out, const vv_prediction *one,
                            const float *shares, int64_t classes, const char *what)
{
    const int most = p->top < classes ? p->top : (int)classes;
    int64_t *best;
    VV_TRY(vv_alloc_array(&best, (size_t)most + 1, sizeof *best));
    const int count = vv_predict_top(shares, classes, most, best);
    if (p->format == CLI_JSON) {
        begin_json(out, one);
        vv_str_add(out, ", \"predictions\": [");
    } else if (p->format == CLI_TABLE) {
        vv_str_addf(out, "%-40s", one->path);
    }
    for (int i = 0; i < count; i++) {
        const double share = (double)shares[best[i]];
        if (p->format == CLI_JSON) {
            vv_str_add(out, i ? ", {" : "{");
            add_class_json(p, out, best[i]);
            vv_str_addf(out, ", \"%s\": %.6g}", what, share);
        } else if (p->format == CLI_CSV) {
            add_cell(out, one->path);
            vv_str_addf(out, ",%d,%lld,", i + 1, (long long)best[i]);
            add_class_cell(p, out, best[i]);
            vv_str_addf(out, ",%.6g\n", share);
        } else {
            vv_str_addf(out, "  %6.2f%% ", 100.0 * share);
            add_class(p, out, best[i]);
        }
    }
    vv_str_add(out, p->format == CLI_JSON ? "]}\n" : p->format == CLI_TABLE ? "\n" : "");
    vv_dealloc(best);
    return VV_OK;
}

/* ---- numbers ---- */

static void add_numbers(cli_printer *p, vv_str *out, const vv_prediction *one)
{
    const bool json = p->format == CLI_JSON;
    head(p, out, "path,value");
    if (json) {
        begin_json(out, one);
        vv_str_add(out, ", \"values\": [");
    } else if (p->format == CLI_CSV) {
        add_cell(out, one->path);
    } else {
        vv_str_addf(out, "%-40s", one->path);
    }
    for (int64_t i = 0; i < one->count; i++)
        vv_str_addf(out, "%s%.6g", json ? (i ? ", " : "") : p->format == CLI_CSV ? "," : "  ",
                    (double)one->output[i]);
    vv_str_add(out, json ? "]}\n" : "\n");
}

/* ---- files in the folder ---- */

/* FOLDER/ the image's path with another ending; folders in between are made. */
static vv_status file_name(const cli_printer *p, const char *path, const char *ending, vv_str *out)
{
    vv_str_add(out, p->folder);
    const size_t root = out->length;
    for (const char *part = path; *part;) {
        const size_t length = strcspn(part, "/");
        const bool up = length == 2 && strncmp(part, "..", 2) == 0;
        if (length > 0 && !(length == 1 && *part == '.')) {
            vv_str_add(out, "/");
            vv_str_addn(out, up ? "__" : part, length);
        }
        part += length + (part[length] == '/');
    }
    VV_TRY(vv_str_status(out));
    char *dot = strrchr(out->text, '.'), *slash = strrchr(out->text, '/');
    if (dot && slash && dot > slash)
        out->length = (size_t)(dot - out->text);
    vv_str_add(out, ending);
    VV_TRY(vv_str_status(out));
    for (char *at = out->text + (root ? 1 : 0); *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        const int made = mkdir(out->text, 0777);
        const int reason = errno;
        *at = '/';
        if (made != 0 && reason != EEXIST)
            return vv_fail(VV_EIO, "%s: %s", out->text, strerror(reason));
    }
    return VV_OK;
}

static vv_status write_mask(const cli_printer *p, const vv_prediction *one, const uint8_t *mask)
{
    const int64_t height = one->shape[0], width = one->shape[1];
    uint8_t *whole = NULL;
    vv_str path = {0};
    double box[4];
    vv_status status;
    VV_GO(vv_alloc_array(&whole, (size_t)one->height, (size_t)one->width));
    vv_predictor_region(p->predictor, one->height, one->width, box);
    const double down = (box[3] - box[1]) / (double)height;
    const double across = (box[2] - box[0]) / (double)width;
    for (int64_t y = 0; y < one->height; y++)
        for (int64_t x = 0; x < one->width; x++) {
            const double row = ((double)y + 0.5 - box[1]) / down;
            const double column = ((double)x + 0.5 - box[0]) / across;
            const bool seen = row >= 0.0 && row < (double)height && column >= 0.0 &&
                              column < (double)width;
            whole[y * one->width + x] =
                seen ? mask[(int64_t)row * width + (int64_t)column] : OUTSIDE;
        }
    VV_GO(file_name(p, one->path, ".png", &path));
    status = vv_png_write(vv_str_text(&path), whole, one->height, one->width, 1);
out:
    vv_dealloc(whole);
    vv_str_fini(&path);
    return status;
}

/* ---- masks ---- */

static vv_status add_mask(cli_printer *p, vv_str *out, const vv_prediction *one)
{
    const int64_t pixels = one->shape[0] * one->shape[1], classes = one->shape[2];
    uint8_t *mask = NULL;
    float *shares = NULL;
    vv_status status;
    if (classes > OUTSIDE)
        return vv_fail(VV_EUNSUPPORTED, "masks of more than %d classes do not fit into a PNG of "
                       "bytes", OUTSIDE);
    VV_GO(vv_alloc(&mask, (size_t)pixels));
    VV_GO(vv_alloc_array(&shares, (size_t)classes, sizeof *shares));
    for (int64_t i = 0; i < pixels; i++) {
        int64_t best;
        vv_predict_top(one->output + i * classes, classes, 1, &best);
        mask[i] = (uint8_t)best;
        shares[best] += 1.0f / (float)pixels;
    }
    head(p, out, "path,rank,class,label,share");
    VV_GO(add_shares(p, out, one, shares, classes, "share"));
    if (p->folder)
        status = write_mask(p, one, mask);
out:
    vv_dealloc(mask);
    vv_dealloc(shares);
    return status;
}

/* ---- boxes ---- */

/* From shares of the sample to shares of the image. */
static void to_image(const cli_printer *p, const vv_prediction *one, vv_detection *found,
                     int64_t count)
{
    double box[4];
    const double side[2] = {(double)one->width, (double)one->height};
    vv_predictor_region(p->predictor, one->height, one->width, box);
    for (int64_t i = 0; i < count; i++)
        for (int k = 0; k < 4; k++) {
            const double from = box[k % 2], to = box[2 + k % 2];
            found[i].box[k] = (float)((from + (double)found[i].box[k] * (to - from)) / side[k % 2]);
        }
}

static void add_box_rows(cli_printer *p, vv_str *out, const vv_prediction *one,
                         const vv_detection *found, int64_t count)
{
    const double side[2] = {(double)one->width, (double)one->height};
    head(p, out, "path,rank,class,label,score,x0,y0,x1,y1");
    for (int64_t i = 0; i < count; i++) {
        double at[4];
        for (int k = 0; k < 4; k++)
            at[k] = (double)found[i].box[k] * side[k % 2];
        if (p->format == CLI_CSV) {
            add_cell(out, one->path);
            vv_str_addf(out, ",%lld,%d,", (long long)i + 1, (int)found[i].label);
            add_class_cell(p, out, found[i].label);
            vv_str_addf(out, ",%.6g,%.1f,%.1f,%.1f,%.1f\n", (double)found[i].score, at[0], at[1],
                        at[2], at[3]);
        } else {
            vv_str_addf(out, "%-40s  %6.2f%% [%.0f,%.0f,%.0f,%.0f] ", one->path,
                        100.0 * (double)found[i].score, at[0], at[1], at[2], at[3]);
            add_class(p, out, found[i].label);
            vv_str_add(out, "\n");
        }
    }
    if (count == 0 && p->format == CLI_TABLE)
        vv_str_addf(out, "%-40s  nothing\n", one->path);
}

static vv_status write_boxes(const cli_printer *p, const char *path, const char *json)
{
    vv_str name = {0};
    vv_status status = file_name(p, path, ".json", &name);
    FILE *file = status == VV_OK ? fopen(vv_str_text(&name), "w") : NULL;
    if (status == VV_OK && (!file || fputs(json, file) < 0))
        status = vv_fail(VV_EIO, "%s: %s", vv_str_text(&name), strerror(errno));
    if (file && fclose(file) != 0 && status == VV_OK)
        status = vv_fail(VV_EIO, "%s: %s", vv_str_text(&name), strerror(errno));
    vv_str_fini(&name);
    return status;
}

static vv_status find_boxes(const cli_printer *p, const vv_prediction *one, vv_detection **found,
                            int64_t *count)
{
    vv_module *net = vv_predictor_model(p->predictor)->net;
    const vv_detector *detector = vv_module_detector(net);
    const float *priors =
        detector && one->ndim == 2 ? detector->priors(net, one->shape[0], NULL) : NULL;
    vv_detect_opts opts = VV_DETECT_DEFAULTS;
    *found = NULL;
    *count = 0;
    if (!priors)
        return vv_fail(VV_EUNSUPPORTED, "this model does not tell where its boxes lie");
    opts.min_score = p->score;
    opts.keep = p->top;
    VV_TRY(vv_detect(found, count, one->output, priors, one->shape[0], one->shape[1] - 4, &opts));
    to_image(p, one, *found, *count);
    return VV_OK;
}

static vv_status add_boxes(cli_printer *p, vv_str *out, const vv_prediction *one)
{
    const vv_saved_input *in = vv_predictor_input(p->predictor);
    vv_detection *found = NULL;
    int64_t count = 0;
    vv_str json = {0};
    vv_status status;
    VV_GO(find_boxes(p, one, &found, &count));
    begin_json(&json, one);
    vv_str_addf(&json, ", \"height\": %lld, \"width\": %lld, \"boxes\": ", (long long)one->height,
                (long long)one->width);
    VV_GO(vv_detections_json(&json, found, count, (const char *const *)in->class_names,
                             one->height, one->width));
    vv_str_add(&json, "}\n");
    VV_GO(vv_str_status(&json));
    if (p->format == CLI_JSON)
        vv_str_add(out, vv_str_text(&json));
    else
        add_box_rows(p, out, one, found, count);
    if (p->folder)
        status = write_boxes(p, one->path, vv_str_text(&json));
out:
    vv_dealloc(found);
    vv_str_fini(&json);
    return status;
}

/* ---- one image ---- */

static vv_status add_prediction(cli_printer *p, vv_str *out, const vv_prediction *one)
{
    switch (form_of(p, one)) {
    case FORM_MASK:
        return add_mask(p, out, one);
    case FORM_BOXES:
        return add_boxes(p, out, one);
    case FORM_NUMBERS:
        add_numbers(p, out, one);
        return VV_OK;
    default:
        head(p, out, "path,rank,class,label,probability");
        return add_shares(p, out, one, one->output, one->count, "probability");
    }
}

vv_status cli_print_prediction(void *ctx, const vv_prediction *one)
{
    cli_printer *p = ctx;
    vv_str out = {0};
    if (one->error) {
        p->passed_over++;
        fflush(stdout);
        fprintf(stderr, "vivace: passed over: %s\n", one->error);
        return VV_OK;
    }
    vv_status status = add_prediction(p, &out, one);
    if (status == VV_OK)
        status = vv_str_status(&out);
    if (status == VV_OK && (fputs(vv_str_text(&out), stdout) < 0 || fflush(stdout) != 0))
        status = vv_fail(VV_EIO, "standard output: %s", strerror(errno));
    p->done += status == VV_OK;
    vv_str_fini(&out);
    return status;
}
