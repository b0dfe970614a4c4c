//! Text of others, made harmless.

use std::fmt::{self, Write as _};

/// A text from an input, shown so that it can neither move a terminal's cursor, break a line, nor turn
/// the direction of writing: control, format and other invisible characters appear as `\u{..}`.
/// Everything that an input named goes through this before it is printed.
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a>(pub &'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                // Visible, though a literal would escape them.
                '"' | '\'' | '\\' => f.write_char(character)?,
                _ => write!(f, "{}", character.escape_debug())?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_spelled_out() {
        for (text, shown) in [
            ("scratch_loop/sync/4KiB", "scratch_loop/sync/4KiB"),
            ("it's \"µs\" \\ é", "it's \"µs\" \\ é"),
            ("\u{1b}[2Ja\nb\r", "\\u{1b}[2Ja\\nb\\r"),
            (
                "\u{202e}\u{2066}\u{200b}\u{feff}\u{9b}",
                "\\u{202e}\\u{2066}\\u{200b}\\u{feff}\\u{9b}",
            ),
            ("\u{2028}\u{7f}\0", "\\u{2028}\\u{7f}\\0"),
        ] {
            assert_eq!(Printable(text).to_string(), shown);
        }
    }
}
