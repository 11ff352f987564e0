/* test_conformance.c - what every method promises, whichever there are: a sane descriptor, a README
 * with every heading, bad settings refused with a sentence, training in each precision, no
 * dependence on the microbatch size, a resumed run that is bit-equal, a report when it changes
 * nothing, and no crash or leak when memory is out. */
#include "conformance.h"

static const char *const headings[] = {
    "In one sentence", "Use it", "Settings", "When it helps, when it hurts", "What we measured",
    "How it works", "Differences from the paper and from Composer", "References", NULL,
};

/* ---- descriptor and README ---- */

static bool is_name(const char *text)
{
    return text && text[0] >= 'a' && text[0] <= 'z' &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(text);
}

static void domains_are_known(const char *method, const char *domains)
{
    char copy[128], *rest = copy;
    snprintf(copy, sizeof copy, "%s", domains);
    for (char *word; (word = strtok_r(rest, ",", &rest));)
        if (strcmp(word, "cv") != 0 && strcmp(word, "nlp") != 0 && strcmp(word, "any") != 0)
            fail_msg("%s: \"%s\" is not a domain", method, word);
}

static void fields_are_sane(const vv_desc *desc)
{
    for (const vv_field *f = desc->fields; f->name; f++) {
        if (!is_name(f->name) || !f->help || strlen(f->help) < 10)
            fail_msg("%s.%s: a lower-case name and a sentence of help are needed", desc->name,
                     f->name);
        if (f->min > f->max || f->offset >= desc->opts_size)
            fail_msg("%s.%s: limits or offset are wrong", desc->name, f->name);
        assert_ptr_equal(vv_desc_field(desc, f->name), f); /* no name twice */
        assert_int_equal(f->type == VV_FIELD_CHOICE, f->choices != NULL);
    }
}

static void descriptors(void **unused)
{
    (void)unused;
    const vv_method_desc *m;
    assert_non_null(vv_registry_at("method", 0));
    for (int i = 0; (m = method_at(i)); i++) {
        const vv_desc *d = &m->desc;
        assert_string_equal(d->kind, "method");
        if (!is_name(d->name) || !d->summary || !d->summary[0] || !d->cite || !d->domains[0])
            fail_msg("method %d (%s): name, summary, cite or domains are missing", i, d->name);
        domains_are_known(d->name, d->domains);
        assert_non_null(d->fields);
        fields_are_sane(d);
        if (!m->events || !m->apply || !m->plan || !m->save != !m->load)
            fail_msg("%s: events, apply and plan are needed, and save and load go together",
                     d->name);
        assert_true(!is_surgery(m) || (m->events & VV_EVENT_BIT(VV_EVENT_INIT)));
        for (int k = 0; m->conflicts && m->conflicts[k].name; k++) {
            assert_string_not_equal(m->conflicts[k].name, d->name);
            assert_non_null(m->conflicts[k].reason);
        }
        for (int k = 0; m->after && m->after[k]; k++)
            assert_string_not_equal(m->after[k], d->name);
        const vv_method_desc *found;
        if (m != &vv_method_input_noise) {
            assert_ok(vv_method_find(&found, d->name));
            assert_ptr_equal(found, m);
        }
    }
}

static void readmes(void **unused)
{
    (void)unused;
    const vv_method_desc *m;
    for (int i = 0; (m = method_at(i)); i++) {
        char path[1024], line[1024], wanted[128];
        int at = 0, settings = 0, fields = 0, rows = 0;
        bool within = false; /* the section on settings */
        const char *folder = m == &vv_method_input_noise ? "_template" : m->desc.name;
        snprintf(path, sizeof path, "%s/methods/%s/README.md", VV_SOURCE_ROOT, folder);
        FILE *file = fopen(path, "r");
        if (!file)
            fail_msg("%s is missing", path);
        while (fgets(line, sizeof line, file)) {
            line[strcspn(line, "\n")] = '\0';
            if (strncmp(line, "## ", 3) == 0 && headings[at] && strcmp(line + 3, headings[at]) == 0)
                at++;
            if (line[0] == '#')
                within = strcmp(line, "## Settings") == 0;
            rows += within && strncmp(line, "| `", 3) == 0;
            for (const vv_field *f = m->desc.fields; f->name; f++) {
                snprintf(wanted, sizeof wanted, "| `%s` | ", f->name);
                if (strncmp(line, wanted, strlen(wanted)) == 0) {
                    settings++;
                    /* The default stands in the README as in the table. */
                    const char *shown = line + strlen(wanted);
                    const double number = strtod(shown, NULL);
                    if (f->fallback && strncmp(shown, f->fallback, strlen(f->fallback)) != 0 &&
                        !(f->type <= VV_FIELD_FLOAT && number == strtod(f->fallback, NULL)))
                        fail_msg("%s: %s has the default %s, the README says %s", path, f->name,
                                 f->fallback, shown);
                }
            }
        }
        fclose(file);
        for (const vv_field *f = m->desc.fields; f->name; f++)
            fields++;
        if (headings[at])
            fail_msg("%s has no heading \"## %s\" (or not in this order)", path, headings[at]);
        if (settings != fields || rows != fields)
            fail_msg("%s tells %d of %d settings, in %d rows", path, settings, fields, rows);
    }
}

