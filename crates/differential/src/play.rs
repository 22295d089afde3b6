//! Plays a plan on one side, and observes the Framework each time it comes to rest.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use framework_api::status::TaskStatus;
use framework_api::{Framework, RetryPolicy, State, TaskRole};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy};
use serde_json::{Value, json};

use crate::ending::success;
use crate::facts::{self, Facts};
use crate::form::Forms;
use crate::kubelet::{PodId, unless_gone};
use crate::plan::{Ending, Plan, Step};
use crate::quiescence::{Removed, is_delayed, is_quiescent, lives};
use crate::side::Side;

/// How long a Framework may take to come to rest.
const PATIENCE: Duration = Duration::from_secs(90);
/// For how long nothing may change before a Framework counts as at rest. The last change may have no visible
/// effect, and the controller must have seen it before the next one.
const CALM: Duration = Duration::from_millis(300);
/// How many Pods succeed after the last step of the plan before the Framework is stopped.
const LAST_ENDS: usize = 6;
const EVERY: Duration = Duration::from_millis(20);

/// The observations of a plan on one side.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Timeline {
    pub(crate) observations: Vec<Observation>,
    /// The created form of its Pods.
    pub(crate) pods: Forms,
    /// The attempts whose ConfigMap the user deleted.
    pub(crate) lost: BTreeSet<i32>,
    /// The condition that did not come, if the plan was not played to its end.
    pub(crate) stuck: Option<String>,
}

/// The Framework at rest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Observation {
    /// The step before it, and its target.
    pub(crate) after: String,
    pub(crate) facts: Facts,
}

/// Plays it. An error comes from the API server or from this program, never from the controller.
pub(crate) async fn play(side: &Side, plan: &Plan) -> Result<Timeline> {
    let mut player = Player {
        side,
        plan,
        name: plan.name.clone(),
        ended: HashSet::new(),
        generation: 0,
        timeline: Timeline::default(),
    };
    match player.perform().await {
        Ok(()) => {}
        Err(error) if error.is::<Stuck>() => player.timeline.stuck = Some(format!("{error:#}")),
        Err(error) => return Err(error.context(format!("{}, seed {}", side.name, plan.seed))),
    }
    player.timeline.pods = side.kubelet.take_forms(&player.name);
    Ok(player.timeline)
}

/// The Framework did not reach an expected state in time.
#[derive(Debug)]
struct Stuck(String);

impl std::fmt::Display for Stuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not within {} s: {}", PATIENCE.as_secs(), self.0)
    }
}

impl std::error::Error for Stuck {}

struct Player<'a> {
    side: &'a Side,
    plan: &'a Plan,
    name: String,
    /// UIDs of Pods and ConfigMaps that were ended or deleted.
    ended: HashSet<String>,
    /// The generation after the user's last change.
    generation: i64,
    timeline: Timeline,
}

