//! A child process that is waited for, heard whole, and killed when the user wants to stop or when it has
//! been silent for too long.

use super::error::RecordingError;
use super::interrupt::{Event, Interrupt};
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// SIGINT: the terminal sends it to the child as well as to us.
const SIGNAL_INTERRUPT: i32 = 2;
/// How long a process that was killed may take to end: one that hangs inside a driver may never do.
const KILLED_WAIT_MAX: Duration = Duration::from_secs(10);
/// How often a process is looked at that only has to end.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
/// How long is waited at a time where somebody has to notice that the program was stopped.
const SLICE: Duration = Duration::from_secs(1);
/// What Criterion prints when it turns to a benchmark, and at each step of it.
const BENCHMARKING: &str = "Benchmarking ";
/// What Criterion says that it does once the samples are there.
const ANALYZING: &str = "Analyzing";

/// How a child process ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
    /// How long it had been silent when it was killed for that.
    pub(super) hung: Option<Duration>,
}

impl Ended {
    /// Where a bench executable was, as far as Criterion's lines tell.
    pub(super) fn place(&self) -> String {
        let last = self
            .stderr
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix(BENCHMARKING));
        match last.map(|line| line.split_once(": ").unwrap_or((line, ""))) {
            None => String::from("before its first case"),
            Some((id, step)) if step.starts_with(ANALYZING) => format!("after {id}"),
            Some((id, _)) => format!("in {id}"),
        }
    }

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

/// Runs a command to its end, and returns what it printed. A command that prints nothing for longer than
/// `silence_max` is killed. Nothing is polled while it may measure, so that waiting costs no wake-ups.
pub(super) fn run(
    command: &mut Command,
    interrupt: &Interrupt,
    silence_max: Option<Duration>,
) -> Result<Ended, RecordingError> {
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
    let heard = Arc::new(Mutex::new(Heard::new()));
    let open = read_outputs(&mut child, &heard, &sender).map_err(|error| {
        // Nobody would hear it.
        let _ = killed(&mut child);
        failed(error)
    })?;
    drop(sender);
    let waited = match wait(&events, open, &heard, silence_max) {
        Ok(()) => wait_for_end(&mut child, &events, silence_max).map_err(failed)?,
        Err(stopped) => Err(stopped),
    };
    let (status, hung) = match waited {
        Ok(status) => (Some(status), None),
        Err(Stopped::Interrupted) => {
            let _ = killed(&mut child);
            return Err(RecordingError::Interrupted);
        }
        // What it started may hold its outputs open after its end.
        Err(Stopped::Hung(silence)) => (child.try_wait().map_err(failed)?, Some(silence)),
    };
    let hung = hung.filter(|_| status.is_none());
    let status = match status {
        Some(status) => status,
        None => killed(&mut child)
            .map_err(failed)?
            .ok_or_else(|| RecordingError::Unkillable {
                program: name.clone().into(),
                process: child.id(),
            })?,
    };
    if interrupt.is_raised() || status.signal() == Some(SIGNAL_INTERRUPT) {
        return Err(RecordingError::Interrupted);
    }
    let heard = lock(&heard);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Ended {
        status,
        stdout: text(&heard.stdout),
        stderr: text(&heard.stderr),
        hung,
    })
}

/// Why a child is waited for no longer.
enum Stopped {
    Interrupted,
    Hung(Duration),
}

