//! Nsight Systems exports.

use std::path::PathBuf;

use poolbench::trace::{self, Event, EventKind, Format, Problem, Stream, Trace, WarningKind};
use rusqlite::Connection;
use tempfile::TempDir;

use super::support::{NSYS_SCHEMA, PROCESS, one_line, warnings};

/// An export made of SQL, after nsys's own schema.
struct Export {
    _folder: TempDir,
    path: PathBuf,
}

impl Export {
    fn new(sql: &str) -> Export {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("report1.sqlite");
        let connection = Connection::open(&path).expect("a new database");
        connection.execute_batch(sql).expect("valid SQL");
        Export { _folder: folder, path }
    }

    fn with_schema(sql: &str) -> Export {
        Export::new(&format!("{NSYS_SCHEMA}{sql}"))
    }

    #[track_caller]
    fn read(&self) -> Trace {
        match trace::read(&self.path) {
            Ok(trace) => trace,
            Err(error) => panic!("{error}"),
        }
    }

    #[track_caller]
    fn refusal(&self) -> String {
        let error = trace::read(&self.path).expect_err("it is to be refused");
        let line = one_line(&error);
        let behind = line.find("report1.sqlite: ").expect("the file is named");
        line[behind + "report1.sqlite: ".len()..].to_owned()
    }
}

const STRINGS: &str = "
INSERT INTO StringIds VALUES (1, 'cudaMallocAsync_v11020'), (2, 'cudaFreeAsync_v11020'), (3, 'cudaStreamSynchronize_v3020'),
    (4, 'cudaDeviceSynchronize_v3020'), (5, 'cudaEventSynchronize_v3020'), (6, 'cudaLaunchKernel_v7000');
";

/// A row of the memory table on device 0.
fn memory(start: i64, address: i64, bytes: i64, kind: i64, operation: i64, rest: &str) -> String {
    format!(
        "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS (start, globalPid, deviceId, contextId, address, pc, bytes, memKind, \
         memoryOperationType, correlationId, streamId) \
         VALUES ({start}, {PROCESS}, 0, 1, {address}, 0, {bytes}, {kind}, {operation}, {rest});"
    )
}

/// A row of the runtime table by thread 77.
fn call(start: i64, name: i64, correlation: i64, code: i64) -> String {
    let end = start + 5;
    let thread = PROCESS + 77;
    format!(
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({start}, {end}, 0, {thread}, {correlation}, {name}, {code}, NULL);"
    )
}

#[test]
fn memory_events_with_threads_streams_and_waits() {
    let sql = [
        STRINGS.to_owned(),
        call(95, 1, 1, 0),
        call(150, 6, 2, 0),
        call(195, 2, 3, 0),
        call(300, 3, 4, 0),
        call(310, 4, 5, 0),
        call(320, 5, 6, 0),
        // The rows stand out of order.
        memory(200, 0x7000, 512, 2, 1, "3, 13"),
        memory(100, 0x7000, 512, 2, 0, "1, 13"),
        memory(110, 0x9000, 64, 1, 0, "NULL, NULL"),
        memory(400, 0x8000, 1024, 2, 0, "NULL, 4294967295"),
        format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (301, 304, 0, 1, NULL, 13, 4, {PROCESS}, 3, 0);"
        ),
    ];
    let trace = Export::with_schema(&sql.concat()).read();
    assert_eq!(trace.format(), Format::NsysMemory);
    assert!(trace.sizes_known() && trace.replay_obstacle().is_none());
    let stream = |id| Stream {
        process: 4_242,
        device: 0,
        id,
    };
    assert_eq!(trace.streams(), [stream(13), stream(0)]);
    assert_eq!(trace.threads(), [77, 0]);
    use EventKind::{Alloc, Free, Sync};
    let events: Vec<_> = trace
        .events()
        .iter()
        .map(|e| (e.time_ns, e.kind, e.allocation, e.stream))
        .collect();
    assert_eq!(
        events,
        [
            (0, Alloc, 0, 0),
            (100, Free, 0, 0),
            (200, Sync, Event::NONE, 0),
            (210, Sync, Event::NONE, Event::NONE),
            (220, Sync, Event::NONE, Event::NONE),
            (300, Alloc, 1, 1),
        ]
    );
    assert_eq!(
        warnings(&trace),
        [(WarningKind::OtherMemory, 1), (WarningKind::SyncScope, 1)]
    );
}

