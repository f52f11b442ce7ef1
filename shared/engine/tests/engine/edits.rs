//! A person edits what a run knows: its input before it begins, then its state. Nothing but what the patch says is changed, nothing that
//! the workflow cannot read is written, and what was called is not called again.

use serde_json::{Value, json};
use stepwell::prelude::*;
use stepwell_core::history::EntryKind;
use stepwell_core::{FailureKind, Json, Payload, Phase, Place, Revision, RunId};
use stepwell_engine::{ClientError, Edit, StartRequest};

use crate::bed::{Bed, one_step, request, secs};
use crate::repair::{edit, edit_of, last, move_to, pause, who};
use crate::shop::Shop;

/// Sends a letter to an address, under one key, and counts what it was told.
struct Mail(Shop);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Letter {
    to: String,
    weight: f64,
    big: u128,
    sent: Vec<String>,
}

#[derive(Serialize, Deserialize)]
enum At {
    Open,
    Send,
    Sum(u8),
}

impl Workflow for Mail {
    const NAME: &'static str = "mail";
    type Input = Letter;
    type State = Letter;
    type Step = At;
    type Output = Vec<String>;

    fn begin(&self, letter: Letter) -> (At, Letter) {
        (At::Open, letter)
    }

    fn policy(&self, _: &At) -> StepPolicy {
        StepPolicy::default().retry(RetryPolicy::default().every(secs(2)).max_attempts(3))
    }

    async fn step(&self, at: At, letter: &mut Letter, cx: &Cx) -> StepResult<Self> {
        match at {
            At::Open => Ok(goto(At::Send)),
            At::Send => {
                let send = cx.effect("seat").key("letter-1").idempotent().with(&letter.to);
                let answer = send.call(async |call| Ok::<_, CallError>(self.0.told(&letter.to, call.key()))).await?;
                letter.sent.push(answer);
                // It goes wrong after it was sent.
                if letter.to == "nobody" {
                    return Err(StepError::terminal("returned"));
                }
                Ok(goto(At::Sum(1)))
            }
            At::Sum(_) => Ok(complete(letter.sent.clone())),
        }
    }
}

impl Shop {
    fn told(&self, to: &str, key: &str) -> String {
        let mut books = self.books();
        books.requests.push(("seat", key.to_owned()));
        *books.acted.entry(("seat", key.to_owned())).or_default() += 1;
        format!("sent to {to}")
    }
}

fn letter_to(to: &str) -> Value {
    json!({"to": to, "weight": 0.1, "big": 1, "sent": []})
}

fn mail() -> (Bed, Shop) {
    let shop = Shop::default();
    (Bed::new(Registry::new().with(Mail(shop.clone()))), shop)
}

async fn posted(to: &str) -> (Bed, Shop, RunId) {
    let (bed, shop) = mail();
    let run = bed.start::<Mail>(letter_to(to)).await;
    (bed, shop, run)
}

#[tokio::test(start_paused = true)]
async fn before_it_begins_its_input_is_edited() {
    let (bed, shop, run) = posted("bob").await;
    pause(&bed, &run).await;
    let edited = edit(&bed, &run, json!([{"op": "replace", "path": "/to", "value": "eve"}])).await.unwrap();
    assert_eq!((edited.revision, edited.value.parse::<Value>().unwrap()), (Revision(2), letter_to("eve")));
    assert_eq!(last(&bed, &run).await, (EntryKind::Edited, "by ann: was wrong".into()));
    assert_eq!(bed.parked(&run).await.code(), "paused", "it stays parked");
    let refused = move_to(&bed, &run, json!({"Sum": 1})).await.unwrap_err();
    assert_eq!(refused.code(), "not-begun");
    // A copy is applied, too: it is refused only where it would grow beyond what is accepted at all.
    edit(&bed, &run, json!([{"op": "copy", "from": "/to", "path": "/to"}])).await.unwrap();
    let misfit = edit(&bed, &run, json!([{"op": "remove", "path": "/to"}])).await.unwrap_err();
    assert_eq!(misfit.code(), "misfit");
    bed.resume(&run).await;
    bed.settle().await;
    assert_eq!((bed.output::<Vec<String>>(&run).await, shop.requests().len()), (vec!["sent to eve".into()], 1));
}

