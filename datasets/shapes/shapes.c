/* shapes.c - drawn shapes on a rough ground, with exact boxes.
 *
 * Every image is a function of (seed, split, index) and drawn when it is asked for, so a set takes
 * no memory. The class is the form; colour, size and place tell nothing. */
#include "shapes.h"

#include <math.h>
#include <string.h>

#include <vivace/ext/data_files.h>
#include <vivace/memory.h>

enum { KINDS = 5, GRID = 9, CHANNELS = 3 };
static const char *const class_names[] = {"background", "disc", "square", "triangle",
                                          "ring",       "cross"};

/* ---- drawing ---- */

/* A smooth field of random colours, and grain. */
static void draw_ground(uint8_t *image, int64_t size, vv_rng *rng)
{
    double grid[GRID][GRID][CHANNELS];
    for (int i = 0; i < GRID * GRID * CHANNELS; i++)
        grid[i / (GRID * CHANNELS)][i / CHANNELS % GRID][i % CHANNELS] =
            vv_rng_uniform_in(rng, 60.0, 160.0);
    for (int64_t y = 0; y < size; y++)
        for (int64_t x = 0; x < size; x++) {
            const double v = (double)y / (double)size * (GRID - 1);
            const double u = (double)x / (double)size * (GRID - 1);
            const int i = (int)v, j = (int)u;
            const double grain = (double)(vv_rng_u32(rng) >> 24) / 8.0 - 16.0;
            for (int c = 0; c < CHANNELS; c++) {
                const double top = grid[i][j][c] + (u - j) * (grid[i][j + 1][c] - grid[i][j][c]);
                const double low =
                    grid[i + 1][j][c] + (u - j) * (grid[i + 1][j + 1][c] - grid[i + 1][j][c]);
                image[(y * size + x) * CHANNELS + c] =
                    (uint8_t)(top + (v - i) * (low - top) + grain);
            }
        }
}

/* Whether (u, v), -1..1 within the shape's square, belongs to it. */
static bool is_inside(int kind, double u, double v)
{
    switch (kind) {
    case 0: return u * u + v * v <= 1.0;
    case 1: return true;
    case 2: return fabs(u) <= 0.5 * (v + 1.0);
    case 3: return u * u + v * v <= 1.0 && u * u + v * v >= 0.3;
    default: return fabs(u) <= 0.33 || fabs(v) <= 0.33;
    }
}

/* Edges in pixels of what was drawn, x0 = size if nothing was. */
typedef struct edges {
    int64_t x0, y0, x1, y1;
} edges;

static edges draw_shape(uint8_t *image, int64_t size, int kind, const double square[4],
                        const uint8_t colour[CHANNELS])
{
    edges e = {size, size, 0, 0};
    for (int64_t y = (int64_t)square[1]; y < size && (double)y < square[3]; y++)
        for (int64_t x = (int64_t)square[0]; x < size && (double)x < square[2]; x++) {
            const double u = 2.0 * ((double)x + 0.5 - square[0]) / (square[2] - square[0]) - 1.0;
            const double v = 2.0 * ((double)y + 0.5 - square[1]) / (square[3] - square[1]) - 1.0;
            if (fabs(u) > 1.0 || fabs(v) > 1.0 || !is_inside(kind, u, v))
                continue;
            memcpy(image + (y * size + x) * CHANNELS, colour, CHANNELS);
            e = (edges){x < e.x0 ? x : e.x0, y < e.y0 ? y : e.y0, x + 1 > e.x1 ? x + 1 : e.x1,
                        y + 1 > e.y1 ? y + 1 : e.y1};
        }
    return e;
}

/* Away from the ground's greys: one channel bright, one dark. */
static void choose_colour(uint8_t colour[CHANNELS], vv_rng *rng)
{
    const int64_t bright = vv_rng_below(rng, CHANNELS);
    const int64_t dark = (bright + 1 + vv_rng_below(rng, CHANNELS - 1)) % CHANNELS;
    for (int c = 0; c < CHANNELS; c++)
        colour[c] = (uint8_t)vv_rng_below(rng, 256);
    colour[bright] = (uint8_t)(215 + vv_rng_below(rng, 41));
    colour[dark] = (uint8_t)vv_rng_below(rng, 41);
}

