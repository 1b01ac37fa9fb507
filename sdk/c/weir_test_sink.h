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
 * A crash keeps of a file the bytes at its last sync, and of a folder the entries at its last sync; a rename makes both folders durable,
 * and mkdir what it made, as the contract says. Every grant is there.
 */

/* A file or folder of one path: as it is, and as a crash leaves it. */
typedef struct weir_test_node {
    weir_test_bytes path;
    bool folder, there, durably_there;
    weir_test_bytes bytes, durable;
} weir_test_node;

typedef struct weir_test_entry {
    weir_test_bytes key, value;
    int64_t time;
} weir_test_entry;

enum { WEIR_TEST_MAX = 4096 };
static struct {
    weir_test_node nodes[WEIR_TEST_MAX];
    size_t node_count;
    weir_test_entry input[WEIR_TEST_MAX];
    size_t inputs;
    bool writing;
    /* How many calls succeed before every one fails. */
    size_t left;
    char transaction[256];
    /* Why the last call failed, or what the last commit, status or abort says. */
    char why[512];
} weir_test;

static inline weir_test_node *weir_test_node_at(weir_bytes path) {
    for (size_t i = 0; i < weir_test.node_count; i++)
        if (weir_equal(weir_test_view(weir_test.nodes[i].path), path)) return &weir_test.nodes[i];
    return NULL;
}

static inline weir_test_node *weir_test_make(weir_bytes path, bool folder) {
    weir_test_node *node = weir_test_node_at(path);
    if (!node) {
        CHECK(weir_test.node_count < WEIR_TEST_MAX);
        node = &weir_test.nodes[weir_test.node_count++];
        *node = (weir_test_node){.path = weir_test_copy(path.data, path.len)};
    }
    if (!node->there) node->bytes = node->durable = (weir_test_bytes){0};
    node->folder = folder;
    node->there = true;
    return node;
}

static inline weir_bytes weir_test_parent(weir_bytes path) {
    size_t len = path.len;
    while (len && path.data[len - 1] != '/') len--;
    return (weir_bytes){path.data, len ? len - 1 : 0};
}

static inline bool weir_test_is_there(weir_bytes path) {
    weir_test_node *node = weir_test_node_at(path);
    return !path.len || (node && node->there);
}

static inline void weir_test_sync_folder(weir_bytes path) {
    for (size_t i = 0; i < weir_test.node_count; i++) {
        weir_test_node *node = &weir_test.nodes[i];
        if (node->path.len && weir_equal(weir_test_parent(weir_test_view(node->path)), path)) node->durably_there = node->there;
    }
}

static inline bool weir_test_refuse(file_answer *answer, const char *why) {
    answer->failed = 1;
    answer->as.bytes = weir_text(why);
    return false;
}

static inline bool weir_test_enter(bool in_write, weir_bytes path, file_answer *answer) {
    *answer = (file_answer){0};
    if (weir_test.writing && !in_write) return weir_test_refuse(answer, "only append and read may be called in write");
    if (!weir_test.left) return weir_test_refuse(answer, "the disk is gone");
    weir_test.left--;
    if (path.len && path.data[0] == '/') return weir_test_refuse(answer, "the path leaves the folder");
    return true;
}

void weir_host_append(const uint8_t *grant, size_t grant_len, const uint8_t *at, size_t at_len, const uint8_t *data, size_t len,
                      file_answer *answer) {
    (void)grant, (void)grant_len;
    weir_bytes path = {at, at_len};
    if (!weir_test_enter(true, path, answer)) return;
    if (!weir_test_is_there(weir_test_parent(path))) {
        weir_test_refuse(answer, "there is no such folder");
        return;
    }
    weir_test_node *node = weir_test_make(path, false);
    weir_test_bytes more = {malloc(node->bytes.len + len + 1), node->bytes.len + len};
    if (node->bytes.len) memcpy(more.data, node->bytes.data, node->bytes.len);
    if (len) memcpy(more.data + node->bytes.len, data, len);
    node->bytes = more;
}

void weir_host_read(const uint8_t *grant, size_t grant_len, const uint8_t *at, size_t at_len, uint64_t offset, uint32_t limit,
                    file_answer *answer) {
    (void)grant, (void)grant_len;
    weir_bytes path = {at, at_len};
    if (!weir_test_enter(true, path, answer)) return;
    weir_test_node *node = weir_test_node_at(path);
    if (!node || !node->there || node->folder) {
        weir_test_refuse(answer, "there is no such file");
        return;
    }
    size_t from = offset < node->bytes.len ? (size_t)offset : node->bytes.len;
    size_t rest = node->bytes.len - from;
    answer->as.bytes = (weir_bytes){node->bytes.data + from, rest < limit ? rest : limit};
}

void weir_host_sync(const uint8_t *grant, size_t grant_len, const uint8_t *at, size_t at_len, file_answer *answer) {
    (void)grant, (void)grant_len;
    weir_bytes path = {at, at_len};
    if (!weir_test_enter(false, path, answer)) return;
    weir_test_node *node = weir_test_node_at(path);
    if (!weir_test_is_there(path)) weir_test_refuse(answer, "there is no such file or folder");
    else if (!node || node->folder) weir_test_sync_folder(path);
    else node->durable = node->bytes;
}

