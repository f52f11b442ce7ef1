//! Workflows that do not keep what they declare: each is caught, and named.

use std::sync::atomic::{AtomicU64, Ordering};

use stepwell::prelude::*;
use stepwell_testing::{Fault, Report, crash_everywhere};

use crate::right::Books;

/// How a workflow lies.
#[derive(Clone, Copy, PartialEq)]
enum Lie {
    /// Declares what is idempotent by a key, and takes a new key for every attempt.
    NewKey,
    /// Sends other parameters under the same key.
    OtherParameters,
    /// Says that nothing has happened, when it is asked whether it has.
    ForgetsWhatHappened,
    /// Changes the outside beside any effect.
    ActsAside,
    /// Its result holds something random.
    RandomResult,
    /// Calls an outside idempotent that dedupes nothing.
    DedupesNothing,
}

#[derive(Serialize, Deserialize)]
struct Only;

struct Liar {
    lie: Lie,
    books: Books,
}

/// What is never the same again.
fn random() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Workflow for Liar {
    const NAME: &'static str = "liar";
    type Input = ();
    type State = ();
    type Step = Only;
    type Output = u64;

    fn begin(&self, (): ()) -> (Only, ()) {
        (Only, ())
    }

    async fn step(&self, Only: Only, (): &mut (), cx: &Cx) -> StepResult<Self> {
        let act = async |call: stepwell::Call<'_>| Ok::<_, CallError>(self.books.act("act", call.key()));
        let effect = cx.effect("act");
        let done = match self.lie {
            Lie::NewKey => effect.key(random()).idempotent().call(act).await?.min(1),
            Lie::OtherParameters => effect.key("k").idempotent().with(&random()).call(act).await?.min(1),
            Lie::ForgetsWhatHappened => {
                let ask = async |_| Ok::<_, CallError>(Asked::Absent);
                effect.key("k").reconcile(ask).call(act).await?.min(1)
            }
            Lie::ActsAside => self.books.act("aside", "-"),
            Lie::RandomResult => random(),
            Lie::DedupesNothing => effect.key("k").idempotent().call(act).await?.min(1),
        };
        Ok(complete(done))
    }
}

fn report(lie: Lie) -> Report {
    let test = crash_everywhere(move || Liar { lie, books: Books::default() });
    let test = test.check(|liar| match liar.books.times("act") {
        // The others are to be caught without the author's help.
        times if times > 1 && liar.lie == Lie::DedupesNothing => Err(format!("it was done {times} times")),
        _ => Ok(()),
    });
    test.run().unwrap()
}

/// What was said of it, one line for each kind of surprise.
fn caught(report: &Report, words: &str) {
    assert!(!report.surprises.is_empty(), "{report}");
    for surprise in &report.surprises {
        assert!(surprise.what.contains(words), "{surprise}\n{report}");
    }
    let failed = std::panic::catch_unwind(|| report.assert_no_surprises()).unwrap_err();
    let said = failed.downcast_ref::<String>().unwrap();
    assert!(said.contains(words) && said.contains("not as its author was promised"), "{said}");
}

#[test]
fn a_new_key_for_every_attempt_is_caught() {
    let report = report(Lie::NewKey);
    caught(&report, "effect act was called under 2 keys, without faults under 1");
    let row = report.effect("act").unwrap();
    assert!(row.promise.starts_with("NOT KEPT in "), "{report}");
    // Only where an attempt was lost after its call.
    let (broken, all) = (report.surprises.len() as u64, report.worlds);
    assert!(broken < all / 2, "{report}");
    assert!(report.surprises.iter().any(|surprise| surprise.at.contains("dies before call")), "{report}");
    assert_eq!(report.fault(Fault::Nothing).unwrap().surprises, 0);
}

#[test]
fn other_parameters_under_one_key_are_caught() {
    caught(&report(Lie::OtherParameters), "effect act was called with other parameters under one key");
}

#[test]
fn a_question_that_is_answered_wrongly_is_caught() {
    let report = report(Lie::ForgetsWhatHappened);
    caught(&report, "effect act, reconcilable, was called 2 times under one key");
    assert!(report.effect("act").unwrap().asked > 0, "{report}");
}

#[test]
fn what_is_done_beside_any_effect_shows_in_the_result() {
    let report = report(Lie::ActsAside);
    caught(&report, "it completes with 2; without faults it completes with 1");
    assert_eq!(report.fault(Fault::Nothing).unwrap().surprises, 0);
    assert!(report.to_string().contains("it calls nothing outside"), "{report}");
}

#[test]
fn a_random_result_is_caught_where_nothing_goes_wrong() {
    let report = report(Lie::RandomResult);
    caught(&report, "; without faults it completes with ");
    assert_eq!(report.fault(Fault::Nothing).unwrap().surprises, 1, "{report}");
    // Its author may say that this is meant.
    let test = crash_everywhere(|| Liar { lie: Lie::RandomResult, books: Books::default() }).ignoring("");
    test.run().unwrap().assert_no_surprises();
}

#[test]
fn an_outside_that_dedupes_nothing_is_found_by_its_authors_check() {
    caught(&report(Lie::DedupesNothing), "the check of the outside fails: it was done 2 times");
}