/// Waits until all of a child's outputs are closed.
fn wait(
    events: &Receiver<Event>,
    mut open: usize,
    heard: &Mutex<Heard>,
    silence_max: Option<Duration>,
) -> Result<(), Stopped> {
    while open > 0 {
        let event = match silence_max {
            None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(max) => {
                let silence = lock(heard).last.elapsed();
                if silence >= max {
                    return Err(Stopped::Hung(silence));
                }
                wait_awake(events, (max - silence).min(SLICE), heard)
            }
        };
        match event {
            Ok(Event::Closed) => open -= 1,
            Ok(Event::Interrupted) | Err(RecvTimeoutError::Disconnected) => return Err(Stopped::Interrupted),
            // It may have printed something meanwhile.
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    Ok(())
}

/// Waits for an event. A program that was stopped meanwhile, as by Ctrl-Z, heard nothing for no fault of the
/// child's, which was most likely stopped with it.
fn wait_awake(events: &Receiver<Event>, slice: Duration, heard: &Mutex<Heard>) -> Result<Event, RecvTimeoutError> {
    let began = Instant::now();
    let event = events.recv_timeout(slice);
    let asleep = began.elapsed().saturating_sub(slice);
    if asleep > SLICE {
        lock(heard).last += asleep;
    }
    event
}

/// Waits for the end of a child whose outputs are closed: it has nothing left to do, but a driver may still keep
/// it.
fn wait_for_end(
    child: &mut Child,
    events: &Receiver<Event>,
    max: Option<Duration>,
) -> io::Result<Result<ExitStatus, Stopped>> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Ok(status));
        }
        if let Some(max) = max.filter(|max| began.elapsed() > *max) {
            return Ok(Err(Stopped::Hung(max)));
        }
        match events.recv_timeout(LOOK_INTERVAL) {
            Ok(Event::Interrupted) | Err(RecvTimeoutError::Disconnected) => return Ok(Err(Stopped::Interrupted)),
            Ok(Event::Closed) | Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Kills a child and waits a moment for its end; `None` where that does not come.
fn killed(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    child.kill()?;
    status_within(child, KILLED_WAIT_MAX)
}

/// Waits for the end of a child that was killed; `None` where that does not come in time.
fn status_within(child: &mut Child, max: Duration) -> io::Result<Option<ExitStatus>> {
    let began = Instant::now();
    loop {
        let status = child.try_wait()?;
        if status.is_some() || began.elapsed() > max {
            return Ok(status);
        }
        thread::sleep(LOOK_INTERVAL);
    }
}

/// What a child has printed so far, and when it last did.
struct Heard {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    last: Instant,
}

impl Heard {
    fn new() -> Heard {
        Heard {
            stdout: Vec::new(),
            stderr: Vec::new(),
            last: Instant::now(),
        }
    }
}

fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a reader for each output that is a pipe, and returns how many there are.
fn read_outputs(child: &mut Child, heard: &Arc<Mutex<Heard>>, sender: &Sender<Event>) -> io::Result<usize> {
    type Kept = fn(&mut Heard) -> &mut Vec<u8>;
    let stdout = child.stdout.take().map(|pipe| Box::new(pipe) as Pipe);
    let stderr = child.stderr.take().map(|pipe| Box::new(pipe) as Pipe);
    let outputs: [(Option<Pipe>, Kept); 2] = [(stdout, |heard| &mut heard.stdout), (stderr, |heard| &mut heard.stderr)];
    let mut open = 0;
    for (pipe, kept) in outputs {
        let Some(mut pipe) = pipe else { continue };
        let (heard, sender) = (heard.clone(), sender.clone());
        open += 1;
        thread::Builder::new().spawn(move || {
            let mut buffer = [0; 4096];
            // What was read before a failure is still worth showing.
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                let mut heard = lock(&heard);
                kept(&mut heard).extend_from_slice(&buffer[..count]);
                heard.last = Instant::now();
            }
            let _ = sender.send(Event::Closed);
        })?;
    }
    Ok(open)
}

