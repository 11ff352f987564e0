/* glue.c - the data set glue: a table's lines become rows of tokens with a label.
 *
 * All lines are read and turned into tokens at opening, cut to what a sample can hold; so a line
 * that cannot be used is told before the run, with file and line. */
#include "glue.h"

#include <string.h>

#include <vivace/ext/data_files.h>
#include <vivace/memory.h>
#include <vivace/str.h>
#include <vivace/tokenizer.h>

#include "glue_table.h"

#define AT(member) offsetof(vv_glue_opts, member)
static const vv_field fields[] = {
    {"dir", "Folder with the files; empty = $VIVACE_DATA/glue", VV_FIELD_STRING, AT(common.dir), "",
     0, 0, NULL},
    {"train", "Table to train on", VV_FIELD_STRING, AT(train), "train.tsv", 0, 0, NULL},
    {"eval", "Table to evaluate on", VV_FIELD_STRING, AT(eval), "dev.tsv", 0, 0, NULL},
    {"header", "The first line names the columns", VV_FIELD_BOOL, AT(header), "true", 0, 0, NULL},
    {"text", "Column with the sentence, by name or number from 1", VV_FIELD_STRING, AT(text),
     "sentence", 0, 0, NULL},
    {"pair", "Column with a second sentence; empty = there is none", VV_FIELD_STRING, AT(pair), "",
     0, 0, NULL},
    {"label", "Column with the label", VV_FIELD_STRING, AT(label), "label", 0, 0, NULL},
    {"labels", "Names of the classes, comma-separated; empty = they are 0, 1, 2, ...",
     VV_FIELD_STRING, AT(labels), "", 0, 0, NULL},
    {"classes", "Number of classes; 0 = the label is a number to be met", VV_FIELD_INT, AT(classes),
     "2", 0, 1000000, NULL},
    {"tokenizer", "bytes, gpt2, a folder or a file", VV_FIELD_STRING, AT(tokenizer), "bytes", 0, 0,
     NULL},
    {"seq", "Tokens in a sample; longer sentences are cut, shorter ones padded", VV_FIELD_INT,
     AT(seq), "128", 1, 1 << 20, NULL},
    {"cls", "Token in front, by text or id; empty = none", VV_FIELD_STRING, AT(cls), "", 0, 0,
     NULL},
    {"sep", "Token behind each sentence, by text or id; empty = none", VV_FIELD_STRING, AT(sep), "",
     0, 0, NULL},
    {"pad", "Token that fills samples, by text or id; empty = 0", VV_FIELD_STRING, AT(pad), "", 0,
     0, NULL},
    {"segments", "Samples are [2,seq]: ids, and 0 or 1 by sentence, -1 for padding", VV_FIELD_BOOL,
     AT(segments), "false", 0, 0, NULL},
    {"vocabulary", "Tokens the model shall know; 0 = as many as are needed", VV_FIELD_INT,
     AT(vocabulary), "0", 0, INT32_MAX, NULL},
    {.name = NULL},
};

typedef struct row {
    int64_t at, first, second; /* in the tokens */
    union {
        int32_t class;
        float number;
    } label;
} row;

typedef struct glue_set {
    vvi_glue_layout layout;
    bool pair;
    row *rows;
    int64_t count, room;
    int32_t *tokens;
    int64_t token_count, token_room;
    char *label_text;   /* `labels`, cut into names */
    const char **names; /* of the classes; NULL = numbers */
} glue_set;

/* ---- labels: numbers are read as settings are, the same in every locale ---- */

typedef struct label_value {
    int64_t class;
    double number;
} label_value;
static const vv_field label_fields[] = {
    {"class", "", VV_FIELD_INT, offsetof(label_value, class), "0", 0, 0, NULL},
    {"number", "", VV_FIELD_FLOAT, offsetof(label_value, number), "0", 0, 0, NULL},
    {.name = NULL},
};
static const vv_desc label_desc = {"label", "label", "", "", "nlp", label_fields,
                                   sizeof(label_value)};

