//! History: the audit trail, one compact entry a commit. The last few ride in the checkpoint, the rest is segments.

use alloc::string::String;
use alloc::vec::Vec;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::effect::{Class, EffectRecord, Outcome};
use crate::ids::Revision;
use crate::json::{self, Json};
use crate::limits::{TAIL_BYTES_MAX, TAIL_ENTRIES_MAX};
use crate::time::{Timestamp, millis};

/// What a commit recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryKind {
    /// The step ended and the next may run.
    #[serde(rename = "s")]
    Stepped,
    /// The step ended and the run waits.
    #[serde(rename = "w")]
    Waited,
    /// A signal arrived that the run does not wait for; it waits on.
    #[serde(rename = "l")]
    LookedUp,
    /// The step is about to call the outside, in a way that cannot be repeated unasked.
    #[serde(rename = "i")]
    Intended,
    /// The step failed and is tried again.
    #[serde(rename = "r")]
    Retried,
    /// The run was parked.
    #[serde(rename = "p")]
    Parked,
    /// A person or a deploy resumed it.
    #[serde(rename = "u")]
    Resumed,
    /// A person said how an effect ended.
    #[serde(rename = "e")]
    Resolved,
    /// A person answered an approval.
    #[serde(rename = "a")]
    Answered,
    /// The run has failed or was cancelled, and what it has done begins to be taken back.
    #[serde(rename = "b")]
    Undoing,
    /// An effect was taken back.
    #[serde(rename = "d")]
    Undone,
    /// A person has let an effect stand that could not be taken back.
    #[serde(rename = "t")]
    LetStand,
    /// A person has edited what the run knows.
    #[serde(rename = "m")]
    Edited,
    /// A person has moved the run to another step.
    #[serde(rename = "g")]
    Moved,
    /// A person lets a failed run go on.
    #[serde(rename = "o")]
    Reopened,
    /// The step ended the run with a result.
    #[serde(rename = "c")]
    Completed,
    /// The step ended the run without one.
    #[serde(rename = "f")]
    Failed,
    /// The run ended on request.
    #[serde(rename = "x")]
    Cancelled,
}

impl EntryKind {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stepped => "stepped",
            Self::Waited => "waited",
            Self::LookedUp => "looked-up",
            Self::Intended => "intended",
            Self::Retried => "retried",
            Self::Parked => "parked",
            Self::Resumed => "resumed",
            Self::Resolved => "resolved",
            Self::Answered => "answered",
            Self::Undoing => "undoing",
            Self::Undone => "undone",
            Self::LetStand => "let-stand",
            Self::Edited => "edited",
            Self::Moved => "moved",
            Self::Reopened => "reopened",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl EntryKind {
    /// Whether it stands for a new state each time. Where an entry of another kind brings one, it says so ([`More::back`]).
    pub const fn replaces(self) -> bool {
        match self {
            Self::Stepped | Self::Waited | Self::Undone | Self::Edited => true,
            Self::LookedUp
            | Self::Intended
            | Self::Retried
            | Self::Parked
            | Self::Resumed
            | Self::Resolved
            | Self::Answered
            | Self::Undoing
            | Self::LetStand
            | Self::Moved
            | Self::Reopened
            | Self::Completed
            | Self::Failed
            | Self::Cancelled => false,
        }
    }
}

/// An effect as the history names it: without parameters and result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectLine {
    /// Its name.
    #[serde(rename = "n")]
    pub name: String,
    /// Its class.
    #[serde(rename = "c")]
    pub class: Class,
    /// How it ended.
    #[serde(rename = "o")]
    pub outcome: LineOutcome,
    /// Calls made to the outside.
    #[serde(rename = "a")]
    pub attempts: u32,
}

/// [`Outcome`] without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LineOutcome {
    /// It happened.
    #[serde(rename = "s")]
    Succeeded,
    /// It did not and will not.
    #[serde(rename = "f")]
    Failed,
    /// It may have happened.
    #[serde(rename = "u")]
    Unknown,
}

impl LineOutcome {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

impl From<&Outcome> for LineOutcome {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Succeeded(_) => Self::Succeeded,
            Outcome::Failed(_) => Self::Failed,
            Outcome::Unknown { .. } => Self::Unknown,
        }
    }
}

impl From<&EffectRecord> for EffectLine {
    fn from(record: &EffectRecord) -> Self {
        let outcome = LineOutcome::from(&record.outcome);
        Self { name: record.name.clone(), class: record.class, outcome, attempts: record.attempts }
    }
}

