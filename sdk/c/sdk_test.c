/* What no guest here uses: side outputs, headers, null and empty, other states, failures, state on demand; timers and the end of input. */
#include "weir_test.h"

static weir_status open_(const weir_task *task, weir_bytes config) {
    CHECK(task->parallelism == 1 && weir_equal(task->job, WEIR_TEXT("test")));
    return weir_equal(config, WEIR_TEXT("{\"refuse\":true}")) ? weir_fail(WEIR_FATAL, "told to") : WEIR_OK;
}

/* Sets and deletes timers of the key, as the value says. */
static weir_status of_timers(const weir_record *record) {
    if (weir_equal(record->value, WEIR_TEXT("bad"))) {
        weir_set_timer(WEIR_EVENT_TIME, record->time, (weir_bytes){0});
        return weir_fail(WEIR_BAD_RECORD, "told to");
    }
    if (weir_equal(record->value, WEIR_TEXT("wall"))) weir_set_timer(WEIR_PROCESSING_TIME, weir_current(WEIR_PROCESSING_TIME) + 5, record->value);
    else if (weir_equal(record->value, WEIR_TEXT("delete"))) weir_delete_timer(WEIR_EVENT_TIME, record->time, WEIR_TEXT("once"));
    else weir_set_timer(WEIR_EVENT_TIME, record->time, record->value);
    return WEIR_OK;
}

static weir_status on_timer(const weir_timer *timer, weir_value *values, weir_output *out) {
    weir_set(&values[2], timer->payload);
    weir_emit(out, timer->kind == WEIR_EVENT_TIME ? timer->key : WEIR_TEXT("wall"), timer->payload, timer->time);
    return weir_equal(timer->payload, WEIR_TEXT("fail")) ? weir_fail(WEIR_FATAL, "told to") : WEIR_OK;
}

static weir_status on_end(uint32_t port_, weir_output *out) {
    weir_emit(out, WEIR_TEXT("end"), port_ ? WEIR_TEXT("1") : WEIR_TEXT("0"), 0);
    return WEIR_OK;
}

static weir_status on_end_key(weir_bytes key, weir_value *values, weir_output *out) {
    weir_fetch(&values[1]);
    weir_emit(out, key, values[1].present ? (weir_bytes){values[1].data, values[1].len} : WEIR_TEXT("-"), 0);
    weir_delete(&values[2]);
    return WEIR_OK;
}

/* Gives what the state on demand held, and keeps the value there. */
static weir_status rare(const weir_record *record, weir_value *value, weir_output *out) {
    weir_fetch(value);
    weir_fetch(value);
    weir_emit(out, record->key, value->present ? (weir_bytes){value->data, value->len} : WEIR_TEXT("-"), record->time);
    if (weir_equal(record->value, WEIR_TEXT("delete"))) weir_delete(value);
    else if (!weir_equal(record->value, WEIR_TEXT("look"))) weir_set(value, record->value);
    return WEIR_OK;
}

static weir_status process(const weir_record *record, weir_value *values, weir_output *out) {
    if (weir_equal(record->key, WEIR_TEXT("timer"))) return of_timers(record);
    if (weir_equal(record->key, WEIR_TEXT("rare"))) return rare(record, &values[1], out);
    if (weir_equal(record->value, WEIR_TEXT("retry"))) return weir_fail(WEIR_RETRY, "later");
    if (weir_equal(record->value, WEIR_TEXT("delete"))) weir_delete(&values[2]);
    else if (weir_equal(record->value, WEIR_TEXT("struct"))) return weir_struct(&values[2], 1000) ? WEIR_OK : weir_fail(WEIR_FATAL, "size");
    else weir_set(&values[2], record->value);
    weir_forward(out, record);
    weir_emit_side(out, 1, record->key, values[2].present ? (weir_bytes){values[2].data, values[2].len} : WEIR_TEXT("-"), record->time);
    return WEIR_OK;
}

static const weir_state STATES[] = {
    {.name = "unused", .version = 1}, {.name = "rare", .version = 1, .on_demand = true}, {.name = "last", .version = 2}};
