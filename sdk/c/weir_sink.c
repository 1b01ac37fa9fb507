/* The half of weir.c that is a sink's: the calls of writer and committer. Part of that file. */

/* ---- What a sink answers. ---- */

typedef struct sink_descriptor {
    weir_bytes name, version;
    struct { const uint32_t *data; size_t len; } versions;
} sink_descriptor;

typedef struct prepare_result {
    uint8_t failed;
    union {
        struct { uint8_t some; weir_prepared prepared; } ok;
        error error;
    } as;
} prepare_result;

/* Of a commit, a status or an abort. */
typedef struct sink_outcome {
    uint8_t is;
    weir_bytes why;
} sink_outcome;

typedef struct outcomes {
    sink_outcome *data;
    size_t len;
} outcomes;

typedef struct names_result {
    uint8_t failed;
    union {
        struct { weir_bytes *data; size_t len; } ok;
        error error;
    } as;
} names_result;

#ifdef __wasm__
_Static_assert(sizeof(sink_descriptor) == 24 && sizeof(prepare_result) == 20 && sizeof(sink_outcome) == 12, "as the ABI has them");
_Static_assert(sizeof(names_result) == 16 && sizeof(weir_committable) == 28, "as the ABI has them");
#endif

static open_result *unit(weir_status status) {
    open_result *result = allocate(sizeof *result);
    *result = (open_result){0};
    if (status != WEIR_OK) *result = (open_result){1, error_of(status)};
    return result;
}

/* ---- The writer's exports. ---- */

EXPORT("weir:plugin/sink-writer@1.0.0#describe") sink_descriptor *weir_export_describe(void) {
    sink_descriptor *d = allocate(sizeof *d);
    *d = (sink_descriptor){weir_text(weir_plugin.name), weir_text(weir_plugin.version),
                           {weir_plugin.committable_versions, weir_plugin.committable_version_count}};
    return d;
}

EXPORT("weir:plugin/sink-writer@1.0.0#open")
open_result *weir_export_open(const uint8_t *job, size_t job_len, const uint8_t *name, size_t name_len, uint32_t subtask,
                              uint32_t parallelism, uint32_t attempt, const uint8_t *config, size_t config_len) {
    why_ = (buffer){0};
    weir_task *task = allocate(sizeof *task);
    *task = (weir_task){{job, job_len}, {name, name_len}, subtask, parallelism, attempt};
    return unit(weir_plugin.open ? weir_plugin.open(task, (weir_bytes){config, config_len}) : WEIR_OK);
}

EXPORT("weir:plugin/sink-writer@1.0.0#begin") open_result *weir_export_begin(const uint8_t *transaction, size_t len) {
    why_ = (buffer){0};
    return unit(weir_plugin.begin((weir_bytes){transaction, len}));
}

EXPORT("weir:plugin/sink-writer@1.0.0#write")
open_result *weir_export_write(uint32_t count, const uint8_t *data, size_t data_len, const uint8_t *index, size_t index_len,
                               const uint8_t *times, size_t times_len, const uint8_t *aux, size_t aux_len) {
    (void)data_len, (void)index_len, (void)times_len;
    why_ = (buffer){0};
    input in = {.data = data, .index = index, .times = times};
    find_blocks(&in, count, aux, aux_len);
    weir_record *records = allocate(count * sizeof(weir_record));
    for (uint32_t i = 0; i < count; i++) records[i] = record_at(&in, i, 0);
    return unit(weir_plugin.write(records, count));
}

EXPORT("weir:plugin/sink-writer@1.0.0#prepare")
prepare_result *weir_export_prepare(const uint8_t *checkpoint, size_t len, uint32_t end_of_input) {
    why_ = (buffer){0};
    prepare_result *result = allocate(sizeof *result);
    *result = (prepare_result){0};
    weir_prepared prepared = {0};
    weir_status status = weir_plugin.prepare((weir_bytes){checkpoint, len}, end_of_input, &prepared);
    if (status != WEIR_OK) {
        result->failed = 1;
        result->as.error = error_of(status);
    } else if (prepared.bytes.data) {
        result->as.ok.some = 1;
        result->as.ok.prepared = prepared;
    }
    return result;
}

EXPORT("weir:plugin/sink-writer@1.0.0#close") void weir_export_close(void) {
    if (weir_plugin.close) weir_plugin.close();
}

/* ---- The committer's exports. ---- */

