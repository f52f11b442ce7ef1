//! Signals: typed messages to a run from outside.

use core::fmt;
use core::marker::PhantomData;

use serde::de::DeserializeOwned;
use stepwell_core::Json;

/// A kind of signal, by name, carrying a `T`. Declare one as a constant, and name it in
/// [`Workflow::signals`](crate::Workflow::signals).
///
/// ```
/// use stepwell::Signal;
/// const FEEDBACK: Signal<String> = Signal::new("feedback");
/// ```
pub struct Signal<T> {
    name: &'static str,
    _carries: PhantomData<fn() -> T>,
}

impl<T> Signal<T> {
    /// A signal of this name: 1 to 64 letters, digits, `-`, `_`, `.` or `:`. Checked when the workflow is registered.
    pub const fn new(name: &'static str) -> Self {
        Self { name, _carries: PhantomData }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<T> Clone for Signal<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Signal<T> {}

impl<T> fmt::Debug for Signal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signal({})", self.name)
    }
}

/// Why a payload does not fit, with the path to the field.
pub(crate) type Misfit = serde_path_to_error::Error<serde_json::Error>;

pub(crate) fn read_at_edge<T: DeserializeOwned>(value: &Json) -> Result<T, Misfit> {
    serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(value.text()))
}

/// One signal that a workflow accepts.
#[derive(Clone)]
pub(crate) struct Accepted {
    pub(crate) name: &'static str,
    pub(crate) check: fn(&Json) -> Result<(), Misfit>,
}

/// The signals that a workflow accepts. Anything else is refused at the edge, by name.
///
/// ```
/// use stepwell::{Signal, Signals};
/// const FEEDBACK: Signal<String> = Signal::new("feedback");
/// let signals = Signals::none().and(FEEDBACK);
/// ```
#[derive(Clone, Default)]
pub struct Signals {
    pub(crate) accepted: Vec<Accepted>,
}

impl Signals {
    /// No signal.
    pub fn none() -> Self {
        Self::default()
    }

    /// This one too.
    #[must_use]
    pub fn and<T: DeserializeOwned>(mut self, signal: Signal<T>) -> Self {
        self.accepted.push(Accepted { name: signal.name, check: |value| read_at_edge::<T>(value).map(drop) });
        self
    }
}
