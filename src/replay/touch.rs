//! Proof that a strategy hands out memory rightly: each block is written after its allocation and read
//! before its free.
//!
//! Two things are checked. No block may lie over another that is live, which needs no device. And each
//! element must still hold the block's value when the block is freed, in stream order and without the
//! host, which would hide what only goes wrong when streams run ahead: the blocks of a stream are added
//! up, and the sum's every element is known exactly.

use super::engine::Work;
use super::operation::Operation;
use crate::cuda::{DeviceBuffer, DevicePtr, Kernels, Stream};
use crate::measure::Failure;
use serde::Serialize;
use std::collections::BTreeMap;

/// Elements of a sum: longer blocks are added up in pieces of so many.
const PIECE_ELEMENTS: usize = (16 << 20) / size_of::<f32>();
/// Values go from 1 to this, a prime, so that blocks that come in a pattern differ.
const VALUES: u64 = 251;
/// `f32` holds every whole number up to here.
const EXACT_MAX: u64 = 1 << 24;

/// What was written and verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Touched {
    /// Blocks whose elements were verified.
    pub blocks: u64,
    /// Their bytes, each written once and read once.
    pub bytes: u64,
    /// Blocks of fewer than 4 bytes: only their place was checked.
    pub blocks_too_small: u64,
}

/// The sum of a stream's blocks, on the device and as it must be.
struct Sum {
    output: DeviceBuffer,
    /// `[i]`: values of the pieces that are `i + 1` elements long.
    ends: BTreeMap<usize, u64>,
    total: u64,
}

/// Writes and verifies the blocks of one replay.
pub struct Touch {
    kernels: Kernels,
    sums: Vec<Sum>,
    /// By address: where the block ends, its number and its slot's value.
    live: BTreeMap<u64, Live>,
    next_block: u64,
    edge_elements: usize,
    touched: Touched,
}

#[derive(Clone, Copy)]
struct Live {
    end: u64,
    block: u64,
}

impl Touch {
    /// For replays in this number of streams. Of each block the first and the last `edge_bytes` are touched;
    /// `usize::MAX` touches all.
    ///
    /// # Errors
    ///
    /// The driver's refusal, also of 16 MiB a stream.
    pub fn new(streams: &[Stream], edge_bytes: usize) -> Result<Touch, Failure> {
        let kernels = Kernels::shared()?;
        // A piece of an edge begins at a multiple of 16 bytes, as the kernels need.
        let edge_elements = (edge_bytes / size_of::<f32>()).next_multiple_of(4).max(4);
        let elements = PIECE_ELEMENTS.min(edge_elements);
        let sum = |stream: &Stream| {
            let output = DeviceBuffer::uninitialized(elements)?;
            stream.set_words(output.pointer(), 0, elements)?;
            Ok(Sum {
                output,
                ends: BTreeMap::new(),
                total: 0,
            })
        };
        Ok(Touch {
            kernels,
            sums: streams.iter().map(sum).collect::<Result<_, Failure>>()?,
            live: BTreeMap::new(),
            next_block: 0,
            edge_elements,
            touched: Touched::default(),
        })
    }

    /// The parts of a block that are touched, as (first element, number of elements).
    fn parts(&self, size_bytes: u64) -> [(usize, usize); 2] {
        let elements = usize::try_from(size_bytes).unwrap_or(usize::MAX) / size_of::<f32>();
        let edge = self.edge_elements;
        if elements / 2 <= edge {
            return [(0, elements), (elements, 0)];
        }
        // Rounded down to 16 bytes, so that the last part may be a little longer than an edge.
        let last = (elements - edge) / 4 * 4;
        [(0, edge), (last, elements - last)]
    }

    /// Compares the sums with what they must be, and returns what was verified since the last time.
    ///
    /// # Errors
    ///
    /// A wrong sum, or a failed call.
    pub fn verify(&mut self, streams: &[Stream]) -> Result<Touched, Failure> {
        for (index, sum) in self.sums.iter_mut().enumerate() {
            sum.verify(&streams[index], index)?;
        }
        self.next_block = 0;
        Ok(std::mem::take(&mut self.touched))
    }

