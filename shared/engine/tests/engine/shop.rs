//! Orders: runs that do what their plan says, one thing a step, at a shop that keeps books of what it was asked and what it did.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use stepwell::prelude::*;
use stepwell::{RunId, Unclassified};
use stepwell_core::approval::{Approval as Record, Reviewer};
use stepwell_core::decide::{Approve, LetStand, Resolution, Resolve};
use stepwell_core::{Certificate, EffectRecord, Json, Payload, Status};
use stepwell_engine::{ApproveAnswer, ClientError};
use stepwell_testkit::crash::Fuse;

use crate::bed::{Bed, secs};

pub(crate) const GO: Signal<()> = Signal::new("go");

/// What can be bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Thing {
    Seat,
    Room,
    Car,
}

impl Thing {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Seat => "seat",
            Self::Room => "room",
            Self::Car => "car",
        }
    }

    const fn back(self) -> &'static str {
        match self {
            Self::Seat => "seat-back",
            Self::Room => "room-back",
            Self::Car => "car-back",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    Read,
    Idempotent,
    Reconcilable,
    Once,
}

/// One thing to buy, and how.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Buy {
    thing: Thing,
    kind: Kind,
    undo: bool,
    no_return: bool,
    across: bool,
    /// The cents that were approved.
    approved: Option<u64>,
    /// The cents that it may cost.
    costs: Option<u64>,
    /// Those that it says it has cost.
    says: Option<u64>,
}

pub(crate) const fn buy(thing: Thing, kind: Kind) -> Buy {
    Buy { thing, kind, undo: false, no_return: false, across: false, approved: None, costs: None, says: None }
}

impl Buy {
    pub(crate) const fn undo(self) -> Self {
        Self { undo: true, ..self }
    }

    pub(crate) const fn no_return(self) -> Self {
        Self { no_return: true, ..self }
    }

    pub(crate) const fn across(self) -> Self {
        Self { across: true, ..self }
    }

    pub(crate) const fn approved(self, cents: u64) -> Self {
        Self { approved: Some(cents), ..self }
    }

    pub(crate) const fn costs(self, cents: u64, says: Option<u64>) -> Self {
        Self { costs: Some(cents), says, ..self }
    }
}

/// An approval to ask for, of this many cents.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Ask {
    pub(crate) cents: u64,
    pub(crate) quorum: u32,
    pub(crate) escalates: bool,
    pub(crate) usable_hours: u64,
    pub(crate) or_go: bool,
}

pub(crate) const fn ask(cents: u64) -> Ask {
    Ask { cents, quorum: 1, escalates: false, usable_hours: 24, or_go: false }
}

