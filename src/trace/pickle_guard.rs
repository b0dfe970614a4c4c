//! Looks through a pickle before it is decoded.
//!
//! `serde-pickle` executes nothing, but decodes recursively, clones what is duplicated, and sets memory aside for
//! every mark. This pass follows the opcodes without building values, and refuses what no memory snapshot
//! contains: calls and classes, deep nesting, containers changed after they were placed in another (whose depth
//! could not be known), references that stand for far more than the file holds, oversized numbers, and anything
//! behind the end. The damage of a cut file gets its byte.

use std::collections::HashMap;

use super::error::{Fault, Place, Problem};
use crate::counted::{agreeing, counted};

/// Longest number in text, and longest binary number, in bytes.
const NUMBER_BYTES_MAX: usize = 1024;

/// `serde-pickle` keeps 128 slots for every list, dict or tuple that is built from a mark, about 5 kB.
const BUILT_FROM_MARK_MAX: u64 = 200_000;

/// A part of a container is cloned as fast as so many bytes of a text.
const TEXT_BYTES_PER_PART: u64 = 16;

/// What all references together may stand for, in parts: these, and so many per byte of the file. `serde-pickle`
/// clones it. An entry of 60 bytes or more refers to a stack of some hundred frames: a snapshot comes to 10 a byte.
const REFERENCED_ALWAYS_ALLOWED: u64 = 1 << 20;
const REFERENCED_PER_BYTE: u64 = 256;

/// Checks a whole pickle.
pub(crate) fn check(bytes: &[u8], nesting: u32) -> Result<(), Fault> {
    let mut guard = Guard {
        bytes,
        at: 0,
        opcode_at: 0,
        nesting,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        containers: vec![Container::default()],
        built_from_mark: 0,
        referenced_left: REFERENCED_ALWAYS_ALLOWED
            .saturating_add(REFERENCED_PER_BYTE.saturating_mul(bytes.len() as u64)),
    };
    guard
        .run()
        .map_err(|problem| Fault::at(Place::Byte(guard.opcode_at as u64), problem))
}

/// A list, dict, set or tuple: how deep it nests, whether it stands inside another, and of how many parts it is, a
/// reference counted as one.
#[derive(Clone, Copy, Debug, Default)]
struct Container {
    depth: u32,
    placed: bool,
    parts: u64,
}

/// The entry of `containers` that stands for everything that contains nothing.
const ATOM: u32 = 0;

/// What stands on the stack or in the memo.
#[derive(Clone, Copy, Debug)]
struct Item {
    /// Index into `containers`.
    container: u32,
    /// Of an atom.
    parts: u64,
    /// Whether it is only a reference to the memo, as `serde-pickle` leaves one when it stores an item.
    is_reference: bool,
}

struct Guard<'a> {
    bytes: &'a [u8],
    at: usize,
    opcode_at: usize,
    nesting: u32,
    stack: Vec<Item>,
    /// Heights of `stack` at which marks stand.
    marks: Vec<usize>,
    memo: HashMap<u32, Item>,
    containers: Vec<Container>,
    built_from_mark: u64,
    referenced_left: u64,
}

fn malformed(what: &str) -> Problem {
    Problem::Malformed(what.to_owned())
}

