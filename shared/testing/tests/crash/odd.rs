//! Honest workflows that a careless judge would misjudge, and results that are long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::{Value, json};
use stepwell::prelude::*;
use stepwell_testing::{Resolution, Unknown, crash_everywhere, happened};

use crate::right::Books;

#[derive(Serialize, Deserialize)]
enum At {
    First,
    Second,
}

/// Its call takes 12 s, and acts at its end.
struct Slow {
    once: bool,
    books: Books,
}

impl Workflow for Slow {
    const NAME: &'static str = "slow";
    type Input = ();
    type State = ();
    type Step = At;
    type Output = String;

    fn begin(&self, (): ()) -> (At, ()) {
        (At::First, ())
    }

    async fn step(&self, _: At, (): &mut (), cx: &Cx) -> StepResult<Self> {
        let act = async |call: stepwell::Call<'_>| {
            tokio::time::sleep(seconds(12)).await;
            self.books.act("act", call.key());
            Ok::<_, CallError>("done".to_owned())
        };
        let effect = cx.effect("act").key("k").deadline(seconds(30));
        let done = if self.once {
            effect.once().call(act).await?
        } else {
            let ask = async |call: stepwell::Call<'_>| {
                let has = self.books.has("act", call.key());
                Ok::<_, CallError>(if has { Asked::Happened("done".to_owned()) } else { Asked::Absent })
            };
            effect.reconcile(ask).call(act).await?
        };
        Ok(complete(done))
    }
}

fn done_once(slow: &Arc<Slow>) -> Result<(), String> {
    match slow.books.times("act") {
        1 => Ok(()),
        times => Err(format!("it was done {times} times")),
    }
}

#[test]
fn a_call_that_was_cut_off_before_it_acted_may_be_made_again() {
    let test = crash_everywhere(|| Slow { once: false, books: Books::default() });
    let report = test.patience(Duration::ZERO).check(done_once).run().unwrap();
    report.assert_no_surprises();
    // Some worker has died while the call was on its way.
    assert_eq!(report.effect("act").unwrap().most, 2, "{report}");
    assert!(report.faults.iter().all(|row| row.ended_alike == row.worlds), "{report}");
}

#[test]
fn a_person_is_told_of_calls_that_were_cut_off() {
    static CUT_OFF: AtomicBool = AtomicBool::new(false);
    let looks = |slow: &Arc<Slow>, unknown: &Unknown| {
        let has = slow.books.has("act", unknown.key.as_str());
        assert_eq!(has, unknown.ended > 0);
        CUT_OFF.fetch_or(unknown.calls > unknown.ended, Ordering::Relaxed);
        Some(if has { happened(&"done") } else { Resolution::TryAgain })
    };
    let test = crash_everywhere(|| Slow { once: true, books: Books::default() });
    let report = test.patience(Duration::ZERO).resolve_unknowns(looks).check(done_once).run().unwrap();
    report.assert_no_surprises();
    assert!(report.faults.iter().all(|row| row.ended_alike == row.worlds), "{report}");
    assert!(CUT_OFF.load(Ordering::Relaxed), "{report}");
}

/// Every one of it differs from those before.
struct Fickle {
    number: u64,
    long: bool,
}

impl Workflow for Fickle {
    const NAME: &'static str = "fickle";
    type Input = ();
    type State = ();
    type Step = At;
    type Output = Value;

    fn begin(&self, (): ()) -> (At, ()) {
        (At::First, ())
    }

    async fn step(&self, at: At, (): &mut (), _: &Cx) -> StepResult<Self> {
        let text = "x".repeat(100_000);
        let number = self.number;
        Ok(match at {
            At::First if self.number == 0 && !self.long => goto(At::Second),
            _ if self.long => {
                let many: Vec<u64> = (0..50).map(|at| at + number).collect();
                complete(json!({"text": text, "a/b": {"at": format!("{number} {text}")}, "many": many}))
            }
            At::First | At::Second => complete(json!(1)),
        })
    }
}

fn fickle(long: bool) -> impl Fn() -> Fickle + Send + 'static {
    let next = AtomicU64::new(0);
    move || Fickle { number: next.fetch_add(1, Ordering::Relaxed), long }
}

#[test]
fn what_differs_in_a_long_result_is_named_and_kept_short() {
    let report = crash_everywhere(fickle(true)).at_most(3).run().unwrap();
    assert!(!report.surprises.is_empty(), "{report}");
    for surprise in &report.surprises {
        let what = &surprise.what;
        assert!(what.len() < 5_000, "{} bytes: {what}", what.len());
        assert!(what.contains("/a~1b/at is ") && what.contains("/many/8 is "), "{what}");
        assert!(!what.contains("/many/9 is ") && what.ends_with("; and more"), "{what}");
    }
    assert!(report.to_string().len() < 100_000 && report.without_faults.len() < 1_000);
    let test = crash_everywhere(fickle(true)).at_most(3).ignoring("/a~1b/at").ignoring("/many");
    test.run().unwrap().assert_no_surprises();
}

#[test]
fn worlds_that_took_another_way_are_counted_in_a_note() {
    let report = crash_everywhere(fickle(false)).run().unwrap();
    report.assert_no_surprises();
    assert!(report.notes.iter().any(|note| note.contains("took another way before anything went wrong")), "{report}");
}
