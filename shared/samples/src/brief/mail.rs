//! Sends mail through a mail API that knows idempotency keys.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::client::{Base, Failure, Outcome, SetupError, Timeouts, text};

/// A mail to send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Email {
    /// The addressee.
    pub to: String,
    /// The subject line.
    pub subject: String,
    /// The text.
    pub body: String,
}

/// A mail's identity at the mail API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MailId(String);

/// The API's word that the mail was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The mail's identity at the API: the same one for each repetition.
    pub id: MailId,
    /// The mail had been accepted before; this call delivered nothing.
    pub duplicate: bool,
}

/// Why there is no receipt, cut by what the workflow may do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MailError {
    /// No mail was accepted: no connection, or the API said "later". May be repeated.
    #[error("no mail was sent under key {key}: {why}; send it again later")]
    NotSent {
        /// The idempotency key.
        key: String,
        /// What was found.
        why: String,
    },
    /// No mail was accepted, and repeating will not help.
    #[error("the mail under key {key} was refused: {why}; mend the mail or use another key")]
    Refused {
        /// The idempotency key.
        key: String,
        /// What was found.
        why: String,
    },
    /// The request was sent and no readable receipt came: the mail may be on its way.
    #[error("the mail under key {key} may have been sent: {why}; repeat it only under this same key")]
    Unknown {
        /// The idempotency key.
        key: String,
        /// What was found.
        why: String,
    },
}

impl MailError {
    fn new(key: &str, Failure { outcome, why }: Failure) -> Self {
        let key = key.to_owned();
        match outcome {
            Outcome::NotSent => Self::NotSent { key, why },
            Outcome::Refused => Self::Refused { key, why },
            Outcome::Unknown => Self::Unknown { key, why },
        }
    }
}

/// Sends mail.
#[derive(Clone, Debug)]
pub struct Mailer {
    base: Base,
}

impl Mailer {
    /// A client of the mail API at `base`, such as `http://127.0.0.1:4712`.
    ///
    /// # Errors
    /// [`SetupError`] when `base` is no HTTP URL.
    pub fn new(base: &str, timeouts: Timeouts) -> Result<Self, SetupError> {
        Base::new(base, timeouts).map(|base| Self { base })
    }

    /// Sends a mail. The API delivers one mail per key, however often this is called. It never repeats on its own.
    ///
    /// # Errors
    /// [`MailError`], which says what is known about the mail.
    pub async fn send(&self, idempotency_key: &str, email: &Email) -> Result<Receipt, MailError> {
        self.post(idempotency_key, email).await.map_err(|failure| MailError::new(idempotency_key, failure))
    }

