//! The person who looks after runs: finds out in the outside's own book how an effect has ended and says so, and lets parked runs go on.

use stepwell_core::decide::{LetStand, Resolution, Resolve, Resume};
use stepwell_core::{Checkpoint, EffectRecord, Json, ParkReason, Payload, RunId, Status};
use stepwell_engine::Client;

use crate::dice::{LANDS_LATE, SKEW, secs};
use crate::tape::{Answer, Asked, Who};
use crate::world::{World, futures_join};

impl World {
    /// Looks after every run. For ever.
    pub(crate) async fn look_after_all(&self) {
        futures_join(self.customers.iter().map(|customer| self.look_after(customer.number, &customer.run))).await;
    }

    async fn look_after(&self, number: u64, run: &RunId) {
        let who: Who = format!("person-{number}").into();
        loop {
            tokio::time::sleep(self.dice.between(secs(10), secs(40))).await;
            let Some(checkpoint) = self.checkpoint(run).await else { continue };
            if let Status::Parked { reason, .. } = &checkpoint.progress.status {
                self.help(&who, run, &checkpoint, reason).await;
            }
        }
    }

    async fn help(&self, who: &Who, run: &RunId, checkpoint: &Checkpoint, reason: &ParkReason) {
        let progress = &checkpoint.progress;
        let open = progress.journal.iter().chain(&progress.ledger).find(|record| record.is_open());
        match (reason, open) {
            (ParkReason::UnknownOutcome { .. }, Some(record)) => self.resolve(who, run, checkpoint, record).await,
            (ParkReason::Undo { .. }, _) if self.dice.chance(200) => {
                let act = LetStand { by: "ann".into(), why: "taken back by hand".into() };
                self.ask(who, run, Asked::Resume, async |client| client.let_stand(run, &act).await, |()| Answer::Done)
                    .await;
            }
            (_, Some(record)) if checkpoint.cancel.is_some() => self.resolve(who, run, checkpoint, record).await,
            (
                ParkReason::UnknownOutcome { .. }
                | ParkReason::Poison { .. }
                | ParkReason::Incompatible { .. }
                | ParkReason::StepLimit { .. }
                | ParkReason::Data { .. }
                | ParkReason::Budget(_)
                | ParkReason::Undo { .. }
                | ParkReason::Paused { .. },
                _,
            ) => {
                self.tape.count(match reason {
                    ParkReason::Poison { .. } => "parked: poison",
                    ParkReason::Incompatible { .. } => "parked: incompatible",
                    ParkReason::Paused { .. } => "parked: paused",
                    ParkReason::UnknownOutcome { .. } => "parked: unknown outcome",
                    ParkReason::Undo { .. } => "parked: cannot be taken back",
                    ParkReason::Data { .. } => "parked: data",
                    ParkReason::StepLimit { .. } | ParkReason::Budget(_) => "parked: limits",
                });
                let act = Resume { by: "ann".into(), why: Some("mended".into()) };
                self.ask(who, run, Asked::Resume, async |client| client.resume(run, &act).await, |()| Answer::Done)
                    .await;
            }
        }
    }

    /// Nothing is said before the request can no longer land; then the book is right.
    async fn resolve(&self, who: &Who, run: &RunId, checkpoint: &Checkpoint, record: &EffectRecord) {
        let lands = record.until.map(|until| until.plus(LANDS_LATE + SKEW * 2));
        if lands.is_some_and(|lands| lands > self.tape.now()) {
            return;
        }
        let key = &record.key;
        let resolution = match self.outside.found(key.as_str()) {
            _ if checkpoint.cancel.is_some() && self.dice.chance(100) => Resolution::SignOff,
            Some(receipt) => match Json::of(&receipt) {
                Ok(receipt) => Resolution::Succeeded(Payload::Inline(receipt)),
                Err(_) => return,
            },
            None if self.dice.chance(300) => Resolution::Failed("it never came".into()),
            None => Resolution::TryAgain,
        };
        self.tape.count("unknown outcomes settled by a person");
        let word = resolution.as_str();
        let act = Resolve { key: key.clone(), resolution, by: "ann".into(), why: "it stands in their book".into() };
        let call = async |client: &Client| client.resolve(run, act.clone()).await;
        self.ask(who, run, Asked::Resolve(key.clone(), word), call, |()| Answer::Done).await;
    }
}
