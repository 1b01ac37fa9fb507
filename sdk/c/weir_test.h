/* Tests of an operator in C, natively: the host's side of weir.c, with state in memory.
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

typedef struct weir_test_entry {
    uint32_t port;
    weir_test_bytes key, value;
    int64_t time;
} weir_test_entry;

typedef struct weir_test_cell {
    uint32_t state;
    weir_test_bytes key, value;
} weir_test_cell;

enum { WEIR_TEST_MAX = 1 << 16 };
static struct {
    weir_test_entry input[WEIR_TEST_MAX], output[WEIR_TEST_MAX];
    weir_test_cell cells[WEIR_TEST_MAX];
    size_t inputs, outputs, expected, cell_count;
    /* Chunks of a call that has not returned. */
    size_t emitted;
    /* The last refusal: which records and why. */
    struct { uint32_t index; char why[256]; } bad[256];
    size_t bad_count;
} weir_test;

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

void weir_host_log(const uint8_t *level, size_t level_len, const uint8_t *message, size_t message_len) {
    fprintf(stderr, "%.*s: %.*s\n", (int)level_len, (const char *)level, (int)message_len, (const char *)message);
}

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
        if (cell->state == state && weir_equal((weir_bytes){cell->key.data, cell->key.len}, key)) return cell;
    }
    return NULL;
}

/* The stored value of a key; data is NULL if there is none. */
static inline weir_bytes weir_test_state(uint32_t state, const char *key) {
    weir_test_cell *cell = weir_test_find(state, weir_text(key));
    return cell && cell->value.data ? (weir_bytes){cell->value.data, cell->value.len} : (weir_bytes){0};
}

/* Sends the batch to input `port`, as the host does: prefetched state goes in, and only a success changes it. */
static inline weir_status weir_test_send(uint32_t port_) {
    size_t n = weir_test.inputs, keys = 0;
    uint32_t states = weir_plugin.state_count;
    buffer data = {0}, index = {0}, times = {0}, key_of = {0};
    size_t *first = calloc(n + 1, sizeof *first);
    push_u32(&index, 0);
    for (size_t i = 0; i < n; i++) {
        weir_test_entry *entry = &weir_test.input[i];
        weir_bytes key = {entry->key.data, entry->key.len};
        push(&data, key);
        push_u32(&index, (uint32_t)data.len);
        push(&data, (weir_bytes){entry->value.data, entry->value.len});
        push_u32(&index, (uint32_t)data.len);
        push(&times, (weir_bytes){(const uint8_t *)&entry->time, 8});
        size_t k = 0;
        while (k < keys && !weir_equal((weir_bytes){weir_test.input[first[k]].key.data, weir_test.input[first[k]].key.len}, key)) k++;
        if (k == keys) first[keys++] = i;
        if (states) push_u32(&key_of, (uint32_t)k);
    }
    cells *given = allocate(states * sizeof(cells));
    for (uint32_t s = 0; s < states; s++) {
        buffer ops = {0}, values = {0}, offsets = {0};
        push_u32(&offsets, 0);
        for (size_t k = 0; k < keys; k++) {
            weir_test_entry *entry = &weir_test.input[first[k]];
            weir_test_cell *cell = weir_test_find(s, (weir_bytes){entry->key.data, entry->key.len});
            bool present = cell && cell->value.data;
            push_byte(&ops, present);
            if (present) push(&values, (weir_bytes){cell->value.data, cell->value.len});
            push_u32(&offsets, (uint32_t)values.len);
        }
        given[s] = (cells){list_of(&ops), list_of(&values), list_of(&offsets)};
    }
    weir_test.emitted = weir_test.bad_count = 0;
    process_result *result = weir_export_process(port_, (uint32_t)n, data.data, data.len, index.data, index.len, times.data, times.len,
                                                 NULL, 0, key_of.data, key_of.len, given, states);
    weir_status status = WEIR_OK;
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
        CHECK(ok->updates.len == 0 || ok->updates.len == states);
        for (uint32_t s = 0; s < ok->updates.len; s++)
            for (size_t k = 0; k < keys; k++) {
                cells *c = &ok->updates.data[s];
                if (!c->ops.data[k]) continue;
                weir_test_entry *entry = &weir_test.input[first[k]];
                weir_test_cell *cell = weir_test_find(s, (weir_bytes){entry->key.data, entry->key.len});
                if (!cell) {
                    CHECK(weir_test.cell_count < WEIR_TEST_MAX);
                    cell = &weir_test.cells[weir_test.cell_count++];
                    *cell = (weir_test_cell){s, weir_test_copy(entry->key.data, entry->key.len), {0}};
                }
                uint32_t from = u32_at(c->index.data, k), to = u32_at(c->index.data, k + 1);
                cell->value = c->ops.data[k] == 1 ? weir_test_copy(c->data.data + from, to - from) : (weir_test_bytes){0};
            }
    }
    weir_test.inputs = weir_test.emitted = 0;
    free(first);
    weir_post_process(result);
    return status;
}

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

#endif
