//! Late evidence: what a worker that has lost its run has still learned of an effect. It is told to the run as a signal, which
//! touches nothing else, and is never thrown away.

use stepwell_core::decide;
use stepwell_core::mailbox::EVIDENCE;
use stepwell_core::write::{Refusal, Write};
use stepwell_core::{Checkpoint, EffectRecord, Json, Letter, NameError, Outcome, Payload, SignalId, SignalName};

use crate::commit::{Carried, carry_out};
use crate::{Ports, payload};

/// Tells what is settled in `effects`, those of an attempt that does not count, and was not in `held`, where it began.
pub(crate) async fn tell(ports: &Ports, held: &Checkpoint, effects: Vec<EffectRecord>) {
    for record in effects.into_iter().filter(|record| is_news(held, record)) {
        let (run, effect, key) = (&held.run, record.name.clone(), record.key.clone());
        if let Err(what) = tell_one(ports, held, record).await {
            tracing::error!(%run, effect, %key, what, code = "evidence-untold", "late evidence could not be told");
        }
    }
}

/// Whether this attempt has learned how the effect ended, and asking again could act again.
fn is_news(held: &Checkpoint, record: &EffectRecord) -> bool {
    let settled = match record.outcome {
        Outcome::Succeeded(_) | Outcome::Failed(_) => true,
        Outcome::Unknown { .. } => false,
    };
    settled && record.class.acts() && !held.progress.journal.contains(record)
}

async fn tell_one(ports: &Ports, held: &Checkpoint, mut record: EffectRecord) -> Result<(), String> {
    let run = &held.run;
    payload::store_results(&*ports.blobs, run, payload::RESULT_INLINE_BYTES_MAX, std::iter::once(&mut record))
        .await
        .map_err(|error| error.to_string())?;
    let letter = letter(ports, held, &record).map_err(|error| error.to_string())?;
    match carry_out(ports, run, Write::Signal(Box::new(letter))).await {
        Carried::Applied(after) => {
            tracing::warn!(%run, effect = record.name, key = %record.key, "late evidence of an effect was told to its run");
            go_on(ports, &after).await
        }
        Carried::Refused(Refusal::Duplicate, _) => Ok(()),
        Carried::Refused(refusal, _) => Err(refusal.to_string()),
        Carried::Failed(error) => Err(error.to_string()),
    }
}

fn letter(ports: &Ports, held: &Checkpoint, record: &EffectRecord) -> Result<Letter, Untold> {
    // Once for each attempt under a fence: the same evidence told twice is one letter.
    let id = SignalId::new(format!("evidence-{}-{}-{}", record.key, held.hold.fence, record.attempts))?;
    let payload = Payload::Inline(Json::of(record)?);
    Ok(Letter { id, name: SignalName::new(EVIDENCE)?, payload, at: ports.clock.now() })
}

#[derive(Debug, thiserror::Error)]
enum Untold {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// A run that was parked for want of it goes on; any other is woken, and finds it when its step runs again.
async fn go_on(ports: &Ports, after: &Checkpoint) -> Result<(), String> {
    let now = ports.clock.now();
    let send = match decide::resume_for_evidence(after, now).map_err(|illegal| illegal.to_string())? {
        None => decide::wake(after, now),
        Some((amend, send)) => match carry_out(ports, &after.run, Write::Amend(Box::new(amend))).await {
            Carried::Applied(_) => Some(send),
            // Somebody else has moved it on.
            Carried::Refused(..) => None,
            Carried::Failed(error) => return Err(error.to_string()),
        },
    };
    let Some(send) = send else { return Ok(()) };
    ports.send(&after.run, send).await.map_err(|error| error.to_string())
}
