//! What a comparison asks for, and what is known about the machine.

use thiserror::Error;

/// Spread between sessions of one machine and driver, per class. *Unit* natural logarithms (SD).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SessionSpread {
    /// Benchmarks that the GPU paces.
    pub gpu_bound: f64,
    /// Neither: not host-bound, but with a visible spread between launches.
    pub mixed: f64,
    /// Host-bound benchmarks, and those of which nobody knows; `None`: unknown, any shift possible.
    pub host_bound: Option<f64>,
}

/// Assumed where nothing is known of the machine: the hour between the two H200 recordings moved
/// GPU-bound benchmarks by 0.0 to 0.4 % (√2 · 0.3 %), mixed ones by -0.3 and +1.4 % (√2 · 1 %), and
/// host-bound ones by 5 to 27 %, which no assumption covers.
impl Default for SessionSpread {
    fn default() -> Self {
        Self {
            gpu_bound: 0.003,
            mixed: 0.01,
            host_bound: None,
        }
    }
}

/// Why options are refused.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum InvalidOptions {
    /// A size that is not in [0, 1).
    #[error("minimum effect {0}: must be at least 0 and below 1, such as 0.01")]
    MinEffect(f64),
    /// A rate that is not in (0, 1).
    #[error("false discovery rate {0}: must be above 0 and below 1, such as 0.05")]
    FalseDiscoveryRate(f64),
    /// A spread that is negative or no number.
    #[error("spread between sessions {0}: must be at least 0")]
    SessionSpread(f64),
}

/// What a comparison asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    min_effect: f64,
    false_discovery_rate: f64,
    session_spread: Option<SessionSpread>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            min_effect: 0.01,
            false_discovery_rate: 0.05,
            session_spread: None,
        }
    }
}

impl Options {
    /// Returns options for a minimum effect (0.01: one per cent) and a false discovery rate.
    ///
    /// # Errors
    /// Numbers outside their range.
    pub fn new(min_effect: f64, false_discovery_rate: f64) -> Result<Self, InvalidOptions> {
        if !(0.0..1.0).contains(&min_effect) {
            return Err(InvalidOptions::MinEffect(min_effect));
        }
        if !(false_discovery_rate > 0.0 && false_discovery_rate < 1.0) {
            return Err(InvalidOptions::FalseDiscoveryRate(false_discovery_rate));
        }
        Ok(Self {
            min_effect,
            false_discovery_rate,
            session_spread: None,
        })
    }

    /// Returns the options with the spread between sessions known for this machine.
    ///
    /// # Errors
    /// A spread that is negative or no number.
    pub fn with_session_spread(mut self, spread: SessionSpread) -> Result<Self, InvalidOptions> {
        for sd in [Some(spread.gpu_bound), Some(spread.mixed), spread.host_bound]
            .into_iter()
            .flatten()
        {
            if !(sd >= 0.0 && sd.is_finite()) {
                return Err(InvalidOptions::SessionSpread(sd));
            }
        }
        self.session_spread = Some(spread);
        Ok(self)
    }

    /// Returns the minimum effect. *Unit* share: 0.01 is one per cent.
    #[must_use]
    pub fn min_effect(&self) -> f64 {
        self.min_effect
    }

    /// Returns the false discovery rate, q.
    #[must_use]
    pub fn false_discovery_rate(&self) -> f64 {
        self.false_discovery_rate
    }

    /// Returns the known spread between sessions, if any.
    #[must_use]
    pub fn session_spread(&self) -> Option<SessionSpread> {
        self.session_spread
    }

    /// Returns δ, the minimum effect as a logarithm.
    pub(super) fn delta(&self) -> f64 {
        self.min_effect.ln_1p()
    }
}
