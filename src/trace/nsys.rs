//! Nsight Systems SQLite exports.
//!
//! `CUDA_GPU_MEMORY_USAGE_EVENTS` (recorded with `--cuda-memory-usage=true`) has an event per allocation and free,
//! with its stream in newer schemas; `correlationId` leads to the API call in `CUPTI_ACTIVITY_KIND_RUNTIME`, and so
//! to the thread. Waits come from that table too, and the stream waited for from
//! `CUPTI_ACTIVITY_KIND_SYNCHRONIZATION`. Where the first table is missing, the calls alone are read: they show
//! how often and when a program allocates, but neither sizes nor blocks.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::Row;

use super::builder::{Builder, Call, Window};
use super::error::{Fault, Problem, SqlTable};
use super::instant::{BlockUse, add_together};
use super::nsys_file::{self, ExportFile};
use super::nsys_rows::{
    Step, SyncScope, What, call_of, database, memory_step, more_than_it_holds, process_of, runtime_step, thread_of,
};
use super::read::Limits;
use super::warning::WarningKind;
use super::{EventKind, Format, Stream, Trace};

const SYNCHRONIZATION: &str = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";

/// `ENUM_CUPTI_SYNC_TYPE`: waits for a stream. Waits for an event are 1, for the context 4.
const SYNC_TYPE_EVENT: i64 = 1;
const SYNC_TYPE_STREAM: i64 = 3;

/// Longer than any call's name, in UTF-16 too.
const NAME_BYTES_MAX: usize = 256;

/// Reads an export.
pub(crate) fn read(path: &Path, limits: &Limits) -> Result<Trace, Fault> {
    let export = Export(nsys_file::open(path)?);
    let memory = export.columns(SqlTable::MemoryUsage.name())?;
    let runtime = export.columns(SqlTable::Runtime.name())?;
    let mut steps = Vec::new();
    if !memory.is_empty() {
        export.memory_steps(&memory, &runtime, limits, &mut steps)?;
    }
    let from_memory = !steps.is_empty();
    if !runtime.is_empty() {
        export.runtime_steps(&runtime, from_memory, limits, &mut steps)?;
    }
    let allocates = |step: &Step| {
        matches!(
            step.what,
            What::Alloc { .. } | What::Free { .. } | What::AllocCall | What::FreeCall
        )
    };
    if !steps.iter().any(allocates) {
        return Err(Fault::from(Problem::Missing {
            what: "GPU allocations (CUDA_GPU_MEMORY_USAGE_EVENTS, or calls in CUPTI_ACTIVITY_KIND_RUNTIME)",
            remedy: "record with `nsys profile --trace=cuda --cuda-memory-usage=true`",
        }));
    }
    build(steps, from_memory, memory.contains_key("streamid"), limits)
}

/// A table's columns: the lower-case name gives the real one.
type Columns = HashMap<String, String>;

struct Export(ExportFile);

/// An expression for a column that a schema may lack.
fn column_or_null(columns: &Columns, name: &str) -> String {
    match columns.get(&name.to_ascii_lowercase()) {
        Some(column) => quote(column),
        None => "NULL".to_owned(),
    }
}

fn quote(identifier: &str) -> String {
    format!("\"{}\"", identifier.replace('"', "\"\""))
}

impl Export {
    /// The columns of a table; none where there is no such table. A view or a virtual table is no table.
    fn columns(&self, table: &str) -> Result<Columns, Fault> {
        let real: i64 = self
            .0
            .connection
            .query_row(
                "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?1 \
                 AND sql LIKE 'CREATE TABLE%'",
                [table],
                |row| row.get(0),
            )
            .map_err(database)?;
        if real == 0 {
            return Ok(Columns::new());
        }
        let mut statement = self
            .0
            .connection
            .prepare("SELECT name FROM pragma_table_info(?1)")
            .map_err(database)?;
        let names = statement
            .query_map([table], |row| row.get::<_, String>(0))
            .map_err(database)?;
        names
            .map(|name| {
                let name = name.map_err(|error| Fault::from(database(error)))?;
                Ok((name.to_ascii_lowercase(), name))
            })
            .collect()
    }