/* ---- settings ---- */

static void refuses(const vv_method_desc *m, const vv_field *f, const char *value)
{
    void *opts = opts_new(m);
    vv_error_clear();
    const vv_status status = vv_opts_set(&m->desc, opts, f->name, value);
    if (status == VV_OK || !strstr(vv_error(), f->name))
        fail_msg("%s.%s = %s: %s \"%s\"", m->desc.name, f->name, value, vv_status_name(status),
                 vv_error());
    opts_free(m, opts);
}

/* As filled in by a program in C. */
static void refuses_number(const vv_method_desc *m, const vv_field *f, double value)
{
    vv_method *method = NULL;
    void *opts = opts_new(m);
    char *at = (char *)opts + f->offset;
    if (f->type == VV_FIELD_INT)
        *(int64_t *)(void *)at = (int64_t)value;
    else
        *(double *)(void *)at = value;
    assert_fails(vv_method_new(&method, m, opts), VV_EINVAL);
    assert_says(f->name);
    assert_null(method);
    opts_free(m, opts);
}

static void limits_hold(const vv_method_desc *m, const vv_field *f)
{
    const bool number = f->type == VV_FIELD_INT || f->type == VV_FIELD_FLOAT;
    char text[64];
    refuses(m, f, "what?");
    if (!number)
        return;
    if (f->type == VV_FIELD_FLOAT)
        refuses(m, f, "nan");
    if (f->min == 0.0 && f->max == 0.0)
        return;
    const double bad[2] = {f->min - 1.0, f->max + 1.0};
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text, "%.0f", bad[i]);
        refuses(m, f, text);
        refuses_number(m, f, bad[i]);
    }
}

static void settings(void **unused)
{
    (void)unused;
    const vv_method_desc *m;
    for (int i = 0; (m = method_at(i)); i++) {
        void *opts = opts_new(m);
        for (const vv_field *f = m->desc.fields; f->name; f++) {
            vv_str text = {0};
            char typo[128];
            if (f->type != VV_FIELD_STRING)
                limits_hold(m, f);
            assert_ok(vv_opts_get(&m->desc, opts, f->name, &text));
            assert_ok(vv_opts_set(&m->desc, opts, f->name, vv_str_text(&text)));
            vv_str_fini(&text);
            snprintf(typo, sizeof typo, "%sx", f->name);
            assert_fails(vv_opts_set(&m->desc, opts, typo, "1"), VV_ENOTFOUND);
            assert_says(f->name);
        }
        assert_fails(vv_opts_set(&m->desc, opts, "no_such_setting_at_all", "1"), VV_ENOTFOUND);
        opts_free(m, opts);
    }
}

/* ---- training ---- */

typedef struct result {
    weights weights;
    double loss;
    int64_t batches;
    int effect;
} result;

static vv_status stop_at_two(vv_callback *callback, vv_event event, vv_state *state)
{
    (void)callback;
    (void)event;
    if (state->time.batch == 2)
        vv_trainer_interrupt(state->trainer);
    return VV_OK;
}

static const vv_field no_fields[] = {{.name = NULL}};
static const vv_callback_desc stopper = {
    .desc = {"callback", "stopper", "Interrupts after two batches.", "", "any", no_fields, 0},
    .events = VV_EVENT_BIT(VV_EVENT_BATCH_END),
    .apply = stop_at_two,
};

