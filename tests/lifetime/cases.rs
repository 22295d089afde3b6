//! Cases that take place side by side: most of their time is waiting, one after the other it would add up.
//!
//! All cases of a module begin with the first of its tests, beside one controller that ends with the last of
//! them; each test passes as its own case does.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use crate::cluster::lease::Shared;

type Case = (&'static str, fn());

/// The cases of a module.
pub struct Cases {
    /// The name of their controller.
    controller: &'static str,
    all: &'static [Case],
    begun: OnceLock<Mutex<BTreeMap<&'static str, JoinHandle<()>>>>,
}

impl Cases {
    /// Cases that have not begun.
    pub const fn new(controller: &'static str, all: &'static [Case]) -> Cases {
        Cases { controller, all, begun: OnceLock::new() }
    }

    /// Waits for the end of a case, and panics as it did.
    pub fn pass(&self, name: &str) {
        let begun = self.begun.get_or_init(|| {
            let controller = Arc::new(Shared::controller(self.controller, ""));
            let begin = |(name, case): &Case| {
                let (case, controller) = (*case, Arc::clone(&controller));
                let run = move || {
                    let _controller = controller;
                    case();
                };
                (*name, std::thread::spawn(run))
            };
            Mutex::new(self.all.iter().map(begin).collect())
        });
        let case = begun.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        if let Err(panic) = case.expect("each case is one test").join() {
            panic!("{}", message(&*panic));
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}

/// Makes each function of module `cases` a test, whose case begins with those of all others, beside the
/// controller `CONTROLLER`.
#[allow(unused_macros, reason = "each test program uses a part of it")]
macro_rules! side_by_side {
    ($($name:ident),* $(,)?) => {
        static CASES: lifetime::cases::Cases =
            lifetime::cases::Cases::new(CONTROLLER, &[$((stringify!($name), cases::$name)),*]);
        $(
            #[test]
            fn $name() {
                CASES.pass(stringify!($name));
            }
        )*
    };
}

#[allow(unused_imports, reason = "each test program uses a part of it")]
pub(crate) use side_by_side;
