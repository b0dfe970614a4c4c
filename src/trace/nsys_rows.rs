//! Rows of an Nsight Systems export, and what they ask for.

use std::collections::HashMap;

use rusqlite::types::ValueRef;
use rusqlite::{ErrorCode, Row};

use super::Stream;
use super::error::{Fault, Place, Problem, SqlTable, brief};

/// `ENUM_CUDA_MEM_KIND`: memory of the device, as cudaMalloc and cudaMallocAsync give it.
const MEMORY_KIND_DEVICE: i64 = 2;

/// A problem that SQLite reports.
pub(crate) fn database(error: rusqlite::Error) -> Problem {
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => more_than_it_holds(),
        _ => Problem::Database(brief(&error)),
    }
}

/// Pages that are used many times stand for rows without end.
pub(crate) fn more_than_it_holds() -> Problem {
    Problem::Malformed("more rows than its bytes can hold".to_owned())
}

/// What a row asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Alloc { address: u64, size_bytes: u64 },
    Free { address: u64, size_bytes: u64 },
    Sync(SyncScope),
    AllocCall,
    FreeCall,
    Failed,
    OtherMemory,
}

/// What a wait waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SyncScope {
    Device,
    Stream,
    /// An event, or a stream that is not recorded.
    Unknown,
}

/// A row, before all are put in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub time_ns: u64,
    pub place: Place,
    pub thread: u64,
    pub stream: Stream,
    pub what: What,
}

/// The integer in a column: `None` for NULL, an error for anything else.
fn integer(row: &Row<'_>, at: usize, name: &'static str, place: Place) -> Result<Option<i64>, Fault> {
    match row.get_ref(at).map_err(database)? {
        ValueRef::Null => Ok(None),
        ValueRef::Integer(value) => Ok(Some(value)),
        other => Err(Fault::at(
            place,
            Problem::Invalid {
                field: name,
                text: format!("({})", other.data_type()),
                expected: "an integer",
            },
        )),
    }
}

fn not_negative(value: Option<i64>, name: &'static str, place: Place) -> Result<u64, Fault> {
    value.and_then(|value| u64::try_from(value).ok()).ok_or_else(|| {
        let text = value.map_or("(NULL)".to_owned(), |value| value.to_string());
        Fault::at(
            place,
            Problem::Invalid {
                field: name,
                text,
                expected: "a number from 0",
            },
        )
    })
}

/// A time that keeps its distance to all others: traces start at 0, and what happened before a capture began has
/// a negative one.
fn time_of(start: Option<i64>, place: Place) -> Result<u64, Fault> {
    let start = start.ok_or_else(|| {
        Fault::at(
            place,
            Problem::Invalid {
                field: "start",
                text: "(NULL)".to_owned(),
                expected: "a time in nanoseconds",
            },
        )
    })?;
    Ok(start.cast_unsigned() ^ (1 << 63))
}

/// `globalPid` and `globalTid` hold the process id in bits 24 to 47, the thread id below.
pub(crate) fn process_of(global: i64) -> u32 {
    (global >> 24) as u32 & 0xff_ffff
}

/// Linux numbers threads across processes.
pub(crate) fn thread_of(global: i64) -> u64 {
    global as u64 & 0xff_ffff
}

fn rowid_of(row: &Row<'_>, table: SqlTable) -> Result<Place, Fault> {
    let rowid = row.get(0).map_err(database)?;
    Ok(Place::SqlRow(table, rowid))
}

/// Reads the columns that the memory query selects.
pub(crate) fn memory_step(row: &Row<'_>, threads: &HashMap<(u32, i64), u64>) -> Result<Step, Fault> {
    let place = rowid_of(row, SqlTable::MemoryUsage)?;
    let read = |at, name| integer(row, at, name, place);
    let time_ns = time_of(read(1, "start")?, place)?;
    let size_bytes = not_negative(read(3, "bytes")?, "bytes", place)?;
    // Addresses fill 64 bits, and SQLite's integers are signed.
    let address = read(2, "address")?.unwrap_or(0) as u64;
    let operation = read(4, "memoryOperationType")?;
    let kind = read(5, "memKind")?.unwrap_or(MEMORY_KIND_DEVICE);
    let process = read(6, "globalPid")?.map_or(0, process_of);
    let device = read(7, "deviceId")?.unwrap_or(0);
    let stream = read(8, "streamId")?.unwrap_or(0);
    let thread = read(9, "correlationId")?
        .and_then(|correlation| threads.get(&(process, correlation)))
        .copied()
        .unwrap_or(0);
    let what = match operation {
        _ if kind != MEMORY_KIND_DEVICE => What::OtherMemory,
        Some(0) => What::Alloc { address, size_bytes },
        Some(1) => What::Free { address, size_bytes },
        other => {
            return Err(Fault::at(
                place,
                Problem::UnknownAction {
                    text: other.map_or("NULL".to_owned(), |value| value.to_string()),
                    expected: "0 (allocation) and 1 (deallocation)",
                },
            ));
        }
    };
    Ok(Step {
        time_ns,
        place,
        thread,
        stream: Stream {
            process,
            device: u32::try_from(device).unwrap_or(0),
            // CUPTI writes 2^32 - 1 for an allocation without a stream: cudaMalloc.
            id: if stream == i64::from(u32::MAX) {
                0
            } else {
                stream as u64
            },
        },
        what,
    })
}

