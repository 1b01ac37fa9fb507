/* Weir plugins in C: one header, no libc.
 *
 * An operator is a function that gets record after record; this file's other half (weir.c) turns the host's batches into records
 * and what it emits into batches. It compiles for wasm32 without any library, and natively for tests (weir_test.h).
 *
 * A plugin defines `const weir_operator weir_plugin`. What else the host is to find among its exports is said to the compiler, for
 * the plugin's sources and for weir.c alike (in a Makefile: EXPORTS, see weir.mk):
 *
 *     -DWEIR_TIMERS         `on_timer`, and functions that set timers
 *     -DWEIR_END_OF_INPUT   `on_end` and `on_end_key`
 *     -DWEIR_SINK           a transactional sink instead of an operator: `const weir_sink weir_plugin`
 *
 * See README.md.
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
    /* Headers, packed; `weir_forward` keeps them, `weir_next_header` reads them. */
    weir_bytes headers;
} weir_record;

/* One header. Names are text by custom; a null value has no bytes. */
typedef struct weir_header {
    weir_bytes name;
    weir_bytes value;
    bool value_null;
} weir_header;

/* Takes the first header off; false if there is none left: `for (weir_bytes rest = record->headers; weir_next_header(&rest, &h);)`. */
bool weir_next_header(weir_bytes *rest, weir_header *header);
/* Adds a header at the end. Begin with none, or with a record's; the bytes are copied. */
void weir_add_header(weir_bytes *headers, weir_header header);

#ifndef WEIR_SINK

/* The value of one state for a key. Read `data` and `len` while `present`; change it by the functions below. */
typedef struct weir_value {
    uint8_t *data;
    size_t len;
    bool present;
    bool changed;
    /* Of a state on demand that was not fetched yet. */
    bool unread;
} weir_value;

/* Asks the host for the value of a state on demand, once for each key and call; another value stays as it is. Needed before anything
 * else is done with such a value, and only for that of the key that is being handled. */
void weir_fetch(weir_value *value);

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
/* Passes a record on as it is, headers and all: also one that you filled yourself, with headers of your own, or with a null key. */
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

#ifdef WEIR_TIMERS
/* What a timer waits for: the watermark of the operator's input, or the clock on the wall. */
typedef enum weir_timer_kind { WEIR_EVENT_TIME, WEIR_PROCESSING_TIME } weir_timer_kind;

/* A timer that is due. It is gone already: to hear of it again, set it again. */
typedef struct weir_timer {
    weir_timer_kind kind;
    weir_bytes key;
    weir_bytes payload;
    /* Milliseconds since the Unix epoch. */
    int64_t time;
} weir_timer;

/* Sets a timer of the key that is being handled. A timer is (kind, key, time, payload): set twice, it fires once. It is part of the
 * checkpoint. The payload has 64 KiB at most, and is copied. What is due already fires right after the call. */
void weir_set_timer(weir_timer_kind kind, int64_t time, weir_bytes payload);
/* Takes a timer away that was set with the same values; one that is not set is no error. */
void weir_delete_timer(weir_timer_kind kind, int64_t time, weir_bytes payload);
/* What that kind of timer waits for: the watermark (the least int64_t before there is one, the greatest once all input has ended), or the
 * wall clock. It does not change during a call. */
int64_t weir_current(weir_timer_kind kind);
#endif
#endif /* WEIR_SINK */

/* What a function of the plugin says. */
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

/* Which part of the job this instance is. */
typedef struct weir_task {
    weir_bytes job;
    weir_bytes operator_name;
    uint32_t subtask;
    uint32_t parallelism;
    uint32_t attempt;
} weir_task;

/* A folder that the job granted (`grants.folders`), by the grant's name. Paths are relative, with `/`; the empty one is the folder itself.
 * They can't leave the folder: no `..`, no absolute path, no symbolic link. The host owns the durability rules.
 *
 * Each says whether it went well; if not, why was said as `weir_why` says it, so that `return weir_fail(WEIR_FATAL, "")` does. In a
 * sink's `write` only `weir_append` and `weir_read` may be called, and an append is applied when the call returns without error. */

