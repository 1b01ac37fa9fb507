//! Where the socket lies, however long the path of the data folder is.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Name of the socket in the data folder.
const NAME: &str = "control.sock";

/// What the address of a Unix socket may have, without its closing zero.
const ADDRESS_BYTES: usize = 107;

/// The socket of a data folder.
pub(super) fn socket(data: &Path) -> PathBuf {
    data.join(NAME)
}

/// A path that fits into an address; it holds while the file does.
pub(super) struct Address {
    pub path: PathBuf,
    _folder: Option<File>,
}

impl Address {
    /// Of a socket `name` in `folder`.
    pub fn of(folder: &Path, name: &str) -> io::Result<Self> {
        let path = folder.join(name);
        if path.as_os_str().len() <= ADDRESS_BYTES {
            return Ok(Address { path, _folder: None });
        }
        let folder = File::open(folder)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()));
        Ok(Address { path, _folder: Some(folder) })
    }

    /// Of the socket of a data folder.
    pub fn of_socket(data: &Path) -> io::Result<Self> {
        Address::of(data, NAME)
    }
}
