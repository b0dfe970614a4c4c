//! Events.

use super::Stream;
use super::error::{Result, check, report_failed_drop};
use crate::driver::{Code, Function, api};
use cust::sys::CUevent;

/// An event that records times. It resolves about half a microsecond.
#[derive(Debug)]
pub struct Event {
    raw: CUevent,
}

// SAFETY: the driver's handles belong to a context, not to a thread, and its calls may come from any.
unsafe impl Send for Event {}

impl Event {
    /// Makes an event on the current device.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn new() -> Result<Event> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is a valid place for a handle.
        check(Function::cuEventCreate, unsafe { api::cuEventCreate(&raw mut raw, 0) })?;
        Ok(Event { raw })
    }

    pub(crate) fn raw(&self) -> CUevent {
        self.raw
    }

    /// Records the event in a stream.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        // SAFETY: both handles are live.
        check(Function::cuEventRecord, unsafe {
            api::cuEventRecord(self.raw, stream.raw())
        })
    }

    /// Waits until the stream has come to the event. Pools look at their release threshold here.
    ///
    /// # Errors
    ///
    /// An earlier asynchronous failure.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the handle is live.
        check(Function::cuEventSynchronize, unsafe {
            api::cuEventSynchronize(self.raw)
        })
    }

    /// Whether the stream has come to the event.
    ///
    /// # Errors
    ///
    /// An earlier asynchronous failure.
    pub fn is_reached(&self) -> Result<bool> {
        // SAFETY: the handle is live.
        let code = unsafe { api::cuEventQuery(self.raw) };
        if code == Code::NOT_READY.0 {
            return Ok(false);
        }
        check(Function::cuEventQuery, code).map(|()| true)
    }

    /// Microseconds of device time from `start` to this event; both must be reached.
    ///
    /// # Errors
    ///
    /// The driver's refusal, for events that were not recorded or not reached.
    pub fn elapsed_us_since(&self, start: &Event) -> Result<f64> {
        let mut milliseconds = 0.0_f32;
        // SAFETY: both handles are live and `milliseconds` is a valid place for a float.
        let code = unsafe { api::cuEventElapsedTime(&raw mut milliseconds, start.raw, self.raw) };
        check(Function::cuEventElapsedTime, code)?;
        Ok(f64::from(milliseconds) * 1e3)
    }

    fn destroy(&mut self) -> Result<()> {
        if self.raw.is_null() {
            return Ok(());
        }
        let raw = std::mem::replace(&mut self.raw, std::ptr::null_mut());
        // SAFETY: the handle was live and is forgotten.
        check(Function::cuEventDestroy_v2, unsafe { api::cuEventDestroy_v2(raw) })
    }

    /// Destroys the event.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn close(mut self) -> Result<()> {
        self.destroy()
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        report_failed_drop("event", self.destroy());
    }
}