#[test]
fn schemas_of_2021_have_no_streams() {
    let trace = Export::new(
        "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INT NOT NULL, globalPid INT NOT NULL, deviceId INT NOT NULL,
             contextId INT NOT NULL, address INT NOT NULL, pc INT NOT NULL, bytes INT NOT NULL, memKind INT NOT NULL,
             memoryOperationType INT NOT NULL, name TEXT);
         INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (5, 16777216, 1, 1, -4096, 0, 100, 2, 0, NULL),
             (7, 16777216, 1, 1, -4096, 0, 100, 2, 1, NULL);",
    )
    .read();
    assert_eq!(trace.devices(), [(1, 1)]);
    assert_eq!(trace.events().len(), 2);
    assert_eq!(warnings(&trace), [(WarningKind::NoStreams, 1)]);
}

#[test]
fn processes_have_address_spaces_of_their_own() {
    let other = PROCESS + (1 << 24);
    let sql = [
        memory(100, 0x7000, 512, 2, 0, "NULL, 7"),
        memory(101, 0x7000, 256, 2, 0, "NULL, 7").replace(&PROCESS.to_string(), &other.to_string()),
        memory(102, 0x7000, 512, 2, 1, "NULL, 7"),
    ];
    let trace = Export::with_schema(&sql.concat()).read();
    assert_eq!(trace.devices(), [(4_242, 0), (4_243, 0)]);
    assert_eq!(trace.allocations()[0].free_event, 2);
    assert_eq!(trace.on_device(4_243, 0).events().len(), 1);
    assert_eq!(trace.warnings(), []);
}

#[test]
fn without_the_memory_table_calls_are_counted_and_cannot_be_replayed() {
    let sql = [
        STRINGS.to_owned(),
        call(100, 1, 1, 0),
        call(110, 1, 2, 2),
        call(120, 6, 3, 0),
        call(130, 4, 4, 0),
        call(140, 2, 5, 0),
        "DROP TABLE CUDA_GPU_MEMORY_USAGE_EVENTS;".to_owned(),
    ];
    let trace = Export::with_schema(&sql.concat()).read();
    assert_eq!(trace.format(), Format::NsysCalls);
    let kinds: Vec<_> = trace.events().iter().map(|e| (e.kind, e.allocation)).collect();
    use EventKind::{Alloc, Free, Sync};
    assert_eq!(kinds, [(Alloc, 0), (Sync, Event::NONE), (Free, Event::NONE)]);
    assert!(!trace.sizes_known());
    let obstacle = trace.replay_obstacle().map(|problem| problem.to_string());
    assert_eq!(
        obstacle.as_deref(),
        Some(
            "has no sizes and addresses (only API calls were recorded): record with `nsys profile --cuda-memory-usage=true`"
        )
    );
    let summary = trace.summary();
    assert_eq!((summary.allocations, summary.frees, summary.syncs), (1, 1, 1));
    assert!(!summary.sizes_known);
    assert_eq!(
        warnings(&trace),
        [
            (WarningKind::NoStreams, 1),
            (WarningKind::NoSizes, 2),
            (WarningKind::AllocationFailure, 1)
        ]
    );
}

#[test]
fn databases_without_allocations_say_what_to_record() {
    let remedy = "has no GPU allocations (CUDA_GPU_MEMORY_USAGE_EVENTS, or calls in CUPTI_ACTIVITY_KIND_RUNTIME): \
                  record with `nsys profile --trace=cuda --cuda-memory-usage=true`";
    for sql in [
        "CREATE TABLE t (x);".to_owned(),
        NSYS_SCHEMA.to_owned(),
        // Waits alone are no trace.
        format!("{NSYS_SCHEMA}{STRINGS}{}", call(1, 4, 1, 0)),
        // A view with the table's name is not run.
        "CREATE VIEW CUDA_GPU_MEMORY_USAGE_EVENTS AS
             WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM n)
             SELECT start, start AS address, 1 AS bytes, 0 AS memoryOperationType FROM n;"
            .to_owned(),
    ] {
        assert_eq!(Export::new(&sql).refusal(), remedy);
    }
    let no_bytes = "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INT, address INT, memoryOperationType INT);";
    assert!(
        Export::new(no_bytes)
            .refusal()
            .starts_with("has no column bytes in CUDA_GPU_MEMORY_USAGE_EVENTS")
    );
}

