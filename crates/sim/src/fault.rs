//! What goes wrong between a client and the server: scripted faults first, then random ones by rates.
//!
//! A fault never breaks the store: whatever is applied is applied as the real server would. Requests of
//! [`crate::user::User`] meet no faults.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use fastrand::Rng;

use crate::call::{Call, Route};
use crate::fate::duration;
use crate::history::Verb;
use crate::rates::{Rates, ms};
use crate::watch::Ending;

/// One thing that goes wrong with one request.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// The connection breaks before the server sees the request.
    RefuseConnection,
    /// The server applies the request, then the connection breaks.
    LoseReply,
    /// No answer ever comes. The server applies the request that much later, or never.
    Hang(Option<Duration>),
    /// The request arrives that much later.
    Delay(Duration),
    /// The server applies the request at once, the reply arrives that much later.
    DelayReply(Duration),
    /// 409: the object has been modified.
    Conflict,
    /// 429 with that many seconds in `Retry-After`.
    TooManyRequests(u32),
    /// 500.
    InternalError,
    /// 503.
    Unavailable,
    /// 504: the server gave up waiting; whether it had applied the request by then is the flag.
    Timeout {
        /// Whether the request was applied.
        applied: bool,
    },
    /// 410: as a response to a list, as an ERROR event to a watch.
    Gone,
    /// 403 that says "exceeded quota".
    Quota,
    /// 403 by an admission plugin.
    Forbidden,
    /// 422: the object is invalid.
    Invalid,
}

/// A scripted fault: the requests it is for, how many of them to let pass, and how many to hit.
#[derive(Debug, Clone)]
pub struct Rule {
    who: Option<String>,
    verb: Option<Verb>,
    plural: Option<String>,
    name: Option<String>,
    skip: u32,
    times: u32,
    fault: Fault,
}

impl Rule {
    /// Hits the next request of any kind, once.
    #[must_use]
    pub fn new(fault: Fault) -> Self {
        Self { who: None, verb: None, plural: None, name: None, skip: 0, times: 1, fault }
    }

    /// Only requests of that client.
    #[must_use]
    pub fn who(self, who: &str) -> Self {
        Self { who: Some(who.to_owned()), ..self }
    }

    /// Only requests of that verb.
    #[must_use]
    pub fn verb(self, verb: Verb) -> Self {
        Self { verb: Some(verb), ..self }
    }

    /// Only requests about objects of that plural.
    #[must_use]
    pub fn plural(self, plural: &str) -> Self {
        Self { plural: Some(plural.to_owned()), ..self }
    }

    /// Only requests about the object of that name.
    #[must_use]
    pub fn name(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    /// Lets that many matching requests pass first: `nth(3)` hits the third.
    #[must_use]
    pub fn nth(self, nth: u32) -> Self {
        Self { skip: nth.saturating_sub(1), ..self }
    }

    /// Hits that many matching requests; `u32::MAX` is all of them.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times, ..self }
    }

    fn matches(&self, call: &Call, plural: &str, name: &str) -> bool {
        let fits =
            |wanted: &Option<String>, given: &str| wanted.as_ref().is_none_or(|wanted| wanted == given);
        fits(&self.who, &call.who)
            && self.verb.is_none_or(|verb| verb == call.verb())
            && fits(&self.plural, plural)
            && fits(&self.name, name)
    }
}

/// What is going to happen to one request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plan {
    /// Time until the server sees it.
    pub travel: Duration,
    /// Time until the client sees the reply.
    pub back: Duration,
    /// What goes wrong.
    pub fault: Option<Fault>,
}

