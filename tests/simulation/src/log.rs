//! What is logged while a world goes by: each event is searched for the secret, and told to the reader.

use std::fmt::{Debug, Write as _};
use std::sync::Arc;

use stepwell_testkit::broken::SECRET;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

use crate::tape::Tape;

/// Listens to the log of one world.
pub(crate) struct Listener(pub(crate) Arc<Tape>);

#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a text does not fail.
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

impl Listener {
    fn hear(&self, of: &str, line: &str) {
        self.0.count("events logged");
        if line.contains(SECRET) {
            self.0.recorded().leaks.push(format!("the log of {of}:{line}"));
        }
        self.0.tell("log", || format!("{of}:{line}"));
    }
}

impl Subscriber for Listener {
    fn enabled(&self, of: &Metadata<'_>) -> bool {
        *of.level() <= Level::INFO
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        Some(tracing::level_filters::LevelFilter::INFO)
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        let mut line = Line::default();
        span.record(&mut line);
        self.hear(span.metadata().name(), &line.0);
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        let mut line = Line::default();
        values.record(&mut line);
        self.hear("a span", &line.0);
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.hear(event.metadata().target(), &line.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
