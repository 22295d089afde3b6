//! Statuses that the original may have stored: from each of them, a Framework goes on to its end.
//!
//! The combinations are the product of all states and facts, without those that the original never stores.
//! In doubt, a combination stays. The functions named here are those of the original. A UID that is stored
//! before its object is created is of another client: the original stores it together with the next state.

use std::fmt::Debug;

use framework_api::code::Code;
use framework_api::name;
use framework_api::status::{
    FrameworkAttemptCompletionStatus, RetryPolicyStatus, TaskAttemptCompletionStatus, TaskAttemptStatus,
    TaskRoleStatus, TaskStatus,
};
use framework_api::{Framework, FrameworkStatus, Shared, State};
use framework_core::first_attempt::announced;
use framework_core::ideal_cluster::IdealCluster;
use framework_core::observed::{ConfigMapFacts, Deletion, PodFacts, PodPhase};

use crate::world::{World, created, framework};

const STATES: [State; 9] = [
    State::AttemptCreationPending,
    State::AttemptCreationRequested,
    State::AttemptPreparing,
    State::AttemptRunning,
    State::AttemptDeletionPending,
    State::AttemptDeletionRequested,
    State::AttemptDeleting,
    State::AttemptCompleted,
    State::Completed,
];

/// The ends of a Task: three of its Pod, that of its Framework, and its removal.
const ENDS: [Code; 5] = [
    Code::ContainerTransientFailed,
    Code::ContainerPermanentFailed,
    Code::Succeeded,
    Code::FrameworkAttemptCompletion,
    Code::DeleteTaskRequested,
];

/// The ConfigMap that the cache shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Map {
    Absent,
    Present,
    Deleting,
}

/// The Pod that the cache shows under the name of the Task's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pod {
    Absent,
    Pending,
    Running,
    Succeeded,
    Failed,
    Terminating,
    /// The ConfigMap owns it, and no status records it.
    Orphan,
    /// The ConfigMap of an earlier attempt owned it. Others deleted that ConfigMap, and the original did not
    /// wait for its Pods.
    Former,
    /// As `Former`, and the garbage collector deletes it.
    FormerTerminating,
}

const PODS: [Pod; 9] = [
    Pod::Absent,
    Pod::Pending,
    Pod::Running,
    Pod::Succeeded,
    Pod::Failed,
    Pod::Terminating,
    Pod::Orphan,
    Pod::Former,
    Pod::FormerTerminating,
];

impl Pod {
    fn is_former(self) -> bool {
        matches!(self, Pod::Former | Pod::FormerTerminating)
    }

    /// Whether it is one of the stored attempt.
    fn is_current(self) -> bool {
        self != Pod::Absent && !self.is_former()
    }
}

/// The change of the spec since the status was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    None,
    Stop,
    /// The TaskRole keeps the first Task only.
    TaskRemoved,
    /// The second Task has a TaskRole of its own, which is gone.
    RoleRemoved,
}

const CHANGES: [Change; 4] = [Change::None, Change::Stop, Change::TaskRemoved, Change::RoleRemoved];

/// The stored attempt of the Framework. `recorded`: it has the UID of its ConfigMap. `delayed`: its retry is
/// decided.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    state: State,
    recorded: bool,
    delayed: bool,
    map: Map,
}

/// A stored Task. `recorded`: it has the UID of its Pod. `removed`: it has deletionPending.
#[derive(Clone, Copy, Debug)]
struct Task {
    state: State,
    recorded: bool,
    end: Option<Code>,
    removed: bool,
    delayed: bool,
    pod: Pod,
}

impl Attempt {
    fn all() -> Vec<Attempt> {
        let mut all = Vec::new();
        for state in STATES {
            for [recorded, delayed] in [[false, false], [false, true], [true, false], [true, true]] {
                let maps = [Map::Absent, Map::Present, Map::Deleting];
                all.extend(maps.map(|map| Attempt { state, recorded, delayed, map }));
            }
        }
        all.retain(Attempt::is_stored);
        all
    }

    fn is_stored(&self) -> bool {
        match self.state {
            State::AttemptCreationPending => !self.delayed,
            // The ConfigMap is gone. ShouldRetry refuses the end by a stop, which needs no ConfigMap.
            State::AttemptCompleted => self.map == Map::Absent && (self.recorded || !self.delayed),
            // It goes nowhere from there.
            State::Completed => false,
            _ => self.recorded && !self.delayed,
        }
    }

