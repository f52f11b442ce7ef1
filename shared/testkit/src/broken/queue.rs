use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use stepwell_core::Ticket;
use stepwell_ports::{Delivery, Envelope, QueueError, Receipt, RunQueue};

use super::Broken;

/// Echoes of one double. Each of them may be echoed again, and a suite has to end.
const ECHOES_MAX: usize = 200;

pub(super) struct Queue {
    broken: Broken,
    inner: Arc<dyn RunQueue>,
    echoes: AtomicUsize,
}

impl Queue {
    pub(super) fn new(broken: Broken, inner: Arc<dyn RunQueue>) -> Self {
        Self { broken, inner, echoes: AtomicUsize::new(0) }
    }

    fn what_is_sent(&self, envelopes: &[Envelope]) -> Vec<Envelope> {
        let mut sent = envelopes.to_vec();
        match self.broken {
            Broken::ForgottenHandOff => sent.retain(|envelope| envelope.message.ticket == Ticket(1)),
            Broken::EchoedMessage if self.echoes.fetch_add(sent.len(), Ordering::Relaxed) < ECHOES_MAX => {
                sent.extend_from_slice(envelopes);
            }
            Broken::EarlyTimer => sent.iter_mut().for_each(|envelope| envelope.delay /= 2),
            Broken::EchoedMessage
            | Broken::StaleFence
            | Broken::ForgottenIntent
            | Broken::GuessedFailure
            | Broken::StaleAcquire
            | Broken::LostSignal
            | Broken::UnrecordedResume
            | Broken::LostBlob
            | Broken::NoMark
            | Broken::UncoveredSecret => {}
        }
        sent
    }
}

#[async_trait]
impl RunQueue for Queue {
    async fn send(&self, envelopes: &[Envelope]) -> Result<(), QueueError> {
        let sent = self.what_is_sent(envelopes);
        if sent.is_empty() { Ok(()) } else { self.inner.send(&sent).await }
    }

    async fn receive(&self, max: usize, visibility: Duration, wait: Duration) -> Result<Vec<Delivery>, QueueError> {
        self.inner.receive(max, visibility, wait).await
    }

    async fn delete(&self, receipts: &[Receipt]) -> Result<(), QueueError> {
        self.inner.delete(receipts).await
    }

    async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<(), QueueError> {
        self.inner.extend(receipt, visibility).await
    }

    async fn bury(&self, delivery: &Delivery, reason: &str) -> Result<(), QueueError> {
        self.inner.bury(delivery, reason).await
    }
}