#[test]
fn bad_rows_are_refused_by_rowid() {
    let good = memory(100, 0x7000, 512, 2, 0, "NULL, 7");
    for (row, expected) in [
        (
            memory(200, 0x8000, -1, 2, 0, "NULL, 7"),
            "CUDA_GPU_MEMORY_USAGE_EVENTS row 2: bytes -1 is not a number from 0",
        ),
        (
            memory(200, 0x8000, 1, 2, 2, "NULL, 7"),
            "CUDA_GPU_MEMORY_USAGE_EVENTS row 2: action 2 is none of 0 (allocation) and 1 (deallocation)",
        ),
        (
            memory(200, 0x8000, 1, 2, 0, "'x', 7"),
            "CUDA_GPU_MEMORY_USAGE_EVENTS row 2: correlationId (Text) is not an integer",
        ),
    ] {
        assert_eq!(Export::with_schema(&format!("{good}{row}")).refusal(), expected);
    }
}

#[test]
fn a_file_that_only_begins_like_a_database_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("report");
    std::fs::write(&path, b"SQLite format 3\0 and then nothing").expect("a temporary file");
    let error = trace::read(&path).expect_err("it is no database");
    assert!(matches!(error.problem(), Problem::Database(_)));
    one_line(&error);
}

/// A read may not change a folder: SQLite on its own leaves two files beside a database in WAL mode.
#[test]
fn an_export_in_wal_mode_is_read_and_nothing_is_left_beside_it() {
    // A name that means something else in a URI.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("a?b#c%41 \u{e9}.sqlite");
    let connection = Connection::open(&path).expect("a new database");
    let rows = memory(100, 0x7000, 512, 2, 0, "NULL, 7");
    connection
        .execute_batch(&format!("PRAGMA journal_mode = WAL;{NSYS_SCHEMA}{rows}"))
        .expect("valid SQL");
    let beside = |suffix: &str| folder.path().join(format!("a?b#c%41 \u{e9}.sqlite{suffix}"));
    let changes = std::fs::read(beside("-wal")).expect("SQLite's own");
    drop(connection);
    let names = || std::fs::read_dir(folder.path()).expect("the folder is there").count();
    assert_eq!(names(), 1, "closing leaves the database alone");
    assert_eq!(trace::read(&path).map(|trace| trace.peak_live_bytes()).ok(), Some(512));
    assert_eq!(names(), 1);

    // What is beside it and not yet in it is not passed over.
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    for suffix in ["-wal", "-journal"] {
        std::fs::write(beside(suffix), &changes).expect("a temporary file");
        for path in [&path, &link] {
            let line = one_line(&trace::read(path).expect_err("it is to be refused"));
            assert!(
                line.ends_with(
                    ": is a database with unfinished changes in a -wal or -journal file beside it; close the program \
                     that writes it, or export it again with `nsys export --type sqlite`"
                ),
                "{line}"
            );
        }
        std::fs::remove_file(beside(suffix)).expect("it was there");
    }
}

const PAGE_BYTES: usize = 512;

/// Makes a page of a table's tree that leads `children` times to one page.
fn inner_page(children: u16, child: u32) -> Vec<u8> {
    let mut page = vec![0; PAGE_BYTES];
    // Five bytes a cell: the child's number and the largest rowid below it.
    let cells_at = PAGE_BYTES as u16 - 5 * children;
    page[0] = 5;
    page[3..5].copy_from_slice(&children.to_be_bytes());
    page[5..7].copy_from_slice(&cells_at.to_be_bytes());
    page[8..12].copy_from_slice(&child.to_be_bytes());
    for cell in 0..children {
        let at = cells_at + 5 * cell;
        let pointer = 12 + 2 * usize::from(cell);
        page[pointer..pointer + 2].copy_from_slice(&at.to_be_bytes());
        page[usize::from(at)..usize::from(at) + 4].copy_from_slice(&child.to_be_bytes());
        page[usize::from(at) + 4] = cell as u8 + 1;
    }
    page
}

