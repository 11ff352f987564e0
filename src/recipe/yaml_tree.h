/* yaml_tree.h - a YAML document as a small tree that remembers its lines. The only user of libyaml. */
#ifndef VVI_YAML_TREE_H
#define VVI_YAML_TREE_H

#include <vivace/str.h>

typedef enum vvi_yaml_kind { VVI_YAML_TEXT, VVI_YAML_MAP, VVI_YAML_LIST } vvi_yaml_kind;

typedef struct vvi_yaml vvi_yaml;
struct vvi_yaml {
    vvi_yaml_kind kind;
    int line;   /* 1-based; 0 = from the command line */
    char *text; /* VVI_YAML_TEXT; "" for an empty value */
    int count;  /* entries of a map or list */
    char **keys;
    vvi_yaml **items;
};

/* One document of maps, lists and plain values. Refuses anchors, tags, several documents, repeated
   keys and nesting deeper than 16. `origin` stands before the line in sentences. */
vv_status vvi_yaml_parse(vvi_yaml **out, const char *text, size_t length, const char *origin);
void vvi_yaml_free(vvi_yaml *node);
/* Entry of a map; NULL if absent or not a map. */
vvi_yaml *vvi_yaml_get(const vvi_yaml *map, const char *key);
/* Applies "a.b.c=value" (value is YAML; list entries by number). Missing maps are made. */
vv_status vvi_yaml_override(vvi_yaml *root, const char *assignment);
/* The value as one text: lists as "[a, b]". VV_EINVAL for maps. */
vv_status vvi_yaml_flat(const vvi_yaml *node, vv_str *out);

#endif
