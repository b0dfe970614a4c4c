//! What sessions add to a difference between the sides, and how well that is known.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::null_distribution::normal_cdf;

/// Standard error that sessions add, and the degrees of freedom that it was measured with. *Unit* natural logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SessionError {
    error: f64,
    /// `None`: as good as known.
    freedom: Option<f64>,
}

impl SessionError {
    /// Sessions add nothing.
    pub const NOTHING: Self = Self {
        error: 0.0,
        freedom: None,
    };

    /// An error that is assumed, or measured by many.
    pub fn known(error: f64) -> Self {
        Self { error, freedom: None }
    }

    /// An error from few sessions.
    pub fn measured(error: f64, freedom: f64) -> Self {
        Self {
            error,
            freedom: Some(freedom),
        }
    }

    /// Returns the standard error. *Unit* natural logarithms.
    pub fn standard_error(self) -> f64 {
        self.error
    }

    /// Returns whether the error is as good as known.
    pub fn is_known(self) -> bool {
        self.freedom.is_none()
    }

    /// Returns the error times a normal quantile, or times the Student's of the same tail: what a half-width gets.
    pub fn times(self, z: f64) -> f64 {
        let Some(freedom) = self.freedom.filter(|_| self.error > 0.0) else {
            return z * self.error;
        };
        match StudentsT::new(0.0, 1.0, freedom) {
            Ok(student) => -student.inverse_cdf(normal_cdf(-z)) * self.error,
            // No freedom at all: no width is enough.
            Err(_) => f64::INFINITY,
        }
    }

    /// Returns the two-sided p-value of a distance from zero with this error and another, which is known.
    ///
    /// *Source*: the degrees of freedom of the two together are Satterthwaite's, Biometrics Bulletin 2 (1946).
    pub fn p_value(self, distance: f64, other: f64) -> f64 {
        let total = self.error.hypot(other);
        let freedom = self.freedom.filter(|_| self.error > 0.0);
        let tail = |freedom: f64| {
            let freedom = freedom * (total / self.error).powi(4);
            let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
            Some(student.cdf(-distance / total))
        };
        let tail = match freedom {
            None => normal_cdf(-distance / total),
            Some(freedom) => tail(freedom).unwrap_or(0.5),
        };
        (2.0 * tail).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::matched::Z95;
    use super::SessionError;

    #[test]
    fn quantiles_are_the_tables() {
        let close = |value: f64, wanted: f64| assert!((value - wanted).abs() < 2e-3, "{value} against {wanted}");
        close(SessionError::known(1.0).times(Z95), 1.960);
        // Student's 97.5 % quantiles for 1, 2 and 10 degrees of freedom.
        close(SessionError::measured(1.0, 1.0).times(Z95), 12.706);
        close(SessionError::measured(1.0, 2.0).times(Z95), 4.303);
        close(SessionError::measured(0.5, 10.0).times(Z95), 1.114);
        // Far out, where a quantile for two degrees of freedom is 1/√(2p) of its tail p: 9.866e-10 beyond 6.
        let far = SessionError::measured(1.0, 2.0).times(6.0);
        assert!((far / 22_512.0 - 1.0).abs() < 1e-3, "{far}");
        assert_eq!(SessionError::measured(0.0, 1.0).times(Z95), 0.0);
        assert_eq!(SessionError::measured(1.0, 0.0).times(Z95), f64::INFINITY);
    }

    #[test]
    fn p_values_count_what_the_error_was_measured_with() {
        let close = |value: f64, wanted: f64| assert!((value - wanted).abs() < 1e-4, "{value} against {wanted}");
        close(SessionError::known(3.0).p_value(5.0 * Z95, 4.0), 0.05);
        // All of it from two sessions more than sides: Student's for two degrees of freedom.
        close(SessionError::measured(1.0, 2.0).p_value(4.3027, 0.0), 0.05);
        // Half of the variance: four times the freedom, and Student's quantile for 8 is 2.3060.
        close(
            SessionError::measured(3.0, 2.0).p_value(2.3060 * 18f64.sqrt(), 3.0),
            0.05,
        );
        close(SessionError::measured(1.0, 0.0).p_value(1e9, 1.0), 1.0);
    }
}
