//! The buffer is allocated before the loop: the only honest baseline.

use super::{Setup, Strategy, StrategyKind};
use crate::cuda::{DevicePtr, Result, Stream, alloc_plain, free_plain};

pub(super) const KIND: StrategyKind = StrategyKind {
    name: "hoisted",
    has_work: true,
    build,
};

struct Hoisted {
    pointer: DevicePtr,
}

fn build(setup: &Setup<'_>) -> Result<Box<dyn Strategy>> {
    Ok(Box::new(Hoisted {
        pointer: alloc_plain(setup.size.as_bytes())?,
    }))
}

impl Strategy for Hoisted {
    fn alloc(&mut self, _: &Stream, _: usize) -> Result<DevicePtr> {
        Ok(self.pointer)
    }

    fn free(&mut self, _: &Stream, _: DevicePtr) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        free_plain(self.pointer)
    }
}
