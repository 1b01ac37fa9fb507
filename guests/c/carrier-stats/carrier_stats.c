/* Running departure delays of each carrier and origin: for every flight one line
 * `carrier,origin,count,sum_dep_delay,max_dep_delay`, after this flight. Delays are whole minutes. The same as
 * guests/carrier-stats, down to the state that it keeps.
 *
 * Input: lines of the flights file, keyed `carrier,origin`, as `parse-flights` gives them.
 */
#include "weir.h"

/* Where the delay stands in a line, and how many fields a line has. */
enum { DEP_DELAY = 5, FIELDS = 19 };

typedef struct stats {
    uint64_t count;
    int64_t sum;
    int64_t max;
} stats;

/* The next raw field of a line, quotes and all; false if its quotes are wrong. `rest.data` is NULL after the last one. */
static bool next_field(weir_bytes *rest, weir_bytes *field) {
    const uint8_t *at = rest->data, *end = at + rest->len;
    if (at < end && *at == '"') {
        for (at++;; at++) {
            if (at >= end) return false;
            if (*at != '"') continue;
            if (++at == end || *at == ',') break;
            if (*at != '"') return false;
        }
    } else {
        while (at < end && *at != ',') at++;
    }
    *field = (weir_bytes){rest->data, (size_t)(at - rest->data)};
    *rest = at < end ? (weir_bytes){at + 1, (size_t)(end - at - 1)} : (weir_bytes){0};
    return true;
}

static bool is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

/* A decimal number, cut to its whole part. */
static bool whole(weir_bytes text, int64_t *number) {
    if (text.len >= 2 && text.data[0] == '"') text = (weir_bytes){text.data + 1, text.len - 2};
    const uint8_t *at = text.data, *end = at + text.len;
    bool negative = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+')) at++;
    const uint8_t *digits = at;
    int64_t sum = 0;
    for (; at < end && is_digit(*at); at++) {
        if (sum > (INT64_MAX - 9) / 10) return false;
        sum = sum * 10 + (*at - '0');
    }
    size_t seen = (size_t)(at - digits);
    if (at < end && *at == '.')
        for (at++; at < end && is_digit(*at); at++) seen++;
    if (at != end || !seen) return false;
    *number = negative ? -sum : sum;
    return true;
}

static weir_status process(const weir_record *record, weir_value *values, weir_output *out) {
    weir_bytes rest = record->value, field, delay_field = {0};
    int count = 0;
    for (; rest.data; count++) {
        if (!next_field(&rest, &field)) return weir_fail(WEIR_BAD_RECORD, "a quoted field does not end with its quote");
        if (count == DEP_DELAY) delay_field = field;
    }
    if (count != FIELDS) return weir_fail(WEIR_BAD_RECORD, "a flight has 19 fields");
    int64_t delay;
    if (!whole(delay_field, &delay)) {
        weir_why(WEIR_TEXT("dep_delay '"));
        weir_why(delay_field);
        return weir_fail(WEIR_BAD_RECORD, "' is not a number");
    }
    stats *now = weir_struct(&values[0], sizeof(stats));
    if (!now) return weir_fail(WEIR_FATAL, "state `delays` holds something else");
    if (now->count == 0 || delay > now->max) now->max = delay;
    now->count++;
    now->sum += delay;
    weir_begin(out, record->key);
    weir_write(out, record->key);
    weir_write_byte(out, ',');
    weir_write_int(out, (int64_t)now->count);
    weir_write_byte(out, ',');
    weir_write_int(out, now->sum);
    weir_write_byte(out, ',');
    weir_write_int(out, now->max);
    weir_end(out, record->time);
    return WEIR_OK;
}

static const weir_state STATES[] = {{.name = "delays", .version = 1}};

const weir_operator weir_plugin = {
    .name = "carrier-stats",
    .version = "0.1.0",
    .states = STATES,
    .state_count = 1,
    .process = process,
};
