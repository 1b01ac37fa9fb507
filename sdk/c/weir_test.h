/* Tests of a plugin in C, natively: the host's side of weir.c, with state, timers and folders in memory. For sinks see weir_test_sink.h,
 * which this includes with -DWEIR_SINK.
 *
 * A test is one file that includes this header, weir.c and the operator's source, and has a `main`:
 *
 *     #include "weir_test.h"
 *     #include "carrier_stats.c"
 *
 *     int main(void) {
 *         weir_test_open("{}");
 *         weir_test_record("key", "value", 1);
 *         weir_test_send(0);
 *         weir_test_expect(0, "key", "value");
 *         return weir_test_end();
 *     }
 *
 * Records are gathered by `weir_test_record` and go over as one batch. What came out is compared in order. A test that fails prints
 * where and exits with 1.
 */
#ifndef WEIR_TEST_H
#define WEIR_TEST_H

#include "weir.c"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct weir_test_bytes {
    uint8_t *data;
    size_t len;
} weir_test_bytes;

static inline void weir_test_check(bool right, int line, const char *what) {
    if (right) return;
    fprintf(stderr, "line %d: %s\n", line, what);
    exit(1);
}
#define CHECK(condition) weir_test_check((condition), __LINE__, #condition)

static inline weir_test_bytes weir_test_copy(const uint8_t *data, size_t len) {
    weir_test_bytes bytes = {malloc(len + 1), len};
    if (len) memcpy(bytes.data, data, len);
    return bytes;
}

static inline weir_bytes weir_test_view(weir_test_bytes bytes) { return (weir_bytes){bytes.data, bytes.len}; }

void weir_host_log(const uint8_t *level, size_t level_len, const uint8_t *message, size_t message_len) {
    fprintf(stderr, "%.*s: %.*s\n", (int)level_len, (const char *)level, (int)message_len, (const char *)message);
}

#include "weir_test_folders.h"

#ifdef WEIR_SINK
#include "weir_test_sink.h"
#else

typedef struct weir_test_entry {
    uint32_t port;
    weir_test_bytes key, value;
    int64_t time;
} weir_test_entry;

typedef struct weir_test_cell {
    uint32_t state;
    weir_test_bytes key, value;
} weir_test_cell;

/* A timer that is set; `event`: it waits for the watermark. */
typedef struct weir_test_timer {
    bool event;
    weir_test_entry at;
} weir_test_timer;

enum { WEIR_TEST_MAX = 1 << 16 };
static struct {
    weir_test_entry input[WEIR_TEST_MAX], output[WEIR_TEST_MAX];
    weir_test_cell cells[WEIR_TEST_MAX];
    size_t inputs, outputs, expected, cell_count;
    /* Chunks of a call that has not returned. */
    size_t emitted;
    weir_test_timer timers[WEIR_TEST_MAX];
    size_t timer_count;
    /* The watermark, and the clock on the wall. */
    int64_t watermark, wall;
    /* The last refusal: which records and why. */
    struct { uint32_t index; char why[256]; } bad[256];
    size_t bad_count;
} weir_test;

static inline void weir_test_take(uint32_t port, uint32_t count, const uint8_t *data, const uint8_t *index, const uint8_t *times) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t a = u32_at(index, 2 * i), b = u32_at(index, 2 * i + 1), c = u32_at(index, 2 * i + 2);
        CHECK(weir_test.outputs + weir_test.emitted < WEIR_TEST_MAX);
        weir_test.output[weir_test.outputs + weir_test.emitted++] =
            (weir_test_entry){port, weir_test_copy(data + a, b - a), weir_test_copy(data + b, c - b), s64_at(times, i)};
    }
}

void weir_host_emit(uint32_t port, uint32_t count, const uint8_t *data, size_t data_len, const uint8_t *index, size_t index_len,
                    const uint8_t *times, size_t times_len, const uint8_t *aux, size_t aux_len) {
    (void)data_len, (void)index_len, (void)times_len, (void)aux, (void)aux_len;
    weir_test_take(port, count, data, index, times);
}

