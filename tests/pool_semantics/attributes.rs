//! Attributes: what a fresh pool has, what reads back, what is refused.

use crate::subject::{Observed, Probe, Subject, documented, observed};
use poolbench::cuda::{MemoryPool, ReusePolicy, Stream};

pub const SUBJECTS: &[Subject] = &[
    documented(
        "attributes/defaults",
        "A fresh pool has every reuse policy on, threshold 0, and nothing used or reserved.",
        defaults,
    ),
    documented(
        "attributes/read_back",
        "Any threshold and either state of a policy reads back as it was set.",
        read_back,
    ),
    documented(
        "attributes/high_marks_take_only_zero",
        "High watermarks can be set to 0 and to nothing else.",
        high_marks_take_only_zero,
    ),
    documented(
        "attributes/pools_are_apart",
        "What happens in a pool of one's own leaves the default pool's counts alone.",
        pools_are_apart,
    ),
    observed(
        "attributes/current_counts_refuse",
        "What is reserved and used now cannot be set, to 0 neither.",
        current_counts_refuse,
    ),
    observed(
        "attributes/policies_are_flags",
        "A policy that is set to any number but 0 reads back as 1.",
        policies_are_flags,
    ),
    observed(
        "attributes/unknown_numbers",
        "Numbers that are no attribute are refused with code 1, for reading and setting.",
        unknown_numbers,
    ),
];

/// `CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT` and so on.
const RESERVED: u32 = 5;
const RESERVED_HIGH: u32 = 6;
const USED: u32 = 7;
const USED_HIGH: u32 = 8;

fn defaults(probe: &mut Probe<'_>) -> Observed {
    let pool = probe.pool()?;
    for policy in ReusePolicy::ALL {
        probe.expect(
            format_args!("{policy:?} of a fresh pool"),
            true,
            pool.reuse_policy(policy)?,
        );
    }
    probe.expect("release threshold of a fresh pool", 0, pool.release_threshold_bytes()?);
    for number in RESERVED..=USED_HIGH {
        probe.expect(
            format_args!("attribute {number} of a fresh pool"),
            0,
            pool.attribute(number)?,
        );
    }
    Ok(())
}

fn read_back(probe: &mut Probe<'_>) -> Observed {
    let pool = probe.pool()?;
    for bytes in [0, 1, 12345, 1 << 20, (1 << 32) + 1, 1 << 63, u64::MAX] {
        pool.set_attribute(4, bytes)?;
        probe.expect("release threshold", bytes, pool.release_threshold_bytes()?);
    }
    for number in 1..=3 {
        for on in [0, 1] {
            pool.set_attribute(number, on)?;
            probe.expect(format_args!("policy {number} set to {on}"), on, pool.attribute(number)?);
        }
    }
    Ok(())
}

fn high_marks_take_only_zero(probe: &mut Probe<'_>) -> Observed {
    let pool = probe.pool()?;
    for number in [RESERVED_HIGH, USED_HIGH] {
        probe.expect_code(
            format_args!("attribute {number} set to 0"),
            0,
            &pool.set_attribute(number, 0),
        );
        for value in [1, u64::MAX] {
            let what = format!("attribute {number} set to {value}");
            probe.expect_code(what, 1, &pool.set_attribute(number, value));
        }
    }
    Ok(())
}

fn pools_are_apart(probe: &mut Probe<'_>) -> Observed {
    let (pool, stream, default) = (probe.pool()?, Stream::new()?, MemoryPool::default_of(probe.device)?);
    let before = [default.used_bytes_current()?, default.reserved_bytes_current()?];
    pool.alloc(&stream, 40)?;
    let after = [default.used_bytes_current()?, default.reserved_bytes_current()?];
    probe.expect("used and reserved bytes of the default pool", before, after);
    probe.expect("used MiB of the own pool", 40, pool.used_mib()?);
    Ok(())
}

fn current_counts_refuse(probe: &mut Probe<'_>) -> Observed {
    let pool = probe.pool()?;
    for number in [RESERVED, USED] {
        for value in [0, 1] {
            let what = format!("attribute {number} set to {value}");
            probe.expect_code(what, 1, &pool.set_attribute(number, value));
        }
    }
    Ok(())
}

fn policies_are_flags(probe: &mut Probe<'_>) -> Observed {
    let pool = probe.pool()?;
    for number in 1..=3 {
        for value in [2, 7, 0x8000_0000] {
            pool.set_attribute(number, value)?;
            probe.expect(
                format_args!("policy {number} set to {value}"),
                1,
                pool.attribute(number)?,
            );
        }
    }
    Ok(())
}

fn unknown_numbers(probe: &mut Probe<'_>) -> Observed {
    let pool = probe.pool()?;
    for number in (9..=20).chain([0, 99, 0x7fff_ffff]) {
        probe.expect_code(format_args!("reading attribute {number}"), 1, &pool.attribute(number));
        probe.expect_code(
            format_args!("setting attribute {number}"),
            1,
            &pool.set_attribute(number, 0),
        );
    }
    Ok(())
}
