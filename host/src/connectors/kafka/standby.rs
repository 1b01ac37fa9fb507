//! Producers are made ready beside the data path: while one transaction is written, the next one's producer waits.

use super::super::ConnectorError;
use super::producer::{self, Ready};
use super::sink::SinkSettings;
use super::slots::Slots;
use super::waiting::Waiting;
use crate::crash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_protocol::Generation;

/// Between two looks at how long it has been.
const SLICE: Duration = Duration::from_secs(1);

/// Makes the next producer of one writer.
pub(super) struct Standby {
    /// None while it is being dropped.
    wanted: Option<SyncSender<()>>,
    ready: Receiver<Result<Ready, ConnectorError>>,
    thread: Option<JoinHandle<()>>,
    slots: Arc<Slots>,
    /// Nobody wants the next one any more.
    given_up: Arc<AtomicBool>,
}

impl Standby {
    /// Starts, and asks for the first one.
    pub(super) fn start(
        settings: Arc<SinkSettings>,
        slots: Arc<Slots>,
        generation: Generation,
        writer: u32,
        timeout: Duration,
    ) -> Self {
        let (wanted, wishes) = sync_channel(1);
        let (give, ready) = sync_channel(1);
        let own = Arc::clone(&slots);
        let given_up = Arc::new(AtomicBool::new(false));
        let is_given_up = Arc::clone(&given_up);
        let work = move || {
            while wishes.recv().is_ok() {
                let made = match own.take(generation, writer) {
                    Some(slot) => {
                        let made = producer::ready(&settings, slot, timeout, &is_given_up);
                        if made.is_err() {
                            own.give_back(slot);
                        }
                        made
                    }
                    None => Err(ConnectorError::restart(format!(
                        "{}: too many transactions wait for their commit: no further one is begun",
                        settings.place
                    ))),
                };
                crash::point("kafka-standby-ready");
                if give.send(made).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name(format!("kafka-standby-{writer}")).spawn(work);
        let thread = Some(thread.expect("a thread can be started"));
        let standby = Standby { wanted: Some(wanted), ready, thread, slots, given_up };
        standby.want();
        standby
    }

    fn want(&self) {
        // The thread only ends when this is dropped.
        let _ = self.wanted.as_ref().expect("present until drop").send(());
    }

    /// Takes the one that is ready, waiting for it if need be, and has the next one made.
    pub(super) fn take(&self, settings: &SinkSettings) -> Result<Ready, ConnectorError> {
        let mut waiting = Waiting::new(settings, "don't let the next transaction be begun");
        let made = loop {
            match self.ready.recv_timeout(SLICE) {
                Ok(made) => break made,
                Err(RecvTimeoutError::Timeout) => _ = waiting.goes_on(|| None),
                Err(RecvTimeoutError::Disconnected) => {
                    let why = "the thread that prepares Kafka producers has died: a bug in Weir";
                    break Err(ConnectorError::restart(why));
                }
            }
        };
        waiting.is_over();
        self.want();
        made
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        self.wanted.take();
        self.given_up.store(true, Ordering::Relaxed);
        // What was made and nobody took has written nothing.
        while let Ok(made) = self.ready.recv() {
            if let Ok(ready) = made {
                self.slots.give_back(ready.slot);
            }
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
