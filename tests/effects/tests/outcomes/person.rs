//! A person who says how an effect ended.

use std::fmt;

use stepwell_core::decide::{Resolution, Resolve};
use stepwell_core::history::EntryKind;
use stepwell_core::{Json, Payload};
use stepwell_engine::ClientError;
use stepwell_ports::Clock;
use stepwell_ports::system::SystemClock;

use crate::bed::{Bed, Rest};

/// The receipt that a person has found.
pub(crate) const FOUND: u64 = 77;

const REASON: &str = "the provider has no such act";

/// What a person may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Word {
    Succeeded,
    Failed,
    TryAgain,
}

impl Word {
    pub(crate) const ALL: [Self; 3] = [Self::Succeeded, Self::Failed, Self::TryAgain];

    fn resolution(self) -> Resolution {
        match self {
            Self::Succeeded => Resolution::Succeeded(Payload::Inline(Json::of(&FOUND).unwrap())),
            Self::Failed => Resolution::Failed(REASON.into()),
            Self::TryAgain => Resolution::TryAgain,
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.resolution().as_str())
    }
}

/// The run after a person's word.
pub(crate) struct Settled {
    pub(crate) rest: Rest,
    pub(crate) acts: u64,
}

/// Says it, as soon as the call can no longer land, and sees what becomes of the run.
pub(crate) async fn say(bed: &Bed, word: Word) -> Settled {
    let act = || {
        let (key, resolution) = (bed.key.clone(), word.resolution());
        Resolve { key, resolution, by: "ann".into(), why: "asked the provider".into() }
    };
    let client = bed.client();
    let said = match client.resolve(&bed.run, act()).await {
        Err(ClientError::OnItsWay { until, .. }) => {
            tokio::time::sleep(until.since(SystemClock.now())).await;
            client.resolve(&bed.run, act()).await
        }
        said => said,
    };
    said.unwrap();
    let rest = bed.rest().await;
    let history = bed.history().await;
    let noted = history.iter().find(|entry| entry.entry.kind == EntryKind::Resolved).expect("nothing is noted");
    let note = noted.entry.more.note.clone().unwrap_or_default();
    assert!(note.contains(&word.to_string()) && note.contains("ann") && note.contains("asked"), "noted as: {note}");
    Settled { rest, acts: bed.outside.seen(&bed.key).acts }
}

/// What is wrong with the run after this word, given what the outside had done before it, if anything.
pub(crate) fn wrong(word: Word, before: u64, settled: &Settled) -> Option<String> {
    let Settled { rest, acts } = settled;
    let right = match (word, rest) {
        (Word::Succeeded, Rest::Completed(output)) => {
            *acts == before && output.receipt == FOUND && output.recorded == FOUND
        }
        (Word::Failed, Rest::Failed(message)) => *acts == before && message.contains(REASON),
        (Word::TryAgain, Rest::Completed(output)) => {
            *acts == before + 1 && output.receipt == *acts && output.recorded == *acts
        }
        (Word::Succeeded | Word::Failed | Word::TryAgain, _) => false,
    };
    (!right).then(|| format!("a person said {word} when it had acted {before} times: {rest:?}, acted {acts} times"))
}
