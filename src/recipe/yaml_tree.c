/* yaml_tree.c - a YAML document as a small tree that remembers its lines. The only user of libyaml. */
#include "recipe/yaml_tree.h"

#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>
#include <yaml.h>

enum { MAX_DEPTH = 16, MAX_NODES = 20000 };

void vvi_yaml_free(vvi_yaml *node)
{
    if (!node)
        return;
    for (int i = 0; i < node->count; i++) {
        if (node->keys)
            vv_dealloc(node->keys[i]);
        vvi_yaml_free(node->items[i]);
    }
    vv_dealloc(node->keys);
    vv_dealloc(node->items);
    vv_dealloc(node->text);
    vv_dealloc(node);
}

static vv_status new_node(vvi_yaml **out, vvi_yaml_kind kind, int line)
{
    VV_TRY(vv_alloc(out, sizeof **out));
    (*out)->kind = kind;
    (*out)->line = line;
    return VV_OK;
}

/* Takes `key` (NULL in lists) and `item`, even on failure. */
static vv_status append(vvi_yaml *parent, char *key, vvi_yaml *item)
{
    vv_status status = vv_realloc_array(&parent->items, (size_t)parent->count + 1, sizeof(vvi_yaml *));
    if (status == VV_OK && parent->kind == VVI_YAML_MAP)
        status = vv_realloc_array(&parent->keys, (size_t)parent->count + 1, sizeof(char *));
    if (status != VV_OK) {
        vv_dealloc(key);
        vvi_yaml_free(item);
        return status;
    }
    if (parent->keys)
        parent->keys[parent->count] = key;
    parent->items[parent->count++] = item;
    return VV_OK;
}

typedef struct reader {
    yaml_parser_t parser;
    const char *origin;
    int nodes;
} reader;

static vv_status bad(const reader *r, const yaml_mark_t *mark, const char *what)
{
    return vv_fail(VV_EFORMAT, "%s:%d: %s", r->origin, (int)mark->line + 1, what);
}

static vv_status next_event(reader *r, yaml_event_t *event)
{
    if (yaml_parser_parse(&r->parser, event))
        return VV_OK;
    return vv_fail(r->parser.error == YAML_MEMORY_ERROR ? VV_ENOMEM : VV_EFORMAT,
                   "%s:%d: not valid YAML: %s", r->origin, (int)r->parser.problem_mark.line + 1,
                   r->parser.problem ? r->parser.problem : "cannot be read");
}

static vv_status read_value(reader *r, yaml_event_t *event, int depth, vvi_yaml **out);

static vv_status read_map(reader *r, int depth, vvi_yaml *map)
{
    for (;;) {
        yaml_event_t event;
        VV_TRY(next_event(r, &event));
        if (event.type == YAML_MAPPING_END_EVENT) {
            yaml_event_delete(&event);
            return VV_OK;
        }
        vv_status status = VV_OK;
        char *key = NULL;
        vvi_yaml *item = NULL;
        yaml_mark_t mark = event.start_mark;
        if (event.type != YAML_SCALAR_EVENT)
            status = bad(r, &mark, "a key must be a plain word");
        else if (strlen((const char *)event.data.scalar.value) != event.data.scalar.length)
            status = bad(r, &mark, "a key holds a NUL character");
        else if (vvi_yaml_get(map, (const char *)event.data.scalar.value))
            status = vv_fail(VV_EFORMAT, "%s:%d: '%.60s' is given twice", r->origin,
                             (int)mark.line + 1, (const char *)event.data.scalar.value);
        else
            status = vv_strdup(&key, (const char *)event.data.scalar.value);
        yaml_event_delete(&event);
        if (status == VV_OK)
            status = next_event(r, &event);
        if (status == VV_OK) {
            status = read_value(r, &event, depth + 1, &item);
            yaml_event_delete(&event);
        }
        if (status == VV_OK) {
            status = append(map, key, item);
            key = NULL;
        }
        vv_dealloc(key);
        VV_TRY(status);
    }
}

static vv_status read_list(reader *r, int depth, vvi_yaml *list)
{
    for (;;) {
        yaml_event_t event;
        VV_TRY(next_event(r, &event));
        if (event.type == YAML_SEQUENCE_END_EVENT) {
            yaml_event_delete(&event);
            return VV_OK;
        }
        vvi_yaml *item = NULL;
        vv_status status = read_value(r, &event, depth + 1, &item);
        yaml_event_delete(&event);
        if (status == VV_OK)
            status = append(list, NULL, item);
        VV_TRY(status);
    }
}

