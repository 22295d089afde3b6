//! Which controller runs on the cluster, in programs whose tests need different ones.
//!
//! A controller acts on every Framework of the cluster, so that at most one runs at a time. A test holds a
//! lease of the cluster: alone, with controllers that it starts and ends itself, or together with all tests
//! that share one controller. A test that holds one lease must not wait for another.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use framework_api::queue::QueueUnit;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use super::{block_on, client, installed, start_controller};

/// The tests that have the cluster.
enum Holder {
    Nobody,
    One,
    /// Tests that share a controller.
    Several {
        controller: &'static str,
        pid: u32,
        tests: usize,
    },
}

static HOLDER: Mutex<Holder> = Mutex::new(Holder::Nobody);
static RETURNED: Condvar = Condvar::new();

fn holder() -> MutexGuard<'static, Holder> {
    HOLDER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until no other test has the cluster, or until it is as asked.
fn wait(is: impl Fn(&Holder) -> bool) -> MutexGuard<'static, Holder> {
    let unavailable = |holder: &mut Holder| !matches!(holder, Holder::Nobody) && !is(holder);
    RETURNED.wait_while(holder(), unavailable).unwrap_or_else(PoisonError::into_inner)
}

/// Deletes the objects that a test leaves, so that the next controller does not look after them, and gives
/// the cluster to the next test.
fn give_back(holder: &mut Holder) {
    let all = ["delete", "frameworks", "--all", "--all-namespaces", "--wait=false"];
    let deleted = installed().kubectl(&all).map_err(|error| error.to_string());
    let deleted = deleted.and_then(|_| block_on(delete_units()).map_err(|error| error.to_string()));
    // Panics are for tests; leftover objects disturb the next one at worst.
    if let Err(error) = deleted {
        eprintln!("Frameworks or QueueUnits are left over: {error}");
    }
    *holder = Holder::Nobody;
    RETURNED.notify_all();
}

/// Deletes all QueueUnits. The controller that would remove their finalizers has ended, and a later one would
/// list the units of each namespace that has such a unit.
async fn delete_units() -> kube::Result<()> {
    let all: Api<QueueUnit> = Api::all(client());
    for unit in all.list(&ListParams::default()).await? {
        let (name, namespace) = (unit.name_any(), unit.namespace().unwrap_or_default());
        let units: Api<QueueUnit> = Api::namespaced(client(), &namespace);
        let released = json!({"metadata": {"finalizers": null}});
        let gone = units.patch(&name, &PatchParams::default(), &Patch::Merge(released)).await.map(drop);
        let gone = gone.and(units.delete(&name, &DeleteParams::default()).await.map(drop));
        match gone {
            // Its job was deleted, and it with its job.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            gone => gone?,
        }
    }
    Ok(())
}

/// The cluster for one test alone, without a controller.
pub struct Alone(());

/// A controller that one test started. It ends with this value.
pub struct Controller<'a> {
    /// Of its process.
    pub pid: u32,
    #[expect(dead_code, reason = "it is held")]
    alone: &'a Alone,
}

impl Alone {
    /// Waits until no other test has the cluster.
    pub fn wait() -> Alone {
        *wait(|_| false) = Holder::One;
        Alone(())
    }

    /// Starts a controller with further lines in its config file; it logs under that name.
    pub fn start(&self, name: &'static str, config: &str) -> Controller<'_> {
        Controller { pid: start_controller(name, config), alone: self }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        give_back(&mut holder());
    }
}

impl Controller<'_> {
    /// Kills it, and starts another one.
    pub fn replace(&mut self, name: &'static str, config: &str) {
        installed().kill_hosted(self.pid).expect("it was running");
        self.pid = start_controller(name, config);
    }
}

impl Drop for Controller<'_> {
    fn drop(&mut self) {
        // A test that failed may have ended it already.
        let _ = installed().kill_hosted(self.pid);
    }
}

/// A controller that several tests have at the same time. It ends with the last of them.
pub struct Shared(());

impl Shared {
    /// The running controller of that name, or one that starts with further lines in its config file. All
    /// that ask for a name ask for the same lines.
    pub fn controller(name: &'static str, config: &str) -> Shared {
        let is_ours =
            |holder: &Holder| matches!(holder, Holder::Several { controller, .. } if *controller == name);
        let mut holder = wait(is_ours);
        match &mut *holder {
            Holder::Several { tests, .. } => *tests += 1,
            _ => {
                *holder = Holder::Several { controller: name, pid: start_controller(name, config), tests: 1 }
            }
        }
        Shared(())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let mut holder = holder();
        let Holder::Several { pid, tests, .. } = &mut *holder else { return };
        *tests -= 1;
        if *tests == 0 {
            // A test that failed may have ended it already.
            let _ = installed().kill_hosted(*pid);
            give_back(&mut holder);
        }
    }
}

/// A fresh namespace, ready for Pods; no controller is started.
pub fn namespace(name: &str) -> String {
    block_on(installed().namespace(name)).expect("the namespace gets ready");
    name.to_owned()
}
