/* fuzz_recipe.c - any text as a recipe: a recipe whose resolved text gives the same recipe again,
 * or a sentence. The text may end with a NUL and one `key=value` override. */
#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>
#include <vivace/recipe.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* The resolved text of a recipe is a recipe that resolves to the same text. */
static void check_text(const vv_recipe *recipe)
{
    vv_str first = {0}, second = {0};
    vv_recipe *again = NULL;
    if (vv_recipe_text(recipe, &first) != VV_OK ||
        vv_recipe_parse(&again, vv_str_text(&first), "again", NULL, 0) != VV_OK ||
        vv_recipe_text(again, &second) != VV_OK ||
        strcmp(vv_str_text(&first), vv_str_text(&second)) != 0)
        abort();
    vv_recipe_free(again);
    vv_str_fini(&first);
    vv_str_fini(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *text = malloc(bytes + 1);
    if (!text)
        return 0;
    if (bytes > 0)
        memcpy(text, data, bytes);
    text[bytes] = 0;
    const size_t length = strlen(text);
    const char *override = length < bytes ? text + length + 1 : NULL;
    vv_recipe *recipe;
    vv_error_clear();
    if (vv_recipe_parse(&recipe, text, "fuzz", &override, override != NULL) == VV_OK)
        check_text(recipe);
    else if (recipe || !vv_error()[0])
        abort();
    vv_recipe_free(recipe);
    free(text);
    if (vv_memory_live_count() != 0)
        abort();
    return 0;
}
