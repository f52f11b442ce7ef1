//! Mail through a relay.

use std::fmt;
use std::time::Duration;

use lettre::message::header::MessageId;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension, MailBodyParameter, MailParameter};
use lettre::transport::smtp::response::{Response, Severity};
use lettre::{Address, Message};
use serde::{Deserialize, Serialize};
use stepwell::{Call, CallError, Secret, error_chain};
use tokio::time::{Instant, timeout, timeout_at};

/// The library whose [`Message`] is sent.
pub use lettre;

/// How long a relay that has taken a mail is waited for to say good-bye.
const GOOD_BYE: Duration = Duration::from_millis(500);

/// Where mail is handed in.
#[derive(Clone, Debug)]
pub struct SmtpRelay {
    host: String,
    port: u16,
    security: Security,
    login: Option<(String, Secret)>,
    hello: ClientId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Security {
    Tls,
    StartTls,
    Plain,
}

impl SmtpRelay {
    /// A relay that speaks TLS from the first byte, on port 465.
    pub fn tls(host: impl Into<String>) -> Self {
        Self::new(host.into(), 465, Security::Tls)
    }

    /// A relay that is asked for TLS with `STARTTLS`, on port 587. Without TLS nothing is sent.
    pub fn starttls(host: impl Into<String>) -> Self {
        Self::new(host.into(), 587, Security::StartTls)
    }

    /// A relay without TLS, on port 25: one on this machine, or beside it. It cannot have a login.
    pub fn plain(host: impl Into<String>) -> Self {
        Self::new(host.into(), 25, Security::Plain)
    }

    fn new(host: String, port: u16, security: Security) -> Self {
        Self { host, port, security, login: None, hello: ClientId::default() }
    }

    /// Another port.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// With a user's name and password.
    #[must_use]
    pub fn login(mut self, user: impl Into<String>, password: Secret) -> Self {
        self.login = Some((user.into(), password));
        self
    }

    /// By what name this machine greets. Default: `[127.0.0.1]`, which some relays do not like.
    #[must_use]
    pub fn hello(mut self, domain: impl Into<String>) -> Self {
        self.hello = ClientId::Domain(domain.into());
        self
    }
}

/// Why there is no sender of mail.
#[derive(Debug, thiserror::Error)]
pub enum SmtpSetupError {
    /// A password would be sent in the clear.
    #[error("the login of {host} would be sent without TLS; use SmtpRelay::tls or SmtpRelay::starttls")]
    InTheClear {
        /// Which relay.
        host: String,
    },
    /// TLS cannot be set up.
    #[error("TLS to {host} could not be set up; check the host's name and the machine's certificates")]
    Tls {
        /// Which relay.
        host: String,
        /// Why.
        #[source]
        source: lettre::transport::smtp::Error,
    },
}

/// Hands mail to a relay.
///
/// # Class: `once`
/// SMTP knows no keys: a mail that is handed in twice is delivered twice, and a relay cannot be asked what it took. So it is
/// handed in once, and when nobody knows whether the relay took it, the run is parked with that question. The
/// `Message-ID` is made of the effect's key, `<key@domain of the sender>`, in every attempt: a person can look for it in the
/// relay's log or in a mailbox, and some mailboxes show a second copy only once. That is no promise, so it makes no other class.
///
/// # What a failure says
///
/// | what was seen | what it says | why |
/// | --- | --- | --- |
/// | no connection, no TLS, a lost connection or half of the deadline gone before the mail's text | not done | a relay takes nothing before the text has ended |
/// | a reply of 4xx, at any time | not done | the relay says that it did not take the mail, and may later |
/// | a reply of 5xx, at any time | refused | it did not, and will not |
/// | no TLS or login of the kind wanted, or no non-ASCII text, at this relay | refused | nothing was sent |
/// | no reply, or none that can be read, after the text was begun | unknown | the relay may have taken it |
///
/// One addressee that is refused refuses the whole mail: nothing is sent to the others. Codes are `smtp-<reply>`, and
/// `smtp-connect`, `smtp-relay` (it cannot do what is wanted) and `smtp-lost` where there is no reply.
///
/// ```no_run
/// use stepwell::prelude::*;
/// use stepwell_effects::smtp::{Smtp, SmtpAccepted, lettre::Message};
///
/// # struct Shop { smtp: Smtp }
/// # impl Shop {
/// async fn confirm(&self, to: &str, cx: &Cx) -> Result<SmtpAccepted, StepError> {
///     let mail = Message::builder().from("shop@example.com".parse()?).to(to.parse()?);
///     let mail = mail.subject("Your order").body("It is on its way.".to_string())?;
///     Ok(cx.effect("confirmation").key("mail").once().call(|call| self.smtp.send(call, mail)).await?)
/// }
/// # }
/// ```
#[derive(Clone)]
pub struct Smtp {
    relay: SmtpRelay,
    tls: Option<TlsParameters>,
}

impl fmt::Debug for Smtp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Smtp").field(&self.relay).finish()
    }
}

