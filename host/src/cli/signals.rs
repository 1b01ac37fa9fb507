//! SIGINT and SIGTERM: the first suspends the job, the second stops it now, a third ends the process on the spot.

use super::exit::Exit;
use crate::job::{StopHandle, StopRequest};
use std::io;
use tokio::signal::unix::{SignalKind, signal};

/// Starts to listen, before the job starts: no signal is missed, and none kills a job that could have been suspended.
pub(super) fn listen(stop: StopHandle) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut interrupt, mut terminate) = {
        let _guard = runtime.enter();
        // With a handler, a file that grows beyond `ulimit -f` is an error of its write, not the end of the process.
        let _file_size = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?;
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async move {
            loop {
                tokio::select! {
                    Some(()) = interrupt.recv() => {}
                    Some(()) = terminate.recv() => {}
                    else => return,
                }
                take(&stop);
            }
        });
    })?;
    Ok(())
}

fn take(stop: &StopHandle) {
    let held = stop.requested();
    match (held, stop.escalate()) {
        (StopRequest::None, _) => {
            tracing::info!("stopping with a final checkpoint; once more to stop now");
        }
        (StopRequest::Suspend, _) => {
            tracing::warn!("stopping now, without a final checkpoint; the next run resumes from the last completed one");
        }
        // Whatever hangs, the user is heard. The checkpoint protocol survives a kill at any line.
        (StopRequest::Now, _) => std::process::exit(i32::from(Exit::StoppedNow.code())),
    }
}