    /// Whether the second Task of this attempt may be stored so.
    fn may_have(&self, task: &Task) -> bool {
        match self.state {
            // Tasks are added and removed from the beginning. syncTaskState does the rest, and comes later.
            State::AttemptCreationPending | State::AttemptCreationRequested => {
                task.state == State::AttemptCreationPending
                    && !task.pod.is_current()
                    && task.end != Some(Code::FrameworkAttemptCompletion)
            }
            // completeFrameworkAttempt ends Tasks and changes the state of the Framework.
            State::AttemptPreparing | State::AttemptRunning => {
                task.end != Some(Code::FrameworkAttemptCompletion)
            }
            // It ends all Tasks. syncTaskState may retry one after that.
            State::AttemptDeletionPending | State::AttemptDeletionRequested => {
                task.end.is_some() || task.state == State::AttemptCreationPending
            }
            // If others delete the ConfigMap, it is not called, and no Task is ended.
            State::AttemptDeleting => true,
            // completeFrameworkAttempt completes all Tasks. Without a ConfigMap there was no Pod.
            _ => {
                let had_no_pod = !task.recorded && !task.pod.is_current();
                task.state == State::Completed && (self.recorded || had_no_pod)
            }
        }
    }

    /// The first Task, as usual in such an attempt.
    fn first_task(&self) -> Task {
        let (state, end, pod) = match self.state {
            State::AttemptCreationPending | State::AttemptCreationRequested => {
                (State::AttemptCreationPending, None, Pod::Absent)
            }
            State::AttemptPreparing | State::AttemptRunning => (State::AttemptPreparing, None, Pod::Pending),
            _ => (State::Completed, Some(Code::Succeeded), Pod::Absent),
        };
        let recorded = self.recorded && state != State::AttemptCreationPending;
        Task { state, recorded, end, removed: false, delayed: false, pod }
    }
}

impl Task {
    fn all() -> Vec<Task> {
        let mut all = Vec::new();
        for state in STATES {
            for end in ENDS.map(Some).into_iter().chain([None]) {
                for pod in PODS {
                    for flags in 0..8 {
                        let [recorded, removed, delayed] = [1, 2, 4].map(|flag| flags & flag != 0);
                        all.push(Task { state, recorded, end, removed, delayed, pod });
                    }
                }
            }
        }
        all.retain(Task::is_stored);
        all
    }

    fn is_stored(&self) -> bool {
        let by_others = [Code::FrameworkAttemptCompletion, Code::DeleteTaskRequested];
        let has_own_end = self.end.is_some_and(|end| !by_others.contains(&end));
        let fits_state = match self.state {
            // syncTaskState stores the end of a Pod together with the next state.
            State::AttemptCreationPending => !has_own_end,
            // MarkAsDeletionPending stores an end.
            State::AttemptCreationRequested | State::AttemptPreparing | State::AttemptRunning => {
                self.recorded && !has_own_end && (self.end.is_some() || !self.removed)
            }
            // completeTaskAttempt stores an end. AttemptCompleted follows a refused Pod, too.
            State::AttemptCompleted | State::Completed => self.end.is_some(),
            _ => self.recorded && self.end.is_some(),
        };
        // Only a removed Task has that end.
        let fits_end = self.removed || self.end != Some(Code::DeleteTaskRequested);
        // ShouldRetry refuses the ends by others.
        let fits_delay = !self.delayed || (self.state == State::AttemptCompleted && has_own_end);
        let fits_pod = match self.pod {
            Pod::Absent | Pod::Orphan => true,
            // It has the name, so the Task got no Pod.
            Pod::Former | Pod::FormerTerminating => !self.recorded,
            _ => self.recorded,
        };
        fits_state && fits_end && fits_delay && fits_pod
    }

    fn status(&self, role: &str, index: i32) -> TaskStatus {
        let (at, has_ended) = (created(), self.state >= State::AttemptCompleted);
        let name = name::pod_name("job", role, index);
        let end = |code| Box::new(TaskAttemptCompletionStatus::predefined(code, String::new()));
        TaskStatus {
            index,
            instance_uid: format!("task of {name}"),
            start_time: at,
            run_time: None,
            completion_time: (self.state == State::Completed).then_some(at),
            state: self.state,
            transition_time: at,
            deletion_pending: self.removed,
            queue_unit_generation: None,
            retry_policy_status: retry(self.delayed),
            attempt_status: TaskAttemptStatus {
                completion_time: has_ended.then_some(at),
                instance_uid: self.recorded.then(|| name::attempt_instance_uid(0, &uid_of(&name))),
                pod_uid: self.recorded.then(|| uid_of(&name)),
                completion_status: self.end.map(end),
                ..TaskAttemptStatus::new(0, name, at)
            },
        }
    }
}

/// UID of the ConfigMap.
const MAP: &str = "map";
/// UID of the ConfigMap of an earlier attempt.
const FORMER_MAP: &str = "former map";

