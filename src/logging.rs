//! The log on standard error: plain lines, or one JSON object a line.

use std::io::{self, IsTerminal, Write};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;
use std::{panic, thread};

use framework_runtime::stderr::{Stderr, write_whole};
use tracing::{Level, enabled, error};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Dependencies whose `info` lines help only their authors.
const QUIET: &str = "kube_client=error,kube_runtime=error,hyper=warn,hyper_util=warn,rustls=warn,tower=warn";
/// How long the last lines may delay the end of the program.
pub const FLUSH: Duration = Duration::from_secs(5);
/// How long the line with the reason of the end may delay it.
pub const LAST_LINE: Duration = Duration::from_secs(1);

/// The running log. Dropping it writes the buffered lines.
#[derive(Debug)]
pub struct Log(Stderr);

/// The format of log lines. Lines of the history keep their own format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Time, level, message and fields, for people.
    #[default]
    Text,
    /// One JSON object, for log collectors.
    Json,
}

/// A log filter that cannot be obeyed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{origin}: {value:?} is not a log filter; allowed are error, warn, info, debug, trace, off, or directives such \
     as info,framework_core=debug"
)]
pub struct BadFilter {
    /// The flag or the variable that has it.
    pub origin: &'static str,
    /// Its value.
    pub value: String,
}

/// The filter of the log: that of the variable, else that of the flag, else `info`.
///
/// Each directive is a level, or a target of the program's code with one. Any other word alone would be the
/// name of a target that nothing logs under, so a misspelt level would log nothing at all.
pub fn filter(variable: Option<&str>, flag: Option<&str>) -> Result<EnvFilter, BadFilter> {
    let (origin, value, rest) = match (variable.filter(|value| !value.is_empty()), flag) {
        (Some(value), _) => ("RUST_LOG", value, value.to_owned()),
        (None, level) => {
            let level = level.unwrap_or("info");
            ("--log-level", level, format!("{QUIET},{level}"))
        }
    };
    let refused = || BadFilter { origin, value: value.to_owned() };
    let is_known = |directive: &str| {
        let level = directive.rsplit_once('=').map_or(directive, |(_, level)| level).trim();
        !level.is_empty() && LevelFilter::from_str(level).is_ok()
    };
    if !value.split(',').all(is_known) {
        return Err(refused());
    }
    EnvFilter::try_new(rest).map_err(|_| refused())
}

impl Log {
    /// Starts logging. Only the first log of a process receives log lines; history lines go to each, at any
    /// level.
    pub fn start(filter: EnvFilter, format: Format) -> io::Result<Log> {
        let stderr = Stderr::start()?;
        let writer = stderr.clone();
        let lines = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(move || Lines(writer.clone()))
            .with_ansi(io::stderr().is_terminal())
            .with_target(false);
        // A test may have started it before: then that one stays.
        let _ = match format {
            Format::Text => lines.try_init(),
            Format::Json => lines.json().flatten_event(true).with_current_span(false).try_init(),
        };
        Ok(Log(stderr))
    }

    /// The writer to standard error.
    pub fn stderr(&self) -> &Stderr {
        &self.0
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.0.flush(FLUSH);
    }
}

/// Lets the log have each panic as one line. The default hook writes several, past the one writer to standard
/// error: they wait for its reader, and may pass for the history. It stays for a log that shows no errors:
/// otherwise the program would end without a word.
pub fn log_panics() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if enabled!(Level::ERROR) {
            error!(%panic, "a thread panicked");
        } else {
            usual(panic);
        }
    }));
}

/// Writes the last line of the program, after its log. The wait for its reader is bounded, and an error
/// changes no exit code.
pub fn last_line(line: String, out: impl Write + Send + 'static, patience: Duration) {
    last_line_by(thread::Builder::new(), line, out, patience);
}

fn last_line_by(thread: thread::Builder, line: String, out: impl Write + Send + 'static, patience: Duration) {
    let (written, is_written) = mpsc::channel();
    let last = Arc::new(Mutex::new((out, line)));
    let shared = Arc::clone(&last);
    let writing = thread.spawn(move || {
        write(&shared);
        // The wait may have ended.
        let _ = written.send(());
    });
    match writing {
        Ok(_) => _ = is_written.recv_timeout(patience),
        // That there is no room for a thread may be what the line says.
        Err(_) => write(&last),
    }
}

fn write(last: &Mutex<(impl Write, String)>) {
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    let (out, line) = &mut *last;
    write_whole(out, line.as_bytes());
}

