//! Kernels of the host device: the Rust twins of `kernels/*.cu`, found by name.

use super::memory::{Memory, Span};
use crate::driver::Code;
use std::ffi::c_void;

/// The largest PTX ISA version that the host device takes, as (major, minor): CUDA 13.0's.
const PTX_VERSION_MAX: (u32, u32) = (9, 0);
/// The smallest that can name a target from [`PTX_TARGETS`].
const PTX_VERSION_MIN: (u32, u32) = (4, 0);
/// The targets that it takes, as sm numbers: those of the GPU whose behaviour was recorded.
const PTX_TARGETS: std::ops::RangeInclusive<u32> = 50..=90;

/// The twin of one kernel: the sizes of its arguments, and its effect.
pub(super) struct Twin {
    name: &'static str,
    argument_sizes_bytes: &'static [usize],
    run: fn(&Memory, &[u64], threads: u64) -> Result<(), Code>,
}

impl PartialEq for Twin {
    /// No two twins share a name.
    fn eq(&self, other: &Twin) -> bool {
        self.name == other.name
    }
}

const TWINS: &[Twin] = &[
    Twin {
        name: "fill",
        argument_sizes_bytes: &[8, 8, 8, 4],
        run: fill,
    },
    Twin {
        name: "accumulate",
        argument_sizes_bytes: &[8, 8, 8],
        run: accumulate,
    },
];

/// Finds the twin of a kernel that `ptx` declares.
pub(super) fn twin(ptx: &str, name: &str) -> Result<&'static Twin, Code> {
    let declared = ptx.lines().filter_map(|line| line.split(".entry ").nth(1)).any(|rest| {
        rest.trim_start()
            .strip_prefix(name)
            .is_some_and(|rest| rest.trim_start().starts_with('(') || rest.trim().is_empty())
    });
    TWINS
        .iter()
        .find(|twin| declared && twin.name == name)
        .ok_or(Code::NOT_FOUND)
}

/// Refuses what a driver's compiler refuses at first sight: no PTX, or one newer than it knows.
pub(super) fn check_ptx(ptx: &str) -> Result<(), Code> {
    let version = ptx
        .lines()
        .find_map(|line| line.trim().strip_prefix(".version "))
        .ok_or(Code::INVALID_IMAGE)?;
    let (major, minor) = version.trim().split_once('.').ok_or(Code::INVALID_PTX)?;
    let number = |text: &str| text.parse::<u32>().map_err(|_| Code::INVALID_PTX);
    let version = (number(major)?, number(minor)?);
    if version > PTX_VERSION_MAX {
        return Err(Code::UNSUPPORTED_PTX_VERSION);
    }
    let target = ptx.lines().find_map(|line| line.trim().strip_prefix(".target "));
    let target = target.and_then(|target| target.trim().strip_prefix("sm_"));
    let target = target.map(|target| target.trim_end_matches(|letter: char| !letter.is_ascii_digit()));
    let is_known = target
        .and_then(|number| number.parse().ok())
        .is_some_and(|sm: u32| PTX_TARGETS.contains(&sm));
    let count = |brace| ptx.bytes().filter(|byte| *byte == brace).count();
    if version < PTX_VERSION_MIN || !is_known || count(b'{') != count(b'}') {
        return Err(Code::INVALID_PTX);
    }
    Ok(())
}

/// A kernel with its arguments, ready to run.
#[derive(Clone)]
pub(super) struct Launch {
    twin: &'static Twin,
    arguments: Vec<u64>,
    threads: u64,
}

impl Launch {
    /// Copies the arguments, as a launch does.
    ///
    /// # Safety
    ///
    /// `parameters` points to as many pointers as the kernel has arguments, each to a value of the
    /// argument's size.
    pub(super) unsafe fn new(twin: &'static Twin, parameters: *mut *mut c_void, threads: u64) -> Launch {
        let arguments = twin.argument_sizes_bytes.iter().enumerate().map(|(index, size_bytes)| {
            let mut bytes = [0; 8];
            // SAFETY: there is a pointer for each argument.
            let slot = unsafe { parameters.add(index) };
            // SAFETY: as above.
            let argument = unsafe { slot.read() };
            // SAFETY: it points to a value of the argument's size, which is at most eight bytes.
            unsafe { std::ptr::copy_nonoverlapping(argument.cast::<u8>(), bytes.as_mut_ptr(), *size_bytes) };
            u64::from_le_bytes(bytes)
        });
        Launch {
            twin,
            arguments: arguments.collect(),
            threads,
        }
    }