void weir_host_mkdir(const uint8_t *grant, size_t grant_len, const uint8_t *at, size_t at_len, file_answer *answer) {
    (void)grant, (void)grant_len;
    if (!weir_test_enter(false, (weir_bytes){at, at_len}, answer)) return;
    for (size_t end = 1; end <= at_len; end++)
        if (end == at_len || at[end] == '/') weir_test_make((weir_bytes){at, end}, true)->durably_there = true;
}

void weir_host_rename(const uint8_t *grant, size_t grant_len, const uint8_t *at, size_t at_len, const uint8_t *target, size_t target_len,
                      file_answer *answer) {
    (void)grant, (void)grant_len;
    weir_bytes from = {at, at_len}, to = {target, target_len};
    if (!weir_test_enter(false, from, answer)) return;
    weir_test_node *source = weir_test_node_at(from);
    if (!source || !source->there) {
        weir_test_refuse(answer, "there is no such file");
        return;
    }
    if (weir_test_is_there(to)) return;
    weir_test_bytes bytes = source->bytes, durable = source->durable;
    source->there = false;
    weir_test_node *moved = weir_test_make(to, false);
    moved->bytes = bytes;
    moved->durable = durable;
    weir_test_sync_folder(weir_test_parent(from));
    weir_test_sync_folder(weir_test_parent(to));
    answer->as.flag = 1;
}

void weir_host_remove(const uint8_t *grant, size_t grant_len, const uint8_t *at, size_t at_len, file_answer *answer) {
    (void)grant, (void)grant_len;
    weir_bytes path = {at, at_len};
    if (!weir_test_enter(false, path, answer)) return;
    weir_test_node *node = weir_test_node_at(path);
    answer->as.flag = node && node->there;
    if (node) node->there = false;
}

void weir_host_exists(const uint8_t *grant, size_t grant_len, const uint8_t *at, size_t at_len, file_answer *answer) {
    (void)grant, (void)grant_len;
    if (weir_test_enter(false, (weir_bytes){at, at_len}, answer)) answer->as.flag = weir_test_is_there((weir_bytes){at, at_len});
}

static inline int weir_test_by_name(const void *a, const void *b) {
    const weir_bytes *x = a, *y = b;
    int order = memcmp(x->data, y->data, x->len < y->len ? x->len : y->len);
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

void weir_host_list(const uint8_t *grant, size_t grant_len, const uint8_t *at, size_t at_len, file_answer *answer) {
    (void)grant, (void)grant_len;
    weir_bytes path = {at, at_len};
    if (!weir_test_enter(false, path, answer)) return;
    answer->as.names.data = allocate(weir_test.node_count * sizeof(weir_bytes));
    answer->as.names.len = 0;
    for (size_t i = 0; i < weir_test.node_count; i++) {
        weir_test_node *node = &weir_test.nodes[i];
        size_t skip = at_len ? at_len + 1 : 0;
        if (node->there && weir_equal(weir_test_parent(weir_test_view(node->path)), path))
            answer->as.names.data[answer->as.names.len++] = (weir_bytes){node->path.data + skip, node->path.len - skip};
    }
    if (answer->as.names.len) qsort(answer->as.names.data, answer->as.names.len, sizeof(weir_bytes), weir_test_by_name);
}

/* Loses power: what was not synced is gone. Calls work again if they failed before. */
static inline void weir_test_crash(void) {
    weir_test.left = SIZE_MAX;
    for (size_t i = 0; i < weir_test.node_count; i++) {
        weir_test.nodes[i].there = weir_test.nodes[i].durably_there;
        weir_test.nodes[i].bytes = weir_test.nodes[i].durable;
    }
}

/* Lets so many more calls for files succeed; then every call fails until a crash. */
static inline void weir_test_fail_after(size_t calls) { weir_test.left = calls; }

/* The content of a file; data is NULL if there is none. */
static inline weir_bytes weir_test_file(const char *path) {
    weir_test_node *node = weir_test_node_at(weir_text(path));
    if (!node || !node->there || node->folder) return (weir_bytes){0};
    return node->bytes.data ? weir_test_view(node->bytes) : WEIR_TEXT("");
}

static inline void weir_test_say(weir_bytes why) { snprintf(weir_test.why, sizeof weir_test.why, "%.*s", (int)why.len, (const char *)why.data); }

static inline weir_status weir_test_unit(open_result *result) {
    weir_test_say(result->failed ? result->error.as.text : (weir_bytes){0});
    return !result->failed ? WEIR_OK : result->error.tag == ERROR_RETRY ? WEIR_RETRY : WEIR_FATAL;
}

/* Opens both halves, called `out`, on folders that keep what they had; `config`: a JSON document. */
static inline weir_status weir_test_open(const char *config) {
    weir_test.left = SIZE_MAX;
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
    weir_test.writing = true;
    weir_status status = weir_test_unit(weir_export_write((uint32_t)weir_test.inputs, data.data, data.len, index.data, index.len, times.data,
                                                          times.len, aux.data, aux.len));
    weir_test.writing = false;
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
