/* A sink whose transactions are one file each. */
#include "weir_test.h"

static const weir_bytes OUT = {(const uint8_t *)"out", 3};
static weir_bytes mode;
static uint8_t name_[128];
static size_t name_len;

static weir_bytes staged(weir_bytes transaction) { return WEIR_JOIN(WEIR_TEXT("staged/"), transaction); }
static weir_bytes own(void) { return (weir_bytes){name_, name_len}; }
static weir_bytes part(const weir_committable *what) { return WEIR_JOIN(WEIR_TEXT("part-"), what->bytes); }

static weir_status open_(const weir_task *task, weir_bytes config) {
    CHECK(weir_equal(task->job, WEIR_TEXT("test")) && task->parallelism == 1);
    mode = config;
    if (weir_equal(config, WEIR_TEXT("{\"refuse\":true}"))) return weir_fail(WEIR_FATAL, "told to");
    return weir_mkdir(OUT, WEIR_TEXT("staged")) ? WEIR_OK : weir_fail(WEIR_RETRY, "");
}

static weir_status begin(weir_bytes transaction) {
    if (transaction.len > sizeof name_) return weir_fail(WEIR_FATAL, "too long");
    memcpy(name_, transaction.data, name_len = transaction.len);
    return WEIR_OK;
}

static weir_status write_(const weir_record *records, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (records[i].value_null) return weir_fail(WEIR_FATAL, "null");
        if (!weir_append(OUT, staged(own()), records[i].value)) return weir_fail(WEIR_FATAL, "");
    }
    return WEIR_OK;
}

static weir_status prepare(weir_bytes checkpoint, bool end_of_input, weir_prepared *prepared) {
    (void)end_of_input;
    bool there;
    if (!weir_exists(OUT, staged(own()), &there)) return weir_fail(WEIR_FATAL, "");
    if (!there) return WEIR_OK;
    if (!weir_sync(OUT, staged(own())) || !weir_sync(OUT, WEIR_TEXT("staged"))) return weir_fail(WEIR_FATAL, "");
    *prepared = (weir_prepared){3, checkpoint};
    return WEIR_OK;
}

static weir_status open_committer(weir_bytes job, weir_bytes sink, weir_bytes config) {
    CHECK(weir_equal(job, WEIR_TEXT("test")) && weir_equal(sink, WEIR_TEXT("out")) && weir_equal(config, mode));
    return WEIR_OK;
}

static weir_outcome status(const weir_committable *what) {
    bool there;
    if (!weir_exists(OUT, part(what), &there)) return WEIR_UNKNOWN;
    return there ? WEIR_ALREADY_COMMITTED : WEIR_NOT_COMMITTED;
}

static weir_outcome commit(const weir_committable *what) {
    weir_outcome is = status(what);
    bool done;
    if (is != WEIR_NOT_COMMITTED) return is;
    if (!weir_rename(OUT, staged(what->id), part(what), &done)) return WEIR_NOT_COMMITTED;
    return done ? WEIR_COMMITTED : WEIR_LOST;
}

static weir_abort_outcome abort_(weir_bytes transaction) {
    bool done;
    return weir_remove(OUT, staged(transaction), &done) && weir_sync(OUT, WEIR_TEXT("staged")) ? WEIR_ABORTED : WEIR_NOT_ABORTED;
}

static weir_status list_dangling(void) {
    weir_bytes *names;
    size_t count;
    if (!weir_list(OUT, WEIR_TEXT("staged"), &names, &count)) return weir_fail(WEIR_RETRY, "");
    for (size_t i = 0; i < count; i++) weir_add_dangling(names[i]);
    return WEIR_OK;
}

static weir_status forget(weir_bytes transaction) { return transaction.len ? WEIR_OK : weir_fail(WEIR_FATAL, "nameless"); }

static const uint32_t VERSIONS[] = {3};
const weir_sink weir_plugin = {
    .name = "sdk-sink-test", .version = "1", .committable_versions = VERSIONS, .committable_version_count = 1, .open = open_, .begin = begin,
    .write = write_, .prepare = prepare, .open_committer = open_committer, .commit = commit, .status = status, .abort = abort_,
    .list_dangling = list_dangling, .forget = forget,
};

int main(void) {
    CHECK(weir_test_open("{\"refuse\":true}") == WEIR_FATAL && !strcmp(weir_test.why, "told to"));
    CHECK(weir_test_open("{}") == WEIR_OK);
    weir_committable one, two, none;
    CHECK(weir_test_begin("b") == WEIR_OK);
    weir_test_record("k", "v", 1);
    weir_test_record("k", "w", 1);
    CHECK(weir_test_write() == WEIR_OK && weir_test_prepare("3-1", &one) && one.version == 3);
    CHECK(weir_test_begin("a") == WEIR_OK);
    weir_test_record("k", "x", 1);
    CHECK(weir_test_write() == WEIR_OK && weir_test_prepare("3-2", &two));
    CHECK(weir_test_begin("c") == WEIR_OK && !weir_test_prepare("3-3", &none) && !weir_test.why[0]);
    weir_test_record("k", NULL, 1);
    CHECK(weir_test_write() == WEIR_FATAL && !strcmp(weir_test.why, "null"));
    weir_test_crash();
    char dangling[256];
    CHECK(weir_test_dangling(0, dangling) == 2 && !strcmp(dangling, "a") && weir_equal(weir_test_file("staged/b"), WEIR_TEXT("vw")));
    weir_test_fail_after(1);
    CHECK(weir_test_commit(&one) == WEIR_NOT_COMMITTED && !strcmp(weir_test.why, "the disk is gone"));
    weir_test_fail_after(0);
    CHECK(weir_test_status(&one) == WEIR_UNKNOWN && weir_test_abort("a") == WEIR_NOT_ABORTED);
    weir_test_crash();
    weir_committable both[] = {one, two};
    both[0].bytes = WEIR_TEXT("3-2");
    CHECK(weir_test_commit(&two) == WEIR_COMMITTED);
    outcomes *o = weir_export_commit(both, 2);
    CHECK(o->data[0].is == WEIR_ALREADY_COMMITTED && o->data[1].is == WEIR_ALREADY_COMMITTED);
    weir_post_commit(o);
    weir_test_fail_after(1);
    o = weir_export_commit((weir_committable[]){one, two}, 2);
    CHECK(o->data[0].is == WEIR_NOT_COMMITTED && weir_equal(o->data[1].why, WEIR_TEXT("not tried: b before it is not committed")));
    weir_post_commit(o);
    weir_test_crash();
    CHECK(weir_test_commit(&one) == WEIR_COMMITTED && weir_equal(weir_test_file("part-3-1"), WEIR_TEXT("vw")));
    weir_test_crash();
    CHECK(weir_test_commit(&one) == WEIR_ALREADY_COMMITTED && weir_test_abort("a") == WEIR_ABORTED);
    CHECK(weir_test_forget("a") == WEIR_OK && weir_test_forget("") == WEIR_FATAL && weir_test_dangling(0, dangling) == 0);
    puts("ok");
    return 0;
}