/// What a relay said when it took a mail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SmtpAccepted {
    /// The mail's `Message-ID`, with its angle brackets.
    pub message_id: String,
    /// The relay's own words, often with its name for the mail.
    pub reply: String,
}

impl Smtp {
    /// A sender. It connects anew for each mail, and verifies the relay by the certificates that the machine trusts.
    ///
    /// # Errors
    /// [`SmtpSetupError`].
    pub fn new(relay: SmtpRelay) -> Result<Self, SmtpSetupError> {
        let tls = match relay.security {
            Security::Plain if relay.login.is_some() => {
                return Err(SmtpSetupError::InTheClear { host: relay.host });
            }
            Security::Plain => None,
            Security::Tls | Security::StartTls => {
                let tls = TlsParameters::new_rustls(relay.host.clone());
                Some(tls.map_err(|source| SmtpSetupError::Tls { host: relay.host.clone(), source })?)
            }
        };
        Ok(Self { relay, tls })
    }

    /// Hands a mail in. Its `Message-ID` is set, so do not sign it before.
    ///
    /// All before the mail's text may take half of the call's deadline, and the rest is for the text: what is late then has
    /// not begun.
    ///
    /// # Errors
    /// [`Smtp`] says which.
    pub async fn send(&self, call: Call<'_>, mut message: Message) -> Result<SmtpAccepted, CallError> {
        let begun = Instant::now();
        let until = begun + call.deadline();
        let domain = message.envelope().from().map_or("localhost", Address::domain);
        let message_id = format!("<{}@{domain}>", call.key());
        message.headers_mut().set(MessageId::from(message_id.clone()));
        let text = message.formatted();

        let half = call.deadline() / 2;
        let Ok(ready) = timeout(half, self.ready(&message, &text)).await else {
            let words = format!("{} was not ready for the mail within {half:?}, nothing was sent", self.relay.host);
            return Err(CallError::retry(words).with_code("smtp-connect"));
        };
        let mut connection = ready.map_err(|error| self.before_text(error))?;
        let reply = match timeout_at(until, connection.message(&text)).await {
            Ok(Ok(reply)) if is_taken(&reply) => reply,
            Ok(Ok(reply)) => return Err(self.open(&format!("its reply means nothing: {}", words(&reply)))),
            Ok(Err(error)) => return Err(self.after_text(&error)),
            Err(_) => return Err(self.open("there was no reply in time")),
        };
        // It was taken: nothing after that changes it, and it must not be late for this.
        let left = until.saturating_duration_since(Instant::now()) / 2;
        let _ = timeout(left.min(GOOD_BYE), connection.quit()).await;
        Ok(SmtpAccepted { message_id, reply: words(&reply) })
    }

