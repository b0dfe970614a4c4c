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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stderr(Stdio::piped());
        command
    }

    #[test]
    fn what_a_child_prints_and_how_it_ends_is_kept() {
        let script = "echo out; echo 'poolbench: first' >&2; echo 'poolbench: why' >&2; echo more >&2; exit 3";
        let ended = run(&mut shell(script), &Interrupt::default()).expect("a shell");
        assert_eq!((ended.stdout.as_str(), ended.own_line()), ("out\n", Some("why")));
        assert_eq!(ended.how(), "ended with exit code 3");
        let ended = run(&mut shell("kill -SEGV $$"), &Interrupt::default()).expect("a shell");
        assert_eq!(
            (ended.how().as_str(), ended.own_line()),
            ("was ended by signal 11", None)
        );
    }

    #[test]
    fn an_interrupt_kills_what_runs_and_keeps_the_next_from_starting() {
        let interrupt = Interrupt::default();
        let raised = interrupt.clone();
        let raiser = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            raised.raise();
        });
        let began = Instant::now();
        let stopped = run(&mut shell("exec sleep 600"), &interrupt);
        assert!(matches!(stopped, Err(RecordingError::Interrupted)), "{stopped:?}");
        assert!(
            began.elapsed() < Duration::from_secs(300),
            "it was killed, not waited for"
        );
        raiser.join().expect("it ends");
        let next = run(&mut shell("touch /nonexistent/x"), &interrupt);
        assert!(matches!(next, Err(RecordingError::Interrupted)), "{next:?}");
    }

    /// The terminal sends Ctrl-C to the child first, as it were.
    #[test]
    fn a_child_that_ctrl_c_ended_is_an_interrupt_and_no_failure() {
        let stopped = run(&mut shell("kill -INT $$"), &Interrupt::default());
        assert!(matches!(stopped, Err(RecordingError::Interrupted)), "{stopped:?}");
    }
}
