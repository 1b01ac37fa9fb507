/* The host's calls as `weir.h` shows them: batches into records, what is emitted into batches.
 *
 * The structs below lie in memory as the component model's canonical ABI wants them on wasm32, so nothing is translated.
 * Natively the same code runs, and weir_test.h calls it.
 */
#include "weir.h"

/* Bytes of keys and values at which a batch is handed over in the middle of a call. */
#define CHUNK_BYTES (256u << 10)

#define MARK_KEY_PRESENT 1u
#define MARK_VALUE_NULL 2u
#define TAG_MARKS 1u
#define TAG_HEADERS 2u

/* ---- Memory: a stack that every call leaves as it found it. ---- */

#ifdef __wasm__
extern uint8_t __heap_base;
#define PAGE 65536u
static uint8_t *top, *floor_;
static void memory_begin(void) {
    if (!top) top = floor_ = (uint8_t *)(((uintptr_t)&__heap_base + 7) & ~(uintptr_t)7);
}
static bool memory_reaches(uintptr_t end) {
    uintptr_t have = __builtin_wasm_memory_size(0) * PAGE;
    return end <= have || __builtin_wasm_memory_grow(0, (end - have + PAGE - 1) / PAGE) != (size_t)-1;
}
#else
static _Alignas(8) uint8_t memory[64 << 20];
static uint8_t *top = memory, *floor_ = memory;
static void memory_begin(void) {}
static bool memory_reaches(uintptr_t end) { return end <= (uintptr_t)(memory + sizeof memory); }
#endif

static void *allocate(size_t size) {
    memory_begin();
    uint8_t *at = top;
    size_t room = (size + 7) & ~(size_t)7;
    if (room < size || (uintptr_t)at + room < (uintptr_t)at || !memory_reaches((uintptr_t)at + room)) {
        weir_log("error", WEIR_TEXT("out of memory"));
        __builtin_trap();
    }
    top = at + room;
    return at;
}

static void copy(uint8_t *to, const uint8_t *from, size_t len) {
    /* Short ones are most: an engine calls out for its bulk copy. */
    if (len > 64) {
        __builtin_memcpy(to, from, len);
        return;
    }
    for (; len >= 8; len -= 8, to += 8, from += 8) __builtin_memcpy(to, from, 8);
    for (; len; len--) *to++ = *from++;
}

static void zero(uint8_t *at, size_t len) {
    while (len--) *at++ = 0;
}

void *weir_scratch(size_t size) { return allocate(size); }
void *weir_keep(size_t size) { return allocate(size); }

/* Everything that grew since the last call ended is given up; with `keep`, it stays for good. */
static void end_call(bool keep) {
    memory_begin();
    if (keep) floor_ = top;
    top = floor_;
}

/* ---- What crosses the boundary. ---- */

typedef struct list {
    uint8_t *data;
    size_t len;
} list;

typedef struct batch {
    uint32_t count;
    list data, index, times, aux;
} batch;

typedef struct cells {
    list ops, data, index;
} cells;

typedef struct side {
    uint32_t port;
    batch records;
} side;

typedef struct output {
    batch main;
    struct { side *data; size_t len; } sides;
    struct { cells *data; size_t len; } updates;
} output;

typedef struct bad_record {
    uint32_t index;
    weir_bytes why;
} bad_record;

enum { ERROR_RETRY, ERROR_BAD_INPUT, ERROR_FATAL };

typedef struct error {
    uint8_t tag;
    union {
        weir_bytes text;
        struct { bad_record *data; size_t len; } bad;
    } as;
} error;

typedef struct process_result {
    uint8_t failed;
    union { output ok; error error; } as;
} process_result;

typedef struct open_result {
    uint8_t failed;
    error error;
} open_result;

typedef struct state_desc {
    weir_bytes name, kind;
    uint32_t schema_version;
    uint8_t prefetch;
} state_desc;

typedef struct descriptor {
    weir_bytes name, version;
    struct { state_desc *data; size_t len; } states;
    struct { weir_bytes *data; size_t len; } side_outputs;
    uint32_t inputs;
} descriptor;

#ifdef __wasm__
_Static_assert(sizeof(process_result) == 56 && sizeof(open_result) == 16 && sizeof(descriptor) == 36, "as the ABI has them");
_Static_assert(sizeof(state_desc) == 24 && sizeof(side) == 40 && sizeof(cells) == 24, "as the ABI has them");
#define IMPORT(name) __attribute__((import_module("weir:plugin/host@1.0.0"), import_name(name)))
#define EXPORT(name) __attribute__((export_name(name)))
#else
#define IMPORT(name)
#define EXPORT(name)
#endif