/// What a step does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Do {
    Buy(Buy),
    Both(Buy, Buy),
    /// Goes on whatever comes of it.
    Try(Buy),
    Ask(Ask),
    /// Fails unless it is approved, or open.
    Decide,
    Wait,
    Nap(u64),
    Work(u64),
    Fail,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum At {
    Do(usize),
    Undo(Thing),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Known {
    plan: Vec<Do>,
    did: Vec<String>,
}

/// What a run of version `V` may spend: the `B`th of [`budget_of`].
pub(crate) struct Order<const V: u32 = 1, const B: usize = 0>(pub(crate) Shop);

pub(crate) fn budget_of(number: usize) -> Budget {
    match number {
        1 => Budget::none().of_run("cents", 100),
        2 => Budget::none().of_run("cents", 100).or_fail(),
        3 => Budget::none().of_step("cents", 60),
        4 => Budget::none().effects(2),
        5 => Budget::none().attempts(4),
        6 => Budget::none().lasting(hours(1)),
        7 => Budget::none().lasting(hours(1)).or_fail(),
        8 => Budget::none().of_run("cents", 1_000),
        _ => Budget::none(),
    }
}

impl<const V: u32, const B: usize> Workflow for Order<V, B> {
    const NAME: &'static str = "order";
    const VERSION: u32 = V;
    type Input = Vec<Do>;
    type State = Known;
    type Step = At;
    type Output = Vec<String>;

    fn begin(&self, plan: Vec<Do>) -> (At, Known) {
        (At::Do(0), Known { plan, did: Vec::new() })
    }

    fn policy(&self, _: &At) -> StepPolicy {
        StepPolicy::default().retry(RetryPolicy::default().every(secs(2)).max_attempts(6))
    }

    fn signals() -> Signals {
        Signals::none().and(GO)
    }

    fn budget() -> Budget {
        budget_of(B)
    }

    fn migrate(_: u32, stored: stepwell::Stored) -> Result<stepwell::Stored, stepwell::Incompatible> {
        Ok(stored)
    }

    async fn step(&self, at: At, known: &mut Known, cx: &Cx) -> StepResult<Self> {
        let number = match at {
            At::Do(number) => number,
            At::Undo(thing) => return self.take_back(thing, cx).await,
        };
        let next = At::Do(number + 1);
        let Some(what) = known.plan.get(number).cloned() else { return Ok(complete(known.did.clone())) };
        match what {
            Do::Buy(what) => known.did.push(self.buy(what, cx).await?),
            Do::Both(one, other) => {
                let (one, other) = tokio::join!(self.buy(one, cx), self.buy(other, cx));
                known.did.extend([one?, other?]);
            }
            Do::Try(what) => known.did.extend(self.buy(what, cx).await.ok()),
            Do::Ask(Ask { cents, quorum, escalates, usable_hours, or_go }) => {
                let asked = Approval::of("refund", &cents).by(role("finance")).quorum(quorum);
                let asked = if escalates { asked.escalate_after(hours(4), role("cfo")) } else { asked };
                let asked = asked.usable_for(hours(usable_hours)).within(days(3));
                return Ok(if or_go {
                    wait(next).for_signal(GO).or_approval(asked)
                } else {
                    wait(next).for_approval(asked)
                });
            }
            Do::Decide => match cx.approval("refund")? {
                Decision::Approved { by, .. } => known.did.push(format!("approved by {}", by.join(" and "))),
                Decision::Rejected { by, reason } => {
                    return Err(StepError::terminal(format!("rejected by {by}: {reason}")));
                }
                Decision::Expired => return Err(StepError::terminal("nobody decided")),
                Decision::Open => known.did.push("open".into()),
            },
            Do::Wait => return Ok(wait(next).for_signal(GO).without_deadline()),
            Do::Nap(seconds) => return Ok(wait(next).lasting(secs(seconds))),
            Do::Work(seconds) => tokio::time::sleep(secs(seconds)).await,
            Do::Fail => return Err(StepError::terminal("sold out")),
        }
        Ok(goto(next))
    }
}

impl<const V: u32, const B: usize> Order<V, B> {
    async fn buy(&self, what: Buy, cx: &Cx) -> Result<String, EffectError> {
        let effect = cx.effect(what.thing.name()).key("order-7").deadline(secs(10));
        let effect = if what.undo { effect.undo(&At::Undo(what.thing)) } else { effect };
        let effect = if what.no_return { effect.point_of_no_return() } else { effect };
        let effect = if what.across { effect.across_runs() } else { effect };
        let effect = match what.approved {
            Some(cents) => effect.approved_by("refund", &cents),
            None => effect,
        };
        let effect = match what.costs {
            Some(cents) => effect.costs("cents", cents),
            None => effect,
        };
        self.called(effect, what).await
    }

    async fn called(
        &self,
        effect: stepwell::Effect<'_, Unclassified, stepwell::Keyed>,
        what: Buy,
    ) -> Result<String, EffectError> {
        let (name, kind) = (what.thing.name(), what.kind);
        let call = async |call: stepwell::Call<'_>| {
            if let Some(cents) = what.says {
                call.spent("cents", cents);
            }
            self.0.request(name, call.key(), kind).await
        };
        match kind {
            Kind::Read => effect.read().call(call).await,
            Kind::Idempotent => effect.idempotent().call(call).await,
            Kind::Once => effect.once().call(call).await,
            Kind::Reconcilable => {
                let ask = async |call: stepwell::Call<'_>| Ok::<_, CallError>(self.0.asked(name, call.key()));
                effect.reconcile(ask).settle_delay(secs(1)).call(call).await
            }
        }
    }

    async fn take_back(&self, thing: Thing, cx: &Cx) -> StepResult<Self> {
        let result = cx.result_to_undo::<String>().await?;
        self.0.books().results.push(result);
        // It costs something, so that it has an intent.
        let back = cx.effect(thing.back()).key("order-7").idempotent().costs("cents", 1).deadline(secs(10));
        back.call(async |call| self.0.request(thing.back(), call.key(), Kind::Idempotent).await).await?;
        Ok(undone())
    }
}

