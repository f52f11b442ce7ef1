//! How effects are taken back: a step for each, kept with its intent.

use std::sync::Arc;

use serde_json::json;
use stepwell::host::{ErrorMeans, HostError, PlaceText, StepNext};
use stepwell::prelude::*;
use stepwell_core::limits::UNDO_MAX;
use stepwell_core::{
    Class, EffectKey, EffectRecord, Failure, FailureKind, Outcome, ParkReason, RunId, Scope, WorkflowName,
};

use crate::host::{FakeHost, Outside, START, bare, is_misused, json, means, only_record, succeeded};

/// Takes back what it does, in as many ways as it has steps.
struct Trip {
    outside: Arc<Outside>,
    secret: Secret,
}

#[derive(Clone, Serialize, Deserialize)]
enum At {
    Reserve,
    Nowhere,
    Leaky,
    Pay,
    Unreserve { seat: String },
    Elsewhere,
    Finishes,
}

/// What another workflow has for a step.
#[derive(Serialize)]
enum Other {
    Unbook,
}

impl Workflow for Trip {
    const NAME: &'static str = "trip";
    type Input = At;
    type State = u8;
    type Step = At;
    type Output = ();

    fn begin(&self, at: At) -> (At, u8) {
        (at, 0)
    }

    fn policy(&self, at: &At) -> StepPolicy {
        let timeout = if matches!(at, At::Unreserve { .. }) { minutes(9) } else { minutes(1) };
        StepPolicy::default().timeout(timeout)
    }

    async fn step(&self, at: At, visited: &mut u8, cx: &Cx) -> StepResult<Self> {
        *visited += 1;
        let seat = |seat: &str| At::Unreserve { seat: seat.into() };
        let reserve = cx.effect("reserve").key("trip-1").idempotent();
        let reserve = match at {
            At::Reserve => reserve.undo(&seat("7a")),
            At::Nowhere => reserve.undo(&Other::Unbook),
            At::Leaky => reserve.undo(&seat(self.secret.expose())),
            At::Pay => reserve.point_of_no_return(),
            At::Unreserve { .. } => return Ok(undone()),
            At::Elsewhere => return Ok(goto(seat("7a"))),
            At::Finishes => return Ok(complete(())),
        };
        reserve.call(|call| self.outside.ask(call, Ok::<_, CallError>(7))).await?;
        Ok(complete(()))
    }
}

const SECRET: &str = "k-undoing-0815";

/// Runs a step, in this context; answers how it ended and what the outside has heard.
async fn run(at: At, cx: Cx) -> (Result<StepNext, StepError>, usize, Vec<EffectRecord>) {
    let outside = Arc::<Outside>::default();
    let secret = Secret::new("seat-key", SECRET.into()).unwrap();
    let registry = Registry::new().with(Trip { outside: outside.clone(), secret });
    let workflow = registry.get(&WorkflowName::new("trip").unwrap()).unwrap();
    let step = workflow.prepare(PlaceText::Fresh { input: json(&json!(at)), at: None });
    let step = step.unwrap_or_else(|error| panic!("{error:?}"));
    let cx = Arc::new(cx);
    let ended = step.run(cx.clone()).await;
    (ended, outside.calls(), cx.recorded().journal)
}

fn undo_step() -> serde_json::Value {
    json!({"Unreserve": {"seat": "7a"}})
}

fn taken() -> EffectKey {
    let workflow = WorkflowName::new("refund").unwrap();
    EffectKey::derive(&RunId::new("run-1").unwrap(), &workflow, "reserve", Scope::Run("trip-1"))
}

/// The context of a step that takes back this.
fn undoes(host: &Arc<FakeHost>, outcome: Outcome) -> Cx {
    host.visit(|visiting| {
        visiting.undoing = Some(taken());
        visiting.ledger = vec![bare(taken(), "reserve", Class::Idempotent(None), outcome)];
    })
}

#[tokio::test]
async fn the_step_is_kept_with_the_intent() {
    let host = FakeHost::new();
    let (ended, calls, journal) = run(At::Reserve, host.cx()).await;
    assert!(matches!(ended, Ok(StepNext::Complete { .. })) && calls == 1);
    let [intent] = &host.intended()[..] else { panic!("what can be taken back has an intent") };
    for record in [&intent[0], &journal[0]] {
        assert_eq!(record.undo, Some(json(&undo_step())));
    }
    assert!(intent[0].is_unknown());

    let host = FakeHost::new();
    let (_, _, journal) = run(At::Pay, host.cx()).await;
    assert_eq!((host.intended().len(), journal[0].no_return, journal[0].undo.clone()), (1, true, None));
}

#[tokio::test]
async fn a_step_that_cannot_take_it_back_is_found_before_the_call() {
    let host = FakeHost::new();
    let full = host.visit(|visiting| visiting.undo_count = UNDO_MAX + 1);
    let inner = undoes(&host, succeeded(&json!(7)));
    for (at, cx, problem) in [
        (At::Nowhere, host.cx(), "is none of the workflow: "),
        (At::Leaky, host.cx(), "holds secret seat-key in plain"),
        (At::Reserve, full, "a run can take back so many"),
        (At::Reserve, inner, "what takes back is not taken back itself"),
    ] {
        let (ended, calls, journal) = run(at, cx).await;
        let error = ended.unwrap_err();
        let said = error.to_string();
        assert!(said.contains("the step that takes it back") && said.contains(problem), "{said}");
        assert!(!said.contains(SECRET), "{said}");
        assert!(matches!(ErrorMeans::from(error), ErrorMeans::Fail(_)));
        assert_eq!((calls, journal, host.intended().len()), (0, vec![], 0), "{said}");
    }
}