/// Reads the columns that the runtime query selects.
pub(crate) fn runtime_step(row: &Row<'_>, call: What, streams: &HashMap<(u32, i64), Stream>) -> Result<Step, Fault> {
    let place = rowid_of(row, SqlTable::Runtime)?;
    let read = |at, name| integer(row, at, name, place);
    let time_ns = time_of(read(1, "start")?, place)?;
    let global = read(3, "globalTid")?.unwrap_or(0);
    let process = process_of(global);
    let waited = read(4, "correlationId")?
        .and_then(|correlation| {
            streams
                .get(&(process, correlation))
                .or_else(|| streams.get(&(0, correlation)))
        })
        .copied();
    let failed = read(5, "returnValue")?.is_some_and(|code| code != 0);
    let what = match call {
        What::Sync(SyncScope::Unknown) if waited.is_some() => What::Sync(SyncScope::Stream),
        What::Sync(scope) => What::Sync(scope),
        _ if failed => What::Failed,
        call => call,
    };
    let stream = Stream {
        process,
        ..waited.unwrap_or_default()
    };
    Ok(Step {
        time_ns,
        place,
        thread: thread_of(global),
        stream,
        what,
    })
}

/// What a call of the runtime or driver API does, by the name that nsys writes: `cudaMallocAsync_v11020`.
pub(crate) fn call_of(name: &str) -> Option<What> {
    let versioned = name.rfind("_v").filter(|&at| {
        let digits = &name.as_bytes()[at + 2..];
        !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
    });
    let name = versioned.map_or(name, |at| &name[..at]);
    let name = name
        .strip_suffix("_ptsz")
        .or_else(|| name.strip_suffix("_ptds"))
        .unwrap_or(name);
    match name {
        "cudaMalloc"
        | "cudaMallocAsync"
        | "cudaMallocFromPoolAsync"
        | "cudaMallocPitch"
        | "cuMemAlloc"
        | "cuMemAllocAsync"
        | "cuMemAllocFromPoolAsync"
        | "cuMemAllocPitch" => Some(What::AllocCall),
        "cudaFree" | "cudaFreeAsync" | "cuMemFree" | "cuMemFreeAsync" => Some(What::FreeCall),
        "cudaDeviceSynchronize" | "cudaThreadSynchronize" | "cuCtxSynchronize" => Some(What::Sync(SyncScope::Device)),
        "cudaStreamSynchronize" | "cuStreamSynchronize" | "cudaEventSynchronize" | "cuEventSynchronize" => {
            Some(What::Sync(SyncScope::Unknown))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_known_under_all_their_names() {
        for name in [
            "cudaMalloc",
            "cudaMalloc_v3020",
            "cudaMallocAsync_v11020",
            "cudaMallocAsync_ptsz_v11020",
            "cuMemAlloc_v2",
        ] {
            assert!(matches!(call_of(name), Some(What::AllocCall)), "{name}");
        }
        for name in ["cudaFree_v3020", "cudaFreeAsync_v11020", "cuMemFreeAsync"] {
            assert!(matches!(call_of(name), Some(What::FreeCall)), "{name}");
        }
        for name in ["cudaStreamSynchronize_v3020", "cudaDeviceSynchronize"] {
            assert!(matches!(call_of(name), Some(What::Sync(_))), "{name}");
        }
        for name in ["cudaMallocHost_v3020", "cudaFreeHost", "cudaMallocManaged", "", "_v1"] {
            assert!(call_of(name).is_none(), "{name}");
        }
    }
}
