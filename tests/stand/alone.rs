//! Controllers with configurations of their own: one test at a time has one, and it ends with its value.

use std::sync::{Mutex, MutexGuard};

use super::{block_on, installed, start_controller};

/// While a test has it, no other test of the program has a controller.
pub struct Alone(#[expect(dead_code, reason = "it is held")] MutexGuard<'static, ()>);

/// A running controller.
pub struct Controller<'a> {
    /// Of its process.
    pub pid: u32,
    #[expect(dead_code, reason = "it is held")]
    alone: &'a Alone,
}

impl Alone {
    /// Waits until no other test has it.
    pub fn wait() -> Alone {
        static ALONE: Mutex<()> = Mutex::new(());
        Alone(ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Starts a controller with further lines in its config file; it logs under that name.
    pub fn start(&self, name: &'static str, config: &str) -> Controller<'_> {
        Controller { pid: start_controller(name, config), alone: self }
    }
}

impl Drop for Controller<'_> {
    fn drop(&mut self) {
        // A test that failed may have ended it already.
        let _ = installed().kill_hosted(self.pid);
    }
}

/// A fresh namespace, ready for Pods; no controller is started.
pub fn namespace(name: &str) -> String {
    block_on(installed().namespace(name)).expect("the namespace gets ready");
    name.to_owned()
}