/// UID of the Pod of this name that a status records.
fn uid_of(pod: &str) -> String {
    format!("uid of {pod}")
}

fn retry(delayed: bool) -> RetryPolicyStatus {
    RetryPolicyStatus { retry_delay_sec: delayed.then_some(30), ..RetryPolicyStatus::default() }
}

fn task_role(name: &str, tasks: Vec<TaskStatus>) -> TaskRoleStatus {
    TaskRoleStatus {
        name: name.to_owned(),
        instance_uid: format!("role {name}"),
        pod_graceful_deletion_timeout_sec: None,
        task_statuses: tasks.into_iter().map(Shared::<TaskStatus>::from).collect(),
    }
}

/// The stored status of the Framework, without fields that the original does not have.
fn stored(framework: &Framework, attempt: &Attempt, roles: Vec<TaskRoleStatus>) -> FrameworkStatus {
    let mut status = announced(framework, created());
    status.state = attempt.state;
    status.retry_policy_status = retry(attempt.delayed);
    let own = &mut status.attempt_status;
    own.config_map_uid = attempt.recorded.then(|| MAP.to_owned());
    own.instance_uid = attempt.recorded.then(|| format!("0_{MAP}"));
    own.completion_time = (attempt.state == State::AttemptCompleted).then(created);
    if attempt.state >= State::AttemptDeletionPending {
        // With a ConfigMap, it is retried if the spec has a retry.
        let retried = Code::ContainerTransientFailed;
        let code = if attempt.recorded { retried } else { Code::StopFrameworkRequested };
        own.completion_status = Some(Box::new(FrameworkAttemptCompletionStatus::predefined(code, "")));
    }
    own.task_role_statuses = Some(roles);
    status
}

/// The Framework and its objects, when it is taken over.
fn taken_over(framework: &Framework, attempt: &Attempt, second: &Task, change: Change) -> IdealCluster {
    let first = attempt.first_task();
    let (role, index) = if change == Change::RoleRemoved { ("b", 0) } else { ("a", 1) };
    let (one, two) = (first.status("a", 0), second.status(role, index));
    let roles = if change == Change::RoleRemoved {
        vec![task_role("a", vec![one]), task_role(role, vec![two])]
    } else {
        vec![task_role(role, vec![one, two])]
    };
    let mut status = stored(framework, attempt, roles);
    if second.pod.is_former() {
        // There was an attempt before.
        status.retry_policy_status.total_retried_count = 1;
        status.attempt_status.id = 1;
    }
    let mut cluster = IdealCluster::new(framework.clone(), created());
    cluster.status = Some(status);
    if attempt.map != Map::Absent {
        let framework_uid = framework.metadata.uid.clone();
        let deleting = attempt.map == Map::Deleting;
        cluster.objects.config_map = Some(ConfigMapFacts { uid: MAP.to_owned(), framework_uid, deleting });
    }
    show(&mut cluster, &name::pod_name("job", "a", 0), first.pod);
    show(&mut cluster, &name::pod_name("job", role, index), second.pod);
    cluster
}

fn show(cluster: &mut IdealCluster, name: &str, pod: Pod) {
    if pod == Pod::Absent {
        return;
    }
    let (uid, map) = match pod {
        Pod::Orphan => ("orphan".to_owned(), MAP),
        Pod::Former | Pod::FormerTerminating => ("former".to_owned(), FORMER_MAP),
        _ => (uid_of(name), MAP),
    };
    let phase = if pod == Pod::Pending { PodPhase::Pending } else { PodPhase::Running };
    let deletion = Deletion { at: created().plus_seconds(30), grace_sec: 30 };
    let is_terminating = matches!(pod, Pod::Terminating | Pod::FormerTerminating);
    let deletion = is_terminating.then_some(deletion);
    let facts = PodFacts { deletion, ..PodFacts::new(uid, map, phase) };
    cluster.objects.pods.insert(name, facts.into());
    match pod {
        Pod::Succeeded => cluster.end_pod(name, 0),
        Pod::Failed => cluster.end_pod(name, 1),
        _ => {}
    }
}

/// How often the cluster does its part until the Framework has to be Completed.
const MOST_ROUNDS: usize = 5;

/// Deletions end, Pods run and succeed, and time passes. Returns whether the Framework completes by that, and
/// nothing is left.
fn live(world: &mut World) -> bool {
    for _ in 0..MOST_ROUNDS {
        finish_deletions(world.settle());
        world.settle().run();
        for name in names(world, |pod| pod.end.is_none()) {
            world.cluster.end_pod(&name, 0);
        }
        world.settle();
        let objects = &world.cluster.objects;
        if world.state() == State::Completed && objects.pods.is_empty() && objects.config_map.is_none() {
            return all_tasks_have_ended(world) && ends_stay(world);
        }
        world.pass(world.policy.object_local_cache_creation_timeout_sec);
    }
    false
}