    /// Runs a query and gives each row to `each`.
    fn rows(&self, sql: &str, mut each: impl FnMut(&Row<'_>) -> Result<(), Fault>) -> Result<(), Fault> {
        let mut statement = self.0.connection.prepare(sql).map_err(database)?;
        let mut rows = statement.query([]).map_err(database)?;
        let mut rows_left = self.0.rows_max;
        while let Some(row) = rows.next().map_err(database)? {
            rows_left = rows_left.checked_sub(1).ok_or_else(more_than_it_holds)?;
            each(row)?;
        }
        Ok(())
    }

    /// The threads of the calls that allocated and freed, by process and correlation id.
    fn threads(&self, runtime: &Columns) -> Result<HashMap<(u32, i64), u64>, Fault> {
        let mut threads = HashMap::new();
        let needed = ["correlationid", "globaltid"];
        if !needed.iter().all(|&name| runtime.contains_key(name)) {
            return Ok(threads);
        }
        let sql = "SELECT correlationId, globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME \
                   WHERE correlationId IN (SELECT correlationId FROM CUDA_GPU_MEMORY_USAGE_EVENTS)";
        self.rows(sql, |row| {
            let read = |at| row.get::<_, Option<i64>>(at).map_err(database);
            if let (Some(correlation), Some(global)) = (read(0)?, read(1)?) {
                threads
                    .entry((process_of(global), correlation))
                    .or_insert(thread_of(global));
            }
            Ok(())
        })?;
        Ok(threads)
    }

    fn memory_steps(
        &self,
        columns: &Columns,
        runtime: &Columns,
        limits: &Limits,
        steps: &mut Vec<Step>,
    ) -> Result<(), Fault> {
        for (name, what) in [
            ("start", "column start in CUDA_GPU_MEMORY_USAGE_EVENTS"),
            ("address", "column address in CUDA_GPU_MEMORY_USAGE_EVENTS"),
            ("bytes", "column bytes in CUDA_GPU_MEMORY_USAGE_EVENTS"),
            (
                "memoryoperationtype",
                "column memoryOperationType in CUDA_GPU_MEMORY_USAGE_EVENTS",
            ),
        ] {
            if !columns.contains_key(name) {
                let remedy = "export the report again with Nsight Systems 2021.3 or later";
                return Err(Fault::from(Problem::Missing { what, remedy }));
            }
        }
        let correlated = columns.contains_key("correlationid");
        let threads = if correlated {
            self.threads(runtime)?
        } else {
            HashMap::new()
        };
        let sql = format!(
            "SELECT rowid, start, address, bytes, memoryOperationType, {}, {}, {}, {}, {} \
             FROM CUDA_GPU_MEMORY_USAGE_EVENTS",
            column_or_null(columns, "memKind"),
            column_or_null(columns, "globalPid"),
            column_or_null(columns, "deviceId"),
            column_or_null(columns, "streamId"),
            column_or_null(columns, "correlationId"),
        );
        self.rows(&sql, |row| {
            let step = memory_step(row, &threads)?;
            push(steps, step, limits)
        })
    }

    /// The streams of waits, by process and correlation id.
    fn waited_streams(&self) -> Result<HashMap<(u32, i64), Stream>, Fault> {
        let mut streams = HashMap::new();
        let columns = self.columns(SYNCHRONIZATION)?;
        let needed = ["correlationid", "streamid", "synctype"];
        if !needed.iter().all(|&name| columns.contains_key(name)) {
            return Ok(streams);
        }
        let sql = format!(
            "SELECT correlationId, streamId, {}, {} FROM {SYNCHRONIZATION} \
             WHERE syncType IN ({SYNC_TYPE_EVENT}, {SYNC_TYPE_STREAM})",
            column_or_null(&columns, "deviceId"),
            column_or_null(&columns, "globalPid"),
        );
        self.rows(&sql, |row| {
            let read = |at| row.get::<_, Option<i64>>(at).map_err(database);
            let process = read(3)?.map_or(0, process_of);
            // CUPTI writes 2^32 - 1 where a record has no stream.
            let stream = read(1)?.filter(|&stream| (0..i64::from(u32::MAX)).contains(&stream));
            if let (Some(correlation), Some(stream)) = (read(0)?, stream) {
                let stream = Stream {
                    process,
                    device: read(2)?.and_then(|device| u32::try_from(device).ok()).unwrap_or(0),
                    id: stream as u64,
                };
                streams.insert((process, correlation), stream);
            }
            Ok(())
        })?;
        Ok(streams)
    }

    /// Waits, and where the memory table has nothing, allocating calls.
    fn runtime_steps(
        &self,
        columns: &Columns,
        syncs_only: bool,
        limits: &Limits,
        steps: &mut Vec<Step>,
    ) -> Result<(), Fault> {
        let needed = ["start", "nameid"];
        if !needed.iter().all(|&name| columns.contains_key(name)) || !self.columns("StringIds")?.contains_key("value") {
            return Ok(());
        }
        let calls = self.calls()?;
        if calls.is_empty() {
            return Ok(());
        }
        let streams = self.waited_streams()?;
        let ids: Vec<String> = calls.keys().map(i64::to_string).collect();
        let sql = format!(
            "SELECT rowid, start, nameId, {}, {}, {} FROM CUPTI_ACTIVITY_KIND_RUNTIME \
             WHERE nameId IN ({})",
            column_or_null(columns, "globalTid"),
            column_or_null(columns, "correlationId"),
            column_or_null(columns, "returnValue"),
            ids.join(", "),
        );
        self.rows(&sql, |row| {
            let id: i64 = row.get(2).map_err(database)?;
            match calls.get(&id) {
                Some(call) if matches!(call, What::Sync(_)) || !syncs_only => {
                    push(steps, runtime_step(row, *call, &streams)?, limits)
                }
                _ => Ok(()),
            }
        })
    }

    /// What the calls do whose names occur, by the names' ids.
    fn calls(&self) -> Result<HashMap<i64, What>, Fault> {
        let mut calls = HashMap::new();
        // The length is in the row's head: without it, a value of megabytes would be fetched for each row that shares it.
        let sql = format!(
            "SELECT id, value FROM StringIds WHERE octet_length(value) <= {NAME_BYTES_MAX} AND value LIKE 'cu%'"
        );
        self.rows(&sql, |row| {
            let name = row.get_ref(1).map_err(database)?;
            if let Some(call) = name.as_str().ok().and_then(call_of) {
                calls.insert(row.get(0).map_err(database)?, call);
            }
            Ok(())
        })?;
        Ok(calls)
    }
}

fn push(steps: &mut Vec<Step>, step: Step, limits: &Limits) -> Result<(), Fault> {
    let limit = limits.events;
    if steps.len() as u64 >= limit {
        return Err(Fault::at(step.place, Problem::TooManyEvents { limit }));
    }
    steps.push(step);
    Ok(())
}

fn build(mut steps: Vec<Step>, from_memory: bool, has_streams: bool, limits: &Limits) -> Result<Trace, Fault> {
    let format = if from_memory {
        Format::NsysMemory
    } else {
        Format::NsysCalls
    };
    let mut builder = Builder::new(format, Window::Part, limits.events);
    if !has_streams {
        builder.warn(WarningKind::NoStreams, None);
    }
    // Stable: rows of one nanosecond keep the order of their table, as far as their blocks allow it.
    steps.sort_by_key(|step| step.time_ns);
    for together in steps.chunk_by(|a, b| a.time_ns == b.time_ns) {
        add_together(&mut builder, together, use_of, add)?;
    }
    builder.finish()
}

fn use_of(step: &Step) -> Option<BlockUse> {
    let (address, frees) = match step.what {
        What::Alloc { address, .. } => (address, false),
        What::Free { address, .. } => (address, true),
        _ => return None,
    };
    Some(BlockUse {
        stream: step.stream,
        address,
        frees,
    })
}

fn add(builder: &mut Builder, step: &Step) -> Result<(), Fault> {
    let call = Call {
        place: step.place,
        time_ns: step.time_ns,
        thread: step.thread,
        stream: step.stream,
    };
    match step.what {
        What::Alloc { address, size_bytes } => builder.alloc(call, address, size_bytes)?,
        What::Free { address, size_bytes } => builder.free(call, address, Some(size_bytes))?,
        What::Sync(SyncScope::Stream) => builder.sync_stream(call)?,
        What::Sync(SyncScope::Device) => builder.sync_device(call)?,
        What::Sync(SyncScope::Unknown) => {
            builder.warn(WarningKind::SyncScope, Some(step.place));
            builder.sync_device(call)?;
        }
        What::AllocCall => builder.call_only(call, EventKind::Alloc)?,
        What::FreeCall => builder.call_only(call, EventKind::Free)?,
        What::Failed => builder.warn(WarningKind::AllocationFailure, Some(step.place)),
        What::OtherMemory => builder.warn(WarningKind::OtherMemory, Some(step.place)),
    }
    Ok(())
}
