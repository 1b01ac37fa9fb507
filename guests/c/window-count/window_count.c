/* Counts the records of each key in tumbling windows of event time: one result for each window, when the watermark passes it. The same as
 * guests/window-count, down to the state that it keeps; keys must be UTF-8.
 *
 * Config: `{"size_ms": 60000}`. Output: the key, and `{"key":…,"start":…,"count":…}` with the window's last millisecond as its time. What
 * comes after its window has closed goes to the side output `late`, as it came.
 */
#include "weir.h"

/* An open window of a key. State holds how many there are, u32, and then each, as the Rust SDK stores a Vec<(i64, u64)>. */
typedef struct window {
    int64_t start;
    uint64_t count;
} window;

static int64_t size_ms;

/* Takes `text` off the front of what is left, after blanks. */
static bool take(weir_bytes *rest, weir_bytes text) {
    while (rest->len && (*rest->data == ' ' || *rest->data == '\n' || *rest->data == '\t' || *rest->data == '\r'))
        *rest = (weir_bytes){rest->data + 1, rest->len - 1};
    if (rest->len < text.len || !weir_equal((weir_bytes){rest->data, text.len}, text)) return false;
    *rest = (weir_bytes){rest->data + text.len, rest->len - text.len};
    return true;
}

static weir_status open_(const weir_task *task, weir_bytes config) {
    (void)task;
    if (take(&config, WEIR_TEXT("{")) && take(&config, WEIR_TEXT("\"size_ms\"")) && take(&config, WEIR_TEXT(":"))) {
        (void)take(&config, (weir_bytes){0});
        for (size_ms = 0; config.len && *config.data >= '0' && *config.data <= '9' && size_ms < INT64_MAX / 100; config.data++, config.len--)
            size_ms = size_ms * 10 + (*config.data - '0');
        if (size_ms > 0 && take(&config, WEIR_TEXT("}")) && !config.len) return WEIR_OK;
    }
    return weir_fail(WEIR_FATAL, "config: it must be {\"size_ms\": n}, with n above 0");
}

/* When a window closes: its last millisecond. False: it would lie beyond all times. */
static bool last_ms(int64_t start, int64_t *last) {
    if (start > INT64_MAX - (size_ms - 1)) return false;
    *last = start + (size_ms - 1);
    return true;
}

/* The open windows, with room for one more. */
static bool load_windows(const weir_value *value, window **open, uint32_t *count) {
    *count = 0;
    if (value->present) {
        if (value->len < 4) return false;
        __builtin_memcpy(count, value->data, 4);
        if (value->len != 4 + (uint64_t)*count * sizeof(window)) return false;
    }
    *open = weir_scratch((*count + 1) * sizeof(window));
    if (*count) __builtin_memcpy(*open, value->data + 4, *count * sizeof(window));
    return true;
}

static void store_windows(weir_value *value, const window *open, uint32_t count) {
    if (!count) {
        weir_delete(value);
        return;
    }
    uint8_t *stored = weir_scratch(4 + count * sizeof(window));
    __builtin_memcpy(stored, &count, 4);
    __builtin_memcpy(stored + 4, open, count * sizeof(window));
    weir_set(value, (weir_bytes){stored, 4 + count * sizeof(window)});
}

static weir_status process(const weir_record *record, weir_value *values, weir_output *out) {
    int64_t into = record->time % size_ms, last;
    int64_t start = record->time - (into < 0 ? into + size_ms : into);
    if (!last_ms(start, &last)) return weir_fail(WEIR_BAD_RECORD, "its window has no end");
    if (last <= weir_current(WEIR_EVENT_TIME)) {
        weir_forward_side(out, 0, record);
        return WEIR_OK;
    }
    window *open;
    uint32_t count, at = 0;
    if (!load_windows(&values[0], &open, &count)) return weir_fail(WEIR_FATAL, "state `windows` holds something else");
    while (at < count && open[at].start != start) at++;
    if (at == count) {
        open[count++] = (window){start, 0};
        weir_set_timer(WEIR_EVENT_TIME, last, (weir_bytes){0});
    }
    open[at].count++;
    store_windows(&values[0], open, count);
    return WEIR_OK;
}

/* A text in JSON's form. */
static void write_json(weir_output *out, weir_bytes text) {
    static const char SHORT[] = "\b\t\n\f\r\"\\", LETTERS[] = "btnfr\"\\", HEX[] = "0123456789abcdef";
    weir_write_byte(out, '"');
    for (size_t i = 0; i < text.len; i++) {
        uint8_t byte = text.data[i];
        size_t s = 0;
        while (SHORT[s] && SHORT[s] != (char)byte) s++;
        if (SHORT[s]) {
            weir_write_byte(out, '\\');
            weir_write_byte(out, (uint8_t)LETTERS[s]);
        } else if (byte < ' ') {
            weir_write(out, WEIR_TEXT("\\u00"));
            weir_write_byte(out, (uint8_t)HEX[byte >> 4]);
            weir_write_byte(out, (uint8_t)HEX[byte & 15]);
        } else {
            weir_write_byte(out, byte);
        }
    }
    weir_write_byte(out, '"');
}

static weir_status on_timer(const weir_timer *timer, weir_value *values, weir_output *out) {
    window *open;
    uint32_t count, at = 0;
    int64_t last;
    if (!load_windows(&values[0], &open, &count)) return weir_fail(WEIR_FATAL, "state `windows` holds something else");
    while (at < count && !(last_ms(open[at].start, &last) && last == timer->time)) at++;
    if (at == count) return weir_fail(WEIR_FATAL, "a timer of no window has fired");
    window closed = open[at];
    open[at] = open[count - 1];
    store_windows(&values[0], open, count - 1);
    weir_begin(out, timer->key);
    weir_write(out, WEIR_TEXT("{\"key\":"));
    write_json(out, timer->key);
    weir_write(out, WEIR_TEXT(",\"start\":"));
    weir_write_int(out, closed.start);
    weir_write(out, WEIR_TEXT(",\"count\":"));
    weir_write_int(out, (int64_t)closed.count);
    weir_write_byte(out, '}');
    weir_end(out, timer->time);
    return WEIR_OK;
}

static const weir_state STATES[] = {{.name = "windows", .version = 1}};
static const char *const SIDES[] = {"late"};

const weir_operator weir_plugin = {
    .name = "window-count",
    .version = "0.1.0",
    .states = STATES,
    .state_count = 1,
    .side_outputs = SIDES,
    .side_output_count = 1,
    .open = open_,
    .process = process,
    .on_timer = on_timer,
};