/* Opens the operator, with no state. */
static inline weir_status weir_test_open(const char *config) {
    memset(&weir_test, 0, sizeof weir_test);
    weir_test_empty_folders();
    weir_test.watermark = INT64_MIN;
    weir_export_describe();
    weir_post_describe(NULL);
    weir_bytes text = weir_text(config);
    open_result *result = weir_export_open((const uint8_t *)"test", 4, (const uint8_t *)"operator", 8, 0, 1, 1, text.data, text.len);
    weir_status status = !result->failed ? WEIR_OK : result->error.tag == ERROR_RETRY ? WEIR_RETRY : WEIR_FATAL;
    weir_post_open(result);
    return status;
}

/* One more record for the next batch. */
static inline void weir_test_record(const char *key, const char *value, int64_t time) {
    CHECK(weir_test.inputs < WEIR_TEST_MAX);
    weir_bytes k = weir_text(key), v = weir_text(value);
    weir_test.input[weir_test.inputs++] = (weir_test_entry){0, weir_test_copy(k.data, k.len), weir_test_copy(v.data, v.len), time};
}

static inline weir_test_cell *weir_test_find(uint32_t state, weir_bytes key) {
    for (size_t i = 0; i < weir_test.cell_count; i++) {
        weir_test_cell *cell = &weir_test.cells[i];
        if (cell->state == state && weir_equal(weir_test_view(cell->key), key)) return cell;
    }
    return NULL;
}

/* The stored value of a key; data is NULL if there is none. */
static inline weir_bytes weir_test_state(uint32_t state, const char *key) {
    weir_test_cell *cell = weir_test_find(state, weir_text(key));
    return cell && cell->value.data ? (weir_bytes){cell->value.data, cell->value.len} : (weir_bytes){0};
}

static inline void weir_test_put(uint32_t state, weir_bytes key, weir_test_bytes value) {
    weir_test_cell *cell = weir_test_find(state, key);
    if (!cell) {
        CHECK(weir_test.cell_count < WEIR_TEST_MAX);
        cell = &weir_test.cells[weir_test.cell_count++];
        *cell = (weir_test_cell){state, weir_test_copy(key.data, key.len), {0}};
    }
    cell->value = value;
}

/* One cell for each key. */
static inline cells weir_test_cells_of(uint32_t state, const weir_bytes *keys, size_t count) {
    buffer ops = {0}, values = {0}, offsets = {0};
    push_u32(&offsets, 0);
    for (size_t k = 0; k < count; k++) {
        weir_test_cell *cell = weir_test_find(state, keys[k]);
        bool present = cell && cell->value.data;
        push_byte(&ops, present);
        if (present) push(&values, weir_test_view(cell->value));
        push_u32(&offsets, (uint32_t)values.len);
    }
    return (cells){list_of(&ops), list_of(&values), list_of(&offsets)};
}

void weir_host_get_many(uint32_t state, const uint8_t *data, size_t data_len, const uint8_t *index, size_t index_len, cells *values) {
    (void)index, (void)index_len;
    weir_bytes key = {data, data_len};
    *values = weir_test_cells_of(state, &key, 1);
}

static inline weir_bytes weir_test_string(const uint8_t *data, const uint8_t *index, size_t i) {
    return (weir_bytes){data + u32_at(index, i), u32_at(index, i + 1) - u32_at(index, i)};
}

void weir_host_put_many(uint32_t state, const uint8_t *data, size_t data_len, const uint8_t *index, size_t index_len,
                        const uint8_t *values, size_t values_len, const uint8_t *value_index, size_t value_index_len) {
    (void)data_len, (void)values_len;
    CHECK(index_len == value_index_len);
    for (size_t i = 0; i + 1 < index_len / 4; i++) {
        weir_bytes value = weir_test_string(values, value_index, i);
        weir_test_put(state, weir_test_string(data, index, i), weir_test_copy(value.data, value.len));
    }
}

void weir_host_delete_many(uint32_t state, const uint8_t *data, size_t data_len, const uint8_t *index, size_t index_len) {
    (void)data_len;
    for (size_t i = 0; i + 1 < index_len / 4; i++) weir_test_put(state, weir_test_string(data, index, i), (weir_test_bytes){0});
}

