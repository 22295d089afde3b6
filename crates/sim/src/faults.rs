//! All faults of a cluster: scripted ones first, then random ones by rates.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use fastrand::Rng;

use crate::call::Call;
use crate::duration::{self, draw, ms};
use crate::fault::{Fault, Rule};
use crate::history::Verb;
use crate::rates::Rates;
use crate::watch::Ending;

/// The plan for one request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plan {
    /// Time until the server sees it.
    pub travel: Duration,
    /// Time until the client sees the reply.
    pub back: Duration,
    /// The fault of the request, if any.
    pub fault: Option<Fault>,
}

/// The plan for one watch.
#[derive(Debug, Clone, Default)]
pub(crate) struct WatchPlan {
    pub lag: Duration,
    pub freeze: Option<(Duration, Duration)>,
    pub close: Option<(Duration, Ending)>,
}

/// All faults of a cluster.
#[derive(Debug)]
pub struct Faults {
    rates: Rates,
    rules: Vec<Rule>,
    quotas: BTreeMap<String, usize>,
    cut: BTreeMap<String, Cut>,
    rng: Rng,
}

/// How a client is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Its requests are refused at once.
    Refused,
    /// Its requests vanish: never applied, never answered.
    Silent,
    /// Its requests are applied, the replies vanish.
    Deaf,
}

impl Faults {
    pub(crate) fn new(rates: Rates, rng: Rng) -> Self {
        Self { rates, rules: Vec::new(), quotas: BTreeMap::new(), cut: BTreeMap::new(), rng }
    }

    /// Sets the rates for every client.
    pub fn set(&mut self, rates: Rates) {
        self.rates = rates;
    }

    /// Adds a scripted fault. The earliest rule that matches a request wins.
    pub fn script(&mut self, rule: Rule) {
        self.rules.push(rule);
    }

    /// Drops all scripted faults.
    pub fn unscript(&mut self) {
        self.rules.clear();
    }

    /// Allows at most that many unfinished Pods in a namespace; `None` lifts the limit.
    pub fn quota(&mut self, namespace: &str, pods: Option<usize>) {
        match pods {
            Some(pods) => self.quotas.insert(namespace.to_owned(), pods),
            None => self.quotas.remove(namespace),
        };
    }

    /// Cuts a client off until [`Faults::mend`]. Its watches are cut by
    /// [`crate::SimCluster::freeze_watches`].
    pub fn cut(&mut self, who: &str, how: Cut) {
        self.cut.insert(who.to_owned(), how);
    }

    /// Connects a client again.
    pub fn mend(&mut self, who: &str) {
        self.cut.remove(who);
    }

    /// Ends all faults but quotas: calm rates for all, no rules, no client cut off.
    pub fn heal(&mut self) {
        self.rates = Rates::calm();
        self.rules.clear();
        self.cut.clear();
    }

    pub(crate) fn quota_of(&self, namespace: &str) -> Option<usize> {
        self.quotas.get(namespace).copied()
    }

    /// Decides the delays and the fault of a request.
    pub(crate) fn plan(&mut self, call: &Call, plural: &str, name: &str) -> Plan {
        let rates = self.rates.clone();
        let mut plan =
            Plan { travel: self.draw(&rates.latency), back: self.draw(&rates.latency), fault: None };
        let cut = self.cut.get(&*call.who).copied();
        plan.fault = match cut {
            Some(Cut::Refused) => Some(Fault::RefuseConnection),
            Some(Cut::Silent) => Some(Fault::Hang(None)),
            Some(Cut::Deaf) => Some(Fault::Hang(Some(Duration::ZERO))),
            None => self.scripted(call, plural, name).or_else(|| self.random(call, plural, &rates)),
        };
        match &plan.fault {
            Some(Fault::Delay(by)) => plan.travel += *by,
            Some(Fault::DelayReply(by)) => plan.back += *by,
            Some(Fault::Hang(Some(by)) | Fault::Break(by)) => plan.travel += *by,
            _ => {}
        }
        plan
    }

    fn scripted(&mut self, call: &Call, plural: &str, name: &str) -> Option<Fault> {
        self.rules.iter_mut().find_map(|rule| rule.hit(call, plural, name))
    }

    fn random(&mut self, call: &Call, plural: &str, rates: &Rates) -> Option<Fault> {
        let verb = call.verb();
        let rewrites = matches!(verb, Verb::Update | Verb::UpdateStatus | Verb::Patch | Verb::PatchStatus);
        let pages = verb == Verb::Watch || (verb == Verb::List && call.param("continue").is_some());
        // The server gives a request up after the time that the request allows it.
        let allowed = call.param("timeout").and_then(duration::parse).unwrap_or(Duration::MAX);
        let late = self.draw(&rates.hang_for).min(allowed);
        let hang = self.rng.bool().then_some(late);
        let choices = [
            (rates.refuse_connection, Fault::RefuseConnection),
            (rates.lose_reply, Fault::LoseReply),
            (rates.hang, Fault::Hang(hang)),
            (if rewrites { rates.conflict } else { 0.0 }, Fault::Conflict),
            (rates.too_many_requests, Fault::TooManyRequests(self.rng.u32(1..=3))),
            (rates.internal_error, Fault::InternalError),
            (rates.unavailable, Fault::Unavailable),
            (rates.timeout, Fault::Timeout { applied: self.rng.bool() }),
            (if pages { rates.gone } else { 0.0 }, Fault::Gone),
            (if verb == Verb::Create && plural == "pods" { rates.quota } else { 0.0 }, Fault::Quota),
            (rates.break_off, Fault::Break(late)),
        ];
        let mut dice = self.rng.f64();
        for (rate, fault) in choices {
            if dice < rate {
                return Some(fault);
            }
            dice -= rate;
        }
        None
    }

    /// Decides the lag and the faults of a watch.
    pub(crate) fn watch_plan(&mut self) -> WatchPlan {
        let rates = self.rates.watch.clone();
        let second = |from: u64, to: u64| ms(from * 1000, to * 1000);
        let mut plan = WatchPlan { lag: self.draw(&rates.lag), ..WatchPlan::default() };
        if self.chance(rates.behind) {
            plan.lag = self.draw(&second(1, 10));
        }
        if self.chance(rates.freeze) {
            plan.freeze = Some((self.draw(&second(0, 60)), self.draw(&second(1, 30))));
        }
        if self.chance(rates.close) {
            let ending =
                *self.rng.choice(&[Ending::Clean, Ending::Broken, Ending::Gone]).unwrap_or(&Ending::Clean);
            plan.close = Some((self.draw(&ms(0, 60_000)), ending));
        }
        plan
    }

    /// How old a state a client gets when it asks for any.
    pub(crate) fn staleness(&mut self) -> Duration {
        let range = self.rates.staleness.clone();
        self.draw(&range)
    }

    /// Tosses a coin for a detail that no rate governs.
    pub(crate) fn coin(&mut self) -> bool {
        self.rng.bool()
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.rng.f64() < probability
    }

    fn draw(&mut self, range: &RangeInclusive<Duration>) -> Duration {
        draw(&mut self.rng, range)
    }
}