/* Four batches with one method. save: stop after two and write it; load: go on from there. */
static result train(const vv_method_desc *m, net_kind kind, int64_t microbatch, const char *save,
                    const char *load)
{
    data d;
    vv_trainer *trainer;
    vv_callback *callbacks[2] = {NULL, NULL};
    data_init(&d, needs_text(m));
    vv_trainer_opts opts = trainer_opts(kind, &d, "4ba");
    vv_method *method = method_new(m);
    opts.methods = (vv_method_list){&method, 1};
    opts.microbatch = microbatch;
    opts.load_path = load;
    opts.allow_no_effect = kind == NET_PLAIN; /* some surgery finds nothing in it */
    if (save) {
        assert_ok(vv_callback_new(&callbacks[0], &stopper, NULL));
        opts.callbacks = callbacks;
    }
    assert_ok(vv_trainer_new(&trainer, &opts));
    if (save) {
        assert_fails(vv_trainer_fit(trainer), VV_EINTERRUPTED);
        assert_ok(vv_trainer_save(trainer, save));
    } else {
        assert_ok(vv_trainer_fit(trainer));
    }
    const vv_state *state = vv_trainer_state(trainer);
    result r = {weights_of(trainer), state->train_loss, state->time.batch,
                state->methods[0]->effect};
    vv_trainer_free(trainer);
    data_fini(&d);
    return r;
}

/* Trains; the same batches in two sittings give the same bits. */
static void resuming(void **unused)
{
    (void)unused;
    const vv_method_desc *m;
    const char *base = getenv("TMPDIR");
    char path[256];
    snprintf(path, sizeof path, "%s/vivace-conformance-XXXXXX", base && base[0] ? base : "/tmp");
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    for (int i = 0; (m = method_at(i)); i++) {
        const int64_t live = vv_memory_live_count();
        const result whole = train(m, NET_RICH, 0, NULL, NULL);
        const result half = train(m, NET_RICH, 0, path, NULL);
        const result rest = train(m, NET_RICH, 0, NULL, path);
        assert_int_equal(half.batches, 2);
        assert_int_equal(rest.batches, 4);
        assert_true(isfinite(whole.loss));
        assert_int_equal(whole.weights.count, rest.weights.count);
        if (memcmp(whole.weights.values, rest.weights.values,
                   whole.weights.count * sizeof(float)) ||
            whole.loss != rest.loss)
            fail_msg("%s: the resumed run differs (loss %.9g, whole %.9g)", m->desc.name, rest.loss,
                     whole.loss);
        assert_true(memcmp(whole.weights.values, half.weights.values,
                           whole.weights.count * sizeof(float)) != 0);
        free(whole.weights.values);
        free(half.weights.values);
        free(rest.weights.values);
        if (vv_memory_live_count() != live)
            fail_msg("%s: %lld blocks leak", m->desc.name,
                     (long long)(vv_memory_live_count() - live));
    }
    unlink(path);
}

/* On a net whose rows do not depend on each other. */
static void microbatches(void **unused)
{
    (void)unused;
    const vv_method_desc *m;
    for (int i = 0; (m = method_at(i)); i++) {
        const result whole = train(m, NET_PLAIN, 0, NULL, NULL);
        const result parts = train(m, NET_PLAIN, 3, NULL, NULL);
        assert_int_equal(whole.weights.count, parts.weights.count);
        /* Its division by a filter's deviation makes rounding larger. */
        const float near = strcmp(m->desc.name, "weight_standardization") == 0 ? 3e-5f : 1e-5f;
        for (size_t k = 0; k < whole.weights.count; k++)
            if (!(fabsf(whole.weights.values[k] - parts.weights.values[k]) <=
                  near + near * fabsf(whole.weights.values[k])))
                fail_msg("%s: weight %zu is %.9g, with microbatches %.9g", m->desc.name, k,
                         (double)whole.weights.values[k], (double)parts.weights.values[k]);
        assert_near(parts.loss, whole.loss, 1e-5, 1e-5);
        free(whole.weights.values);
        free(parts.weights.values);
    }
}

