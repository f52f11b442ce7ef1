//! Clients of the story, each with one run: they start it, send it signals, cancel it now and then, all over HTTP, and insist until
//! they are answered. What they were answered is what must be true in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use serde_json::{Value, json};
use stepwell_core::{RunId, WorkflowName};
use tokio::time::sleep;

use super::http::Http;

/// What one client was answered.
#[derive(Debug)]
pub struct Facts {
    /// Its run.
    pub run: RunId,
    /// How many answers said that they were the one that started it.
    pub started: u32,
    /// Signals by id: how many answers said that they were the one that delivered it.
    pub accepted: BTreeMap<String, u32>,
    /// Signals that were sent, accepted or not.
    pub sent: BTreeSet<String>,
    /// Whether a request to cancel was taken.
    pub cancelled: bool,
}

/// What one client does.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Its number.
    pub number: u64,
    /// Notes that it sends before it says go.
    notes: u64,
    /// Whether it sends one more after that: maybe nobody takes it.
    is_late: bool,
    /// Whether it cancels.
    cancels: bool,
    /// Whether it asks for the start again.
    starts_again: bool,
    seed: u64,
}

impl Plan {
    /// That of this number, under this seed.
    pub fn of(number: u64, seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let (notes, is_late, starts_again) = (rng.u64(..3), rng.u8(..4) == 0, rng.u8(..3) == 0);
        Self { number, notes, is_late, cancels: rng.u8(..9) == 0, starts_again, seed: rng.u64(..) }
    }

    /// Signals that it sends at most.
    pub const fn ids_max(&self) -> u64 {
        self.notes + 2
    }
}

/// The id of a note: of its payload.
pub fn note_id(payload: u64) -> String {
    format!("note-{payload}")
}

/// The id of the word to go.
pub fn go_id(number: u64) -> String {
    format!("go-{number}")
}

/// Does what the plan says.
///
/// # Errors
/// When nobody answers for too long, or an answer is none that can be.
pub async fn play(plan: Plan, http: Http) -> io::Result<Facts> {
    let Plan { number, notes, is_late, cancels, starts_again, seed } = plan;
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut pause = async || sleep(Duration::from_millis(rng.u64(..400))).await;
    let key = format!("errand-{number}");
    let run = RunId::for_key(&WorkflowName::new("errand").map_err(io::Error::other)?, &key);
    let accepted = BTreeMap::new();
    let mut facts = Facts { run, started: 0, accepted, sent: BTreeSet::new(), cancelled: false };
    start(&mut facts, &http, number, &key).await?;
    for note in 0..notes {
        pause().await;
        signal(&mut facts, &http, "note", &note_id(note), note).await?;
    }
    if starts_again {
        start(&mut facts, &http, number, &key).await?;
    }
    pause().await;
    if cancels {
        cancel(&mut facts, &http).await?;
    }
    signal(&mut facts, &http, "go", &go_id(number), number).await?;
    if is_late {
        pause().await;
        signal(&mut facts, &http, "note", &note_id(notes), notes).await?;
    }
    Ok(facts)
}

async fn start(facts: &mut Facts, http: &Http, number: u64, key: &str) -> io::Result<()> {
    // Every eighth is too long to stay in the checkpoint.
    let text = "x".repeat(if number % 8 == 7 { 6_000 } else { 20 });
    let body = json!({"workflow": "errand", "input": {"number": number, "text": text}});
    let answer = http.insist("/v1/runs", Some(key), &body).await?;
    let started = answer.is_done() && answer.body["run"] == facts.run.as_str();
    started.then_some(()).ok_or_else(|| unexpected("start", &answer))?;
    facts.started += u32::from(answer.body["new"] == true);
    Ok(())
}

async fn signal(facts: &mut Facts, http: &Http, name: &str, id: &str, payload: u64) -> io::Result<()> {
    facts.sent.insert(id.to_owned());
    let body = json!({"name": name, "payload": payload, "id": id});
    let answer = http.insist(&format!("/v1/runs/{}/signals", facts.run), None, &body).await?;
    if answer.is_done() {
        *facts.accepted.entry(id.to_owned()).or_default() += u32::from(answer.body["new"] == true);
        Ok(())
    } else if answer.code() == "ended" {
        Ok(())
    } else {
        Err(unexpected("signal", &answer))
    }
}

async fn cancel(facts: &mut Facts, http: &Http) -> io::Result<()> {
    let body = json!({"why": "it is no longer wanted"});
    let answer = http.insist(&format!("/v1/runs/{}/cancel", facts.run), None, &body).await?;
    facts.cancelled = answer.is_done();
    (answer.is_done() || answer.code() == "ended").then_some(()).ok_or_else(|| unexpected("cancel", &answer))
}

fn unexpected(what: &str, answer: &super::http::Answer) -> io::Error {
    io::Error::other(format!("{what} was answered with {answer:?}"))
}

/// Follows all pages of a listing, and answers its items. One that cannot be had now is as good as empty.
pub(super) async fn listed(http: &Http, path: &str, items: &str) -> Vec<Value> {
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let Ok(answer) = http.get(&format!("{path}?limit=200{after}")).await else { return found };
        let Some(some) = answer.body[items].as_array() else { return found };
        found.extend(some.iter().cloned());
        let Some(next) = answer.body["next"].as_str() else { return found };
        after = format!("&after={next}");
    }
}
