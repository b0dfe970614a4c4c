//! A reader with what comes next in memory, as much of it as is asked for.

use std::io::{self, Read};

use super::error::Place;

const CHUNK_BYTES: usize = 1 << 16;

/// A reader whose next bytes can be looked at before they are passed.
pub(crate) struct Lookahead<R> {
    inner: R,
    bytes: Vec<u8>,
    /// The first byte in `bytes` that is not passed.
    start: usize,
    position: Position,
}

/// A line and a byte within it, both from 0.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Position {
    line: u32,
    column: u64,
}

impl Position {
    /// The place that a parser which starts here gives as this line and column, both from 1.
    pub fn plus(self, line: usize, column: usize) -> Place {
        let before = if line > 1 { 0 } else { self.column };
        let lines = u32::try_from(line).unwrap_or(u32::MAX);
        Place::Text {
            line: self.line.saturating_add(lines),
            column: before + column as u64,
        }
    }
}

impl<R: Read> Lookahead<R> {
    pub fn new(inner: R) -> Lookahead<R> {
        Lookahead {
            inner,
            bytes: Vec::new(),
            start: 0,
            position: Position::default(),
        }
    }

    /// The next bytes, as many as are in memory.
    pub fn ahead(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Where the next byte stands.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The place of the next byte.
    pub fn place(&self) -> Place {
        self.position.plus(1, 1)
    }

    /// The place of the last byte that is passed, as a parser gives it at the end of a file.
    pub fn place_behind(&self) -> Place {
        self.position.plus(1, 0)
    }

    /// Reads as many bytes as are ahead, so that looking at all of them again costs no more than reading them;
    /// whether there were any.
    pub fn more(&mut self) -> io::Result<bool> {
        let ahead = self.ahead().len();
        self.bytes.drain(..self.start);
        self.start = 0;
        let wanted = ahead.max(CHUNK_BYTES) as u64;
        Ok(self.inner.by_ref().take(wanted).read_to_end(&mut self.bytes)? > 0)
    }

    /// Passes so many bytes.
    pub fn advance(&mut self, n: usize) {
        let end = self.bytes.len().min(self.start.saturating_add(n));
        let gone = &self.bytes[self.start..end];
        match gone.iter().rposition(|&byte| byte == b'\n') {
            Some(last) => {
                let lines = gone.iter().filter(|&&byte| byte == b'\n').count();
                let lines = u32::try_from(lines).unwrap_or(u32::MAX);
                self.position.line = self.position.line.saturating_add(lines);
                self.position.column = (gone.len() - last - 1) as u64;
            }
            None => self.position.column += gone.len() as u64,
        }
        self.start = end;
    }
}

impl<R: Read> Read for Lookahead<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ahead().is_empty() {
            self.more()?;
        }
        let ahead = self.ahead();
        let n = buffer.len().min(ahead.len());
        buffer[..n].copy_from_slice(&ahead[..n]);
        self.advance(n);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_in_the_file() {
        let text = [
            vec![b'x'; CHUNK_BYTES - 5],
            b"\nab\ncd".to_vec(),
            vec![b'y'; CHUNK_BYTES],
        ]
        .concat();
        let mut next = Lookahead::new(&text[..]);
        let mut head = vec![0; CHUNK_BYTES - 3];
        next.read_exact(&mut head).expect("it is there");
        // `b` is the second byte of the second line, `d` of the third.
        assert!(next.ahead().starts_with(b"b\n"));
        assert_eq!(next.place(), Place::Text { line: 2, column: 2 });
        assert_eq!(next.position().plus(1, 2), Place::Text { line: 2, column: 3 });
        assert_eq!(next.position().plus(2, 1), Place::Text { line: 3, column: 1 });
        while next.more().expect("memory can be read") {}
        next.advance(3);
        assert_eq!(next.place(), Place::Text { line: 3, column: 2 });
        assert_eq!(next.place_behind(), Place::Text { line: 3, column: 1 });
        // `dy...`: what is left of the text behind `\nab\nc`.
        assert_eq!((next.ahead().len(), next.ahead()[0]), (CHUNK_BYTES + 1, b'd'));
    }

    #[test]
    fn what_is_passed_is_not_kept() {
        let mut next = Lookahead::new(io::repeat(b'x').take(64 << 20));
        let read = io::copy(&mut next, &mut io::sink()).expect("memory can be read");
        assert_eq!(read, 64 << 20);
        assert!(next.bytes.capacity() < 8 * CHUNK_BYTES);
    }
}
