//! The run's history, told while it happens.

use stepwell_core::{Checkpoint, Revision};
use stepwell_engine::Client;
use stepwell_http::view::EntryView;

use crate::errors::CliError;
use crate::output::say;
use crate::view::live;

pub(super) struct Progress {
    next: Revision,
}

impl Progress {
    pub(super) const fn new() -> Self {
        Self { next: Revision(1) }
    }

    /// Says what was committed since the last time, a line each.
    pub(super) async fn tell(&mut self, client: &Client, stands: &Checkpoint) -> Result<(), CliError> {
        if stands.progress.revision < self.next {
            return Ok(());
        }
        for entry in client.history(&stands.run, self.next).await? {
            say(live(&EntryView::from(&entry)));
            self.next = entry.revision.next();
        }
        Ok(())
    }
}
