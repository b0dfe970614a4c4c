//! Prose for a Markdown file.

/// Columns of a line.
const COLUMNS: usize = 120;

/// Breaks prose into lines, and never between a number and its unit.
pub(super) fn wrapped(prose: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in prose.split(' ').filter(|word| !word.is_empty()) {
        match words.last_mut().filter(|_| word.starts_with(['µ', '%'])) {
            Some(number) => *number = format!("{number} {word}"),
            None => words.push(word.to_owned()),
        }
    }
    let mut text = String::new();
    let mut column = 0;
    for word in words {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > COLUMNS {
            text.push('\n');
            column = 0;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(&word);
        column += width;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_broken_and_units_stay_with_their_numbers() {
        let long = ["word"; 40].join(" ");
        let lines: Vec<String> = wrapped(&long).lines().map(str::to_owned).collect();
        // 24 words of four letters and 23 spaces are 119 characters; a 25th would make 124.
        assert_eq!(lines.iter().map(String::len).collect::<Vec<_>>(), [119, 79]);
        let beyond = format!("{} 5 µs 7 %", "w".repeat(116));
        assert_eq!(wrapped(&beyond).lines().nth(1), Some("5 µs 7 %"));
    }
}