static vv_status read_value(reader *r, yaml_event_t *event, int depth, vvi_yaml **out)
{
    *out = NULL;
    if (depth > MAX_DEPTH)
        return bad(r, &event->start_mark, "nested too deeply");
    if (++r->nodes > MAX_NODES)
        return bad(r, &event->start_mark, "too many entries for a recipe");
    int line = (int)event->start_mark.line + 1;
    vvi_yaml *node = NULL;
    vv_status status;
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        if (event->data.scalar.anchor)
            return bad(r, &event->start_mark, "anchors and aliases are not supported in recipes");
        if (strlen((const char *)event->data.scalar.value) != event->data.scalar.length)
            return bad(r, &event->start_mark, "a value holds a NUL character");
        VV_GO(new_node(&node, VVI_YAML_TEXT, line));
        VV_GO(vv_strdup(&node->text, (const char *)event->data.scalar.value));
        break;
    case YAML_MAPPING_START_EVENT:
        if (event->data.mapping_start.anchor)
            return bad(r, &event->start_mark, "anchors and aliases are not supported in recipes");
        VV_GO(new_node(&node, VVI_YAML_MAP, line));
        VV_GO(read_map(r, depth, node));
        break;
    case YAML_SEQUENCE_START_EVENT:
        if (event->data.sequence_start.anchor)
            return bad(r, &event->start_mark, "anchors and aliases are not supported in recipes");
        VV_GO(new_node(&node, VVI_YAML_LIST, line));
        VV_GO(read_list(r, depth, node));
        break;
    default: return bad(r, &event->start_mark, "anchors and aliases are not supported in recipes");
    }
    *out = node;
    return VV_OK;
out:
    vvi_yaml_free(node);
    return status;
}

static vv_status expect(reader *r, yaml_event_type_t type, const char *what)
{
    yaml_event_t event;
    VV_TRY(next_event(r, &event));
    vv_status status = event.type == type ? VV_OK : bad(r, &event.start_mark, what);
    yaml_event_delete(&event);
    return status;
}

vv_status vvi_yaml_parse(vvi_yaml **out, const char *text, size_t length, const char *origin)
{
    *out = NULL;
    reader r = {.origin = origin};
    if (!yaml_parser_initialize(&r.parser))
        return vv_fail(VV_ENOMEM, "%s: out of memory", origin);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, length);
    vv_status status;
    vvi_yaml *root = NULL;
    VV_GO(expect(&r, YAML_STREAM_START_EVENT, "not a YAML document"));
    yaml_event_t event;
    VV_GO(next_event(&r, &event));
    bool empty = event.type == YAML_STREAM_END_EVENT;
    yaml_event_delete(&event);
    if (empty) {
        VV_GO(new_node(&root, VVI_YAML_MAP, 1));
    } else {
        VV_GO(next_event(&r, &event));
        status = read_value(&r, &event, 0, &root);
        yaml_event_delete(&event);
        VV_GO(status);
        VV_GO(expect(&r, YAML_DOCUMENT_END_EVENT, "something follows the document"));
        VV_GO(expect(&r, YAML_STREAM_END_EVENT, "a recipe is one document"));
    }
    *out = root;
    root = NULL;
out:
    vvi_yaml_free(root);
    yaml_parser_delete(&r.parser);
    return status;
}

vvi_yaml *vvi_yaml_get(const vvi_yaml *map, const char *key)
{
    if (map && map->kind == VVI_YAML_MAP)
        for (int i = 0; i < map->count; i++)
            if (strcmp(map->keys[i], key) == 0)
                return map->items[i];
    return NULL;
}

/* Slot of one path component: an existing entry, or a new one in a map. An empty value and a plain
   name ("optimizer: sgd") become a map when something is set below them. */