/* A call's records as columns, with the distinct keys and the states that are read before it. */
typedef struct weir_test_call {
    buffer data, index, times, key_of;
    weir_bytes *keys;
    size_t key_count;
    cells *states;
    size_t state_count;
} weir_test_call;

static inline void weir_test_prefetch(weir_test_call *c) {
    c->states = allocate(weir_plugin.state_count * sizeof(cells));
    c->state_count = 0;
    for (uint32_t s = 0; s < weir_plugin.state_count; s++)
        if (!weir_plugin.states[s].on_demand) c->states[c->state_count++] = weir_test_cells_of(s, c->keys, c->key_count);
}

static inline weir_test_call weir_test_call_of(const weir_test_entry *entries, size_t n) {
    weir_test_call c = {0};
    c.keys = allocate((n + 1) * sizeof *c.keys);
    push_u32(&c.index, 0);
    for (size_t i = 0; i < n; i++) {
        weir_bytes key = weir_test_view(entries[i].key);
        push(&c.data, key);
        push_u32(&c.index, (uint32_t)c.data.len);
        push(&c.data, weir_test_view(entries[i].value));
        push_u32(&c.index, (uint32_t)c.data.len);
        push(&c.times, (weir_bytes){(const uint8_t *)&entries[i].time, 8});
        size_t k = 0;
        while (k < c.key_count && !weir_equal(c.keys[k], key)) k++;
        if (k == c.key_count) c.keys[c.key_count++] = key;
        if (weir_plugin.state_count) push_u32(&c.key_of, (uint32_t)k);
    }
    weir_test_prefetch(&c);
    return c;
}

/* Applies what a call gave, if it went well. */
static inline weir_status weir_test_apply(const weir_test_call *c, process_result *result) {
    weir_status status = WEIR_OK;
    weir_test.bad_count = 0;
    if (result->failed) {
        error *e = &result->as.error;
        status = e->tag == ERROR_RETRY ? WEIR_RETRY : e->tag == ERROR_FATAL ? WEIR_FATAL : WEIR_BAD_RECORD;
        for (size_t i = 0; status == WEIR_BAD_RECORD && i < e->as.bad.len && i < 256; i++) {
            weir_test.bad[i].index = e->as.bad.data[i].index;
            snprintf(weir_test.bad[i].why, sizeof weir_test.bad[i].why, "%.*s", (int)e->as.bad.data[i].why.len,
                     (const char *)e->as.bad.data[i].why.data);
            weir_test.bad_count = i + 1;
        }
    } else {
        output *ok = &result->as.ok;
        weir_test_take(0, ok->main.count, ok->main.data.data, ok->main.index.data, ok->main.times.data);
        for (size_t i = 0; i < ok->sides.len; i++) {
            batch *b = &ok->sides.data[i].records;
            weir_test_take(1 + ok->sides.data[i].port, b->count, b->data.data, b->index.data, b->times.data);
        }
        weir_test.outputs += weir_test.emitted;
        CHECK(ok->updates.len == 0 || ok->updates.len == c->state_count);
        for (uint32_t s = 0, p = 0; p < ok->updates.len; s++) {
            if (weir_plugin.states[s].on_demand) continue;
            cells *updates = &ok->updates.data[p++];
            for (size_t k = 0; k < c->key_count; k++) {
                if (!updates->ops.data[k]) continue;
                weir_bytes value = weir_test_string(updates->data.data, updates->index.data, k);
                bool put = updates->ops.data[k] == 1;
                weir_test_put(s, c->keys[k], put ? weir_test_copy(value.data, value.len) : (weir_test_bytes){0});
            }
        }
    }
    weir_test.emitted = 0;
    return status;
}

#ifdef WEIR_TIMERS
static inline bool weir_test_is_event(const uint8_t *kind, size_t len) { return weir_equal((weir_bytes){kind, len}, WEIR_TEXT("event-time")); }

