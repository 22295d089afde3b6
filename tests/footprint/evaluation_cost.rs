//! The cost of one event, in allocations: exact, the same on every machine, and flat in the number of Tasks
//! where it need not grow. `docs/evaluation.md` has its cost in instructions.

use std::hint::black_box;
use std::sync::LazyLock;
use std::time::Duration;

use allocation_counter::{AllocationInfo, measure};
use framework_engine::event::{Effect, Event};
use framework_engine::object::{FrameworkObject, Object, Reply};
use framework_message::Change;
use framework_runtime::compression::Compressor;
use framework_runtime::wire::{FrameworkText, decode};

use crate::steady_state::{Job, SteadyState, framework, moment, policy};

const SIZES: [usize; 3] = [100, 1000, 10_000];

/// The steps that one event of a Pod leads to.
#[derive(Debug)]
struct Steps {
    /// The event is taken in, and can wait.
    event: AllocationInfo,
    /// The Framework is evaluated, and its status is on its way.
    evaluation: AllocationInfo,
    /// The reply is taken in, and the Framework evaluated once more.
    reply: AllocationInfo,
    /// The watch shows the written status.
    echo: AllocationInfo,
}

/// One step, by itself: valgrind, where it is installed, counts the instructions of functions of this name.
#[inline(never)]
fn counted<T>(step: impl FnOnce() -> T) -> T {
    black_box(step())
}

fn take_in(state: &mut SteadyState, event: Event) {
    state.step(event);
    black_box(state.turn());
}

fn hear(state: &mut SteadyState, compressor: &Compressor, json: &[u8]) {
    let text = decode::<FrameworkText>(json).unwrap().unwrap();
    take_in(state, Event::Framework(Change::Applied(compressor.read(text))));
}

/// The reply to the only request.
fn reply(state: &mut SteadyState, effects: Vec<Effect>) -> (FrameworkObject, Event) {
    let mut replies: Vec<Event> = effects.into_iter().filter_map(|effect| state.reply(effect)).collect();
    let reply = replies.pop().expect("a write");
    assert!(replies.is_empty(), "one write: {replies:?}");
    match reply {
        Event::Reply { ticket, reply: Reply::Object(Object::Framework(object)), server } => {
            (object.clone(), Event::Reply { ticket, reply: Reply::Object(Object::Framework(object)), server })
        }
        other => panic!("{other:?}"),
    }
}

fn steps(tasks: usize) -> Steps {
    let (mut state, compressor) = (SteadyState::one(tasks), Compressor::default());
    let moved = state.moved("job", tasks / 2);
    let event = measure(|| counted(|| take_in(&mut state, moved)));
    assert!(state.wait(), "it is to be recorded");
    let mut effects = Vec::new();
    let evaluation = measure(|| effects = counted(|| state.turn()));
    let (object, answer) = reply(&mut state, effects);
    compressor.stored(&object);
    state.pass(Duration::from_secs(1));
    let reply = measure(|| counted(|| take_in(&mut state, answer)));
    let json = framework("job", tasks, object.resource_version).to_string();
    let echo = measure(|| counted(|| hear(&mut state, &compressor, json.as_bytes())));
    assert!(state.turn().is_empty() && !state.wait(), "all is at rest");
    Steps { event, evaluation, reply, echo }
}

/// The steps for each number of Tasks.
static STEPS: LazyLock<[Steps; 3]> = LazyLock::new(|| SIZES.map(steps));

#[test]
fn a_pod_event_costs_as_many_allocations_for_any_number_of_tasks() {
    let all = &*STEPS;
    for (tasks, steps) in SIZES.iter().zip(all) {
        println!("{tasks} Tasks:");
        let Steps { event, evaluation, reply, echo } = steps;
        let named = [("event", event), ("evaluation", evaluation), ("reply", reply), ("echo", echo)];
        for (step, cost) in named {
            println!("  {step}: {} allocations, {} bytes", cost.count_total, cost.bytes_total);
        }
    }
    let [small, .., large] = all;
    assert_eq!(large.event.count_total, small.event.count_total);
    assert_eq!(large.echo.count_total, small.echo.count_total);
    // Numbers in a summary that grow by two digits may make its text grow once more.
    let more = |of: fn(&Steps) -> &AllocationInfo| of(large).count_total - of(small).count_total;
    assert!(more(|steps| &steps.evaluation) <= 3, "{all:?}");
    assert!(more(|steps| &steps.reply) <= 3, "{all:?}");
    // The bound is a constant, far from the cost of a copy of every Task and of its Pod's name.
    assert!(large.event.count_total <= 8 && large.evaluation.count_total <= 64, "{all:?}");
}

#[test]
fn a_pod_event_costs_two_pointers_a_task_and_its_echo_one_text_copy() {
    let all = &*STEPS;
    let [small, .., large] = all;
    let added = (SIZES[2] - SIZES[0]) as u64;
    let a_task = |of: fn(&Steps) -> &AllocationInfo| {
        (of(large).bytes_total.saturating_sub(of(small).bytes_total)) as f64 / added as f64
    };
    // The name of the Pod has more digits.
    assert!(a_task(|steps| &steps.event) < 0.01, "{all:?}");
    assert!(a_task(|steps| &steps.evaluation) <= 16.1, "{all:?}");
    assert!(a_task(|steps| &steps.reply) <= 16.1, "{all:?}");
    let text = |tasks| framework("job", tasks, 1).to_string().len();
    let text = (text(SIZES[2]) - text(SIZES[0])) as f64 / added as f64;
    assert!(a_task(|steps| &steps.echo) <= text + 0.1, "{text}: {all:?}");
}

#[test]
fn a_task_that_stays_as_it_is_is_shared_with_the_status_before() {
    let job = Job::moved(1000);
    let next = framework_core::sync(&job.observed(), moment(), &policy()).persist.expect("an address");
    let (before, after) = (&job.roles()[0].task_statuses, &next.task_roles()[0].task_statuses);
    let copied = before.iter().zip(after).filter(|(before, after)| !before.is_same(after)).count();
    assert_eq!(copied, 1);
}

#[test]
fn a_plan_costs_as_many_allocations_for_any_number_of_waiting_tasks() {
    let policy = policy();
    let cost = |tasks| {
        let job = Job::waiting(tasks);
        measure(|| drop(black_box(framework_core::sync(&job.observed(), moment(), &policy)))).count_total
    };
    let costs = [1000, 10_000].map(cost);
    assert!(costs[1] <= costs[0] + 3, "names and counts have one more digit: {costs:?}");
}
