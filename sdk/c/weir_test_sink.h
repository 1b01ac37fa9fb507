/* Tests of a sink in C, natively, on folders in memory that can lose power. Part of weir_test.h.
 *
 *     #include "weir_test.h"
 *     #include "my_sink.c"
 *
 *     int main(void) {
 *         weir_test_open("{}");
 *         weir_test_begin("a.1.out.0.1");
 *         weir_test_record("key", "value", 1);
 *         weir_test_write();
 *         weir_committable done;
 *         CHECK(weir_test_prepare("1-1", &done));
 *         weir_test_crash();
 *         CHECK(weir_test_commit(&done) == WEIR_COMMITTED);
 *     }
 *
 * Folders keep what they had when a sink is opened again; `weir_test_empty_folders` empties them.
 */

typedef struct weir_test_entry {
    weir_test_bytes key, value;
    int64_t time;
} weir_test_entry;

enum { WEIR_TEST_MAX = 4096 };
static struct {
    weir_test_entry input[WEIR_TEST_MAX];
    size_t inputs;
    char transaction[256];
    /* Why the last call failed, or what the last commit, status or abort says. */
    char why[512];
} weir_test;

static inline void weir_test_say(weir_bytes why) { snprintf(weir_test.why, sizeof weir_test.why, "%.*s", (int)why.len, (const char *)why.data); }

static inline weir_status weir_test_unit(open_result *result) {
    weir_test_say(result->failed ? result->error.as.text : (weir_bytes){0});
    return !result->failed ? WEIR_OK : result->error.tag == ERROR_RETRY ? WEIR_RETRY : WEIR_FATAL;
}

/* Opens both halves, called `out`, on folders that keep what they had; `config`: a JSON document. */
static inline weir_status weir_test_open(const char *config) {
    weir_test_folders.left = SIZE_MAX;
    weir_bytes text = weir_text(config);
    weir_export_describe();
    weir_post_describe(NULL);
    weir_status status = weir_test_unit(
        weir_export_open((const uint8_t *)"test", 4, (const uint8_t *)"out", 3, 0, 1, 1, text.data, text.len));
    weir_post_open(NULL);
    if (status != WEIR_OK) return status;
    status = weir_test_unit(weir_export_open_committer((const uint8_t *)"test", 4, (const uint8_t *)"out", 3, text.data, text.len));
    weir_post_open_committer(NULL);
    return status;
}

static inline weir_status weir_test_begin(const char *transaction) {
    snprintf(weir_test.transaction, sizeof weir_test.transaction, "%s", transaction);
    weir_status status = weir_test_unit(weir_export_begin((const uint8_t *)transaction, strlen(transaction)));
    weir_post_begin(NULL);
    return status;
}

/* One more record for the next batch; a value that is NULL is null. */
static inline void weir_test_record(const char *key, const char *value, int64_t time) {
    CHECK(weir_test.inputs < WEIR_TEST_MAX);
    weir_bytes k = weir_text(key), v = value ? weir_text(value) : (weir_bytes){0};
    weir_test.input[weir_test.inputs++] =
        (weir_test_entry){weir_test_copy(k.data, k.len), value ? weir_test_copy(v.data, v.len) : (weir_test_bytes){0}, time};
}

/* Writes the batch. */
static inline weir_status weir_test_write(void) {
    buffer data = {0}, index = {0}, times = {0}, aux = {0};
    push_u32(&index, 0);
    push(&aux, (weir_bytes){(const uint8_t[]){TAG_MARKS, 0}, 2});
    push_u32(&aux, (uint32_t)weir_test.inputs);
    for (size_t i = 0; i < weir_test.inputs; i++) {
        weir_test_entry *entry = &weir_test.input[i];
        push(&data, weir_test_view(entry->key));
        push_u32(&index, (uint32_t)data.len);
        push(&data, weir_test_view(entry->value));
        push_u32(&index, (uint32_t)data.len);
        push(&times, (weir_bytes){(const uint8_t *)&entry->time, 8});
        uint8_t mark = entry->value.data ? 0 : MARK_VALUE_NULL;
        push(&aux, (weir_bytes){&mark, 1});
    }
    weir_test_folders.writing = true;
    weir_status status = weir_test_unit(weir_export_write((uint32_t)weir_test.inputs, data.data, data.len, index.data, index.len, times.data,
                                                          times.len, aux.data, aux.len));
    weir_test_folders.writing = false;
    weir_test.inputs = 0;
    weir_post_write(NULL);
    return status;
}

/* Prepares the open transaction. False if it failed (`weir_test.why` says why), or if there is nothing to commit. */
static inline bool weir_test_prepare(const char *checkpoint, weir_committable *committable) {
    prepare_result *result = weir_export_prepare((const uint8_t *)checkpoint, strlen(checkpoint), 0);
    weir_test_say(result->failed ? result->as.error.as.text : (weir_bytes){0});
    bool some = !result->failed && result->as.ok.some;
    if (some) {
        weir_bytes id = weir_text(weir_test.transaction), at = weir_text(checkpoint), bytes = result->as.ok.prepared.bytes;
        *committable = (weir_committable){weir_test_view(weir_test_copy(id.data, id.len)), weir_test_view(weir_test_copy(at.data, at.len)),
                                          result->as.ok.prepared.version, weir_test_view(weir_test_copy(bytes.data, bytes.len))};
    }
    weir_post_prepare(NULL);
    return some;
}

static inline uint8_t weir_test_outcome(outcomes *o) {
    weir_test_say(o->data[0].why);
    return o->data[0].is;
}

static inline weir_outcome weir_test_commit(const weir_committable *what) {
    weir_outcome is = (weir_outcome)weir_test_outcome(weir_export_commit(what, 1));
    weir_post_commit(NULL);
    return is;
}

static inline weir_outcome weir_test_status(const weir_committable *what) {
    weir_outcome is = (weir_outcome)weir_test_outcome(weir_export_status(what, 1));
    weir_post_status(NULL);
    return is;
}

static inline weir_abort_outcome weir_test_abort(const char *transaction) {
    weir_bytes name = weir_text(transaction);
    weir_abort_outcome is = (weir_abort_outcome)weir_test_outcome(weir_export_abort(&name, 1));
    weir_post_abort(NULL);
    return is;
}

/* Number of dangling transactions; `i`th is copied to `name`. */
static inline size_t weir_test_dangling(size_t i, char name[256]) {
    names_result *result = weir_export_list_dangling();
    CHECK(!result->failed);
    size_t count = result->as.ok.len;
    if (i < count) snprintf(name, 256, "%.*s", (int)result->as.ok.data[i].len, (const char *)result->as.ok.data[i].data);
    weir_post_list_dangling(NULL);
    return count;
}

static inline weir_status weir_test_forget(const char *transaction) {
    weir_bytes name = weir_text(transaction);
    weir_status status = weir_test_unit(weir_export_forget(&name, 1));
    weir_post_forget(NULL);
    return status;
}