static inline void weir_test_change_timers(bool sets, bool event, uint32_t count, const uint8_t *data, const uint8_t *index, const uint8_t *times) {
    for (uint32_t i = 0; i < count; i++) {
        weir_bytes key = weir_test_string(data, index, 2 * (size_t)i), payload = weir_test_string(data, index, 2 * (size_t)i + 1);
        size_t at = 0;
        for (; at < weir_test.timer_count; at++) {
            weir_test_timer *t = &weir_test.timers[at];
            if (t->event == event && t->at.time == s64_at(times, i) && weir_equal(weir_test_view(t->at.key), key) &&
                weir_equal(weir_test_view(t->at.value), payload))
                break;
        }
        if (sets && at == weir_test.timer_count) {
            CHECK(at < WEIR_TEST_MAX);
            weir_test.timers[weir_test.timer_count++] = (weir_test_timer){
                event, {0, weir_test_copy(key.data, key.len), weir_test_copy(payload.data, payload.len), s64_at(times, i)}};
        } else if (!sets && at < weir_test.timer_count) {
            weir_test.timers[at] = weir_test.timers[--weir_test.timer_count];
        }
    }
}

void weir_host_register_many(const uint8_t *kind, size_t kind_len, uint32_t count, const uint8_t *data, size_t data_len,
                             const uint8_t *index, size_t index_len, const uint8_t *times, size_t times_len, const uint8_t *aux,
                             size_t aux_len) {
    (void)data_len, (void)index_len, (void)times_len, (void)aux, (void)aux_len;
    weir_test_change_timers(true, weir_test_is_event(kind, kind_len), count, data, index, times);
}

void weir_host_delete_timers(const uint8_t *kind, size_t kind_len, uint32_t count, const uint8_t *data, size_t data_len,
                             const uint8_t *index, size_t index_len, const uint8_t *times, size_t times_len, const uint8_t *aux,
                             size_t aux_len) {
    (void)data_len, (void)index_len, (void)times_len, (void)aux, (void)aux_len;
    weir_test_change_timers(false, weir_test_is_event(kind, kind_len), count, data, index, times);
}

int64_t weir_host_current(const uint8_t *kind, size_t kind_len) {
    return weir_test_is_event(kind, kind_len) ? weir_test.watermark : weir_test.wall;
}

static inline int weir_test_order(const weir_test_entry *a, const weir_test_entry *b) {
    if (a->time != b->time) return a->time < b->time ? -1 : 1;
    size_t len = a->key.len < b->key.len ? a->key.len : b->key.len;
    int order = memcmp(a->key.data, b->key.data, len);
    return order ? order : (a->key.len > b->key.len) - (a->key.len < b->key.len);
}

/* Fires what is due, by time and then by key, one timer a call. */
static inline weir_status weir_test_fire(void) {
    for (int event = 1; event >= 0; event--)
        for (;;) {
            size_t first = WEIR_TEST_MAX;
            for (size_t i = 0; i < weir_test.timer_count; i++) {
                weir_test_timer *t = &weir_test.timers[i];
                if (t->event != event || t->at.time > (event ? weir_test.watermark : weir_test.wall)) continue;
                if (first == WEIR_TEST_MAX || weir_test_order(&t->at, &weir_test.timers[first].at) < 0) first = i;
            }
            if (first == WEIR_TEST_MAX) break;
            weir_test_entry due = weir_test.timers[first].at;
            weir_test.timers[first] = weir_test.timers[--weir_test.timer_count];
            weir_test_call c = weir_test_call_of(&due, 1);
            weir_bytes kind = event ? WEIR_TEXT("event-time") : WEIR_TEXT("processing-time");
            process_result *result = weir_export_on_timers(kind.data, kind.len, 1, c.data.data, c.data.len, c.index.data, c.index.len,
                                                           c.times.data, c.times.len, NULL, 0, c.key_of.data, c.key_of.len, c.states,
                                                           c.state_count);
            weir_status status = weir_test_apply(&c, result);
            weir_post_on_timers(result);
            if (status != WEIR_OK) return status;
        }
    return WEIR_OK;
}