type Pipe = Box<dyn Read + Send>;

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stderr(Stdio::piped());
        command
    }

    #[test]
    fn what_a_child_prints_and_how_it_ends_is_kept() {
        let script = "echo out; echo 'poolbench: first' >&2; echo 'poolbench: why' >&2; echo more >&2; exit 3";
        let ended = run(&mut shell(script), &Interrupt::default(), None).expect("a shell");
        assert_eq!((ended.stdout.as_str(), ended.own_line()), ("out\n", Some("why")));
        assert_eq!(ended.how(), "ended with exit code 3");
        let ended = run(&mut shell("kill -SEGV $$"), &Interrupt::default(), None).expect("a shell");
        assert_eq!(
            (ended.how().as_str(), ended.own_line()),
            ("was ended by signal 11", None)
        );
    }

    /// Also one that has closed its outputs, as a process has that a driver keeps from ending.
    #[test]
    fn an_interrupt_kills_what_runs_and_keeps_the_next_from_starting() {
        for script in ["exec sleep 600", "exec sleep 600 >&- 2>&-"] {
            for silence_max in [None, Some(Duration::from_secs(600))] {
                let interrupt = Interrupt::default();
                let raised = interrupt.clone();
                let raiser = thread::spawn(move || {
                    thread::sleep(Duration::from_millis(100));
                    raised.raise();
                });
                let began = Instant::now();
                let stopped = run(&mut shell(script), &interrupt, silence_max);
                assert!(matches!(stopped, Err(RecordingError::Interrupted)), "{stopped:?}");
                assert!(
                    began.elapsed() < Duration::from_secs(300),
                    "it was killed, not waited for: {script}"
                );
                raiser.join().expect("it ends");
                let next = run(&mut shell("touch /nonexistent/x"), &interrupt, None);
                assert!(matches!(next, Err(RecordingError::Interrupted)), "{next:?}");
            }
        }
    }

    /// The terminal sends Ctrl-C to the child first, as it were.
    #[test]
    fn a_child_that_ctrl_c_ended_is_an_interrupt_and_no_failure() {
        // In the background a shell ignores the signal, and may not heed it again.
        let mut heeds = Command::new("env");
        heeds.args(["--default-signal=INT", "sh", "-c", "kill -INT $$"]);
        let stopped = run(&mut heeds, &Interrupt::default(), None);
        assert!(matches!(stopped, Err(RecordingError::Interrupted)), "{stopped:?}");
    }

    #[test]
    fn what_has_ended_did_not_hang_though_another_holds_its_outputs() {
        let script = "echo out; sleep 600 & echo $!";
        let ended = run(&mut shell(script), &Interrupt::default(), Some(Duration::from_secs(1))).expect("a shell");
        assert!(ended.status.success() && ended.hung.is_none(), "{ended:?}");
        let sleeper = ended.stdout.lines().last().expect("a process id").to_owned();
        assert!(Command::new("kill").arg(sleeper).status().expect("kill").success());
    }

    #[test]
    fn silence_is_ended_and_what_was_said_before_is_kept() {
        let script = "echo out; echo 'Benchmarking g/f/v: Collecting 10 samples' >&2; exec sleep 600";
        let ended = run(&mut shell(script), &Interrupt::default(), Some(Duration::from_secs(1))).expect("a shell");
        assert!(
            ended.hung.is_some_and(|silence| silence >= Duration::from_secs(1)),
            "{ended:?}"
        );
        assert_eq!((ended.stdout.as_str(), ended.place().as_str()), ("out\n", "in g/f/v"));
    }

    /// A child that goes on printing may take as long as it likes: here at least 4 s, 0.2 s apart.
    #[test]
    fn who_prints_does_not_hang() {
        let script = "for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do echo $n; sleep 0.2; done";
        let ended = run(&mut shell(script), &Interrupt::default(), Some(Duration::from_secs(3))).expect("a shell");
        assert!(ended.hung.is_none() && ended.status.success(), "{ended:?}");
        assert_eq!(ended.stdout.lines().count(), 20);
    }

    #[test]
    fn the_place_is_that_of_the_last_line() {
        let at = |stderr: &str| {
            let ended = Ended {
                status: ExitStatus::from_raw(9),
                stdout: String::new(),
                stderr: stderr.to_owned(),
                hung: Some(Duration::ZERO),
            };
            ended.place()
        };
        assert_eq!(at("poolbench: a GPU\n"), "before its first case");
        assert_eq!(
            at("Benchmarking a/b/c\nBenchmarking a/b/c: Warming up for 1 ms\n"),
            "in a/b/c"
        );
        assert_eq!(at("Benchmarking a/b/c\nBenchmarking a/b/c: Analyzing\n"), "after a/b/c");
    }
}
