//! One interleaving for each rule that keeps a slot from having two owners. It is harmless with the rule.
//! Without the rule, a replica acts for a slot that it does not own.

use framework_core::Defect;
use framework_message::Slot;
use framework_shard::defect::{Defect as ShardDefect, Defects};
use framework_sim::{Cut, Exchange, Fault, History, Options, Rule, SimCluster, User, Verb, check};

use crate::replicas::{policy, shared};
use crate::simulation::controller::{Controller, MemberSetup, Setup, member_of};
use crate::simulation::life::calm;
use crate::simulation::manifest::{Deeds, SLOT, framework};
use crate::simulation::{SECOND, pass, seeds, simulate, slots};

/// An interleaving, by its seed and the rule that the replicas lack.
type Interleaving = fn(u64, Lack) -> Result<(), String>;

/// The rule that the replicas lack.
#[derive(Clone, Copy, Debug)]
enum Lack {
    Nothing,
    Engine(Defect),
    Member(ShardDefect),
}

/// Two replicas with equal shares.
struct Fixture {
    cluster: SimCluster,
    user: User,
    /// It started first.
    leader: Controller,
    other: Controller,
}

impl Fixture {
    async fn new(cluster: SimCluster, lack: Lack, mut setup: Setup) -> Self {
        let mut policy = policy();
        match lack {
            Lack::Nothing => {}
            Lack::Engine(rule) => setup.policy.defects.insert(rule),
            Lack::Member(rule) => policy.defects = Defects::from(rule),
        }
        let start = |number: usize| {
            let (host, pod) = (format!("host-{number}"), format!("pod-{number}"));
            let member = Some(MemberSetup { policy, host, pod, rate: 1000 });
            Controller::start(&cluster, number, 7, &Setup { member, ..setup.clone() })
        };
        let leader = start(1);
        shared(&cluster, &[&leader]).await;
        let other = start(2);
        shared(&cluster, &[&leader, &other]).await;
        let user = cluster.user();
        Fixture { cluster, user, leader, other }
    }

    /// Waits until all Frameworks have this state.
    async fn all_are(&self, state: &'static str) {
        let are = |user: &User| user.list("frameworks").iter().all(|one| one["status"]["state"] == state);
        assert!(self.cluster.until(SECOND * 120, are).await, "not all are {state}");
    }

    /// The other replica's member is cut off: no renewal arrives, and no watch shows anything. Its controller
    /// goes on.
    fn cut_member(&self) {
        let member = member_of(&self.other.name);
        for plural in ["leases", "configmaps"] {
            self.cluster.freeze_watches(&member, plural, SECOND * 100);
        }
        self.cluster.faults(|faults| faults.cut(&member, Cut::Silent));
    }

    /// The first act for a slot that is not of its sender.
    fn judged(&self) -> Result<(), String> {
        judged(self.cluster.history())
    }
}

fn judged(history: History) -> Result<(), String> {
    slots::judge(&history, &[]).map(|_| ()).map_err(|(what, _)| what)
}

fn play<F: Future<Output = Result<(), String>>>(
    seed: u64,
    lack: Lack,
    setup: Setup,
    interleaving: impl FnOnce(Fixture) -> F,
) -> Result<(), String> {
    simulate(seed, Options { keep_trace: false, ..calm() }, |cluster| async move {
        interleaving(Fixture::new(cluster, lack, setup).await).await
    })
}

/// B2. The Lease of a replica is not renewed. All Frameworks are stopped while the replica may still act.
fn take_over(seed: u64, lack: Lack) -> Result<(), String> {
    play(seed, lack, Setup::default(), |fixture| async move {
        for index in 0..16 {
            framework(&format!("f{index}")).role("w", 1).fate("run-ms", "forever").create(&fixture.user);
        }
        fixture.all_are("AttemptRunning").await;
        fixture.cut_member();
        // Its last renewal was sent less than a second before, and lets it act for four seconds.
        pass(SECOND * 5 / 2).await;
        (0..16).for_each(|index| assert!(fixture.user.stop(&format!("f{index}"))));
        fixture.all_are("Completed").await;
        fixture.judged()
    })
}

