//! Files that appear whole or not at all.

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Writes a file beside its place, syncs it and renames it, after making its folder. A link keeps its place,
/// and what it leads to is replaced; what is no regular file, as `/dev/stdout`, is written as it is.
///
/// # Errors
///
/// The operating system's refusal; a file that was there is unchanged. A pipe that nobody reads is refused
/// and not waited for.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    match fs::metadata(&target) {
        Ok(metadata) if metadata.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(metadata) if !metadata.is_file() => return write_special(&target, bytes, metadata.file_type().is_fifo()),
        _ => {}
    }
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    fs::create_dir_all(folder.unwrap_or(Path::new(".")))?;
    let mut partial_name = OsString::from(format!(".partial-{}-", std::process::id()));
    partial_name.push(name);
    let partial = target.with_file_name(partial_name);
    let written = File::create(&partial)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&partial, &target));
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written
}

fn write_special(path: &Path, bytes: &[u8], is_pipe: bool) -> io::Result<()> {
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let opened = File::options().write(true).custom_flags(nonblocking).open(path);
    let unread = |error: &io::Error| is_pipe && error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error());
    let mut file = match opened {
        Err(error) if unread(&error) => return Err(io::Error::other("nobody reads from this pipe")),
        opened => opened?,
    };
    // Only opening must not wait: a slow reader is still to get everything.
    fcntl_setfl(&file, fcntl_getfl(&file)?.difference(OFlags::NONBLOCK))?;
    file.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_made_and_links_keep_their_place() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("new/folder/file");
        write(&path, b"first").expect("room");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        write(&link, b"second").expect("room");
        assert!(link.is_symlink());
        assert_eq!(fs::read(&path).expect("it is there"), b"second");
        let left = fs::read_dir(path.parent().expect("a folder")).expect("it is there");
        assert_eq!(left.count(), 1, "nothing is left beside it");
        let refused = write(folder.path(), b"third").expect_err("a folder stands there");
        assert_eq!(refused.kind(), io::ErrorKind::IsADirectory);
    }

    #[test]
    fn a_pipe_gets_everything_or_is_refused_where_nobody_reads() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        if !made.is_ok_and(|status| status.success()) {
            println!("SKIPPED: no mkfifo");
            return;
        }
        let refused = write(&pipe, b"x").expect_err("nobody reads");
        assert_eq!(refused.to_string(), "nobody reads from this pipe");
        // More than a pipe holds, so that the writer has to wait.
        let bytes = vec![7; 1 << 20];
        // Both ends: the writer finds a reader, and the reader no end, as long as this is open.
        let both = File::options().read(true).write(true).open(&pipe).expect("a pipe");
        let reader = File::open(&pipe).expect("a writer is there");
        let reading = std::thread::spawn(move || {
            let mut read = Vec::new();
            io::Read::read_to_end(&mut &reader, &mut read).map(|_| read)
        });
        let written = write(&pipe, &bytes);
        drop(both);
        let read = reading.join().expect("it ends").expect("a pipe can be read");
        written.expect("a reader is there, however slow");
        assert!(read == bytes, "{} of {} bytes", read.len(), bytes.len());
    }
}