/* Half precision takes every method: its nodes must not rely on one element type. */
static void half_precision(void **unused)
{
    (void)unused;
    static const vv_precision precisions[] = {VV_PRECISION_AMP_BF16, VV_PRECISION_BF16};
    const vv_method_desc *m;
    for (int i = 0; (m = method_at(i)); i++)
        for (int k = 0; k < 2; k++) {
            data d;
            vv_trainer *trainer;
            data_init(&d, needs_text(m));
            vv_trainer_opts opts = trainer_opts(NET_RICH, &d, "2ba");
            vv_method *method = method_new(m);
            opts.methods = (vv_method_list){&method, 1};
            opts.precision = precisions[k];
            assert_ok(vv_trainer_new(&trainer, &opts));
            if (vv_trainer_fit(trainer) != VV_OK)
                fail_msg("%s in half precision: %s", m->desc.name, vv_error());
            assert_true(isfinite(vv_trainer_state(trainer)->train_loss));
            vv_trainer_free(trainer);
            data_fini(&d);
        }
}

static vv_status spoil_label(vv_callback *callback, vv_event event, vv_state *state)
{
    (void)callback;
    (void)event;
    ((int32_t *)state->batch->target->data)[2] = 4;
    return VV_OK;
}

static const vv_callback_desc spoiler = {
    .desc = {"callback", "spoiler", "Gives a row a class that is none.", "", "any", no_fields, 0},
    .events = VV_EVENT_BIT(VV_EVENT_BEFORE_TRAIN_BATCH),
    .apply = spoil_label,
};

/* A label outside the classes is an error, whatever a method makes of the targets. */
static void wrong_labels(void **unused)
{
    (void)unused;
    const vv_method_desc *m;
    data d;
    for (int i = 0; (m = method_at(i)); i++) {
        vv_trainer *trainer;
        vv_callback *callbacks[2] = {NULL, NULL};
        data_init(&d, needs_text(m));
        vv_trainer_opts opts = trainer_opts(NET_RICH, &d, "1ba");
        vv_method *method = method_new(m);
        assert_ok(vv_callback_new(&callbacks[0], &spoiler, NULL));
        opts.methods = (vv_method_list){&method, 1};
        opts.callbacks = callbacks;
        assert_ok(vv_trainer_new(&trainer, &opts));
        if (vv_trainer_fit(trainer) == VV_OK)
            fail_msg("%s hides a label that is no class", m->desc.name);
        assert_says("is 4, classes are 0..3");
        vv_trainer_free(trainer);
        data_fini(&d);
    }
}

/* Surgery that changes nothing is an error unless waived, and there is something it changes. In
   half precision, for what works there only. */
static void effects(void **unused)
{
    (void)unused;
    const vv_method_desc *m;
    for (int i = 0; (m = method_at(i)); i++) {
        if (!is_surgery(m))
            continue;
        data d;
        vv_trainer *trainer;
        data_init(&d, needs_text(m));
        vv_trainer_opts opts = trainer_opts(NET_MLP, &d, "1ba");
        opts.precision = VV_PRECISION_AMP_BF16;
        vv_method *method = method_new(m);
        opts.methods = (vv_method_list){&method, 1};
        vv_error_clear();
        const vv_status status = vv_trainer_new(&trainer, &opts);
        if (status == VV_OK) {
            assert_true(vv_trainer_state(trainer)->methods[0]->effect > 0);
        } else {
            assert_int_equal(status, VV_EINVAL);
            assert_says(m->desc.name);
            assert_says("allow_no_effect");
            opts.model = d.text ? language_model_new(NET_MLP) : model_new(NET_MLP);
            method = method_new(m);
            opts.allow_no_effect = true;
            assert_ok(vv_trainer_new(&trainer, &opts));
        }
        vv_trainer_free(trainer);
        opts = trainer_opts(NET_WIDE, &d, "1ba");
        opts.precision = VV_PRECISION_AMP_BF16;
        method = method_new(m);
        opts.methods = (vv_method_list){&method, 1};
        assert_ok(vv_trainer_new(&trainer, &opts));
        assert_true(vv_trainer_state(trainer)->methods[0]->effect > 0);
        vv_trainer_free(trainer);
        data_fini(&d);
    }
}

/* ---- memory ---- */

typedef struct modules {
    const vv_module *item[256];
    int count;
} modules;

