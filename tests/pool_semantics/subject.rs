//! One subject: a claim about pools, where it comes from, and what a device showed.

use crate::ground::{Load, TestPool};
use poolbench::cuda::{self, Device, Stream};
use std::fmt::{self, Debug, Display};

/// The driver on which undocumented behaviour was observed.
pub const OBSERVED_DRIVER: &str = "580.159.04";

/// Where a claim comes from, and so what a difference means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// NVIDIA's documentation promises it: every driver must show it.
    Documented,
    /// It was seen on an H200 and nothing promises it: another driver may differ, and is reported.
    Observed,
}

impl Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Documented => write!(f, "documented, must hold"),
            Source::Observed => write!(f, "undocumented, observed on driver {OBSERVED_DRIVER}"),
        }
    }
}

/// A claim and how to look for it.
pub struct Subject {
    /// `file/claim`.
    pub name: &'static str,
    pub source: Source,
    /// What must be seen, in one sentence.
    pub claim: &'static str,
    pub observe: fn(&mut Probe<'_>) -> Observed,
}

pub const fn documented(name: &'static str, claim: &'static str, observe: fn(&mut Probe<'_>) -> Observed) -> Subject {
    Subject {
        name,
        source: Source::Documented,
        claim,
        observe,
    }
}

pub const fn observed(name: &'static str, claim: &'static str, observe: fn(&mut Probe<'_>) -> Observed) -> Subject {
    Subject {
        name,
        source: Source::Observed,
        claim,
        observe,
    }
}

/// What an observation ends with; what it compared is in its [`Probe`].
pub type Observed = Result<(), Stop>;

/// Why an observation ended early.
#[derive(Debug)]
pub enum Stop {
    /// A call failed that had to work.
    Failed(cuda::Error),
    /// The device was not in the state that the observation is about.
    Inconclusive(String),
    /// The device cannot be asked, or should not be.
    Skipped(String),
}

impl From<cuda::Error> for Stop {
    fn from(error: cuda::Error) -> Stop {
        Stop::Failed(error)
    }
}

/// One comparison that came out otherwise.
#[derive(Debug, PartialEq, Eq)]
pub struct Difference {
    pub what: String,
    pub expected: String,
    pub seen: String,
}

/// What a subject showed on this device.
#[derive(Debug)]
pub enum Outcome {
    /// Every comparison, of this many, came out as claimed.
    Holds(usize),
    /// A semantic drift.
    Drifts(Vec<Difference>),
    Inconclusive(String),
    Skipped(String),
}

/// The device under observation, and what was compared so far.
pub struct Probe<'a> {
    pub device: &'a Device,
    load: &'a Load,
    /// How many times the usual work a stream is kept busy with.
    patience: u32,
    compared: usize,
    differences: Vec<Difference>,
}

impl Probe<'_> {
    /// Compares.
    pub fn expect<T: PartialEq + Debug>(&mut self, what: impl Display, expected: T, seen: T) {
        self.compared += 1;
        if expected != seen {
            self.differences.push(Difference {
                what: what.to_string(),
                expected: format!("{expected:?}"),
                seen: format!("{seen:?}"),
            });
        }
    }

    /// Compares a driver code; 0 is success.
    pub fn expect_code<T>(&mut self, what: impl Display, expected: i32, seen: &cuda::Result<T>) {
        self.expect(what, expected, code_of(seen));
    }

    /// A fresh pool with the driver's default attributes.
    pub fn pool(&self) -> Result<TestPool, Stop> {
        Ok(TestPool::create(self.device)?)
    }

    /// Gives a stream work for tens of milliseconds.
    pub fn occupy(&self, stream: &Stream) -> Result<(), Stop> {
        Ok(self.load.occupy(stream, self.patience)?)
    }

    /// Ends the observation where a stream that must have been busy until now is not.
    pub fn still_busy(&self, stream: &Stream) -> Result<(), Stop> {
        if stream.is_idle()? {
            return Err(Stop::Inconclusive(String::from(
                "the stream finished its work before the observation was over",
            )));
        }
        Ok(())
    }

    /// Waits until a stream is idle without a synchronise: a query counts for nothing.
    pub fn let_finish(&self, stream: &Stream) -> Result<(), Stop> {
        while !stream.is_idle()? {
            std::thread::yield_now();
        }
        Ok(())
    }
}

/// The code of a result; of a failure without one, a number that no driver returns.
pub fn code_of<T>(result: &cuda::Result<T>) -> i32 {
    match result {
        Ok(_) => 0,
        Err(error) => error.code().map_or(i32::MIN, |code| code.0),
    }
}

impl Subject {
    /// Looks for the claim on a device; again, with longer work, where the device was too fast.
    pub fn look(&self, device: &Device, load: &Load) -> Outcome {
        let mut outcome = Outcome::Skipped(String::new());
        for patience in [1, 4, 16] {
            let mut probe = Probe {
                device,
                load,
                patience,
                compared: 0,
                differences: Vec::new(),
            };
            let end = (self.observe)(&mut probe);
            outcome = probe.outcome(end);
            if !matches!(outcome, Outcome::Inconclusive(_)) {
                break;
            }
        }
        outcome
    }

    /// A drift as a GPU engineer can paste it into a bug report.
    pub fn report(&self, differences: &[Difference], device: impl Display) -> String {
        let mut text = format!(
            "SEMANTIC DRIFT {} ({})\n  claim:    {}\n",
            self.name, self.source, self.claim
        );
        for difference in differences {
            text += &format!(
                "  subject:  {}\n  expected: {}\n  seen:     {}\n",
                difference.what, difference.expected, difference.seen
            );
        }
        text + &format!("  device:   {device}\n")
    }
}

impl Probe<'_> {
    fn outcome(mut self, end: Observed) -> Outcome {
        match end {
            Err(Stop::Skipped(reason)) => return Outcome::Skipped(reason),
            // What was compared before may be the device's haste as well.
            Err(Stop::Inconclusive(reason)) => return Outcome::Inconclusive(reason),
            Err(Stop::Failed(error)) => self.differences.push(Difference {
                what: String::from("the calls that lead to the observation"),
                expected: String::from("success"),
                seen: error.to_string(),
            }),
            Ok(()) if self.compared == 0 => self.differences.push(Difference {
                what: String::from("the observation"),
                expected: String::from("at least one comparison"),
                seen: String::from("none"),
            }),
            Ok(()) => {}
        }
        if self.differences.is_empty() {
            Outcome::Holds(self.compared)
        } else {
            Outcome::Drifts(self.differences)
        }
    }
}

/// Checks that a wrong claim is reported, as it has to be, and an empty one too.
pub fn check_reporting(device: &Device, load: &Load) {
    let wrong = observed("self_check/wrong", "One is two.", |probe| {
        probe.expect("one", 2, 1);
        Ok(())
    });
    let Outcome::Drifts(differences) = wrong.look(device, load) else {
        panic!("a wrong claim passed");
    };
    assert_eq!(
        wrong.report(&differences, "some device"),
        "SEMANTIC DRIFT self_check/wrong (undocumented, observed on driver 580.159.04)\n  claim:    One is \
         two.\n  subject:  one\n  expected: 2\n  seen:     1\n  device:   some device\n"
    );
    let empty = documented("self_check/empty", "Nothing.", |_| Ok(()));
    assert!(
        matches!(empty.look(device, load), Outcome::Drifts(_)),
        "an empty observation passed"
    );
}
