//! The buffer, or every block of a known sequence, is allocated before the loop: the only honest
//! baseline.

use super::{Plan, Setup, Strategy, StrategyKind};
use crate::cuda::{DeviceBuffer, DevicePtr, Result, Stream};

pub(super) const KIND: StrategyKind = StrategyKind {
    name: "hoisted",
    has_work: true,
    build,
};

struct Hoisted(DeviceBuffer);

fn build(setup: &Setup<'_>) -> Result<Box<dyn Strategy>> {
    if let Some(plan) = setup.plan {
        return Ok(Box::new(Planned::new(plan)?));
    }
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

/// One buffer with a place for each block of a sequence, which is asked for again and again.
struct Planned {
    buffer: DeviceBuffer,
    places: Vec<DevicePtr>,
    next: usize,
}

impl Planned {
    fn new(plan: &Plan) -> Result<Planned> {
        let length = usize::try_from(plan.planned_bytes()).unwrap_or(usize::MAX) / size_of::<f32>();
        let buffer = DeviceBuffer::uninitialized(length)?;
        let place = |offset: &u64| buffer.pointer().offset(*offset);
        let places: Vec<DevicePtr> = plan.offsets_bytes().iter().map(place).collect();
        Ok(Planned {
            buffer,
            places,
            next: 0,
        })
    }
}

impl Strategy for Planned {
    #[inline]
    fn alloc(&mut self, _: &Stream, _: usize) -> Result<DevicePtr> {
        let place = self.places[self.next];
        self.next += 1;
        if self.next == self.places.len() {
            self.next = 0;
        }
        Ok(place)
    }

    fn free(&mut self, _: &Stream, _: DevicePtr) -> Result<()> {
        Ok(())
    }

    fn serves_one_stream(&self) -> bool {
        true
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.buffer.close()
    }
}
