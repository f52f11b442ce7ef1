//! A person who answers what only people can: approvals, and how an effect has ended that nobody knows of. The latter truthfully:
//! from the outside's own ledger, and not before the call can no longer land.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use super::clients::listed;
use super::errand::{DEADLINE, SETTLE};
use super::http::Http;
use super::ledger::Ledger;

/// How often they look.
const LOOK: Duration = Duration::from_millis(400);

/// What they have said, and how often.
#[derive(Debug, Default)]
pub struct Said {
    /// Unknowns by what they said of them.
    pub unknowns: BTreeMap<&'static str, u64>,
    /// Effects of which they said that they had failed, by key. Whoever was to write it down may have died first.
    pub failed: BTreeSet<String>,
    /// Approvals that were given, and rejected.
    pub approvals: (u64, u64),
}

/// Looks and answers, until told to end.
pub async fn work(http: Http, ledger: &Ledger, seed: u64, said: &Mutex<Said>) {
    let (mut rng, mut first) = (fastrand::Rng::with_seed(seed), BTreeMap::new());
    loop {
        for unknown in listed(&http, "/v1/unknowns", "unknowns").await {
            settle(&http, ledger, &unknown, &mut first, &mut rng, said).await;
        }
        for approval in listed(&http, "/v1/approvals", "approvals").await {
            answer(&http, &approval, &mut rng, said).await;
        }
        sleep(LOOK).await;
    }
}

async fn settle(
    http: &Http,
    ledger: &Ledger,
    unknown: &Value,
    seen: &mut BTreeMap<(String, u64), Instant>,
    rng: &mut fastrand::Rng,
    said: &Mutex<Said>,
) -> Option<()> {
    // The engine finds out by itself about the others.
    if unknown["parked"] != true {
        return None;
    }
    let (run, key) = (unknown["run"].as_str()?, unknown["key"].as_str()?);
    // Its call began before it was seen, so it lands before this.
    let first_seen = *seen.entry((key.to_owned(), unknown["attempts"].as_u64()?)).or_insert_with(Instant::now);
    if first_seen.elapsed() < DEADLINE + SETTLE {
        return None;
    }
    let happened = ledger.book().line(key).filter(|line| line.acts > 0).map(|line| line.answer);
    let why = "it stands in the outside's ledger";
    // What is told to fail is what the workflow can do without.
    let (word, body) = match happened {
        Some(answer) => ("succeeded", json!({"resolution": "succeeded", "result": answer, "why": why})),
        None if unknown["effect"] == "send" && rng.bool() => {
            ("failed", json!({"resolution": "failed", "message": "it never happened", "why": why}))
        }
        None => ("try again", json!({"resolution": "try-again", "why": why})),
    };
    if word == "failed" {
        lock(said).failed.insert(key.to_owned());
    }
    // Asked once: where the answer is lost, they look again before they say more. What was true of one call need not be of the next.
    let answer = http.post(&format!("/v1/runs/{run}/effects/{key}/resolve"), &body).await.ok()?;
    if answer.is_done() {
        *lock(said).unknowns.entry(word).or_default() += 1;
    }
    Some(())
}

async fn answer(http: &Http, approval: &Value, rng: &mut fastrand::Rng, said: &Mutex<Said>) -> Option<()> {
    let (run, id) = (approval["run"].as_str()?, approval["id"].as_str()?);
    let allows = rng.u8(..6) > 0;
    let body =
        if allows { json!({"decision": "approve"}) } else { json!({"decision": "reject", "why": "not this one"}) };
    let answer = http.insist(&format!("/v1/runs/{run}/approvals/{id}"), None, &body).await.ok()?;
    if answer.is_done() {
        let counts = &mut lock(said).approvals;
        *(if allows { &mut counts.0 } else { &mut counts.1 }) += 1;
    }
    Some(())
}

/// What they have said, whatever has become of who wrote it down.
pub fn lock(said: &Mutex<Said>) -> MutexGuard<'_, Said> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}
