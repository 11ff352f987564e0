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
                                    "schedule", "callback", "logger",  "metric"};

static int describe(int argc, char **argv)
{
    bool json = false;
    cli_args args;
    const cli_option options[] = {{"--json", &json, NULL}, {NULL, NULL, NULL}};
    int code = cli_parse(&cli_describe, argc, argv, options, 2, &args);
    const char *first = args.words[0], *second = args.words[1];
    cli_args_fini(&args);
    if (code != CLI_DONE)
        return code;
    if (!first)
        return cli_usage(&cli_describe, "say what to describe");
    const vv_desc *desc = second ? NULL : vv_recipe_desc(first);
    if (second) {
        if (vv_registry_find(&desc, first, second) != VV_OK)
            return cli_fail();
    } else if (!desc) {
        vv_status status = VV_OK;
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && !desc; i++)
            status = vv_registry_find(&desc, kinds[i], first);
        if (!desc) { /* the nearest name of any kind, if one is near */
            for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
                status = vv_registry_find(&desc, kinds[i], first);
                if (strstr(vv_error(), "did you mean"))
                    break;
            }
            (void)status;
            return cli_fail();
        }
    }
    vv_str out = {0};
    if (json) {
        vv_desc_to_json(desc, &out);
        if (vv_str_status(&out) == VV_OK)
            puts(vv_str_text(&out));
        else
            code = cli_fail();
        vv_str_fini(&out);
        return code;
    }
    printf("%s: %s\n\n%s\n", desc->kind, desc->name, desc->summary);
    if (desc->domains && desc->domains[0])
        printf("domains: %s\n", desc->domains);
    if (desc->cite && desc->cite[0])
        printf("source: %s\n", desc->cite);
    printf("settings:%s\n", desc->fields && desc->fields[0].name ? "" : " none");
    for (const vv_field *field = desc->fields; field && field->name; field++)
        print_field(field);
    return CLI_DONE;
}

const cli_verb cli_list = {
    "list", "methods|models|datasets|optimizers|schedules|callbacks|loggers|metrics [--json]",
    "Lists what this build has.", list};
const cli_verb cli_describe = {"describe", "[KIND] NAME [--json]",
                               "Tells what a method, model, ... does and its settings.", describe};
