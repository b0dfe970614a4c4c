//! Many benchmarks at once.

/// Returns the q-values of p-values: the false discovery rate at which each would be declared.
///
/// *Shape* as given. *Source*: Benjamini and Hochberg, JRSS B 57 (1995), step-up, adjusted form.
#[must_use]
pub fn q_values(p_values: &[f64]) -> Vec<f64> {
    let m = p_values.len();
    let mut order: Vec<usize> = (0..m).collect();
    order.sort_by(|&i, &j| p_values[j].total_cmp(&p_values[i]));
    let mut q_values = vec![1.0; m];
    let mut smallest: f64 = 1.0;
    for (position, &i) in order.iter().enumerate() {
        let rank = m - position;
        smallest = smallest.min(p_values[i] * m as f64 / rank as f64);
        q_values[i] = smallest;
    }
    q_values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hand_computed() {
        // m = 4: p·m/rank = 0.01·4/1 = 0.04, 0.03·4/3 = 0.04, 0.02·4/2 = 0.04, 0.5·4/4 = 0.5.
        let q = q_values(&[0.01, 0.03, 0.02, 0.5]);
        for (q, expected) in q.iter().zip([0.04, 0.04, 0.04, 0.5]) {
            approx::assert_relative_eq!(*q, expected, epsilon = 1e-15);
        }
        // Step-up: a later, better ratio pulls the earlier ones down. 0.04·2/1 = 0.08, 0.05·2/2 = 0.05.
        assert_eq!(q_values(&[0.04, 0.05]), [0.05, 0.05]);
        assert!(q_values(&[]).is_empty());
    }
}
