//! The input gate of a subtask: one byte-bounded queue per channel, and the control messages of the coordinator.
//!
//! Invariants:
//! - A channel's queue holds elements in the order in which they were sent.
//! - A blocked channel gives nothing to the reader; its writer meets backpressure once the bound is reached.
//! - After `cancel` every call on either end returns [`Cancelled`], so that no thread outlives its generation.

use super::element::StreamElement;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Bytes that one channel may hold before its writer waits, at most: some milliseconds of work, so that neither side often waits
/// for the other.
pub const CHANNEL_BYTES_MAX: usize = 2 << 20;
/// The same at least, however many channels there are: several batches.
const CHANNEL_BYTES_MIN: usize = 512 << 10;
/// Bytes that all channels of a gate may hold, where each then has enough.
const GATE_BYTES: usize = 8 << 20;

/// What an element without records weighs, so that a flood of them is bounded, too.
const ELEMENT_BYTES: usize = 64;

/// How long a reader that has found nothing waits before it asks to be woken. Where batches come one after the other, it
/// finds several of them then, for one wake-up instead of one for each; nothing waits longer than this for a reader that has
/// nothing else to do.
const DOZE: Duration = Duration::from_micros(600);

/// How long a blocked writer waits before it looks for background work again.
const BLOCKED_SLICE: Duration = Duration::from_millis(5);

/// The generation has ended: the thread must return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

/// What a reader gets.
#[derive(Debug)]
pub enum Received<C> {
    /// A message of the coordinator; these overtake elements.
    Control(C),
    /// The next element of an unblocked channel.
    Element {
        /// Index of the channel.
        channel: usize,
        /// The element.
        element: StreamElement,
    },
    /// Nothing came in time.
    Timeout,
}

struct Queue {
    elements: VecDeque<StreamElement>,
    bytes: usize,
    blocked: bool,
    /// Its writer waits for room: a wake-up costs a system call, so it is only made when needed, and once.
    writer_sleeps: bool,
}

/// What the reader does, for those who might wake it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// Something else; or it was woken and has not looked yet.
    Awake,
    /// Waits for a moment, and looks then.
    Dozes,
    /// Waits until it is woken.
    Sleeps,
}

struct State<C> {
    queues: Vec<Queue>,
    /// Channel to look at first, so that a busy one can't starve the others.
    turn: usize,
    controls: VecDeque<C>,
    cancelled: bool,
    reader: Reader,
}

struct Shared<C> {
    state: Mutex<State<C>>,
    /// Bytes that one channel may hold before its writer waits.
    channel_bytes: usize,
    readable: Condvar,
    /// One for each channel.
    writable: Vec<Condvar>,
}

impl<C> Shared<C> {
    fn lock(&self) -> MutexGuard<'_, State<C>> {
        // A panic while the lock is held can't leave a queue half changed: every change is one push or pop.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A waiting writer is woken once its channel holds no more than this: it then goes on for several batches before it waits
    /// again, and each of them costs less of two context switches.
    fn wake_bytes(&self) -> usize {
        self.channel_bytes / 2
    }
}

/// The reading end, owned by one subtask.
pub struct InputGate<C> {
    shared: Arc<Shared<C>>,
}

/// The writing end of one channel.
pub struct ChannelWriter<C> {
    shared: Arc<Shared<C>>,
    channel: usize,
}

/// Sends control messages to a subtask, and cancels it.
pub struct GateControl<C> {
    shared: Arc<Shared<C>>,
}

impl<C> Clone for GateControl<C> {
    fn clone(&self) -> Self {
        GateControl { shared: Arc::clone(&self.shared) }
    }
}

/// Makes a gate of `channels` channels.
pub fn input_gate<C>(channels: usize) -> (InputGate<C>, Vec<ChannelWriter<C>>, GateControl<C>) {
    let queues =
        (0..channels).map(|_| Queue { elements: VecDeque::new(), bytes: 0, blocked: false, writer_sleeps: false }).collect();
    let shared = Arc::new(Shared {
        state: Mutex::new(State { queues, turn: 0, controls: VecDeque::new(), cancelled: false, reader: Reader::Awake }),
        channel_bytes: (GATE_BYTES / channels.max(1)).clamp(CHANNEL_BYTES_MIN, CHANNEL_BYTES_MAX),
        readable: Condvar::new(),
        writable: (0..channels).map(|_| Condvar::new()).collect(),
    });
    let writers = (0..channels).map(|channel| ChannelWriter { shared: Arc::clone(&shared), channel }).collect();
    (InputGate { shared: Arc::clone(&shared) }, writers, GateControl { shared })
}

fn weight(element: &StreamElement) -> usize {
    match element {
        StreamElement::Batch(batch) => batch.records.size_bytes() + ELEMENT_BYTES,
        StreamElement::Barrier(_)
        | StreamElement::Cancel(_)
        | StreamElement::Watermark(_)
        | StreamElement::EndOfData
        | StreamElement::EndOfInput => ELEMENT_BYTES,
    }
}

