//! Being asked to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::errors::CliError;

/// Ctrl-C and SIGTERM, from when this is made.
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    pub(crate) fn listen() -> Result<Self, CliError> {
        let listen =
            |kind| signal(kind).map_err(|source| CliError::System { doing: "listen for signals".into(), source });
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Returns with the next one.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
