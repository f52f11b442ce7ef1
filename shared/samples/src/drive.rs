//! Runs one workflow for a test, step by step and in memory: no queue, no store, no lease.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use stepwell::host::{
    Answer, Approval, ApprovalId, AskApproval, BlobRef, Claim, EffectKey, EffectRecord, ErrorMeans, Host, HostError,
    HostedWorkflow, Intent, Json, Letter, LogAppend, LogId, NextPlace, Payload, PlaceText, PrepareError, Reached,
    Reviewer, RunId, SignalId, SignalName, StepNext, Timestamp, Visit, Visiting, WaitUntil, WorkflowName,
};
use stepwell::{Cx, Registry};

const NOW: Timestamp = Timestamp(1_000);

/// Where a run has stopped for now.
#[derive(Debug, PartialEq)]
pub(crate) enum Stop {
    Sleeps(Duration),
    Waits(Vec<String>),
    /// For the approval of this action, by these.
    Asks(String, String),
    Undone,
    Retries(String),
    Completed(Value),
    Failed(String),
}

/// One run of one workflow.
pub(crate) struct Drive {
    workflow: Arc<dyn HostedWorkflow>,
    place: PlaceText,
    visit: Visit,
    failed_attempts: u32,
    /// Since when an attempt runs of which nothing is known yet.
    tried_since: Option<Timestamp>,
    letters: Vec<Letter>,
    journal: Vec<EffectRecord>,
    ledger: Vec<EffectRecord>,
    logs: u32,
    approvals: Vec<Approval>,
    undoing: Option<EffectKey>,
    steps: Vec<String>,
    shelf: Arc<Shelf>,
}

impl Drive {
    pub(crate) fn start(registry: &Registry, workflow: &str, input: &Value) -> Self {
        assert_eq!(registry.problems(), []);
        let workflow = Arc::clone(registry.get(&WorkflowName::new(workflow).unwrap()).unwrap());
        Self {
            workflow,
            place: PlaceText::Fresh { input: Json::of(input).unwrap(), at: None },
            visit: Visit(0),
            failed_attempts: 0,
            tried_since: None,
            letters: Vec::new(),
            journal: Vec::new(),
            ledger: Vec::new(),
            logs: 0,
            approvals: Vec::new(),
            undoing: None,
            steps: Vec::new(),
            shelf: Arc::default(),
        }
    }

    /// The steps that have ended.
    pub(crate) fn steps(&self) -> Vec<&str> {
        self.steps.iter().map(String::as_str).collect()
    }

    /// The effects that no further step would make again.
    pub(crate) fn effects_of_the_run(&self) -> Vec<&str> {
        self.ledger.iter().map(|record| record.name.as_str()).collect()
    }

    pub(crate) fn signal(&mut self, name: &str, payload: &Value) {
        let (name, payload) = (SignalName::new(name).unwrap(), Json::of(payload).unwrap());
        self.workflow.check_signal(&name, &payload).unwrap();
        let id = SignalId::new(format!("signal-{}", self.letters.len())).unwrap();
        self.letters.push(Letter { id, name, payload: Payload::Inline(payload), at: NOW });
    }

    /// Somebody of this role answers the approval that was asked for last.
    pub(crate) fn answer(&mut self, role: &str, allows: bool) {
        let reviewer = Reviewer { name: "ada".into(), roles: vec![role.into()] };
        let why = (!allows).then(|| "not this one".to_owned());
        self.approvals.last_mut().unwrap().answers.push(Answer { reviewer, allows, why, at: NOW });
    }

    /// The run has failed: goes on with the step that takes back the newest effect that can be.
    pub(crate) async fn undo(&mut self) -> Stop {
        let recorded = std::mem::take(&mut self.journal);
        let undo = self.ledger.iter().chain(&recorded).rev().find(|record| record.undo.is_some()).unwrap();
        let (cursor, key) = (undo.undo.clone().unwrap(), undo.key.clone());
        let PlaceText::At { state, version, .. } = self.place.clone() else { panic!("nothing was done yet") };
        self.place = PlaceText::At { cursor, state, version };
        (self.undoing, self.failed_attempts) = (Some(key), 0);
        self.visit = Visit(self.visit.0 + 1);
        self.go().await
    }

    /// Runs steps until one does not simply go on. When this is dropped on the way, that is a worker lost in mid-step.
    pub(crate) async fn go(&mut self) -> Stop {
        loop {
            let prepared = match self.workflow.prepare(self.place.clone()) {
                Ok(prepared) => prepared,
                Err(PrepareError::Input(misfit)) => return Stop::Failed(misfit.to_string()),
                Err(PrepareError::Incompatible(what)) => panic!("{what}"),
            };
            let step = prepared.step().to_owned();
            let cx = Arc::new(Cx::new(self.visiting(), self.shelf.clone()));
            self.tried_since.get_or_insert(NOW);
            let ended = prepared.run(Arc::clone(&cx)).await;
            self.tried_since = None;
            let recorded = cx.recorded();
            match ended {
                Err(error) => {
                    self.journal = recorded.journal;
                    match ErrorMeans::from(error) {
                        ErrorMeans::Retry { failure, .. } => {
                            self.failed_attempts += 1;
                            return Stop::Retries(failure.to_string());
                        }
                        ErrorMeans::Fail(failure) => return Stop::Failed(failure.to_string()),
                        other => panic!("{other:?}"),
                    }
                }
                Ok(next) => {
                    self.letters.retain(|letter| !recorded.taken().contains(&letter.id));
                    self.ledger.extend(recorded.journal.into_iter().filter(|record| record.of_run));
                    self.journal.clear();
                    (self.visit, self.failed_attempts) = (Visit(self.visit.0 + 1), 0);
                    self.steps.push(step);
                    if let Some(stop) = self.over(next) {
                        return stop;
                    }
                }
            }
        }
    }