/* Shapes leave a pixel between their squares, so that each stays whole. */
static bool is_free(const double (*squares)[4], int64_t count, const double s[4])
{
    for (int64_t i = 0; i < count; i++)
        if (s[0] < squares[i][2] + 1.0 && squares[i][0] < s[2] + 1.0 &&
            s[1] < squares[i][3] + 1.0 && squares[i][1] < s[3] + 1.0)
            return false;
    return true;
}

void vv_shapes_draw(const vv_shapes_opts *o, bool train, int64_t index, uint8_t *image,
                    vv_box_row *rows, int64_t *count)
{
    vv_rng rng = vv_rng_at((uint64_t)o->seed, train ? "shapes train" : "shapes eval",
                           (uint64_t)index);
    const double size = (double)o->size;
    double squares[VV_SHAPES_MOST][4];
    const int64_t wanted = 1 + vv_rng_below(&rng, o->most);
    *count = 0;
    draw_ground(image, o->size, &rng);
    for (int tries = 0; *count < wanted && tries < 50; tries++) {
        const double side = size * vv_rng_uniform_in(&rng, 0.12, 0.5);
        const double w = side, h = side * vv_rng_uniform_in(&rng, 0.75, 1.33);
        const double x = vv_rng_uniform(&rng) * (size - w), y = vv_rng_uniform(&rng) * (size - h);
        const double square[4] = {x, y, x + w, y + h};
        const int kind = (int)vv_rng_below(&rng, o->classes);
        uint8_t colour[CHANNELS];
        choose_colour(colour, &rng);
        if (!is_free((const double(*)[4])squares, *count, square))
            continue;
        memcpy(squares[*count], square, sizeof square);
        const edges e = draw_shape(image, o->size, kind, square, colour);
        if (e.x0 >= e.x1)
            continue;
        const float row[6] = {(float)e.x0 / (float)o->size, (float)e.y0 / (float)o->size,
                              (float)e.x1 / (float)o->size, (float)e.y1 / (float)o->size,
                              (float)(kind + 1), 0.0f};
        memcpy(rows[(*count)++], row, sizeof row);
    }
}

/* ---- the set ---- */

typedef struct shapes {
    vv_shapes_opts opts;
    bool train;
} shapes;

static vv_image_shape shape_of(const shapes *s)
{
    return (vv_image_shape){s->opts.size, s->opts.size, CHANNELS};
}

static vv_status shapes_read(vv_dataset *dataset, int64_t index, void *input, void *target)
{
    const shapes *s = dataset->self;
    vv_box_row rows[VV_SHAPES_MOST];
    uint8_t *own = NULL;
    int64_t count;
    if (!input)
        VV_TRY(vv_alloc(&own, (size_t)(s->opts.size * s->opts.size * CHANNELS)));
    vv_shapes_draw(&s->opts, s->train, index, input ? input : own, rows, &count);
    vv_boxes_pad(rows, count, VV_SHAPES_MOST);
    if (target)
        memcpy(target, rows, sizeof rows);
    vv_dealloc(own);
    return VV_OK;
}

static vv_status shapes_draw_sample(vv_dataset *dataset, vv_augment_call *call, void *input,
                                    void *target)
{
    static const vv_box_augment change = VV_BOX_AUGMENT_DEFAULTS;
    const shapes *s = dataset->self;
    const vv_image_shape shape = shape_of(s);
    const size_t bytes = (size_t)(shape.height * shape.width * CHANNELS);
    vv_box_row rows[VV_SHAPES_MOST];
    double part[4];
    uint8_t *drawn = NULL;
    bool flip;
    int64_t count;
    vv_status status;
    VV_TRY(vv_alloc(&drawn, bytes));
    vv_shapes_draw(&s->opts, s->train, call->index, drawn, rows, &count);
    count = vv_boxes_augment(rows, count, &change, &call->rng, part, &flip);
    for (int i = 0; i < 4; i++)
        part[i] *= (double)s->opts.size;
    VV_GO(vv_image_resample(&shape, input, &shape, drawn, part, VV_IMAGE_BILINEAR));
    vv_boxes_finish(&shape, input, drawn, &change, flip, &call->rng);
    vv_boxes_pad(rows, count, VV_SHAPES_MOST);
    if (target)
        memcpy(target, rows, sizeof rows);
out:
    vv_dealloc(drawn);
    return status;
}