static vv_status slot_of(vvi_yaml *parent, const char *key, const char *whole, vvi_yaml ***slot)
{
    if (parent->kind == VVI_YAML_TEXT) {
        vvi_yaml *name = NULL;
        if (parent->text[0]) {
            VV_TRY(new_node(&name, VVI_YAML_TEXT, parent->line));
            name->text = parent->text;
        } else {
            vv_dealloc(parent->text);
        }
        parent->text = NULL;
        parent->kind = VVI_YAML_MAP;
        if (name) {
            char *word;
            vv_status status = vv_strdup(&word, "name");
            if (status != VV_OK) {
                vvi_yaml_free(name);
                return status;
            }
            VV_TRY(append(parent, word, name));
        }
    }
    if (parent->kind == VVI_YAML_LIST) {
        char *end;
        long index = strtol(key, &end, 10);
        if (*end == 0 && end != key && index >= 0 && index < parent->count) {
            *slot = &parent->items[index];
            return VV_OK;
        }
        /* a list of names: find the entry called `key`, or add one */
        for (int i = 0; i < parent->count; i++) {
            vvi_yaml *item = parent->items[i], *name = vvi_yaml_get(item, "name");
            const char *text = item->kind == VVI_YAML_TEXT ? item->text
                               : name && name->kind == VVI_YAML_TEXT ? name->text : NULL;
            if (text && strcmp(text, key) == 0) {
                *slot = &parent->items[i];
                return VV_OK;
            }
            if (item->kind == VVI_YAML_MAP && item->count == 1 && strcmp(item->keys[0], key) == 0) {
                *slot = &item->items[0];
                return VV_OK;
            }
        }
        return vv_fail(VV_EINVAL, "%s: the list has no entry '%s'; give its number from 0 to %d", whole,
                       key, parent->count - 1);
    }
    for (int i = 0; i < parent->count; i++)
        if (strcmp(parent->keys[i], key) == 0) {
            *slot = &parent->items[i];
            return VV_OK;
        }
    char *copy;
    vvi_yaml *fresh;
    VV_TRY(new_node(&fresh, VVI_YAML_MAP, 0));
    vv_status status = vv_strdup(&copy, key);
    if (status != VV_OK) {
        vvi_yaml_free(fresh);
        return status;
    }
    VV_TRY(append(parent, copy, fresh));
    *slot = &parent->items[parent->count - 1];
    return VV_OK;
}

static void forget_lines(vvi_yaml *node)
{
    node->line = 0;
    for (int i = 0; i < node->count; i++)
        forget_lines(node->items[i]);
}

vv_status vvi_yaml_override(vvi_yaml *root, const char *assignment)
{
    const char *equals = strchr(assignment, '=');
    if (!equals || equals == assignment)
        return vv_fail(VV_EINVAL, "'%s' is not an override; write key=value", assignment);
    vv_status status;
    char *path = NULL;
    vvi_yaml *value = NULL;
    VV_GO(vv_strdup(&path, assignment));
    path[equals - assignment] = 0;
    if (equals[1]) {
        VV_GO(vvi_yaml_parse(&value, equals + 1, strlen(equals + 1), path));
    } else {
        VV_GO(new_node(&value, VVI_YAML_TEXT, 0));
        VV_GO(vv_strdup(&value->text, ""));
    }
    forget_lines(value);
    vvi_yaml *at = root, **slot = NULL;
    char *rest = path;
    while (rest) {
        char *dot = strchr(rest, '.');
        if (dot)
            *dot++ = 0;
        if (!rest[0])
            VV_GO(vv_fail(VV_EINVAL, "'%s' is not an override; a part of the key is empty",
                          assignment));
        VV_GO(slot_of(at, rest, assignment, &slot));
        at = *slot;
        rest = dot;
    }
    vvi_yaml_free(*slot);
    *slot = value;
    value = NULL;
out:
    vvi_yaml_free(value);
    vv_dealloc(path);
    return status;
}

vv_status vvi_yaml_flat(const vvi_yaml *node, vv_str *out)
{
    if (node->kind == VVI_YAML_TEXT) {
        vv_str_add(out, node->text);
        return vv_str_status(out);
    }
    if (node->kind == VVI_YAML_MAP)
        return vv_fail(VV_EINVAL, "a plain value is expected here, not a group of settings");
    vv_str_add(out, "[");
    for (int i = 0; i < node->count; i++) {
        if (i)
            vv_str_add(out, ", ");
        VV_TRY(vvi_yaml_flat(node->items[i], out));
    }
    vv_str_add(out, "]");
    return vv_str_status(out);
}
