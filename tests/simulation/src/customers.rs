//! Customers: each has one run, starts it (more than once, with one key), speaks to it, changes its mind.

use std::time::Duration;

use stepwell::Workflow;
use stepwell_core::approval::Reviewer;
use stepwell_core::decide::{Approve, Pause, Resume};
use stepwell_core::{Json, Phase, RunId, SignalId, SignalName, WorkflowName};
use stepwell_engine::{SignalRequest, StartRequest};

use crate::client::new;
use crate::dice::{Dice, Temper, secs};
use crate::flows::{self, Asks, First, Grant, Inbox, Letters, NOTE, Nap, Naps, Order};
use crate::tape::{Answer, Asked, Who};
use crate::world::World;

/// One who wants something.
#[derive(Clone, Debug)]
pub(crate) struct Customer {
    pub(crate) number: u64,
    pub(crate) who: Who,
    pub(crate) run: RunId,
    pub(crate) wants: Wants,
    request: StartRequest,
    cancels: Option<Duration>,
    pauses: Option<Duration>,
}

/// What.
#[derive(Clone, Debug)]
pub(crate) enum Wants {
    Order(Asks),
    Nap(Naps),
    Inbox(Letters),
    Grant,
}

impl Customer {
    pub(crate) fn draw(number: u64, dice: &Dice, temper: &Temper) -> Self {
        let (name, wants) = match dice.upto(10) {
            0..5 => {
                let laps = 1 + u32::try_from(dice.upto(3)).unwrap_or(0);
                let asks = Asks { laps, patience_s: 60 + dice.upto(240), nap_s: 1 + dice.upto(120) };
                (<Order<First> as Workflow>::NAME, Wants::Order(asks))
            }
            5..7 => {
                let mut naps: Vec<u64> = (0..=dice.upto(3)).map(|_| dice.upto(180)).collect();
                // Longer than a message can be delayed: the sweeper's.
                if temper.sweeps && dice.chance(400) {
                    naps.push(920 + dice.upto(400));
                }
                (Nap::NAME, Wants::Nap(Naps { naps, fails: u32::try_from(dice.upto(4)).unwrap_or(0) }))
            }
            7..9 => {
                let wanted = 2 + usize::try_from(dice.upto(3)).unwrap_or(0);
                (Inbox::NAME, Wants::Inbox(Letters { wanted, patience_s: 60 + dice.upto(120) }))
            }
            _ => (Grant::NAME, Wants::Grant),
        };
        let input = match &wants {
            Wants::Order(asks) => Json::of(asks),
            Wants::Nap(naps) => Json::of(naps),
            Wants::Inbox(letters) => Json::of(letters),
            Wants::Grant => Json::of(&(60 + dice.upto(300))),
        };
        let key = format!("k-{number}");
        #[allow(clippy::expect_used, reason = "names and numbers are JSON, and names of workflows are names")]
        let (workflow, input) = (WorkflowName::new(name).expect("a name"), input.expect("an input"));
        Self {
            number,
            who: format!("customer-{number}").into(),
            run: RunId::for_key(&workflow, &key),
            wants,
            request: StartRequest { workflow, input, key: Some(key) },
            cancels: dice.chance(200).then(|| dice.within(secs(600))),
            pauses: dice.chance(120).then(|| dice.within(secs(300))),
        }
    }
}

impl World {
    /// The life of one run, from outside.
    pub(crate) async fn serve(&self, customer: &Customer) {
        let Customer { who, run, .. } = customer;
        self.dice.pause(secs(60)).await;
        let starts = async {
            self.start(customer).await;
            if self.dice.chance(300) {
                self.dice.pause(secs(60)).await;
                self.start(customer).await;
            }
        };
        if self.dice.chance(200) {
            tokio::join!(starts, self.start(customer));
        } else {
            starts.await;
        }
        let looking = self.look_on(customer);
        let spoken = async {
            tokio::join!(self.speak(customer), self.cancel(customer), self.pause(customer));
            self.end(run).await;
            if self.checkpoint(run).await.is_some_and(|run| run.progress.status.phase() == Phase::Failed)
                && self.dice.chance(400)
            {
                let act = Resume { by: "ann".into(), why: Some("it may have been bad luck".into()) };
                let call = async |client: &stepwell_engine::Client| client.retry(run, &act).await;
                self.insist(who, run, Asked::Retry, call, |()| Answer::Done).await;
                // Whatever was answered: an answer may have been lost, and the run goes on.
                self.end(run).await;
            }
        };
        tokio::select! {
            biased;
            () = spoken => {}
            () = looking => {}
        }
        let took = self.tape.elapsed();
        self.tape.tell(who, || format!("sees the end of the run after {took:?}"));
    }

