//! The machine that the load test runs on.

use std::fs;

use crate::report::Machine;

/// This machine, from `/proc`.
pub fn this(shared_with_cluster: bool) -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    let memory = memory.and_then(|text| text.split(' ').next()?.parse::<u64>().ok()).unwrap_or(0);
    Machine {
        processor: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".into()),
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        memory_bytes: memory * 1024,
        kernel: read("/proc/version").split_whitespace().take(3).collect::<Vec<_>>().join(" "),
        shared_with_cluster,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_machine_is_known() {
        let machine = super::this(true);
        assert!(machine.processors >= 1 && machine.memory_bytes > 0, "{machine:?}");
        assert!(machine.kernel.starts_with("Linux version"), "{machine:?}");
    }
}
