//! A controller that looks after 100,000 running Pods, and the memory of its process.
//!
//! `FRAMEWORK_CONTROLLER` names another program than the one built with the tests.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use framework_testcluster::running::Running;

use crate::synthetic::server::Server;
use crate::synthetic::{Phase, SyntheticCluster};

/// The bound on the memory of the process, its code included, be it optimised or not.
const MEMORY_MIB: u64 = 200;
const PATIENCE: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(200);

/// A controller of everything that a server has.
fn controller(server: &Server) -> Running {
    let dir = tempfile::tempdir().expect("a directory");
    let config = format!(
        "kubeApiServerAddress: {}\nkubeClientQps: 5000\nkubeClientBurst: 5000\n\
         largeFrameworkCompression: true\nmetricsAuthorization: false\n",
        server.url
    );
    std::fs::write(dir.path().join("frameworkcontroller.yaml"), config).expect("a config file");
    let named = std::env::var_os("FRAMEWORK_CONTROLLER").map(PathBuf::from);
    let program = named.unwrap_or_else(|| env!("CARGO_BIN_EXE_frameworkcontroller").into());
    let environment: Vec<(String, String)> =
        std::env::vars().filter(|(name, _)| name.starts_with("MALLOC_")).collect();
    let environment: Vec<(&str, &OsStr)> =
        environment.iter().map(|(name, value)| (name.as_str(), OsStr::new(value))).collect();
    Running::start(&program, dir, &["--metrics-address=127.0.0.1:0"], &environment)
}

/// The value of a series at `/metrics`.
fn series(address: &str, name: &str) -> f64 {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").expect("it reads");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("it answers");
    let value = reply.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map_or(0.0, |value| value.parse().expect("a number"))
}

/// The memory of a process as Linux reports it, in MiB.
fn memory(pid: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("Linux reports it");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib >> 10
}

#[test]
fn a_replica_of_a_hundred_thousand_pods_takes_bounded_memory() {
    let synthetic = SyntheticCluster::new(5_000, 20, Phase::Running);
    let server = Server::start(&synthetic);
    let mut program = controller(&server);
    let line = program.says("serving metrics");
    let address = line.split("address=").nth(1).expect("the line has the address").trim().to_owned();
    let deadline = Instant::now() + PATIENCE;
    // Each Framework gets its summary, which the synthetic lacks.
    let rests = || {
        let value = |name: &str| series(&address, &format!("frameworkcontroller_{name}"));
        value(r#"held{kind="pods"}"#) as usize == synthetic.pods()
            && server.writes() >= synthetic.frameworks()
            && value(r#"queue_depth{queue="records"}"#) == 0.0
            && value(r#"queue_depth{queue="requests_in_flight"}"#) == 0.0
            && value("oldest_event_age_seconds") == 0.0
    };
    while !rests() {
        assert!(Instant::now() < deadline, "{} writes\n{}", server.writes(), program.log());
        std::thread::sleep(PAUSE);
    }
    let [now, own, peak] = ["VmRSS:", "RssAnon:", "VmHWM:"].map(|field| memory(program.pid(), field));
    println!("{} Pods: {now} MiB, {own} without its code, {peak} at the peak", synthetic.pods());
    assert_eq!((server.writes(), server.others()), (synthetic.frameworks(), 0), "{}", program.log());
    assert!(peak <= MEMORY_MIB, "{peak} MiB, {own} of them without its code");
}
