//! A workflow with an effect of each class, which keeps what it declares.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use stepwell::prelude::*;
use stepwell_testing::{CrashTest, Fault, Report, Resolution, crash_everywhere};

/// The outside: it keeps what was asked under which key, and dedupes where it promises to.
#[derive(Default)]
pub(crate) struct Books(Mutex<BTreeMap<String, u64>>);

impl Books {
    /// Does it, and says how often it was done under this key.
    pub(crate) fn act(&self, what: &str, key: &str) -> u64 {
        let mut books = self.0.lock().unwrap();
        let times = books.entry(format!("{what} {key}")).or_default();
        *times += 1;
        *times
    }

    pub(crate) fn times(&self, what: &str) -> u64 {
        self.0.lock().unwrap().iter().filter(|(entry, _)| entry.starts_with(what)).map(|(_, times)| times).sum()
    }

    pub(crate) fn has(&self, what: &str, key: &str) -> bool {
        self.0.lock().unwrap().contains_key(&format!("{what} {key}"))
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) enum At {
    Look,
    Ship,
    Pay,
    Post,
}

pub(crate) const READY: Signal<String> = Signal::new("ready");

pub(crate) struct Trade {
    pub(crate) books: Books,
}

impl Trade {
    pub(crate) fn new() -> Self {
        Self { books: Books::default() }
    }
}

impl Workflow for Trade {
    const NAME: &'static str = "trade";
    type Input = String;
    type State = Vec<String>;
    type Step = At;
    type Output = Vec<String>;

    fn signals() -> Signals {
        Signals::none().and(READY)
    }

    fn begin(&self, order: String) -> (At, Vec<String>) {
        (At::Look, vec![order])
    }

    async fn step(&self, at: At, said: &mut Vec<String>, cx: &Cx) -> StepResult<Self> {
        let books = &self.books;
        let order = said[0].clone();
        let done = |what: &'static str, key: &str| {
            books.act(what, key);
            Ok::<_, CallError>(what.to_owned())
        };
        match at {
            At::Look => {
                let price = cx.effect("price").read().call(async |_| done("price", "-")).await?;
                let hold = cx.effect("hold").idempotent().with(&order);
                said.extend([price, hold.call(async |call| done("hold", call.key())).await?]);
                Ok(wait(At::Ship).for_signal(READY).within(days(3)))
            }
            At::Ship => {
                said.push(cx.take(READY).await?.unwrap_or_else(|| "nobody".into()));
                let ship = cx.effect("ship").key(&order).idempotent_for(hours(24)).with(&order);
                said.push(ship.call(async |call| done("ship", call.key())).await?);
                Ok(goto(At::Pay))
            }
            At::Pay => {
                let pay = cx.effect("pay").key(&order).reconcile(async |call| {
                    let has = books.has("pay", call.key());
                    Ok::<_, CallError>(if has { Asked::Happened("pay".to_owned()) } else { Asked::Absent })
                });
                said.push(pay.call(async |call| done("pay", call.key())).await?);
                Ok(goto(At::Post))
            }
            At::Post => {
                let post = cx.effect("post").key(&order).once();
                said.push(post.call(async |call| done("post", call.key())).await?);
                Ok(complete(std::mem::take(said)))
            }
        }
    }
}

fn trade() -> CrashTest<Arc<Trade>> {
    crash_everywhere(Trade::new).input("order-7").signal(READY, "ann".into())
}

fn look(report: &Report, effect: &str) -> (u64, u64) {
    let row = report.effect(effect).unwrap();
    (row.without_faults, row.most)
}

#[test]
fn one_that_keeps_what_it_declares_shows_no_surprise() {
    let begun = Instant::now();
    let report = trade().run().unwrap();
    report.assert_no_surprises();
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    assert_eq!(report.without_faults, r#"it completes with ["order-7","price","hold","ann","ship","pay","post"]"#);
    // Each was called again in some world, and only as its class allows.
    let all = ["price", "hold", "ship", "pay", "post"].map(|effect| look(&report, effect));
    assert_eq!(all, [(1, 2), (1, 2), (1, 2), (1, 1), (1, 1)], "{report}");
    for (fault, least) in [
        (Fault::DiesBefore, 8),
        (Fault::DiesAfter, 8),
        (Fault::ReplyLost, 8),
        (Fault::Throttled, 8),
        (Fault::StallsBefore, 8),
        (Fault::StallsAfter, 8),
        (Fault::DeliveredTwice, 2),
        (Fault::Nothing, 1),
    ] {
        let row = report.fault(fault).unwrap();
        assert!(row.worlds >= least, "{report}");
        assert_eq!(row.ended_alike + row.asked_a_person, row.worlds, "{report}");
    }
    let pay = report.effect("pay").unwrap();
    assert!(pay.asked > 0 && pay.left_unknown == 0, "{report}");
    assert_eq!(pay.promise, "asked about, not repeated");
    let post = report.effect("post").unwrap();
    assert!(post.left_unknown > 0, "{report}");
    assert_eq!(post.promise, format!("never repeated; {} worlds ended in a question to a person", post.left_unknown));
    assert!(report.questions.iter().all(|question| question.reason.contains("post")), "{report}");
    assert_eq!(report.questions.iter().map(|question| question.at.len() as u64).sum::<u64>(), post.left_unknown);
}

#[test]
fn a_person_who_looks_at_the_outside_lets_every_run_end() {
    let looks = |trade: &Arc<Trade>, unknown: &stepwell_testing::Unknown| {
        assert_eq!(unknown.name, "post");
        let has = trade.books.has("post", unknown.key.as_str());
        assert_eq!(has, unknown.ended > 0);
        Some(if has { stepwell_testing::happened(&"post") } else { Resolution::TryAgain })
    };
    let report = trade()
        .resolve_unknowns(looks)
        .check(|trade| match ["pay", "post"].map(|what| trade.books.times(what)) {
            [1, 1] => Ok(()),
            times => Err(format!("{times:?} times")),
        })
        .run()
        .unwrap();
    report.assert_no_surprises();
    assert_eq!(report.questions, []);
    assert!(report.faults.iter().all(|row| row.ended_alike == row.worlds), "{report}");
    assert_eq!(look(&report, "post"), (1, 1), "{report}");
}

#[test]
fn the_report_is_a_table_and_json() {
    let report = trade().at_most(5).run().unwrap();
    let (text, json) = (report.to_string(), serde_json::to_value(&report).unwrap());
    for words in [
        "crash test of workflow trade: ",
        "the worker stalls before a call, beyond its lease",
        "may repeat under the same key for 24 h",
        "note: something went wrong at one of every ",
    ] {
        assert!(text.contains(words), "{words:?} is missing in\n{text}");
    }
    assert!(text.ends_with("\nno surprises"), "{text}");
    assert_eq!(json["faults"][0]["fault"], "dies-before");
    assert_eq!(json["faults"][0]["worlds"], 5);
    assert_eq!(json["effects"].as_array().unwrap().len(), 5);
}
