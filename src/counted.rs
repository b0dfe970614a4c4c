//! Numbers of things, in words.

use std::fmt::Display;

/// Returns a number with its noun: `1 launch`, `2 launches`. The number may be written as its caller likes,
/// as `26,784`.
#[must_use]
pub fn counted(number: impl Display, one: &str) -> String {
    let number = number.to_string();
    if number == "1" {
        return format!("1 {one}");
    }
    let (stem, ending) = match one.as_bytes() {
        [.., vowel, b'y'] if b"aeou".contains(vowel) => (one, "s"),
        [.., b'y'] => (&one[..one.len() - 1], "ies"),
        [.., b's' | b'x' | b'h'] => (one, "es"),
        _ => (one, "s"),
    };
    format!("{number} {stem}{ending}")
}

/// Returns the form of a word that goes with a number: `1 benchmark has`, `2 benchmarks have`.
#[must_use]
pub fn agreeing<'a>(number: impl TryInto<u64>, one: &'a str, many: &'a str) -> &'a str {
    if number.try_into().is_ok_and(|number| number == 1) {
        one
    } else {
        many
    }
}

/// Returns a whole number with its thousands apart: `33,554,432`.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!(counted(1, "launch"), "1 launch");
        for (one, many) in [
            ("launch", "0 launches"),
            ("process", "0 processes"),
            ("entry", "0 entries"),
            ("replay", "0 replays"),
            ("other benchmark", "0 other benchmarks"),
        ] {
            assert_eq!(counted(0, one), many);
        }
        assert_eq!(counted(grouped(26_784), "event"), "26,784 events");
        assert_eq!(counted(grouped(1), "event"), "1 event");
        assert_eq!(agreeing(1_usize, "has", "have"), "has");
        assert_eq!(agreeing(0_u64, "has", "have"), "have");
    }

    /// Nobody writes a plural behind a number that may be 1.
    #[test]
    fn messages_count_with_this() {
        let plural = r"\{[^{}]*\} (host-bound )?(launches|sessions|benchmarks|iterations|replays|devices|cores)(?-u:\b)|\((s|es)\)";
        let plural = regex::Regex::new(plural).expect("a regular expression");
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut folders = vec![root];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder of sources").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    // The statistics know nothing else of poolbench; a loop's iterations are many.
                    let counts = !path.ends_with("src/stats") && !path.ends_with("src/measure");
                    folders.extend(counts.then_some(path));
                    continue;
                }
                let text = std::fs::read_to_string(&path).expect("a source file");
                let said = text.lines().filter(|line| !line.trim_start().starts_with("//"));
                let wrong = said.filter(|line| plural.is_match(line) && !line.contains("Regex"));
                found.extend(wrong.map(|line| format!("{}: {line}", path.display())));
            }
        }
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn thousands_are_apart() {
        let numbers = [0, 999, 1_000, 33_554_432, 26_770_123];
        assert_eq!(numbers.map(grouped), ["0", "999", "1,000", "33,554,432", "26,770,123"]);
    }
}