/// However the sender has written it.
#[tokio::test(start_paused = true)]
async fn an_input_that_is_written_in_another_way_is_edited_all_the_same() {
    let texts = [
        "{ \"to\": \"bob\",\n  \"weight\": 0.1, \"big\": 1, \"sent\": [] }",
        "{\"to\":\"b\\u006fb\",\"weight\":1.0e-1,\"big\":1,\"sent\":[]}",
        "{\"sent\":[],\"big\":1,\"weight\":0.10,\"to\":\"bob\"}",
    ];
    for text in texts {
        let (bed, _) = mail();
        let input = Json::from_text(text.into()).unwrap();
        let run = bed.client().start(StartRequest { input, ..request::<Mail>(()) }).await.unwrap().run;
        pause(&bed, &run).await;
        let edited = edit(&bed, &run, json!([{"op": "replace", "path": "/to", "value": "eve"}])).await;
        assert_eq!(edited.unwrap().value.parse::<Value>().unwrap(), letter_to("eve"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_edit_does_not_touch_stays_exactly_as_it_is() {
    // Longer than any reader keeps; the last is as long when it is rounded.
    for (field, number) in [
        ("big", "18446744073709551616"),
        ("big", "123456789012345678901"),
        ("big", "340282366920938463463374607431768211455"),
    ] {
        let (bed, _) = mail();
        let text = letter_to("bob").to_string().replace(&format!("\"{field}\":1"), &format!("\"{field}\":{number}"));
        let input = Json::from_text(text.clone()).unwrap();
        let run = bed.client().start(StartRequest { input, ..request::<Mail>(()) }).await.unwrap().run;
        pause(&bed, &run).await;
        let refused = edit(&bed, &run, json!([{"op": "replace", "path": "/to", "value": "eve"}])).await.unwrap_err();
        assert!(refused.code() == "bad-patch" && refused.to_string().contains("round"), "{number}: {refused}");
        let known = stepwell_core::decide::repair::known(&bed.checkpoint(&run).await).clone();
        assert_eq!(known, Payload::Inline(Json::from_text(text).unwrap()));
    }
    // Nor is a number of the patch itself taken for another one.
    let (bed, _, run) = posted("bob").await;
    pause(&bed, &run).await;
    let text = r#"[{"op":"replace","path":"/weight","value":123456789012345678901}]"#;
    let patch = Json::from_text(text.into()).unwrap();
    let act = Edit { patch, ..edit_of(&bed, &run, json!([])).await };
    assert_eq!(bed.client().edit(&run, act).await.unwrap_err().code(), "bad-patch");
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_is_none_or_does_not_apply_or_fit_changes_nothing() {
    let (bed, _, run) = posted("nobody").await;
    bed.settle().await;
    let before = bed.checkpoint(&run).await;
    let long = "x".repeat(11 * 1024 * 1024);
    let mut doubling = vec![json!({"op": "add", "path": "/pad", "value": ["x".repeat(1_000)]})];
    doubling.extend(std::iter::repeat_n(json!({"op": "copy", "from": "/pad", "path": "/pad/-"}), 60));
    let blob = json!({"k": "other-run/b", "n": 3, "h": "ab".repeat(32)});
    let more = json!({"k": "other-run/b", "n": 3, "h": "ab".repeat(32), "x": 1});
    let list = json!(["other-run/b", 3, "ab".repeat(32)]);
    let cases = [
        ("no patch", json!({"to": "eve"}), "bad-patch"),
        ("no such act", json!([{"op": "rename", "path": "/to", "value": 1}]), "bad-patch"),
        ("no such field", json!([{"op": "replace", "path": "/address", "value": 1}]), "bad-patch"),
        ("what it tests is not so", json!([{"op": "test", "path": "/to", "value": "eve"}]), "bad-patch"),
        (
            "half of it applies",
            json!([{"op": "replace", "path": "/to", "value": "e"}, {"op": "remove", "path": "/x"}]),
            "bad-patch",
        ),
        ("it cannot be read", json!([{"op": "replace", "path": "/to", "value": 5}]), "bad-patch"),
        ("nothing is left", json!([{"op": "remove", "path": "/sent"}]), "bad-patch"),
        ("it is another value", json!([{"op": "replace", "path": "", "value": null}]), "bad-patch"),
        ("it copies what it has copied", json!(doubling), "bad-patch"),
        ("it refers to another's blob", json!([{"op": "add", "path": "/pad", "value": {"deep": [blob]}}]), "bad-patch"),
        ("it does so in disguise", json!([{"op": "add", "path": "/pad", "value": more}]), "bad-patch"),
        ("it does so as a list", json!([{"op": "add", "path": "/pad", "value": list}]), "bad-patch"),
        ("it is too large", json!([{"op": "replace", "path": "/to", "value": long}]), "bad-value"),
    ];
    for (name, patch, code) in cases {
        let refused = edit(&bed, &run, patch).await.unwrap_err();
        assert!(refused.code() == code, "{name}: {}", refused.code());
    }
    for stated in [before.progress.revision.0 - 1, before.progress.revision.0 + 1] {
        let stale = Edit { at: Revision(stated), ..edit_of(&bed, &run, json!([])).await };
        assert_eq!(bed.client().edit(&run, stale).await.unwrap_err().code(), "stale");
    }
    let words = Edit { why: "y".repeat(5_000), ..edit_of(&bed, &run, json!([])).await };
    assert!(matches!(bed.client().edit(&run, words).await, Err(ClientError::Value(_))));
    assert_eq!(bed.checkpoint(&run).await, before, "nothing was written");
    let (bed, _, live) = posted("bob").await;
    assert_eq!(edit(&bed, &live, json!([])).await.unwrap_err().code(), "not-parked");
}

#[tokio::test(start_paused = true)]
async fn an_effect_with_other_parameters_is_refused_after_an_edit_as_ever() {
    let (bed, shop, run) = posted("nobody").await;
    bed.settle().await;
    assert_eq!(bed.failure(&run).await.message, "returned");
    edit(&bed, &run, json!([{"op": "replace", "path": "/to", "value": "eve"}])).await.unwrap();
    assert!(bed.parked(&run).await.to_string().contains("to be repaired, by ann: was wrong"));
    bed.resume(&run).await;
    bed.settle().await;
    // The letter is sent, to nobody: the same key with other parameters is no second call.
    let failure = bed.failure(&run).await;
    assert!(failure.message.contains("other parameters"), "{failure}");
    assert_eq!(shop.requests().len(), 1);
    // Moved past it, the run goes on.
    move_to(&bed, &run, json!({"Sum": 1})).await.unwrap();
    bed.resume(&run).await;
    bed.settle().await;
    assert_eq!((bed.phase(&run).await, shop.requests().len()), (Phase::Completed, 1));
    assert_eq!(bed.checkpoint(&run).await.progress.usage.effects_confirmed, 1);
    assert_eq!(bed.witness.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_state_as_large_as_a_blob_is_edited() {
    let (bed, shop) = mail();
    let long = "x".repeat(64 * 1024);
    let run = bed.start::<Mail>(json!({"to": long, "weight": 0.1, "big": 1, "sent": []})).await;
    bed.turn(&one_step()).await;
    pause(&bed, &run).await;
    assert!(matches!(bed.checkpoint(&run).await.progress.place, Place::At { state: Payload::Blob(_), .. }));
    let edited = edit(&bed, &run, json!([{"op": "add", "path": "/sent/-", "value": "by hand"}])).await.unwrap();
    assert!(edited.value.text().len() > 64 * 1024);
    assert!(matches!(bed.checkpoint(&run).await.progress.place, Place::At { state: Payload::Blob(_), .. }));
    bed.resume(&run).await;
    bed.settle().await;
    let output: Vec<String> = bed.output(&run).await;
    assert_eq!((output.len(), output[0].as_str(), shop.requests().len()), (2, "by hand", 1));
}

#[tokio::test(start_paused = true)]
async fn an_input_that_does_not_fit_any_more_is_edited_and_begins() {
    let bed = Bed::new(Registry::new().with(Lax));
    // Another deployment takes less.
    let newer = bed.deployed(Registry::new().with(Strict));
    let run = bed.start::<Lax>(json!({"n": -1})).await;
    newer.settle_with(&newer.engine()).await;
    assert_eq!(newer.failure(&run).await.kind, FailureKind::Input);
    let client = newer.client();
    client.retry(&run, &who()).await.unwrap();
    newer.settle_with(&newer.engine()).await;
    assert_eq!(newer.failure(&run).await.kind, FailureKind::Input, "it is still so");
    let misfit = edit(&newer, &run, json!([{"op": "replace", "path": "/n", "value": -2}])).await.unwrap_err();
    assert_eq!(misfit.code(), "misfit");
    edit(&newer, &run, json!([{"op": "replace", "path": "/n", "value": 2}])).await.unwrap();
    newer.resume(&run).await;
    newer.settle_with(&newer.engine()).await;
    assert_eq!(newer.output::<u32>(&run).await, 2);
}

struct Lax;
struct Strict;

#[derive(Serialize, Deserialize)]
struct Of<T> {
    n: T,
}

impl Workflow for Lax {
    const NAME: &'static str = "counts";
    type Input = Of<i64>;
    type State = i64;
    type Step = ();
    type Output = i64;

    fn begin(&self, input: Of<i64>) -> ((), i64) {
        ((), input.n)
    }

    async fn step(&self, (): (), n: &mut i64, _: &Cx) -> StepResult<Self> {
        Ok(complete(*n))
    }
}

impl Workflow for Strict {
    const NAME: &'static str = "counts";
    type Input = Of<u32>;
    type State = u32;
    type Step = ();
    type Output = u32;

    fn begin(&self, input: Of<u32>) -> ((), u32) {
        ((), input.n)
    }

    async fn step(&self, (): (), n: &mut u32, _: &Cx) -> StepResult<Self> {
        Ok(complete(*n))
    }
}
