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

/// Characters of a line that are shown: room for any message with its paths.
const LINE_CHARACTERS_MAX: usize = 2_000;
/// Characters at its end, where the remedy stands.
const END_CHARACTERS: usize = 400;

/// A message as one line: [`Printable`], and without its middle where an input made it very long.
#[derive(Clone, Copy, Debug)]
pub struct OneLine<'a>(pub &'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start_of = |count: usize| self.0.char_indices().nth(count).map(|(at, _)| at);
        let end_of = |count: usize| self.0.char_indices().nth_back(count - 1).map(|(at, _)| at);
        let middle = start_of(LINE_CHARACTERS_MAX)
            .and_then(|_| start_of(LINE_CHARACTERS_MAX - END_CHARACTERS).zip(end_of(END_CHARACTERS)));
        match middle {
            None => write!(f, "{}", Printable(self.0)),
            Some((from, to)) => write!(
                f,
                "{} [{} bytes] {}",
                Printable(&self.0[..from]),
                to - from,
                Printable(&self.0[to..])
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_keeps_its_ends() {
        let kept = "é".repeat(LINE_CHARACTERS_MAX);
        assert_eq!(OneLine(&kept).to_string(), kept);
        assert_eq!(OneLine("a\nb").to_string(), "a\\nb");
        // 1,600 characters of two bytes, then 3,000 - 1,600 - 400 = 1,000 characters, then the end.
        let long = format!("{}{}", "é".repeat(2_600), "z".repeat(400));
        let shown = format!("{} [2000 bytes] {}", "é".repeat(1_600), "z".repeat(400));
        assert_eq!(OneLine(&long).to_string(), shown);
    }

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
