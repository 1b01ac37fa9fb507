//! The writing half.

use crate::layout::{GRANT, Staged, Target, VERSION, check_config};
use weir_sdk::prelude::*;

/// Appends to the staged file of the open transaction.
#[derive(Default)]
pub struct Writer {
    out: Option<Files>,
    open: Option<Open>,
    /// Lines of the running batch; kept for its memory.
    lines: Vec<u8>,
}

/// An open transaction.
struct Open {
    staged: Staged,
    /// Bytes appended; an empty transaction leaves no file.
    bytes: u64,
}

impl SinkWriter for Writer {
    const INFO: Info = weir_sdk::info!();
    const COMMITTABLE_VERSIONS: &'static [u32] = &[VERSION];

    fn open(&mut self, task: &Task, config: &str) -> Result<(), Error> {
        check_config(config)?;
        self.out = Some(task.grants.folder(GRANT));
        Ok(())
    }

    fn begin(&mut self, transaction: &str) -> Result<(), Error> {
        let staged = Staged::of(transaction).map_err(Error::fatal)?;
        let out = self.out.as_ref().expect("opened first");
        out.mkdir(&staged.folder).map_err(Error::fatal)?;
        // An identity is never used twice, so nothing can lie there. If something does, it is not ours to append to.
        if out.exists(&staged.file).map_err(Error::fatal)? {
            return Err(Error::fatal(format!("{} is there already: is another job using this folder?", staged.file)));
        }
        self.open = Some(Open { staged, bytes: 0 });
        Ok(())
    }

    fn write(&mut self, batch: Batch<'_>) -> Result<(), Error> {
        if batch.is_empty() {
            return Ok(());
        }
        self.lines.clear();
        self.lines.reserve(batch.data_len() + batch.len());
        for record in batch.records() {
            let Some(value) = record.value_or_null() else {
                return Err(Error::fatal("a record's value is null, which a line can't say"));
            };
            self.lines.extend_from_slice(value);
            self.lines.push(b'\n');
        }
        let open = self.open.as_mut().ok_or_else(|| Error::fatal("write without begin"))?;
        self.out.as_ref().expect("opened first").append(&open.staged.file, &self.lines).map_err(Error::fatal)?;
        open.bytes += self.lines.len() as u64;
        Ok(())
    }

    fn prepare(&mut self, checkpoint: &str, _: bool) -> Result<Option<Prepared>, Error> {
        let Open { staged, bytes } = self.open.take().ok_or_else(|| Error::fatal("prepare without begin"))?;
        if bytes == 0 {
            return Ok(None);
        }
        self.make_durable(&staged).map_err(Error::fatal)?;
        Ok(Some(Prepared { version: VERSION, bytes: Target::new(staged.subtask, checkpoint, bytes).encode() }))
    }
}

impl Writer {
    /// Content first, then the marker that vouches for it, then the names of both. The folders were made durable by `mkdir`.
    ///
    /// At last a look at the staged file: a newer generation may have aborted this transaction meanwhile. It removes the
    /// marker again after the staged file, so one of the two sees the other.
    fn make_durable(&self, staged: &Staged) -> Result<(), String> {
        let out = self.out.as_ref().expect("opened first");
        out.sync(&staged.file)?;
        out.append(&staged.marker, b"")?;
        out.sync(&staged.marker)?;
        out.sync(&staged.folder)?;
        if out.exists(&staged.file)? { Ok(()) } else { Err(format!("{} was aborted by somebody else", staged.file)) }
    }
}
