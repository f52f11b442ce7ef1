//! Code and data that do not fit: rolling deploys, removed steps, newer versions, migrations.

use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;
use stepwell::prelude::*;
use stepwell::{Incompatible, Stored};
use stepwell_core::{Phase, Place, RunId};
use stepwell_engine::ClientError;

use crate::bed::{Bed, minute, one_step, secs};
use crate::repair::{edit, move_to, who};

/// The first version: writes, then sends.
struct V1;

#[derive(Serialize, Deserialize)]
enum Step1 {
    Write,
    Send,
}

#[derive(Serialize, Deserialize)]
struct State1 {
    words: u32,
}

impl Workflow for V1 {
    const NAME: &'static str = "letter";
    type Input = u32;
    type State = State1;
    type Step = Step1;
    type Output = String;

    fn begin(&self, words: u32) -> (Step1, State1) {
        (Step1::Write, State1 { words })
    }

    async fn step(&self, at: Step1, state: &mut State1, _cx: &Cx) -> StepResult<Self> {
        Ok(match at {
            Step1::Write => goto(Step1::Send),
            Step1::Send => complete(format!("{} words", state.words)),
        })
    }
}

/// The same version with a step more, as a deployment that forgot to raise it.
#[derive(Default)]
struct V1Checked {
    /// Attempts of `Check`, whatever the run knows of them.
    checks: AtomicU32,
}

#[derive(Serialize, Deserialize)]
enum StepChecked {
    Write,
    Check,
    Send,
}

impl Workflow for V1Checked {
    const NAME: &'static str = "letter";
    type Input = u32;
    type State = State1;
    type Step = StepChecked;
    type Output = String;

    fn begin(&self, words: u32) -> (StepChecked, State1) {
        (StepChecked::Write, State1 { words })
    }

    fn policy(&self, _: &StepChecked) -> StepPolicy {
        StepPolicy::default().retry(RetryPolicy::default().every(secs(1)).max_attempts(2).deadline(secs(5)))
    }

    async fn step(&self, at: StepChecked, state: &mut State1, cx: &Cx) -> StepResult<Self> {
        Ok(match at {
            StepChecked::Write => goto(StepChecked::Check),
            StepChecked::Check => {
                let attempt = self.checks.fetch_add(1, Ordering::Relaxed) + 1;
                assert_eq!(cx.attempt(), attempt, "only real attempts are counted");
                if attempt == 1 && state.words == 13 {
                    return Err(StepError::retry("a typo"));
                }
                goto(StepChecked::Send)
            }
            StepChecked::Send => complete(format!("{} checked words", state.words)),
        })
    }
}

/// The third version: words became pages, and the step was renamed on the way.
struct V3;

#[derive(Serialize, Deserialize)]
enum Step3 {
    Draft,
    Post,
}

#[derive(Serialize, Deserialize)]
struct State3 {
    pages: u32,
    stamped: bool,
}

impl Workflow for V3 {
    const NAME: &'static str = "letter";
    const VERSION: u32 = 3;
    type Input = u32;
    type State = State3;
    type Step = Step3;
    type Output = String;

    fn begin(&self, words: u32) -> (Step3, State3) {
        (Step3::Draft, State3 { pages: words / 100, stamped: false })
    }

    fn policy(&self, _: &Step3) -> StepPolicy {
        StepPolicy::default().retry(RetryPolicy::default().every(secs(1)))
    }

    async fn step(&self, at: Step3, state: &mut State3, cx: &Cx) -> StepResult<Self> {
        Ok(match at {
            Step3::Draft => goto(Step3::Post),
            Step3::Post if cx.attempt() == 1 && state.pages == 9 => return Err(StepError::retry("no stamps")),
            Step3::Post => complete(format!("{} pages, stamped {}", state.pages, state.stamped)),
        })
    }

    fn migrate(from: u32, mut stored: Stored) -> Result<Stored, Incompatible> {
        match from {
            1 => {
                let words = stored.state["words"].as_u64().ok_or_else(|| Incompatible::new("no `words`"))?;
                if words == 66 {
                    return Err(Incompatible::new("a letter of 66 words has no page number"));
                }
                stored.state = serde_json::json!({ "pages": words / 100 });
                if stored.step == "Send" {
                    stored.step = "Post".into();
                }
            }
            _ => stored.state["stamped"] = true.into(),
        }
        Ok(stored)
    }
}

