//! Numbers of things.

/// A number with its noun: `1 launch`, `2 launches`.
pub(super) fn count(number: usize, one: &str) -> String {
    let plural = match one.chars().last() {
        _ if number == 1 => "",
        Some('h') => "es",
        _ => "s",
    };
    format!("{number} {one}{plural}")
}