static const char *const SIDES[] = {"never", "values"};
const weir_operator weir_plugin = {
    .name = "sdk-test", .version = "1", .states = STATES, .state_count = 3, .side_outputs = SIDES, .side_output_count = 2,
    .open = open_, .process = process, .on_timer = on_timer, .on_end = on_end, .on_end_key = on_end_key,
};

static void state_and_side_outputs(void) {
    CHECK(weir_test_open("{\"refuse\":true}") == WEIR_FATAL);
    CHECK(weir_test_open("{}") == WEIR_OK);
    weir_test_record("a", "one", 1);
    weir_test_record("b", "", 2);
    CHECK(weir_test_send(0) == WEIR_OK);
    weir_test_expect(0, "a", "one");
    weir_test_expect(0, "b", "");
    weir_test_expect(2, "a", "one");
    weir_test_expect(2, "b", "");
    CHECK(weir_test_state(2, "a").len == 3 && weir_test_state(2, "b").data && !weir_test_state(0, "a").data);
    weir_test_record("a", "two", 1);
    weir_test_record("a", "retry", 1);
    CHECK(weir_test_send(0) == WEIR_RETRY && weir_equal(weir_test_state(2, "a"), WEIR_TEXT("one")));
    weir_test_record("a", "struct", 1);
    CHECK(weir_test_send(0) == WEIR_FATAL);
    weir_test_record("a", "delete", 1);
    CHECK(weir_test_send(0) == WEIR_OK && !weir_test_state(2, "a").data);
    weir_test_expect(0, "a", "delete");
    weir_test_expect(2, "a", "-");
    weir_test_end();
}

/* Three records: plain; an empty key that is there, and a null value; a header. */
static void what_a_record_has_beside_key_and_value_is_forwarded(void) {
    CHECK(weir_test_open("{}") == WEIR_OK);
    static const uint8_t data[] = "kvx";
    static const uint32_t index[] = {0, 1, 2, 2, 2, 2, 3}, key_of[] = {0, 1, 1};
    static const int64_t times[] = {5, 6, 7};
    static const uint8_t aux[] = {1, 0, 3, 0, 0, 0, 0, 3, 0,
                                  2, 0, 25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 'h', 0, 0, 0, 0};
    uint32_t zeros[3] = {0};
    uint8_t absent[2] = {0};
    cells none = {{absent, 2}, {0}, {(uint8_t *)zeros, sizeof zeros}};
    cells states[2] = {none, none};
    process_result *result =
        weir_export_process(3, 3, data, 3, (const uint8_t *)index, sizeof index, (const uint8_t *)times, sizeof times, aux, sizeof aux,
                            (const uint8_t *)key_of, sizeof key_of, states, 2);
    batch *main_ = &result->as.ok.main;
    CHECK(!result->failed && main_->count == 3 && main_->aux.len == sizeof aux && !memcmp(main_->aux.data, aux, sizeof aux));
    CHECK(!memcmp(main_->index.data, index, sizeof index) && !memcmp(main_->times.data, times, sizeof times));
    CHECK(result->as.ok.sides.len == 1 && result->as.ok.sides.data[0].port == 1 && !result->as.ok.sides.data[0].records.aux.len);
    weir_post_process(result);
}

static void timers_fire_by_time_once_each(void) {
    CHECK(weir_test_open("{}") == WEIR_OK);
    weir_test_record("timer", "late", 20);
    weir_test_record("timer", "once", 10);
    weir_test_record("timer", "once", 10);
    weir_test_record("timer", "gone", 5);
    weir_test_record("timer", "wall", 0);
    CHECK(weir_test_send(0) == WEIR_OK && weir_test.timer_count == 4);
    weir_test_record("timer", "bad", 1);
    CHECK(weir_test_send(0) == WEIR_BAD_RECORD && weir_test.timer_count == 4);
    CHECK(weir_test_watermark(10) == WEIR_OK);
    weir_test_expect(0, "timer", "gone");
    weir_test_expect(0, "timer", "once");
    CHECK(weir_equal(weir_test_state(2, "timer"), WEIR_TEXT("once")) && weir_test.output[1].time == 10);
    weir_test_record("timer", "once", 15);
    weir_test_record("timer", "delete", 15);
    weir_test_record("timer", "now", 9);
    CHECK(weir_test_send(0) == WEIR_OK && weir_test.timer_count == 2);
    weir_test_expect(0, "timer", "now");
    CHECK(weir_test_wall(5) == WEIR_OK);
    weir_test_expect(0, "wall", "wall");
    weir_test_record("timer", "fail", 12);
    CHECK(weir_test_send(0) == WEIR_OK && weir_test_watermark(12) == WEIR_FATAL);
    CHECK(weir_equal(weir_test_state(2, "timer"), WEIR_TEXT("wall")));
    weir_test_end();
}