/// Writes lines of the log, each in one piece.
struct Lines(Stderr);

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.log(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tracing::subscriber::{NoSubscriber, with_default};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Takes everything.
    #[derive(Clone, Default)]
    struct Out(Arc<Mutex<Vec<u8>>>);

    impl Out {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Out {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Takes nothing: it fails as soon as the other end of the channel is gone.
    struct Blocked(mpsc::Receiver<()>);

    impl Write for Blocked {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_last_line_is_written_but_no_reader_keeps_the_program_from_its_end() {
        let out = Out::default();
        last_line("bye\n".to_owned(), out.clone(), LONG);
        assert_eq!(out.text(), "bye\n");
        let (reader, gate) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        thread::spawn(move || {
            last_line("bye\n".to_owned(), Blocked(gate), Duration::from_millis(10));
            end.send(()).unwrap();
        });
        ended.recv_timeout(LONG).expect("it ends though nothing is taken");
        drop(reader);
        let (_, closed) = mpsc::channel();
        last_line("bye\n".to_owned(), Blocked(closed), LONG);
    }

    /// Takes one byte at a time, and each only the second time.
    struct Slow(Out, bool);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 { Err(io::ErrorKind::WouldBlock.into()) } else { self.0.write(&bytes[..1]) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_last_line_needs_no_thread_and_no_descriptor_that_blocks() {
        let out = Out::default();
        last_line("slow\n".to_owned(), Slow(out.clone(), false), LONG);
        assert_eq!(out.text(), "slow\n");
        let too_large = thread::Builder::new().stack_size(1 << 62);
        last_line_by(too_large, "alone\n".to_owned(), out.clone(), LONG);
        assert_eq!(out.text(), "slow\nalone\n");
    }

    fn fail(why: &str) -> usize {
        panic!("{why}")
    }

    #[test]
    fn a_panic_is_one_line_of_the_log_and_none_of_the_history() {
        let out = Out::default();
        let stderr = Stderr::writing_to(out.clone()).unwrap();
        let writer = stderr.clone();
        let lines = tracing_subscriber::fmt().with_writer(move || Lines(writer.clone()));
        let lines = lines.with_ansi(false).with_target(false).finish();
        let before = panic::take_hook();
        let (usual, own) = (Arc::new(AtomicBool::new(false)), thread::current().id());
        let ran = Arc::clone(&usual);
        panic::set_hook(Box::new(move |_| {
            ran.fetch_or(thread::current().id() == own, Ordering::Relaxed);
        }));
        log_panics();
        let panics = || panic::catch_unwind(|| fail("no plan\n: OnPodDeletion: ObjectSnapshot: {}"));
        let ended = with_default(lines, panics);
        let usual_ran = [
            usual.load(Ordering::Relaxed),
            with_default(NoSubscriber::default(), panics).is_err() && usual.load(Ordering::Relaxed),
        ];
        panic::set_hook(before);
        assert!(ended.is_err());
        assert_eq!(usual_ran, [false, true], "a log without errors hides no panic");
        stderr.flush(LONG);
        let text = out.text();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("ERROR a thread panicked") && text.contains("no plan"), "{text}");
        assert!(!text.contains(": ObjectSnapshot: "), "{text}");
    }

    fn refusal(variable: Option<&str>, flag: Option<&str>) -> Option<String> {
        filter(variable, flag).err().map(|error| error.to_string())
    }

    #[test]
    fn a_wrong_filter_is_refused_with_the_allowed_values() {
        for bad in ["verbose", "info,framework_core=loud", "inf", "info,,debug", "=info=", "framework_core"] {
            let said = refusal(None, Some(bad)).unwrap_or_else(|| panic!("{bad} is taken"));
            assert!(said.starts_with(&format!("--log-level: {bad:?} is not a log filter")), "{said}");
            assert!(said.contains("error, warn, info, debug, trace"), "{said}");
        }
        let said = refusal(Some("verbose"), Some("info")).expect("the variable takes precedence");
        assert!(said.starts_with("RUST_LOG: "), "{said}");
    }

    #[test]
    fn levels_and_directives_are_taken() {
        for good in ["info", "WARN", "off", "debug,framework_core=trace", "warn,[turn]=debug"] {
            assert_eq!(refusal(None, Some(good)), None);
            assert_eq!(refusal(Some(good), None), None);
        }
        assert_eq!(refusal(Some(""), None), None, "an empty variable counts as none");
    }
}
