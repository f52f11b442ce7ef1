//! The run's history, told while it happens.

use stepwell_core::{Checkpoint, Revision};
use stepwell_engine::Client;

use crate::errors::CliError;
use crate::output::say;
use crate::view::EntryView;

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
            say(EntryView::from(&entry).live());
            self.next = entry.revision.next();
        }
        Ok(())
    }
}
