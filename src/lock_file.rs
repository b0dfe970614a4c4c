//! A file whose lock one process at a time holds, with that process's number in it.
//!
//! The lock is the operating system's, so it ends with its process, however that ends. The file stays for ever:
//! removing it would let two take it.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;

/// Opens the file, which need not be there, without taking its lock.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).open(path)
}

/// Writes this process's number into the file, whose lock it holds.
pub(crate) fn sign(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    write!(file, "{}", std::process::id())
}

/// The number of the process that signed last, as it wrote it; `unknown` where none did.
pub(crate) fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let _ = file.rewind().and_then(|()| file.read_to_string(&mut text));
    if text.is_empty() { String::from("unknown") } else { text }
}
