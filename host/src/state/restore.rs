//! Opening a snapshot: into cells if it is of row files and fits, else into a store.

use super::cache::{CellCache, NONE, PASS_KEYS};
use super::rocks::{self, LinkedFile, RocksStore};
use super::rows::{self, Row};
use super::{RestoredState, SnapshotFile, files, state_error};
use std::path::Path;
use weir_plugin::state::{Keys, StateError, StateId, cell_hash};

/// Reads row files into cells, a later one over an earlier one. None: there are other files, or the cells take more than `limit`
/// bytes.
pub(super) fn into_cells(restored: &RestoredState, limit: usize) -> Result<Option<CellCache>, StateError> {
    let files = || restored.base.iter().chain(&restored.deltas);
    files().try_for_each(files::look_at)?;
    if !files().all(is_rows) {
        return Ok(None);
    }
    let mut filling = Filling::default();
    for file in files() {
        let fits = rows::read(&file.local, |bytes, block| {
            for row in block {
                filling.push(row?, bytes);
            }
            filling.fill(bytes);
            Ok(filling.cells.bytes() <= limit)
        })?;
        if !fits {
            return Ok(None);
        }
    }
    Ok(Some(filling.cells))
}

fn is_rows(file: &SnapshotFile) -> bool {
    rows::is_rows(&file.name)
}

/// Cells, and the rows of a block that come next: those of one state are looked up together.
struct Filling {
    cells: CellCache,
    state: StateId,
    keys: Vec<(u32, u32)>,
    hashes: Vec<u64>,
    values: Vec<Option<(u32, u32)>>,
    ids: Vec<u32>,
}

impl Default for Filling {
    fn default() -> Self {
        Filling { cells: CellCache::new(), state: 0, keys: Vec::new(), hashes: Vec::new(), values: Vec::new(), ids: Vec::new() }
    }
}

impl Filling {
    #[inline]
    fn push(&mut self, row: Row, bytes: &[u8]) {
        if row.state != self.state || self.keys.len() == PASS_KEYS {
            self.fill(bytes);
            self.state = row.state;
        }
        self.keys.push(row.key);
        self.hashes.push(cell_hash(row.state, rows::of(bytes, row.key)));
        self.values.push(row.value);
    }

    fn fill(&mut self, bytes: &[u8]) {
        let Filling { cells, state, keys, hashes, values, ids } = self;
        let looked_up = Keys { data: bytes, spans: keys, hashes };
        ids.clear();
        cells.find_all(*state, looked_up, 0..keys.len(), ids);
        for (i, (&id, value)) in ids.iter().zip(&*values).enumerate() {
            match (id, value.map(|value| rows::of(bytes, value))) {
                (NONE, None) => {}
                (NONE, value) => drop(cells.insert(*state, looked_up.key(i), hashes[i], value)),
                (id, None) => cells.remove(id),
                (id, value) => cells.pool.set_value(id, value),
            }
        }
        keys.clear();
        hashes.clear();
        values.clear();
    }
}

/// Links the base into a store in `folder`, and ingests what follows in its order.
pub(super) fn into_store(folder: &Path, restored: &RestoredState) -> Result<RocksStore, StateError> {
    let mut files: Vec<&SnapshotFile> = restored.base.iter().chain(&restored.deltas).collect();
    let mut base = Vec::new();
    // A base is one file of rows, or a store's.
    if !matches!(&restored.base[..], [only] if is_rows(only)) {
        files.drain(..restored.base.len());
        base = linked(&restored.base)?;
    }
    let store = RocksStore::open(folder, &base)?;
    // Tables are ingested together where they follow each other: RocksDB opens each of them once.
    for run in files.chunk_by(|a, b| !is_rows(a) && !is_rows(b)) {
        match run {
            [file] if is_rows(file) => store.ingest_rows(&file.local)?,
            tables => store.ingest(&tables.iter().map(|file| file.local.as_path()).collect::<Vec<_>>())?,
        }
    }
    Ok(store)
}

fn linked(base: &[SnapshotFile]) -> Result<Vec<LinkedFile>, StateError> {
    let mut linked = Vec::with_capacity(base.len());
    for file in base {
        let what = files::what_of(&file.name)
            .ok_or_else(|| state_error(format!("restoring state file {}", file.name), "this is not the name of a base file"))?;
        linked.push(LinkedFile { what: what.to_owned(), path: file.local.clone() });
    }
    // Without them RocksDB would open an empty store.
    let is_store = linked.iter().all(|file| rocks::is_table(&file.what) || rocks::is_index(&file.what))
        && (linked.is_empty() || linked.iter().filter(|file| rocks::is_index(&file.what)).count() == 2);
    if !is_store {
        let names: Vec<_> = base.iter().map(|file| file.name.as_str()).collect();
        return Err(state_error("restoring a base", format!("these are not the files of a RocksDB store: {}", names.join(", "))));
    }
    Ok(linked)
}