/// Puts levels of pages between a table's root and its one leaf, each leading 60 times to the next.
fn multiply(export: &Export, table: &str, levels: usize) {
    let connection = Connection::open(&export.path).expect("a database");
    let root: u32 = connection
        .query_row("SELECT rootpage FROM sqlite_master WHERE name = ?1", [table], |row| {
            row.get(0)
        })
        .expect("a table");
    drop(connection);
    let mut bytes = std::fs::read(&export.path).expect("a database");
    let place = |number: usize| (number - 1) * PAGE_BYTES..number * PAGE_BYTES;
    let mut child = bytes.len() / PAGE_BYTES + 1;
    bytes.extend_from_within(place(root as usize));
    for _ in 1..levels {
        bytes.extend(inner_page(60, child as u32));
        child += 1;
    }
    bytes[place(root as usize)].copy_from_slice(&inner_page(60, child as u32));
    // The header's number of pages, and that it is up to date.
    let pages = (bytes.len() / PAGE_BYTES) as u32;
    bytes[28..32].copy_from_slice(&pages.to_be_bytes());
    bytes.copy_within(24..28, 92);
    std::fs::write(&export.path, &bytes).expect("a database");
}

#[test]
fn pages_that_are_used_many_times_are_refused() {
    let small_pages = format!("PRAGMA page_size = {PAGE_BYTES};{NSYS_SCHEMA}");
    let expected = "is damaged: more rows than its bytes can hold";
    let row = memory(100, 0x7000, 512, 2, 0, "NULL, 7");
    // 61 rows of one fit into so many bytes, and a block that is allocated again is one whose free was missed.
    let few = Export::new(&format!("{small_pages}{row}"));
    multiply(&few, "CUDA_GPU_MEMORY_USAGE_EVENTS", 1);
    assert_eq!(few.read().allocations().len(), 61);
    // Rows that are given: 61^3 in a file of a few kilobytes.
    let rows = Export::new(&format!("{small_pages}{row}"));
    multiply(&rows, "CUDA_GPU_MEMORY_USAGE_EVENTS", 3);
    assert_eq!(rows.refusal(), expected);
    // Rows that a query leaves out: 61^4, which SQLite alone passes.
    let names = Export::new(&format!("{small_pages}INSERT INTO StringIds VALUES (1, 'a kernel');"));
    multiply(&names, "StringIds", 4);
    assert_eq!(names.refusal(), expected);
}

/// CUPTI loses records, and a capture range begins when it likes.
#[test]
fn second_frees_are_orphans() {
    let free = |start| memory(start, 16, 512, 2, 1, "NULL, NULL");
    let alloc = |start| memory(start, 16, 512, 2, 0, "NULL, NULL");
    let lost = Export::with_schema(&[alloc(1), free(2), free(3)].concat()).read();
    assert_eq!((lost.events().len(), lost.orphan_frees()), (2, 1));
    assert_eq!(lost.live_before().blocks, 0);
    let before = Export::with_schema(&[free(1), free(2), alloc(3)].concat()).read();
    assert_eq!((before.events().len(), before.orphan_frees()), (1, 2));
    assert_eq!((before.live_before().blocks, before.live_before().bytes), (1, 512));
}

/// What happened before the capture began.
#[test]
fn negative_times_keep_their_distance() {
    let alloc = memory(-5, 16, 512, 2, 0, "NULL, NULL");
    let free = memory(300, 16, 512, 2, 1, "NULL, NULL");
    let trace = Export::with_schema(&[alloc, free].concat()).read();
    let times: Vec<u64> = trace.events().iter().map(|event| event.time_ns).collect();
    assert_eq!(times, [0, 305]);
}

/// Of a free and an allocation of one address at one nanosecond, the one that can be comes first.
#[test]
fn rows_of_one_nanosecond_are_put_in_an_order_that_can_be() {
    let row = |start, size, operation| memory(start, 16, size, 2, operation, "NULL, NULL");
    let rows = [
        row(100, 512, 0),
        row(200, 1_024, 0),
        row(200, 512, 1),
        row(300, 1_024, 1),
    ];
    let trace = Export::with_schema(&rows.concat()).read();
    let events: Vec<_> = trace.events().iter().map(|e| (e.kind, trace.size_bytes(e))).collect();
    use EventKind::{Alloc, Free};
    assert_eq!(events, [(Alloc, 512), (Free, 512), (Alloc, 1_024), (Free, 1_024)]);
    assert_eq!((trace.orphan_frees(), warnings(&trace)), (0, vec![]));
}
