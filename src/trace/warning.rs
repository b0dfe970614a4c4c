//! Rows that a format makes normal, counted.

use std::fmt;

use serde::Serialize;

use super::error::Place;

/// What was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WarningKind {
    /// A free of a block whose allocation is not recorded, since the trace began later or did not see the thread; left
    /// out.
    OrphanFree,
    /// A block allocated while live: its free was not recorded, and is put just before.
    MissedFree,
    /// A free that names another size than the allocation; the allocation's counts.
    SizeMismatch,
    /// An allocation that failed; left out.
    AllocationFailure,
    /// The allocation or free of nothing at the null address; left out.
    NullPointer,
    /// An allocation of 0 bytes at a real address; kept.
    ZeroSize,
    /// A time a little before the one above it, as threads write them; set to the one above.
    TimeStep,
    /// A time more than a second before the one above it; set to the one above.
    TimeFall,
    /// The time of day passed midnight.
    Midnight,
    /// The last row was cut; left out.
    CutRow,
    /// The last row has no line feed: its last field may be cut.
    NoFinalLineFeed,
    /// The format or the layout has no threads: all events are on thread 0.
    NoThreads,
    /// The format or the layout has no streams: all events are on stream 0.
    NoStreams,
    /// The layout has no times.
    NoTimes,
    /// Memory that is not the device's (host, managed, static); left out.
    OtherMemory,
    /// A wait for an event whose stream is not recorded; taken as a wait for the device.
    SyncScope,
    /// An out-of-memory event; left out.
    OutOfMemory,
    /// An action that this reader does not know; left out.
    UnknownAction,
    /// An API call whose block and size are not recorded.
    NoSizes,
    /// An event that is broken JSON and no memory event; left out.
    BrokenEvent,
}

impl WarningKind {
    fn text(self) -> &'static str {
        match self {
            WarningKind::OrphanFree => "frees of blocks whose allocation was not recorded, left out",
            WarningKind::MissedFree => {
                "allocations of a block still live: its free was not recorded, and is put just before"
            }
            WarningKind::SizeMismatch => "frees that name another size than the allocation, whose size is kept",
            WarningKind::AllocationFailure => "allocations that failed, left out",
            WarningKind::NullPointer => "allocations or frees at the null address, left out",
            WarningKind::ZeroSize => "allocations of 0 bytes, kept",
            WarningKind::TimeStep => "times a little before the row above, set to it",
            WarningKind::TimeFall => {
                "times more than a second before the row above, set to it (the clock was set back, or the file holds \
                 two runs)"
            }
            WarningKind::Midnight => "times that passed midnight",
            WarningKind::CutRow => "rows cut at the end of the file, left out",
            WarningKind::NoFinalLineFeed => "last row without a line feed: its last field may be cut",
            WarningKind::NoThreads => "no threads in this layout: all events are on thread 0",
            WarningKind::NoStreams => "no streams in this layout: all events are on stream 0",
            WarningKind::NoTimes => "no times in this layout",
            WarningKind::OtherMemory => "events on host, managed or static memory, left out",
            WarningKind::SyncScope => "waits for an event of an unknown stream, taken as waits for the device",
            WarningKind::OutOfMemory => "out-of-memory events, left out",
            WarningKind::UnknownAction => "entries with an unknown action, left out",
            WarningKind::NoSizes => "calls whose block and size are not recorded",
            WarningKind::BrokenEvent => {
                "events that could not be read, none of them a [memory] event, left out (PyTorch did not escape their \
                 names; with_stack=False avoids it)"
            }
        }
    }

    /// Whether the kind says something of the file, not of rows that can be counted.
    fn of_file(self) -> bool {
        matches!(
            self,
            WarningKind::NoFinalLineFeed | WarningKind::NoThreads | WarningKind::NoStreams | WarningKind::NoTimes
        )
    }
}

/// One kind of thing noticed, how often, and where first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// What.
    pub kind: WarningKind,
    /// How often.
    pub count: u64,
    /// Where first, if at one place.
    pub first: Option<Place>,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.text())?;
        if !self.kind.of_file() {
            write!(f, ": {}", self.count)?;
        }
        match self.first {
            Some(place) => write!(f, " (first: {place})"),
            None => Ok(()),
        }
    }
}

/// Adds one to the kind's count.
pub(crate) fn count(warnings: &mut Vec<Warning>, kind: WarningKind, place: Option<Place>) {
    match warnings.iter_mut().find(|warning| warning.kind == kind) {
        Some(warning) => warning.count += 1,
        None => warnings.push(Warning {
            kind,
            count: 1,
            first: place,
        }),
    }
}
