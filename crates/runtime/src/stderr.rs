//! The only writer to standard error, so that each line is whole and no task waits for its reader.
//!
//! Lines wait in bounded queues, one for the log and a lane of the history for each Framework. A thread of
//! their own writes them, in turn. Guarantees: a line is written in one piece, also a long one, and also to a
//! descriptor that does not block; logging never blocks. A line of the log that finds no room is dropped, and
//! the number of dropped lines is written as soon as there is room again. Lines of the history that find no
//! room are refused, and the caller decides; those that were taken are written once, however slow the reader.
//! No value in a line of the log ends the line, or passes for a line of the history.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::oneshot;

use framework_engine::history::{Line, MARKER};

use crate::journal::{Full, Journal, Receipt};

mod lanes;

use lanes::{Item, Lanes};

/// Bytes of the log that may wait.
const TEXT: usize = 4 << 20;
/// The pause before a descriptor that is full and does not block is tried again.
const PAUSE: Duration = Duration::from_millis(10);

/// A handle to standard error. Clones lead to the same queue.
#[derive(Clone, Debug)]
pub struct Stderr(Arc<Handle>);

/// When the last handle is dropped, the thread writes the rest of the queue and ends.
#[derive(Debug)]
struct Handle(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// There is something to write, or no handle is left.
    work: Condvar,
    /// The queue is empty and written.
    rest: Condvar,
    /// Lines of the log have escape sequences for colours, because a terminal shows them.
    has_colors: bool,
}

#[derive(Debug, Default)]
struct Queue {
    /// Lines of the log, and when each came.
    log: VecDeque<(Instant, Vec<u8>)>,
    /// Bytes of the log that wait.
    text: usize,
    history: Lanes,
    /// The history has the next turn, if both wait.
    history_is_next: bool,
    /// Lines of the log that were dropped since their number was last written.
    unreported: u64,
    dropped: u64,
    /// Something is being written: a line of the log that came then, or history since then.
    writing: Option<Instant>,
    closed: bool,
}

#[derive(Debug)]
enum NextOutput {
    Text(Instant, Vec<u8>),
    History(Item),
}

impl Queue {
    fn len(&self) -> usize {
        self.log.len() + self.history.len()
    }

    fn next(&mut self) -> Option<NextOutput> {
        self.history_is_next = !self.history_is_next;
        let from_history = |queue: &mut Self| queue.history.next().map(NextOutput::History);
        if self.history_is_next {
            self.next_text().or_else(|| from_history(self))
        } else {
            from_history(self).or_else(|| self.next_text())
        }
    }

    fn next_text(&mut self) -> Option<NextOutput> {
        let (came, text) = self.log.pop_front()?;
        self.text -= text.len();
        Some(NextOutput::Text(came, text))
    }

    /// When the oldest line came that is not written.
    fn oldest(&self) -> Option<Instant> {
        self.log.front().map(|(came, _)| *came).into_iter().chain(self.writing).min()
    }
}

impl Stderr {
    /// Starts to write to standard error.
    pub fn start() -> io::Result<Self> {
        let has_colors = io::stderr().is_terminal();
        Self::with(Shared { has_colors, ..Shared::default() }, io::stderr())
    }

    /// Starts to write to something else.
    pub fn writing_to(out: impl Write + Send + 'static) -> io::Result<Self> {
        Self::with(Shared::default(), out)
    }

    fn with(shared: Shared, out: impl Write + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(shared);
        let own = Arc::clone(&shared);
        thread::Builder::new().name("stderr".to_owned()).spawn(move || own.write_to(out))?;
        Ok(Stderr(Arc::new(Handle(shared))))
    }

    /// Queues a line of the log, or drops it.
    pub fn log(&self, line: &[u8]) {
        let text = one_line(line, self.0.0.has_colors);
        let mut queue = self.0.0.lock();
        if queue.text + text.len() > TEXT {
            queue.unreported += 1;
            queue.dropped += 1;
        } else {
            queue.text += text.len();
            queue.log.push_back((Instant::now(), text.into_owned()));
            self.0.0.work.notify_one();
        }
    }

    /// Waits until everything is written, but not longer than this.
    pub fn flush(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let mut queue = self.0.0.lock();
        while queue.writing.is_some() || queue.len() > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.0.0.rest.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Journal for Stderr {
    fn append(&self, lines: Vec<Line>, at: Timestamp) -> Result<Receipt, Full> {
        let Some(key) = lines.first().map(Line::key) else { return Ok(Receipt::Written) };
        let weighed = |line: Line| (line.weight(), line);
        let lines: Vec<_> = lines.into_iter().map(weighed).map(|(weight, line)| (line, weight)).collect();
        let weight = lines.iter().map(|(_, weight)| weight).sum();
        let mut queue = self.0.0.lock();
        if !queue.history.has_room(&key, weight) {
            return Err(Full);
        }
        let (written, receipt) = oneshot::channel();
        queue.history.add(&key, lines, at, written);
        self.0.0.work.notify_one();
        Ok(Receipt::Pending(receipt))
    }

    fn waiting(&self) -> usize {
        self.0.0.lock().len()
    }

    fn dropped(&self) -> u64 {
        self.0.0.lock().dropped
    }

    fn oldest(&self) -> Option<Duration> {
        self.0.0.lock().oldest().map(|came| came.elapsed())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.work.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes until the last handle is gone.
    fn write_to(&self, mut out: impl Write) {
        while let Some((item, unreported)) = self.next() {
            if unreported > 0 {
                let text = format!("{unreported} lines of the log were dropped: standard error took none\n");
                write_whole(&mut out, text.as_bytes());
            }
            match item {
                NextOutput::Text(_, text) => write_whole(&mut out, &text),
                NextOutput::History(Item::Line(line, at)) => write_whole(&mut out, &line.render(at)),
                // The task that waited may have ended.
                NextOutput::History(Item::Confirm(written)) => _ = written.send(()),
            }
        }
    }

    /// The next item, and how many lines of the log were dropped before it.
    fn next(&self) -> Option<(NextOutput, u64)> {
        let mut queue = self.lock();
        queue.writing = None;
        loop {
            if let Some(item) = queue.next() {
                queue.writing = Some(match &item {
                    NextOutput::Text(came, _) => *came,
                    NextOutput::History(_) => Instant::now(),
                });
                let unreported = std::mem::take(&mut queue.unreported);
                return Some((item, unreported));
            }
            self.rest.notify_all();
            if queue.closed {
                return None;
            }
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The line of one event. A value in it may be a user's, and could go on as the history of another Framework.
fn one_line(line: &[u8], has_colors: bool) -> Cow<'_, [u8]> {
    let text = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(line));
    // Some readers also end a line at these separators.
    let is_control =
        |c: char| (c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')) && !(c == '\x1b' && has_colors);
    if !text.contains(is_control) && !text.contains(MARKER) {
        return Cow::Borrowed(line);
    }
    let mut whole = String::with_capacity(text.len() + 16);
    for c in text.replace(MARKER, ": ObjectSnapshot; ").chars() {
        if is_control(c) { whole.extend(c.escape_default()) } else { whole.push(c) }
    }
    whole.push('\n');
    Cow::Owned(whole.into_bytes())
}

/// Writes all bytes, however few are taken at a time. If the descriptor is closed, they are lost: there is no
/// place to report it.
pub fn write_whole(out: &mut impl Write, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match out.write(bytes) {
            Ok(0) => return,
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(PAUSE),
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests;