impl Player<'_> {
    async fn perform(&mut self) -> Result<()> {
        match &self.plan.manifest {
            Some(manifest) => self.side.apply(manifest)?,
            None => {
                let framework = self.plan.framework();
                let created = self.side.frameworks.create(&PostParams::default(), &framework).await;
                created.context("creating the Framework")?;
            }
        }
        let mut framework = self.settle("creation".into()).await?;
        for step in &self.plan.steps {
            if is_over(&framework) {
                break;
            }
            framework = self.step(step, framework).await?;
        }
        for _ in 0..LAST_ENDS {
            if !is_over(&framework) {
                framework = self.step(&Step::End { pick: 0, ending: success() }, framework).await?;
            }
        }
        if !is_over(&framework) {
            self.step(&Step::Stop, framework).await?;
        }
        self.delete().await
    }

    /// Does a step, and waits until all its effects are visible.
    async fn step(&mut self, step: &Step, framework: Arc<Framework>) -> Result<Arc<Framework>> {
        next_second(&framework).await;
        let target = match step {
            Step::Start => self.patch(json!({"executionType": "Start"})).await.map(|()| None)?,
            Step::Stop => self.stop().await.map(|()| None)?,
            Step::End { pick, ending } => self.end(&framework, *pick, ending).await?,
            Step::EndThenStop { pick, ending } => {
                let target = self.end(&framework, *pick, ending).await?;
                self.until_at_rest(Removed::Gone, is_delayed).await?;
                self.stop().await?;
                target
            }
            Step::Burst { endings } => self.burst(&framework, endings).await?,
            Step::DeletePod { pick } => self.delete_pod(&framework, *pick).await?,
            Step::DeleteConfigMap => self.delete_config_map(&framework).await?,
            Step::Rescale { task_roles } => self.rescale(task_roles).await.map(|()| None)?,
            Step::Bounce { down, up } => self.bounce(down, up).await.map(|()| None)?,
            Step::Patch { patch } => self.patch_as_shown(patch).await.map(|()| None)?,
        };
        let target = target.map(|target| format!(" {target}")).unwrap_or_default();
        self.settle(format!("{}{target}", step.name())).await
    }

    async fn patch(&mut self, spec: Value) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": spec}));
        let patched = self.side.frameworks.patch(&self.name, &PatchParams::default(), &patch).await;
        self.generation = patched.context("changing the Framework")?.metadata.generation.unwrap_or_default();
        Ok(())
    }

    async fn patch_as_shown(&mut self, patch: &str) -> Result<()> {
        self.side.kubectl(&["patch", "framework", &self.name, "--type=json", "--patch", patch], "")?;
        let patched = self.side.frameworks.get(&self.name).await.context("reading the Framework")?;
        self.generation = patched.metadata.generation.unwrap_or_default();
        Ok(())
    }

    async fn stop(&mut self) -> Result<()> {
        self.patch(json!({"executionType": "Stop"})).await
    }

    async fn rescale(&mut self, task_roles: &[TaskRole]) -> Result<()> {
        self.patch(json!({"taskRoles": task_roles})).await
    }

    async fn bounce(&mut self, down: &[TaskRole], up: &[TaskRole]) -> Result<()> {
        self.side.kubelet.freeze(&self.name);
        self.rescale(down).await?;
        // Changed again when the controller has seen the first change, and no decision depends on it.
        self.until_at_rest(Removed::Pending, is_ending).await?;
        self.rescale(up).await?;
        self.side.kubelet.thaw(&self.name).await
    }

    /// Ends the Pod of one Task, and returns its name.
    async fn end(&mut self, framework: &Framework, pick: usize, ending: &Ending) -> Result<Option<String>> {
        let Some(id) = picked(self.living(framework, |_| true), pick) else { return Ok(None) };
        self.ended.insert(id.1.clone());
        self.side.kubelet.end(&id, ending).await?;
        Ok(Some(id.0))
    }

    async fn burst(&mut self, framework: &Framework, endings: &[Ending]) -> Result<Option<String>> {
        let always = RetryPolicy { fancy_retry_policy: false, max_retry_count: -2 };
        let all = self.living(framework, |role| {
            framework.spec.task_role(role).is_some_and(|role| role.task.retry_policy == always)
        });
        self.ended.extend(all.iter().map(|(_, uid)| uid.clone()));
        for (id, ending) in all.iter().zip(endings.iter().cycle()) {
            self.side.kubelet.end(id, ending).await?;
        }
        let names: Vec<String> = all.into_iter().map(|(name, _)| name).collect();
        Ok((!names.is_empty()).then(|| names.join(", ")))
    }

    async fn delete_pod(&mut self, framework: &Framework, pick: usize) -> Result<Option<String>> {
        let Some((name, uid)) = picked(self.living(framework, |_| true), pick) else { return Ok(None) };
        self.ended.insert(uid);
        let deleted = self.side.pods.delete(&name, &DeleteParams::default()).await;
        unless_gone(deleted.map(drop)).context("deleting a Pod")?;
        Ok(Some(name))
    }

    async fn delete_config_map(&mut self, framework: &Framework) -> Result<Option<String>> {
        let attempt = framework.status.as_ref().map(|status| &status.attempt_status);
        let Some((attempt, uid)) = attempt.and_then(|one| Some((one, one.config_map_uid.clone()?))) else {
            return Ok(None);
        };
        let pods = self.living(framework, |_| true);
        self.ended.extend(pods.into_iter().map(|(_, uid)| uid).chain([uid]));
        self.timeline.lost.insert(attempt.id);
        let deleted = self.side.config_maps.delete(&attempt.config_map_name, &DeleteParams::default()).await;
        unless_gone(deleted.map(drop)).context("deleting the ConfigMap")?;
        Ok(Some(attempt.config_map_name.clone()))
    }

    /// The Pods of the asked TaskRoles that were neither ended nor deleted, in order of their names.
    fn living(&self, framework: &Framework, asked: impl Fn(&str) -> bool) -> Vec<PodId> {
        let lives = |task: &&TaskStatus| !task.deletion_pending && lives(task, &self.ended);
        let tasks = tasks(framework).filter(|(role, _)| asked(role)).map(|(_, task)| task).filter(lives);
        let id = |task: &TaskStatus| {
            task.attempt_status.pod_uid.clone().map(|uid| (task.attempt_status.pod_name.clone(), uid))
        };
        let mut pods: Vec<PodId> = tasks.filter_map(id).collect();
        pods.sort();
        pods
    }

    /// Waits until the Framework is at rest, and adds an observation.
    async fn settle(&mut self, after: String) -> Result<Arc<Framework>> {
        let framework = match self.until_at_rest(Removed::Gone, |_| false).await {
            Ok(framework) => framework,
            Err(error) => {
                let facts = self.side.framework(&self.name).map(|seen| facts::of(&seen)).unwrap_or_default();
                self.timeline
                    .observations
                    .push(Observation { after: format!("{after}: never at rest"), facts });
                return Err(error);
            }
        };
        self.timeline.observations.push(Observation { after, facts: facts::of(&framework) });
        Ok(framework)
    }

    /// Waits until the Framework is at rest and stays so for a while, or until `or` holds.
    async fn until_at_rest(&self, removed: Removed, or: fn(&Framework) -> bool) -> Result<Arc<Framework>> {
        // A Framework whose last change the watch has not shown yet may look at rest.
        let is_current = |seen: &Framework| seen.metadata.generation >= Some(self.generation);
        let is_done =
            |seen: &Framework| is_current(seen) && (is_quiescent(seen, &self.ended, removed) || or(seen));
        loop {
            let seen = self.side.wait(&self.name, PATIENCE, |seen| seen.is_some_and(is_done)).await;
            let Some(Some(framework)) = seen else { bail!(Stuck("the Framework is at rest".into())) };
            if or(&framework) {
                return Ok(framework);
            }
            tokio::time::sleep(CALM).await;
            match self.side.framework(&self.name) {
                Some(now) if is_same(&now, &framework) => return Ok(now),
                _ => {}
            }
        }
    }

    /// Deletes the Framework, and waits until it is gone.
    async fn delete(&self) -> Result<()> {
        let policy =
            if self.plan.foreground { PropagationPolicy::Foreground } else { PropagationPolicy::Background };
        let parameters = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
        let deleted = self.side.frameworks.delete(&self.name, &parameters).await;
        unless_gone(deleted.map(drop)).context("deleting the Framework")?;
        match self.side.wait(&self.name, PATIENCE, |seen| seen.is_none()).await {
            Some(_) => Ok(()),
            None => bail!(Stuck("the Framework is gone after its deletion".into())),
        }
    }
}

fn is_same(one: &Framework, other: &Framework) -> bool {
    one.metadata.resource_version == other.metadata.resource_version
}

fn is_over(framework: &Framework) -> bool {
    framework.status.as_ref().is_some_and(|status| status.state == State::Completed)
}

fn is_ending(framework: &Framework) -> bool {
    framework.status.as_ref().is_some_and(|status| status.attempt_status.completion_status.is_some())
}

fn tasks(framework: &Framework) -> impl Iterator<Item = (&str, &TaskStatus)> {
    let roles = framework.status.iter().flat_map(|status| status.task_roles());
    roles.flat_map(|role| role.tasks().map(move |task| (role.name.as_str(), task)))
}

fn picked(mut pods: Vec<PodId>, pick: usize) -> Option<PodId> {
    let at = pick.checked_rem(pods.len())?;
    Some(pods.swap_remove(at))
}

/// Waits for a second in which no Task has completed: of two that complete in the same one, either may count
/// as the last.
async fn next_second(framework: &Framework) {
    let last = tasks(framework).filter_map(|(_, task)| task.completion_time).max();
    while last.is_some_and(|last| jiff::Timestamp::now().as_second() <= last.unix()) {
        tokio::time::sleep(EVERY).await;
    }
}
