/* settings.c - the settings of a verb, whose words are a table of fields. */
#include <string.h>

#include "cli.h"

int cli_fields_help(const cli_verb *verb, const vv_field *fields)
{
    printf("%s\nusage: vivace %s %s\n\n", verb->summary, verb->name, verb->usage);
    for (const vv_field *field = fields; field->name; field++)
        printf("  %-11s %s%s%s%s\n", field->name, field->help, field->fallback ? " [" : "",
               field->fallback ? field->fallback : "", field->fallback ? "]" : "");
    return CLI_DONE;
}

static vv_status set(const vv_desc *desc, void *opts, const char *text)
{
    const char *equals = strchr(text, '=');
    vv_str key = {0};
    vv_str_addn(&key, text, (size_t)(equals - text));
    vv_status status = vv_str_status(&key);
    if (status == VV_OK)
        status = vv_opts_set(desc, opts, vv_str_text(&key), equals + 1);
    vv_str_fini(&key);
    return status;
}

vv_status cli_read_settings(const vv_desc *desc, void *opts, const cli_args *args)
{
    for (int i = 0; i < args->override_count; i++)
        VV_TRY(set(desc, opts, args->overrides[i]));
    return vv_opts_check(desc, opts);
}

vv_status cli_take_settings(const vv_desc *desc, void *opts, cli_args *args)
{
    int left = 0;
    for (int i = 0; i < args->override_count; i++) {
        const char *text = args->overrides[i];
        if (memchr(text, '.', strcspn(text, "=")))
            args->overrides[left++] = text;
        else
            VV_TRY(set(desc, opts, text));
    }
    args->override_count = left;
    return VV_OK;
}
