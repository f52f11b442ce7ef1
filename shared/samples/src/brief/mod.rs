//! The competitive brief: read what vendors say, write a brief, have it approved, mail it.
//!
//! One vendor a step, so a crash costs one page at most. The approval may take a minute or a month: nothing runs meanwhile.
//! The mail goes out under one key for the whole run, so it is delivered once however often its sender dies.

pub mod mail;
pub mod web;
pub mod writer;

use std::sync::Arc;

use stepwell::prelude::*;

use self::mail::{Email, MailError, MailId, Mailer, Receipt};
use self::web::{Finding, Page, Web, WebError};
use self::writer::{Material, TemplateWriter, WriteError, Writer};
use crate::Outside;
use crate::client::{SetupError, Timeouts};

/// How long one call to the outside may take. Short, because a worker that dies in a call is only followed by another once
/// this time is over.
const CALL: Duration = seconds(2);

/// For how long the mail API knows a key.
const MAIL_KEYS_KEPT: Duration = hours(24);

/// What to find out, and for whom: the input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// What the reader wants to decide.
    pub goal: String,
    /// The vendors to read, by name.
    pub vendors: Vec<String>,
    /// Who gets the brief.
    pub to: String,
}

/// What the run knows. The findings are a log and the draft is a blob, so it stays small however many vendors there are.
#[derive(Debug, Serialize, Deserialize)]
pub struct Brief {
    goal: String,
    vendors: Vec<String>,
    to: String,
    findings: Log<Finding>,
    draft: Option<Draft>,
}

/// A brief that waits for its approval.
#[derive(Debug, Serialize, Deserialize)]
struct Draft {
    text: Blob<String>,
    words: usize,
    writer: String,
}

/// Where the run stands.
#[derive(Debug, Serialize, Deserialize)]
pub enum At {
    /// Reads one vendor's page.
    Research {
        /// Which, counted from 0.
        vendor: usize,
    },
    /// Writes the brief, then waits for [`APPROVAL`].
    Draft,
    /// Takes the decision.
    Decide,
    /// Sends the mail.
    Send,
}

/// Somebody has read the draft.
pub const APPROVAL: Signal<Decision> = Signal::new("approval");

/// What [`APPROVAL`] says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Whether the brief may be sent.
    pub approved: bool,
    /// Who says so.
    pub by: String,
    /// Why, or why not.
    #[serde(default)]
    pub reason: Option<String>,
}

/// The brief is on its way: the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// The mail's identity at the mail API.
    pub mail: MailId,
    /// Who gets it.
    pub to: String,
    /// The call that was answered delivered nothing: an earlier one had.
    pub duplicate: bool,
    /// Vendors read.
    pub vendors: usize,
    /// Words in the brief.
    pub words: usize,
    /// Who wrote it.
    pub writer: String,
}

/// The workflow `competitive-brief`.
pub struct CompetitiveBrief {
    web: Web,
    writer: Arc<dyn Writer>,
    mailer: Mailer,
}

/// The workflow, with a writer that needs no network.
///
/// # Errors
/// [`SetupError`] when an address is no HTTP URL.
pub fn competitive_brief(outside: &Outside) -> Result<CompetitiveBrief, SetupError> {
    let timeouts = Timeouts { connect: seconds(1), answer: CALL };
    Ok(CompetitiveBrief {
        web: Web::new(&outside.vendors_url, timeouts)?,
        writer: Arc::new(TemplateWriter),
        mailer: Mailer::new(&outside.mail_url, timeouts)?,
    })
}

impl CompetitiveBrief {
    /// With this writer.
    #[must_use]
    pub fn written_by(mut self, writer: Arc<dyn Writer>) -> Self {
        self.writer = writer;
        self
    }
}

impl Workflow for CompetitiveBrief {
    const NAME: &'static str = "competitive-brief";
    type Input = Request;
    type State = Brief;
    type Step = At;
    type Output = Sent;

    fn signals() -> Signals {
        Signals::none().and(APPROVAL)
    }