    async fn start(&self, customer: &Customer) {
        let Customer { who, run, request, .. } = customer;
        self.insist(
            who,
            run,
            Asked::Start,
            async |client| client.start(request.clone()).await,
            |answer| new(answer.new),
        )
        .await;
    }

    async fn end(&self, run: &RunId) {
        loop {
            if self.checkpoint(run).await.is_some_and(|run| run.progress.status.phase().is_ended()) {
                return;
            }
            tokio::time::sleep(secs(3)).await;
        }
    }

    /// Looks at the run again and again. For ever.
    async fn look_on(&self, customer: &Customer) {
        let Customer { who, run, .. } = customer;
        loop {
            let read = |found: &stepwell_core::Checkpoint| {
                Answer::Stands(found.progress.revision, found.progress.status.phase())
            };
            self.ask(who, run, Asked::Get, async |client| client.get(run).await, read).await;
            tokio::time::sleep(if self.is_rough() { secs(40) } else { secs(300) }).await;
        }
    }

    async fn speak(&self, customer: &Customer) {
        match &customer.wants {
            Wants::Order(_) => {
                self.dice.pause(secs(200)).await;
                if self.dice.chance(850) {
                    self.signal(customer, flows::ANSWER.name(), "s-1", Json::of("yes")).await;
                }
            }
            Wants::Inbox(letters) => {
                for note in 0..=u32::try_from(letters.wanted).unwrap_or(0) {
                    self.dice.pause(secs(40)).await;
                    let id = format!("n-{note}");
                    self.signal(customer, NOTE.name(), &id, Json::of(&note)).await;
                }
            }
            Wants::Grant => self.approve(customer).await,
            Wants::Nap(_) => {}
        }
    }

    /// Says it, and says it again.
    async fn signal(&self, customer: &Customer, name: &'static str, id: &str, says: Result<Json, serde_json::Error>) {
        let (Ok(name), Ok(id), Ok(payload)) = (SignalName::new(name), SignalId::new(id), says) else { return };
        let (run, who) = (&customer.run, &customer.who);
        let request = SignalRequest { run: run.clone(), name, payload, id: Some(id.clone()) };
        for _ in 0..=self.dice.upto(3) {
            let call = async |client: &stepwell_engine::Client| client.signal(request.clone()).await;
            self.insist(who, run, Asked::Signal(id.clone()), call, |answer| new(answer.new)).await;
            self.dice.pause(secs(30)).await;
        }
    }

    async fn approve(&self, customer: &Customer) {
        let (run, who, allows) = (&customer.run, &customer.who, self.dice.chance(800));
        for _ in 0..60 {
            self.dice.pause(secs(20)).await;
            let Some(checkpoint) = self.checkpoint(run).await else { continue };
            if checkpoint.progress.status.phase().is_ended() {
                return;
            }
            let Some(approval) = checkpoint.progress.approvals.last() else { continue };
            let reviewer = Reviewer { name: "ann".into(), roles: Vec::new() };
            let act = Approve { approval: approval.id.clone(), reviewer, allows, why: Some("looked at it".into()) };
            let call = async |client: &stepwell_engine::Client| client.approve(run, &act).await;
            self.insist(who, run, Asked::Approve, call, |answer| new(answer.new)).await;
            return;
        }
    }

    async fn cancel(&self, customer: &Customer) {
        let Some(after) = customer.cancels else { return };
        tokio::time::sleep(after).await;
        let call = async |client: &stepwell_engine::Client| {
            client.cancel(&customer.run, "ann", Some("has changed her mind".into())).await
        };
        self.insist(&customer.who, &customer.run, Asked::Cancel, call, |answer| new(answer.new)).await;
    }

    async fn pause(&self, customer: &Customer) {
        let Some(after) = customer.pauses else { return };
        tokio::time::sleep(after).await;
        let act = Pause { by: "ann".into(), why: Some("wants to look".into()) };
        let call = async |client: &stepwell_engine::Client| client.pause(&customer.run, &act).await;
        self.ask(&customer.who, &customer.run, Asked::Pause, call, |answer| new(answer.new)).await;
    }
}
