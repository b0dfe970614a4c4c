//! A child process that is waited for, heard whole, and killed when the user wants to stop.

use super::error::RecordingError;
use super::interrupt::{Event, Interrupt, Output};
use std::io::Read;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Sender};
use std::thread;

/// SIGINT: the terminal sends it to the child as well as to us.
const SIGNAL_INTERRUPT: i32 = 2;

/// How a child process ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Ended {
    /// The last line of poolbench's own, which says why a bench executable failed.
    pub(super) fn own_line(&self) -> Option<&str> {
        let own = |line: &&str| !line.is_empty();
        self.stderr
            .lines()
            .rev()
            .filter_map(|line| line.strip_prefix("poolbench: "))
            .find(own)
    }

    /// How it ended, in words.
    pub(super) fn how(&self) -> String {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("ended with exit code {code}"),
            (None, Some(signal)) => format!("was ended by signal {signal}"),
            (None, None) => String::from("was ended"),
        }
    }
}

/// Runs a command to its end, and returns what it printed. Nothing is polled, so that waiting costs the
/// measurement no wake-ups.
pub(super) fn run(command: &mut Command, interrupt: &Interrupt) -> Result<Ended, RecordingError> {
    let name = command.get_program().to_owned();
    let failed = |error| RecordingError::Start {
        program: name.clone().into(),
        error,
    };
    if interrupt.is_raised() {
        return Err(RecordingError::Interrupted);
    }
    command.stdout(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let (sender, events) = mpsc::channel();
    interrupt.listen(sender.clone());
    let mut open = read_outputs(&mut child, &sender);
    drop(sender);
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    while open > 0 {
        match events.recv() {
            Ok(Event::Read(Output::Stdout, bytes)) => stdout = bytes,
            Ok(Event::Read(Output::Stderr, bytes)) => stderr = bytes,
            Ok(Event::Interrupted) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(RecordingError::Interrupted);
            }
        }
        open -= 1;
    }
    let status = child.wait().map_err(failed)?;
    if interrupt.is_raised() || status.signal() == Some(SIGNAL_INTERRUPT) {
        return Err(RecordingError::Interrupted);
    }
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Ended {
        status,
        stdout: text(stdout),
        stderr: text(stderr),
    })
}

/// Starts a reader for each output that is a pipe, and returns how many there are.
fn read_outputs(child: &mut Child, sender: &Sender<Event>) -> usize {
    let stdout = child.stdout.take().map(|pipe| (Output::Stdout, Box::new(pipe) as Pipe));
    let stderr = child.stderr.take().map(|pipe| (Output::Stderr, Box::new(pipe) as Pipe));
    let pipes: Vec<_> = stdout.into_iter().chain(stderr).collect();
    let count = pipes.len();
    for (output, mut pipe) in pipes {
        let sender = sender.clone();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // What was read before a failure is still worth showing.
            let _ = pipe.read_to_end(&mut bytes);
            let _ = sender.send(Event::Read(output, bytes));
        });
    }
    count
}

type Pipe = Box<dyn Read + Send>;