    fn visiting(&self) -> Visiting {
        Visiting {
            run: RunId::new("run-1").unwrap(),
            workflow: self.workflow.name().clone(),
            visit: self.visit,
            failed_attempts: self.failed_attempts,
            earlier_try: self.tried_since,
            letters: self.letters.clone(),
            journal: self.journal.clone(),
            ledger: self.ledger.clone(),
            has_spilled: false,
            logs: self.logs,
            approvals: self.approvals.clone(),
            undoing: self.undoing.clone(),
            undo_count: 0,
            counts_effects: false,
            reached: Reached::Park,
        }
    }

    fn ask(&mut self, ask: AskApproval) -> Stop {
        let id = ApprovalId::derive(&RunId::new("run-1").unwrap(), &ask.action, &ask.fingerprint, self.visit);
        let approval = Approval {
            id,
            action: ask.action,
            parameters: ask.parameters,
            fingerprint: ask.fingerprint,
            version: self.workflow.version(),
            by: ask.by,
            quorum: ask.quorum,
            escalation: None,
            asked_at: NOW,
            expires_at: NOW.plus(ask.within),
            usable_ms: 1_000,
            answers: Vec::new(),
            used: None,
            replaced_by: None,
            by_link: ask.by_link,
        };
        let stop = Stop::Asks(approval.action.clone(), approval.deciders(NOW));
        self.approvals.push(approval);
        stop
    }

    fn over(&mut self, next: StepNext) -> Option<Stop> {
        match next {
            StepNext::Goto(place) => {
                self.move_to(place);
                None
            }
            StepNext::Undone(place) => {
                self.move_to(place);
                Some(Stop::Undone)
            }
            StepNext::Wait { place, ask: Some(ask), .. } => {
                self.move_to(place);
                Some(self.ask(*ask))
            }
            StepNext::Wait { place, on, until, ask: None } => {
                self.move_to(place);
                Some(match until {
                    WaitUntil::After(duration) => Stop::Sleeps(duration),
                    WaitUntil::Forever => Stop::Waits(on.iter().map(ToString::to_string).collect()),
                    WaitUntil::Time(time) => panic!("no sample waits until {time}"),
                })
            }
            StepNext::Complete { output, .. } => Some(Stop::Completed(output.parse().unwrap())),
        }
    }

    fn move_to(&mut self, NextPlace { cursor, state, appends, logs, .. }: NextPlace) {
        self.place = PlaceText::At { cursor, state, version: self.workflow.version() };
        self.logs = logs;
        let mut shelved = self.shelf.logs.lock().unwrap();
        for LogAppend { log, entries, .. } in appends {
            shelved.entry(log).or_default().extend(entries);
        }
    }
}

/// What lies beside the checkpoint.
#[derive(Default)]
struct Shelf {
    blobs: Mutex<BTreeMap<String, Vec<u8>>>,
    logs: Mutex<BTreeMap<LogId, Vec<Json>>>,
}

#[async_trait]
impl Host for Shelf {
    fn now(&self) -> Timestamp {
        NOW
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    async fn hold_until(&self, _until: Timestamp) -> Result<(), HostError> {
        Ok(())
    }

    async fn intend(&self, _: Vec<EffectRecord>, _: &EffectKey, _: Timestamp) -> Result<Intent, HostError> {
        Ok(Intent::Written)
    }

    async fn claim(&self, _: &EffectKey) -> Result<Claim, HostError> {
        Ok(Claim::Mine)
    }

    fn is_cancelled(&self) -> bool {
        false
    }

    async fn put_blob(&self, bytes: Vec<u8>) -> Result<BlobRef, HostError> {
        let blob = BlobRef::of(&RunId::new("run-1").unwrap(), &bytes);
        self.blobs.lock().unwrap().insert(blob.key.clone(), bytes);
        Ok(blob)
    }

    async fn get_blob(&self, blob: &BlobRef) -> Result<Vec<u8>, HostError> {
        Ok(self.blobs.lock().unwrap()[&blob.key].clone())
    }

    async fn read_log(&self, log: LogId, first: u64, count: u64) -> Result<Vec<Json>, HostError> {
        let range = usize::try_from(first).unwrap()..usize::try_from(first + count).unwrap();
        Ok(self.logs.lock().unwrap()[&log][range].to_vec())
    }

    async fn find_effect(&self, _key: &EffectKey) -> Result<Option<EffectRecord>, HostError> {
        Ok(None)
    }
}