/// What the shop does with a request.
#[derive(Clone)]
pub(crate) enum Does {
    Works,
    Refuses,
    Busy,
    /// Acts, and its answer is lost.
    Loses,
    /// The request is lost.
    Misses,
    /// Acts after a while.
    Slowly(u64),
    /// Acts, and whoever asked dies.
    Kills(Fuse),
}

/// Clones share their books.
#[derive(Clone, Default)]
pub(crate) struct Shop(Arc<Mutex<Books>>);

#[derive(Default)]
pub(crate) struct Books {
    script: BTreeMap<&'static str, VecDeque<Does>>,
    /// What it says when it is asked about a key, instead of the truth.
    pub(crate) mute: bool,
    pub(crate) requests: Vec<(&'static str, String)>,
    asked: u32,
    /// How often it has acted, by name and key.
    pub(crate) acted: BTreeMap<(&'static str, String), u32>,
    /// What stands.
    pub(crate) stands: BTreeSet<String>,
    /// What was found to take back.
    pub(crate) results: Vec<Option<String>>,
}

impl Shop {
    pub(crate) fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap()
    }

    /// What it does with the next requests for this; after that, it works.
    pub(crate) fn will(&self, name: &'static str, does: impl IntoIterator<Item = Does>) {
        self.books().script.entry(name).or_default().extend(does);
    }

    pub(crate) fn requests(&self) -> Vec<&'static str> {
        self.books().requests.iter().map(|(name, _)| *name).collect()
    }

    pub(crate) fn stands(&self) -> Vec<String> {
        self.books().stands.iter().cloned().collect()
    }

    pub(crate) fn asked_about(&self) -> u32 {
        self.books().asked
    }

    async fn request(&self, name: &'static str, key: &str, kind: Kind) -> Result<String, CallError> {
        let does = {
            let mut books = self.books();
            books.requests.push((name, key.to_owned()));
            books.script.get_mut(name).and_then(VecDeque::pop_front).unwrap_or(Does::Works)
        };
        match does {
            Does::Works => {}
            Does::Refuses => return Err(CallError::refused("sold out")),
            Does::Busy => return Err(CallError::retry("busy")),
            Does::Misses => return Err(CallError::unknown("connection reset")),
            Does::Slowly(seconds) => tokio::time::sleep(secs(seconds)).await,
            Does::Loses => {
                self.act(name, key, kind);
                return Err(CallError::unknown("connection reset"));
            }
            Does::Kills(fuse) => {
                self.act(name, key, kind);
                fuse.burn();
                std::future::pending::<()>().await;
            }
        }
        self.act(name, key, kind);
        Ok(format!("a {name}"))
    }

    fn act(&self, name: &'static str, key: &str, kind: Kind) {
        let mut books = self.books();
        let acted = books.acted.entry((name, key.to_owned())).or_default();
        // Only the idempotent remembers its keys.
        if kind == Kind::Idempotent && *acted > 0 {
            return;
        }
        *acted += 1;
        match name.strip_suffix("-back") {
            Some(thing) => drop(books.stands.remove(thing)),
            None => drop(books.stands.insert(name.to_owned())),
        }
    }

    fn asked(&self, name: &'static str, key: &str) -> stepwell::Asked<String> {
        let mut books = self.books();
        books.asked += 1;
        let has_acted = books.acted.get(&(name, key.to_owned())).is_some_and(|acted| *acted > 0);
        match (books.mute, has_acted) {
            (true, _) => stepwell::Asked::CannotTell("the shop is closed".into()),
            (false, true) => stepwell::Asked::Happened(format!("a {name}")),
            (false, false) => stepwell::Asked::Absent,
        }
    }

