//! Append-only logs: what a run gathers, at a cost that does not grow with what it has.

use core::cell::RefCell;
use core::fmt;

use serde::ser::{Error as _, SerializeMap};
use serde::{Deserialize, Serialize, Serializer};
use stepwell_core::write::LogAppend;
use stepwell_core::{Json, LogId};

/// A list that only grows. Its entries are stored one by one beside the checkpoint; the state only holds which log it is
/// and how many entries count.
///
/// Push in a step; the entries are stored with the step's commit, and a step that fails has pushed nothing. Read with
/// [`Cx::read`](crate::Cx::read).
///
/// ```
/// use stepwell::Log;
/// let mut log = Log::new();
/// log.push("found");
/// assert_eq!(log.len(), 1);
/// ```
#[derive(Deserialize)]
pub struct Log<T> {
    #[serde(rename = "log", default)]
    pub(crate) id: Option<LogId>,
    #[serde(rename = "len", default)]
    pub(crate) stored: u64,
    #[serde(default = "Vec::new")]
    pub(crate) pending: Vec<T>,
}

impl<T> Log<T> {
    /// An empty log.
    pub const fn new() -> Self {
        Self { id: None, stored: 0, pending: Vec::new() }
    }

    /// Appends an entry.
    pub fn push(&mut self, entry: T) {
        self.pending.push(entry);
    }

    /// How many entries there are, the ones pushed in this step included.
    pub fn len(&self) -> u64 {
        self.stored + self.pending.len() as u64
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Default for Log<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Log<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Log({} entries)", self.len())
    }
}

/// What serialising a state for a commit gathers: log entries leave the state here.
struct Gathering {
    logs: u32,
    appends: Vec<LogAppend>,
}

thread_local! {
    static GATHERING: RefCell<Option<Gathering>> = const { RefCell::new(None) };
}

/// A state ready to be stored.
pub(crate) struct Gathered {
    pub(crate) state: Json,
    pub(crate) appends: Vec<LogAppend>,
    pub(crate) logs: u32,
}

/// Writes a state as JSON, its logs' new entries apart. `logs` is how many logs the run has so far.
pub(crate) fn gather<T: Serialize>(state: &T, logs: u32) -> Result<Gathered, serde_json::Error> {
    /// Ends the gathering, even when the author's `Serialize` panics.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            GATHERING.take();
        }
    }
    GATHERING.with_borrow_mut(|gathering| *gathering = Some(Gathering { logs, appends: Vec::new() }));
    let _end = End;
    let state = Json::of(state);
    let gathered = GATHERING.take();
    let state = state?;
    let Some(Gathering { logs, appends }) = gathered else {
        return Err(serde_json::Error::custom("a state's own Serialize stored another state"));
    };
    Ok(Gathered { state, appends, logs })
}

impl<T: Serialize> Serialize for Log<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.pending.is_empty() {
            return write_log(to, self.id, self.stored, &[] as &[T]);
        }
        if GATHERING.with_borrow(Option::is_none) {
            // Not being stored by the engine (a test, a debug print): nothing may get lost.
            return write_log(to, self.id, self.stored, &self.pending);
        }
        let entries: Result<Vec<Json>, _> = self.pending.iter().map(Json::of).collect();
        let entries = entries.map_err(S::Error::custom)?;
        let id = GATHERING.with_borrow_mut(|gathering| {
            let gathering = gathering.as_mut()?;
            let id = self.id.unwrap_or_else(|| {
                gathering.logs += 1;
                LogId(gathering.logs)
            });
            gathering.appends.push(LogAppend { log: id, first: self.stored, entries });
            Some(id)
        });
        write_log(to, id, self.len(), &[] as &[T])
    }
}

fn write_log<S: Serializer, T: Serialize>(
    to: S,
    id: Option<LogId>,
    len: u64,
    pending: &[T],
) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(None)?;
    if let Some(id) = id {
        map.serialize_entry("log", &id)?;
    }
    map.serialize_entry("len", &len)?;
    if !pending.is_empty() {
        map.serialize_entry("pending", pending)?;
    }
    map.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct State {
        notes: Log<String>,
        numbers: Log<u8>,
    }

    #[test]
    fn entries_leave_the_state_and_their_number_stays() {
        let mut state = State { notes: Log::new(), numbers: Log::new() };
        state.numbers.push(1);
        state.numbers.push(2);
        let first = gather(&state, 0).unwrap();
        assert_eq!(first.state.text(), r#"{"notes":{"len":0},"numbers":{"log":1,"len":2}}"#);
        assert_eq!(first.appends.len(), 1);

        let mut state: State = first.state.parse().unwrap();
        state.numbers.push(3);
        state.notes.push("x".into());
        let second = gather(&state, first.logs).unwrap();
        assert_eq!(second.state.text(), r#"{"notes":{"log":2,"len":1},"numbers":{"log":1,"len":3}}"#);
        assert_eq!(second.appends[1].first, 2);
        assert_eq!(second.logs, 2);
    }

    #[test]
    fn a_panic_while_a_state_is_stored_does_not_swallow_later_entries() {
        struct Breaks;
        impl Serialize for Breaks {
            fn serialize<S: Serializer>(&self, _to: S) -> Result<S::Ok, S::Error> {
                panic!("breaks")
            }
        }
        assert!(std::panic::catch_unwind(|| gather(&Breaks, 0)).is_err());
        let mut log = Log::new();
        log.push(7);
        assert_eq!(serde_json::to_string(&log).unwrap(), r#"{"len":0,"pending":[7]}"#);
    }

    #[test]
    fn outside_of_the_engine_pending_entries_are_kept() {
        let mut log = Log::new();
        log.push(7);
        let text = serde_json::to_string(&log).unwrap();
        let read: Log<u8> = serde_json::from_str(&text).unwrap();
        assert_eq!((read.len(), read.pending), (1, vec![7]));
    }
}
