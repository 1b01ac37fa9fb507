/* Granted folders in memory that can lose power, for tests. Part of weir_test.h.
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

enum { WEIR_TEST_NODES = 4096 };
static struct {
    weir_test_node nodes[WEIR_TEST_NODES];
    size_t node_count;
    /* Only append and read are allowed. */
    bool writing;
    /* How many calls succeed before every one fails. */
    size_t left;
} weir_test_folders;

/* Empty folders, on a disk that works. */
static inline void weir_test_empty_folders(void) {
    memset(&weir_test_folders, 0, sizeof weir_test_folders);
    weir_test_folders.left = SIZE_MAX;
}

static inline weir_test_node *weir_test_node_at(weir_bytes path) {
    for (size_t i = 0; i < weir_test_folders.node_count; i++)
        if (weir_equal(weir_test_view(weir_test_folders.nodes[i].path), path)) return &weir_test_folders.nodes[i];
    return NULL;
}

static inline weir_test_node *weir_test_make(weir_bytes path, bool folder) {
    weir_test_node *node = weir_test_node_at(path);
    if (!node) {
        CHECK(weir_test_folders.node_count < WEIR_TEST_NODES);
        node = &weir_test_folders.nodes[weir_test_folders.node_count++];
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
    for (size_t i = 0; i < weir_test_folders.node_count; i++) {
        weir_test_node *node = &weir_test_folders.nodes[i];
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
    if (weir_test_folders.writing && !in_write) return weir_test_refuse(answer, "only append and read may be called in write");
    if (!weir_test_folders.left) return weir_test_refuse(answer, "the disk is gone");
    weir_test_folders.left--;
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
    answer->as.names.data = allocate(weir_test_folders.node_count * sizeof(weir_bytes));
    answer->as.names.len = 0;
    for (size_t i = 0; i < weir_test_folders.node_count; i++) {
        weir_test_node *node = &weir_test_folders.nodes[i];
        size_t skip = at_len ? at_len + 1 : 0;
        if (node->there && weir_equal(weir_test_parent(weir_test_view(node->path)), path))
            answer->as.names.data[answer->as.names.len++] = (weir_bytes){node->path.data + skip, node->path.len - skip};
    }
    if (answer->as.names.len) qsort(answer->as.names.data, answer->as.names.len, sizeof(weir_bytes), weir_test_by_name);
}

/* Loses power: what was not synced is gone. Calls work again if they failed before. */
static inline void weir_test_crash(void) {
    weir_test_folders.left = SIZE_MAX;
    for (size_t i = 0; i < weir_test_folders.node_count; i++) {
        weir_test_folders.nodes[i].there = weir_test_folders.nodes[i].durably_there;
        weir_test_folders.nodes[i].bytes = weir_test_folders.nodes[i].durable;
    }
}

/* Lets so many more calls for files succeed; then every call fails until a crash. */
static inline void weir_test_fail_after(size_t calls) { weir_test_folders.left = calls; }

/* The content of a file; data is NULL if there is none. */
static inline weir_bytes weir_test_file(const char *path) {
    weir_test_node *node = weir_test_node_at(weir_text(path));
    if (!node || !node->there || node->folder) return (weir_bytes){0};
    return node->bytes.data ? weir_test_view(node->bytes) : WEIR_TEXT("");
}
