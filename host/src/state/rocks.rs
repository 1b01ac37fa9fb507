//! RocksDB as the store below the cache: the only file that names `rocksdb`.
//!
//! Nothing is written through its memtable. What changes the store is [`RocksStore::ingest`] alone, called by one thread, so
//! the hard links of [`RocksStore::link`] hold exactly what was ingested before.

use super::copies::{Copies, PARTS, PREFIX, part_of};
use super::{files, rows, state_error};
use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, ColumnFamily, DB, DBCompressionType, IngestExternalFileOptions, LogLevel, Options,
    ReadOptions, SliceTransform, SstFileWriter, checkpoint::Checkpoint, properties,
};
use std::fs;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use weir_plugin::state::{StateError, cell_hash, key_group};

/// A file of a linked folder.
pub(super) struct LinkedFile {
    /// Name by which RocksDB finds it.
    pub(super) what: String,
    /// Where the link lies.
    pub(super) path: PathBuf,
}

/// An open store in a working folder.
pub(super) struct RocksStore {
    db: DB,
    options: Options,
    /// Links to be ingested, which ingestion moves away.
    passing: PathBuf,
    passed: AtomicU64,
}

/// Table files ingested before the store compacts them. A miss asks the Bloom filter of each one.
const LEVEL0_FILES: i32 = 8;
/// Bytes of rows that are sorted in memory at a time.
const SORTED_BYTES: u64 = 16 << 20;
/// A read is of one key: what is copied and decompressed with it is of no use.
const BLOCK_BYTES: usize = 1 << 10;
/// Table files kept open by one store.
const OPEN_FILES: i32 = 256;

fn options() -> Options {
    let mut table = BlockBasedOptions::default();
    // The cells above are the cache of what was read: a block would be kept for the sake of one key in it, and push out another.
    // Without this cache indexes and filters lie in memory as long as their file is open, and are never read twice.
    table.disable_cache();
    // Reads are of single keys, and most keys of a growing state are absent: a filter over whole keys.
    table.set_bloom_filter(10.0, false);
    table.set_whole_key_filtering(true);
    table.set_block_size(BLOCK_BYTES);
    // A key group and state has few blocks: a hash table leads to them, where a search among all of an index meets a dozen
    // cache misses.
    table.set_index_type(BlockBasedIndexType::HashSearch);
    let mut options = Options::default();
    options.set_prefix_extractor(SliceTransform::create_fixed_prefix(PREFIX));
    options.set_block_based_table_factory(&table);
    options.create_if_missing(true);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_max_background_jobs(2);
    options.set_max_open_files(OPEN_FILES);
    options.set_skip_stats_update_on_db_open(true);
    // Files come by ingestion, which must never wait for compaction: the cache would fill up behind it.
    options.set_level_zero_file_num_compaction_trigger(LEVEL0_FILES);
    options.set_level_zero_slowdown_writes_trigger(i32::MAX);
    options.set_level_zero_stop_writes_trigger(i32::MAX);
    options.set_soft_pending_compaction_bytes_limit(0);
    options.set_hard_pending_compaction_bytes_limit(0);
    options.set_level_compaction_dynamic_level_bytes(true);
    options.set_manifest_preallocation_size(64 << 10);
    options.set_log_level(LogLevel::Warn);
    options.set_keep_log_file_num(1);
    options.set_stats_dump_period_sec(0);
    options.set_stats_persist_period_sec(0);
    options
}

impl RocksStore {
    /// Opens a store in an empty `folder`. The base's files are linked there (small ones that RocksDB rewrites are copied).
    pub(super) fn open(folder: &Path, base: &[LinkedFile]) -> Result<Self, StateError> {
        let (at, passing) = (folder.join("db"), folder.join("passing"));
        files::make_folder(&at)?;
        files::make_folder(&passing)?;
        for file in base {
            let to = at.join(&file.what);
            match is_table(&file.what) {
                true => files::link_or_copy(&file.path, &to)?,
                false => files::copy(&file.path, &to)?,
            }
        }
        let options = options();
        let db = DB::open_cf_with_opts(&options, &at, [("default", options.clone())])
            .map_err(|e| state_error(format!("opening RocksDB in {}", at.display()), e))?;
        Ok(RocksStore { db, options, passing, passed: AtomicU64::new(0) })
    }

