//! Numbers as the page writes them.

use crate::report::Printable;
use maud::{Markup, html};

/// A time in µs with the digits that it deserves.
pub(super) fn microseconds(time_ns: f64) -> String {
    let time_us = time_ns / 1e3;
    let decimals = match time_us {
        ..1.0 => 3,
        ..10.0 => 2,
        ..1000.0 => 1,
        _ => 0,
    };
    grouped(&format!("{time_us:.decimals$}"))
}

/// A time in µs for an axis, without digits that say nothing.
pub(super) fn tick_microseconds(time_ns: f64) -> String {
    grouped(&short(time_ns / 1e3))
}

/// A number without superfluous decimals.
pub(super) fn short(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A ratio: `1.14×`.
pub(super) fn ratio(ratio: f64) -> String {
    let decimals = if ratio < 10.0 { 2 } else { 1 };
    format!("{ratio:.decimals$}×")
}

/// A change as a signed share: `+8.0 %`. A real minus sign, as wide as the plus.
pub(super) fn change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    let decimals = usize::from(percent.abs() < 99.95);
    let text = format!("{:.decimals$}", percent.abs());
    let sign = if text.bytes().all(|byte| b"0.".contains(&byte)) {
        "±"
    } else if percent > 0.0 {
        "+"
    } else {
        "−"
    };
    format!("{sign}{text} %")
}

/// A share: `3.1 %`.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = usize::from(percent.abs() < 99.95);
    format!("{percent:.decimals$} %")
}

/// A probability with two significant digits.
pub(super) fn probability(p: f64) -> String {
    match p {
        _ if p < 0.0001 => String::from("< 0.0001"),
        _ if p < 0.001 => format!("{p:.5}"),
        _ if p < 0.01 => format!("{p:.4}"),
        _ if p < 0.1 => format!("{p:.3}"),
        _ => format!("{p:.2}"),
    }
}

/// A place on a picture, to a tenth of a pixel.
pub(super) fn px(place: f64) -> String {
    let text = format!("{place:.1}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

/// Bytes in the largest binary unit that divides them.
pub(super) fn bytes(bytes: u64) -> String {
    if bytes == 0 {
        return String::from("0");
    }
    let units = [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(unit, _)| bytes.is_multiple_of(*unit));
    unit.map_or_else(
        || format!("{} B", grouped(&bytes.to_string())),
        |(unit, name)| format!("{} {name}", grouped(&(bytes / unit).to_string())),
    )
}

/// Groups the digits before the point by thin no-break spaces, from five digits on.
fn grouped(number: &str) -> String {
    let (whole, rest) = number.find('.').map_or((number, ""), |point| number.split_at(point));
    if whole.len() < 5 {
        return number.to_owned();
    }
    let mut text = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text + rest
}

/// What is not defined, and why.
pub(super) fn undefined(why: &str) -> Markup {
    html! { span.none title=(why) { "–" } }
}

/// Text that an input file named, for an attribute.
pub(super) fn plain(text: &str) -> String {
    Printable(text).to_string()
}

/// Text that an input file named: what is invisible or turns the direction of writing is spelled out, and
/// what it holds cannot reorder what stands beside it.
pub(super) fn foreign(text: &str) -> Markup {
    html! { bdi { (plain(text)) } }
}

/// A benchmark's id, which may be broken after its separators.
pub(super) fn id(text: &str) -> Markup {
    let shown = plain(text);
    let parts = shown.split_inclusive(['/', ',']);
    html! { bdi { @for part in parts { (part) wbr; } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_three_digits_and_group_thousands() {
        let written = [12.0, 6_696.0, 14_890.0, 2_126_900.0, 14_664_300.0].map(microseconds);
        assert_eq!(written, ["0.012", "6.70", "14.9", "2127", "14\u{202f}664"]);
        assert_eq!(
            [5.0, 30_000.0, 1e7].map(tick_microseconds),
            ["0.005", "30", "10\u{202f}000"]
        );
    }

    #[test]
    fn changes_have_a_sign_and_never_a_negative_zero() {
        assert_eq!(
            [1.08, 0.97, 1.0, 0.9999, 2.5].map(change),
            ["+8.0 %", "−3.0 %", "±0.0 %", "±0.0 %", "+150 %"]
        );
    }

    #[test]
    fn bytes_and_probabilities_are_short() {
        assert_eq!(
            [0, 33_554_432, 1_000, 1 << 40].map(bytes),
            ["0", "32 MiB", "1000 B", "1024 GiB"]
        );
        assert_eq!(
            [0.000_01, 0.000_5, 0.004, 0.049, 0.5].map(probability),
            ["< 0.0001", "0.00050", "0.0040", "0.049", "0.50"]
        );
    }

    #[test]
    fn foreign_text_is_text() {
        let shown = foreign("<script>\u{202e}\"\u{0}</script>").into_string();
        assert_eq!(shown, "<bdi>&lt;script&gt;\\u{202e}&quot;\\0&lt;/script&gt;</bdi>");
    }
}
