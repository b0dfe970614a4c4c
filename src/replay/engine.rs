//! Runs a program's operations under a strategy.

use super::operation::{Operation, OperationKind};
use super::program::{Program, Reuse};
use crate::cuda::{self, Device, DevicePtr, Error, Event, Stream};
use crate::driver::Code;
use crate::measure::Failure;
use crate::strategy::{Plan, Setup, Strategy, StrategyKind};

/// What runs between a program's calls: nothing where they are timed.
pub trait Work {
    /// A block was just allocated in `streams[operation.stream]`.
    ///
    /// # Errors
    ///
    /// A failed call, or a block that cannot be right.
    fn after_alloc(&mut self, streams: &[Stream], operation: &Operation, block: DevicePtr) -> Result<(), Failure>;

    /// A block is about to be freed in `streams[operation.stream]`.
    ///
    /// # Errors
    ///
    /// A failed call, or a block that does not hold what was written.
    fn before_free(&mut self, streams: &[Stream], operation: &Operation, block: DevicePtr) -> Result<(), Failure>;
}

/// No work: the calls alone.
#[derive(Clone, Copy, Debug)]
pub struct NoWork;

impl Work for NoWork {
    #[inline]
    fn after_alloc(&mut self, _: &[Stream], _: &Operation, _: DevicePtr) -> Result<(), Failure> {
        Ok(())
    }

    #[inline]
    fn before_free(&mut self, _: &[Stream], _: &Operation, _: DevicePtr) -> Result<(), Failure> {
        Ok(())
    }
}

/// A strategy for all streams of a program: one that serves all, or one for each.
pub struct Allocator {
    strategies: Vec<Box<dyn Strategy>>,
    /// All ones where each stream has its own, else zero.
    home_mask: usize,
}

impl Allocator {
    /// Builds the strategy. `plans` holds one plan a stream; `size` is the most that is live at once.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn build(kind: &StrategyKind, setup: &Setup<'_>, plans: &[Plan]) -> cuda::Result<Allocator> {
        let build = |plan| {
            (kind.build)(&Setup {
                plan: Some(plan),
                ..*setup
            })
        };
        let [first, rest @ ..] = plans else {
            return Ok(Allocator {
                strategies: Vec::new(),
                home_mask: 0,
            });
        };
        let mut strategies = vec![build(first)?];
        let home_mask = if strategies[0].serves_one_stream() {
            for plan in rest {
                strategies.push(build(plan)?);
            }
            usize::MAX
        } else {
            0
        };
        Ok(Allocator { strategies, home_mask })
    }

    /// Who knows of reuse, and so which program fits.
    #[must_use]
    pub fn reuse(&self) -> Reuse {
        if self.home_mask == 0 {
            Reuse::Driver
        } else {
            Reuse::Host
        }
    }

    /// The pool behind the strategy, `None` where there is none.
    #[must_use]
    pub fn pool(&self) -> Option<&cuda::MemoryPool> {
        self.strategies.first().and_then(|strategy| strategy.pool())
    }

    #[inline]
    fn of(&mut self, home: u8) -> &mut dyn Strategy {
        self.strategies[usize::from(home) & self.home_mask].as_mut()
    }

    /// Frees what the strategies were built with.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn close(self) -> cuda::Result<()> {
        self.strategies.into_iter().try_for_each(Strategy::close)
    }
}

/// A program's streams and slots.
pub struct Engine {
    device: Device,
    streams: Vec<Stream>,
    /// One a stream: recorded and waited for at once, so one is enough.
    events: Vec<Event>,
    slots: Vec<DevicePtr>,
}

impl Engine {
    /// Makes the streams of a program.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn new(device: &Device, program: &Program) -> cuda::Result<Engine> {
        let n_streams = program.n_streams();
        Ok(Engine {
            device: device.clone(),
            streams: (0..n_streams).map(|_| Stream::new()).collect::<Result<_, _>>()?,
            events: (0..n_streams).map(|_| Event::new()).collect::<Result<_, _>>()?,
            slots: vec![DevicePtr::NULL; program.n_slots()],
        })
    }

    /// The streams, as operations number them.
    #[must_use]
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Runs operations in order and returns how many allocations found no memory. What was not allocated is
    /// not freed; all else goes on, as in a program that can do without.
    ///
    /// # Errors
    ///
    /// The first failure of another kind.
    #[inline]
    pub fn run(
        &mut self,
        operations: &[Operation],
        allocator: &mut Allocator,
        work: &mut impl Work,
    ) -> Result<u64, Failure> {
        let mut out_of_memory = 0;
        for operation in operations {
            let slot = operation.slot as usize;
            let stream = &self.streams[usize::from(operation.stream)];
            match operation.kind {
                OperationKind::Alloc => {
                    let size_bytes = usize::try_from(operation.size_bytes).unwrap_or(usize::MAX);
                    match allocator.of(operation.home).alloc(stream, size_bytes) {
                        Ok(block) => {
                            self.slots[slot] = block;
                            work.after_alloc(&self.streams, operation, block)?;
                        }
                        Err(error) if is_out_of_memory(&error) => {
                            self.slots[slot] = DevicePtr::NULL;
                            out_of_memory += 1;
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
                OperationKind::Free => {
                    let block = std::mem::replace(&mut self.slots[slot], DevicePtr::NULL);
                    if block != DevicePtr::NULL {
                        work.before_free(&self.streams, operation, block)?;
                        allocator.of(operation.home).free(stream, block)?;
                    }
                }
                OperationKind::SynchronizeStream => stream.synchronize()?,
                OperationKind::SynchronizeDevice => self.device.synchronize()?,
                OperationKind::Order => {
                    let home = usize::from(operation.home);
                    self.events[home].record(&self.streams[home])?;
                    stream.wait_event(&self.events[home])?;
                }
            }
        }
        Ok(out_of_memory)
    }

    /// Waits for the device: the end of every replay.
    ///
    /// # Errors
    ///
    /// An earlier asynchronous failure.
    pub fn synchronize(&self) -> cuda::Result<()> {
        self.device.synchronize()
    }

    /// Destroys streams and events.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn close(self) -> cuda::Result<()> {
        self.events.into_iter().try_for_each(Event::close)?;
        self.streams.into_iter().try_for_each(Stream::close)
    }
}

fn is_out_of_memory(error: &Error) -> bool {
    error.code() == Some(Code::OUT_OF_MEMORY) || matches!(error, Error::TooLarge { .. })
}
