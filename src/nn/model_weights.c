/* model_weights.c - weights from a file by name: ours, PyTorch's, Hugging Face's. */
#include <vivace/model.h>

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>

#include "nn/model_weights.h"

typedef struct slot { /* a tensor of the model */
    const char *name;
    vv_tensor *tensor;
    const vv_tensor *given; /* what the file has for it */
    vv_tensor *adapted;     /* that, made to fit; owned */
    bool exact;             /* found under its very name */
    bool transposed;
} slot;

typedef struct loading {
    const vv_model *model;
    const vv_weight_map *map; /* NULL for our own files */
    slot *slots;              /* by name */
    char **names;
    int count, room;
    vvi_patterns *ignore;
    vv_str missing, unexpected; /* the first few names */
    int missing_count, unexpected_count;
    vv_status status;
} loading;

static bool listed(const char *const *patterns, const char *name)
{
    for (int i = 0; patterns && patterns[i]; i++)
        if (fnmatch(patterns[i], name, 0) == 0)
            return true;
    return false;
}

/* ---- the model's side ---- */

static bool add_slot(void *ctx, const char *name, vv_tensor *tensor)
{
    loading *l = ctx;
    if (l->count == l->room) {
        int room = l->room ? 2 * l->room : 64;
        l->status = vv_realloc_array(&l->slots, (size_t)room, sizeof *l->slots);
        if (l->status == VV_OK)
            l->status = vv_realloc_array(&l->names, (size_t)room, sizeof *l->names);
        if (l->status != VV_OK)
            return false;
        l->room = room;
    }
    l->status = vv_strdup(&l->names[l->count], name);
    if (l->status != VV_OK)
        return false;
    l->slots[l->count] = (slot){.name = l->names[l->count], .tensor = tensor};
    l->count++;
    return true;
}