    fn family(&self) -> &ColumnFamily {
        self.db.cf_handle("default").expect("the store was opened with this family")
    }

    fn at(&self) -> std::path::Display<'_> {
        self.db.path().display()
    }

    /// Reads many store keys in one batch; `each` gets the index of a key and its value.
    pub(super) fn read<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        mut each: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<(), StateError> {
        let family = self.family();
        for (i, value) in self.db.batched_multi_get_cf(family, keys, false).into_iter().enumerate() {
            let value = value.map_err(|e| state_error(format!("reading state from RocksDB in {}", self.at()), e))?;
            each(i, value.as_deref());
        }
        Ok(())
    }

    /// Calls `each` with the store keys from `from` on and their values, ascending, until it returns false.
    pub(super) fn scan(&self, from: &[u8], mut each: impl FnMut(&[u8], &[u8]) -> bool) -> Result<(), StateError> {
        let mut read = ReadOptions::default();
        // Across key groups, which the index is by.
        read.set_total_order_seek(true);
        let mut rows = self.db.raw_iterator_cf_opt(self.family(), read);
        rows.seek(from);
        while let Some((key, value)) = rows.item() {
            if !each(key, value) {
                return Ok(());
            }
            rows.next();
        }
        rows.status().map_err(|e| state_error(format!("scanning state in RocksDB in {}", self.at()), e))
    }

    /// Writes copies as one table file, fsynced.
    pub(super) fn write_delta(&self, path: &Path, copies: &Copies) -> Result<(), StateError> {
        let write = || -> Result<(), rocksdb::Error> {
            let mut table = SstFileWriter::create(&self.options);
            table.open(path)?;
            copies.in_order(|key, value| match value {
                Some(value) => table.put(key, value),
                None => table.delete(key),
            })?;
            table.finish()
        };
        write().map_err(|e| state_error(format!("writing state file {}", path.display()), e))
    }

    /// Ingests what a row file holds, in table files of a bounded size.
    pub(super) fn ingest_rows(&self, rows: &Path) -> Result<(), StateError> {
        // Each pass sorts a range of key groups in memory.
        let passes = (rows::raw_bytes(rows)? / SORTED_BYTES + 1).min(PARTS as u64) as usize;
        let mut tables = Vec::new();
        for pass in 0..passes {
            let parts = pass * PARTS / passes..(pass + 1) * PARTS / passes;
            let mut copies = Copies::to_be_sorted();
            rows::read(rows, |bytes, rows| {
                for row in rows {
                    let row = row?;
                    let key = rows::of(bytes, row.key);
                    let group = key_group(cell_hash(row.state, key));
                    if parts.contains(&part_of(group)) {
                        copies.push(group, row.state, key, row.value.map(|value| rows::of(bytes, value)));
                    }
                }
                Ok(true)
            })?;
            if !copies.is_empty() {
                let number = self.passed.fetch_add(1, Ordering::Relaxed);
                tables.push(self.passing.join(format!("{number}.rows.sst")));
                self.write_delta(&tables[tables.len() - 1], &copies)?;
            }
        }
        self.ingest(&tables.iter().map(PathBuf::as_path).collect::<Vec<_>>())?;
        tables.iter().for_each(|table| files::remove_unneeded(table));
        Ok(())
    }

    /// Ingests table files, a later one over an earlier one. The files stay as they are: links (or copies) of them go in.
    pub(super) fn ingest(&self, paths: &[&Path]) -> Result<(), StateError> {
        if paths.is_empty() {
            return Ok(());
        }
        let mut links = Vec::with_capacity(paths.len());
        for path in paths {
            // Never a name used before: RocksDB may have failed to remove that link, and it is part of the store by now.
            let number = self.passed.fetch_add(1, Ordering::Relaxed);
            let link = self.passing.join(format!("{number}.sst"));
            files::link_or_copy(path, &link)?;
            links.push(link);
        }
        let mut options = IngestExternalFileOptions::default();
        // Moves the link, not the file. RocksDB keeps the sequence number in its manifest, so the shared content stays.
        options.set_move_files(true);
        // The memtable is always empty; a flush would be our bug.
        options.set_allow_blocking_flush(false);
        self.db
            .ingest_external_file_cf_opts(self.family(), &options, links)
            .map_err(|e| state_error(format!("ingesting {} into RocksDB in {}", paths[0].display(), self.at()), e))
    }

    /// Bytes of the indexes and filters that lie in memory.
    pub(super) fn resident_bytes(&self) -> Result<u64, StateError> {
        self.size(properties::ESTIMATE_TABLE_READERS_MEM)
    }

    /// Rows, each version of a key counted.
    pub(super) fn rows(&self) -> Result<u64, StateError> {
        self.size(properties::ESTIMATE_NUM_KEYS)
    }

    fn size(&self, name: &properties::PropName) -> Result<u64, StateError> {
        let value = self.db.property_int_value(name);
        let value = value.map_err(|e| state_error(format!("asking RocksDB in {} for its size", self.at()), e))?;
        Ok(value.unwrap_or(0))
    }

    /// The name of the table file in the store that shares its content with `path`, if ingestion linked it.
    pub(super) fn table_of(&self, path: &Path) -> Result<Option<String>, StateError> {
        let wanted = files::inode(path)?;
        let fail = |e: std::io::Error| state_error(format!("listing RocksDB's folder {}", self.at()), e);
        for entry in fs::read_dir(self.db.path()).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            if entry.ino() == wanted {
                return Ok(Some(entry.file_name().to_string_lossy().into_owned()));
            }
        }
        Ok(None)
    }

    /// Hard-links the store into `folder`, which must not exist: its table files, `MANIFEST` and `CURRENT`.
    pub(super) fn link(&self, folder: &Path) -> Result<Vec<LinkedFile>, StateError> {
        self.compact_if_mostly_garbage()?;
        Checkpoint::new(&self.db)
            .and_then(|checkpoint| checkpoint.create_checkpoint(folder))
            .map_err(|e| state_error(format!("linking RocksDB's files into {}", folder.display()), e))?;
        let fail = |e: std::io::Error| state_error(format!("listing {}", folder.display()), e);
        let mut linked = Vec::new();
        for entry in fs::read_dir(folder).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            let what = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if is_table(&what) || is_index(&what) {
                linked.push(LinkedFile { what, path });
            } else {
                // Options and logs: nothing of the state is in them.
                fs::remove_file(&path).map_err(|e| state_error(format!("removing {}", path.display()), e))?;
            }
        }
        linked.sort_by(|a, b| a.what.cmp(&b.what));
        Ok(linked)
    }

    /// A base of which half is overwritten would be uploaded twice. Levelled compaction keeps large stores below that, so this
    /// runs on small ones whose table files cover each other.
    fn compact_if_mostly_garbage(&self) -> Result<(), StateError> {
        let (live, total) = (self.size(properties::ESTIMATE_LIVE_DATA_SIZE)?, self.size(properties::LIVE_SST_FILES_SIZE)?);
        if live * 2 < total {
            self.db.compact_range_cf(self.family(), None::<&[u8]>, None::<&[u8]>);
        }
        Ok(())
    }
}

/// True for a table file.
pub(super) fn is_table(what: &str) -> bool {
    what.strip_suffix(".sst").is_some_and(is_number)
}

/// True for a file that says which table files make up the store.
pub(super) fn is_index(what: &str) -> bool {
    what == "CURRENT" || what.strip_prefix("MANIFEST-").is_some_and(is_number)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
