/* yaml_tree.h - a YAML document as a small tree that remembers its lines. The only user of
 * libyaml. */
#ifndef VVI_YAML_TREE_H
#define VVI_YAML_TREE_H

#include <vivace/str.h>

typedef enum vvi_yaml_kind { VVI_YAML_TEXT, VVI_YAML_MAP, VVI_YAML_LIST } vvi_yaml_kind;

enum { VVI_YAML_DEPTH = 16 };

typedef struct vvi_yaml vvi_yaml;
struct vvi_yaml {
    vvi_yaml_kind kind;
    int line;   /* 1-based, of its key in a map; 0 = from an override */
    char *text; /* VVI_YAML_TEXT; "" for an empty value */
    int count;  /* entries of a map or list */
    char **keys;
    vvi_yaml **items;
};

/* One document of maps, lists and plain values; an empty one is a map without entries. Refuses
   anchors, tags, several documents, repeated keys, nesting deeper than 16 and more than 4096
   entries or 1 MiB. `origin` stands before the line in sentences. */
vv_status vvi_yaml_parse(vvi_yaml **out, const char *text, size_t length, const char *origin);
/* A single value, without lines; *out = NULL for an empty text. */
vv_status vvi_yaml_parse_value(vvi_yaml **out, const char *text, const char *origin);
vv_status vvi_yaml_new(vvi_yaml **out, vvi_yaml_kind kind, int line);
/* Takes `key` (NULL in lists) and `item`, even on failure. */
vv_status vvi_yaml_append(vvi_yaml *parent, char *key, vvi_yaml *item);
void vvi_yaml_free(vvi_yaml *node);
/* Entry of a map; NULL if absent or not a map. */
vvi_yaml *vvi_yaml_get(const vvi_yaml *map, const char *key);
/* Applies "a.b.c=value" (value is YAML). Missing maps are made, a plain name ("optimizer: sgd")
   becomes a map with `name`. List entries are given by number; in a list right below the root also
   by the name of the thing, which is added if missing. The tree may be half changed after a
   failure. */
vv_status vvi_yaml_override(vvi_yaml *root, const char *assignment);
/* The value as one text: lists as "[a, b]". VV_EINVAL for maps. */
vv_status vvi_yaml_flat(const vvi_yaml *node, vv_str *out);

#endif
