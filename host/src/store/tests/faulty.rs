//! An object store that loses answers, delays puts, and fills up.

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, Result, UploadPart,
};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

/// What happens to a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing.
    None,
    /// It is applied, and the answer gets lost.
    LoseAnswer,
    /// No answer, and it is applied when the test says so.
    Hold,
    /// The disk is full.
    Full,
}

#[derive(Debug)]
struct Inner {
    /// For the next puts, in order; then `always`.
    next: VecDeque<Fault>,
    always: Option<Fault>,
    held: Vec<(Path, PutPayload, PutOptions)>,
    /// Deletes that still succeed.
    deletes_left: usize,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct FaultyStore {
    below: Arc<dyn ObjectStore>,
    inner: Arc<Mutex<Inner>>,
    /// Told of every put that had a fault.
    pub faulted: Arc<tokio::sync::Notify>,
}

impl FaultyStore {
    pub(super) fn over(below: Arc<dyn ObjectStore>) -> Self {
        let inner = Inner { next: VecDeque::new(), always: None, held: Vec::new(), deletes_left: usize::MAX };
        FaultyStore { below, inner: Arc::new(Mutex::new(inner)), faulted: Arc::default() }
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().expect("no test panics while it holds the lock")
    }

    /// What happens to the next puts.
    pub(super) fn next(&self, faults: &[Fault]) {
        self.inner().next.extend(faults);
    }

    /// What happens to all puts after those.
    pub(super) fn always(&self, fault: Fault) {
        self.inner().always = Some(fault);
    }

    /// Lets so many deletes succeed, and no more.
    pub(super) fn fail_deletes_after(&self, deletes: usize) {
        self.inner().deletes_left = deletes;
    }

    /// Applies what was held back; gives the answers that nobody gets.
    pub(super) async fn apply_held(&self) -> Vec<Result<PutResult>> {
        let held = std::mem::take(&mut self.inner().held);
        let mut answers = Vec::new();
        for (location, payload, options) in held {
            answers.push(self.below.put_opts(&location, payload, options).await);
        }
        answers
    }

    fn fault(&self) -> Fault {
        let mut inner = self.inner();
        let always = inner.always.unwrap_or(Fault::None);
        inner.next.pop_front().unwrap_or(always)
    }
}

fn lost() -> object_store::Error {
    let source = io::Error::new(io::ErrorKind::TimedOut, "the answer was lost");
    object_store::Error::Generic { store: "faulty", source: source.into() }
}

fn full() -> object_store::Error {
    // As a local store reports it: with the system's error down in the chain.
    let source = io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error());
    object_store::Error::Generic { store: "faulty", source: Box::new(Wrapped(source)) }
}

#[derive(Debug, thiserror::Error)]
#[error("unable to copy data to file")]
struct Wrapped(#[source] io::Error);

impl std::fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("faulty")
    }
}

#[derive(Debug)]
struct FullUpload(Box<dyn MultipartUpload>);

#[async_trait]
impl MultipartUpload for FullUpload {
    fn put_part(&mut self, _: PutPayload) -> UploadPart {
        Box::pin(async { Err(full()) })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.0.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        self.0.abort().await
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let fault = self.fault();
        let answer = match fault {
            Fault::None => return self.below.put_opts(location, payload, options).await,
            Fault::LoseAnswer => {
                self.below.put_opts(location, payload, options).await?;
                Err(lost())
            }
            Fault::Hold => {
                self.inner().held.push((location.clone(), payload, options));
                Err(lost())
            }
            Fault::Full => Err(full()),
        };
        self.faulted.notify_one();
        answer
    }

    async fn put_multipart_opts(&self, location: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let fault = self.fault();
        let upload = self.below.put_multipart_opts(location, options).await?;
        Ok(if fault == Fault::Full { Box::new(FullUpload(upload)) } else { upload })
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.below.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        // One object at a time is all that is ever asked for here.
        let left = self.inner().deletes_left;
        if left == 0 {
            return Box::pin(futures::stream::once(async { Err(lost()) }));
        }
        self.inner().deletes_left = left - 1;
        self.below.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.below.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.below.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.below.copy_opts(from, to, options).await
    }
}
