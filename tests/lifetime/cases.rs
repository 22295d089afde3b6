//! Cases that take place side by side: most of their time is waiting, one after the other it would add up.
//!
//! All begin with the first test of the program that asks for one; each test passes as its own case does.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

type Case = (&'static str, fn());

/// The cases of a test program.
pub struct Cases {
    all: &'static [Case],
    begun: OnceLock<Mutex<BTreeMap<&'static str, JoinHandle<()>>>>,
}

impl Cases {
    /// Cases that have not begun.
    pub const fn new(all: &'static [Case]) -> Cases {
        Cases { all, begun: OnceLock::new() }
    }

    /// Waits for the end of a case, and panics as it did.
    pub fn pass(&self, name: &str) {
        let begun = self.begun.get_or_init(|| {
            let begin = |(name, case): &Case| (*name, std::thread::spawn(*case));
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

/// Makes each function of module `cases` a test, whose case begins with those of all others.
#[allow(unused_macros, reason = "each test program uses a part of it")]
macro_rules! side_by_side {
    ($($name:ident),* $(,)?) => {
        static CASES: lifetime::cases::Cases =
            lifetime::cases::Cases::new(&[$((stringify!($name), cases::$name)),*]);
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