IMPORT("log") void weir_host_log(const uint8_t *level, size_t level_len, const uint8_t *message, size_t message_len);
IMPORT("emit")
void weir_host_emit(uint32_t port, uint32_t count, const uint8_t *data, size_t data_len, const uint8_t *index, size_t index_len,
                    const uint8_t *times, size_t times_len, const uint8_t *aux, size_t aux_len);

void weir_log(const char *level, weir_bytes message) {
    weir_bytes text = weir_text(level);
    weir_host_log(text.data, text.len, message.data, message.len);
}

/* ---- Little-endian, at any alignment. ---- */

static uint32_t u32_at(const uint8_t *at, size_t i) {
    uint32_t number;
    __builtin_memcpy(&number, at + 4 * i, 4);
    return number;
}

static int64_t s64_at(const uint8_t *at, size_t i) {
    int64_t number;
    __builtin_memcpy(&number, at + 8 * i, 8);
    return number;
}

/* ---- Growing bytes. ---- */

typedef struct buffer {
    uint8_t *data;
    size_t len, room;
} buffer;

static void reserve(buffer *b, size_t more) {
    if (b->room - b->len >= more) return;
    size_t room = b->room * 2 > b->len + more ? b->room * 2 : b->len + more;
    if (room < 64) room = 64;
    room = (room + 7) & ~(size_t)7;
    if (b->data && b->data + b->room == top) {
        allocate(room - b->room);
    } else {
        uint8_t *data = allocate(room);
        copy(data, b->data, b->len);
        b->data = data;
    }
    b->room = room;
}

static inline void push(buffer *b, weir_bytes bytes) {
    reserve(b, bytes.len);
    copy(b->data + b->len, bytes.data, bytes.len);
    b->len += bytes.len;
}

static inline void push_u32(buffer *b, uint32_t number) {
    reserve(b, 4);
    __builtin_memcpy(b->data + b->len, &number, 4);
    b->len += 4;
}

static void push_byte(buffer *b, uint8_t byte) {
    reserve(b, 1);
    b->data[b->len++] = byte;
}

static void push_zeros(buffer *b, size_t count) {
    reserve(b, count);
    zero(b->data + b->len, count);
    b->len += count;
}

static list list_of(const buffer *b) { return (list){b->data, b->len}; }

/* ---- Output. ---- */

typedef struct port {
    uint32_t number;
    uint32_t count;
    buffer data, index, times;
    /* One byte a record; empty until the first that says something. */
    buffer marks;
    /* (count + 1) offsets and the bytes; empty until the first record with headers. */
    buffer header_index, headers;
} port;

struct weir_output {
    port *ports;
    uint32_t sides;
    /* Set once the call is known to fail: what it gives would be thrown away. */
    bool discard;
};

static list aux_of(port *p) {
    size_t marks = p->marks.len, headers = p->header_index.len + p->headers.len;
    buffer aux = {0};
    if (marks) {
        reserve(&aux, 6 + marks + 6 + headers);
        push(&aux, (weir_bytes){(const uint8_t[]){TAG_MARKS, 0}, 2});
        push_u32(&aux, (uint32_t)marks);
        push(&aux, (weir_bytes){p->marks.data, marks});
    }
    if (headers) {
        push(&aux, (weir_bytes){(const uint8_t[]){TAG_HEADERS, 0}, 2});
        push_u32(&aux, (uint32_t)headers);
        push(&aux, (weir_bytes){p->header_index.data, p->header_index.len});
        push(&aux, (weir_bytes){p->headers.data, p->headers.len});
    }
    return list_of(&aux);
}

static batch batch_of(port *p) {
    if (!p->count) return (batch){0};
    return (batch){p->count, list_of(&p->data), list_of(&p->index), list_of(&p->times), aux_of(p)};
}

static void hand_over(port *p) {
    batch b = batch_of(p);
    weir_host_emit(p->number, b.count, b.data.data, b.data.len, b.index.data, b.index.len, b.times.data, b.times.len, b.aux.data,
                   b.aux.len);
    p->count = 0;
    p->data.len = p->index.len = p->times.len = p->marks.len = p->header_index.len = p->headers.len = 0;
}

static void begin_record(port *p, weir_bytes key) {
    if (!p->index.len) push_u32(&p->index, 0);
    push(&p->data, key);
    push_u32(&p->index, (uint32_t)p->data.len);
}

