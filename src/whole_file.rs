//! Files that appear whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

/// Writes a file beside its place, syncs it and renames it, after making its folder.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    fs::create_dir_all(folder.unwrap_or(Path::new(".")))?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let written = File::create(&beside)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}
