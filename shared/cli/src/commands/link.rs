//! `stepwell link`: makes a link by which somebody answers an approval who has no account.

use std::fmt;

use serde::Serialize;
use stepwell::Registry;
use stepwell_core::decide::ApproveRefused;
use stepwell_core::link::{Link, Nonce, Target};
use stepwell_core::{ApprovalId, RunId, Timestamp};
use stepwell_engine::ClientError;
use stepwell_http::view::{At, NoLink, to_be_linked};

use crate::args::{self, Cli};
use crate::backend::{Backend, now};
use crate::errors::{CliError, Exit};
use crate::links;
use crate::output::{Output, say};
use crate::view::harmless;

/// In the words of the API.
#[derive(Serialize)]
struct ShownLink<'a> {
    run: &'a RunId,
    approval: &'a ApprovalId,
    r#for: &'a str,
    url: String,
    expires_at: At,
}

pub(super) async fn run(cli: &Cli, args: &args::Link, out: Output) -> Result<Exit, CliError> {
    let args::Link { run, approval: id, person, base, expires_in, by } = args;
    let base = base.trim_end_matches('/');
    if !base.starts_with("https://") && !base.starts_with("http://") {
        return Err(no_links(format!("--base {base:?} is no URL: give one such as https://runs.example.com")));
    }
    let keys = links::from_environment()?;
    let keys = keys.ok_or_else(|| {
        let how = format!("set {} to what the API has that serves the link", links::VARIABLE);
        no_links(format!("there is no key that could sign one: {how}, ID=HEX with 32 random bytes or more"))
    })?;
    let client = Backend::open_existing(cli).await?.client(Registry::new());
    let (checkpoint, now) = (client.get(run).await?, now());
    let approval = to_be_linked(&checkpoint, id, person, now).map_err(|why| refused(why, run, id, person, now))?;
    let expires = expires_in.map_or(approval.expires_at, |time| now.plus(time).min(approval.expires_at));
    let (fingerprint, person_named, maker) = (approval.fingerprint, person.clone(), by.clone());
    let target = Target::Approval { id: id.clone(), fingerprint, person: person_named, maker };
    let link = Link { run: run.clone(), target, expires, nonce: Nonce::of(links::random()?) };
    let token = keys.sign(&link).map_err(|error| ClientError::Value(error.to_string()))?;
    let (url, expires_at) = (format!("{base}/links/{token}"), At(expires));
    out.data(&ShownLink { run, approval: id, r#for: person, url, expires_at })?;
    if !out.is_json() {
        let who = harmless(person);
        say(format_args!("until {expires_at}, whoever opens it may answer as {who}, once: send it to nobody else"));
    }
    Ok(Exit::Done)
}

/// Why there is none, for whoever asked for it.
fn refused(why: NoLink<'_>, run: &RunId, id: &ApprovalId, person: &str, now: Timestamp) -> CliError {
    match why {
        NoLink::NoSuch => {
            let why = Box::new(ApproveRefused::NoSuch(id.clone()));
            ClientError::NotTaken { run: run.clone(), why }.into()
        }
        NoLink::NotAllowed => no_links(format!("the workflow does not allow it for approval {id}")),
        NoLink::NotNamed(approval) => {
            let by = approval.deciders(now);
            no_links(format!("approval {id} names no person {person} who decides it: it is for {by}"))
        }
        NoLink::NotOpen(approval) => {
            no_links(format!("approval {id} is {}: no answer is awaited", approval.standing(now).as_str()))
        }
    }
}

fn no_links(why: String) -> CliError {
    CliError::NoLinks(why)
}

impl fmt::Display for ShownLink<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}