/* Appends to a file, which is made if it does not exist (its folder must). */
bool weir_append(weir_bytes grant, weir_bytes path, weir_bytes bytes);
/* At most `limit` bytes from `offset`; fewer at the end of the file. They last as long as the call. */
bool weir_read(weir_bytes grant, weir_bytes path, uint64_t offset, uint32_t limit, weir_bytes *bytes);
/* Makes a file's content, or a folder's entries, durable (fsync). Returns when it is. */
bool weir_sync(weir_bytes grant, weir_bytes path);
/* Makes a folder and its parents, durably. An existing one is no error. */
bool weir_mkdir(weir_bytes grant, weir_bytes path);
/* Moves a file in one atomic step that never replaces: `done` is false, and nothing done, if the target exists. Both folders are durable
 * when it is true. */
bool weir_rename(weir_bytes grant, weir_bytes source, weir_bytes target, bool *done);
/* Removes a file or an empty folder; `done` is false if there was none. */
bool weir_remove(weir_bytes grant, weir_bytes path, bool *done);
/* Whether a file or folder is there. */
bool weir_exists(weir_bytes grant, weir_bytes path, bool *there);
/* The names in a folder, sorted; none if there is no such folder. They last as long as the call. */
bool weir_list(weir_bytes grant, weir_bytes path, weir_bytes **names, size_t *count);

/* Bytes of several parts, one after the other; they last as long as the call. */
weir_bytes weir_join(const weir_bytes *parts, size_t count);
#define WEIR_JOIN(...) weir_join((const weir_bytes[]){__VA_ARGS__}, sizeof((const weir_bytes[]){__VA_ARGS__}) / sizeof(weir_bytes))

/* Plugin and weir.c must be compiled with the same: else the linker does not find the plugin. */
#if defined(WEIR_SINK)
#define weir_plugin weir_plugin_sink
#elif defined(WEIR_TIMERS) && defined(WEIR_END_OF_INPUT)
#define weir_plugin weir_plugin_timers_end_of_input
#elif defined(WEIR_TIMERS)
#define weir_plugin weir_plugin_timers
#elif defined(WEIR_END_OF_INPUT)
#define weir_plugin weir_plugin_end_of_input
#endif

#ifndef WEIR_SINK

/* A declared state: one byte string for each key. A checkpoint finds it by its name. */
typedef struct weir_state {
    /* `[a-z][a-z0-9-]*`. Renaming it is a migration. */
    const char *name;
    /* Version of the value's encoding, from 1: raise it when the encoding changes. */
    uint32_t version;
    /* The host reads it when `weir_fetch` asks, a call for each key, instead of for all keys of a batch: for state that few need. */
    bool on_demand;
} weir_state;

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
    /* A clean end of this instance. Not called after a trap or a crash. */
    void (*close)(void);
#ifdef WEIR_TIMERS
    /* A timer is due; they come by time and then by key. There is no record to blame: WEIR_BAD_RECORD fails the attempt, too. At the end of
     * bounded input every event-time timer fires, those that are set meanwhile, too. */
    weir_status (*on_timer)(const weir_timer *timer, weir_value *values, weir_output *out);
#endif
#ifdef WEIR_END_OF_INPUT
    /* Input `port` has ended for good. Never at a stop, a failure or a swap, and never twice for one input. */
    weir_status (*on_end)(uint32_t port, weir_output *out);
    /* After the last input: once for every key of this subtask that holds a value in some state that is not on demand. */
    weir_status (*on_end_key)(weir_bytes key, weir_value *values, weir_output *out);
#endif
} weir_operator;

/* The one that this plugin is. */
extern const weir_operator weir_plugin;

#else /* WEIR_SINK */

