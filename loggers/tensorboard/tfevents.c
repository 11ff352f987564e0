/* tfevents.c - TensorBoard's event files. A file is TFRecords (uint64 length, uint32 masked CRC
 * of it, data, uint32 masked CRC of the data, all little-endian) of the message Event. Protocol
 * buffers' wire format is a key (field * 8 + kind) before each value; kinds: 0 varint, 1 eight
 * bytes, 2 length and bytes, 5 four bytes. */
#include "tfevents.h"

#include <string.h>

/* Field numbers of the messages in TensorBoard's event.proto, summary.proto and tensor.proto. */
enum {
    EVENT_WALL_TIME = 1,
    EVENT_STEP = 2,
    EVENT_FILE_VERSION = 3,
    EVENT_SUMMARY = 5,
    EVENT_SESSION_LOG = 7,
    SESSION_STATUS = 1,
    SUMMARY_VALUE = 1,
    VALUE_TAG = 1,
    VALUE_SIMPLE = 2,
    VALUE_TENSOR = 8,
    VALUE_METADATA = 9,
    METADATA_PLUGIN = 1,
    PLUGIN_NAME = 1,
    TENSOR_DTYPE = 1,
    TENSOR_STRING = 8,
};
enum { SESSION_START = 1, DTYPE_STRING = 7, MOST_RECORD = 64 << 20 };

void vvi_crc32c_init(vvi_crc32c *crc)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
        crc->table[i] = c;
    }
}

uint32_t vvi_crc32c_masked(const vvi_crc32c *crc, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uint32_t c = 0xffffffffu;
    for (size_t i = 0; i < bytes; i++)
        c = crc->table[(c ^ p[i]) & 0xff] ^ c >> 8;
    c ^= 0xffffffffu;
    return (c >> 15 | c << 17) + 0xa282ead8u;
}

/* ---- writing ---- */

static void add_little_endian(vv_str *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        const char c = (char)(value >> 8 * i & 0xff);
        vv_str_addn(out, &c, 1);
    }
}

static void add_varint(vv_str *out, uint64_t value)
{
    do {
        const char c = (char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        vv_str_addn(out, &c, 1);
        value >>= 7;
    } while (value);
}

static void add_int(vv_str *out, int field, int64_t value)
{
    add_varint(out, (uint64_t)field << 3);
    add_varint(out, (uint64_t)value);
}

static void add_double(vv_str *out, int field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    add_varint(out, (uint64_t)field << 3 | 1);
    add_little_endian(out, bits, 8);
}

static void add_float(vv_str *out, int field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    add_varint(out, (uint64_t)field << 3 | 5);
    add_little_endian(out, bits, 4);
}

static void add_bytes(vv_str *out, int field, const char *data, size_t bytes)
{
    add_varint(out, (uint64_t)field << 3 | 2);
    add_varint(out, bytes);
    if (bytes)
        vv_str_addn(out, data, bytes);
}

static void add_text(vv_str *out, int field, const char *text)
{
    add_bytes(out, field, text, strlen(text));
}

/* A message as a field; it is freed. Its failure becomes the outer one's. */
static void add_message(vv_str *out, int field, vv_str *message)
{
    if (vv_str_status(message) != VV_OK && out->status == VV_OK)
        out->status = message->status;
    add_bytes(out, field, vv_str_text(message), message->length);
    vv_str_fini(message);
}

static void add_head(vv_str *out, double wall_time, int64_t step)
{
    add_double(out, EVENT_WALL_TIME, wall_time);
    add_int(out, EVENT_STEP, step);
}

static void add_value(vv_str *out, vv_str *value)
{
    vv_str summary = {0};
    add_message(&summary, SUMMARY_VALUE, value);
    add_message(out, EVENT_SUMMARY, &summary);
}

void vvi_event_version(vv_str *out, double wall_time)
{
    add_double(out, EVENT_WALL_TIME, wall_time);
    add_text(out, EVENT_FILE_VERSION, "brain.Event:2");
}

void vvi_event_start(vv_str *out, double wall_time, int64_t step)
{
    vv_str log = {0};
    add_head(out, wall_time, step);
    add_int(&log, SESSION_STATUS, SESSION_START);
    add_message(out, EVENT_SESSION_LOG, &log);
}

void vvi_event_scalar(vv_str *out, double wall_time, int64_t step, const char *tag, double value)
{
    vv_str one = {0};
    add_head(out, wall_time, step);
    add_text(&one, VALUE_TAG, tag);
    add_float(&one, VALUE_SIMPLE, (float)value);
    add_value(out, &one);
}

void vvi_event_text(vv_str *out, double wall_time, int64_t step, const char *tag,
                    const char *markdown)
{
    vv_str one = {0}, tensor = {0}, metadata = {0}, plugin = {0};
    add_head(out, wall_time, step);
    add_text(&one, VALUE_TAG, tag);
    add_int(&tensor, TENSOR_DTYPE, DTYPE_STRING);
    add_text(&tensor, TENSOR_STRING, markdown);
    add_message(&one, VALUE_TENSOR, &tensor);
    add_text(&plugin, PLUGIN_NAME, "text");
    add_message(&metadata, METADATA_PLUGIN, &plugin);
    add_message(&one, VALUE_METADATA, &metadata);
    add_value(out, &one);
}

void vvi_event_record(vv_str *out, const vvi_crc32c *crc, const vv_str *event)
{
    unsigned char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)event->length >> 8 * i & 0xff);
    add_little_endian(out, event->length, 8);
    add_little_endian(out, vvi_crc32c_masked(crc, length, 8), 4);
    vv_str_addn(out, event->text, event->length);
    add_little_endian(out, vvi_crc32c_masked(crc, event->text, event->length), 4);
}

