//! Keys of items and indexes. Numbers are hexadecimal digits of a fixed width, so that text sorts as they do.

use aws_sdk_dynamodb::types::AttributeValue;
use stepwell_core::{Digest, EffectKey, LogId, Phase, Revision, RunId, Timestamp};
use stepwell_ports::StoreError;

use crate::item::{Item, name};

/// Shards of each index. One partition of an index takes 1,000 writes a second, and a start is one: so 8,000 starts a
/// second. A listing asks each shard.
pub(crate) const SHARDS: u8 = 8;

/// The name of the index of live runs by mark.
pub(crate) const DUE_INDEX: &str = "due";
/// The name of the index of all runs by start.
pub(crate) const LIST_INDEX: &str = "list";

/// The sort key of a checkpoint.
pub(crate) const CHECKPOINT: &str = "C";

/// The partition key of a run's items.
pub(crate) fn partition(run: &RunId) -> AttributeValue {
    AttributeValue::S(format!("R#{run}"))
}

/// The run that a partition key names.
pub(crate) fn run_of(partition: &AttributeValue) -> Result<RunId, StoreError> {
    let run = partition.as_s().ok().and_then(|text| RunId::new(text.strip_prefix("R#")?).ok());
    run.ok_or_else(|| StoreError::Damaged(format!("{partition:?} is no partition key of a run")))
}

/// The sort key of a log entry.
pub(crate) fn entry(log: LogId, seq: u64) -> String {
    format!("L#{:08x}#{seq:016x}", log.0)
}

/// The sort key of the history segment that begins here.
pub(crate) fn segment(from: Revision) -> String {
    format!("H#{:016x}", from.0)
}

/// The sort key of a spilled effect.
pub(crate) fn effect(key: &EffectKey) -> String {
    format!("E#{key}")
}

/// The whole key of the item that says who owns an effect's key. It is in no run's partition, and in no index.
pub(crate) fn claim(key: &EffectKey) -> Item {
    let [partition, sort] = [format!("E#{key}"), "E".to_owned()].map(AttributeValue::S);
    Item::from([(name::PARTITION.into(), partition), (name::SORT.into(), sort)])
}

/// A run's place in an index: by time, then by name. Unique, so that a page goes on right after it, whatever the shard.
pub(crate) fn place(at: Timestamp, run: &RunId) -> String {
    format!("{:016x}{run}", at.0)
}

/// Reads a place.
pub(crate) fn parse_place(place: &str) -> Option<(Timestamp, RunId)> {
    let (at, run) = place.split_at_checked(16)?;
    let digits = at.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let at = u64::from_str_radix(at, 16).ok().filter(|_| digits)?;
    Some((Timestamp(at), RunId::new(run).ok()?))
}

/// A live run's partition in [`DUE_INDEX`]. `None` for one that nothing may wake: it is not in the index then.
pub(crate) fn due_shard(run: &RunId, phase: Phase) -> Option<String> {
    (bucket(phase) == Some(LIVE)).then(|| format!("d{}", shard(run)))
}

/// A run's partition in [`LIST_INDEX`].
pub(crate) fn list_shard(run: &RunId, phase: Phase) -> String {
    format!("{}{}", bucket(phase).unwrap_or(LIVE), shard(run))
}

/// All partitions of [`DUE_INDEX`].
pub(crate) fn due_shards() -> Vec<String> {
    (0..SHARDS).map(|shard| format!("d{shard}")).collect()
}

/// The partitions of [`LIST_INDEX`] in which runs of this phase are, or of any.
pub(crate) fn list_shards(phase: Option<Phase>) -> Vec<String> {
    let buckets = match phase {
        None => vec![LIVE, 'p', 'c', 'f', 'x'],
        Some(phase) => bucket(phase).into_iter().collect(),
    };
    buckets.into_iter().flat_map(|bucket| (0..SHARDS).map(move |shard| format!("{bucket}{shard}"))).collect()
}

const LIVE: char = 'a';

/// What the list index tells apart. Live phases are one: a run moves in the index when it is parked or ends, never from
/// step to step.
const fn bucket(phase: Phase) -> Option<char> {
    match phase {
        Phase::Created | Phase::Running | Phase::Waiting | Phase::Retrying => Some(LIVE),
        Phase::Parked => Some('p'),
        Phase::Completed => Some('c'),
        Phase::Failed => Some('f'),
        Phase::Cancelled => Some('x'),
        // Shown to people, never stored.
        Phase::Cancelling => None,
    }
}

fn shard(run: &RunId) -> u8 {
    Digest::of(run.as_str().as_bytes()).0[0] % SHARDS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str) -> RunId {
        RunId::new(name).unwrap()
    }

    #[test]
    fn a_place_comes_back_and_nothing_else_is_one() {
        let place = place(Timestamp(1_700_000_000_123), &run("r.1"));
        assert_eq!(parse_place(&place), Some((Timestamp(1_700_000_000_123), run("r.1"))));
        for text in
            ["", "nonsense", "0000018bcfe5687b", "0000018BCFE5687Br", "+000018bcfe5687br", "0000018bcfe5687br/1"]
        {
            assert_eq!(parse_place(text), None, "{text}");
        }
    }

    #[test]
    fn text_sorts_as_the_numbers_do() {
        assert!(entry(LogId(9), u64::MAX) < entry(LogId(10), 0));
        assert!(entry(LogId(1), 9) < entry(LogId(1), 16));
        assert!(segment(Revision(99)) < segment(Revision(100)));
        assert!(place(Timestamp(9), &run("z")) < place(Timestamp(16), &run("a")));
    }

    #[test]
    fn a_run_moves_in_the_indexes_only_when_it_is_parked_or_ends() {
        let live = [Phase::Created, Phase::Running, Phase::Waiting, Phase::Retrying];
        let keys = |phase| (due_shard(&run("r"), phase), list_shard(&run("r"), phase));
        assert!(live.iter().all(|phase| keys(*phase) == keys(Phase::Running)));
        assert_eq!(due_shard(&run("r"), Phase::Parked), None);
        assert_eq!(list_shards(Some(Phase::Cancelling)), Vec::<String>::new());
        for phase in Phase::ALL.into_iter().filter(|phase| *phase != Phase::Cancelling) {
            assert!(list_shards(Some(phase)).contains(&list_shard(&run("r"), phase)), "{phase}");
            assert!(list_shards(None).contains(&list_shard(&run("r"), phase)), "{phase}");
        }
    }
}
