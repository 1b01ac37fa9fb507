/* The host's calls as `weir.h` shows them: batches into records, what is emitted into batches. Here is what operators and sinks share.
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
#define IMPORT(interface, name) __attribute__((import_module("weir:plugin/" interface "@1.0.0"), import_name(name)))
#define EXPORT(name) __attribute__((export_name(name)))
#else
#define IMPORT(interface, name)
#define EXPORT(name)
#endif

IMPORT("host", "log") void weir_host_log(const uint8_t *level, size_t level_len, const uint8_t *message, size_t message_len);
#ifndef WEIR_SINK
IMPORT("host", "emit")
void weir_host_emit(uint32_t port, uint32_t count, const uint8_t *data, size_t data_len, const uint8_t *index, size_t index_len,
                    const uint8_t *times, size_t times_len, const uint8_t *aux, size_t aux_len);
IMPORT("keyed-state", "get-many")
void weir_host_get_many(uint32_t state, const uint8_t *data, size_t data_len, const uint8_t *index, size_t index_len, cells *values);
IMPORT("keyed-state", "put-many")
void weir_host_put_many(uint32_t state, const uint8_t *data, size_t data_len, const uint8_t *index, size_t index_len,
                        const uint8_t *values, size_t values_len, const uint8_t *value_index, size_t value_index_len);
IMPORT("keyed-state", "delete-many")
void weir_host_delete_many(uint32_t state, const uint8_t *data, size_t data_len, const uint8_t *index, size_t index_len);
#endif
#ifdef WEIR_TIMERS
IMPORT("timer-service", "register-many")
void weir_host_register_many(const uint8_t *kind, size_t kind_len, uint32_t count, const uint8_t *data, size_t data_len,
                             const uint8_t *index, size_t index_len, const uint8_t *times, size_t times_len, const uint8_t *aux,
                             size_t aux_len);
IMPORT("timer-service", "delete-many")
void weir_host_delete_timers(const uint8_t *kind, size_t kind_len, uint32_t count, const uint8_t *data, size_t data_len,
                             const uint8_t *index, size_t index_len, const uint8_t *times, size_t times_len, const uint8_t *aux,
                             size_t aux_len);
IMPORT("timer-service", "current") int64_t weir_host_current(const uint8_t *kind, size_t kind_len);
#endif

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

/* ---- Headers: name and value, each a length and its bytes. ---- */

#define NULL_HEADER 0xffffffffu

static weir_bytes take_bytes(weir_bytes *rest, size_t len) {
    weir_bytes front = {rest->data, len};
    *rest = (weir_bytes){rest->data + len, rest->len - len};
    return front;
}

bool weir_next_header(weir_bytes *rest, weir_header *header) {
    if (rest->len < 8) return false;
    header->name = take_bytes(rest, u32_at(take_bytes(rest, 4).data, 0));
    uint32_t len = u32_at(take_bytes(rest, 4).data, 0);
    header->value_null = len == NULL_HEADER;
    header->value = take_bytes(rest, header->value_null ? 0 : len);
    return true;
}

void weir_add_header(weir_bytes *headers, weir_header header) {
    buffer b = {0};
    reserve(&b, headers->len + 8 + header.name.len + header.value.len);
    push(&b, *headers);
    push_u32(&b, (uint32_t)header.name.len);
    push(&b, header.name);
    push_u32(&b, header.value_null ? NULL_HEADER : (uint32_t)header.value.len);
    if (!header.value_null) push(&b, header.value);
    *headers = (weir_bytes){b.data, b.len};
}

EXPORT("cabi_realloc") void *weir_cabi_realloc(void *old, size_t old_size, size_t align, size_t size) {
    (void)align; /* 8 at most */
    uint8_t *at = allocate(size);
    if (old_size) copy(at, old, old_size < size ? old_size : size);
    return at;
}

#include "weir_files.c"
#ifdef WEIR_SINK
#include "weir_sink.c"
#else
#include "weir_operator.c"
#endif
