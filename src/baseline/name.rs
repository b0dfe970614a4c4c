//! Names of baselines: they are folder names, so nothing may lead out of the folder.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The longest name that every file system takes with the endings that are put on it while it is written.
const NAME_BYTES_MAX: usize = 128;

/// The name of a baseline.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BaselineName(String);

/// A name that is no name of a baseline.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{0:?} is no name of a baseline: use 1 to {NAME_BYTES_MAX} of the characters A-Z a-z 0-9 _ . + = , - and begin with a letter or a digit"
)]
pub struct InvalidName(String);

impl BaselineName {
    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the default name, `<gpu>_<driver>_cuda<version>` in lower case, as
    /// `nvidia-h200_580.159.04_cuda13.0`; `host` alone for the host device.
    #[must_use]
    pub fn of(device: &str, driver_version: Option<&str>, cuda_version: &str) -> BaselineName {
        match driver_version {
            _ if device == "host" => BaselineName::of_device(device),
            Some(driver) => BaselineName::of_device(&format!("{device}_{driver}_cuda{cuda_version}")),
            None => BaselineName::of_device(&format!("{device}_cuda{cuda_version}")),
        }
    }

    /// Returns a name that says only what the device is, as `nvidia-h200`.
    #[must_use]
    pub fn of_device(text: &str) -> BaselineName {
        let mut name: String = text
            .to_ascii_lowercase()
            .chars()
            .map(|character| if is_allowed(character) { character } else { '-' })
            .skip_while(|character| !character.is_ascii_alphanumeric())
            .collect();
        name.truncate(NAME_BYTES_MAX);
        if name.is_empty() {
            name.push_str("gpu");
        }
        BaselineName(name)
    }
}

fn is_allowed(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_.+=,-".contains(character)
}

impl FromStr for BaselineName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<BaselineName, InvalidName> {
        let begins = text.starts_with(|first: char| first.is_ascii_alphanumeric());
        if begins && text.len() <= NAME_BYTES_MAX && text.chars().all(is_allowed) {
            Ok(BaselineName(text.to_owned()))
        } else {
            Err(InvalidName(text.to_owned()))
        }
    }
}

impl fmt::Display for BaselineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_folder() {
        for right in [
            "a",
            "nvidia-h200_580.159.04_cuda13.0",
            "driver-580+fix",
            &"n".repeat(128),
        ] {
            assert_eq!(
                right.parse::<BaselineName>().map(|name| name.to_string()),
                Ok(right.to_owned())
            );
        }
        for wrong in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "/etc",
            ".hidden",
            "-flag",
            "a b",
            "\u{1b}[2J",
            "a\\b",
            &"n".repeat(129),
        ] {
            assert!(wrong.parse::<BaselineName>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn default_names_are_those_of_the_design() {
        let name = |device, driver, cuda| BaselineName::of(device, driver, cuda).to_string();
        assert_eq!(
            name("NVIDIA H200", Some("580.159.04"), "13.0"),
            "nvidia-h200_580.159.04_cuda13.0"
        );
        assert_eq!(name("NVIDIA H200", None, "13.0"), "nvidia-h200_cuda13.0");
        assert_eq!(name("host", None, "12.0"), "host");
        assert_eq!(name("../<script>", Some("1"), "13.0"), "script-_1_cuda13.0");
    }
}
