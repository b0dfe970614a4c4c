//! Order statistics of plain numbers.

/// Returns the median of ascending numbers; NaN for none, so callers check first.
pub(super) fn median_of_sorted(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    if n == 0 {
        f64::NAN
    } else if n % 2 == 1 {
        sorted[n / 2]
    } else {
        f64::midpoint(sorted[n / 2 - 1], sorted[n / 2])
    }
}

/// Returns the median, or `None` for no numbers.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    (!values.is_empty()).then(|| median_of_sorted(&values))
}

/// Returns the mean of the lower half, ⌈n/2⌉ numbers, or `None` for no numbers.
pub(super) fn lower_half_mean(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let half = &values[..values.len().div_ceil(2)];
    (!half.is_empty()).then(|| mean(half))
}

/// Returns the mean; NaN for none, so callers check first.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the numbers in ascending order.
pub(super) fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values
}