static int by_name(const void *a, const void *b)
{
    const slot *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static slot *find_slot(const loading *l, const char *name)
{
    const slot key = {.name = name};
    return l->count ? bsearch(&key, l->slots, (size_t)l->count, sizeof *l->slots, by_name) : NULL;
}

/* ---- the file's side ---- */

static const char *without(const char *name, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(name, prefix, length) == 0 && name[length] ? name + length : NULL;
}

static const char *const wrappers[] = {"module.", "_orig_mod.", NULL};

/* The model's tensor that a foreign name means: as it is, without prefixes, or with one more. */
static vv_status match_as_is(const loading *l, const char *name, slot **out)
{
    const char *const *lists[] = {wrappers, l->map ? l->map->prefixes : NULL};
    *out = find_slot(l, name);
    for (bool cut = true; !*out && cut;) {
        cut = false;
        for (int k = 0; k < 2 && !*out; k++)
            for (int i = 0; lists[k] && lists[k][i] && !*out; i++) {
                const char *rest = without(name, lists[k][i]);
                if (!rest)
                    continue;
                name = rest;
                cut = true;
                *out = find_slot(l, name);
            }
    }
    for (int i = 0; !*out && l->map && l->map->prefixes && l->map->prefixes[i]; i++) {
        vv_str longer = {0};
        vv_str_add(&longer, l->map->prefixes[i]);
        vv_str_add(&longer, name);
        vv_status status = vv_str_status(&longer);
        if (status == VV_OK)
            *out = find_slot(l, vv_str_text(&longer));
        vv_str_fini(&longer);
        VV_TRY(status);
    }
    return VV_OK;
}

static bool ends_with(const char *name, const char *ending)
{
    const size_t length = strlen(name), n = strlen(ending);
    return length >= n && strcmp(name + length - n, ending) == 0;
}

/* What name has for pattern's n-th "*", for all of them at once; false if it does not fit. */
enum { STARS = 4 };
typedef struct piece {
    const char *at;
    size_t length;
} piece;

static bool fit_pattern(const char *pattern, const char *name, piece *pieces, int room)
{
    for (; *pattern != '*'; pattern++, name++) {
        if (*pattern != *name)
            return false;
        if (!*pattern)
            return true;
    }
    for (size_t n = 0; room > 0; n++) {
        *pieces = (piece){name, n};
        if (fit_pattern(pattern + 1, name + n, pieces + 1, room - 1))
            return true;
        if (!name[n])
            return false;
    }
    return false;
}

/* `renamed` applied to a name; *changed = whether any pair fitted. */
static vv_status rename_all(const char *const *pairs, const char *name, vv_str *out, bool *changed)
{
    vv_str next = {0};
    vv_str_add(out, name);
    *changed = false;
    for (int i = 0; pairs && pairs[i] && vv_str_status(out) == VV_OK; i += 2) {
        piece pieces[STARS];
        int star = 0;
        if (!fit_pattern(pairs[i], vv_str_text(out), pieces, STARS))
            continue;
        for (const char *c = pairs[i + 1]; *c; c++)
            if (*c == '*' && star < STARS) {
                vv_str_addn(&next, pieces[star].at, pieces[star].length);
                star++;
            } else {
                vv_str_addn(&next, c, 1);
            }
        vv_str_fini(out);
        *out = next;
        next = (vv_str){0};
        *changed = true;
    }
    return vv_str_status(out);
}

static vv_status match_renamed(const loading *l, const char *name, slot **out)
{
    vv_str ours = {0};
    bool changed;
    for (int i = 0; wrappers[i]; i++) {
        const char *rest = without(name, wrappers[i]);
        name = rest ? rest : name;
        i = rest ? -1 : i; /* any of them may stand behind any other */
    }
    vv_status status = rename_all(l->map->renamed, name, &ours, &changed);
    if (status == VV_OK && changed)
        status = match_as_is(l, vv_str_text(&ours), out);
    vv_str_fini(&ours);
    return status;
}

/* The same, or under the name that the tree has for its ending, or for all of it. */
static vv_status match(const loading *l, const char *name, slot **out)
{
    const char *const *pairs = l->map ? l->map->endings : NULL;
    VV_TRY(match_as_is(l, name, out));
    for (int i = 0; !*out && pairs && pairs[i]; i += 2) {
        if (!ends_with(name, pairs[i]))
            continue;
        vv_str ours = {0};
        vv_str_addn(&ours, name, strlen(name) - strlen(pairs[i]));
        vv_str_add(&ours, pairs[i + 1]);
        vv_status status = vv_str_status(&ours);
        if (status == VV_OK)
            status = match_as_is(l, vv_str_text(&ours), out);
        vv_str_fini(&ours);
        VV_TRY(status);
    }
    return *out || !l->map || !l->map->renamed ? VV_OK : match_renamed(l, name, out);
}

/* A count that PyTorch keeps in batch norms and some files leave out; nothing reads it. */
static bool is_counter(const char *name)
{
    static const char tail[] = "num_batches_tracked";
    const size_t length = strlen(name), n = sizeof tail - 1;
    return length >= n && strcmp(name + length - n, tail) == 0 &&
           (length == n || name[length - n - 1] == '.');
}

static bool left_out(const loading *l, const char *name)
{
    return is_counter(name) || (l->map && listed(l->map->ignored, name));
}

static void note(vv_str *list, int *count, const char *name)
{
    enum { TOLD = 3 };
    if (*count < TOLD)
        vv_str_addf(list, "%s\"%s\"", *count ? ", " : "", name);
    else if (*count == TOLD)
        vv_str_add(list, ", ...");
    ++*count;
}

static bool user_ignores(const loading *l, const char *name)
{
    if (!l->ignore->count)
        return false;
    vv_str path = {0};
    vv_str_addf(&path, "model/%s", name);
    bool plain = vvi_patterns_match(l->ignore, name);
    bool full = vvi_patterns_match(l->ignore, vv_str_text(&path));
    vv_str_fini(&path);
    return plain || full;
}

static vv_status take_names(loading *l, const vv_safetensors *file)
{
    for (int i = 0; i < vv_safetensors_count(file); i++) {
        const char *name = vv_safetensors_name(file, i);
        slot *found = NULL;
        if (strncmp(name, "vivace/", 7) == 0)
            continue;
        VV_TRY(match(l, name, &found));
        bool ignored = user_ignores(l, name);
        if (ignored || (found && user_ignores(l, found->name)))
            continue;
        bool exact = found && strcmp(found->name, name) == 0;
        if (found && (!found->given || (exact && !found->exact))) {
            found->given = vv_safetensors_tensor(file, i);
            found->exact = exact;
            found->transposed = l->map && listed(l->map->transposed, found->name);
        } else if (!found && !left_out(l, name)) {
            note(&l->unexpected, &l->unexpected_count, name);
        }
    }
    for (int i = 0; i < l->count; i++)
        if (!l->slots[i].given && !user_ignores(l, l->slots[i].name) &&
            !is_counter(l->slots[i].name))
            note(&l->missing, &l->missing_count, l->slots[i].name);
    VV_TRY(vv_str_status(&l->missing));
    return vv_str_status(&l->unexpected);
}

/* ---- checks, then copies ---- */

static vv_status check_strict(const loading *l)
{
    if (l->missing_count)
        return vv_fail(VV_ENOTFOUND,
                       "it lacks %d of the model's %d weights: %s; use the model (and the surgery "
                       "methods) it was made with, or load without strict to keep the model's own",
                       l->missing_count, l->count, vv_str_text(&l->missing));
    if (l->unexpected_count)
        return vv_fail(VV_EFORMAT,
                       "it holds %d weights that this model does not have: %s; use the model (and "
                       "the surgery methods) it was made with, or load without strict to leave "
                       "them out",
                       l->unexpected_count, vv_str_text(&l->unexpected));
    return VV_OK;
}

static bool nothing_given(const loading *l)
{
    for (int i = 0; i < l->count; i++)
        if (l->slots[i].given)
            return false;
    return true;
}

static bool fits(const slot *s)
{
    const vv_tensor *own = s->tensor, *given = s->given;
    if (!s->transposed)
        return vv_tensor_same_shape(own, given);
    return own->ndim == 2 && given->ndim == 2 && own->shape[0] == given->shape[1] &&
           own->shape[1] == given->shape[0];
}

/* What does not fit as it is, if the model's family knows how to make it fit. */
static vv_status adapt_shapes(const loading *l, vv_str *told)
{
    const vv_weight_map *map = l->model->weight_map;
    for (int i = 0; map && map->adapt && i < l->count; i++) {
        slot *s = &l->slots[i];
        if (!s->given || fits(s))
            continue;
        VV_TRY(map->adapt(&s->adapted, l->model, s->name, s->given, s->tensor, told));
        if (s->adapted) {
            s->given = s->adapted;
            s->transposed = false;
        }
    }
    return VV_OK;
}

/* A weight or bias of the head that was made for another number of classes: its first side is the
   classes of the model, the others are the file's. */
static bool is_other_head(const loading *l, const slot *s)
{
    const vv_tensor *own = s->tensor, *given = s->given;
    if (s->transposed || own->ndim < 1 || own->ndim != given->ndim || l->model->classes < 1 ||
        own->shape[0] != l->model->classes || given->shape[0] == own->shape[0])
        return false;
    for (int k = 1; k < own->ndim; k++)
        if (own->shape[k] != given->shape[k])
            return false;
    return true;
}

static void leave_heads(loading *l, vv_str *told)
{
    for (int i = 0; i < l->count; i++) {
        slot *s = &l->slots[i];
        if (!s->given || fits(s) || !is_other_head(l, s))
            continue;
        vv_str_addf(told, "\"%s\" of the file is for %lld classes, the model has %lld: it starts "
                          "anew\n", s->name, (long long)s->given->shape[0],
                    (long long)l->model->classes);
        s->given = NULL;
    }
}

static vv_status check_shapes(const loading *l)
{
    for (int i = 0; i < l->count; i++) {
        const slot *s = &l->slots[i];
        char have[96], want[96];
        if (!s->given || fits(s))
            continue;
        return vv_fail(VV_ESHAPE,
                       "\"%s\" has shape %s%s, the model needs %s; it was made with other settings "
                       "of the model (leave the weight out with load_ignore to keep the model's "
                       "own; load_new_head does so with a head of other classes)",
                       s->name, vv_shape_text(s->given->ndim, s->given->shape, have, sizeof have),
                       s->transposed ? " before it is transposed" : "",
                       vv_shape_text(s->tensor->ndim, s->tensor->shape, want, sizeof want));
    }
    return VV_OK;
}

static void copy_transposed(const slot *s)
{
    int64_t rows = s->tensor->shape[0], columns = s->tensor->shape[1];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            vv_tensor_set(s->tensor, r * columns + c, vv_tensor_get(s->given, c * rows + r));
}

static vv_status copy_all(const loading *l, int *loaded)
{
    int count = 0;
    for (int i = 0; i < l->count; i++) {
        const slot *s = &l->slots[i];
        if (!s->given)
            continue;
        if (s->transposed)
            copy_transposed(s);
        else
            VV_TRY(vv_tensor_copy(s->tensor, s->given));
        count++;
    }
    if (loaded)
        *loaded = count;
    return VV_OK;
}

static vv_status tell(const loading *l, vv_str *told)
{
    if (!told)
        return VV_OK;
    if (l->missing_count)
        vv_str_addf(told, "%d of the model's %d weights are not in the file and stay as they are: "
                          "%s\n", l->missing_count, l->count, vv_str_text(&l->missing));
    if (l->unexpected_count)
        vv_str_addf(told, "%d weights of the file are not in the model and are left out: %s\n",
                    l->unexpected_count, vv_str_text(&l->unexpected));
    return vv_str_status(told);
}

vv_status vvi_model_load(vv_model *model, const vv_safetensors *file, bool strict, bool new_head,
                         vvi_patterns *ignore, vv_str *told, int *loaded)
{
    loading l = {.model = model, .ignore = ignore};
    vv_str adapted = {0};
    vv_status status;
    if (loaded)
        *loaded = 0;
    if (!vv_safetensors_text(file, "vivace.version"))
        l.map = model->weight_map;
    vv_module_each_state(model->net, add_slot, &l);
    VV_GO(l.status);
    if (l.count)
        qsort(l.slots, (size_t)l.count, sizeof *l.slots, by_name);
    VV_GO(take_names(&l, file));
    if (strict)
        VV_GO(check_strict(&l));
    if (l.missing_count && nothing_given(&l))
        VV_GO(vv_fail(VV_ENOTFOUND, "it has none of the model's %d weights (%s)", l.count,
                      vv_str_text(&l.missing)));
    VV_GO(adapt_shapes(&l, &adapted));
    if (new_head)
        leave_heads(&l, &adapted);
    VV_GO(check_shapes(&l));
    VV_GO(copy_all(&l, loaded));
    if (told)
        vv_str_add(told, vv_str_text(&adapted));
    status = tell(&l, told);
out:
    vv_str_fini(&adapted);
    for (int i = 0; i < l.count; i++) {
        vv_tensor_free(l.slots[i].adapted);
        vv_dealloc(l.names[i]);
    }
    vv_dealloc(l.names);
    vv_dealloc(l.slots);
    vv_str_fini(&l.missing);
    vv_str_fini(&l.unexpected);
    return status;
}

vv_status vv_model_load(vv_model *model, const vv_safetensors *file, bool strict,
                        const char *ignore, vv_str *told, int *loaded)
{
    vvi_patterns patterns;
    if (loaded)
        *loaded = 0;
    VV_TRY(vvi_patterns_parse(&patterns, ignore));
    vv_status status = vvi_model_load(model, file, strict, false, &patterns, told, loaded);
    for (int i = 0; status == VV_OK && told && i < patterns.count; i++)
        if (!patterns.items[i].used)
            vv_str_addf(told, "the pattern \"%s\" matches no weight\n", patterns.items[i].text);
    vvi_patterns_fini(&patterns);
    return status == VV_OK && told ? vv_str_status(told) : status;
}
