/* json_check.c - `json_check [--lines] FILE KEY[:TYPE] ...`: the file holds one JSON value (with
 * --lines: one a line, at least one) in which each dotted key exists and is of the type named
 * (number, string, object, array, boolean). Numbers in a key count into arrays: "0.name".
 * `KEY=TEXT` wants exactly that text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

static const json_t *find(const json_t *at, const char *path)
{
    char part[256];
    while (at && *path) {
        size_t n = strcspn(path, ".");
        if (n == 0 || n >= sizeof part)
            return NULL;
        memcpy(part, path, n);
        part[n] = 0;
        at = json_is_array(at) ? json_array_get(at, (size_t)strtoul(part, NULL, 10))
                               : json_object_get(at, part);
        path += n + (path[n] == '.');
    }
    return at;
}

static const char *type_name(const json_t *value)
{
    if (json_is_number(value))
        return "number";
    if (json_is_string(value))
        return "string";
    if (json_is_object(value))
        return "object";
    if (json_is_array(value))
        return "array";
    return json_is_boolean(value) ? "boolean" : "null";
}

static int check_key(const json_t *root, const char *key)
{
    char path[256];
    const size_t n = strcspn(key, ":=");
    if (n >= sizeof path)
        return 1;
    memcpy(path, key, n);
    path[n] = 0;
    const json_t *value = find(root, path);
    if (!value) {
        fprintf(stderr, "json_check: no %s\n", path);
        return 1;
    }
    if (key[n] == ':' && strcmp(key + n + 1, type_name(value)) != 0) {
        fprintf(stderr, "json_check: %s is a %s\n", key, type_name(value));
        return 1;
    }
    if (key[n] == '=' &&
        (!json_is_string(value) || strcmp(json_string_value(value), key + n + 1) != 0)) {
        fprintf(stderr, "json_check: %s, but it is '%s'\n", key,
                json_is_string(value) ? json_string_value(value) : "");
        return 1;
    }
    return 0;
}

static int check(const char *text, size_t length, char **keys, int count)
{
    json_error_t error;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    int wrong = 0;
    if (!root) {
        fprintf(stderr, "json_check: %s (line %d): %.*s\n", error.text, error.line,
                (int)(length < 200 ? length : 200), text);
        return 1;
    }
    for (int i = 0; i < count; i++)
        wrong += check_key(root, keys[i]);
    json_decref(root);
    return wrong;
}

int main(int argc, char **argv)
{
    static char text[1 << 22];
    const int lines = argc > 1 && strcmp(argv[1], "--lines") == 0;
    FILE *file = argc > 1 + lines ? fopen(argv[1 + lines], "rb") : NULL;
    if (!file) {
        fprintf(stderr, "usage: json_check [--lines] FILE KEY[:TYPE] ...\n");
        return 2;
    }
    const size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    char **keys = argv + 2 + lines;
    const int count = argc - 2 - lines;
    if (!lines)
        return check(text, length, keys, count) != 0;
    int wrong = 0, seen = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), seen++)
        wrong += check(line, strlen(line), keys, count);
    return wrong != 0 || seen == 0;
}