/* What `prepare` hands over: nothing to commit as long as `bytes.data` is NULL. */
typedef struct weir_prepared {
    /* Version of `bytes`; one of `committable_versions`. */
    uint32_t version;
    /* What the committer needs; the bytes must last as long as the call. */
    weir_bytes bytes;
} weir_prepared;

/* A prepared transaction, as the committer gets it: self-contained, since the committer lives in another instance, maybe in another
 * process years later. */
typedef struct weir_committable {
    /* The name that `begin` was given. */
    weir_bytes id;
    /* The checkpoint at which it was prepared, as `3-17`. */
    weir_bytes checkpoint;
    uint32_t version;
    weir_bytes bytes;
} weir_committable;

/* What became of one committable. Of the last three, `weir_why` says why. */
typedef enum weir_outcome {
    /* Done now. */
    WEIR_COMMITTED,
    /* Was done before. */
    WEIR_ALREADY_COMMITTED,
    /* Certainly not done; try again. */
    WEIR_NOT_COMMITTED,
    /* Nobody can say; `status` is asked before the next try. */
    WEIR_UNKNOWN,
    /* Certainly not committed, and never will be. */
    WEIR_LOST,
} weir_outcome;

/* What became of an abort. Of the last one, `weir_why` says why. */
typedef enum weir_abort_outcome {
    /* It is gone, now or before. */
    WEIR_ABORTED,
    /* It is committed already, and stays so. */
    WEIR_WAS_COMMITTED,
    /* Try again. */
    WEIR_NOT_ABORTED,
} weir_abort_outcome;

/* Names one more dangling transaction; only in `list_dangling`. */
void weir_add_dangling(weir_bytes transaction);

/* A transactional sink. The two halves never share memory: nothing that one keeps is there for the other. Only `open`,
 * `open_committer` and the two `close` may be NULL. */
typedef struct weir_sink {
    const char *name;
    const char *version;
    /* Versions of committables that this build can commit and abort. */
    const uint32_t *committable_versions;
    uint32_t committable_version_count;

    /* The writing half, one for each subtask: `open`, then again and again `begin`, `write`s and `prepare`. `task` and `config` stay. */
    weir_status (*open)(const weir_task *task, weir_bytes config);
    /* Opens the transaction that the following writes belong to: `<lineage>.<generation>.<sink>.<subtask>.<number>`, never used twice.
     * Copy the name if it is needed later. */
    weir_status (*begin)(weir_bytes transaction);
    /* Writes records into the open transaction. */
    weir_status (*write)(const weir_record *records, size_t count);
    /* A barrier: flush, stage durably, and say what to commit. Nothing may be visible outside yet. When it returns, a crash of this
     * process must not lose what was written. */
    weir_status (*prepare)(weir_bytes checkpoint, bool end_of_input, weir_prepared *prepared);
    /* A clean end. What is neither prepared nor committed is given up. */
    void (*close)(void);

    /* The committing half, one for each sink and job: it never meets a record. What it is opened with stays. */
    weir_status (*open_committer)(weir_bytes job, weir_bytes sink, weir_bytes config);
    /* Idempotent. Called in order; after the first that is not committed the rest is not tried. */
    weir_outcome (*commit)(const weir_committable *what);
    /* What became of it, by asking the outside; changes nothing. WEIR_NOT_COMMITTED: not yet, can be. */
    weir_outcome (*status)(const weir_committable *what);
    /* Idempotent. Gives up what was staged under this name. */
    weir_abort_outcome (*abort)(weir_bytes transaction);
    /* Names every transaction of this job and sink that exists outside, whatever its lineage, generation and subtask. */
    weir_status (*list_dangling)(void);
    /* A later completed checkpoint no longer contains it: what was kept to answer WEIR_ALREADY_COMMITTED may go. */
    weir_status (*forget)(weir_bytes transaction);
    /* A clean end. */
    void (*close_committer)(void);
} weir_sink;

/* The one that this plugin is. */
extern const weir_sink weir_plugin;

#endif /* WEIR_SINK */
#endif