    fn policy(&self, _at: &At) -> StepPolicy {
        let retry =
            RetryPolicy::default().max_attempts(20).first_delay(Duration::from_millis(200)).max_delay(seconds(30));
        StepPolicy::default().retry(retry).timeout(seconds(10))
    }

    fn begin(&self, Request { goal, vendors, to }: Request) -> (At, Brief) {
        (after_research(0, &vendors), Brief { goal, vendors, to, findings: Log::new(), draft: None })
    }

    async fn step(&self, at: At, brief: &mut Brief, cx: &Cx) -> StepResult<Self> {
        match at {
            At::Research { vendor } => {
                let name = &brief.vendors[vendor];
                let page = cx.effect("fetch").read().with(name).deadline(CALL).call(|_| self.page(name)).await?;
                brief.findings.push(Finding::from_page(&page));
                Ok(goto(after_research(vendor + 1, &brief.vendors)))
            }
            At::Draft => {
                let material = Material { goal: brief.goal.clone(), findings: cx.read(&brief.findings).await? };
                let draft = cx.effect("draft").idempotent().with(&material).deadline(CALL);
                let text = draft.call(|call| self.draft(call.key(), &material)).await?;
                let (words, writer) = (text.split_whitespace().count(), self.writer.name().to_owned());
                brief.draft = Some(Draft { text: cx.blob(&text).await?, words, writer });
                Ok(wait(At::Decide).for_signal(APPROVAL).without_deadline())
            }
            At::Decide => match cx.take(APPROVAL).await? {
                Some(Decision { approved: true, .. }) => Ok(goto(At::Send)),
                Some(Decision { approved: false, by, reason }) => {
                    let reason = reason.unwrap_or_else(|| "no reason given".into());
                    Err(StepError::terminal(format!("{by} rejected the brief: {reason}")).with_code("rejected"))
                }
                None => Ok(wait(At::Decide).for_signal(APPROVAL).without_deadline()),
            },
            At::Send => {
                let Some(Draft { text, words, writer }) = &brief.draft else {
                    return Err(StepError::terminal("there is no draft to send"));
                };
                let subject = format!("Competitive brief: {}", brief.goal);
                let mail = Email { to: brief.to.clone(), subject, body: cx.load(text).await? };
                let email = cx.effect("email").key("brief").idempotent_for(MAIL_KEYS_KEPT).with(&mail).deadline(CALL);
                let Receipt { id, duplicate } = email.call(|call| self.send(call.key(), &mail)).await?;
                let (to, vendors) = (mail.to, brief.vendors.len());
                Ok(complete(Sent { mail: id, to, duplicate, vendors, words: *words, writer: writer.clone() }))
            }
        }
    }
}

/// The next vendor; the draft, once all are read.
fn after_research(read: usize, vendors: &[String]) -> At {
    if read < vendors.len() { At::Research { vendor: read } } else { At::Draft }
}

/// The calls to the outside. What their errors say about it is said here, once.
impl CompetitiveBrief {
    async fn page(&self, vendor: &str) -> Result<Page, CallError> {
        self.web.page(vendor).await.map_err(|error| match error {
            WebError::NotSent { .. } => CallError::retry(error),
            WebError::Refused { .. } => CallError::refused(error),
            WebError::Unknown { .. } => CallError::unknown(error),
        })
    }

    async fn draft(&self, key: &str, material: &Material) -> Result<String, CallError> {
        self.writer.write(key, material).await.map_err(|error| match error {
            WriteError::NotWritten { .. } => CallError::retry(error),
            WriteError::Refused { .. } => CallError::refused(error),
            WriteError::Unknown { .. } => CallError::unknown(error),
        })
    }

    async fn send(&self, key: &str, mail: &Email) -> Result<Receipt, CallError> {
        self.mailer.send(key, mail).await.map_err(|error| match error {
            MailError::NotSent { .. } => CallError::retry(error),
            MailError::Refused { .. } => CallError::refused(error),
            MailError::Unknown { .. } => CallError::unknown(error),
        })
    }
}

#[cfg(test)]
mod tests;