static bool add_module(void *ctx, const char *path, vv_module *module)
{
    modules *list = ctx;
    (void)path;
    assert_true(list->count < 256);
    list->item[list->count++] = module;
    return true;
}

static vv_batch *batch_new(bool text)
{
    const int64_t shape[] = {BATCH, SIDE, SIDE, 3}, rows[] = {BATCH, TOKENS};
    vv_batch *batch;
    assert_ok(vv_alloc(&batch, sizeof *batch));
    if (text)
        assert_ok(vv_tensor_new(&batch->input, VV_I32, 2, rows));
    else
        assert_ok(vv_tensor_new(&batch->input, VV_F32, 4, shape));
    assert_ok(vv_tensor_new(&batch->target, VV_I32, text ? 2 : 1, rows));
    assert_ok(vv_alloc_array(&batch->sample, BATCH, sizeof *batch->sample));
    batch->count = BATCH;
    return batch;
}

/* Making the method, INIT, and the events of a batch up to the forward pass. */
static vv_status use(vv_method **out, const vv_method_desc *m, const void *opts, vv_state *state)
{
    static const vv_event events[] = {VV_EVENT_INIT, VV_EVENT_AFTER_DATALOADER,
                                      VV_EVENT_BATCH_START, VV_EVENT_BEFORE_TRAIN_BATCH};
    VV_TRY(vv_method_new(out, m, opts));
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (m->events & VV_EVENT_BIT(events[i]))
            VV_TRY(m->apply(*out, events[i], state));
    return VV_OK;
}

/* One try with allocation `nth` failing; true if all went well because it was never reached. */
static bool survives(const vv_method_desc *m, const void *opts, vv_state *state, uint64_t nth)
{
    const int64_t live = vv_memory_live_count();
    modules before = {.count = 0}, after = {.count = 0};
    vv_method *method = NULL;
    state->batch = batch_new(needs_text(m));
    vv_module_each(state->model->net, add_module, &before);
    vv_error_clear();
    vv_memory_fail_at(nth);
    const vv_status status = use(&method, m, opts, state);
    vv_memory_fail_at(0);
    const bool ok = status == VV_OK;
    if (!ok && (status != VV_ENOMEM || !vv_error()[0]))
        fail_msg("%s, allocation %llu: %s \"%s\"", m->desc.name, (unsigned long long)nth,
                 vv_status_name(status), vv_error());
    const bool at_init = method && method->effect == 0;
    vv_method_free(method);
    vv_batch_free(state->batch);
    state->batch = NULL;
    if (ok)
        return true;
    if (!is_surgery(m) || at_init) {
        vv_module_each(state->model->net, add_module, &after);
        assert_int_equal(before.count, after.count);
        assert_memory_equal(before.item, after.item, sizeof(void *) * (size_t)before.count);
    }
    /* Surgery that was done before the failure may have let go of gradients. */
    const int64_t more = vv_memory_live_count() - live;
    if (more > 0 || (more < 0 && (!is_surgery(m) || at_init)))
        fail_msg("%s, allocation %llu: %lld blocks leak", m->desc.name, (unsigned long long)nth,
                 (long long)more);
    return false;
}

static void out_of_memory(void **unused)
{
    (void)unused;
    const vv_method_desc *m;
    for (int i = 0; (m = method_at(i)); i++) {
        const int64_t live = vv_memory_live_count();
        data d;
        vv_trainer *trainer;
        data_init(&d, needs_text(m));
        const vv_trainer_opts opts = trainer_opts(NET_RICH, &d, "4ba");
        assert_ok(vv_trainer_new(&trainer, &opts));
        void *settings_of = opts_new(m);
        uint64_t nth = 1;
        while (!survives(m, settings_of, vv_trainer_state(trainer), nth))
            nth++;
        assert_true(nth > 1); /* some allocation did fail */
        opts_free(m, settings_of);
        vv_trainer_free(trainer);
        data_fini(&d);
        assert_int_equal(vv_memory_live_count(), live);
    }
}

int main(void)
{
    vv_set_threads(1); /* the nets are tiny */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptors),  cmocka_unit_test(readmes), cmocka_unit_test(settings),
        cmocka_unit_test(resuming),     cmocka_unit_test(microbatches),
        cmocka_unit_test(half_precision), cmocka_unit_test(wrong_labels), cmocka_unit_test(effects),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