    async fn post(&self, key: &str, email: &Email) -> Result<Receipt, Failure> {
        let request = self.base.client.post(self.base.url(&["v1", "mails"])).header("Idempotency-Key", key);
        let answer = text(request.json(email)).await?;
        // Success without a receipt that can be read: most likely sent, but nobody can say so.
        serde_json::from_str(&answer)
            .map_err(|error| Failure { outcome: Outcome::Unknown, why: format!("the receipt cannot be read: {error}") })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::time::Duration;

    use super::*;
    use crate::outside::mail::{MAX_KEY_BYTES, MailBehaviour};
    use crate::outside::tests::soon;
    use crate::outside::{FailStatus, World, WorldOptions};

    async fn world() -> (World, Mailer) {
        let world = World::start(WorldOptions::default()).await.unwrap();
        let mailer = Mailer::new(world.mail_url(), Timeouts::default()).unwrap();
        (world, mailer)
    }

    fn email(body: &str) -> Email {
        Email { to: "board".into(), subject: "Brief".into(), body: body.into() }
    }

    fn fail(times: u32, status: u16) -> MailBehaviour {
        MailBehaviour::Fail { times, status: FailStatus::try_from(status).unwrap() }
    }

    fn is_unknown(error: &MailError) -> bool {
        matches!(error, MailError::Unknown { .. })
    }

    #[tokio::test]
    async fn the_same_mail_under_the_same_key_is_delivered_once() {
        let (world, mailer) = world().await;
        let first = mailer.send("run-1/email", &email("text")).await.unwrap();
        let again = mailer.send("run-1/email", &email("text")).await.unwrap();
        assert_eq!((first.duplicate, again.duplicate), (false, true));
        assert_eq!(first.id, again.id);
        let other = mailer.send("run-2/email", &email("text")).await.unwrap();
        assert_ne!(first.id, other.id);

        let counts = world.counts().mail;
        assert_eq!((counts.requested, counts.delivered, counts.duplicates), (3, 2, 1));
        let keys: Vec<String> = world.mails().into_iter().map(|mail| mail.key).collect();
        assert_eq!(keys, ["run-1/email", "run-2/email"]);
    }

    #[tokio::test]
    async fn another_mail_under_the_same_key_is_refused() {
        let (world, mailer) = world().await;
        mailer.send("key", &email("text")).await.unwrap();
        let error = mailer.send("key", &email("other text")).await.unwrap_err();
        assert!(
            matches!(&error, MailError::Refused { why, .. } if why.contains("422") && why.contains("another mail")),
            "{error}"
        );
        let counts = world.counts().mail;
        assert_eq!((counts.requested, counts.delivered, counts.duplicates, counts.refused), (2, 1, 0, 1));
    }

    #[tokio::test]
    async fn a_key_that_cannot_be_used_is_refused() {
        let (world, mailer) = world().await;
        let longest = "k".repeat(MAX_KEY_BYTES);
        mailer.send(&longest, &email("text")).await.unwrap();
        for key in ["", "line\nbreak", "schlüssel", &format!("{longest}k")] {
            let error = mailer.send(key, &email("text")).await.unwrap_err();
            assert!(matches!(error, MailError::Refused { .. }), "{error}");
        }
        assert_eq!(world.counts().mail.delivered, 1);
    }

    #[tokio::test]
    async fn an_accepted_mail_whose_answer_was_dropped_is_unknown_and_the_second_ask_finds_it() {
        let (world, mailer) = world().await;
        // A first mail leaves an open connection behind: the client must not repeat on a fresh one by itself.
        mailer.send("before", &email("text")).await.unwrap();
        world.set_mail(MailBehaviour::AcceptThenDrop { times: 1 });
        let error = mailer.send("key", &email("text")).await.unwrap_err();
        assert!(is_unknown(&error), "{error}");
        let counts = world.counts().mail;
        assert_eq!((counts.requested, counts.delivered, counts.duplicates, counts.unanswered), (2, 2, 0, 1));

        let receipt = mailer.send("key", &email("text")).await.unwrap();
        assert!(receipt.duplicate);
        let counts = world.counts().mail;
        assert_eq!((counts.requested, counts.delivered, counts.duplicates), (3, 2, 1));
    }

    #[tokio::test]
    async fn a_drop_on_the_first_connection_delivers_once_for_two_requests() {
        let (world, mailer) = world().await;
        world.set_mail(MailBehaviour::AcceptThenDrop { times: 1 });
        assert!(is_unknown(&mailer.send("key", &email("text")).await.unwrap_err()));
        assert!(mailer.send("key", &email("text")).await.unwrap().duplicate);
        let counts = world.counts().mail;
        assert_eq!((counts.requested, counts.delivered), (2, 1));
    }

    #[tokio::test]
    async fn a_held_mail_is_accepted_and_its_sender_can_be_killed_then() {
        let (world, mailer) = world().await;
        world.set_mail(MailBehaviour::AcceptThenHold { times: 1 });
        let sender = tokio::spawn({
            let mailer = mailer.clone();
            async move { mailer.send("key", &email("text")).await }
        });
        soon(world.mail_accepted()).await;
        assert_eq!(world.counts().mail.delivered, 1);
        sender.abort();
        assert!(sender.await.unwrap_err().is_cancelled());

        // Nobody is woken for a mail of the past, so this must not wait.
        soon(world.mail_accepted()).await;
        assert!(mailer.send("key", &email("text")).await.unwrap().duplicate);
        let counts = world.counts().mail;
        assert_eq!((counts.requested, counts.delivered, counts.unanswered), (2, 1, 1));
    }

    #[tokio::test]
    async fn a_held_mail_is_let_go_when_the_behaviour_is_set_or_the_world_stops() {
        let (world, _) = world().await;
        // So patient that it is never its own clock that ends a call.
        let timeouts = Timeouts { answer: Duration::from_hours(1), ..Timeouts::default() };
        let mailer = Mailer::new(world.mail_url(), timeouts).unwrap();
        let send = |key: &'static str| {
            let mailer = mailer.clone();
            tokio::spawn(async move { mailer.send(key, &email("text")).await })
        };
        world.set_mail(MailBehaviour::AcceptThenHold { times: 2 });
        let (first, second) = (send("first"), send("second"));
        soon(world.mails_accepted(2)).await;
        assert!(!first.is_finished() && !second.is_finished());
        world.set_mail(MailBehaviour::AcceptThenHold { times: 1 });
        assert!(is_unknown(&soon(first).await.unwrap().unwrap_err()));
        assert!(is_unknown(&soon(second).await.unwrap().unwrap_err()));

        let third = send("third");
        soon(world.mails_accepted(3)).await;
        world.stop().await;
        assert!(is_unknown(&soon(third).await.unwrap().unwrap_err()));
    }

