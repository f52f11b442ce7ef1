//! The mailbox: signals that have arrived and are not consumed yet. Anyone may append, only the holder removes.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::effect::EffectRecord;
use crate::ids::{MailboxSeq, SignalId, SignalName};
use crate::json::Payload;
use crate::limits::{MAILBOX_BYTES_MAX, MAILBOX_LETTERS_MAX, SIGNALS_SEEN_MAX};
use crate::time::Timestamp;

/// The name under which a worker that has lost its run tells what it has still learned of an effect: late evidence. Nobody
/// outside can send it, since no workflow accepts it.
pub const EVIDENCE: &str = "stepwell.evidence";

/// The name under which a person asks for a pause. It says who and why, in words; nobody outside can send it, either.
pub const PAUSE: &str = "stepwell.pause";

/// Takes what workers that had lost the run have still learned of its effects into `journal`, those of this visit. Where an outcome is
/// unknown, or nothing was written before its worker was lost, that is the truth; what is settled already stays as it is. Answers
/// which letters have said so. `is_of_visit`: whether one of which nothing is known can be of this visit ([`EffectRecord::is_of`]).
pub fn take_evidence(
    letters: &[Letter],
    journal: &mut Vec<EffectRecord>,
    ledger: &[EffectRecord],
    is_of_visit: impl Fn(&EffectRecord) -> bool,
) -> Vec<SignalId> {
    let mut read = Vec::new();
    for letter in letters.iter().filter(|letter| letter.name.as_str() == EVIDENCE) {
        read.push(letter.id.clone());
        let Payload::Inline(json) = &letter.payload else { continue };
        let Ok(told) = json.parse::<EffectRecord>() else { continue };
        match journal.iter().position(|known| known.key == told.key) {
            // In its place: effects are taken back in the order in which they were made.
            Some(at) if journal[at].is_unknown() => journal[at] = told,
            Some(_) => {}
            None => {
                let earlier = ledger.iter().find(|known| known.key == told.key);
                if earlier.map_or_else(|| is_of_visit(&told), EffectRecord::is_unknown) {
                    journal.push(told);
                }
            }
        }
    }
    read
}

/// One signal as it lies in the mailbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Letter {
    /// The sender's id for it; a second one with the same id is the same signal.
    #[serde(rename = "i")]
    pub id: SignalId,
    /// Which signal.
    #[serde(rename = "n")]
    pub name: SignalName,
    /// What it says.
    #[serde(rename = "p")]
    pub payload: Payload,
    /// When it was accepted.
    #[serde(rename = "t")]
    pub at: Timestamp,
}

/// Signals that wait for the run, and the ids of those it has had.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mailbox {
    /// Raised by each signal that was accepted.
    #[serde(rename = "s")]
    pub seq: MailboxSeq,
    /// Not consumed yet, oldest first.
    #[serde(rename = "l", default, skip_serializing_if = "Vec::is_empty")]
    pub letters: Vec<Letter>,
    /// Ids of the last consumed signals, oldest first, at most [`SIGNALS_SEEN_MAX`].
    #[serde(rename = "d", default, skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<SignalId>,
}

impl Mailbox {
    /// Whether this id has arrived before, as far as the mailbox remembers.
    pub fn knows(&self, id: &SignalId) -> bool {
        self.seen.contains(id) || self.letters.iter().any(|letter| letter.id == *id)
    }

    /// Whether one more letter of this size fits.
    pub fn has_room_for(&self, payload: &Payload) -> bool {
        let bytes: usize = self.letters.iter().map(|letter| letter.payload.weight()).sum();
        self.letters.len() < MAILBOX_LETTERS_MAX && bytes + payload.weight() <= MAILBOX_BYTES_MAX
    }

    /// Whether any letter has one of these names.
    pub fn holds_any(&self, names: &[SignalName]) -> bool {
        self.letters.iter().any(|letter| names.contains(&letter.name))
    }

    /// Requests to pause, oldest first.
    pub fn pauses(&self) -> impl Iterator<Item = &Letter> {
        self.letters.iter().filter(|letter| letter.name.as_str() == PAUSE)
    }

    /// Their ids: whoever carries them out consumes them together.
    pub(crate) fn pause_ids(&self) -> Vec<SignalId> {
        self.pauses().map(|letter| letter.id.clone()).collect()
    }

    /// Appends a letter.
    pub(crate) fn accept(&mut self, letter: Letter) {
        self.letters.push(letter);
        self.seq = self.seq.next();
    }

    /// Removes these letters and remembers their ids.
    pub(crate) fn consume(&mut self, ids: &[SignalId]) {
        self.letters.retain(|letter| !ids.contains(&letter.id));
        self.seen.extend(ids.iter().cloned());
        let surplus = self.seen.len().saturating_sub(SIGNALS_SEEN_MAX);
        self.seen.drain(..surplus);
    }
}
