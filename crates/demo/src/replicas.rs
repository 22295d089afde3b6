//! `cargo xtask demo --replicas N`: several replicas share Frameworks, and one is killed while they run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use framework_api::name::SLOT_LABEL;
use framework_api::{Framework, State};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::{LEASE_SECONDS, host_replica};
use crate::testbed::{Own, Testbed};

/// The names of the hosts on which replicas run.
const HOSTS: [&str; 5] = ["replica-0", "replica-1", "replica-2", "replica-3", "replica-4"];
/// The greatest number of replicas of a demo.
pub(crate) const MOST: u8 = 5;
/// The number of Frameworks, and of the Tasks of each.
const FRAMEWORKS: usize = 30;
const TASKS: i32 = 3;
/// How long Tasks run: long enough for a take-over meanwhile.
const RUN: &str = "12s";
/// The object that names the owner of each slot.
const MAP: &str = "frameworkcontroller-slots";

const SLOTS: usize = 256;
const PATIENCE: Duration = Duration::from_secs(120);
const EVERY: Duration = Duration::from_millis(100);

/// The owner of each slot.
type Owners = BTreeMap<usize, String>;

/// The replicas and the cluster they act on.
struct Show<'a> {
    testbed: &'a Testbed,
    frameworks: Api<Framework>,
    maps: Api<ConfigMap>,
    replicas: Vec<(&'static str, u32)>,
    began: Instant,
}

/// Starts the replicas, runs Frameworks, kills one replica, and shows the owners of the slots meanwhile.
pub(crate) async fn show(testbed: &Testbed, controller: &Path, replicas: u8) -> Result<()> {
    let own = testbed.own().context("replicas run beside a control plane of this process")?;
    let Own { cluster, logs, .. } = own;
    let client = testbed.client().await?;
    let mut show = Show {
        testbed,
        frameworks: Api::default_namespaced(client.clone()),
        maps: Api::default_namespaced(client),
        replicas: Vec::new(),
        began: Instant::now(),
    };
    for host in HOSTS.into_iter().take(usize::from(replicas)) {
        show.replicas.push((host, host_replica(cluster, controller, host, logs)?));
    }
    let all = format!("Each owns some of the {SLOTS} slots, and the Frameworks in them:");
    writeln!(io::stdout(), "{replicas} replicas start. {all}")?;
    let owners = show.until("each has its share", Show::has_equal_shares).await?;
    show.say(&format!("shares: {}", shares(&owners)))?;
    show.create().await?;
    show.until_frameworks("all Tasks have started", |framework| started(framework) == TASKS).await?;
    let held = show.frameworks_by_owner(&owners).await?;
    show.say(&format!("all {FRAMEWORKS} Frameworks of {TASKS} Tasks have started: {held}"))?;
    let (victim, pid) = show.replicas.remove(0);
    cluster.kill_hosted(pid)?;
    let killed = Instant::now();
    show.say(&format!("{victim} is killed with SIGKILL; its Tasks run on"))?;
    let before = owners;
    let owners = show.until("the others have its slots", Show::has_equal_shares).await?;
    let after = killed.elapsed().as_secs_f64();
    let lease = format!("its Lease of {LEASE_SECONDS} s had to expire");
    show.say(&format!("its slots were taken over after {after:.1} s: {lease}"))?;
    let of_victim = before.iter().filter(|(_, owner)| owner.as_str() == victim);
    let taken: Owners = of_victim.map(|(slot, _)| (*slot, owners[slot].clone())).collect();
    show.say(&format!("the slots of {victim} went to: {}", shares(&taken)))?;
    show.say(&format!("shares: {}", shares(&owners)))?;
    let completed = |framework: &Framework| state(framework) == Some(State::Completed);
    show.until_frameworks("all Frameworks have completed", completed).await?;
    let held = show.frameworks_by_owner(&owners).await?;
    show.say(&format!("all {FRAMEWORKS} Frameworks have completed: {held}"))?;
    show.check_ends().await
}

