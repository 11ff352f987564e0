/* yaml_tree.c - a YAML document as a small tree that remembers its lines. The only user of
 * libyaml. */
#include "recipe/yaml_tree.h"

#include <stdio.h>
#include <string.h>

#include <vivace/memory.h>
#include <yaml.h>

enum { MAX_NODES = 4096, MAX_BYTES = 1 << 20 };

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

vv_status vvi_yaml_new(vvi_yaml **out, vvi_yaml_kind kind, int line)
{
    VV_TRY(vv_alloc(out, sizeof **out));
    (*out)->kind = kind;
    (*out)->line = line;
    return VV_OK;
}

vv_status vvi_yaml_append(vvi_yaml *parent, char *key, vvi_yaml *item)
{
    vv_status status =
        vv_realloc_array(&parent->items, (size_t)parent->count + 1, sizeof(vvi_yaml *));
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
    const char *origin, *text;
    size_t length;
    bool has_lines; /* the origin is a file: sentences give the line */
    int nodes;
} reader;

static vv_status bad_line(const reader *r, size_t line, vv_status status, const char *what)
{
    return r->has_lines ? vv_fail(status, "%s:%zu: %s", r->origin, line, what)
                        : vv_fail(status, "%s: %s", r->origin, what);
}

static vv_status bad(const reader *r, const yaml_mark_t *mark, const char *what)
{
    return bad_line(r, mark->line + 1, VV_EFORMAT, what);
}

/* libyaml marks no line where a character is wrong, only the byte. */
static size_t problem_line(const reader *r)
{
    if (r->parser.error != YAML_READER_ERROR)
        return r->parser.problem_mark.line + 1;
    size_t line = 1;
    for (size_t i = 0; i < r->parser.problem_offset && i < r->length; i++)
        line += r->text[i] == '\n';
    return line;
}

static vv_status next_event(reader *r, yaml_event_t *event)
{
    if (yaml_parser_parse(&r->parser, event))
        return VV_OK;
    const yaml_parser_t *p = &r->parser;
    char what[256];
    snprintf(what, sizeof what, "not valid YAML: %s%s%s",
             p->problem ? p->problem : "it cannot be read", p->context ? " " : "",
             p->context ? p->context : "");
    if (p->error == YAML_MEMORY_ERROR)
        return vv_fail(VV_ENOMEM, "%s: out of memory", r->origin);
    return bad_line(r, problem_line(r), VV_EFORMAT, what);
}

/* What recipes leave out of YAML. */
static vv_status check_node(const reader *r, const yaml_event_t *event)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
        if (strlen((const char *)event->data.scalar.value) != event->data.scalar.length)
            return bad(r, &event->start_mark, "a NUL character has no place in a recipe");
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
        break;
    default: /* an alias */
        return bad(r, &event->start_mark, "anchors and aliases are not supported in recipes");
    }
    if (anchor)
        return bad(r, &event->start_mark, "anchors and aliases are not supported in recipes");
    if (tag)
        return bad(r, &event->start_mark, "tags (`!...`) are not supported in recipes");
    return VV_OK;
}

static vv_status read_value(reader *r, yaml_event_t *event, int depth, vvi_yaml **out);

/* The key that `event` is, as a copy. */
static vv_status read_key(const reader *r, const yaml_event_t *event, const vvi_yaml *map,
                          char **key)
{
    if (event->type == YAML_MAPPING_START_EVENT || event->type == YAML_SEQUENCE_START_EVENT)
        return bad(r, &event->start_mark, "a key must be a plain word");
    VV_TRY(check_node(r, event));
    const char *word = (const char *)event->data.scalar.value;
    if (vvi_yaml_get(map, word)) {
        char what[128];
        snprintf(what, sizeof what, "'%.60s' is given twice", word);
        return bad(r, &event->start_mark, what);
    }
    return vv_strdup(key, word);
}