impl Guard<'_> {
    fn run(&mut self) -> Result<(), Problem> {
        loop {
            self.opcode_at = self.at;
            let [opcode] = self.take()?;
            match opcode {
                b'.' => return self.end(),
                // PROTO and FRAME.
                0x80 => match self.take()? {
                    [0..=5] => {}
                    [_] => return Err(malformed("a pickle protocol later than 5")),
                },
                0x95 => self.skip(8)?,
                b'(' => self.mark()?,
                b'0' | b'1' => self.pop_opcode(opcode)?,
                b'p' | b'q' | b'r' | 0x94 | b'g' | b'h' | b'j' => self.memo_opcode(opcode)?,
                b')' | b']' | b'}' | 0x8f => self.push_container(&[])?,
                0x85..=0x87 => {
                    let n = usize::from(opcode - 0x84);
                    let items = self.pop_n(n)?;
                    self.push_container(&items)?;
                }
                b't' | b'l' | b'd' | 0x91 => self.build_from_mark()?,
                b'a' => self.append_n(1)?,
                b's' => self.append_n(2)?,
                b'e' | b'u' | 0x90 => {
                    let items = self.pop_to_mark()?;
                    self.append(&items)?;
                }
                _ => self.atom(opcode)?,
            }
        }
    }

    /// Opcodes that push something without parts.
    fn atom(&mut self, opcode: u8) -> Result<(), Problem> {
        match opcode {
            b'N' | 0x88 | 0x89 => {}
            b'K' => self.skip(1)?,
            b'M' => self.skip(2)?,
            b'J' => self.skip(4)?,
            b'G' => self.skip(8)?,
            b'I' | b'L' | b'F' => {
                if self.line()? > NUMBER_BYTES_MAX {
                    return Err(malformed("a number of more than 1024 digits"));
                }
            }
            b'S' | b'V' => {
                self.line()?;
            }
            0x8a | b'U' | 0x8c | b'C' => {
                let [length] = self.take()?;
                self.skip(u64::from(length))?;
            }
            0x8b | b'T' => {
                let length = i32::from_le_bytes(self.take()?);
                let length = u64::try_from(length).map_err(|_| malformed("a negative length"))?;
                if opcode == 0x8b && length > NUMBER_BYTES_MAX as u64 {
                    return Err(malformed("a number of more than 1024 bytes"));
                }
                self.skip(length)?;
            }
            b'X' | b'B' => {
                let length = u32::from_le_bytes(self.take()?);
                self.skip(u64::from(length))?;
            }
            0x8d | 0x8e | 0x96 => {
                let length = u64::from_le_bytes(self.take()?);
                self.skip(length)?;
            }
            _ => return Err(refused(opcode)),
        }
        self.stack.push(Item {
            container: ATOM,
            parts: 1 + (self.at - self.opcode_at) as u64 / TEXT_BYTES_PER_PART,
            is_reference: false,
        });
        Ok(())
    }

    fn end(&self) -> Result<(), Problem> {
        if self.stack.len() != 1 || !self.marks.is_empty() {
            return Err(malformed("the pickle ends with parts left over"));
        }
        match self.bytes.len() - self.at {
            0 => Ok(()),
            n => Err(malformed(&format!(
                "{} {} the end of the pickle",
                counted(n, "byte"),
                agreeing(n, "follows", "follow")
            ))),
        }
    }

    fn mark(&mut self) -> Result<(), Problem> {
        if self.marks.len() >= self.nesting as usize {
            return Err(Problem::TooDeep { limit: self.nesting });
        }
        self.marks.push(self.stack.len());
        Ok(())
    }

    fn pop_opcode(&mut self, opcode: u8) -> Result<(), Problem> {
        // POP takes an item, or a mark with nothing on it; POP_MARK takes all down to the mark.
        let on_mark = self.marks.last() == Some(&self.stack.len());
        if opcode == b'1' || on_mark {
            self.pop_to_mark()?;
        } else {
            self.pop_n(1)?;
        }
        Ok(())
    }

    fn memo_opcode(&mut self, opcode: u8) -> Result<(), Problem> {
        let id = match opcode {
            b'q' | b'h' => u32::from(self.take::<1>()?[0]),
            b'r' | b'j' => u32::from_le_bytes(self.take()?),
            b'p' | b'g' => {
                let start = self.at;
                let length = self.line()?;
                let text = self.bytes.get(start..start + length).unwrap_or_default();
                std::str::from_utf8(text)
                    .ok()
                    .and_then(|text| text.trim_end_matches('\r').parse().ok())
                    .ok_or_else(|| malformed("a memo index that is no number"))?
            }
            _ => self.memo.len() as u32,
        };
        if matches!(opcode, b'g' | b'h' | b'j') {
            let item = *self.memo.get(&id).ok_or_else(|| malformed("a reference to nothing"))?;
            self.stack.push(Item {
                is_reference: true,
                ..item
            });
        } else {
            let top = self.top()?;
            let item = *top;
            top.is_reference = true;
            // Each of either would be a clone, or would change what an earlier reference means.
            if item.is_reference || self.memo.insert(id, item).is_some() {
                return Err(malformed("an item or an index is put into the memo twice"));
            }
        }
        Ok(())
    }

    fn build_from_mark(&mut self) -> Result<(), Problem> {
        self.built_from_mark += 1;
        if self.built_from_mark > BUILT_FROM_MARK_MAX {
            return Err(malformed(
                "too many marked containers; save it with pickle protocol 2 or later",
            ));
        }
        let items = self.pop_to_mark()?;
        self.push_container(&items)
    }

    fn push_container(&mut self, items: &[Item]) -> Result<(), Problem> {
        let index = u32::try_from(self.containers.len()).map_err(|_| malformed("more than 2^32 containers"))?;
        self.containers.push(Container {
            depth: 1,
            placed: false,
            parts: 1,
        });
        self.stack.push(Item {
            container: index,
            parts: 0,
            is_reference: false,
        });
        self.append(items)
    }

    fn append_n(&mut self, n: usize) -> Result<(), Problem> {
        let items = self.pop_n(n)?;
        self.append(&items)
    }

    /// Places items in the container on top of the stack.
    fn append(&mut self, items: &[Item]) -> Result<(), Problem> {
        let target = self.top()?.container as usize;
        let (mut depth, mut parts) = (0, 0);
        for item in items {
            let mut item_parts = item.parts;
            if item.container != ATOM {
                let container = &mut self.containers[item.container as usize];
                container.placed = true;
                depth = depth.max(container.depth);
                item_parts = container.parts;
            }
            if item.is_reference {
                self.referenced_left = self
                    .referenced_left
                    .checked_sub(item_parts)
                    .ok_or_else(|| malformed("its references stand for more than any snapshot holds"))?;
                item_parts = 1;
            }
            parts += item_parts;
        }
        let nesting = self.nesting;
        let target = &mut self.containers[target];
        if target.depth == 0 {
            return Err(malformed("an item is added to something that holds none"));
        }
        if target.placed {
            return Err(malformed("a container is changed after it was placed in another"));
        }
        target.depth = target.depth.max(depth + 1);
        target.parts += parts;
        if target.depth > nesting {
            return Err(Problem::TooDeep { limit: nesting });
        }
        Ok(())
    }

    fn top(&mut self) -> Result<&mut Item, Problem> {
        let floor = self.marks.last().copied().unwrap_or(0);
        self.stack
            .get_mut(floor..)
            .and_then(<[Item]>::last_mut)
            .ok_or_else(|| malformed("the pickle takes an item where there is none"))
    }

    fn pop_n(&mut self, n: usize) -> Result<Vec<Item>, Problem> {
        let floor = self.marks.last().copied().unwrap_or(0);
        match self.stack.len().checked_sub(n) {
            Some(height) if height >= floor => Ok(self.stack.split_off(height)),
            _ => Err(malformed("the pickle takes an item where there is none")),
        }
    }

    fn pop_to_mark(&mut self) -> Result<Vec<Item>, Problem> {
        match self.marks.pop() {
            Some(height) => Ok(self.stack.split_off(height)),
            None => Err(malformed("the pickle goes back to a mark that is not there")),
        }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let taken = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk);
        self.at += N;
        taken.copied().ok_or(Problem::Cut)
    }

    fn skip(&mut self, n: u64) -> Result<(), Problem> {
        let left = self.bytes.len().saturating_sub(self.at);
        match usize::try_from(n) {
            Ok(n) if n <= left => {
                self.at += n;
                Ok(())
            }
            _ => Err(Problem::Cut),
        }
    }

    /// Passes a line and gives its length without the line feed.
    fn line(&mut self) -> Result<usize, Problem> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let length = rest.iter().position(|&byte| byte == b'\n').ok_or(Problem::Cut)?;
        self.at += length + 1;
        Ok(length)
    }
}

/// Opcodes that no snapshot needs, by name.
fn refused(opcode: u8) -> Problem {
    let name = match opcode {
        b'c' => "GLOBAL",
        0x93 => "STACK_GLOBAL",
        b'R' => "REDUCE",
        b'i' => "INST",
        b'o' => "OBJ",
        b'b' => "BUILD",
        0x81 => "NEWOBJ",
        0x92 => "NEWOBJ_EX",
        b'P' => "PERSID",
        b'Q' => "BINPERSID",
        0x82..=0x84 => "EXT",
        // serde-pickle clones what DUP duplicates, so a few of them could fill any memory.
        b'2' => return malformed("opcode DUP, which no pickler writes"),
        _ => return malformed(&format!("unknown opcode {opcode:#04x}")),
    };
    Problem::Call { opcode: name }
}

#[cfg(test)]
#[path = "pickle_guard_tests.rs"]
mod tests;