impl Show<'_> {
    fn say(&self, what: &str) -> Result<()> {
        Ok(writeln!(io::stdout(), "  {:>5.1}s {what}", self.began.elapsed().as_secs_f64())?)
    }

    /// Waits until the owners of the slots are as asked.
    async fn until(&self, what: &str, is: impl Fn(&Self, &Owners) -> bool) -> Result<Owners> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.testbed.check()?;
            let owners = self.owners().await?;
            if is(self, &owners) {
                return Ok(owners);
            }
            ensure!(Instant::now() < deadline, "not within {} s: {what}", PATIENCE.as_secs());
            tokio::time::sleep(EVERY).await;
        }
    }

    async fn until_frameworks(&self, what: &str, is: impl Fn(&Framework) -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !self.frameworks.list(&ListParams::default()).await?.iter().all(&is) {
            self.testbed.check()?;
            ensure!(Instant::now() < deadline, "not within {} s: {what}", PATIENCE.as_secs());
            tokio::time::sleep(EVERY).await;
        }
        Ok(())
    }

    async fn owners(&self) -> Result<Owners> {
        let map = self.maps.get_opt(MAP).await?.and_then(|map| map.data).unwrap_or_default();
        let mut owners = Owners::new();
        for (slot, row) in map {
            let row: Value = serde_json::from_str(&row).context("reading the map")?;
            if let Some(owner) = row["owner"].as_str() {
                let host = owner.split('/').next().unwrap_or_default();
                owners.insert(slot.parse()?, host.trim_start_matches("frameworkcontroller-member-").into());
            }
        }
        Ok(owners)
    }

    /// Whether each running replica has its share, within a tenth, and nobody else has slots.
    fn has_equal_shares(&self, owners: &Owners) -> bool {
        let share = SLOTS / self.replicas.len();
        let is_fair = |(host, _): &(&str, u32)| {
            let slots = owners.values().filter(|owner| owner == host).count();
            slots.abs_diff(share) <= share / 10 + 1
        };
        let is_there = |owner: &String| self.replicas.iter().any(|(host, _)| host == owner);
        owners.len() == SLOTS && self.replicas.iter().all(is_fair) && owners.values().all(is_there)
    }

    async fn create(&self) -> Result<()> {
        let container = json!({"name": "main", "image": "busybox"});
        let annotations = json!({"test.frameworkcontroller.microsoft.com/run-duration": RUN});
        let pod = json!({
            "metadata": {"annotations": annotations},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        });
        let role = json!({"name": "worker", "taskNumber": TASKS, "task": {"pod": pod}});
        for number in 0..FRAMEWORKS {
            let framework = json!({
                "metadata": {"name": format!("job{number:02}")},
                "spec": {"executionType": "Start", "taskRoles": [role]},
            });
            self.frameworks.create(&PostParams::default(), &serde_json::from_value(framework)?).await?;
        }
        Ok(())
    }

    /// How many Frameworks each replica holds.
    async fn frameworks_by_owner(&self, owners: &Owners) -> Result<String> {
        let mut held: BTreeMap<&str, usize> = BTreeMap::new();
        for framework in &self.frameworks.list(&ListParams::default()).await? {
            let slot = framework.labels().get(SLOT_LABEL).and_then(|slot| slot.parse().ok());
            let owner = slot.and_then(|slot: usize| owners.get(&slot));
            *held.entry(owner.map_or("no replica", String::as_str)).or_default() += 1;
        }
        Ok(counts(&held))
    }

    /// Fails unless each Framework succeeded, without a retry.
    async fn check_ends(&self) -> Result<()> {
        let mut wrong = String::new();
        for framework in &self.frameworks.list(&ListParams::default()).await? {
            let status = framework.status.as_ref().context("a Framework that completed has a status")?;
            let end = status.attempt_status.completion_status.as_ref();
            let retried = status.task_roles().iter().flat_map(|role| &role.task_statuses);
            let retried = retried.filter(|task| task.attempt_status.id > 0).count();
            if end.is_none_or(|end| end.code != 0) || retried > 0 {
                writeln!(wrong, "{}: {end:?}, {retried} Tasks were retried", framework.name_any())?;
            }
        }
        ensure!(wrong.is_empty(), "not all ended as they should:\n{wrong}");
        Ok(writeln!(io::stdout(), "\nEach Framework succeeded, and no Task ran twice.")?)
    }
}

fn state(framework: &Framework) -> Option<State> {
    framework.status.as_ref().map(|status| status.state)
}

/// The Tasks that run or have run: on a slow machine some end before others start.
fn started(framework: &Framework) -> i32 {
    let counts = framework.status.as_ref().and_then(|status| status.task_counts);
    counts.map_or(0, |counts| counts.running + counts.succeeded)
}

fn shares(owners: &Owners) -> String {
    let mut shares: BTreeMap<&str, usize> = BTreeMap::new();
    owners.values().for_each(|owner| *shares.entry(owner).or_default() += 1);
    counts(&shares)
}

fn counts(of: &BTreeMap<&str, usize>) -> String {
    of.iter().map(|(host, count)| format!("{host} {count}")).collect::<Vec<_>>().join(", ")
}
