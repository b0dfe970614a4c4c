//! Readers that bound what a hostile or damaged file can cost.

use std::io::{self, Read};

use super::error::{Problem, brief};

/// A problem on its way through a library that only passes `io::Error`.
#[derive(Debug)]
struct Carried(Problem);

impl std::fmt::Display for Carried {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Carried {}

/// Wraps a problem for the way through.
pub(crate) fn carry(problem: Problem) -> io::Error {
    io::Error::other(Carried(problem))
}

/// The problem in an `io::Error`, whether carried or the error's own.
pub(crate) fn uncarry(error: io::Error) -> Problem {
    match error.downcast::<Carried>() {
        Ok(Carried(problem)) => problem,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Problem::Cut,
        Err(error) => Problem::Io(error),
    }
}

/// Passes bytes on, and stops where a run without `separator` grows longer than `limit_bytes`.
///
/// So a line of 10 GB, or a text of 10 GB in a JSON file, is refused after the first megabyte.
#[derive(Debug)]
pub(crate) struct RunLimit<R> {
    inner: R,
    separator: u8,
    limit_bytes: u64,
    run_bytes: u64,
    last: Option<u8>,
}

impl<R: Read> RunLimit<R> {
    pub fn new(inner: R, separator: u8, limit_bytes: u64) -> RunLimit<R> {
        RunLimit {
            inner,
            separator,
            limit_bytes,
            run_bytes: 0,
            last: None,
        }
    }

    /// The last byte read.
    pub fn last(&self) -> Option<u8> {
        self.last
    }
}

impl<R: Read> Read for RunLimit<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        let read = &buffer[..n];
        let Some(&last) = read.last() else {
            return Ok(n);
        };
        self.last = Some(last);
        // A buffer holds a few kilobytes: a run inside it is short, so only its two ends matter.
        match read.iter().position(|&byte| byte == self.separator) {
            Some(first) if self.run_bytes + first as u64 <= self.limit_bytes => {
                let behind = read.iter().rev().position(|&byte| byte == self.separator).unwrap_or(0);
                self.run_bytes = behind as u64;
            }
            Some(_) => return Err(self.refuse()),
            None => self.run_bytes += n as u64,
        }
        if self.run_bytes > self.limit_bytes {
            return Err(self.refuse());
        }
        Ok(n)
    }
}

impl<R> RunLimit<R> {
    fn refuse(&self) -> io::Error {
        let limit_bytes = self.limit_bytes;
        carry(match self.separator {
            b'\n' => Problem::LineTooLong { limit_bytes },
            _ => Problem::TextTooLong { limit_bytes },
        })
    }
}

/// Leaves a byte out, wherever it stands.
///
/// So a field's quotation marks go; the fields of logs hold nothing that would need them. A parser that knows of
/// quotation would keep the rest of the file in memory behind a stray mark.
#[derive(Debug)]
pub(crate) struct Without<R> {
    inner: R,
    byte: u8,
}

impl<R: Read> Without<R> {
    pub fn new(inner: R, byte: u8) -> Without<R> {
        Without { inner, byte }
    }
}

impl<R: Read> Read for Without<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let n = self.inner.read(buffer)?;
            let mut kept = 0;
            for at in 0..n {
                if buffer[at] != self.byte {
                    buffer[kept] = buffer[at];
                    kept += 1;
                }
            }
            // Nothing kept is not the end.
            if kept > 0 || n == 0 {
                return Ok(kept);
            }
        }
    }
}

/// Counts what is read.
#[derive(Debug)]
struct Counted<R> {
    inner: R,
    bytes: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.bytes += n as u64;
        Ok(n)
    }
}

/// Decompresses gzip, and stops where the output is larger than a trace's can be.
pub(crate) struct Gunzip<R> {
    inner: flate2::read::MultiGzDecoder<Counted<R>>,
    file_bytes: u64,
    ratio: u64,
    out_bytes: u64,
    /// Kept, since the decoder reports an end of file after an error, as if the data were complete.
    failed: Option<Failure>,
}

#[derive(Clone, Debug)]
enum Failure {
    Cut,
    Damaged(String),
    Inflates,
}

impl<R: Read> Gunzip<R> {
    /// `file_bytes` is the file's size, 0 for a pipe, which has none before its end; `ratio` how many times what is
    /// compressed may grow once past 64 MiB.
    pub fn new(inner: R, file_bytes: u64, ratio: u64) -> Gunzip<R> {
        Gunzip {
            inner: flate2::read::MultiGzDecoder::new(Counted { inner, bytes: 0 }),
            file_bytes,
            ratio,
            out_bytes: 0,
            failed: None,
        }
    }

    fn compressed_bytes(&self) -> u64 {
        self.file_bytes.max(self.inner.get_ref().bytes)
    }

    fn limit_bytes(&self) -> u64 {
        const ALWAYS_ALLOWED_BYTES: u64 = 64 << 20;
        let grown_bytes = self.compressed_bytes().saturating_mul(self.ratio);
        grown_bytes.max(ALWAYS_ALLOWED_BYTES)
    }

    fn fail(&mut self, failure: Failure) -> io::Error {
        let error = match &failure {
            Failure::Cut => carry(Problem::Cut),
            Failure::Damaged(message) => carry(Problem::Gzip(message.clone())),
            Failure::Inflates => carry(Problem::Inflates {
                compressed_bytes: self.compressed_bytes(),
                limit_bytes: self.limit_bytes(),
            }),
        };
        self.failed = Some(failure);
        error
    }
}

impl<R: Read> Read for Gunzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(failure) = self.failed.clone() {
            return Err(self.fail(failure));
        }
        let n = match self.inner.read(buffer) {
            Ok(n) => n,
            Err(error) => {
                return Err(match error.kind() {
                    io::ErrorKind::UnexpectedEof => self.fail(Failure::Cut),
                    io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                        self.fail(Failure::Damaged(brief(&error)))
                    }
                    _ => error,
                });
            }
        };
        self.out_bytes += n as u64;
        if self.out_bytes > self.limit_bytes() {
            return Err(self.fail(Failure::Inflates));
        }
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_in_steps(mut reader: impl Read, step: usize) -> io::Result<u64> {
        let mut buffer = vec![0; step];
        let mut total = 0;
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(total),
                n => total += n as u64,
            }
        }
    }

    #[test]
    fn a_run_is_measured_across_reads() {
        let text = b"aaaaaaaa\nbbbbbbbbbb\ncc";
        for step in 1..9 {
            let within = RunLimit::new(&text[..], b'\n', 10);
            assert_eq!(read_in_steps(within, step).ok(), Some(22), "step {step}");
            let over = RunLimit::new(&text[..], b'\n', 9);
            let problem = read_in_steps(over, step).err().map(uncarry);
            assert!(
                matches!(problem, Some(Problem::LineTooLong { limit_bytes: 9 })),
                "step {step}: {problem:?}"
            );
        }
    }

    #[test]
    fn an_endless_line_ends() {
        let endless = RunLimit::new(io::repeat(b'x'), b'\n', 1 << 20);
        let problem = read_in_steps(endless, 8192).err().map(uncarry);
        assert!(matches!(problem, Some(Problem::LineTooLong { .. })));
    }
}
