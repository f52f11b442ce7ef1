use std::fmt::{Debug, Display, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

/// Everything that is told to `tracing`, at every level, as text: a line for the name of each span and event, and one for each
/// `field=value` of it.
///
/// ```
/// let log = stepwell_testkit::Capture::default();
/// tracing::subscriber::with_default(log.clone(), || tracing::info!(sent = 1, "swept"));
/// assert!(log.text().contains("message=swept\n") && log.text().contains("sent=1\n"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Capture(Arc<Mutex<String>>);

impl Capture {
    /// What was told so far.
    pub fn text(&self) -> String {
        self.lock().clone()
    }

    /// Adds a line of the caller's own.
    pub fn write(&self, words: &dyn Display) {
        // A string takes everything.
        let _ = writeln!(self.lock(), "{words}");
    }

    fn lock(&self) -> MutexGuard<'_, String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Fields<'a>(&'a Capture);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.write(&format_args!("{field}={value:?}"));
    }
}

impl Subscriber for Capture {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        self.write(&span.metadata().name());
        span.record(&mut Fields(self));
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        values.record(&mut Fields(self));
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        self.write(&event.metadata().name());
        event.record(&mut Fields(self));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