fn old() -> Registry {
    Registry::new().with(V1)
}

/// A run of the first version that stands before `Send`.
async fn half_way(words: u32) -> (Bed, RunId) {
    let bed = Bed::new(old());
    let run = bed.start::<V1>(words).await;
    bed.turn(&one_step()).await;
    (bed, run)
}

/// What an old program does with a run that stands at a step it does not know.
async fn at_unknown_step(words: u32) -> (Bed, RunId) {
    let bed = Bed::new(Registry::new().with(V1Checked::default()));
    let run = bed.start::<V1Checked>(words).await;
    bed.turn(&one_step()).await;
    (bed, run)
}

#[tokio::test(start_paused = true)]
async fn an_unknown_workflow_is_tried_again_then_parked_with_its_name() {
    let (bed, run) = half_way(1).await;
    let other = bed.deployed(Registry::new());
    other.settle().await;
    let reason = bed.parked(&run).await;
    assert_eq!(reason.code(), "incompatible");
    assert!(reason.to_string().contains("no workflow letter"), "{reason}");
    assert!(bed.elapsed() > minutes(5), "a rolling deploy takes a while: {:?}", bed.elapsed());
    let story = bed.story(&run).await;
    assert_eq!(story.matches("Send:retried").count(), 7, "{story}");
    bed.resume(&run).await;
    bed.settle().await;
    assert_eq!(bed.output::<String>(&run).await, "1 words");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_step_is_parked_with_its_bytes_as_they_were() {
    let (bed, run) = at_unknown_step(1).await;
    let before = bed.checkpoint(&run).await.progress.place;
    bed.deployed(old()).settle().await;
    let reason = bed.parked(&run).await;
    assert!(reason.to_string().contains("unknown variant `Check`"), "{reason}");
    let after = bed.checkpoint(&run).await.progress;
    assert_eq!((after.place, after.version), (before, 1));
    bed.resume(&run).await;
    bed.settle().await;
    assert_eq!(bed.output::<String>(&run).await, "1 checked words");
}

#[tokio::test(start_paused = true)]
async fn a_rolling_deploy_only_delays_a_run() {
    let (bed, run) = at_unknown_step(1).await;
    let old = bed.deployed(old());
    for _ in 0..3 {
        old.turn(&minute()).await;
    }
    assert_eq!(bed.phase(&run).await, Phase::Retrying);
    bed.settle().await;
    assert_eq!(bed.output::<String>(&run).await, "1 checked words");
}

#[tokio::test(start_paused = true)]
async fn tries_by_old_code_are_not_failures_of_the_step() {
    // The step may fail once in two attempts and five seconds; old code had the run three times before.
    let (bed, run) = at_unknown_step(13).await;
    let old = bed.deployed(old());
    for _ in 0..3 {
        old.turn(&minute()).await;
    }
    bed.settle().await;
    assert_eq!(bed.phase(&run).await, Phase::Completed, "{:?}", bed.checkpoint(&run).await.progress.status);
    assert_eq!(bed.output::<String>(&run).await, "13 checked words");
}

#[tokio::test(start_paused = true)]
async fn failures_of_the_step_do_not_use_up_the_tries_of_a_deploy() {
    let (bed, run) = at_unknown_step(13).await;
    bed.turn(&minute()).await;
    let old = bed.deployed(old());
    for tries in 1..=7 {
        old.turn(&minute()).await;
        assert_eq!(bed.phase(&run).await, Phase::Retrying, "try {tries}");
    }
    bed.settle().await;
    assert_eq!(bed.output::<String>(&run).await, "13 checked words");
}

#[tokio::test(start_paused = true)]
async fn old_code_leaves_a_newer_version_alone() {
    let bed = Bed::new(Registry::new().with(V3));
    let run = bed.start::<V3>(700).await;
    bed.turn(&one_step()).await;
    bed.deployed(old()).settle().await;
    let reason = bed.parked(&run).await.to_string();
    assert!(reason.contains("at version 3 of workflow letter, this code is version 1"), "{reason}");
    bed.resume(&run).await;
    bed.settle().await;
    assert_eq!(bed.output::<String>(&run).await, "7 pages, stamped false");
}

#[tokio::test(start_paused = true)]
async fn a_migration_runs_version_by_version_and_is_recorded() {
    let (bed, run) = half_way(500).await;
    let new = bed.deployed(Registry::new().with(V3));
    new.settle().await;
    assert_eq!(bed.output::<String>(&run).await, "5 pages, stamped true");
    let entry = bed.history(&run).await.pop().unwrap().entry;
    assert_eq!((entry.step.as_str(), entry.more.note.as_deref()), ("Post", Some("migrated from version 1 to 3")));
}

#[tokio::test(start_paused = true)]
async fn a_migration_counts_only_once_its_step_has_ended() {
    let (bed, run) = half_way(900).await;
    let new = bed.deployed(Registry::new().with(V3));
    new.turn(&minute()).await;
    let progress = bed.checkpoint(&run).await.progress;
    assert_eq!((progress.status.phase(), progress.version), (Phase::Retrying, 1));
    assert!(matches!(&progress.place, Place::At { cursor, .. } if cursor.text() == r#""Send""#));
    new.settle().await;
    assert_eq!(bed.output::<String>(&run).await, "9 pages, stamped true");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_be_migrated_is_parked_as_it_was() {
    let (bed, run) = half_way(66).await;
    let before = bed.checkpoint(&run).await.progress.place;
    bed.deployed(Registry::new().with(V3)).settle().await;
    let reason = bed.parked(&run).await.to_string();
    assert!(reason.contains("66 words has no page number"), "{reason}");
    assert_eq!(bed.checkpoint(&run).await.progress.place, before);
    // The old code is still the right one for it.
    bed.resume(&run).await;
    bed.settle().await;
    assert_eq!(bed.output::<String>(&run).await, "66 words");
}

#[tokio::test(start_paused = true)]
async fn an_input_that_does_not_fit_any_more_fails_the_run_by_name() {
    struct Narrow;
    impl Workflow for Narrow {
        const NAME: &'static str = "letter";
        type Input = (u32, String);
        type State = ();
        type Step = Step1;
        type Output = ();
        fn begin(&self, _: (u32, String)) -> (Step1, ()) {
            (Step1::Send, ())
        }
        async fn step(&self, _: Step1, (): &mut (), _cx: &Cx) -> StepResult<Self> {
            Ok(complete(()))
        }
    }
    let bed = Bed::new(old());
    let run = bed.start::<V1>(1).await;
    bed.deployed(Registry::new().with(Narrow)).settle().await;
    let failure = bed.failure(&run).await;
    assert!(failure.message.contains("the input of workflow letter does not fit"), "{failure}");
}

/// The same version, renamed throughout, as a deployment that forgot to migrate.
struct Renamed;

#[derive(Serialize, Deserialize)]
struct StateRenamed {
    pages: u32,
}

#[derive(Serialize, Deserialize)]
enum StepRenamed {
    Post,
}

impl Workflow for Renamed {
    const NAME: &'static str = "letter";
    type Input = u32;
    type State = StateRenamed;
    type Step = StepRenamed;
    type Output = String;

    fn begin(&self, pages: u32) -> (StepRenamed, StateRenamed) {
        (StepRenamed::Post, StateRenamed { pages })
    }

    async fn step(&self, _: StepRenamed, state: &mut StateRenamed, _cx: &Cx) -> StepResult<Self> {
        Ok(complete(format!("{} pages", state.pages)))
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_the_code_cannot_read_at_all_is_mended_half_by_half() {
    let (bed, run) = half_way(90).await;
    let new = bed.deployed(Registry::new().with(Renamed));
    new.settle().await;
    assert_eq!(new.phase(&run).await, Phase::Parked);
    edit(&new, &run, json!([{"op": "add", "path": "/pages", "value": 3}])).await.unwrap();
    move_to(&new, &run, json!("Post")).await.unwrap();
    // From here on it can be read, and stays so.
    let worse = edit(&new, &run, json!([{"op": "remove", "path": "/pages"}])).await;
    assert!(matches!(worse, Err(ClientError::BadPatch(_))), "{worse:?}");
    let nowhere = move_to(&new, &run, json!("Send")).await;
    assert!(matches!(nowhere, Err(ClientError::BadStep(_))), "{nowhere:?}");
    new.client().resume(&run, &who()).await.unwrap();
    new.settle().await;
    assert_eq!(new.output::<String>(&run).await, "3 pages");
}