    pub(super) fn run(&self, memory: &Memory) -> Result<(), Code> {
        (self.twin.run)(memory, &self.arguments, self.threads)
    }
}

/// How many elements `threads` threads cover: four each, then one each for what is left over.
fn covered(length: u64, threads: u64) -> u64 {
    let groups = length / 4;
    if threads <= groups {
        threads * 4
    } else {
        groups * 4 + (threads - groups).min(length % 4)
    }
}

fn elements_span(memory: &Memory, address: u64, length: u64) -> Result<Span<'_>, Code> {
    let size_bytes = length.checked_mul(4);
    if !address.is_multiple_of(16) {
        return Err(Code::MISALIGNED_ADDRESS);
    }
    memory.span(address, size_bytes.ok_or(Code::ILLEGAL_ADDRESS)?)
}

fn fill(memory: &Memory, arguments: &[u64], threads: u64) -> Result<(), Code> {
    let length = covered(arguments[2], threads);
    let scratch = elements_span(memory, arguments[0], length)?;
    let input = elements_span(memory, arguments[1], length)?;
    #[allow(clippy::cast_possible_truncation, reason = "the argument has four bytes")]
    let scale = f32::from_bits(arguments[3] as u32);
    let (scratch, input) = (scratch.elements::<f32>(), input.elements::<f32>());
    for index in 0..scratch.length {
        scratch.set(index, scale * input.get(index));
    }
    Ok(())
}

fn accumulate(memory: &Memory, arguments: &[u64], threads: u64) -> Result<(), Code> {
    let length = covered(arguments[2], threads);
    let output = elements_span(memory, arguments[0], length)?;
    let scratch = elements_span(memory, arguments[1], length)?;
    let (output, scratch) = (output.elements::<f32>(), scratch.elements::<f32>());
    for index in 0..output.length {
        output.set(index, output.get(index) + scratch.get(index));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_threads_leave_elements_out() {
        // Ten elements: two groups of four, two left over, so four threads do it.
        assert_eq!(covered(10, 4), 10);
        assert_eq!(covered(10, 256), 10);
        assert_eq!(covered(10, 3), 9);
        assert_eq!(covered(10, 2), 8);
        assert_eq!(covered(10, 1), 4);
        assert_eq!(covered(0, 256), 0);
    }

    #[test]
    fn ptx_is_checked_as_a_driver_does() {
        assert_eq!(check_ptx("no PTX"), Err(Code::INVALID_IMAGE));
        assert_eq!(check_ptx(".version x"), Err(Code::INVALID_PTX));
        assert_eq!(check_ptx(".version 99.1\n"), Err(Code::UNSUPPORTED_PTX_VERSION));
        assert_eq!(check_ptx("// made\n.version 6.3\n.target sm_75\n"), Ok(()));
        assert_eq!(check_ptx(".version 9.0\n.target sm_90a\n.func f() { }\n"), Ok(()));
        for (version, target, rest) in [
            ("1.0", "sm_75", ""),
            ("6.3", "sm_10", ""),
            ("6.3", "sm_120", ""),
            ("6.3", "sm_75", ".func f() {"),
        ] {
            let ptx = format!(".version {version}\n.target {target}\n{rest}\n");
            assert_eq!(check_ptx(&ptx), Err(Code::INVALID_PTX), "{ptx}");
        }
        assert_eq!(
            check_ptx(".version 9.1\n.target sm_75\n"),
            Err(Code::UNSUPPORTED_PTX_VERSION)
        );
        let ptx = ".visible .entry fill(\n.param .u64 fill_param_0";
        assert!(twin(ptx, "fill").is_ok());
        assert_eq!(
            twin(ptx, "accumulate").err(),
            Some(Code::NOT_FOUND),
            "a twin without a declaration"
        );
        assert_eq!(twin(ptx, "fil").err(), Some(Code::NOT_FOUND));
    }
}