EXPORT("weir:plugin/sink-committer@1.0.0#open")
open_result *weir_export_open_committer(const uint8_t *job, size_t job_len, const uint8_t *name, size_t name_len, const uint8_t *config,
                                        size_t config_len) {
    why_ = (buffer){0};
    return unit(weir_plugin.open_committer ? weir_plugin.open_committer((weir_bytes){job, job_len}, (weir_bytes){name, name_len},
                                                                        (weir_bytes){config, config_len})
                                           : WEIR_OK);
}

static outcomes *outcomes_of(size_t count) {
    outcomes *o = allocate(sizeof *o);
    *o = (outcomes){allocate(count * sizeof(sink_outcome)), count};
    why_ = (buffer){0};
    return o;
}

EXPORT("weir:plugin/sink-committer@1.0.0#commit") outcomes *weir_export_commit(const weir_committable *what, size_t count) {
    outcomes *o = outcomes_of(count);
    const weir_committable *stopped_at = NULL;
    for (size_t i = 0; i < count; i++) {
        if (stopped_at) {
            weir_bytes why = WEIR_JOIN(WEIR_TEXT("not tried: "), stopped_at->id, WEIR_TEXT(" before it is not committed"));
            o->data[i] = (sink_outcome){WEIR_NOT_COMMITTED, why};
            continue;
        }
        weir_outcome is = weir_plugin.commit(&what[i]);
        o->data[i] = (sink_outcome){(uint8_t)is, take_why()};
        if (is != WEIR_COMMITTED && is != WEIR_ALREADY_COMMITTED) stopped_at = &what[i];
    }
    return o;
}

EXPORT("weir:plugin/sink-committer@1.0.0#status") outcomes *weir_export_status(const weir_committable *what, size_t count) {
    outcomes *o = outcomes_of(count);
    for (size_t i = 0; i < count; i++) {
        weir_outcome is = weir_plugin.status(&what[i]);
        o->data[i] = (sink_outcome){(uint8_t)is, take_why()};
    }
    return o;
}

EXPORT("weir:plugin/sink-committer@1.0.0#abort") outcomes *weir_export_abort(const weir_bytes *what, size_t count) {
    outcomes *o = outcomes_of(count);
    for (size_t i = 0; i < count; i++) {
        weir_abort_outcome is = weir_plugin.abort(what[i]);
        o->data[i] = (sink_outcome){(uint8_t)is, take_why()};
    }
    return o;
}

static buffer dangling_;

void weir_add_dangling(weir_bytes transaction) {
    weir_bytes own = WEIR_JOIN(transaction);
    push(&dangling_, (weir_bytes){(const uint8_t *)&own, sizeof own});
}

EXPORT("weir:plugin/sink-committer@1.0.0#list-dangling") names_result *weir_export_list_dangling(void) {
    why_ = dangling_ = (buffer){0};
    names_result *result = allocate(sizeof *result);
    *result = (names_result){0};
    weir_status status = weir_plugin.list_dangling();
    if (status != WEIR_OK) {
        result->failed = 1;
        result->as.error = error_of(status);
    } else {
        result->as.ok.data = (weir_bytes *)(void *)dangling_.data;
        result->as.ok.len = dangling_.len / sizeof(weir_bytes);
    }
    return result;
}

EXPORT("weir:plugin/sink-committer@1.0.0#forget") open_result *weir_export_forget(const weir_bytes *what, size_t count) {
    why_ = (buffer){0};
    weir_status status = WEIR_OK;
    for (size_t i = 0; status == WEIR_OK && i < count; i++) status = weir_plugin.forget(what[i]);
    return unit(status);
}

EXPORT("weir:plugin/sink-committer@1.0.0#close") void weir_export_close_committer(void) {
    if (weir_plugin.close_committer) weir_plugin.close_committer();
}

/* ---- The host has read an answer. What the two `open` were given and made stays. ---- */

#define POST(interface, function, name, keep)                                                                              \
    EXPORT("cabi_post_weir:plugin/" interface "@1.0.0#" function) void weir_post_##name(void *answer) {                    \
        (void)answer;                                                                                                       \
        end_call(keep);                                                                                                     \
    }
POST("sink-writer", "describe", describe, false)
POST("sink-writer", "open", open, true)
POST("sink-writer", "begin", begin, false)
POST("sink-writer", "write", write, false)
POST("sink-writer", "prepare", prepare, false)
POST("sink-committer", "open", open_committer, true)
POST("sink-committer", "commit", commit, false)
POST("sink-committer", "status", status, false)
POST("sink-committer", "abort", abort, false)
POST("sink-committer", "list-dangling", list_dangling, false)
POST("sink-committer", "forget", forget, false)
