//! The only file that reads a clock.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Now, on the clock that never goes back.
pub fn monotonic() -> Instant {
    Instant::now()
}

/// Now, in milliseconds since the Unix epoch; for people and for records, never for decisions. A clock before 1970 reads 0.
pub fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
}