static vv_status read_label(row *out, const glue_set *set, int64_t classes, vvi_span span)
{
    char text[64];
    label_value value = {0};
    if (span.bytes == 0 || span.bytes >= sizeof text)
        return vv_fail(VV_EFORMAT, "a label of %zu characters", span.bytes);
    memcpy(text, span.text, span.bytes);
    text[span.bytes] = '\0';
    if (set->names) {
        for (int64_t k = 0; k < classes; k++)
            if (strcmp(set->names[k], text) == 0) {
                out->label.class = (int32_t)k;
                return VV_OK;
            }
        return vv_fail(VV_EFORMAT, "label \"%s\" is none of those in `labels`", text);
    }
    if (vv_opts_set(&label_desc, &value, classes ? "class" : "number", text) != VV_OK)
        return vv_fail(VV_EFORMAT, "label \"%s\" is no number; name the classes in `labels`", text);
    out->label.number = (float)value.number;
    if (classes == 0)
        return VV_OK;
    if (value.class < 0 || value.class >= classes)
        return vv_fail(VV_EFORMAT, "label %lld, expected 0 to %lld", (long long)value.class,
                       (long long)classes - 1);
    out->label.class = (int32_t)value.class;
    return VV_OK;
}

/* "a,b,c": *count names. */
static vv_status read_names(glue_set *set, const char *labels, int64_t *count)
{
    int64_t names = 1;
    if (!labels[0])
        return VV_OK;
    VV_TRY(vv_strdup(&set->label_text, labels));
    for (const char *c = labels; *c; c++)
        names += *c == ',';
    VV_TRY(vv_alloc_array(&set->names, (size_t)names, sizeof *set->names));
    char *at = set->label_text;
    for (int64_t k = 0; k < names; k++) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma = '\0';
        set->names[k] = at + strspn(at, " [");
        char *last = at + strlen(at);
        while (last > set->names[k] && (last[-1] == ' ' || last[-1] == ']'))
            *--last = '\0';
        at = comma ? comma + 1 : last;
    }
    *count = names;
    return VV_OK;
}

/* ---- reading samples ---- */

static vv_status glue_read(vv_dataset *dataset, int64_t index, void *input, void *target)
{
    const glue_set *set = dataset->self;
    const row *r = &set->rows[index];
    const int32_t *first = set->tokens + r->at;
    if (input)
        vvi_glue_join(&set->layout, set->pair, first, r->first, first + r->first, r->second, input);
    if (target)
        memcpy(target, &r->label, sizeof r->label);
    return VV_OK;
}

static void set_free(glue_set *set)
{
    if (!set)
        return;
    vv_dealloc(set->rows);
    vv_dealloc(set->tokens);
    vv_dealloc(set->label_text);
    vv_dealloc(set->names);
    vv_dealloc(set);
}

static void glue_fini(vv_dataset *dataset)
{
    set_free(dataset->self);
}

static const vv_dataset_class glue_class = {.read = glue_read, .fini = glue_fini};

/* ---- the table ---- */

typedef struct source {
    const vv_tokenizer *tokenizer;
    vv_encoder *encoder;
    vvi_glue_table table;
    int text, pair, label; /* columns */
} source;

static vv_status reserve(void *list, int64_t *room, int64_t needed, size_t size)
{
    if (needed <= *room)
        return VV_OK;
    const int64_t more = needed > 2 * *room ? needed + 64 : 2 * *room;
    VV_TRY(vv_realloc_array(list, (size_t)more, size));
    *room = more;
    return VV_OK;
}

/* A sentence's tokens behind those there are; *count of them. At most seq are kept. */
static vv_status add_text(glue_set *set, const source *from, vvi_span text, int64_t *count)
{
    const int32_t *ids;
    VV_TRY(vv_encoder_encode(from->encoder, text.text, text.bytes, false, &ids, count));
    if (*count > set->layout.seq)
        *count = set->layout.seq;
    VV_TRY(reserve(&set->tokens, &set->token_room, set->token_count + *count, sizeof(int32_t)));
    if (*count > 0)
        memcpy(set->tokens + set->token_count, ids, (size_t)*count * sizeof(int32_t));
    set->token_count += *count;
    return VV_OK;
}

