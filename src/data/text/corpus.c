/* corpus.c - files into documents; what they contain, as a fingerprint. */
#include "data/text/corpus_impl.h"

#include <stdio.h>
#include <string.h>

#include <vivace/memory.h>

#include "base/crc32.h"
#include "data/sha256.h"

vv_status vvi_corpus_add_document(vv_corpus *corpus, vvi_document document)
{
    if (corpus->document_count == corpus->document_room) {
        const size_t room = corpus->document_room ? corpus->document_room * 2 : 16;
        VV_TRY(vv_realloc_array(&corpus->documents, room, sizeof *corpus->documents));
        corpus->document_room = room;
    }
    corpus->documents[corpus->document_count++] = document;
    return VV_OK;
}

vv_status vvi_corpus_map(const vv_corpus *corpus, int32_t number, vvi_mapping *out)
{
    const vvi_text_file *file = &corpus->files[number];
    VV_TRY(vvi_file_map(out, file->path));
    if ((int64_t)out->bytes == file->bytes)
        return VV_OK;
    const size_t bytes = out->bytes;
    vvi_file_unmap(out);
    return vv_fail(VV_EIO, "%s: expected %lld bytes, found %zu; it changed while it was read",
                   file->path, (long long)file->bytes, bytes);
}

/* "\n", "\t" and "\\" in a setting. */
static vv_status read_separator(vv_corpus *corpus, const char *text)
{
    VV_TRY(vv_strdup(&corpus->separator, text));
    char *to = corpus->separator;
    for (const char *at = text; *at; at++) {
        if (at[0] == '\\' && (at[1] == 'n' || at[1] == 't' || at[1] == '\\')) {
            at++;
            *to++ = *at == 'n' ? '\n' : *at == 't' ? '\t' : '\\';
        } else {
            *to++ = *at;
        }
    }
    *to = '\0';
    corpus->separator_bytes = (size_t)(to - corpus->separator);
    return VV_OK;
}

static vv_status cut_file(vv_corpus *corpus, int32_t number)
{
    const int64_t bytes = corpus->files[number].bytes;
    vv_status status = VV_OK;
    vvi_mapping mapping;
    if (corpus->separator_bytes == 0)
        return vvi_corpus_add_document(corpus, (vvi_document){0, bytes, number, false});
    VV_TRY(vvi_corpus_map(corpus, number, &mapping));
    const char *text = mapping.data;
    for (int64_t at = 0; at < bytes;) {
        const char *found = memmem(text + at, (size_t)(bytes - at), corpus->separator,
                                   corpus->separator_bytes);
        const int64_t end = found ? found - text : bytes;
        if (end > at) /* nothing between two separators is no document */
            VV_GO(vvi_corpus_add_document(corpus, (vvi_document){at, end, number, false}));
        at = found ? end + (int64_t)corpus->separator_bytes : bytes;
    }
out:
    vvi_file_unmap(&mapping);
    return status;
}

static void count_all(vv_corpus *corpus)
{
    vv_corpus_info *info = &corpus->info;
    info->files = (int64_t)corpus->file_count;
    info->documents = (int64_t)corpus->document_count;
    info->bytes = info->eval_bytes = info->eval_documents = 0;
    for (size_t i = 0; i < corpus->document_count; i++) {
        const vvi_document *document = &corpus->documents[i];
        info->bytes += document->end - document->start;
        if (document->eval)
            info->eval_bytes += document->end - document->start;
        info->eval_documents += document->eval;
    }
}

vv_status vv_corpus_open(vv_corpus **out, const vv_corpus_opts *opts)
{
    vv_status status;
    vv_corpus *corpus = NULL;
    *out = NULL;
    if (opts->input_count < 1)
        return vv_fail(VV_EINVAL, "no files or folders with text are given");
    VV_GO(vv_alloc(&corpus, sizeof *corpus));
    VV_GO(read_separator(corpus, opts->separator ? opts->separator : ""));
    for (int i = 0; i < opts->input_count; i++)
        VV_GO(vvi_corpus_find(corpus, opts->inputs[i], opts->files ? opts->files : "*"));
    for (size_t i = 0; i < corpus->file_count; i++)
        VV_GO(cut_file(corpus, (int32_t)i));
    count_all(corpus);
    if (corpus->document_count == 0) {
        status = vv_fail(VV_EFORMAT, "%s: no text in it but the separator", opts->inputs[0]);
        goto out;
    }
    VV_GO(vvi_corpus_divide(corpus, opts));
    count_all(corpus);
    *out = corpus;
    return VV_OK;
out:
    vv_corpus_free(corpus);
    return status;
}

void vv_corpus_free(vv_corpus *corpus)
{
    if (!corpus)
        return;
    for (size_t i = 0; i < corpus->file_count; i++)
        vv_dealloc(corpus->files[i].path);
    vv_dealloc(corpus->files);
    vv_dealloc(corpus->documents);
    vv_dealloc(corpus->separator);
    vv_dealloc(corpus);
}

const vv_corpus_info *vv_corpus_info_of(const vv_corpus *corpus)
{
    return &corpus->info;
}

/* Length, CRC-32 and use of each document. A checksum is enough here: whoever can make two texts
   collide on purpose only fools their own cache. */
vv_status vv_corpus_fingerprint(const vv_corpus *corpus, char hex[65])
{
    vvi_sha256 sha;
    vvi_crc32 crc;
    vvi_mapping mapping = {NULL, 0};
    int32_t mapped = -1;
    vvi_sha256_init(&sha);
    vvi_crc32_init(&crc);
    hex[0] = '\0';
    for (size_t i = 0; i < corpus->document_count; i++) {
        const vvi_document *document = &corpus->documents[i];
        if (document->file != mapped) {
            vvi_file_unmap(&mapping);
            VV_TRY(vvi_corpus_map(corpus, document->file, &mapping));
            mapped = document->file;
        }
        vvi_crc32_reset(&crc);
        vvi_crc32_add(&crc, (const char *)mapping.data + document->start,
                      (size_t)(document->end - document->start));
        char line[64];
        const int length = snprintf(line, sizeof line, "%lld %08x %d\n",
                                    (long long)(document->end - document->start),
                                    (unsigned)vvi_crc32_value(&crc), document->eval);
        vvi_sha256_add(&sha, line, (size_t)length);
    }
    vvi_file_unmap(&mapping);
    vvi_sha256_hex(&sha, hex);
    return VV_OK;
}