#[tokio::test]
async fn a_step_that_takes_back_says_so_in_the_end_and_only_such_a_step() {
    let host = FakeHost::new();
    let back = At::Unreserve { seat: "7a".into() };
    let error = run(back.clone(), host.cx()).await.0.unwrap_err();
    assert!(error.to_string().contains("ended with `undone()`, but takes nothing back"), "{error}");
    assert!(matches!(ErrorMeans::from(error), ErrorMeans::Fail(_)));

    let (ended, ..) = run(back, undoes(&host, succeeded(&json!(7)))).await;
    let Ok(StepNext::Undone(place)) = ended else { panic!("{ended:?}") };
    // Where it stands next is for the engine to say; what it knows counts.
    assert_eq!((place.cursor, place.state, place.timeout), (json(&undo_step()), json(&json!(1)), minutes(9)));

    let error = run(At::Finishes, undoes(&host, succeeded(&json!(7)))).await.0.unwrap_err();
    assert!(error.to_string().contains("takes an effect back, and has to end with `undone()`"), "{error}");

    // It may take several steps.
    let (ended, ..) = run(At::Elsewhere, undoes(&host, succeeded(&json!(7)))).await;
    assert!(matches!(ended, Ok(StepNext::Goto(_))), "{ended:?}");
}

#[tokio::test]
async fn the_result_to_take_back_is_read_as_what_it_is() {
    let host = FakeHost::new();
    let cx = undoes(&host, succeeded(&json!(7)));
    assert_eq!(cx.result_to_undo::<u8>().await.unwrap(), Some(7));
    let error = cx.result_to_undo::<String>().await.unwrap_err();
    assert!(error.to_string().contains("does not fit"), "{error}");
    assert!(matches!(ErrorMeans::from(error), ErrorMeans::Park(ParkReason::Data { .. })));

    let cx = undoes(&host, Outcome::Succeeded(host.shelve("8")));
    assert_eq!(cx.result_to_undo::<u8>().await.unwrap(), Some(8));

    // It may have happened, and nobody knows what it answered.
    let unknown = Outcome::Unknown { since: START, evidence: "reset".into() };
    let failed = Outcome::Failed(Failure::new(FailureKind::Refused, "no"));
    for outcome in [unknown, failed] {
        assert_eq!(undoes(&host, outcome).result_to_undo::<u8>().await.unwrap(), None);
    }
    let error = host.cx().result_to_undo::<u8>().await.unwrap_err();
    assert!(error.to_string().contains("this step takes nothing back"), "{error}");
}

#[tokio::test]
async fn a_result_that_the_checkpoint_no_longer_carries_is_asked_for() {
    let host = FakeHost::new();
    let spilled = |host: &Arc<FakeHost>| {
        host.visit(|visiting| {
            visiting.undoing = Some(taken());
            visiting.has_spilled = true;
        })
    };
    assert_eq!(spilled(&host).result_to_undo::<u8>().await.unwrap(), None);
    host.spill(bare(taken(), "reserve", Class::Idempotent(None), succeeded(&json!(9))));
    assert_eq!(spilled(&host).result_to_undo::<u8>().await.unwrap(), Some(9));
    host.be_in_trouble(HostError::Passing("the store is away".into()));
    let error = spilled(&host).result_to_undo::<u8>().await.unwrap_err();
    assert!(matches!(ErrorMeans::from(error), ErrorMeans::Retry { .. }));
}

#[tokio::test]
async fn what_takes_back_makes_effects_of_its_own() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let cx = undoes(&host, succeeded(&json!(7)));
    let back = cx.effect("unreserve").key("trip-1").idempotent();
    back.call(|call| outside.ask(call, Ok::<_, CallError>(()))).await.unwrap();
    assert_eq!((only_record(&cx).name.as_str(), outside.calls()), ("unreserve", 1));
    assert_ne!(only_record(&cx).key, taken());

    // The step of one is not known outside of a workflow's step: it is taken as it is.
    let cx = undoes(&host, succeeded(&json!(7)));
    let nested = cx.effect("again").key("trip-1").idempotent().undo(&At::Finishes);
    let error = nested.call(|call| outside.ask(call, Ok::<_, CallError>(()))).await.unwrap_err();
    assert!(is_misused(&error, "what takes back is not taken back itself"), "{error}");
    assert!(matches!(means(error), ErrorMeans::Fail(_)));
}

#[tokio::test]
async fn an_effect_that_was_signed_off_is_not_called_again() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let unknown = Outcome::Unknown { since: START, evidence: "reset".into() };
    let key = EffectKey::derive(host.cx().run(), &WorkflowName::new("refund").unwrap(), "letter", Scope::Run("7"));
    let record = EffectRecord { signed_off: Some("ann".into()), ..bare(key, "letter", Class::Once, unknown) };
    let cx = host.visit(|visiting| visiting.ledger = vec![record]);
    let letter = cx.effect("letter").key(7).once();
    let error = letter.call(|call| outside.ask(call, Ok::<_, CallError>(()))).await.unwrap_err();
    assert_eq!(error.to_string(), "effect letter may have happened, and ann has signed it off as uncertain");
    let ErrorMeans::Fail(failure) = means(error) else { panic!("no retry helps") };
    assert_eq!((failure.code.as_deref(), outside.calls()), (Some("signed-off"), 0));
}