    #[tokio::test]
    async fn running_out_of_time_is_unknown() {
        let (world, _) = world().await;
        let timeouts = Timeouts { answer: Duration::from_millis(30), ..Timeouts::default() };
        let hasty = Mailer::new(world.mail_url(), timeouts).unwrap();
        world.set_mail(MailBehaviour::AcceptThenHold { times: 1 });
        assert!(is_unknown(&hasty.send("held", &email("text")).await.unwrap_err()));
        assert_eq!(world.counts().mail.delivered, 1);

        world.set_mail(MailBehaviour::Slow { ms: 600_000 });
        assert!(is_unknown(&hasty.send("slow", &email("text")).await.unwrap_err()));
        assert_eq!(world.counts().mail.delivered, 1);
    }

    #[tokio::test]
    async fn a_slow_api_accepts_and_answers_late() {
        let (world, mailer) = world().await;
        world.set_mail(MailBehaviour::Slow { ms: 30 });
        let asked = std::time::Instant::now();
        mailer.send("key", &email("text")).await.unwrap();
        assert!(asked.elapsed() >= Duration::from_millis(30));
    }

    #[tokio::test]
    async fn a_refusal_before_acceptance_delivers_nothing_and_its_status_says_what_to_do() {
        let (world, mailer) = world().await;
        for status in [503, 429] {
            world.set_mail(fail(2, status));
            for _ in 0..2 {
                let error = mailer.send("key", &email("text")).await.unwrap_err();
                assert!(matches!(error, MailError::NotSent { .. }), "{error}");
            }
        }
        world.set_mail(fail(1, 403));
        let error = mailer.send("key", &email("text")).await.unwrap_err();
        assert!(matches!(error, MailError::Refused { .. }), "{error}");
        for status in [500, 502, 504] {
            world.set_mail(fail(1, status));
            let error = mailer.send("key", &email("text")).await.unwrap_err();
            assert!(is_unknown(&error), "{error}");
        }
        assert_eq!(world.mails(), []);
        assert!(!mailer.send("key", &email("text")).await.unwrap().duplicate);
        let counts = world.counts().mail;
        assert_eq!((counts.requested, counts.delivered, counts.failed), (9, 1, 8));
    }

    #[tokio::test]
    async fn nobody_there_means_not_sent() {
        let (world, mailer) = world().await;
        mailer.send("key", &email("text")).await.unwrap();
        world.stop().await;
        let error = mailer.send("key", &email("text")).await.unwrap_err();
        assert!(matches!(error, MailError::NotSent { .. }), "{error}");
    }

    #[tokio::test]
    async fn a_success_or_redirect_without_a_receipt_is_unknown() {
        let answers = [
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno",
            "HTTP/1.1 200 OK\r\ncontent-length: 40\r\n\r\n{\"id\":\"mail-1\",",
            "HTTP/1.1 307 Temporary Redirect\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n",
        ];
        for answer in answers {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let base = format!("http://{}", listener.local_addr().unwrap());
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut seen = Vec::new();
                // Ends with the mail's last brace, so that nothing unread turns the close into a reset.
                while !seen.ends_with(b"}") {
                    let mut bytes = [0; 1024];
                    let read = stream.read(&mut bytes).unwrap();
                    assert!(read > 0, "the client left");
                    seen.extend_from_slice(&bytes[..read]);
                }
                stream.write_all(answer.as_bytes()).unwrap();
            });
            let mailer = Mailer::new(&base, Timeouts::default()).unwrap();
            let error = mailer.send("key", &email("text")).await.unwrap_err();
            assert!(is_unknown(&error), "{error}");
            server.join().unwrap();
        }
    }
}
