/* cmd_predict.c - `vivace predict`: what a trained model says about images, or about its evaluation
 * samples. */
#include "cli_predict.h"

#include <string.h>

#include <vivace/memory.h>

/* ---- evaluation samples ---- */

/* One line a sample: index, predicted class, its logit, and (in the data) the true class. */
static vv_status print_predictions(vv_run *run, const vv_tensor *logits, bool json)
{
    vv_dataset *set = vv_loader_dataset(vv_run_eval_loader(run));
    if (logits->ndim != 2 || set->spec.target_ndim != 0 || set->spec.target_dtype != VV_I32)
        return vv_fail(VV_EUNSUPPORTED, "samples without a list of images are printed for models "
                       "of one class each; name images");
    const int64_t classes = logits->shape[1];
    for (int64_t i = 0; i < logits->shape[0]; i++) {
        int64_t best = 0;
        for (int64_t k = 1; k < classes; k++)
            if (vv_tensor_get(logits, i * classes + k) > vv_tensor_get(logits, i * classes + best))
                best = k;
        int32_t label = -1;
        VV_TRY(vv_dataset_read(set, i, NULL, &label));
        const char *name = set->class_names ? set->class_names[best] : "";
        printf(json ? "{\"index\": %lld, \"class\": %lld, \"name\": \"%s\", \"logit\": %.6g, "
                      "\"target\": %d}\n"
                    : "%lld\t%lld\t%s\t%.6g\t%d\n",
               (long long)i, (long long)best, name, vv_tensor_get(logits, i * classes + best),
               (int)label);
    }
    return VV_OK;
}

static int predict_samples(const cli_args *args, const char *recipe, bool json)
{
    cli_loaded l = {0};
    vv_tensor *logits = NULL;
    int code = CLI_DONE;
    if (cli_load_run(&l, args->words[0], recipe, args, false) != VV_OK ||
        vv_trainer_predict(vv_run_trainer(l.run), vv_run_eval_loader(l.run), &logits) != VV_OK ||
        print_predictions(l.run, logits, json) != VV_OK)
        code = cli_fail();
    vv_tensor_free(logits);
    cli_unload(&l);
    return code;
}

/* ---- images ---- */

typedef struct settings {
    int64_t top, batch, threads;
    double score;
    int format;
    const char *output;
} settings;

#define AT(field) offsetof(settings, field)
static const char *const formats[] = {"table", "json", "csv", NULL};
static const vv_field fields[] = {
    {.name = "format", .help = "table, json (an object a line), csv", .type = VV_FIELD_CHOICE, .offset = AT(format), .fallback = "table", .choices = formats},
    {.name = "top", .help = "classes (or boxes) of each image, the likeliest first; 0 = 5 classes, 100 boxes", .type = VV_FIELD_INT, .offset = AT(top), .fallback = "0", .min = 0, .max = 1e6},
    {.name = "batch", .help = "images computed at once", .type = VV_FIELD_INT, .offset = AT(batch), .fallback = "32", .min = 1, .max = 65536},
    {.name = "threads", .help = "threads that decode beside the model", .type = VV_FIELD_INT, .offset = AT(threads), .fallback = "2", .min = 1, .max = 64},
    {.name = "score", .help = "boxes: the least score", .type = VV_FIELD_FLOAT, .offset = AT(score), .fallback = "0.3", .min = 0, .max = 1},
    {.name = "output", .help = "folder for masks (PNG) and boxes (JSON)", .type = VV_FIELD_STRING, .offset = AT(output), .fallback = ""},
    {.name = NULL},
};
static const vv_desc desc = {.kind = "verb",
                             .name = "predict",
                             .summary = "what a model says about images",
                             .cite = "",
                             .domains = "cv",
                             .fields = fields,
                             .opts_size = sizeof(settings)};

static vv_status run(const settings *s, const cli_args *args, const char *recipe, bool json,
                     cli_printer *printer)
{
    const vv_predictor_opts opts = {recipe, args->overrides, args->override_count};
    const vv_predict_files_opts files = {s->batch, (int)s->threads};
    cli_paths paths = {.words = args->words + 1, .word_count = args->word_count - 1};
    VV_TRY(vv_predictor_open(&printer->predictor, args->words[0], &opts));
    const bool boxes = vv_predictor_model(printer->predictor)->task == VV_TASK_DETECT;
    printer->format = json ? CLI_JSON : s->format;
    printer->top = s->top ? (int)s->top : boxes ? 100 : 5;
    printer->score = s->score;
    printer->folder = s->output[0] ? s->output : NULL;
    const vv_status status = vv_predict_files(printer->predictor, &files, cli_paths_next, &paths,
                                              cli_print_prediction, printer);
    cli_paths_fini(&paths);
    return status;
}

int cli_predict_images(cli_args *args, const char *recipe, bool json)
{
    settings s;
    cli_printer printer = {0};
    int code = CLI_DONE;
    if (vv_opts_init(&desc, &s) != VV_OK)
        return cli_fail();
    if (cli_take_settings(&desc, &s, args) != VV_OK ||
        run(&s, args, recipe, json, &printer) != VV_OK)
        code = cli_fail();
    if (printer.passed_over)
        fprintf(stderr, "vivace: %lld of %lld files were passed over\n",
                (long long)printer.passed_over,
                (long long)(printer.passed_over + printer.done));
    vv_predictor_free(printer.predictor);
    vv_opts_fini(&desc, &s);
    return code != CLI_DONE ? code : printer.passed_over ? CLI_PARTLY : CLI_DONE;
}

static int predict(int argc, char **argv)
{
    bool json = false;
    const char *recipe = NULL;
    cli_args args;
    const cli_option options[] = {{"--json", &json, NULL}, {"--recipe", NULL, &recipe},
                                  {NULL, NULL, NULL}};
    int code = cli_parse(&cli_predict, argc, argv, options, argc, &args);
    if (code == CLI_DONE && !args.word_count)
        code = cli_usage(&cli_predict, "no run was given");
    if (code == CLI_DONE)
        code = args.word_count > 1 ? cli_predict_images(&args, recipe, json)
                                   : predict_samples(&args, recipe, json);
    cli_args_fini(&args);
    return code;
}

const cli_verb cli_predict = {
    "predict",
    "RUN|CHECKPOINT [IMAGE|FOLDER|PATTERN|- ...] [format=table|json|csv] [top=K] [batch=N] "
    "[output=FOLDER] [score=S] [threads=N] [--recipe FILE] [key=value ...] [--json]",
    "Prints what a trained model says about images, or about its evaluation samples.", predict};