static void state_on_demand_and_the_end(void) {
    CHECK(weir_test_open("{}") == WEIR_OK);
    weir_test_record("rare", "one", 1);
    weir_test_record("other", "x", 1);
    weir_test_record("rare", "look", 1);
    weir_test_record("rare", "two", 1);
    CHECK(weir_test_send(0) == WEIR_OK);
    weir_test_expect(0, "rare", "-");
    weir_test_expect(0, "other", "x");
    weir_test_expect(0, "rare", "one");
    weir_test_expect(0, "rare", "one");
    weir_test_expect(2, "other", "x");
    CHECK(weir_equal(weir_test_state(1, "rare"), WEIR_TEXT("two")));
    weir_test_record("rare", "delete", 1);
    CHECK(weir_test_send(0) == WEIR_OK && !weir_test_state(1, "rare").data);
    weir_test_expect(0, "rare", "two");
    weir_test_record("timer", "left", 7);
    CHECK(weir_test_send(0) == WEIR_OK && weir_test_end_input() == WEIR_OK);
    weir_test_expect(0, "timer", "left");
    weir_test_expect(0, "end", "0");
    weir_test_expect(0, "other", "-");
    weir_test_expect(0, "timer", "-");
    CHECK(!weir_test_state(2, "other").data && !weir_test.timer_count);
    weir_test_end();
}

static void an_operator_has_files_too(void) {
    weir_test_empty_folders();
    weir_bytes read, *names, grant = WEIR_TEXT("in");
    size_t count;
    bool done;
    CHECK(!weir_append(grant, WEIR_TEXT("a/f"), WEIR_TEXT("abc")) && weir_mkdir(grant, WEIR_TEXT("a/b")));
    CHECK(weir_append(grant, WEIR_TEXT("a/f"), WEIR_TEXT("abc")) && weir_append(grant, WEIR_TEXT("a/f"), WEIR_TEXT("de")));
    CHECK(weir_read(grant, WEIR_TEXT("a/f"), 2, 9, &read) && weir_equal(read, WEIR_TEXT("cde")));
    CHECK(weir_list(grant, WEIR_TEXT("a"), &names, &count) && count == 2 && weir_equal(names[0], WEIR_TEXT("b")));
    CHECK(weir_rename(grant, WEIR_TEXT("a/f"), WEIR_TEXT("a/g"), &done) && done);
    CHECK(weir_sync(grant, WEIR_TEXT("a")) && weir_remove(grant, WEIR_TEXT("a/f"), &done) && !done);
    take_why();
}

static void headers_are_added_and_read(void) {
    weir_bytes headers = {0};
    weir_add_header(&headers, (weir_header){WEIR_TEXT("to"), WEIR_TEXT("x"), false});
    weir_add_header(&headers, (weir_header){WEIR_TEXT("to"), {0}, true});
    weir_add_header(&headers, (weir_header){{0}, {0}, false});
    weir_header header;
    CHECK(weir_next_header(&headers, &header) && weir_equal(header.name, WEIR_TEXT("to")) && weir_equal(header.value, WEIR_TEXT("x")));
    CHECK(weir_next_header(&headers, &header) && weir_equal(header.name, WEIR_TEXT("to")) && header.value_null);
    CHECK(weir_next_header(&headers, &header) && !header.name.len && !header.value.len && !header.value_null);
    CHECK(!weir_next_header(&headers, &header));
}

int main(void) {
    timers_fire_by_time_once_each();
    state_on_demand_and_the_end();
    an_operator_has_files_too();
    headers_are_added_and_read();
    state_and_side_outputs();
    what_a_record_has_beside_key_and_value_is_forwarded();
    return 0;
}
