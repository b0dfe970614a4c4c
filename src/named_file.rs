//! Files that the user names: opening one never waits, whatever it is.

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, fstatfs};
use std::fs::{self, File, FileType};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

/// The file system of pipes without a name, from `linux/magic.h`. Opening one waits for nobody, and its end
/// comes at the latest with that of the last process that writes into it.
const PIPEFS_MAGIC: u64 = 0x5049_5045;

/// Opens a regular file.
///
/// # Errors
///
/// The operating system's refusal, and whatever is no regular file: reading it might never end.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    check(fs::metadata(path)?.file_type())?;
    let file = open_at_once(path)?;
    // It may have been replaced in between.
    check(file.metadata()?.file_type())?;
    Ok(file)
}

/// Opens a regular file, or a pipe without a name: what a shell puts in the place of `<(command)`, and what
/// `/dev/stdin` is behind another command. Says whether it is a file.
///
/// # Errors
///
/// As [`open`], a named pipe among it, since nobody may ever write into it.
pub(crate) fn open_or_pipe(path: &Path) -> io::Result<(File, bool)> {
    let kind = fs::metadata(path)?.file_type();
    if !kind.is_fifo() {
        return open(path).map(|file| (file, true));
    }
    let file = open_at_once(path)?;
    let is_unnamed = u64::try_from(fstatfs(&file)?.f_type).is_ok_and(|file_system| file_system == PIPEFS_MAGIC);
    if !is_unnamed {
        check(kind)?;
    }
    fcntl_setfl(&file, fcntl_getfl(&file)?.difference(OFlags::NONBLOCK))?;
    Ok((file, false))
}

/// Reads a regular file.
///
/// # Errors
///
/// As [`open`].
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Refuses what is no regular file.
pub(crate) fn check(kind: FileType) -> io::Result<()> {
    let what = match kind {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        _ if kind.is_fifo() => "a named pipe",
        _ if kind.is_socket() => "a socket",
        _ => "a device",
    };
    Err(io::Error::other(format!("is not a file but {what}")))
}

fn open_at_once(path: &Path) -> io::Result<File> {
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    File::options().read(true).custom_flags(nonblocking).open(path)
}
