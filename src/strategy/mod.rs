//! How a loop gets its scratch buffer: one file a strategy.

mod plan;

use crate::case::Size;
use crate::cuda::{Device, DevicePtr, MemoryPool, Result, Stream};

pub use plan::{Plan, Request};

/// One way to get a scratch buffer and give it back.
pub trait Strategy {
    /// Returns `size_bytes` of device memory, usable by work that follows in `stream`, aligned to at
    /// least 16 bytes. Never more than the size the strategy was built for.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    fn alloc(&mut self, stream: &Stream, size_bytes: usize) -> Result<DevicePtr>;

    /// Gives back what [`alloc`](Strategy::alloc) returned; work before it in `stream` may still use
    /// it.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    fn free(&mut self, stream: &Stream, pointer: DevicePtr) -> Result<()>;

    /// Whether freed memory is handed out again without the driver's knowledge, so that only the order of
    /// calls in one stream keeps its users apart. Several streams then need a strategy each, and a free in
    /// another stream must be followed by a wait of the strategy's own.
    fn serves_one_stream(&self) -> bool {
        false
    }

    /// The pool that serves the strategy, `None` where there is none.
    fn pool(&self) -> Option<&MemoryPool> {
        None
    }

    /// Frees what was made when the strategy was built, and puts back what was changed.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    fn close(self: Box<Self>) -> Result<()>;
}

/// What a strategy is built for.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The device that is measured.
    pub device: &'a Device,
    /// The most that will be live at once; without a plan, in one block.
    pub size: Size,
    /// The requests that will come, in order and again and again, where they are known ahead; `None` for
    /// one block at a time.
    pub plan: Option<&'a Plan>,
    /// The release threshold of the strategy's pool, in bytes; nothing to one without a pool.
    pub release_threshold_bytes: u64,
}

/// A strategy's name and how to build it: a point on the strategy axis.
#[derive(Debug)]
pub struct StrategyKind {
    /// The name in benchmark ids.
    pub name: &'static str,
    /// Whether the loop's kernels run on the buffer; without, the harness itself is measured.
    pub has_work: bool,
    /// Builds the strategy, outside the measured time.
    pub build: fn(&Setup<'_>) -> Result<Box<dyn Strategy>>,
}

/// Declares the modules and the axis at once, so that a strategy is one file and one line here.
macro_rules! strategies {
    ($($module:ident),* $(,)?) => {
        $(mod $module;)*

        /// Every strategy, the baseline first.
        pub const ALL: &[StrategyKind] = &[$($module::KIND),*];
    };
}

strategies! {
    hoisted,
    sync,
    stream_ordered,
    owned_pool,
    arena,
    managed,
    vmm,
    noop,
}

/// The strategy of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static StrategyKind> {
    ALL.iter().find(|kind| kind.name == name)
}

/// What every other strategy is compared with: not allocating in the loop at all.
pub const HOISTED: &StrategyKind = &hoisted::KIND;

/// `cuMemAlloc` and `cuMemFree`.
pub const SYNC: &StrategyKind = &sync::KIND;

/// The driver's default pool; the workloads that vary the release threshold vary it here.
pub const STREAM_ORDERED: &StrategyKind = &stream_ordered::KIND;

/// Sub-allocation from one block, as caching allocators do it.
pub const ARENA: &StrategyKind = &arena::KIND;
