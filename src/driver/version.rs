//! Which version the bound driver library is of.

use nvml_wrapper::Nvml;
use std::path::Path;

/// Drivers are counted from far above; what is below is a number of the interface: the file of WSL and of Jetson
/// is `libcuda.so.1.1`, whatever its version.
const MAJOR_MIN: u32 = 100;

/// The version of the libcuda that this process has loaded, from its file's name, which is the user-mode driver
/// that is measured: a compatibility library differs from the kernel's driver. Where the name says nothing, NVML's
/// answer, but only for the `usual` library, which is the kernel's driver's.
pub(super) fn version(usual: bool) -> Option<String> {
    loaded_version().or_else(|| if usual { nvml_version() } else { None })
}

fn loaded_version() -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines()
        .filter_map(mapped_path)
        .find_map(|path| version_in_file_name(Path::new(path)))
}

fn nvml_version() -> Option<String> {
    Nvml::init().ok()?.sys_driver_version().ok()
}

/// The file of a line of `/proc/self/maps`. Its path may hold spaces, and the columns before it no slash.
fn mapped_path(line: &str) -> Option<&str> {
    let path = &line[line.find('/')?..];
    Some(path.strip_suffix(" (deleted)").unwrap_or(path))
}

fn version_in_file_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let version = name.strip_prefix("libcuda.so.")?;
    let (major, rest) = version.split_once('.')?;
    let is_driver = major.parse::<u32>().is_ok_and(|major| major >= MAJOR_MIN);
    let dotted = !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    (is_driver && dotted).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_comes_from_the_real_file() {
        let version = |path: &str| version_in_file_name(Path::new(path));
        assert_eq!(version("/usr/lib/libcuda.so.580.159.04").as_deref(), Some("580.159.04"));
        assert_eq!(version("/usr/lib/libcuda.so.1"), None);
        assert_eq!(version("/usr/lib/libcudart.so.13.0"), None);
        // WSL and Jetson.
        assert_eq!(version("/usr/lib/wsl/lib/libcuda.so.1.1"), None);
        assert_eq!(version("/usr/lib/libcuda.so.580."), None);
    }

    #[test]
    fn a_mapped_path_is_taken_whole() {
        let line = "7f00-7f01 r-xp 00000000 103:02 131 ";
        for (rest, path) in [
            ("/usr/lib/libcuda.so.580.1", "/usr/lib/libcuda.so.580.1"),
            ("/my drv/libcuda.so.580.1", "/my drv/libcuda.so.580.1"),
            ("/my drv/libcuda.so.580.1 (deleted)", "/my drv/libcuda.so.580.1"),
        ] {
            assert_eq!(mapped_path(&format!("{line}{rest}")), Some(path));
        }
        assert_eq!(mapped_path(&format!("{line}[heap]")), None);
        assert_eq!(mapped_path(line.trim_end()), None);
    }
}
