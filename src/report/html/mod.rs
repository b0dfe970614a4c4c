//! The report: one HTML file that a reviewer opens without a network.
//!
//! Everything is in the file: style, script, pictures. Its Content-Security-Policy allows nothing to be
//! requested and no script but the one whose hash it names. Without the script the table is not sorted;
//! nothing else is lost. What an input file named is escaped by the template library and isolated from
//! the text around it.

mod changes;
mod even;
mod facts;
mod format;
mod heat_map;
mod launches;
mod lines;
mod method;
mod page;
mod scale;
mod stacked;
mod summary;
mod table;
mod threshold;
mod view;

use super::{Compared, SideSummary};
use crate::stats::{Calibration, Side};
use view::View;

/// What a report is made from.
#[derive(Clone, Copy, Debug)]
pub struct HtmlReport<'a> {
    base: (&'a SideSummary, &'a Side),
    compared: Option<&'a Compared>,
    calibration: Option<&'a Calibration>,
    commands: &'a [String],
}

impl<'a> HtmlReport<'a> {
    /// The report of one baseline.
    #[must_use]
    pub fn of_one(summary: &'a SideSummary, side: &'a Side) -> HtmlReport<'a> {
        HtmlReport {
            base: (summary, side),
            compared: None,
            calibration: None,
            commands: &[],
        }
    }

    /// The report of a comparison.
    #[must_use]
    pub fn of_comparison(compared: &'a Compared) -> HtmlReport<'a> {
        HtmlReport {
            compared: Some(compared),
            ..HtmlReport::of_one(&compared.base, &compared.base_side)
        }
    }

    /// The report with what the procedure does on the base's own noise.
    #[must_use]
    pub fn with_calibration(self, calibration: &'a Calibration) -> HtmlReport<'a> {
        HtmlReport {
            calibration: Some(calibration),
            ..self
        }
    }

    /// The report with the commands that make it again, a line each.
    #[must_use]
    pub fn with_commands(self, commands: &'a [String]) -> HtmlReport<'a> {
        HtmlReport { commands, ..self }
    }

    /// Returns the page. The same input gives the same bytes.
    #[must_use]
    pub fn page(&self) -> String {
        let view = View::new(self.base, self.compared, self.calibration, self.commands);
        page::page(&view).into_string()
    }
}