/// Pods that are being deleted are gone, and then the ConfigMap is. No watch proves that: the controller has
/// to ask.
fn finish_deletions(world: &mut World) {
    let ended = names(world, |pod| pod.deletion.is_some());
    let objects = &mut world.cluster.objects;
    ended.iter().for_each(|name| objects.drop_pod(name));
    let has_pods = !objects.pods.is_empty();
    objects.config_map.take_if(|map| map.deleting && !has_pods);
}

/// The names of the Pods for which `is_meant` holds.
fn names(world: &World, is_meant: impl Fn(&PodFacts) -> bool) -> Vec<String> {
    let pods = world.cluster.objects.pods.iter().filter(|(_, pod)| is_meant(pod));
    pods.map(|(name, _)| name.to_string()).collect()
}

/// Whether each attempt that was over had only Tasks that were over, and shows why.
fn all_tasks_have_ended(world: &World) -> bool {
    let over = world.history.iter().filter(|status| status.state >= State::AttemptCompleted);
    let mut tasks = over.flat_map(FrameworkStatus::all_tasks);
    tasks.all(|task| task.state == State::Completed && task.attempt_status.completion_status.is_some())
}

/// Whether each end of an attempt that was stored stayed as it was.
fn ends_stay(world: &World) -> bool {
    world.history.windows(2).filter(|pair| pair[0].attempt_status.id == pair[1].attempt_status.id).all(
        |pair| {
            let of = |task: &TaskStatus| (task.instance_uid.clone(), task.attempt_status.id);
            let end = |task: &TaskStatus| task.attempt_status.completion_status.clone();
            pair[1].all_tasks().all(|now| {
                let was = pair[0].all_tasks().find(|was| of(was) == of(now)).and_then(&end);
                was.is_none() || was == end(now)
            })
        },
    )
}

/// Prints the combination if an assertion of [`World`] fails.
struct Named<T: Debug>(T);

impl<T: Debug> Drop for Named<T> {
    #[allow(clippy::disallowed_macros, reason = "it says which combination failed")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{:?}", self.0);
        }
    }
}

/// Takes over each status of a Framework in these states, after each change of the spec. The spec has both
/// Tasks and a retry, or the first Task and no retry.
///
/// [`World`] asserts at each step that the persisted status permits the acts, and that no name has two Pods.
fn assert_none_sticks(states: &[State], least: usize) {
    let build = |tasks| framework().role("a", tasks).task_retry(true, 0);
    let (first_only, both) = (build(1).object(), build(2).retry(true, 0).object());
    let (attempts, tasks, mut world) = (Attempt::all(), Task::all(), build(2).world());
    let (mut stuck, mut tried) = (Vec::new(), 0);
    for attempt in attempts.iter().filter(|attempt| states.contains(&attempt.state)) {
        for second in tasks.iter().filter(|task| attempt.may_have(task)) {
            tried += 1;
            for change in CHANGES {
                let case = (attempt, second, change);
                let _named = Named(case);
                let spec = match change {
                    Change::None | Change::Stop => &both,
                    Change::TaskRemoved | Change::RoleRemoved => &first_only,
                };
                world.cluster = taken_over(spec, attempt, second, change);
                world.history = world.cluster.status.iter().cloned().collect();
                world.snapshots.clear();
                world.acts.clear();
                world.reports.clear();
                if change == Change::Stop {
                    world.stop();
                }
                if !live(&mut world) {
                    stuck.push(case);
                }
            }
        }
    }
    assert!(tried >= least, "only {tried} statuses");
    assert!(stuck.is_empty(), "{} of {tried} statuses stick, such as {:#?}", stuck.len(), stuck[0]);
}

#[test]
fn no_stored_status_before_and_between_attempts_sticks() {
    let states = [State::AttemptCreationPending, State::AttemptCreationRequested, State::AttemptCompleted];
    assert_none_sticks(&states, 270);
}

#[test]
fn no_stored_status_of_an_attempt_that_runs_sticks() {
    assert_none_sticks(&[State::AttemptPreparing, State::AttemptRunning], 2_500);
}

#[test]
fn no_stored_status_of_an_attempt_that_ends_sticks() {
    let states = [State::AttemptDeletionPending, State::AttemptDeletionRequested, State::AttemptDeleting];
    assert_none_sticks(&states, 4_800);
}