/// What is going to happen to one watch.
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
    rates_of: BTreeMap<String, Rates>,
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
        Self {
            rates,
            rates_of: BTreeMap::new(),
            rules: Vec::new(),
            quotas: BTreeMap::new(),
            cut: BTreeMap::new(),
            rng,
        }
    }

    /// Sets the rates for every client that has none of its own.
    pub fn set(&mut self, rates: Rates) {
        self.rates = rates;
    }

    /// Sets the rates for one client.
    pub fn set_for(&mut self, who: &str, rates: Rates) {
        self.rates_of.insert(who.to_owned(), rates);
    }

    /// Adds a scripted fault. The earliest rule that matches a request wins.
    pub fn script(&mut self, rule: Rule) {
        self.rules.push(rule);
    }

    /// Allows at most that many unfinished Pods in a namespace; `None` lifts the limit.
    pub fn quota(&mut self, namespace: &str, pods: Option<usize>) {
        match pods {
            Some(pods) => self.quotas.insert(namespace.to_owned(), pods),
            None => self.quotas.remove(namespace),
        };
    }

    /// Cuts a client off until [`Faults::mend`]. Its watches are cut by
    /// [`crate::cluster::SimCluster::freeze_watches`].
    pub fn cut(&mut self, who: &str, how: Cut) {
        self.cut.insert(who.to_owned(), how);
    }

    /// Connects a client again.
    pub fn mend(&mut self, who: &str) {
        self.cut.remove(who);
    }

    /// Ends all faults but quotas: calm rates for all, no rules, nobody cut off.
    pub fn heal(&mut self) {
        self.rates = Rates::calm();
        self.rates_of.clear();
        self.rules.clear();
        self.cut.clear();
    }

    pub(crate) fn quota_of(&self, namespace: &str) -> Option<usize> {
        self.quotas.get(namespace).copied()
    }

    fn rates_of(&self, who: &str) -> &Rates {
        self.rates_of.get(who).unwrap_or(&self.rates)
    }

    /// Decides what happens to a request.
    pub(crate) fn plan(&mut self, call: &Call, plural: &str, name: &str) -> Plan {
        let rates = self.rates_of(&call.who).clone();
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
            Some(Fault::Hang(Some(by))) => plan.travel += *by,
            _ => {}
        }
        plan
    }

    fn scripted(&mut self, call: &Call, plural: &str, name: &str) -> Option<Fault> {
        for rule in &mut self.rules {
            if rule.times == 0 || !rule.matches(call, plural, name) {
                continue;
            }
            if rule.skip > 0 {
                rule.skip -= 1;
                continue;
            }
            if rule.times < u32::MAX {
                rule.times -= 1;
            }
            return Some(rule.fault.clone());
        }
        None
    }

    fn random(&mut self, call: &Call, plural: &str, rates: &Rates) -> Option<Fault> {
        let verb = call.verb();
        let rewrites = matches!(verb, Verb::Update | Verb::UpdateStatus | Verb::Patch | Verb::PatchStatus);
        let pages = verb == Verb::Watch || (verb == Verb::List && call.param("continue").is_some());
        // The server gives a request up after the time that the request allows it.
        let allowed = call.param("timeout").and_then(duration).unwrap_or(Duration::MAX);
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

    /// Decides what happens to a watch.
    pub(crate) fn watch_plan(&mut self, who: &str) -> WatchPlan {
        let rates = self.rates_of(who).clone();
        let second = |from: u64, to: u64| ms(from * 1000, to * 1000);
        let mut plan = WatchPlan { lag: self.draw(&rates.watch_lag), ..WatchPlan::default() };
        if self.chance(rates.watch_behind) {
            plan.lag = self.draw(&second(1, 10));
        }
        if self.chance(rates.watch_freeze) {
            plan.freeze = Some((self.draw(&second(0, 60)), self.draw(&second(1, 30))));
        }
        if self.chance(rates.watch_close) {
            let ending =
                *self.rng.choice(&[Ending::Clean, Ending::Broken, Ending::Gone]).unwrap_or(&Ending::Clean);
            plan.close = Some((self.draw(&ms(0, 60_000)), ending));
        }
        plan
    }

    /// How old a state that client gets when it asks for any.
    pub(crate) fn staleness(&mut self, who: &str) -> Duration {
        let range = self.rates_of(who).staleness.clone();
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

/// A duration from a range, in whole milliseconds, which is the grain of the runtime's timers.
pub(crate) fn draw(rng: &mut Rng, range: &RangeInclusive<Duration>) -> Duration {
    let (from, to) = (range.start().as_millis(), range.end().as_millis());
    let ms = if from >= to { from } else { rng.u128(from..=to) };
    Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX))
}

/// The plural and the name that a request is about, for rules and for the history.
pub(crate) fn subject(call: &Call, plural: Option<&str>, body_name: &str) -> (String, String) {
    match &call.route {
        Route::Resource { name, .. } => {
            (plural.unwrap_or("").to_owned(), name.clone().unwrap_or_else(|| body_name.to_owned()))
        }
        _ => (call.path.clone(), String::new()),
    }
}