    /// What it has done that it should not have.
    pub(crate) fn acted_twice(&self) -> Vec<String> {
        let books = self.books();
        let twice = books.acted.iter().filter(|(_, acted)| **acted > 1);
        let mut wrong: Vec<String> =
            twice.map(|((name, key), acted)| format!("{name} ({key}) {acted} times")).collect();
        for name in ["seat", "room", "car", "seat-back", "room-back", "car-back"] {
            let keys = books.requests.iter().filter(|(asked, _)| *asked == name).map(|(_, key)| key);
            let keys: BTreeSet<_> = keys.collect();
            if keys.len() > 1 {
                wrong.push(format!("{name} under {} keys", keys.len()));
            }
        }
        wrong
    }
}

/// One order, and the world that it is in.
pub(crate) struct Set {
    pub(crate) bed: Bed,
    pub(crate) shop: Shop,
    pub(crate) run: RunId,
}

impl Set {
    pub(crate) async fn of(plan: &[Do]) -> Self {
        Self::within::<0>(plan, Shop::default()).await
    }

    /// Under this budget.
    pub(crate) async fn within<const B: usize>(plan: &[Do], shop: Shop) -> Self {
        let bed = Bed::new(Registry::new().with(Order::<1, B>(shop.clone())));
        let run = bed.start::<Order>(plan).await;
        Self { bed, shop, run }
    }

    /// Started, and worked until nothing more is to be done.
    pub(crate) async fn settled(plan: &[Do], shop: Shop) -> Self {
        let set = Self::within::<0>(plan, shop).await;
        set.bed.settle().await;
        set
    }

    /// The approval that was asked for last.
    pub(crate) async fn approval(&self) -> Record {
        self.bed.checkpoint(&self.run).await.progress.approvals.last().expect("none was asked for").clone()
    }

    pub(crate) async fn standing(&self) -> &'static str {
        self.approval().await.standing(self.bed.now()).as_str()
    }

    pub(crate) async fn answers(&self, who: &str, role: &str, allows: bool) -> Result<ApproveAnswer, ClientError> {
        self.answers_to(&self.approval().await, who, role, allows).await
    }

    pub(crate) async fn answers_to(
        &self,
        approval: &Record,
        who: &str,
        role: &str,
        allows: bool,
    ) -> Result<ApproveAnswer, ClientError> {
        let why = (!allows).then(|| "too much".to_owned());
        self.bed.client().approve(&self.run, &approve(approval, who, role, allows, why)).await
    }

    pub(crate) async fn cancel(&self) {
        self.bed.client().cancel(&self.run, "ann", Some("not wanted".into())).await.unwrap();
    }

    pub(crate) async fn certificate(&self) -> Certificate {
        match self.bed.checkpoint(&self.run).await.progress.status {
            Status::Cancelled { certificate, .. } => certificate,
            other => panic!("not cancelled: {other:?}"),
        }
    }

    /// The one effect that is open.
    pub(crate) async fn open(&self) -> EffectRecord {
        let progress = self.bed.checkpoint(&self.run).await.progress;
        let mut open = progress.journal.into_iter().chain(progress.ledger).filter(EffectRecord::is_open);
        open.next().expect("nothing is open")
    }

    pub(crate) async fn try_resolve(&self, resolution: Resolution) -> Result<(), ClientError> {
        let act = Resolve { key: self.open().await.key, resolution, by: "ann".into(), why: "looked".into() };
        self.bed.client().resolve(&self.run, act).await
    }

    pub(crate) async fn resolve(&self, resolution: Resolution) {
        self.try_resolve(resolution).await.unwrap();
        self.bed.settle().await;
    }

    pub(crate) async fn let_stand(&self) -> Result<(), ClientError> {
        let act = LetStand { by: "ann".into(), why: "called them".into() };
        self.bed.client().let_stand(&self.run, &act).await
    }
}

pub(crate) fn approve(approval: &Record, who: &str, role: &str, allows: bool, why: Option<String>) -> Approve {
    let reviewer = Reviewer { name: who.into(), roles: vec![role.into()] };
    Approve { approval: approval.id.clone(), reviewer, allows, why }
}

pub(crate) fn happened(name: &str) -> Resolution {
    Resolution::Succeeded(Payload::Inline(Json::of(&format!("a {name}")).unwrap()))
}
