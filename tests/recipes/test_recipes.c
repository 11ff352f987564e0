/* test_recipes.c - every recipe that is handed out resolves, its resolved text says the same, its
 * plan can be made, and it trains two small batches on data of the right shape (for texts: few
 * tokens, a thin model). One test a file; the folder is RECIPES_DIR. */
#include "vv_test.h"

#include <ftw.h>

#include <vivace/recipe.h>

enum { MAX_RECIPES = 256 };
static char *paths[MAX_RECIPES];
static int path_count;
static bool too_many;

static int visit(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    (void)where;
    const size_t length = strlen(path);
    if (type != FTW_F || length < 5 || strcmp(path + length - 5, ".yaml") != 0)
        return 0;
    if (path_count == MAX_RECIPES) {
        too_many = true;
        return 1;
    }
    paths[path_count] = strdup(path);
    return paths[path_count++] == NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static vv_run *new_run(const vv_recipe *recipe)
{
    vv_run_opts opts = VV_RUN_DEFAULTS;
    opts.synthetic = true;
    vv_run *run = NULL;
    assert_ok(vv_run_new(&run, recipe, &opts));
    return run;
}

/* What makes large models small for two batches; the plan has their full size. */
static const char *const nothing[] = {NULL};
static const char *const of_texts[] = {
    "dataset.seq=16", "model.d=64", "model.heads=2", "model.layers=4",
    "evaluators={small: {subset: 8sp, interval: 2ba, batch_size: 4}}", NULL};
static const char *const of_boxes[] = {"model.width=8", NULL};
static const char *const of_masks[] = {"dataset.height=48", "dataset.width=64", NULL};
static const char *const of_imagenet[] = {"dataset.size=64", "workers=1", NULL};

/* *smaller = further overrides for such a model. */
static void resolves_and_plans(const char *path, const char *const **smaller)
{
    vv_recipe *recipe = NULL, *again = NULL;
    vv_str first = {0}, second = {0}, plan = {0};
    assert_ok(vv_recipe_load(&recipe, path, NULL, 0));
    assert_ok(vv_recipe_text(recipe, &first));
    assert_ok(vv_recipe_parse(&again, vv_str_text(&first), "resolved", NULL, 0));
    assert_ok(vv_recipe_text(again, &second));
    assert_string_equal(vv_str_text(&first), vv_str_text(&second));
    assert_null(strstr(vv_str_text(&first), "name: \"\"\n")); /* of the run */
    *smaller = strstr(vv_str_text(&first), "\n  seq: ")       ? of_texts
               : strstr(vv_str_text(&first), "\n  name: ssd\n") ? of_boxes
               : strstr(vv_str_text(&first), "\n  name: imagenet\n") ? of_imagenet
               : strstr(vv_str_text(&first), "\n  max_share: ") ? of_masks
                                                                     : nothing;
    vv_run *run = new_run(recipe);
    assert_ok(vv_trainer_plan(vv_run_trainer(run), &plan));
    assert_non_null(strstr(vv_str_text(&plan), "parameters"));
    vv_run_free(run);
    vv_str_fini(&first);
    vv_str_fini(&second);
    vv_str_fini(&plan);
    vv_recipe_free(recipe);
    vv_recipe_free(again);
}

static void trains_two_batches(const char *path, const char *const *smaller)
{
    /* Without schedules: a warm-up of some epochs does not fit in. The plan has resolved them. */
    const char *small[16] = {
        "schedules=off",
        "batch_size=8", "microbatch=0",       "limit=16",           "max_duration=2ba",
        "threads=2",    "eval_interval=none", "save_interval=none", "scale_schedule_ratio=1",
    };
    int count = 9;
    while (*smaller)
        small[count++] = *smaller++;
    vv_recipe *recipe = NULL;
    assert_ok(vv_recipe_load(&recipe, path, small, count));
    vv_run *run = new_run(recipe);
    const vv_state *state = vv_trainer_state(vv_run_trainer(run));
    assert_ok(vv_trainer_fit(vv_run_trainer(run)));
    assert_int_equal(state->time.batch, 2);
    assert_int_equal(state->time.sample, 16);
    assert_true(isfinite(state->train_loss));
    vv_run_free(run);
    vv_recipe_free(recipe);
}

static void recipe_works(void **state)
{
    const char *path = *state;
    const int64_t live = vv_memory_live_count();
    const char *const *smaller;
    resolves_and_plans(path, &smaller);
    trains_two_batches(path, smaller);
    assert_true(vv_memory_live_count() <= live);
}

static void recipes_were_found(void **state)
{
    (void)state;
    assert_true(path_count > 0);
    assert_false(too_many);
}

int main(void)
{
    static struct CMUnitTest tests[MAX_RECIPES + 1];
    nftw(RECIPES_DIR, visit, 8, FTW_PHYS);
    qsort(paths, (size_t)path_count, sizeof paths[0], by_name);
    tests[0] = (struct CMUnitTest)cmocka_unit_test(recipes_were_found);
    for (int i = 0; i < path_count; i++)
        tests[i + 1] = (struct CMUnitTest){paths[i] + sizeof RECIPES_DIR, recipe_works, NULL, NULL,
                                           paths[i]};
    const int failed =
        _cmocka_run_group_tests("recipes", tests, (size_t)path_count + 1, NULL, NULL);
    for (int i = 0; i < path_count; i++)
        free(paths[i]);
    return failed;
}
