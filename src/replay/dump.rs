//! A program as a file, for programs in other languages that issue the same calls.

use super::program::Program;
use std::io::{self, Write};

/// The first bytes of a dump.
const MAGIC: &[u8; 8] = b"PBREPLAY";
/// The format's version.
const VERSION: u32 = 1;

impl Program {
    /// Writes the program: `PBREPLAY`, then as little-endian integers the version (32 bits), the numbers of
    /// streams and slots (32 bits each) and padding (32 bits), those of events, operations and leaked blocks
    /// (64 bits each), and 16 bytes for each operation, then for each leaked block's free: size (64 bits), slot
    /// (32 bits), stream, home, kind (8 bits each) and padding (8 bits).
    ///
    /// # Errors
    ///
    /// The writer's.
    pub fn dump(&self, mut to: impl Write) -> io::Result<()> {
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        to.write_all(MAGIC)?;
        for number in [VERSION, narrow(self.n_streams()), narrow(self.n_slots()), 0] {
            to.write_all(&number.to_le_bytes())?;
        }
        let lengths = [self.operations().len() as u64, self.leaked().len() as u64];
        for number in [self.counts().events].into_iter().chain(lengths) {
            to.write_all(&number.to_le_bytes())?;
        }
        for operation in self.operations().iter().chain(self.leaked()) {
            to.write_all(&operation.to_bytes())?;
        }
        to.flush()
    }
}
