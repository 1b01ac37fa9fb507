//! What one plugin instance may use, and the breach of a limit as a value of its own.

use std::fmt;
use std::time::Duration;

const MIB: usize = 1 << 20;

/// Core instances, memories and tables of one component instance: bounds no job file needs to raise (the Python and
/// JavaScript toolchains make a few dozen).
const MAX_PARTS: usize = 1_000;

/// Limits of one instance. All are on by default; the job file's `limits` raises them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory of the instance in bytes, all its memories together.
    pub memory: usize,
    /// Time that one call may compute. Time spent in the host (disk, state) does not count. Kept to 10 ms.
    pub call: Duration,
    /// Bytes that one call may hand to the host to be staged: emitted chunks, its returned output, state writes, appends.
    pub emit: usize,
    /// Host calls that one call may make.
    pub host_calls: u32,
    /// Log lines a second; more are dropped and counted.
    pub log_lines: u32,
    /// Elements of all tables of the instance together.
    pub table_elements: usize,
    /// Bytes that cross the boundary at once, in one host call or one result.
    pub transfer: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            memory: 64 * MIB,
            call: Duration::from_secs(1),
            emit: 64 * MIB,
            host_calls: 10_000,
            log_lines: 100,
            table_elements: 1_000_000,
            transfer: 128 * MIB,
        }
    }
}

/// Which limit was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// [`Limits::memory`].
    Memory,
    /// [`Limits::call`].
    Call,
    /// [`Limits::emit`].
    Emit,
    /// [`Limits::host_calls`].
    HostCalls,
    /// [`Limits::table_elements`].
    TableElements,
    /// [`Limits::transfer`].
    Transfer,
}

impl LimitKind {
    /// Key of this limit in the job file's `limits` table.
    pub fn key(self) -> &'static str {
        match self {
            LimitKind::Memory => "memory",
            LimitKind::Call => "call",
            LimitKind::Emit => "emit",
            LimitKind::HostCalls => "host_calls",
            LimitKind::TableElements => "table_elements",
            LimitKind::Transfer => "transfer",
        }
    }

    /// The value that `limits` gives it, for people.
    fn value(self, limits: &Limits) -> String {
        match self {
            LimitKind::Memory => bytes_text(limits.memory),
            LimitKind::Call => format!("{:?}", limits.call),
            LimitKind::Emit => bytes_text(limits.emit),
            LimitKind::HostCalls => limits.host_calls.to_string(),
            LimitKind::TableElements => limits.table_elements.to_string(),
            LimitKind::Transfer => bytes_text(limits.transfer),
        }
    }

    /// The breach of this limit.
    pub(crate) fn breach(self, limits: &Limits) -> LimitBreach {
        LimitBreach { which: self, limit: self.value(limits) }
    }
}

/// A limit was passed: which one, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitBreach {
    /// The limit.
    pub which: LimitKind,
    /// Its value, for people.
    pub limit: String,
}

impl fmt::Display for LimitBreach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.which {
            LimitKind::Memory => "it wanted more memory than",
            LimitKind::Call => "the call computed longer than",
            LimitKind::Emit => "the call handed the host more bytes than",
            LimitKind::HostCalls => "the call made more host calls than",
            LimitKind::TableElements => "it wanted more table elements than",
            LimitKind::Transfer => "one transfer to the host was larger than",
        };
        write!(f, "{what} its limit, {}; `limits.{}` in the job file raises it", self.limit, self.which.key())
    }
}

impl std::error::Error for LimitBreach {}

/// A size as people write it in a job file.
fn bytes_text(bytes: usize) -> String {
    for (unit, name) in [(1 << 30, "GiB"), (MIB, "MiB"), (1 << 10, "KiB")] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{}{name}", bytes / unit);
        }
    }
    format!("{bytes}B")
}

/// Counts what an instance holds; the engine asks it before anything grows.
///
/// A growth over the limit is a trap, not a failed `memory.grow`: most guests would abort with a message that names no limit.
#[derive(Debug)]
pub(crate) struct Limiter {
    limits: Limits,
    memory: usize,
    tables: usize,
    /// The last growth allowed: taken back if it fails after all.
    pending_memory: usize,
    pending_tables: usize,
}

impl Limiter {
    pub(crate) fn new(limits: Limits) -> Self {
        Limiter { limits, memory: 0, tables: 0, pending_memory: 0, pending_tables: 0 }
    }

    /// Bytes of linear memory that the instance holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory
    }
}

impl wasmtime::ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        let total = self.memory.saturating_add(more);
        if total > self.limits.memory {
            return Err(LimitKind::Memory.breach(&self.limits).into());
        }
        (self.memory, self.pending_memory) = (total, more);
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.memory -= std::mem::take(&mut self.pending_memory).min(self.memory);
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        let total = self.tables.saturating_add(more);
        if total > self.limits.table_elements {
            return Err(LimitKind::TableElements.breach(&self.limits).into());
        }
        (self.tables, self.pending_tables) = (total, more);
        Ok(true)
    }

    fn table_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.tables -= std::mem::take(&mut self.pending_tables).min(self.tables);
        Ok(())
    }

    fn instances(&self) -> usize {
        MAX_PARTS
    }

    fn tables(&self) -> usize {
        MAX_PARTS
    }

    fn memories(&self) -> usize {
        MAX_PARTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmtime::ResourceLimiter;

    #[test]
    fn sizes_are_written_as_in_a_job_file() {
        for (bytes, text) in [(0, "0B"), (1000, "1000B"), (1024, "1KiB"), (64 << 20, "64MiB"), (3 << 30, "3GiB"), (1536, "1536B")]
        {
            assert_eq!(bytes_text(bytes), text);
        }
    }

    #[test]
    fn memories_are_counted_together_and_a_failed_growth_is_taken_back() {
        let mut limiter = Limiter::new(Limits { memory: 10, ..Limits::default() });
        assert!(limiter.memory_growing(0, 6, None).expect("fits"));
        let breach = limiter.memory_growing(0, 5, None).expect_err("11 of 10");
        assert_eq!(breach.downcast_ref::<LimitBreach>().map(|b| b.which), Some(LimitKind::Memory));
        assert!(limiter.memory_growing(0, 4, None).expect("fits"));
        limiter.memory_grow_failed(wasmtime::Error::msg("no address space")).expect("is only counted");
        assert_eq!(limiter.memory_bytes(), 6);
    }
}
