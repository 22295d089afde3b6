//! Processor time and memory of processes on this machine, from `proc_pid_stat(5)` and `proc_pid_status(5)`.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// A watched process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Its name in the report.
    pub name: String,
    /// The process ID.
    pub pid: u32,
}

/// Processor time and memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time since its start.
    pub cpu: Duration,
    /// Memory in RAM.
    pub rss: u64,
    /// The most memory in RAM since its start, or since [`Watched::forget_peak`].
    pub peak: u64,
}

impl std::str::FromStr for Watched {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, pid) = text.split_once('=').ok_or("give NAME=PID, such as frameworkcontroller=4711")?;
        let pid = pid.parse().map_err(|_| format!("{pid} is not a process ID"))?;
        Ok(Watched { name: name.to_owned(), pid })
    }
}

impl Watched {
    /// Its current use. An error if it has ended.
    pub fn usage(&self) -> Result<Usage> {
        let read = |file: &str| {
            let path = format!("/proc/{}/{file}", self.pid);
            fs::read_to_string(&path).with_context(|| format!("{} has ended: reading {path}", self.name))
        };
        let stat = read("stat")?;
        let status = read("status")?;
        Ok(Usage {
            cpu: cpu(&stat).with_context(|| format!("reading the processor time of {}", self.name))?,
            rss: kibibytes(&status, "VmRSS:"),
            peak: kibibytes(&status, "VmHWM:"),
        })
    }

    /// Resets its peak, if this process is allowed to; otherwise the peak is that since its start.
    pub fn forget_peak(&self) {
        // 5 resets the peak: proc_pid_clear_refs(5). It is refused for processes of other users.
        let _ = fs::write(format!("/proc/{}/clear_refs", self.pid), "5");
    }
}

/// User and system time: fields 14 and 15. Field 2, the name in parentheses, may contain any character.
fn cpu(stat: &str) -> Option<Duration> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    Some(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

fn kibibytes(status: &str, field: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.map_or(0, |number| number * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_something() {
        let own = Watched { name: "own".into(), pid: std::process::id() };
        let usage = own.usage().unwrap();
        assert!(usage.rss > 100_000 && usage.peak >= usage.rss, "{usage:?}");
        let stat = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20";
        let second = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(cpu(stat), Some(Duration::from_secs_f64(200.0 / second)));
    }

    #[test]
    fn a_process_that_is_gone_is_an_error_that_names_it() {
        let gone = Watched { name: "etcd".into(), pid: u32::MAX };
        assert!(gone.usage().unwrap_err().to_string().starts_with("etcd has ended"));
        assert_eq!("etcd=12".parse(), Ok(Watched { name: "etcd".into(), pid: 12 }));
        assert!("etcd".parse::<Watched>().is_err());
        assert!("etcd=x".parse::<Watched>().unwrap_err().contains("not a process ID"));
    }
}
