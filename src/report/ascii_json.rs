//! JSON that is safe to print.

use std::fmt::Write as _;

/// Returns JSON with every character beyond printable ASCII escaped. Such characters stand in strings
/// alone, where an escape means the same; printed as they are, some would turn the direction of writing.
#[must_use]
pub fn ascii_json(json: &str) -> String {
    let mut ascii = String::with_capacity(json.len());
    for character in json.chars() {
        if matches!(character, '\n' | ' '..='~') {
            ascii.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(ascii, "\\u{unit:04x}");
            }
        }
    }
    ascii
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_the_same() {
        let value = serde_json::json!({"a\u{202e}": ["µs", "\u{1f600}\u{7f}\u{1b}"]});
        let ascii = ascii_json(&value.to_string());
        assert!(ascii.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{ascii}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&ascii).expect("JSON"), value);
    }
}
