/* The half of weir.c that is an operator's: output, state, timers, and the calls. Part of that file. */

/* ---- Output. ---- */

static void zero(uint8_t *at, size_t len) {
    while (len--) *at++ = 0;
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

typedef struct port {
    uint32_t number;
    uint32_t count;
    buffer data, index, times;
    /* One byte a record; empty until the first that says something. */
    buffer marks;
    /* (count + 1) offsets and the bytes; empty until the first record with headers. */
    buffer header_index, headers;
    /* Nothing is handed over before the end. */
    bool whole;
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
    if (p->data.len + p->headers.len >= CHUNK_BYTES && !p->whole) hand_over(p);
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

/* ---- State. ---- */

static void must_be_read(const weir_value *value) {
    if (!value->unread) return;
    weir_log("error", WEIR_TEXT("a state on demand was used without weir_fetch"));
    __builtin_trap();
}

void weir_set(weir_value *value, weir_bytes bytes) {
    must_be_read(value);
    uint8_t *data = allocate(bytes.len);
    copy(data, bytes.data, bytes.len);
    *value = (weir_value){data, bytes.len, true, true, false};
}

void weir_delete(weir_value *value) {
    must_be_read(value);
    *value = (weir_value){.changed = value->present || value->changed};
}

void *weir_struct(weir_value *value, size_t size) {
    must_be_read(value);
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

/* The running call. */
static struct {
    /* The key that is being handled. */
    weir_bytes key;
    /* One value for each key and state, those of a key side by side. */
    weir_value *values;
    size_t keys;
    weir_output out;
    /* Hands over what became of states on demand; set by the first that is fetched. */
    void (*store_fetched)(void);
} call;

/* `prefetched`: in the order of those states, which are not on demand. */
static void load(const cells *prefetched, size_t count, size_t keys) {
    uint32_t states = weir_plugin.state_count;
    call.keys = keys;
    call.values = allocate(keys * states * sizeof(weir_value));
    call.store_fetched = NULL;
    for (uint32_t s = 0, p = 0; s < states; s++) {
        if (weir_plugin.states[s].on_demand || p == count) {
            for (size_t k = 0; k < keys; k++) call.values[k * states + s] = (weir_value){.unread = true};
            continue;
        }
        const cells *c = &prefetched[p++];
        for (size_t k = 0; k < keys; k++) {
            uint32_t from = u32_at(c->index.data, k), to = u32_at(c->index.data, k + 1);
            call.values[k * states + s] = (weir_value){c->data.data + from, to - from, c->ops.data[k] == 1, false, false};
        }
    }
}

/* What became of the prefetched states. */
static void store(size_t count, output *ok) {
    uint32_t states = weir_plugin.state_count;
    size_t keys = call.keys;
    bool changed = false;
    for (size_t i = 0; i < keys * states; i++) changed |= call.values[i].changed;
    if (!changed || !count) return;
    ok->updates.data = allocate(count * sizeof(cells));
    ok->updates.len = count;
    for (uint32_t s = 0, p = 0; s < states; s++) {
        if (weir_plugin.states[s].on_demand) continue;
        const weir_value *values = call.values + s;
        buffer ops = {0}, index = {0}, data = {0};
        size_t bytes = 0;
        for (size_t k = 0; k < keys; k++) bytes += values[k * states].changed ? values[k * states].len : 0;
        reserve(&ops, keys);
        reserve(&index, 4 * (keys + 1));
        reserve(&data, bytes);
        push_u32(&index, 0);
        for (size_t k = 0; k < keys; k++) {
            const weir_value *value = &values[k * states];
            push_byte(&ops, !value->changed ? 0 : value->present ? 1 : 2);
            if (value->changed && value->present) push(&data, (weir_bytes){value->data, value->len});
            push_u32(&index, (uint32_t)data.len);
        }
        ok->updates.data[p++] = (cells){list_of(&ops), list_of(&data), list_of(&index)};
    }
}

/* A value that was fetched, and its key. */
typedef struct fetched {
    size_t at;
    weir_bytes key;
} fetched;

static buffer fetched_;

static void push_string(buffer *data, buffer *index, weir_bytes bytes) {
    if (!index->len) push_u32(index, 0);
    push(data, bytes);
    push_u32(index, (uint32_t)data->len);
}

/* Two calls to the host for each state at most. */
static void store_fetched(void) {
    const fetched *all = (const fetched *)(const void *)fetched_.data;
    for (uint32_t s = 0; s < weir_plugin.state_count; s++) {
        buffer put = {0}, put_index = {0}, values = {0}, value_index = {0}, deleted = {0}, deleted_index = {0};
        for (size_t i = 0; i < fetched_.len / sizeof(fetched); i++) {
            const weir_value *value = &call.values[all[i].at];
            if (all[i].at % weir_plugin.state_count != s || !value->changed) continue;
            if (value->present) {
                push_string(&put, &put_index, all[i].key);
                push_string(&values, &value_index, (weir_bytes){value->data, value->len});
            } else {
                push_string(&deleted, &deleted_index, all[i].key);
            }
        }
        if (put_index.len)
            weir_host_put_many(s, put.data, put.len, put_index.data, put_index.len, values.data, values.len, value_index.data,
                               value_index.len);
        if (deleted_index.len) weir_host_delete_many(s, deleted.data, deleted.len, deleted_index.data, deleted_index.len);
    }
}

void weir_fetch(weir_value *value) {
    if (!value->unread) return;
    fetched one = {(size_t)(value - call.values), call.key};
    if (!call.store_fetched) fetched_ = (buffer){0};
    call.store_fetched = store_fetched;
    push(&fetched_, (weir_bytes){(const uint8_t *)&one, sizeof one});
    uint32_t index[2] = {0, (uint32_t)call.key.len};
    cells *c = allocate(sizeof *c);
    weir_host_get_many((uint32_t)(one.at % weir_plugin.state_count), call.key.data, call.key.len, (const uint8_t *)index, sizeof index, c);
    *value = (weir_value){c->data.data, c->data.len, c->ops.data[0] == 1, false, false};
}

/* ---- Timers. ---- */

#ifdef WEIR_TIMERS
/* A run of timers that are all set, or all taken away. */
typedef struct change {
    bool sets;
    weir_timer_kind kind;
    port timers;
} change;

static buffer changes_;
static struct { bool known; int64_t now; } clocks_[2];

static weir_bytes kind_name(weir_timer_kind kind) { return kind == WEIR_EVENT_TIME ? WEIR_TEXT("event-time") : WEIR_TEXT("processing-time"); }

static void change_timer(bool sets, weir_timer_kind kind, int64_t time, weir_bytes payload) {
    change *last = changes_.len ? (change *)(void *)(changes_.data + changes_.len) - 1 : NULL;
    if (!last || last->sets != sets || last->kind != kind) {
        change fresh = {.sets = sets, .kind = kind, .timers = {.whole = true}};
        push(&changes_, (weir_bytes){(const uint8_t *)&fresh, sizeof fresh});
        last = (change *)(void *)(changes_.data + changes_.len) - 1;
    }
    begin_record(&last->timers, call.key);
    push(&last->timers.data, payload);
    end_record(&last->timers, time, 0, (weir_bytes){0});
}

void weir_set_timer(weir_timer_kind kind, int64_t time, weir_bytes payload) { change_timer(true, kind, time, payload); }
void weir_delete_timer(weir_timer_kind kind, int64_t time, weir_bytes payload) { change_timer(false, kind, time, payload); }

int64_t weir_current(weir_timer_kind kind) {
    if (!clocks_[kind].known) {
        weir_bytes name = kind_name(kind);
        clocks_[kind].now = weir_host_current(name.data, name.len);
        clocks_[kind].known = true;
    }
    return clocks_[kind].now;
}

static void begin_timers(void) {
    changes_ = (buffer){0};
    clocks_[0].known = clocks_[1].known = false;
}

/* One call to the host for each run of the same. */
static void flush_timers(void) {
    change *all = (change *)(void *)changes_.data;
    for (size_t i = 0; i < changes_.len / sizeof(change); i++) {
        weir_bytes name = kind_name(all[i].kind);
        batch b = batch_of(&all[i].timers);
        (all[i].sets ? weir_host_register_many : weir_host_delete_timers)(
            name.data, name.len, b.count, b.data.data, b.data.len, b.index.data, b.index.len, b.times.data, b.times.len, NULL, 0);
    }
}
#else
static void begin_timers(void) {}
static void flush_timers(void) {}
#endif

/* ---- A call. ---- */

static process_result *begin_call(void) {
    const weir_operator *o = &weir_plugin;
    process_result *result = allocate(sizeof *result);
    *result = (process_result){0};
    call.out = (weir_output){allocate((1 + o->side_output_count) * sizeof(port)), o->side_output_count, false};
    for (uint32_t i = 0; i <= call.out.sides; i++) call.out.ports[i] = (port){.number = i};
    why_ = (buffer){0};
    begin_timers();
    return result;
}

/* The number of distinct keys. */
static size_t count_keys(const cells *states, size_t state_count, const uint8_t *key_of, size_t key_of_len) {
    if (state_count) return states[0].ops.len;
    size_t keys = 0;
    for (size_t i = 0; i < key_of_len / 4; i++)
        if (u32_at(key_of, i) >= keys) keys = u32_at(key_of, i) + (size_t)1;
    return keys;
}

static process_result *fail_call(process_result *result, weir_status status) {
    result->failed = 1;
    result->as.error = error_of(status);
    return result;
}

/* All went well. */
static process_result *finish_call(process_result *result, size_t state_count) {
    output *ok = &result->as.ok;
    if (call.store_fetched) call.store_fetched();
    flush_timers();
    store(state_count, ok);
    ok->main = batch_of(call.out.ports);
    ok->sides.data = allocate(call.out.sides * sizeof(side));
    for (uint32_t i = 1; i <= call.out.sides; i++)
        if (call.out.ports[i].count) ok->sides.data[ok->sides.len++] = (side){i - 1, batch_of(&call.out.ports[i])};
    return result;
}

/* ---- Exports. ---- */

EXPORT("weir:plugin/operator@1.0.0#describe") descriptor *weir_export_describe(void) {
    const weir_operator *o = &weir_plugin;
    descriptor *d = allocate(sizeof *d);
    *d = (descriptor){weir_text(o->name), weir_text(o->version), {0}, {0}, o->inputs};
    d->states.data = allocate(o->state_count * sizeof(state_desc));
    d->states.len = o->state_count;
    for (uint32_t i = 0; i < o->state_count; i++)
        d->states.data[i] = (state_desc){weir_text(o->states[i].name), WEIR_TEXT("value"), o->states[i].version, !o->states[i].on_demand};
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
    process_result *result = begin_call();
    load(states, state_count, count_keys(states, state_count, key_of, key_of_len));
    /* About as much as came in goes out. */
    port *main_ = call.out.ports;
    reserve(&main_->index, 4 * (2 * (size_t)count + 1));
    reserve(&main_->times, 8 * (size_t)count);
    reserve(&main_->data, data_len < CHUNK_BYTES ? data_len : CHUNK_BYTES);
    input in = {.data = data, .index = index, .times = times};
    find_blocks(&in, count, aux, aux_len);
    buffer bad = {0};
    for (uint32_t i = 0; i < count; i++) {
        weir_record record = record_at(&in, i, port_);
        call.key = record.key;
        weir_value *of_key = o->state_count ? call.values + u32_at(key_of, i) * (size_t)o->state_count : NULL;
        weir_status status = o->process(&record, of_key, &call.out);
        if (__builtin_expect(status == WEIR_OK, 1)) continue;
        if (status != WEIR_BAD_RECORD) return fail_call(result, status);
        /* The rest is looked at, too, so that the host hears of all bad records at once. */
        call.out.discard = true;
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
    return finish_call(result, state_count);
}

#ifdef WEIR_TIMERS
EXPORT("weir:plugin/timers@1.0.0#on-timers")
process_result *weir_export_on_timers(const uint8_t *kind, size_t kind_len, uint32_t count, const uint8_t *data, size_t data_len,
                                      const uint8_t *index, size_t index_len, const uint8_t *times, size_t times_len,
                                      const uint8_t *aux, size_t aux_len, const uint8_t *key_of, size_t key_of_len,
                                      const cells *states, size_t state_count) {
    (void)data_len, (void)index_len, (void)times_len;
    const weir_operator *o = &weir_plugin;
    process_result *result = begin_call();
    load(states, state_count, count_keys(states, state_count, key_of, key_of_len));
    bool event = weir_equal((weir_bytes){kind, kind_len}, kind_name(WEIR_EVENT_TIME));
    if (!event && !weir_equal((weir_bytes){kind, kind_len}, kind_name(WEIR_PROCESSING_TIME)))
        return fail_call(result, weir_fail(WEIR_FATAL, "the host fires timers of a kind that this SDK does not know"));
    input in = {.data = data, .index = index, .times = times};
    find_blocks(&in, count, aux, aux_len);
    for (uint32_t i = 0; i < count; i++) {
        weir_record due = record_at(&in, i, 0);
        weir_timer timer = {event ? WEIR_EVENT_TIME : WEIR_PROCESSING_TIME, due.key, due.value, due.time};
        call.key = due.key;
        weir_status status = o->on_timer(&timer, o->state_count ? call.values + u32_at(key_of, i) * (size_t)o->state_count : NULL, &call.out);
        if (status != WEIR_OK) return fail_call(result, status);
    }
    return finish_call(result, state_count);
}

EXPORT("cabi_post_weir:plugin/timers@1.0.0#on-timers") void weir_post_on_timers(void *answer) {
    (void)answer;
    end_call(false);
}
#endif

#ifdef WEIR_END_OF_INPUT
EXPORT("weir:plugin/end-of-input@1.0.0#on-end") process_result *weir_export_on_end(uint32_t port_) {
    process_result *result = begin_call();
    load(NULL, 0, 0);
    weir_status status = weir_plugin.on_end ? weir_plugin.on_end(port_, &call.out) : WEIR_OK;
    return status == WEIR_OK ? finish_call(result, 0) : fail_call(result, status);
}

EXPORT("weir:plugin/end-of-input@1.0.0#on-end-keys")
process_result *weir_export_on_end_keys(const uint8_t *data, size_t data_len, const uint8_t *index, size_t index_len,
                                        const cells *states, size_t state_count) {
    (void)data_len;
    const weir_operator *o = &weir_plugin;
    process_result *result = begin_call();
    size_t keys = index_len / 4 - 1;
    load(states, state_count, keys);
    for (size_t k = 0; o->on_end_key && k < keys; k++) {
        call.key = (weir_bytes){data + u32_at(index, k), u32_at(index, k + 1) - u32_at(index, k)};
        weir_status status = o->on_end_key(call.key, call.values + k * o->state_count, &call.out);
        if (status != WEIR_OK) return fail_call(result, status);
    }
    return finish_call(result, state_count);
}

EXPORT("cabi_post_weir:plugin/end-of-input@1.0.0#on-end") void weir_post_on_end(void *answer) {
    (void)answer;
    end_call(false);
}
EXPORT("cabi_post_weir:plugin/end-of-input@1.0.0#on-end-keys") void weir_post_on_end_keys(void *answer) {
    (void)answer;
    end_call(false);
}
#endif

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