static vv_status read_map(reader *r, int depth, vvi_yaml *map)
{
    for (;;) {
        yaml_event_t event;
        VV_TRY(next_event(r, &event));
        if (event.type == YAML_MAPPING_END_EVENT) {
            yaml_event_delete(&event);
            return VV_OK;
        }
        char *key = NULL;
        vvi_yaml *item = NULL;
        const int line = (int)event.start_mark.line + 1;
        vv_status status = read_key(r, &event, map, &key);
        yaml_event_delete(&event);
        if (status == VV_OK)
            status = next_event(r, &event);
        if (status == VV_OK) {
            status = read_value(r, &event, depth + 1, &item);
            yaml_event_delete(&event);
        }
        if (status == VV_OK) {
            item->line = line;
            status = vvi_yaml_append(map, key, item);
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
            status = vvi_yaml_append(list, NULL, item);
        VV_TRY(status);
    }
}

static vv_status read_value(reader *r, yaml_event_t *event, int depth, vvi_yaml **out)
{
    *out = NULL;
    if (depth > VVI_YAML_DEPTH)
        return bad(r, &event->start_mark, "nested too deeply");
    if (++r->nodes > MAX_NODES)
        return bad(r, &event->start_mark, "too many entries for a recipe");
    VV_TRY(check_node(r, event));
    const int line = (int)event->start_mark.line + 1;
    vvi_yaml *node = NULL;
    vv_status status;
    if (event->type == YAML_SCALAR_EVENT) {
        VV_GO(vvi_yaml_new(&node, VVI_YAML_TEXT, line));
        VV_GO(vv_strdup(&node->text, (const char *)event->data.scalar.value));
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        VV_GO(vvi_yaml_new(&node, VVI_YAML_MAP, line));
        VV_GO(read_map(r, depth, node));
    } else {
        VV_GO(vvi_yaml_new(&node, VVI_YAML_LIST, line));
        VV_GO(read_list(r, depth, node));
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

/* *out = the document, NULL if there is none. */
static vv_status read_document(reader *r, vvi_yaml **out)
{
    yaml_event_t event;
    VV_TRY(expect(r, YAML_STREAM_START_EVENT, "not a YAML document"));
    VV_TRY(next_event(r, &event));
    const bool empty = event.type == YAML_STREAM_END_EVENT;
    yaml_event_delete(&event);
    if (empty)
        return VV_OK;
    VV_TRY(next_event(r, &event));
    vv_status status = read_value(r, &event, 0, out);
    yaml_event_delete(&event);
    VV_TRY(status);
    VV_TRY(expect(r, YAML_DOCUMENT_END_EVENT, "something follows the document"));
    return expect(r, YAML_STREAM_END_EVENT, "a recipe is one document");
}

static vv_status parse(vvi_yaml **out, const char *text, size_t length, const char *origin,
                       bool has_lines)
{
    *out = NULL;
    reader r = {.origin = origin, .text = text, .length = length, .has_lines = has_lines};
    if (length > MAX_BYTES)
        return vv_fail(VV_EFORMAT, "%s: %zu bytes are too many for a recipe; at most %d", origin,
                       length, MAX_BYTES);
    if (!yaml_parser_initialize(&r.parser))
        return vv_fail(VV_ENOMEM, "%s: out of memory", origin);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, length);
    vv_status status = read_document(&r, out);
    yaml_parser_delete(&r.parser);
    if (status != VV_OK) {
        vvi_yaml_free(*out);
        *out = NULL;
    }
    return status;
}

vv_status vvi_yaml_parse_value(vvi_yaml **out, const char *text, const char *origin)
{
    return parse(out, text, strlen(text), origin, false);
}

vv_status vvi_yaml_parse(vvi_yaml **out, const char *text, size_t length, const char *origin)
{
    VV_TRY(parse(out, text, length, origin, true));
    return *out ? VV_OK : vvi_yaml_new(out, VVI_YAML_MAP, 1);
}

vvi_yaml *vvi_yaml_get(const vvi_yaml *map, const char *key)
{
    if (map && map->kind == VVI_YAML_MAP)
        for (int i = 0; i < map->count; i++)
            if (strcmp(map->keys[i], key) == 0)
                return map->items[i];
    return NULL;
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
