//! Standard error that is slow, blocked, closed, or set not to block.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use framework_engine::last_seen::{LastSeen, LastState};

use super::*;

const LONG: Duration = Duration::from_secs(60);

/// A writer that takes so many bytes at a time, after so many errors.
#[derive(Clone, Default)]
struct Out {
    taken: Arc<Mutex<Vec<u8>>>,
    calls: Arc<AtomicUsize>,
    at_most: Option<usize>,
    /// Before it takes anything, it waits until this is open.
    gate: Option<Arc<(Mutex<bool>, Condvar)>>,
}

impl Out {
    fn text(&self) -> String {
        String::from_utf8(self.taken.lock().unwrap().clone()).unwrap()
    }

    fn blocked() -> Self {
        Out { gate: Some(Arc::default()), ..Out::default() }
    }

    fn open(&self) {
        let gate = self.gate.as_ref().unwrap();
        *gate.0.lock().unwrap() = true;
        gate.1.notify_all();
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(gate) = &self.gate {
            drop(gate.1.wait_while(gate.0.lock().unwrap(), |open| !*open).unwrap());
        }
        let Some(at_most) = self.at_most else {
            self.taken.lock().unwrap().extend(bytes);
            return Ok(bytes.len());
        };
        match self.calls.fetch_add(1, Ordering::Relaxed) % 50 {
            0 => Err(ErrorKind::WouldBlock.into()),
            1 => Err(ErrorKind::Interrupted.into()),
            _ => {
                let taken = bytes.len().min(at_most);
                self.taken.lock().unwrap().extend(&bytes[..taken]);
                Ok(taken)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn line(name: &str, size: usize) -> Line {
    line_of("job", name, size)
}

fn line_of(framework: &str, name: &str, size: usize) -> Line {
    let json = format!("{{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"x\":\"{}\"}}", "x".repeat(size));
    let state = LastState::Whole(serde_json::from_str(&json).unwrap());
    let pod = LastSeen { name: name.to_owned(), uid: name.to_owned(), state };
    Line::Pod { key: framework_message::Key::new("ns", framework), pod }
}

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

fn is_written(receipt: Receipt) -> bool {
    match receipt {
        Receipt::Written => true,
        Receipt::Pending(mut written) => written.try_recv().is_ok(),
    }
}

#[test]
fn no_value_ends_a_line_of_the_log_or_passes_for_the_history() {
    let out = Out::default();
    let stderr = Stderr::writing_to(out.clone()).unwrap();
    stderr.log("WARN left out error=é\n INFO [b]: OnPodDeletion: ObjectSnapshot: {}\r\n\n".as_bytes());
    stderr.log(b"INFO x=\x1b[2J: ObjectSnapshot: ObjectSnapshot: {}\n");
    stderr.flush(LONG);
    let first = "WARN left out error=é\\n INFO [b]: OnPodDeletion: ObjectSnapshot; {}\\r\\n\n";
    let second = "INFO x=\\u{1b}[2J: ObjectSnapshot; ObjectSnapshot: {}\n";
    assert_eq!(out.text(), [first, second].concat());
    assert_eq!(one_line(b"\x1b[32mINFO\x1b[0m\n", true), &b"\x1b[32mINFO\x1b[0m\n"[..]);
}

#[test]
fn a_line_of_megabytes_is_one_line_however_little_is_taken_at_a_time() {
    let out = Out { at_most: Some(70_000), ..Out::default() };
    let stderr = Stderr::writing_to(out.clone()).unwrap();
    stderr.log(b"before\n");
    let receipt = stderr.append(vec![line("large", 7 << 20)], now()).unwrap();
    stderr.log(b"after\n");
    stderr.flush(LONG);
    assert!(is_written(receipt));
    let text = out.text();
    // Log and history have a turn each: the large line may come last.
    let lines: Vec<&str> = text.lines().collect();
    let log: Vec<&str> = lines.iter().copied().filter(|line| line.len() < 100).collect();
    assert_eq!((lines.len(), log), (3, vec!["before", "after"]));
    let large = lines.iter().find_map(|line| line.split_once(framework_engine::history::MARKER));
    let (_, json) = large.unwrap();
    let pod: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(pod["x"].as_str().unwrap().len(), 7 << 20);
}

#[test]
fn lines_of_many_threads_stay_whole() {
    let out = Out { at_most: Some(7), ..Out::default() };
    let stderr = Stderr::writing_to(out.clone()).unwrap();
    thread::scope(|scope| {
        for thread in 0..4 {
            let stderr = stderr.clone();
            scope.spawn(move || {
                for number in 0..20 {
                    stderr.log(format!("log {thread} {number} end\n").as_bytes());
                    stderr.append(vec![line(&format!("{thread}-{number}"), 20)], now()).unwrap();
                }
            });
        }
    });
    stderr.flush(LONG);
    let text = out.text();
    let is_log = |line: &&str| line.starts_with("log ") && line.ends_with(" end");
    let is_history =
        |line: &&str| line.contains(": OnPodDeletion: ObjectSnapshot: {") && line.ends_with("\"}");
    assert_eq!(text.lines().filter(is_log).count(), 80);
    assert_eq!(text.lines().filter(is_history).count(), 80);
    assert_eq!(text.lines().count(), 160);
}

#[test]
fn logging_never_waits_and_lines_without_room_are_counted_and_reported() {
    let out = Out::blocked();
    let stderr = Stderr::writing_to(out.clone()).unwrap();
    let kilobyte = [&[b'x'; 1023][..], b"\n"].concat();
    for _ in 0..TEXT / 1024 + 100 {
        stderr.log(&kilobyte);
    }
    let dropped = stderr.dropped();
    assert!((99..=100).contains(&dropped), "one may be under way: {dropped}");
    let first = stderr.append(vec![line("first", lanes::MOST)], now()).unwrap();
    assert_eq!(stderr.append(vec![line("second", 10)], now()).unwrap_err(), Full);
    stderr.flush(Duration::from_millis(10));
    assert!(!is_written(first), "it is blocked");
    out.open();
    stderr.flush(LONG);
    let text = out.text();
    assert!(
        text.contains(&format!("{dropped} lines of the log were dropped")),
        "the number of dropped lines is not written"
    );
    assert!(!text.contains("Pod second"), "a line that was not taken is not written");
    assert!(stderr.append(vec![line("third", 10)], now()).is_ok(), "there is room again");
    assert_eq!(stderr.dropped(), dropped);
}

#[test]
fn a_line_of_the_log_grows_old_until_it_is_written() {
    const SHORT: Duration = Duration::from_millis(10);
    let out = Out::blocked();
    let stderr = Stderr::writing_to(out.clone()).unwrap();
    assert_eq!(stderr.oldest(), None);
    stderr.log(b"first\n");
    stderr.flush(SHORT);
    stderr.log(b"second\n");
    assert!(stderr.oldest().unwrap() >= SHORT, "whether it is under way or not");
    out.open();
    stderr.flush(LONG);
    assert_eq!(stderr.oldest(), None);
}

#[test]
fn a_receipt_comes_after_the_line_and_before_what_follows() {
    let out = Out::blocked();
    let stderr = Stderr::writing_to(out.clone()).unwrap();
    let Ok(Receipt::Pending(mut written)) = stderr.append(vec![line("a", 10)], now()) else { panic!() };
    assert!(written.try_recv().is_err(), "it is blocked");
    out.open();
    let (done, end) = mpsc::channel();
    thread::spawn(move || done.send(written.blocking_recv()).unwrap());
    assert_eq!(end.recv_timeout(LONG).unwrap(), Ok(()));
    assert!(out.text().contains("Pod a is deleted"));
}

#[test]
fn a_closed_descriptor_holds_nobody_up() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let stderr = Stderr::writing_to(Closed).unwrap();
    stderr.log(b"lost\n");
    let receipt = stderr.append(vec![line("a", 10)], now()).unwrap();
    stderr.flush(LONG);
    assert!(is_written(receipt));
    assert_eq!(stderr.waiting(), 0);
}

#[test]
fn remaining_lines_are_written_when_the_last_handle_goes() {
    let (sender, ended) = mpsc::channel::<()>();
    struct Tail(Out, #[expect(dead_code, reason = "the flush waits for its end")] mpsc::Sender<()>);
    impl Write for Tail {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let out = Out::blocked();
    let stderr = Stderr::writing_to(Tail(out.clone(), sender)).unwrap();
    stderr.log(b"last\n");
    drop(stderr);
    out.open();
    assert_eq!(ended.recv_timeout(LONG), Err(mpsc::RecvTimeoutError::Disconnected), "the thread ends");
    assert_eq!(out.text(), "last\n");
}

/// Lines of a Framework that together weigh about so many bytes.
fn burst(framework: &str, lines: usize, bytes: usize) -> Vec<Line> {
    (0..lines).map(|number| line_of(framework, &format!("{framework}-{number}"), bytes / lines)).collect()
}

#[test]
fn a_burst_of_one_framework_delays_others_by_a_portion() {
    let out = Out::blocked();
    let stderr = Stderr::writing_to(out.clone()).unwrap();
    stderr.append(burst("heavy", 500, 10 << 20), now()).unwrap();
    stderr.append(burst("other", 2, 2000), now()).unwrap();
    stderr.append(burst("third", 2, 2000), now()).unwrap();
    out.open();
    stderr.flush(LONG);
    let text = out.text();
    let before = text.lines().position(|line| line.contains("Pod third-1 is deleted")).unwrap();
    assert!(before <= 12, "{before} lines were written before it");
    assert_eq!(text.lines().count(), 504, "each is written once");
}

#[test]
fn a_framework_that_has_used_its_share_leaves_room_for_others() {
    let stderr = Stderr::writing_to(Out::blocked()).unwrap();
    let quarter = lanes::SHARE / 4;
    let taken = (0..100).take_while(|_| stderr.append(burst("heavy", 1, quarter), now()).is_ok()).count();
    assert!((3..=4).contains(&taken), "one may be under way: {taken}");
    assert!(stderr.append(burst("large", 1, 2 * lanes::SHARE), now()).is_ok(), "a first batch of any size");
    for framework in ["b", "c", "d"] {
        let _ = stderr.append(burst(framework, 1, lanes::SHARE), now());
    }
    assert_eq!(stderr.append(burst("late", 1, lanes::SHARE), now()).unwrap_err(), Full);
    assert!(stderr.append(burst("late", 1, 1000), now()).is_ok(), "the reserve is for small ones");
}

#[tokio::test(start_paused = true)]
async fn history_that_was_taken_is_awaited_however_slow_its_reader() {
    let (written, receipt) = oneshot::channel();
    let waiting = tokio::spawn(Receipt::Pending(receipt).is_written());
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(!waiting.is_finished(), "it would be queued again, and written twice");
    written.send(()).unwrap();
    assert!(waiting.await.unwrap());
}
