//! Numbers for things, by first use.

use std::collections::HashMap;
use std::hash::Hash;

/// How many values are compared one by one before the map is asked: most traces have fewer threads and streams.
const SCANNED: usize = 8;

/// Gives each distinct value the next index.
#[derive(Debug)]
pub(crate) struct Interner<T> {
    values: Vec<T>,
    indices: HashMap<T, u32>,
}

impl<T: Copy + Eq + Hash> Interner<T> {
    pub fn new() -> Interner<T> {
        Interner {
            values: Vec::new(),
            indices: HashMap::new(),
        }
    }

    /// The value's index.
    pub fn index(&mut self, value: T) -> u32 {
        let mut first = self.values.iter().take(SCANNED);
        if let Some(index) = first.position(|&known| known == value) {
            return index as u32;
        }
        // There is at most one new value an event, and the builder limits the events below `u32::MAX`.
        let next = self.values.len() as u32;
        *self.indices.entry(value).or_insert_with(|| {
            self.values.push(value);
            next
        })
    }

    /// The values, by index.
    pub fn into_values(self) -> Vec<T> {
        self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_kept_beyond_the_scanned_values() {
        let mut interner = Interner::new();
        for round in 0..2 {
            for value in 0..20u64 {
                assert_eq!(interner.index(value * 7), value as u32, "round {round}");
            }
        }
        assert_eq!(interner.into_values().len(), 20);
    }
}