/* Event time has come so far: fires what is due. */
static inline weir_status weir_test_watermark(int64_t to) {
    weir_test.watermark = to;
    return weir_test_fire();
}

/* The clock on the wall shows this: fires what is due. */
static inline weir_status weir_test_wall(int64_t to) {
    weir_test.wall = to;
    return weir_test_fire();
}
#else
static inline weir_status weir_test_fire(void) { return WEIR_OK; }
#endif

/* Sends the batch to input `port`, as the host does: prefetched state goes in, and only a success changes it. */
static inline weir_status weir_test_send(uint32_t port_) {
    weir_test_call c = weir_test_call_of(weir_test.input, weir_test.inputs);
    process_result *result = weir_export_process(port_, (uint32_t)weir_test.inputs, c.data.data, c.data.len, c.index.data, c.index.len,
                                                 c.times.data, c.times.len, NULL, 0, c.key_of.data, c.key_of.len, c.states, c.state_count);
    weir_status status = weir_test_apply(&c, result);
    weir_test.inputs = 0;
    weir_post_process(result);
    return status == WEIR_OK ? weir_test_fire() : status;
}

#ifdef WEIR_END_OF_INPUT
/* Ends all inputs in order, after every event-time timer; then each key that holds state, one a call, in no certain order. */
static inline weir_status weir_test_end_input(void) {
    weir_test.watermark = INT64_MAX;
    weir_status status = weir_test_fire();
    for (uint32_t i = 0; status == WEIR_OK && (i == 0 || i < weir_plugin.inputs); i++) {
        weir_test_call none = {0};
        process_result *result = weir_export_on_end(i);
        status = weir_test_apply(&none, result);
        weir_post_on_end(result);
    }
    /* Once for each key: at its first state that holds a value. */
    size_t count = weir_test.cell_count;
    bool *first = calloc(count + 1, 1);
    for (size_t i = 0; i < count; i++) {
        weir_test_cell *cell = &weir_test.cells[i];
        first[i] = cell->value.data && !weir_plugin.states[cell->state].on_demand;
        for (size_t j = 0; j < i; j++)
            if (first[j] && weir_equal(weir_test_view(weir_test.cells[j].key), weir_test_view(cell->key))) first[i] = false;
    }
    for (size_t i = 0; status == WEIR_OK && i < count; i++) {
        if (!first[i]) continue;
        weir_test_cell cell = weir_test.cells[i];
        weir_bytes key = weir_test_view(cell.key);
        weir_test_call c = {.keys = &key, .key_count = 1};
        weir_test_prefetch(&c);
        uint32_t index[2] = {0, (uint32_t)key.len};
        process_result *result =
            weir_export_on_end_keys(key.data, key.len, (const uint8_t *)index, sizeof index, c.states, c.state_count);
        status = weir_test_apply(&c, result);
        weir_post_on_end_keys(result);
    }
    free(first);
    return status;
}
#endif

static inline void weir_test_expect_at(int line, uint32_t port, const char *key, const char *value) {
    weir_test_check(weir_test.expected < weir_test.outputs, line, "nothing more came out");
    weir_test_entry *entry = &weir_test.output[weir_test.expected++];
    bool right = entry->port == port && weir_equal((weir_bytes){entry->key.data, entry->key.len}, weir_text(key)) &&
                 weir_equal((weir_bytes){entry->value.data, entry->value.len}, weir_text(value));
    if (right) return;
    fprintf(stderr, "line %d: port %u '%.*s' '%.*s' came out, not port %u '%s' '%s'\n", line, entry->port, (int)entry->key.len,
            (char *)entry->key.data, (int)entry->value.len, (char *)entry->value.data, port, key, value);
    exit(1);
}
/* The next record that came out. `port`: 0 is the main output, k is side output k - 1. */
#define weir_test_expect(port, key, value) weir_test_expect_at(__LINE__, port, key, value)

/* Closes the operator; fails if something came out that nothing expected. */
static inline int weir_test_end(void) {
    weir_export_close();
    CHECK(weir_test.expected == weir_test.outputs);
    puts("ok");
    return 0;
}

#endif /* WEIR_SINK */
#endif
