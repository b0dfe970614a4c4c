//! The buffer is allocated before the loop: the only honest baseline.

use super::{Setup, Strategy, StrategyKind};
use crate::cuda::{DeviceBuffer, DevicePtr, Result, Stream};

pub(super) const KIND: StrategyKind = StrategyKind {
    name: "hoisted",
    has_work: true,
    build,
};

struct Hoisted(DeviceBuffer);

fn build(setup: &Setup<'_>) -> Result<Box<dyn Strategy>> {
    Ok(Box::new(Hoisted(DeviceBuffer::uninitialized(setup.size.elements())?)))
}

impl Strategy for Hoisted {
    fn alloc(&mut self, _: &Stream, _: usize) -> Result<DevicePtr> {
        Ok(self.0.pointer())
    }

    fn free(&mut self, _: &Stream, _: DevicePtr) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.0.close()
    }
}