static vv_status add_row(glue_set *set, const source *from, int64_t classes)
{
    const vvi_span *field = from->table.fields;
    VV_TRY(reserve(&set->rows, &set->room, set->count + 1, sizeof *set->rows));
    row *r = &set->rows[set->count];
    *r = (row){.at = set->token_count};
    VV_TRY(read_label(r, set, classes, field[from->label]));
    VV_TRY(add_text(set, from, field[from->text], &r->first));
    const int64_t first = r->first;
    if (set->pair)
        VV_TRY(add_text(set, from, field[from->pair], &r->second));
    vvi_glue_fit(&set->layout, set->pair, &r->first, &r->second);
    if (r->first < first && r->second > 0)
        memmove(set->tokens + r->at + r->first, set->tokens + r->at + first,
                (size_t)r->second * sizeof(int32_t));
    set->token_count = r->at + r->first + r->second;
    set->count++;
    return VV_OK;
}

static vv_status read_rows(glue_set *set, source *from, int64_t classes)
{
    for (bool more = true; more;) {
        VV_TRY(vvi_glue_table_next(&from->table, &more));
        if (more)
            VV_TRY(vv_fail_within(add_row(set, from, classes), "%s:%lld", from->table.path,
                                  (long long)from->table.line));
    }
    return set->count > 0 ? VV_OK
                          : vv_fail(VV_EFORMAT, "%s: no lines with samples", from->table.path);
}

static vv_status read_table(glue_set *set, const vv_glue_opts *o, bool train,
                            const vv_tokenizer *tokenizer, int64_t classes)
{
    char *dir = NULL;
    source from = {.tokenizer = tokenizer, .pair = -1};
    vv_status status;
    VV_GO(vv_dataset_find_dir(&dir, o->common.dir, "glue", NULL));
    VV_GO(vvi_glue_table_open(&from.table, dir, train ? o->train : o->eval, o->header));
    VV_GO(vvi_glue_table_find(&from.text, &from.table, "text", o->text));
    VV_GO(vvi_glue_table_find(&from.label, &from.table, "label", o->label));
    if (set->pair)
        VV_GO(vvi_glue_table_find(&from.pair, &from.table, "pair", o->pair));
    VV_GO(vv_encoder_new(&from.encoder, tokenizer));
    VV_GO(read_rows(set, &from, classes));
out:
    vv_encoder_free(from.encoder);
    vvi_glue_table_fini(&from.table);
    vv_dealloc(dir);
    return status;
}

/* ---- opening ---- */

/* A special token: its text, or its id, which may be one that the tokenizer has not. */
static vv_status find_special(int32_t *out, const vv_tokenizer *tokenizer, const char *setting,
                              const char *text, int32_t none)
{
    label_value value = {0};
    *out = none;
    if (!text[0])
        return VV_OK;
    *out = vv_tokenizer_find(tokenizer, text);
    if (text[1] && *out >= 0) /* one character may be a digit of an id */
        return VV_OK;
    if (vv_opts_set(&label_desc, &value, "class", text) == VV_OK && value.class >= 0 &&
        value.class < INT32_MAX) {
        *out = (int32_t)value.class;
        return VV_OK;
    }
    if (*out >= 0)
        return VV_OK;
    return vv_fail(VV_EINVAL,
                   "%s: the tokenizer %s has no token \"%s\"; give its text, or a number", setting,
                   vv_tokenizer_name(tokenizer), text);
}

static int64_t at_least(int64_t vocabulary, int32_t id)
{
    return id >= vocabulary ? (int64_t)id + 1 : vocabulary;
}

static vv_status make_spec(glue_set *set, const vv_glue_opts *o, int64_t vocabulary,
                           int64_t classes, vv_sample_spec *spec)
{
    const vvi_glue_layout *layout = &set->layout;
    vocabulary = at_least(at_least(at_least(vocabulary, layout->cls), layout->sep), layout->pad);
    if (o->vocabulary && o->vocabulary < vocabulary)
        return vv_fail(VV_EINVAL, "vocabulary %lld is too small, its tokens need %lld",
                       (long long)o->vocabulary, (long long)vocabulary);
    *spec = (vv_sample_spec){.input_dtype = VV_I32, .input_ndim = layout->segments ? 2 : 1};
    spec->input_shape[0] = layout->segments ? 2 : layout->seq;
    spec->input_shape[1] = layout->segments ? layout->seq : 0;
    spec->target_dtype = classes ? VV_I32 : VV_F32;
    spec->classes = classes;
    spec->tokens = layout->seq;
    spec->vocabulary = o->vocabulary ? o->vocabulary : vocabulary;
    return VV_OK;
}

