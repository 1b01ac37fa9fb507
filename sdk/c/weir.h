/* Weir operators in C: one header and one source file, no libc.
 *
 * An operator is a function that gets record after record; this file's other half (weir.c) turns the host's batches into records
 * and what it emits into batches. It compiles for wasm32 without any library, and natively for tests (weir_test.h).
 *
 * A plugin defines `const weir_operator weir_plugin`. See README.md.
 */
#ifndef WEIR_H
#define WEIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that somebody else owns. */
typedef struct weir_bytes {
    const uint8_t *data;
    size_t len;
} weir_bytes;

/* A string literal as bytes. */
#define WEIR_TEXT(literal) ((weir_bytes){(const uint8_t *)(literal), sizeof(literal) - 1})

/* A text as bytes. */
static inline weir_bytes weir_text(const char *text) {
    size_t len = 0;
    while (text[len]) len++;
    return (weir_bytes){(const uint8_t *)text, len};
}

static inline bool weir_equal(weir_bytes a, weir_bytes b) {
    if (a.len != b.len) return false;
    for (size_t i = 0; i < a.len; i++)
        if (a.data[i] != b.data[i]) return false;
    return true;
}

/* One record. It is valid until `process` returns. */
typedef struct weir_record {
    weir_bytes key;
    weir_bytes value;
    /* Event time, milliseconds since the Unix epoch. */
    int64_t time;
    /* Which input, in the order of the job file's `from`. */
    uint32_t port;
    /* Null is not the same as empty: such a key or value has no bytes, either. */
    bool key_null;
    bool value_null;
    /* Headers as they cross the boundary; `weir_forward` keeps them. See `aux` in wit/types.wit. */
    weir_bytes headers;
} weir_record;

/* The value of one state for the record's key. Read `data` and `len` while `present`; change it by the functions below. */
typedef struct weir_value {
    uint8_t *data;
    size_t len;
    bool present;
    bool changed;
} weir_value;

/* Sets a value; the bytes are copied. */
void weir_set(weir_value *value, weir_bytes bytes);
/* Deletes a value; an absent one is no error. */
void weir_delete(weir_value *value);
/* The value as a struct of `size` bytes to be changed in place, all zero if it was absent; it counts as changed. NULL if what is
 * stored has another size: then the state's version must be raised. A struct without padding and pointers, whose fields are
 * little-endian integers in order, is what the Rust SDK's `state_value!` stores, too. */
void *weir_struct(weir_value *value, size_t size);

/* Where records go. A side output is counted from 0, as in `side_outputs`. */
typedef struct weir_output weir_output;

/* Emits a record without headers. The bytes are copied. An empty key is null. */
void weir_emit(weir_output *out, weir_bytes key, weir_bytes value, int64_t time);
void weir_emit_side(weir_output *out, uint32_t side, weir_bytes key, weir_bytes value, int64_t time);
/* Emits a record with a null value: in a compacted Kafka topic, the deletion of its key. */
void weir_emit_null(weir_output *out, weir_bytes key, int64_t time);
/* Passes a record on as it is, headers and all. */
void weir_forward(weir_output *out, const weir_record *record);
void weir_forward_side(weir_output *out, uint32_t side, const weir_record *record);
/* The same with another value. */
void weir_forward_value(weir_output *out, const weir_record *record, weir_bytes value);

/* A value in parts: begin, write as often as needed, end. Nothing else is emitted in between. */
void weir_begin(weir_output *out, weir_bytes key);
void weir_write(weir_output *out, weir_bytes bytes);
void weir_write_byte(weir_output *out, uint8_t byte);
/* A number in decimal. */
void weir_write_int(weir_output *out, int64_t number);
void weir_end(weir_output *out, int64_t time);

/* What a function of the operator says. */
typedef enum weir_status {
    WEIR_OK = 0,
    /* This record can't be processed: the host does with it what the job's `on_bad_record` says, and calls again without it. */
    WEIR_BAD_RECORD,
    /* Transient: the host calls again with the same input, a bounded number of times. */
    WEIR_RETRY,
    /* The job's attempt fails. */
    WEIR_FATAL,
} weir_status;

/* Says why, and gives `status`: `return weir_fail(WEIR_BAD_RECORD, "too few fields")`. Of several parts: `weir_why` before it, each
 * appends. Nothing that the call did is applied. */
weir_status weir_fail(weir_status status, const char *why);
void weir_why(weir_bytes part);

/* Writes to the host's log. `level`: "trace", "debug", "info", "warn" or "error". */
void weir_log(const char *level, weir_bytes message);

/* Memory that stays for the life of the instance. Only in `open`. */
void *weir_keep(size_t size);
/* Memory, 8-aligned, until the running call returns. */
void *weir_scratch(size_t size);

/* A declared state. A checkpoint finds it by its name. */
typedef struct weir_state {
    /* `[a-z][a-z0-9-]*` */
    const char *name;
    /* Version of the value's encoding, from 1. */
    uint32_t version;
} weir_state;

/* Which part of the job this instance is. */
typedef struct weir_task {
    weir_bytes job;
    weir_bytes operator_name;
    uint32_t subtask;
    uint32_t parallelism;
    uint32_t attempt;
} weir_task;

/* An operator. Functions that are NULL are not called; `process` must be there. */
typedef struct weir_operator {
    const char *name;
    const char *version;
    /* States by index; an operator with states is keyed: its input is partitioned by key. */
    const weir_state *states;
    uint32_t state_count;
    /* Side outputs by index; the job file wires them as `operator.name`. */
    const char *const *side_outputs;
    uint32_t side_output_count;
    /* Inputs that it understands; 0 means any. */
    uint32_t inputs;
    /* `config`: the job file's `config` as one JSON document, "{}" if there is none; both stay for the life of the instance. */
    weir_status (*open)(const weir_task *task, weir_bytes config);
    /* `values`: one for each state. */
    weir_status (*process)(const weir_record *record, weir_value *values, weir_output *out);
    void (*close)(void);
} weir_operator;

/* The one that this plugin is. */
extern const weir_operator weir_plugin;

#endif
