//! Being asked to stop.

use tokio::io::AsyncReadExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::errors::CliError;

/// Ctrl-C and SIGTERM, from when this is made; the end of the terminal too where that was asked for.
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Option<Signal>,
}

impl StopSignals {
    pub(crate) fn listen() -> Result<Self, CliError> {
        let (interrupt, terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate, hang_up: None })
    }

    /// For whoever has something to clear away when its terminal closes. Others are left to what `nohup` says.
    pub(crate) fn listen_with_terminal() -> Result<Self, CliError> {
        Ok(Self { hang_up: Some(listen(SignalKind::hangup())?), ..Self::listen()? })
    }

    /// Returns with the next one.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = received(&mut self.hang_up) => {}
        }
    }
}

/// Returns when whoever started this is gone, or wants no more of it.
pub(crate) async fn stdin_closed() {
    let (mut stdin, mut ignored) = (tokio::io::stdin(), [0; 256]);
    // Whoever holds the other end need not say anything; an error means that it is gone, too.
    while matches!(stdin.read(&mut ignored).await, Ok(1..)) {}
}

fn listen(kind: SignalKind) -> Result<Signal, CliError> {
    signal(kind).map_err(|source| CliError::System { doing: "listen for signals".into(), source })
}

async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}