/* ---- reading ---- */

static uint64_t little_endian(const unsigned char *p, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)p[i] << 8 * i;
    return value;
}

typedef struct cursor {
    const unsigned char *at, *end;
} cursor;

static bool read_varint(cursor *c, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; c->at < c->end && shift < 64; shift += 7) {
        const unsigned char byte = *c->at++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

/* The next field: its number, and its value or its bytes. */
static bool read_field(cursor *c, uint64_t *field, uint64_t *value, cursor *inside)
{
    uint64_t key;
    if (!read_varint(c, &key))
        return false;
    *field = key >> 3;
    *value = 0;
    *inside = (cursor){c->at, c->at};
    const size_t left = (size_t)(c->end - c->at), fixed = (key & 7) == 1 ? 8 : 4;
    switch (key & 7) {
    case 0:
        return read_varint(c, value);
    case 1:
    case 5:
        c->at += fixed <= left ? fixed : left;
        return fixed <= left;
    case 2:
        if (!read_varint(c, value) || *value > (uint64_t)(c->end - c->at))
            return false;
        *inside = (cursor){c->at, c->at + *value};
        c->at += *value;
        return true;
    default:
        return false;
    }
}

/* The first field of that number that holds bytes. */
static bool find_bytes(cursor c, uint64_t wanted, cursor *out)
{
    uint64_t field, value;
    while (read_field(&c, &field, &value, out))
        if (field == wanted && out->end > out->at)
            return true;
    return false;
}

static void view_event(const vv_str *data, vvi_event_view *out)
{
    const unsigned char *text = (const unsigned char *)vv_str_text(data);
    const cursor whole = {text, text + data->length};
    cursor c = whole, inside, summary, value, tag;
    uint64_t field, number;
    *out = (vvi_event_view){0, NULL, 0};
    while (read_field(&c, &field, &number, &inside))
        if (field == EVENT_STEP)
            out->step = (int64_t)number;
    if (find_bytes(whole, EVENT_SUMMARY, &summary) && find_bytes(summary, SUMMARY_VALUE, &value) &&
        find_bytes(value, VALUE_TAG, &tag)) {
        out->tag = (const char *)tag.at;
        out->tag_bytes = (size_t)(tag.end - tag.at);
    }
}

bool vvi_event_read(FILE *file, const vvi_crc32c *crc, vv_str *data, vvi_event_view *out)
{
    unsigned char head[12], part[4096];
    vv_str_clear(data);
    if (fread(head, 1, 12, file) != 12 ||
        little_endian(head + 8, 4) != vvi_crc32c_masked(crc, head, 8))
        return false;
    const uint64_t length = little_endian(head, 8);
    if (length > MOST_RECORD)
        return false;
    while (data->length < length) {
        size_t want = (size_t)length - data->length;
        want = want < sizeof part ? want : sizeof part;
        if (fread(part, 1, want, file) != want)
            return false;
        vv_str_addn(data, (const char *)part, want);
        if (vv_str_status(data) != VV_OK)
            return false;
    }
    if (fread(head, 1, 4, file) != 4 ||
        little_endian(head, 4) != vvi_crc32c_masked(crc, vv_str_text(data), data->length))
        return false;
    view_event(data, out);
    return true;
}
