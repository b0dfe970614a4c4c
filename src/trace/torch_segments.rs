//! The `segments` of a PyTorch memory snapshot: what its cache holds when the snapshot is taken, block by block.
//!
//! Only blocks in use matter here. What is no list of segments says nothing, and does not spoil the trace beside it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::lenient::{Name, Number, Skip, others};

/// A block in use when the snapshot was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveBlock {
    pub device: u32,
    pub address: u64,
    /// As requested where the snapshot says it, as the trace's sizes are.
    pub size_bytes: u64,
}

/// What is found, and how many blocks and segments may still come.
pub(crate) struct Segments<'a> {
    live: &'a mut Vec<LiveBlock>,
    left: &'a mut usize,
}

/// One segment.
struct Segment<'a, 'b>(&'b mut Segments<'a>);

/// A segment's blocks, whose device the segment says.
struct Blocks<'a, 'b, 'c>(&'c mut Segment<'a, 'b>, &'c mut Vec<Block>);

/// One block.
struct BlockSeed;

#[derive(Debug, Default)]
struct Block {
    address: Number,
    size: Number,
    requested_size: Number,
    is_active: bool,
}

impl<'a> Segments<'a> {
    pub fn new(live: &'a mut Vec<LiveBlock>, left: &'a mut usize) -> Segments<'a> {
        Segments { live, left }
    }

    /// Counts a segment or a block.
    fn count<E: serde::de::Error>(&mut self) -> Result<(), E> {
        *self.left = self
            .left
            .checked_sub(1)
            .ok_or_else(|| E::custom("more blocks than its bytes can hold"))?;
        Ok(())
    }
}

macro_rules! seed {
    ($($seed:tt)+) => {
        impl<'de> DeserializeSeed<'de> for $($seed)+ {
            type Value = <Self as Visitor<'de>>::Value;

            fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
                deserializer.deserialize_any(self)
            }
        }
    };
}

seed!(Segments<'_>);
seed!(Segment<'_, '_>);
seed!(Blocks<'_, '_, '_>);
seed!(BlockSeed);

impl<'de> Visitor<'de> for Segments<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of segments")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut segments: A) -> Result<(), A::Error> {
        while segments.next_element_seed(Segment(&mut self))?.is_some() {
            self.count()?;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        Ok(())
    }

    others!(());
}

impl<'de> Visitor<'de> for Segment<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a segment: a dict with device, address and blocks")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let (mut device, mut address, mut blocks) = (Number::Absent, Number::Absent, Vec::new());
        while let Some(Name(key)) = map.next_key()? {
            match key.as_str() {
                "device" => device = map.next_value()?,
                "address" => address = map.next_value()?,
                "blocks" => map.next_value_seed(Blocks(&mut self, &mut blocks))?,
                _ => {
                    map.next_value::<Skip>()?;
                }
            }
        }
        let device = device.unsigned().and_then(|device| u32::try_from(device).ok());
        let (Some(device), Some(mut next)) = (device, address.unsigned()) else {
            return Ok(());
        };
        for block in blocks {
            // Blocks lie side by side; early snapshots do not say where each begins.
            let address = block.address.unsigned().unwrap_or(next);
            let size_bytes = block.size.unsigned().unwrap_or(0);
            next = address.saturating_add(size_bytes);
            if block.is_active {
                self.0.live.push(LiveBlock {
                    device,
                    address,
                    size_bytes: block.requested_size.unsigned().unwrap_or(size_bytes),
                });
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        Ok(())
    }

    others!(());
}

impl<'de> Visitor<'de> for Blocks<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of blocks")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut blocks: A) -> Result<(), A::Error> {
        while let Some(block) = blocks.next_element_seed(BlockSeed)? {
            self.0.0.count()?;
            self.1.push(block);
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        Ok(())
    }

    others!(());
}

impl<'de> Visitor<'de> for BlockSeed {
    type Value = Block;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a block: a dict with size and state")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Block, A::Error> {
        let mut block = Block::default();
        while let Some(Name(key)) = map.next_key()? {
            match key.as_str() {
                "address" => block.address = map.next_value()?,
                "size" => block.size = map.next_value()?,
                "requested_size" => block.requested_size = map.next_value()?,
                // Allocated, or freed while another stream still uses it.
                "state" => block.is_active = map.next_value::<Name>()?.0.starts_with("active"),
                _ => {
                    map.next_value::<Skip>()?;
                }
            }
        }
        Ok(block)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Block, A::Error> {
        Ok(Block::default())
    }

    others!(Block::default());
}