static void end_record(port *p, int64_t time, uint8_t marks, weir_bytes headers) {
    push_u32(&p->index, (uint32_t)p->data.len);
    reserve(&p->times, 8);
    __builtin_memcpy(p->times.data + p->times.len, &time, 8);
    p->times.len += 8;
    if (marks || p->marks.len) {
        if (!p->marks.len) push_zeros(&p->marks, p->count);
        push_byte(&p->marks, marks);
    }
    if (headers.len || p->header_index.len) {
        if (!p->header_index.len) push_zeros(&p->header_index, 4 * ((size_t)p->count + 1));
        push(&p->headers, headers);
        push_u32(&p->header_index, (uint32_t)p->headers.len);
    }
    p->count++;
    if (p->data.len + p->headers.len >= CHUNK_BYTES) hand_over(p);
}

static port *side_port(weir_output *out, uint32_t side) {
    if (side >= out->sides) {
        weir_log("error", WEIR_TEXT("a record was emitted to a side output that is not declared"));
        __builtin_trap();
    }
    return &out->ports[1 + side];
}

static void emit(weir_output *out, port *p, weir_bytes key, weir_bytes value, int64_t time, uint8_t marks, weir_bytes headers) {
    if (out->discard) return;
    begin_record(p, key);
    push(&p->data, value);
    end_record(p, time, marks, headers);
}

void weir_emit(weir_output *out, weir_bytes key, weir_bytes value, int64_t time) {
    emit(out, out->ports, key, value, time, 0, (weir_bytes){0});
}

void weir_emit_side(weir_output *out, uint32_t side, weir_bytes key, weir_bytes value, int64_t time) {
    emit(out, side_port(out, side), key, value, time, 0, (weir_bytes){0});
}

void weir_emit_null(weir_output *out, weir_bytes key, int64_t time) {
    emit(out, out->ports, key, (weir_bytes){0}, time, MARK_VALUE_NULL, (weir_bytes){0});
}

static uint8_t key_mark(const weir_record *r) { return !r->key_null && !r->key.len ? MARK_KEY_PRESENT : 0; }

static void forward(weir_output *out, port *p, const weir_record *r) {
    emit(out, p, r->key, r->value, r->time, key_mark(r) | (r->value_null ? MARK_VALUE_NULL : 0), r->headers);
}

void weir_forward(weir_output *out, const weir_record *record) { forward(out, out->ports, record); }
void weir_forward_side(weir_output *out, uint32_t side, const weir_record *record) { forward(out, side_port(out, side), record); }
void weir_forward_value(weir_output *out, const weir_record *record, weir_bytes value) {
    emit(out, out->ports, record->key, value, record->time, key_mark(record), record->headers);
}

void weir_begin(weir_output *out, weir_bytes key) {
    if (!out->discard) begin_record(out->ports, key);
}
void weir_write(weir_output *out, weir_bytes bytes) {
    if (!out->discard) push(&out->ports->data, bytes);
}
void weir_write_byte(weir_output *out, uint8_t byte) {
    if (!out->discard) push_byte(&out->ports->data, byte);
}
void weir_write_int(weir_output *out, int64_t number) {
    uint8_t text[20];
    size_t at = sizeof text;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do text[--at] = (uint8_t)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0) text[--at] = '-';
    weir_write(out, (weir_bytes){text + at, sizeof text - at});
}
void weir_end(weir_output *out, int64_t time) {
    if (!out->discard) end_record(out->ports, time, 0, (weir_bytes){0});
}

/* ---- Failures. ---- */

static buffer why_;

void weir_why(weir_bytes part) { push(&why_, part); }

weir_status weir_fail(weir_status status, const char *why) {
    weir_why(weir_text(why));
    return status;
}

/* What was said since the last failure. */
static weir_bytes take_why(void) {
    weir_bytes why = {why_.data, why_.len};
    why_ = (buffer){0};
    return why;
}

static error error_of(weir_status status) {
    return (error){.tag = status == WEIR_RETRY ? ERROR_RETRY : ERROR_FATAL, .as.text = take_why()};
}

/* ---- State. ---- */

void weir_set(weir_value *value, weir_bytes bytes) {
    uint8_t *data = allocate(bytes.len);
    copy(data, bytes.data, bytes.len);
    *value = (weir_value){data, bytes.len, true, true};
}

void weir_delete(weir_value *value) { *value = (weir_value){.changed = value->present || value->changed}; }