static void shapes_fini(vv_dataset *dataset)
{
    vv_dealloc(dataset->self);
}

static const vv_dataset_class plain_class = {.read = shapes_read, .fini = shapes_fini};
static const vv_dataset_class varied_class = {
    .read = shapes_read, .fini = shapes_fini, .draw = shapes_draw_sample};

static vv_sample_spec spec_of(const vv_shapes_opts *o)
{
    vv_sample_spec spec = {.input_dtype = VV_U8, .target_dtype = VV_F32, .input_ndim = 3,
                           .target_ndim = 2, .classes = o->classes + 1};
    spec.input_shape[0] = spec.input_shape[1] = o->size;
    spec.input_shape[2] = CHANNELS;
    spec.target_shape[0] = VV_SHAPES_MOST;
    spec.target_shape[1] = 6;
    for (int c = 0; c < CHANNELS; c++) {
        spec.mean[c] = 0.44f;
        spec.std[c] = 0.2f;
    }
    return spec;
}

static vv_status shapes_open(vv_dataset **out, const void *opts, const char *split)
{
    const vv_shapes_opts *o = opts;
    vv_dataset *dataset = NULL;
    shapes *s = NULL;
    vv_status status;
    bool train;
    *out = NULL;
    VV_TRY(vv_dataset_split(&train, "shapes", split));
    VV_GO(vv_alloc(&dataset, sizeof *dataset));
    VV_GO(vv_alloc(&s, sizeof *s));
    s->opts = *o;
    s->opts.common.dir = "";
    s->train = train;
    dataset->type = train && o->augment ? &varied_class : &plain_class;
    dataset->name = "shapes";
    dataset->spec = spec_of(o);
    dataset->count = train ? o->train : o->eval;
    dataset->class_names = class_names;
    dataset->prepare.whole = true;
    dataset->prepare.whole = true;
    dataset->self = s;
    *out = dataset;
    return VV_OK;
out:
    vv_dealloc(dataset);
    return status;
}

static vv_status shapes_shape(const void *opts, const char *split, vv_sample_spec *spec,
                              int64_t *count)
{
    const vv_shapes_opts *o = opts;
    *spec = spec_of(o);
    *count = strcmp(split, "train") == 0 ? o->train : o->eval;
    return VV_OK;
}

#define AT(member) offsetof(vv_shapes_opts, member)
static const vv_field fields[] = {
    {"dir", "Not used: nothing is read", VV_FIELD_STRING, AT(common.dir), "", 0, 0, NULL},
    {"size", "Height and width of the images in pixels", VV_FIELD_INT, AT(size), "128", 16, 2048,
     NULL},
    {"classes", "Kinds: disc, square, triangle, ring, cross", VV_FIELD_INT, AT(classes), "3", 1,
     KINDS, NULL},
    {"train", "Images to train on", VV_FIELD_INT, AT(train), "2000", 1, 1e9, NULL},
    {"eval", "Images to evaluate on", VV_FIELD_INT, AT(eval), "200", 1, 1e9, NULL},
    {"most", "Shapes in an image, at least one", VV_FIELD_INT, AT(most), "4", 1, VV_SHAPES_MOST,
     NULL},
    {"seed", "Of the drawing; the splits always differ", VV_FIELD_INT, AT(seed), "0", 0, 9e15,
     NULL},
    {"augment", "Training images are cut, mirrored and coloured by chance", VV_FIELD_BOOL,
     AT(augment), "true", 0, 0, NULL},
    {.name = NULL},
};

const vv_dataset_desc vv_dataset_shapes = {
    .desc = {.kind = "dataset",
             .name = "shapes",
             .summary = "Drawn shapes on a rough ground with their boxes: detection without files.",
             .cite = "",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_shapes_opts)},
    .open = shapes_open,
    .train_transform = {.normalise = true},
    .eval_transform = {.normalise = true},
    .shape = shapes_shape,
};
