//! What a replay does: one entry for each driver call, 16 bytes, in the order of the calls.

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum OperationKind {
    /// Allocates a block of `size_bytes` in `stream` and keeps it in `slot`.
    Alloc = 0,
    /// Frees the block of `slot` in `stream`; it was allocated in `home`.
    Free = 1,
    /// Waits on the host for `stream`.
    SynchronizeStream = 2,
    /// Waits on the host for the device.
    SynchronizeDevice = 3,
    /// Makes `stream` wait for all that was submitted to `home`: an event, without the host.
    Order = 4,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Operation {
    /// Size of the block, at least 1; 0 where there is no block.
    pub size_bytes: u64,
    /// Which of the slots holds the block. A slot is used again once its block is freed.
    pub slot: u32,
    /// The stream that is submitted to.
    pub stream: u8,
    /// The stream that the block was allocated in, or that is waited for.
    pub home: u8,
    /// What is done.
    pub kind: OperationKind,
}

impl Operation {
    /// An operation without a block.
    pub(super) fn without_block(kind: OperationKind, stream: u8, home: u8) -> Operation {
        Operation {
            size_bytes: 0,
            slot: 0,
            stream,
            home,
            kind,
        }
    }

    /// The operation as its 16 bytes in a dump, integers little-endian.
    pub(super) fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.size_bytes.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.slot.to_le_bytes());
        bytes[12] = self.stream;
        bytes[13] = self.home;
        bytes[14] = self.kind as u8;
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_16_bytes_in_memory_and_in_a_dump() {
        assert_eq!(size_of::<Operation>(), 16);
        let operation = Operation {
            size_bytes: 0x0102,
            slot: 3,
            stream: 4,
            home: 5,
            kind: OperationKind::Free,
        };
        assert_eq!(operation.to_bytes(), [2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 4, 5, 1, 0]);
    }
}
