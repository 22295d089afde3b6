//! A controller's answers at the port of metrics.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::until;
use crate::cluster::log_of;

/// All metrics of the controller that was started last under this name.
pub fn scrape(controller: &str) -> String {
    read(controller, "/metrics")
}

/// The answer at a path of its port of metrics.
pub fn read(controller: &str, path: &str) -> String {
    get(&address(controller), path)
}

/// The answer at a path of its port of probes.
pub fn probe(controller: &str, path: &str) -> String {
    get(&listens(controller, "serving probes"), path)
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").expect("it reads");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("it answers");
    reply
}

/// The address of its port of metrics.
pub fn address(controller: &str) -> String {
    listens(controller, "serving metrics")
}

/// The address in the last line of its log that says this.
fn listens(controller: &str, logged: &str) -> String {
    let mut address = None;
    until("the controller says where it listens", || {
        let log = log_of(controller);
        let line = log.lines().rfind(|line| line.contains(logged));
        address = line.and_then(|line| line.split("address=").nth(1)).map(|rest| rest.trim().to_owned());
        address.is_some()
    });
    address.expect("it was logged")
}

/// The value of a series, by its name with its labels; 0 if it is not there.
pub fn value(metrics: &str, series: &str) -> u64 {
    let mut lines = metrics.lines().filter_map(|line| line.rsplit_once(' '));
    let found = lines.find(|(name, _)| *name == series);
    found.map_or(0, |(_, value)| value.parse().unwrap_or_else(|error| panic!("{series} {value}: {error}")))
}
