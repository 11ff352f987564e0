/* cmd_list.c - `vivace list` and `vivace describe`: what this build has, read from the
 * descriptors. */
#include "cli.h"

#include <string.h>

static int list(int argc, char **argv)
{
    bool json = false;
    cli_args args;
    const cli_option options[] = {{"--json", &json, NULL}, {NULL, NULL, NULL}};
    int code = cli_parse(&cli_list, argc, argv, options, 1, &args);
    const char *kind = args.words[0];
    cli_args_fini(&args);
    if (code != CLI_DONE)
        return code;
    if (!kind)
        return cli_usage(&cli_list, "say what to list");
    if (!vv_registry_at(kind, 0)) {
        const vv_desc *none;
        if (vv_registry_find(&none, kind, "") == VV_EINVAL)
            return cli_usage(&cli_list, "%s", vv_error());
    }
    vv_str out = {0};
    if (json)
        vv_str_add(&out, "[");
    const vv_desc *desc;
    for (int i = 0; (desc = vv_registry_at(kind, i)); i++) {
        if (!json) {
            vv_str_addf(&out, "%-22s %s\n", desc->name, desc->summary);
            continue;
        }
        if (i)
            vv_str_add(&out, ",\n ");
        vv_desc_to_json(desc, &out);
    }
    if (json)
        vv_str_add(&out, "]\n");
    if (vv_str_status(&out) == VV_OK)
        fputs(vv_str_text(&out), stdout);
    else
        code = cli_fail();
    vv_str_fini(&out);
    return code;
}

static void print_field(const vv_field *field)
{
    static const char *const types[] = {"bool", "int", "float", "text", "choice", "time", "times"};
    printf("  %s (%s, ", field->name, types[field->type]);
    if (!field->fallback)
        printf("required");
    else
        printf("default %s", field->fallback[0] ? field->fallback : "none");
    if (field->min != field->max)
        printf(", %g to %g", field->min, field->max);
    for (int i = 0; field->choices && field->choices[i]; i++)
        printf("%s%s", i ? " | " : ", one of ", field->choices[i]);
    printf(")\n      %s\n", field->help);
}

static const char *const kinds[] = {"method",   "model",    "dataset", "optimizer",
                                    "schedule", "callback", "logger",  "metric",
                                    "loss"};

/* By kind and name, or, kind NULL, by name alone. */
static const vv_desc *find_desc(const char *kind, const char *name)
{
    const vv_desc *desc = kind ? NULL : vv_recipe_desc(name);
    vv_status status = VV_OK;
    if (kind) {
        status = vv_registry_find(&desc, kind, name);
        return status == VV_OK ? desc : NULL;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && !desc; i++)
        status = vv_registry_find(&desc, kinds[i], name);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && !desc; i++) {
        status = vv_registry_find(&desc, kinds[i], name); /* the nearest name, if one is near */
        if (strstr(vv_error(), "did you mean"))
            break;
    }
    (void)status;
    return desc;
}

static int print_json(const vv_desc *desc)
{
    vv_str out = {0};
    int code = CLI_DONE;
    vv_desc_to_json(desc, &out);
    if (vv_str_status(&out) == VV_OK)
        puts(vv_str_text(&out));
    else
        code = cli_fail();
    vv_str_fini(&out);
    return code;
}

static void print_desc(const vv_desc *desc)
{
    printf("%s: %s\n\n%s\n", desc->kind, desc->name, desc->summary);
    if (desc->domains && desc->domains[0])
        printf("domains: %s\n", desc->domains);
    if (desc->cite && desc->cite[0])
        printf("source: %s\n", desc->cite);
    printf("settings:%s\n", desc->fields && desc->fields[0].name ? "" : " none");
    for (const vv_field *field = desc->fields; field && field->name; field++)
        print_field(field);
}

static int describe_words(const cli_args *args, bool json)
{
    const char *first = args->words[0], *second = args->words[1];
    if (!first)
        return cli_usage(&cli_describe, "say what to describe");
    const vv_desc *desc = second ? find_desc(first, second) : find_desc(NULL, first);
    if (!desc)
        return cli_fail();
    const bool tree = strcmp(desc->kind, "model") == 0 && (second || args->override_count);
    if (args->override_count && !tree)
        return cli_usage(&cli_describe, "only models take settings (%s)", args->overrides[0]);
    if (json)
        return print_json(desc);
    if (!tree || !cli_describe_as_json(args->overrides, args->override_count))
        print_desc(desc);
    return tree ? cli_describe_model(desc, args->overrides, args->override_count) : CLI_DONE;
}

static int describe(int argc, char **argv)
{
    bool json = false;
    cli_args args;
    const cli_option options[] = {{"--json", &json, NULL}, {NULL, NULL, NULL}};
    int code = cli_parse(&cli_describe, argc, argv, options, 2, &args);
    if (code == CLI_DONE)
        code = describe_words(&args, json);
    cli_args_fini(&args);
    return code;
}

const cli_verb cli_list = {
    "list", "methods|models|datasets|optimizers|schedules|callbacks|loggers|metrics [--json]",
    "Lists what this build has.", list};
const cli_verb cli_describe = {"describe", "[KIND] NAME [key=value ...] [--json]",
                               "Tells what a method, model, ... does and its settings; of a model "
                               "also its layers.", describe};