impl<C> State<C> {
    fn next_element(&mut self) -> Option<(usize, StreamElement)> {
        let n = self.queues.len();
        for step in 0..n {
            let channel = (self.turn + step) % n;
            let queue = &mut self.queues[channel];
            if queue.blocked {
                continue;
            }
            if let Some(element) = queue.elements.pop_front() {
                queue.bytes -= weight(&element);
                self.turn = (channel + 1) % n;
                return Some((channel, element));
            }
        }
        None
    }
}

impl<C> InputGate<C> {
    /// The next control message or element; waits at most `timeout` for one.
    pub fn receive(&self, timeout: Duration) -> Result<Received<C>, Cancelled> {
        let mut state = self.shared.lock();
        let mut left = timeout;
        loop {
            if state.cancelled {
                return Err(Cancelled);
            }
            if let Some(control) = state.controls.pop_front() {
                return Ok(Received::Control(control));
            }
            if let Some((channel, element)) = state.next_element() {
                let queue = &mut state.queues[channel];
                if queue.writer_sleeps && queue.bytes <= self.shared.wake_bytes() {
                    queue.writer_sleeps = false;
                    // After the lock, which it would only wait for.
                    drop(state);
                    self.shared.writable[channel].notify_one();
                }
                return Ok(Received::Element { channel, element });
            }
            if left.is_zero() {
                return Ok(Received::Timeout);
            }
            let dozes = left == timeout && timeout > DOZE;
            let (how, wait) = if dozes { (Reader::Dozes, DOZE) } else { (Reader::Sleeps, left) };
            state.reader = how;
            let (guard, result) = self.shared.readable.wait_timeout(state, wait).unwrap_or_else(|poisoned| poisoned.into_inner());
            state = guard;
            state.reader = Reader::Awake;
            if result.timed_out() {
                left -= wait;
            }
        }
    }

    /// The next control message, without waiting.
    pub fn control(&self) -> Result<Option<C>, Cancelled> {
        let mut state = self.shared.lock();
        if state.cancelled { Err(Cancelled) } else { Ok(state.controls.pop_front()) }
    }

    /// Stops reading a channel, for alignment.
    pub fn block(&self, channel: usize) {
        self.shared.lock().queues[channel].blocked = true;
    }

    /// Reads all channels again.
    pub fn unblock_all(&self) {
        for queue in &mut self.shared.lock().queues {
            queue.blocked = false;
        }
    }

    /// Bytes that wait in all channels.
    pub fn backlog_bytes(&self) -> usize {
        self.shared.lock().queues.iter().map(|queue| queue.bytes).sum()
    }
}

impl<C> ChannelWriter<C> {
    /// Appends an element; waits while the channel is full, calling `background` between the waits (state sweeps must go on
    /// while output is blocked). True: it had to wait.
    pub fn send<E: From<Cancelled>>(
        &self,
        element: StreamElement,
        mut background: impl FnMut() -> Result<bool, E>,
    ) -> Result<bool, E> {
        let weight = weight(&element);
        let is_batch = matches!(element, StreamElement::Batch(_));
        let mut waited = false;
        let mut state = self.shared.lock();
        loop {
            if state.cancelled {
                return Err(Cancelled.into());
            }
            let queue = &mut state.queues[self.channel];
            if queue.bytes < self.shared.channel_bytes {
                queue.bytes += weight;
                queue.elements.push_back(element);
                let half = queue.bytes > self.shared.wake_bytes();
                let wakes = match state.reader {
                    Reader::Awake => false,
                    // Others are waited for by the whole job; and there must be room for more until it looks.
                    Reader::Dozes => !is_batch || half,
                    Reader::Sleeps => true,
                };
                if wakes {
                    state.reader = Reader::Awake;
                    // After the lock, which it would only wait for.
                    drop(state);
                    self.shared.readable.notify_one();
                }
                return Ok(waited);
            }
            waited = true;
            drop(state);
            let more = background()?;
            state = self.shared.lock();
            if !more && !state.cancelled && state.queues[self.channel].bytes >= self.shared.channel_bytes {
                state.queues[self.channel].writer_sleeps = true;
                let writable = &self.shared.writable[self.channel];
                let (guard, _) = writable.wait_timeout(state, BLOCKED_SLICE).unwrap_or_else(|poisoned| poisoned.into_inner());
                state = guard;
                state.queues[self.channel].writer_sleeps = false;
            }
        }
    }
}

impl<C> GateControl<C> {
    /// Hands a message to the subtask; ignored after a cancel.
    pub fn send(&self, control: C) {
        self.shared.lock().controls.push_back(control);
        self.shared.readable.notify_one();
    }

    /// Ends the gate for both sides.
    pub fn cancel(&self) {
        self.shared.lock().cancelled = true;
        self.shared.readable.notify_all();
        self.shared.writable.iter().for_each(Condvar::notify_all);
    }

    /// Bytes that wait in all channels.
    pub fn backlog_bytes(&self) -> usize {
        self.shared.lock().queues.iter().map(|queue| queue.bytes).sum()
    }
}
