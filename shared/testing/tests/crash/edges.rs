//! What cannot be tested is said plainly; what is unusual is tested all the same.

use std::time::Instant;

use stepwell::prelude::*;
use stepwell_core::WorkflowName;
use stepwell_testing::{CrashTestError, WorldError, crash_everywhere, crash_registered};

use crate::right::{READY, Trade};

/// What a run does.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
enum Do {
    AskAndDecide,
    Loop,
    Fail,
    CallAThread,
    NeverAnswers,
}

#[derive(Serialize, Deserialize)]
enum At {
    First,
    Decide,
}

struct Odd;

impl Workflow for Odd {
    const NAME: &'static str = "odd";
    const MAX_STEPS: u64 = u64::MAX;
    type Input = Do;
    type State = Do;
    type Step = At;
    type Output = String;

    fn begin(&self, what: Do) -> (At, Do) {
        (At::First, what)
    }

    async fn step(&self, at: At, what: &mut Do, cx: &Cx) -> StepResult<Self> {
        match (at, *what) {
            (At::Decide, _) => {
                let Decision::Approved { .. } = cx.approval("do")? else {
                    return Err(StepError::terminal("nobody allows it"));
                };
                let done = cx.effect("do").key("k").idempotent().approved_by("do", &1);
                Ok(complete(done.call(async |_| Ok::<_, CallError>("done".to_owned())).await?))
            }
            (At::First, Do::AskAndDecide) => {
                let asked = Approval::of("do", &1).by(role("boss")).or(role("owner")).quorum(2);
                Ok(wait(At::Decide).for_approval(asked.within(days(3))))
            }
            (At::First, Do::Loop) => Ok(goto(At::First)),
            (At::First, Do::Fail) => Err(StepError::terminal("no")),
            // Somebody outside of the runtime answers, in real time.
            (At::First, Do::CallAThread) => {
                let call = cx.effect("thread").idempotent().deadline(seconds(2));
                let answer = call.call(async |_| {
                    let (say, hear) = tokio::sync::oneshot::channel();
                    std::thread::spawn(move || {
                        std::thread::sleep(Duration::from_millis(5));
                        say.send("heard".to_owned())
                    });
                    hear.await
                });
                Ok(complete(answer.await?))
            }
            (At::First, Do::NeverAnswers) => {
                let call = cx.effect("silence").key("k").once().deadline(seconds(2));
                Ok(complete(call.call(async |_| std::future::pending::<Result<String, CallError>>().await).await?))
            }
        }
    }
}

#[test]
fn approvals_are_given_where_the_test_says_so() {
    let report = crash_everywhere(|| Odd).input(Do::AskAndDecide).approving().run().unwrap();
    report.assert_no_surprises();
    assert_eq!(report.without_faults, r#"it completes with "done""#);
    // Nobody answers for three days: that is an end, too.
    let begun = Instant::now();
    let report = crash_everywhere(|| Odd).input(Do::AskAndDecide).run().unwrap();
    report.assert_no_surprises();
    assert!(report.without_faults.contains("nobody allows it"), "{report}");
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
}

#[test]
fn a_run_that_fails_is_compared_by_its_failure() {
    let report = crash_everywhere(|| Odd).input(Do::Fail).run().unwrap();
    report.assert_no_surprises();
    assert!(report.without_faults.starts_with("it fails: "), "{report}");
}

#[test]
fn time_stands_still_while_somebody_outside_answers() {
    let report = crash_everywhere(|| Odd).input(Do::CallAThread).run().unwrap();
    report.assert_no_surprises();
    assert_eq!(report.without_faults, r#"it completes with "heard""#);
    assert_eq!(report.notes, Vec::<String>::new());
}

#[test]
fn an_outside_that_never_answers_leaves_an_unknown_and_a_note() {
    let test = crash_everywhere(|| Odd).input(Do::NeverAnswers).patience(Duration::from_millis(5));
    let report = test.run().unwrap();
    report.assert_no_surprises();
    assert!(report.without_faults.starts_with("it is parked: "), "{report}");
    assert!(report.notes[0].contains("calls to the outside took so long"), "{report}");
    assert_eq!(report.effect("silence").unwrap().most, 1, "{report}");
}

#[test]
fn what_cannot_be_compared_is_an_error() {
    let error = crash_everywhere(Trade::new).input("order-7").signal(READY, "ann".into()).signal(READY, "bob".into());
    assert!(matches!(error.run(), Err(CrashTestError::NeverSent(name)) if name.as_str() == "ready"));

    let test = crash_everywhere(Trade::new).input("order-7").signal(Signal::<u8>::new("ready"), 7);
    let error = test.run().unwrap_err();
    assert!(error.to_string().contains("signal ready of workflow trade does not fit"), "{error}");

    let error = crash_everywhere(Trade::new).input(7).run().unwrap_err();
    assert!(error.to_string().contains("input of workflow trade"), "{error}");

    let name = WorkflowName::new("none").unwrap();
    let error = crash_registered(name, || Ok((Registry::new().with(Odd), ()))).run().unwrap_err();
    assert!(matches!(&error, CrashTestError::World(WorldError::Client(_))), "{error}");

    let name = WorkflowName::new("odd").unwrap();
    let error = crash_registered::<()>(name, || Err("no port is free".into())).run().unwrap_err();
    assert!(error.to_string().ends_with("no port is free"), "{error}");

    let test = crash_everywhere(Trade::new).input("order-7").check(|_| Err("nothing is right".into()));
    assert!(matches!(test.run(), Err(CrashTestError::Check(why)) if why == "nothing is right"));
}