void *weir_struct(weir_value *value, size_t size) {
    if (value->present && value->len != size) return NULL;
    if (!value->present || (uintptr_t)value->data % 8) {
        uint8_t *data = allocate(size);
        if (value->present) copy(data, value->data, size);
        else zero(data, size);
        value->data = data;
    }
    value->len = size;
    value->present = value->changed = true;
    return value->data;
}

/* One value for each key and state, those of a key side by side. */
static weir_value *load(const cells *states, uint32_t count, size_t keys) {
    weir_value *values = allocate(keys * count * sizeof(weir_value));
    for (uint32_t s = 0; s < count; s++)
        for (size_t k = 0; k < keys; k++) {
            uint32_t from = u32_at(states[s].index.data, k), to = u32_at(states[s].index.data, k + 1);
            values[k * count + s] = (weir_value){states[s].data.data + from, to - from, states[s].ops.data[k] == 1, false};
        }
    return values;
}

static void store(const weir_value *values, uint32_t count, size_t keys, output *ok) {
    bool changed = false;
    for (size_t i = 0; i < keys * count; i++) changed |= values[i].changed;
    if (!changed) return;
    ok->updates.data = allocate(count * sizeof(cells));
    ok->updates.len = count;
    for (uint32_t s = 0; s < count; s++) {
        buffer ops = {0}, index = {0}, data = {0};
        size_t bytes = 0;
        for (size_t k = 0; k < keys; k++) bytes += values[k * count + s].changed ? values[k * count + s].len : 0;
        reserve(&ops, keys);
        reserve(&index, 4 * (keys + 1));
        reserve(&data, bytes);
        push_u32(&index, 0);
        for (size_t k = 0; k < keys; k++) {
            const weir_value *value = &values[k * count + s];
            push_byte(&ops, !value->changed ? 0 : value->present ? 1 : 2);
            if (value->changed && value->present) push(&data, (weir_bytes){value->data, value->len});
            push_u32(&index, (uint32_t)data.len);
        }
        ok->updates.data[s] = (cells){list_of(&ops), list_of(&data), list_of(&index)};
    }
}

/* ---- Input. ---- */

typedef struct input {
    const uint8_t *data, *index, *times, *marks, *header_index, *headers;
} input;

/* Finds the blocks of `aux`. */
static void find_blocks(input *in, uint32_t count, const uint8_t *aux, size_t len) {
    for (size_t at = 0; at + 6 <= len;) {
        uint32_t tag = aux[at] | (uint32_t)aux[at + 1] << 8, size = u32_at(aux + at + 2, 0);
        const uint8_t *block = aux + at + 6;
        if (tag == TAG_MARKS) in->marks = block;
        if (tag == TAG_HEADERS) {
            in->header_index = block;
            in->headers = block + 4 * ((size_t)count + 1);
        }
        at += 6 + (size_t)size;
    }
}

static weir_record record_at(const input *in, uint32_t i, uint32_t port) {
    uint32_t a = u32_at(in->index, 2 * (size_t)i), b = u32_at(in->index, 2 * (size_t)i + 1), c = u32_at(in->index, 2 * (size_t)i + 2);
    uint8_t marks = in->marks ? in->marks[i] : 0;
    weir_record record = {.key = {in->data + a, b - a}, .value = {in->data + b, c - b}, .time = s64_at(in->times, i), .port = port};
    record.key_null = a == b && !(marks & MARK_KEY_PRESENT);
    record.value_null = marks & MARK_VALUE_NULL;
    if (in->header_index) {
        uint32_t from = u32_at(in->header_index, i), to = u32_at(in->header_index, i + 1);
        record.headers = (weir_bytes){in->headers + from, to - from};
    }
    return record;
}

/* ---- Exports. ---- */

EXPORT("cabi_realloc") void *weir_cabi_realloc(void *old, size_t old_size, size_t align, size_t size) {
    (void)align; /* 8 at most */
    uint8_t *at = allocate(size);
    if (old_size) copy(at, old, old_size < size ? old_size : size);
    return at;
}

EXPORT("weir:plugin/operator@1.0.0#describe") descriptor *weir_export_describe(void) {
    const weir_operator *o = &weir_plugin;
    descriptor *d = allocate(sizeof *d);
    *d = (descriptor){weir_text(o->name), weir_text(o->version), {0}, {0}, o->inputs};
    d->states.data = allocate(o->state_count * sizeof(state_desc));
    d->states.len = o->state_count;
    for (uint32_t i = 0; i < o->state_count; i++)
        d->states.data[i] = (state_desc){weir_text(o->states[i].name), WEIR_TEXT("value"), o->states[i].version, 1};
    d->side_outputs.data = allocate(o->side_output_count * sizeof(weir_bytes));
    d->side_outputs.len = o->side_output_count;
    for (uint32_t i = 0; i < o->side_output_count; i++) d->side_outputs.data[i] = weir_text(o->side_outputs[i]);
    return d;
}

