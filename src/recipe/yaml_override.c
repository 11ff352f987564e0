/* yaml_override.c - "a.b.c=value" set in a tree. */
#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>

#include "recipe/yaml_tree.h"

static vv_status add_entry(vvi_yaml *parent, const char *key, vvi_yaml *item)
{
    char *word;
    vv_status status = vv_strdup(&word, key);
    if (status == VV_OK)
        return vvi_yaml_append(parent, word, item);
    vvi_yaml_free(item);
    return status;
}

/* An empty value and a plain name ("optimizer: sgd") become a map when something is set below; so
   do on and off ("methods: {mixup: on}"), which name nothing: what is set is on. */
static vv_status text_to_map(vvi_yaml *node)
{
    vvi_yaml *name = NULL;
    if (node->text[0] && strcmp(node->text, "on") != 0 && strcmp(node->text, "off") != 0) {
        VV_TRY(vvi_yaml_new(&name, VVI_YAML_TEXT, node->line));
        name->text = node->text;
    } else {
        vv_dealloc(node->text);
    }
    node->text = NULL;
    node->kind = VVI_YAML_MAP;
    return name ? add_entry(node, "name", name) : VV_OK;
}

static vv_status map_slot(vvi_yaml *map, const char *key, vvi_yaml ***slot)
{
    int i = 0;
    while (i < map->count && strcmp(map->keys[i], key) != 0)
        i++;
    if (i == map->count) {
        vvi_yaml *fresh;
        VV_TRY(vvi_yaml_new(&fresh, VVI_YAML_MAP, 0));
        VV_TRY(add_entry(map, key, fresh));
    }
    *slot = &map->items[i];
    return VV_OK;
}

/* *slot = {key: what it was}. */
static vv_status wrap(vvi_yaml **slot, const char *key)
{
    vv_status status;
    vvi_yaml *outer = NULL;
    VV_GO(vvi_yaml_new(&outer, VVI_YAML_MAP, (*slot)->line));
    VV_GO(vv_alloc_array(&outer->items, 1, sizeof *outer->items));
    VV_GO(vv_alloc_array(&outer->keys, 1, sizeof *outer->keys));
    VV_GO(vv_strdup(&outer->keys[0], key));
    outer->items[0] = *slot;
    outer->count = 1;
    *slot = outer;
    return VV_OK;
out:
    vvi_yaml_free(outer);
    return status;
}

static void drop_entry(vvi_yaml *map, const char *key)
{
    for (int i = 0; i < map->count; i++) {
        if (strcmp(map->keys[i], key) != 0)
            continue;
        vv_dealloc(map->keys[i]);
        vvi_yaml_free(map->items[i]);
        map->count--;
        for (int k = i; k < map->count; k++) {
            map->keys[k] = map->keys[k + 1];
            map->items[k] = map->items[k + 1];
        }
        return;
    }
}

/* The settings of the thing called `key` in a list of things: "- key", "- {name: key, ...}" and
   "- key: ..." all take the last form, so that the whole can be replaced; a new one is added. */
static vv_status thing_slot(vvi_yaml *list, const char *key, vvi_yaml ***slot)
{
    for (int i = 0; i < list->count; i++) {
        vvi_yaml *item = list->items[i];
        const vvi_yaml *name = item->kind == VVI_YAML_TEXT ? item : vvi_yaml_get(item, "name");
        if (name && name->kind == VVI_YAML_TEXT && strcmp(name->text, key) == 0) {
            VV_TRY(wrap(&list->items[i], key));
            if (item->kind == VVI_YAML_TEXT)
                item->text[0] = 0;
            else
                drop_entry(item, "name");
            item = list->items[i];
        } else if (item->kind != VVI_YAML_MAP || item->count != 1 ||
                   strcmp(item->keys[0], key) != 0) {
            continue;
        }
        *slot = &item->items[0];
        return VV_OK;
    }
    vvi_yaml *item;
    VV_TRY(vvi_yaml_new(&item, VVI_YAML_MAP, 0));
    VV_TRY(vvi_yaml_append(list, NULL, item));
    return map_slot(item, key, slot);
}

static vv_status list_slot(vvi_yaml *list, const char *key, bool of_things, const char *whole,
                           vvi_yaml ***slot)
{
    if (key[strspn(key, "0123456789")]) {
        if (of_things)
            return thing_slot(list, key, slot);
        return vv_fail(VV_EINVAL,
                       "'%s': entries of a list are given by number, from 0; '%s' is none", whole,
                       key);
    }
    const long index = strtol(key, NULL, 10);
    if (index >= list->count)
        return vv_fail(VV_EINVAL, "'%s': there is no entry %s; the list has %d, counted from 0",
                       whole, key, list->count);
    *slot = &list->items[index];
    return VV_OK;
}

/* Where the value of one component of a path stands. */
static vv_status slot_of(vvi_yaml *parent, const char *key, bool of_things, const char *whole,
                         vvi_yaml ***slot)
{
    if (parent->kind == VVI_YAML_LIST)
        return list_slot(parent, key, of_things, whole, slot);
    if (parent->kind == VVI_YAML_TEXT)
        VV_TRY(text_to_map(parent));
    return map_slot(parent, key, slot);
}

static void forget_lines(vvi_yaml *node)
{
    node->line = 0;
    for (int i = 0; i < node->count; i++)
        forget_lines(node->items[i]);
}

/* Follows the path (cut up on the way) to the slot of its last component. */
static vv_status find_slot(vvi_yaml *root, char *path, const char *whole, vvi_yaml ***slot)
{
    vvi_yaml *at = root;
    char *rest = path;
    for (int depth = 0; rest; depth++) {
        char *dot = strchr(rest, '.');
        if (dot)
            *dot++ = 0;
        if (!rest[0])
            return vv_fail(VV_EINVAL, "'%s' is not an override; a part of the key is empty", whole);
        if (depth >= VVI_YAML_DEPTH)
            return vv_fail(VV_EINVAL, "'%s': the key has more than %d parts", whole,
                           VVI_YAML_DEPTH);
        VV_TRY(slot_of(at, rest, depth == 1, whole, slot));
        at = **slot;
        rest = dot;
    }
    return VV_OK;
}

vv_status vvi_yaml_override(vvi_yaml *root, const char *assignment)
{
    const char *equals = strchr(assignment, '=');
    if (!equals || equals == assignment)
        return vv_fail(VV_EINVAL, "'%s' is not an override; write key=value", assignment);
    vv_status status;
    char *path = NULL;
    vvi_yaml *value = NULL, **slot;
    VV_GO(vv_strdup(&path, assignment));
    path[equals - assignment] = 0;
    VV_GO(vvi_yaml_parse_value(&value, equals + 1, path));
    if (!value) {
        VV_GO(vvi_yaml_new(&value, VVI_YAML_TEXT, 0));
        VV_GO(vv_strdup(&value->text, ""));
    }
    forget_lines(value);
    VV_GO(find_slot(root, path, assignment, &slot));
    vvi_yaml_free(*slot);
    *slot = value;
    value = NULL;
out:
    vvi_yaml_free(value);
    vv_dealloc(path);
    return status;
}