/// Requests wait for the budget when the right to act ends.
fn waiting_requests(seed: u64, lack: Lack) -> Result<(), String> {
    let mut setup = Setup::default();
    (setup.settings.qps, setup.settings.burst) = (8.0, 4);
    play(seed, lack, setup, |fixture| async move {
        for index in 0..8 {
            framework(&format!("f{index}")).role("w", 40).fate("run-ms", "forever").create(&fixture.user);
        }
        let begun = |user: &User| user.list("pods").len() > 8;
        assert!(fixture.cluster.until(SECOND * 60, begun).await, "no Pods are created");
        fixture.cut_member();
        pass(SECOND * 20).await;
        fixture.judged()
    })
}

/// B8. A slot goes away and comes back. Creates of its Frameworks were refused when it went away; under the
/// other owner the Frameworks run to their end.
fn old_list(seed: u64, lack: Lack) -> Result<(), String> {
    play(seed, lack, Setup::default(), |fixture| async move {
        let refused = Rule::new(Fault::Quota).verb(Verb::Create).plural("pods").times(u32::MAX);
        fixture.cluster.faults(|faults| faults.script(refused));
        for index in 0..8 {
            framework(&format!("f{index}")).role("w", 1).create(&fixture.user);
        }
        fixture.all_are("AttemptPreparing").await;
        pass(SECOND * 5).await;
        let clients = [fixture.other.name.clone(), member_of(&fixture.other.name)];
        clients.iter().for_each(|who| fixture.cluster.faults(|faults| faults.cut(who, Cut::Refused)));
        shared(&fixture.cluster, &[&fixture.leader]).await;
        fixture.cluster.faults(framework_sim::Faults::unscript);
        fixture.all_are("Completed").await;
        let before = fixture.cluster.history().exchanges.len();
        clients.iter().for_each(|who| fixture.cluster.faults(|faults| faults.mend(who)));
        // Its next LIST comes late. By then nothing is left to be done.
        let late = Rule::new(Fault::Delay(SECOND * 30)).verb(Verb::List).who(&fixture.other.name);
        fixture.cluster.faults(|faults| faults.script(late.times(u32::MAX)));
        shared(&fixture.cluster, &[&fixture.leader, &fixture.other]).await;
        pass(SECOND * 60).await;
        let history = fixture.cluster.history();
        let is_act = |one: &&Exchange| {
            *one.who == *fixture.other.name && matches!(one.verb, Verb::Create | Verb::UpdateStatus)
        };
        let stale = history.exchanges[before..].iter().find(is_act);
        stale.map_or(Ok(()), |act| Err(format!("it acts for {}, which has ended", act.name)))?;
        check::at_quiescence(&history).map_err(|violation| violation.to_string())?;
        judged(history)
    })
}

/// B10. Frameworks are created with labels of other slots.
fn foreign_labels(seed: u64, lack: Lack) -> Result<(), String> {
    play(seed, lack, Setup::default(), |fixture| async move {
        for index in 0..8_u8 {
            let mut copy = framework(&format!("f{index}")).role("w", 1).value();
            copy["metadata"]["labels"][SLOT] = Slot(index * 32).to_string().into();
            fixture.user.create(copy).expect("the name is free");
        }
        fixture.all_are("Completed").await;
        let mut history = fixture.cluster.history();
        // The replica that sees a wrong label puts it right.
        history.exchanges.retain(|one| one.verb != Verb::Patch);
        judged(history)
    })
}

#[test]
fn no_interleaving_of_a_rule_of_ownership_gives_a_slot_two_owners() {
    for interleaving in [take_over, waiting_requests, old_list, foreign_labels] {
        assert_eq!(interleaving(1, Lack::Nothing), Ok(()));
    }
}

#[test]
fn each_rule_of_ownership_that_is_switched_off_gives_two_owners() {
    let second_owner = "it acts for a slot that it does not own";
    let cases: [(Interleaving, Lack, &str); 4] = [
        (take_over, Lack::Member(ShardDefect::TakeOverAtOnce), second_owner),
        (waiting_requests, Lack::Engine(Defect::AskOnce), second_owner),
        (old_list, Lack::Engine(Defect::TrustOldList), "which has ended"),
        (foreign_labels, Lack::Engine(Defect::TrustLabel), second_owner),
    ];
    for (interleaving, lack, expected) in cases {
        let found = seeds::until_wrong(|seed| interleaving(seed, lack));
        let (count, what) = found.unwrap_or_else(|| panic!("{lack:?}: nothing goes wrong"));
        eprintln!("{lack:?}: after {count} seeds: {what}");
        assert!(what.contains(expected), "{lack:?}: {what}");
    }
}