EXPORT("weir:plugin/operator@1.0.0#open")
open_result *weir_export_open(const uint8_t *job, size_t job_len, const uint8_t *name, size_t name_len, uint32_t subtask,
                              uint32_t parallelism, uint32_t attempt, const uint8_t *config, size_t config_len) {
    weir_task *task = allocate(sizeof *task);
    *task = (weir_task){{job, job_len}, {name, name_len}, subtask, parallelism, attempt};
    open_result *result = allocate(sizeof *result);
    *result = (open_result){0};
    weir_status status = weir_plugin.open ? weir_plugin.open(task, (weir_bytes){config, config_len}) : WEIR_OK;
    if (status != WEIR_OK) *result = (open_result){1, error_of(status)};
    return result;
}

EXPORT("weir:plugin/operator@1.0.0#process")
process_result *weir_export_process(uint32_t port_, uint32_t count, const uint8_t *data, size_t data_len, const uint8_t *index,
                                    size_t index_len, const uint8_t *times, size_t times_len, const uint8_t *aux, size_t aux_len,
                                    const uint8_t *key_of, size_t key_of_len, const cells *states, size_t state_count) {
    (void)index_len, (void)times_len;
    const weir_operator *o = &weir_plugin;
    process_result *result = allocate(sizeof *result);
    *result = (process_result){0};
    size_t keys = state_count ? states[0].ops.len : 0;
    weir_value *values = load(states, (uint32_t)state_count, keys);
    weir_output out = {allocate((1 + o->side_output_count) * sizeof(port)), o->side_output_count, false};
    for (uint32_t i = 0; i <= out.sides; i++) out.ports[i] = (port){.number = i};
    /* About as much as came in goes out. */
    reserve(&out.ports->index, 4 * (2 * (size_t)count + 1));
    reserve(&out.ports->times, 8 * (size_t)count);
    reserve(&out.ports->data, data_len < CHUNK_BYTES ? data_len : CHUNK_BYTES);
    input in = {.data = data, .index = index, .times = times};
    find_blocks(&in, count, aux, aux_len);
    buffer bad = {0};
    why_ = (buffer){0};
    for (uint32_t i = 0; i < count; i++) {
        weir_record record = record_at(&in, i, port_);
        weir_value *of_key = key_of_len && state_count ? values + u32_at(key_of, i) * state_count : NULL;
        weir_status status = o->process(&record, of_key, &out);
        if (__builtin_expect(status == WEIR_OK, 1)) continue;
        if (status != WEIR_BAD_RECORD) {
            result->failed = 1;
            result->as.error = error_of(status);
            return result;
        }
        /* The rest is looked at, too, so that the host hears of all bad records at once. */
        out.discard = true;
        bad_record entry = {i, take_why()};
        push(&bad, (weir_bytes){(const uint8_t *)&entry, sizeof entry});
    }
    if (bad.len) {
        result->failed = 1;
        result->as.error.tag = ERROR_BAD_INPUT;
        result->as.error.as.bad.data = (bad_record *)(void *)bad.data;
        result->as.error.as.bad.len = bad.len / sizeof(bad_record);
        return result;
    }
    output *ok = &result->as.ok;
    store(values, (uint32_t)state_count, keys, ok);
    ok->main = batch_of(out.ports);
    ok->sides.data = allocate(out.sides * sizeof(side));
    for (uint32_t i = 1; i <= out.sides; i++)
        if (out.ports[i].count) ok->sides.data[ok->sides.len++] = (side){i - 1, batch_of(&out.ports[i])};
    return result;
}

EXPORT("weir:plugin/operator@1.0.0#close") void weir_export_close(void) {
    if (weir_plugin.close) weir_plugin.close();
}

EXPORT("cabi_post_weir:plugin/operator@1.0.0#describe") void weir_post_describe(void *answer) {
    (void)answer;
    end_call(false);
}
/* What `open` was given and made stays. */
EXPORT("cabi_post_weir:plugin/operator@1.0.0#open") void weir_post_open(void *answer) {
    (void)answer;
    end_call(true);
}
EXPORT("cabi_post_weir:plugin/operator@1.0.0#process") void weir_post_process(void *answer) {
    (void)answer;
    end_call(false);
}