static vv_status make_layout(glue_set *set, const vv_glue_opts *o, const vv_tokenizer *tokenizer)
{
    set->pair = o->pair[0] != '\0';
    set->layout.seq = o->seq;
    set->layout.segments = o->segments;
    VV_TRY(find_special(&set->layout.cls, tokenizer, "cls", o->cls, -1));
    VV_TRY(find_special(&set->layout.sep, tokenizer, "sep", o->sep, -1));
    return find_special(&set->layout.pad, tokenizer, "pad", o->pad, 0);
}

/* Everything but the table. */
static vv_status prepare(glue_set *set, const vv_glue_opts *o, vv_tokenizer **tokenizer,
                         int64_t *classes, vv_sample_spec *spec)
{
    *classes = o->classes;
    VV_TRY(read_names(set, o->labels, classes));
    VV_TRY(vv_tokenizer_open(tokenizer, o->tokenizer));
    VV_TRY(make_layout(set, o, *tokenizer));
    return make_spec(set, o, vv_tokenizer_vocab(*tokenizer), *classes, spec);
}

static vv_status glue_open(vv_dataset **out, const void *opts, const char *split)
{
    const vv_glue_opts *o = opts;
    vv_status status;
    bool train;
    int64_t classes;
    vv_dataset *dataset = NULL;
    glue_set *set = NULL;
    vv_tokenizer *tokenizer = NULL;
    *out = NULL;
    VV_GO(vv_dataset_split(&train, "glue", split));
    VV_GO(vv_alloc(&dataset, sizeof *dataset));
    VV_GO(vv_alloc(&set, sizeof *set));
    VV_GO(vv_fail_within(prepare(set, o, &tokenizer, &classes, &dataset->spec), "data set glue"));
    VV_GO(vv_fail_within(read_table(set, o, train, tokenizer, classes), "data set glue"));
    dataset->type = &glue_class;
    dataset->name = "glue";
    dataset->count = set->count;
    dataset->class_names = set->names;
    dataset->self = set;
    *out = dataset;
    set = NULL;
    dataset = NULL;
out:
    set_free(set);
    vv_dealloc(dataset);
    vv_tokenizer_free(tokenizer);
    return status;
}

/* Without the files: as many lines as SST-2 has. Without the tokenizer: its vocabulary is
   `vocabulary` or BERT's. */
static vv_status glue_shape(const void *opts, const char *split, vv_sample_spec *spec,
                            int64_t *count)
{
    const vv_glue_opts *o = opts;
    vv_dataset *dataset;
    glue_set *set;
    vv_tokenizer *tokenizer = NULL;
    int64_t classes;
    vv_status status = glue_open(&dataset, opts, split);
    if (status == VV_OK) {
        *spec = dataset->spec;
        *count = dataset->count;
        vv_dataset_free(dataset);
    }
    if (status != VV_ENOTFOUND)
        return status;
    *count = strcmp(split, "train") == 0 ? 67349 : 872;
    VV_TRY(vv_alloc(&set, sizeof *set));
    status = prepare(set, o, &tokenizer, &classes, spec);
    if (status == VV_ENOTFOUND) {
        set->layout = (vvi_glue_layout){o->seq, -1, -1, 0, o->segments};
        status = make_spec(set, o, o->vocabulary ? o->vocabulary : 30522, classes, spec);
    }
    vv_tokenizer_free(tokenizer);
    set_free(set);
    return status;
}

const vv_dataset_desc vv_dataset_glue = {
    .desc =
        {
            .kind = "dataset",
            .name = "glue",
            .summary = "Sentences or pairs with a label, from tab-separated tables.",
            .cite = "Wang et al., GLUE: A Multi-Task Benchmark and Analysis Platform for Natural "
                    "Language Understanding, 2019",
            .domains = "nlp",
            .fields = fields,
            .opts_size = sizeof(vv_glue_opts),
        },
    .open = glue_open,
    .shape = glue_shape,
};
