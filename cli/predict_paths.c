/* predict_paths.c - the images that words on the command line mean: files, folders with all that is
 * below them, patterns, and "-": a list on standard input, as it comes. */
#include "cli_predict.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vivace/memory.h>

void cli_paths_fini(cli_paths *p)
{
    for (int i = 0; i < p->pending_count; i++)
        vv_dealloc(p->pending[i]);
    vv_dealloc(p->pending);
    vv_str_fini(&p->input);
}

/* Names that are to be looked at before the next word, the last one first. */
static vv_status push(cli_paths *p, const char *folder, const char *name)
{
    vv_str path = {0};
    const size_t length = strlen(folder);
    vv_str_addf(&path, "%s%s%s", folder, length && folder[length - 1] != '/' ? "/" : "", name);
    vv_status status = vv_str_status(&path);
    if (status == VV_OK && p->pending_count == p->pending_room) {
        const int room = p->pending_room ? 2 * p->pending_room : 64;
        status = vv_realloc_array(&p->pending, (size_t)room, sizeof *p->pending);
        p->pending_room = status == VV_OK ? room : p->pending_room;
    }
    if (status == VV_OK)
        status = vv_strdup(&p->pending[p->pending_count], vv_str_text(&path));
    p->pending_count += status == VV_OK;
    vv_str_fini(&path);
    return status;
}

static int falling(const void *a, const void *b)
{
    return strcmp(*(char *const *)b, *(char *const *)a);
}

static void sort_from(cli_paths *p, int first)
{
    if (p->pending_count > first)
        qsort(p->pending + first, (size_t)(p->pending_count - first), sizeof *p->pending, falling);
}

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* A folder that is a link is not entered: it may lead back. */
static bool is_linked_folder(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && S_ISLNK(info.st_mode) && is_folder(path);
}

static bool has_image_name(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && (strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0 ||
                   strcasecmp(dot, ".png") == 0);
}

/* What lies in a folder: images by their names, and folders; hidden ones are left out. */
static vv_status enter(cli_paths *p, const char *path)
{
    DIR *folder = opendir(path);
    const int first = p->pending_count;
    vv_status status = VV_OK;
    if (!folder)
        return vv_fail(VV_EIO, "%s: %s", path, strerror(errno));
    for (const struct dirent *e; status == VV_OK && (e = readdir(folder));)
        if (e->d_name[0] != '.')
            status = push(p, path, e->d_name);
    closedir(folder);
    VV_TRY(status);
    int kept = first;
    for (int i = first; i < p->pending_count; i++) {
        char *name = p->pending[i];
        if ((is_folder(name) && !is_linked_folder(name)) ||
            (!is_folder(name) && has_image_name(name)))
            p->pending[kept++] = name;
        else
            vv_dealloc(name);
    }
    p->pending_count = kept;
    sort_from(p, first);
    return VV_OK;
}

static vv_status expand(cli_paths *p, const char *pattern)
{
    glob_t found;
    const int first = p->pending_count;
    vv_status status = VV_OK;
    if (glob(pattern, 0, NULL, &found) != 0)
        return push(p, "", pattern); /* told as a file that is not there */
    for (size_t i = 0; i < found.gl_pathc && status == VV_OK; i++)
        status = push(p, "", found.gl_pathv[i]);
    globfree(&found);
    sort_from(p, first);
    return status;
}

/* ---- standard input ---- */

/* A line of what has been read; false: there is no whole one (or, at the end, none). */
static bool take_line(cli_paths *p, vv_str *path)
{
    const char *text = vv_str_text(&p->input) + p->input_at;
    const size_t left = p->input.length - p->input_at;
    const char *newline = left ? memchr(text, '\n', left) : NULL;
    if (!newline && !(p->input_ended && left))
        return false;
    size_t length = newline ? (size_t)(newline - text) : left;
    p->input_at += length + (newline != NULL);
    if (length && text[length - 1] == '\r')
        length--;
    vv_str_addn(path, text, length);
    return true;
}

/* Waits a moment, so that whoever asks can stop. */
static vv_status read_input(cli_paths *p)
{
    char block[4096];
    struct pollfd one = {.fd = STDIN_FILENO, .events = POLLIN};
    if (p->input_at) { /* what was taken goes */
        vv_str rest = {0};
        vv_str_addn(&rest, vv_str_text(&p->input) + p->input_at, p->input.length - p->input_at);
        vv_str_fini(&p->input);
        p->input = rest;
        p->input_at = 0;
    }
    if (poll(&one, 1, 200) <= 0)
        return VV_OK;
    const ssize_t got = read(STDIN_FILENO, block, sizeof block);
    if (got < 0 && errno != EINTR)
        return vv_fail(VV_EIO, "standard input: %s", strerror(errno));
    if (got > 0)
        vv_str_addn(&p->input, block, (size_t)got);
    p->input_ended = got == 0;
    return vv_str_status(&p->input);
}

static vv_status next_line(cli_paths *p, vv_str *path)
{
    while (take_line(p, path))
        if (path->length)
            return vv_str_status(path);
    if (p->input_ended) {
        p->listening = false;
        return VV_OK;
    }
    VV_TRY(read_input(p));
    return take_line(p, path) ? vv_str_status(path) : VV_OK;
}

/* ---- the next one ---- */

vv_status cli_paths_next(void *ctx, vv_str *path, bool *end)
{
    cli_paths *p = ctx;
    while (!path->length) {
        if (p->listening)
            return next_line(p, path);
        if (p->pending_count) {
            char *name = p->pending[--p->pending_count];
            vv_status status = VV_OK;
            if (is_folder(name))
                status = enter(p, name);
            else
                vv_str_add(path, name);
            vv_dealloc(name);
            VV_TRY(status);
            continue;
        }
        if (p->word == p->word_count) {
            *end = true;
            return VV_OK;
        }
        const char *word = p->words[p->word++];
        struct stat info;
        if (strcmp(word, "-") == 0)
            p->listening = true;
        else if (stat(word, &info) != 0 && strpbrk(word, "*?["))
            VV_TRY(expand(p, word));
        else
            VV_TRY(push(p, "", word));
    }
    return vv_str_status(path);
}