/// One commit, in short. Stored as an array: `[step, kind, at, took, {more}]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The step that ran.
    pub step: String,
    /// What became of it.
    pub kind: EntryKind,
    /// When it was committed, in milliseconds after the first entry of its tail or segment.
    pub at: u64,
    /// How long it ran, in milliseconds.
    pub took: u64,
    /// What only some entries have.
    pub more: More,
}

/// What only some entries have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct More {
    /// Failed attempts of this step so far.
    #[serde(rename = "a", default, skip_serializing_if = "is_zero")]
    pub failed_attempts: u32,
    /// Effects of the step that has ended.
    #[serde(rename = "e", default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<EffectLine>,
    /// An error, a reason, a migration, or who did it.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What leads back to the state before it: a JSON patch (RFC 6902) on the state after it, where the workflow keeps states. `null`
    /// where it has replaced the state, and the way back was not kept.
    #[serde(rename = "b", default, deserialize_with = "json::given", skip_serializing_if = "Option::is_none")]
    pub back: Option<Json>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this signature")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let plain = self.more == More::default();
        let mut array = to.serialize_seq(Some(if plain { 4 } else { 5 }))?;
        array.serialize_element(&self.step)?;
        array.serialize_element(&self.kind)?;
        array.serialize_element(&self.at)?;
        array.serialize_element(&self.took)?;
        if !plain {
            array.serialize_element(&self.more)?;
        }
        array.end()
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Array;
        impl<'de> Visitor<'de> for Array {
            type Value = Entry;

            fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("a history entry: [step, kind, at, took, {more}]")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Entry, A::Error> {
                let short = |at| A::Error::invalid_length(at, &"a history entry of 4 or 5 elements");
                Ok(Entry {
                    step: array.next_element()?.ok_or_else(|| short(0))?,
                    kind: array.next_element()?.ok_or_else(|| short(1))?,
                    at: array.next_element()?.ok_or_else(|| short(2))?,
                    took: array.next_element()?.ok_or_else(|| short(3))?,
                    more: array.next_element()?.unwrap_or_default(),
                })
            }
        }
        from.deserialize_seq(Array)
    }
}

/// The way from the state after an entry to the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Back<'a> {
    /// They are the same.
    Same,
    /// This JSON patch leads there.
    Patch(&'a Json),
    /// It was not kept.
    NotKept,
}

impl Entry {
    /// How the state before it is found from the one after it.
    pub fn back(&self) -> Back<'_> {
        match (&self.more.back, self.kind) {
            (Some(json), _) if json.text() == "null" => Back::NotKept,
            (Some(patch), _) => Back::Patch(patch),
            (None, kind) if kind.replaces() => Back::NotKept,
            (None, _) => Back::Same,
        }
    }
}

/// Consecutive entries. As the tail they ride in the checkpoint; full, they are written once, as a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// The revision that the first entry's commit made; the others follow one by one.
    #[serde(rename = "r")]
    pub from: Revision,
    /// When the first entry was committed.
    #[serde(rename = "t")]
    pub at: Timestamp,
    /// The entries, oldest first.
    #[serde(rename = "e")]
    pub entries: Vec<Entry>,
}

impl Segment {
    /// The revision after its last entry's: where the next segment begins.
    pub fn end(&self) -> Revision {
        Revision(self.from.0.saturating_add(self.entries.len() as u64))
    }

    /// Bytes that this takes when stored.
    pub fn weight(&self) -> usize {
        json::weight(self)
    }

    /// Adds an entry for this revision; when it does not fit, the old entries come back as a segment to be written.
    pub(crate) fn push(&mut self, revision: Revision, now: Timestamp, mut entry: Entry) -> Option<Self> {
        if self.entries.is_empty() {
            (self.from, self.at) = (revision, now);
        }
        entry.at = millis(now.since(self.at));
        // One more is the comma between them.
        let bytes = self.weight().saturating_add(json::weight(&entry)).saturating_add(1);
        let full = !self.entries.is_empty() && (self.entries.len() >= TAIL_ENTRIES_MAX || bytes > TAIL_BYTES_MAX);
        let written = full.then(|| core::mem::take(self));
        if full {
            (self.from, self.at, entry.at) = (revision, now, 0);
        }
        self.entries.push(entry);
        written
    }
}