    /// A connection whose relay asks for the mail's text.
    async fn ready(&self, message: &Message, text: &[u8]) -> Result<AsyncSmtpConnection, Before> {
        let SmtpRelay { host, port, security, login, hello } = &self.relay;
        let tls_at_once = self.tls.clone().filter(|_| *security == Security::Tls);
        let server = (host.as_str(), *port);
        let mut connection = AsyncSmtpConnection::connect_tokio1(server, None, hello, tls_at_once, None).await?;
        if let (Security::StartTls, Some(tls)) = (security, &self.tls) {
            connection.starttls(tls.clone(), hello).await?;
        }
        if let Some((user, password)) = login {
            let credentials = Credentials::new(user.clone(), password.expose().trim().to_owned());
            connection.auth(DEFAULT_MECHANISMS, &credentials).await?;
        }
        let envelope = message.envelope();
        let mut options = Vec::new();
        if envelope.to().iter().chain(envelope.from()).any(|address| !AsRef::<str>::as_ref(address).is_ascii()) {
            options.push(MailParameter::SmtpUtfEight);
            knows(&connection, Extension::SmtpUtfEight)?;
        }
        if !text.is_ascii() {
            options.push(MailParameter::Body(MailBodyParameter::EightBitMime));
            knows(&connection, Extension::EightBitMime)?;
        }
        connection.command(Mail::new(envelope.from().cloned(), options)).await?;
        for to in envelope.to() {
            connection.command(Rcpt::new(to.clone(), Vec::new())).await?;
        }
        let reply = connection.command(Data).await?;
        if reply.has_code(354) { Ok(connection) } else { Err(Before::NotAsked(words(&reply))) }
    }

    /// Nothing was handed in yet.
    fn before_text(&self, error: Before) -> CallError {
        let host = &self.relay.host;
        match error {
            Before::Smtp(error) => {
                let words = format!("{host} did not take the mail: {}", error_chain(&error));
                match of_reply(&error, &words) {
                    Some(error) => error,
                    None if error.is_client() => CallError::refused(words).with_code("smtp-relay"),
                    None => CallError::retry(words).with_code("smtp-connect"),
                }
            }
            Before::Unknown(extension) => {
                let words = format!("{host} cannot take the mail: it does not know {extension}");
                CallError::refused(words).with_code("smtp-relay")
            }
            Before::NotAsked(reply) => {
                let words = format!("{host} did not ask for the mail's text: {reply}");
                CallError::retry(words).with_code("smtp-connect")
            }
        }
    }

    fn after_text(&self, error: &lettre::transport::smtp::Error) -> CallError {
        let words = error_chain(error);
        of_reply(error, &format!("{} did not take the mail: {words}", self.relay.host))
            .unwrap_or_else(|| self.open(&words))
    }

    fn open(&self, why: &str) -> CallError {
        CallError::unknown(format!("{} may have taken the mail: {why}", self.relay.host)).with_code("smtp-lost")
    }
}

/// Why the mail's text was not begun.
enum Before {
    Smtp(lettre::transport::smtp::Error),
    Unknown(Extension),
    NotAsked(String),
}

impl From<lettre::transport::smtp::Error> for Before {
    fn from(error: lettre::transport::smtp::Error) -> Self {
        Self::Smtp(error)
    }
}

fn knows(connection: &AsyncSmtpConnection, extension: Extension) -> Result<(), Before> {
    let known = connection.server_info().supports_feature(extension);
    if known { Ok(()) } else { Err(Before::Unknown(extension)) }
}

/// What the relay's reply says, where the error is one. At no time has a relay that answers so taken the mail.
fn of_reply(error: &lettre::transport::smtp::Error, words: &str) -> Option<CallError> {
    let code = error.status()?;
    let error = if error.is_permanent() { CallError::refused(words) } else { CallError::retry(words) };
    Some(error.with_code(format!("smtp-{code}")))
}

fn is_taken(reply: &Response) -> bool {
    reply.code().severity == Severity::PositiveCompletion
}

fn words(reply: &Response) -> String {
    format!("{} {}", reply.code(), reply.message().collect::<Vec<_>>().join(" "))
}