    /// Frees the sums and unloads the kernels.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn close(self) -> Result<(), Failure> {
        self.sums.into_iter().try_for_each(|sum| sum.output.close())?;
        Ok(self.kernels.close()?)
    }

    fn claim(&mut self, block: DevicePtr, size_bytes: u64) -> Result<u64, Failure> {
        let number = self.next_block;
        self.next_block += 1;
        let (start, end) = (block.address(), block.address().saturating_add(size_bytes));
        let before = self.live.range(..end).next_back();
        if let Some((_, other)) = before.filter(|(_, other)| other.end > start) {
            return Err(Failure::Overlap {
                block: number,
                other: other.block,
                address: start,
                size_bytes,
            });
        }
        self.live.insert(start, Live { end, block: number });
        Ok(number)
    }
}

/// The value that a block's elements hold.
fn value(block: u64) -> u64 {
    1 + block % VALUES
}

impl Work for Touch {
    fn after_alloc(&mut self, streams: &[Stream], operation: &Operation, block: DevicePtr) -> Result<(), Failure> {
        let number = self.claim(block, operation.size_bytes)?;
        #[allow(clippy::cast_precision_loss, reason = "at most VALUES")]
        let bits = (value(number) as f32).to_bits();
        let stream = &streams[usize::from(operation.stream)];
        for (first, elements) in self.parts(operation.size_bytes) {
            if elements > 0 {
                stream.set_words(element(block, first), bits, elements)?;
            }
        }
        Ok(())
    }

    fn before_free(&mut self, streams: &[Stream], operation: &Operation, block: DevicePtr) -> Result<(), Failure> {
        let Some(live) = self.live.remove(&block.address()) else {
            return Ok(());
        };
        let index = usize::from(operation.stream);
        let (stream, value) = (&streams[index], value(live.block));
        let parts = self.parts(operation.size_bytes);
        if parts[0].1 == 0 {
            self.touched.blocks_too_small += 1;
            return Ok(());
        }
        self.touched.blocks += 1;
        for (first, elements) in parts {
            self.touched.bytes += (elements * size_of::<f32>()) as u64;
            self.sums[index].add(&self.kernels, stream, index, element(block, first), elements, value)?;
        }
        Ok(())
    }
}

fn element(block: DevicePtr, index: usize) -> DevicePtr {
    block.offset((index * size_of::<f32>()) as u64)
}

impl Sum {
    /// Adds the elements of a part, piece by piece.
    fn add(
        &mut self,
        kernels: &Kernels,
        stream: &Stream,
        index: usize,
        start: DevicePtr,
        elements: usize,
        value: u64,
    ) -> Result<(), Failure> {
        // A multiple of four, so that each piece begins at a multiple of 16 bytes.
        let piece = self.output.len() / 4 * 4;
        for first in (0..elements).step_by(piece) {
            if self.total + value > EXACT_MAX {
                self.verify(stream, index)?;
            }
            let length = piece.min(elements - first);
            kernels.accumulate(stream, self.output.pointer(), element(start, first), length)?;
            *self.ends.entry(length - 1).or_default() += value;
            self.total += value;
        }
        Ok(())
    }

    /// Compares the whole sum and sets it back to zero.
    fn verify(&mut self, stream: &Stream, index: usize) -> Result<(), Failure> {
        let actual = self.output.to_vec(stream)?;
        let mut expected = 0_u64;
        let mut end = actual.len();
        // From the last element to the first: an element holds the values of all pieces that reach it.
        let bounds = self.ends.iter().rev().map(|(last, value)| (last + 1, *value));
        for (start, added) in bounds.chain([(0, 0)]) {
            #[allow(clippy::cast_precision_loss, reason = "at most 2^24, which f32 holds exactly")]
            let value = expected as f32;
            #[allow(clippy::float_cmp, reason = "exact whole numbers")]
            if let Some(offset) = actual[start..end].iter().position(|actual| *actual != value) {
                return Err(Failure::WrongContent {
                    stream: index,
                    index: start + offset,
                    expected: expected as f64,
                    actual: actual[start + offset].into(),
                });
            }
            expected += added;
            end = start;
        }
        self.ends.clear();
        self.total = 0;
        Ok(stream.set_words(self.output.pointer(), 0, actual.len())?)
    }
}
