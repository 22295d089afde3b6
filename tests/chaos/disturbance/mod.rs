//! The faults of a controller's surroundings: an API server that hangs or dies, lagging watches, and its own
//! death.
//!
//! A component that a test stops goes on when its value is dropped, also by a failed test.
#![allow(dead_code, reason = "each test program uses a part of it")]

pub mod mix;
pub mod relay;

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use framework_testcluster::Component;
use kube::api::ListParams;
use relay::Relay;

use crate::cluster::history::History;
use crate::cluster::recording::Recording;
use crate::cluster::{
    PATIENCE, await_our_kinds_by, block_on, client, frameworks, installed, start_controller,
};

/// A recording that goes on while the API server of the others does not.
pub fn record(namespace: &str) -> Recording {
    Recording::start_by(witness(), namespace)
}

/// A client of an API server that is never disturbed.
pub fn witness() -> kube::Client {
    static WITNESS: OnceLock<kube::Client> = OnceLock::new();
    let witness = WITNESS.get_or_init(|| {
        let witness = block_on(async { installed().witness().expect("it starts") });
        await_our_kinds_by(&witness);
        witness
    });
    witness.clone()
}

/// Waits until the recorded history is as asked.
pub fn until(recording: &Recording, what: &str, is: impl Fn(&History) -> bool) {
    recording.wait(what, |changes| is(&History::of(changes.clone())));
}

/// A controller behind a relay. It ends with this value.
pub struct Controller {
    /// The relay through which it sees the API server.
    pub relay: Relay,
    config: String,
    pid: Option<u32>,
}

impl Controller {
    /// Starts one with further lines in its config file.
    pub fn start(config: &str) -> Controller {
        let relay = Relay::start(installed(), "controller");
        let config = format!("kubeApiServerAddress: {}\n{config}", relay.url());
        let mut controller = Controller { relay, config, pid: None };
        controller.revive();
        controller
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        let pid = self.pid.take().expect("it runs");
        installed().kill_hosted(pid).expect("it was running");
    }

    /// Starts it again.
    pub fn revive(&mut self) {
        self.pid = Some(start_controller("controller", &self.config));
    }

    /// Kills it and starts it again.
    pub fn replace(&mut self) {
        self.kill();
        self.revive();
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.relay.release();
        if let Some(pid) = self.pid {
            // A test that failed may have found it dead.
            let _ = installed().kill_hosted(pid);
        }
    }
}

/// The API server, stopped by SIGSTOP: it keeps its connections and answers nothing.
pub struct Stopped(());

impl Stopped {
    /// Stops it.
    pub fn now() -> Stopped {
        installed().pause(Component::Apiserver).expect("it runs");
        let stopped = Stopped(());
        let deadline = Instant::now() + PATIENCE;
        // On a busy machine its threads do not stop all at once.
        while answers_within(Duration::from_millis(300)) {
            assert!(Instant::now() < deadline, "it is stopped, and goes on answering");
        }
        stopped
    }

    /// Waits for an answer that does not come.
    pub fn for_a_while(&self, time: Duration) {
        assert!(!answers_within(time), "it is stopped, and answers");
    }
}

fn answers_within(time: Duration) -> bool {
    let asked = frameworks("default");
    block_on(async { tokio::time::timeout(time, asked.list(&ListParams::default())).await.is_ok() })
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if let Err(error) = installed().resume(Component::Apiserver) {
            eprintln!("the API server does not go on: {error}");
        }
    }
}

/// Kills a program of the control plane and starts it again.
pub fn restart(component: Component) -> Result<(), framework_testcluster::Error> {
    installed().stop(component)?;
    installed().launch(component)
}

/// The API server, killed: its port is closed.
///
/// The control plane's other programs are started again after it, as they end without it where they have
/// elected a leader. The garbage collector above all: it goes on with old watches for a while, and lets a
/// Framework go before the ConfigMap of which it has not heard.
pub struct Crashed(());

impl Crashed {
    /// Kills it.
    pub fn now() -> Crashed {
        installed().stop_apiserver().expect("it runs");
        Crashed(())
    }
}

impl Drop for Crashed {
    fn drop(&mut self) {
        let others = [Component::ControllerManager, Component::Scheduler, Component::Kwok];
        let begun = installed().start_apiserver().and_then(|()| others.into_iter().try_for_each(restart));
        match begun {
            Err(error) => eprintln!("the control plane does not start again: {error}"),
            Ok(()) if std::thread::panicking() => {}
            Ok(()) => await_our_kinds_by(&client()),
        }
    }
}
