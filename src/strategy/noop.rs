//! No buffer and no kernels: what the harness itself costs. Reported, never subtracted.

use super::{Setup, Strategy, StrategyKind};
use crate::cuda::{DevicePtr, Result, Stream};

pub(super) const KIND: StrategyKind = StrategyKind {
    name: "noop",
    has_work: false,
    build,
};

struct Noop;

fn build(_: &Setup<'_>) -> Result<Box<dyn Strategy>> {
    Ok(Box::new(Noop))
}

impl Strategy for Noop {
    fn alloc(&mut self, _: &Stream, _: usize) -> Result<DevicePtr> {
        Ok(DevicePtr::NULL)
    }

    fn free(&mut self, _: &Stream, _: DevicePtr) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
