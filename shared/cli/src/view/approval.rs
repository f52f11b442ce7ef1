//! Approvals, for whoever has to decide.

use std::fmt;

use serde::Serialize;
use stepwell_core::Timestamp;
use stepwell_http::view::{AnswerView, ApprovalView, AuthorityView, EscalationView, Value};

use super::contents::write_tree;
use super::{BOLD, Text, harmless, line};
use crate::program::command;

/// Bytes of parameters that are shown as they read. Nobody is asked to decide on what they did not see whole: more says so.
const PARAMETERS_BYTES_SHOWN: usize = 16 * 1024;

/// All that were found.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct ShownApprovals {
    pub(crate) approvals: Vec<ApprovalView>,
    /// By which people are told who may decide.
    #[serde(skip)]
    pub(crate) now: Timestamp,
    /// What a command needs, to mean this place.
    #[serde(skip)]
    pub(crate) flag: &'static str,
}

impl fmt::Display for ShownApprovals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, approval) in self.approvals.iter().enumerate() {
            if number > 0 {
                f.write_str("\n\n")?;
            }
            self.write_one(f, approval)?;
        }
        Ok(())
    }
}

impl ShownApprovals {
    fn write_one(&self, f: &mut fmt::Formatter<'_>, approval: &ApprovalView) -> fmt::Result {
        let ApprovalView { run, step, id, action, parameters, awaited, answers, version, fingerprint, .. } = approval;
        line(f, "approval", format_args!("{} {id}", harmless(action)))?;
        let waits = if *awaited { "which waits for it" } else { "which does not wait for it" };
        line(f, "run", format_args!("{run}, at step {}, {waits}", harmless(step)))?;
        line(f, "stands", stands(approval, self.now))?;
        write_deciders(f, approval, self.now)?;
        for answer in answers {
            line(f, answer.answer, Text(answer))?;
        }
        write!(f, "{BOLD}{:<11}{BOLD:#} version {version}, fingerprint {fingerprint}", "parameters")?;
        write_parameters(f, parameters)?;
        if approval.is_open() {
            write!(f, "\n{BOLD}{:<11}{BOLD:#} {}", "answer", how_to_answer(approval, self.flag))?;
        }
        Ok(())
    }
}

fn write_parameters(f: &mut fmt::Formatter<'_>, parameters: &Value) -> fmt::Result {
    match parameters {
        Value::Here(json) if json.text().len() > PARAMETERS_BYTES_SHOWN => {
            let text = json.text();
            let shown = &text[..text.floor_char_boundary(PARAMETERS_BYTES_SHOWN)];
            write!(f, "\n  {}…\n  THE REST IS NOT SHOWN: {} bytes, all of it with --json", harmless(shown), text.len())
        }
        Value::Here(_) | Value::Apart { .. } | Value::Lost { .. } => write_tree(f, parameters),
    }
}

/// One of a run, in short.
pub(super) fn write_short(f: &mut fmt::Formatter<'_>, approval: &ApprovalView, now: Timestamp) -> fmt::Result {
    let ApprovalView { id, action, parameters, answers, .. } = approval;
    line(f, "approval", format_args!("{} {id}: {}", harmless(action), stands(approval, now)))?;
    line(f, "", format_args!("with {}", Text(parameters)))?;
    if approval.is_open() {
        write_deciders(f, approval, now)?;
    }
    answers.iter().try_for_each(|answer| line(f, "", format_args!("{} {}", answer.answer, Text(answer))))
}

/// How it stands, and until when.
fn stands(approval: &ApprovalView, now: Timestamp) -> impl fmt::Display {
    let ApprovalView { status, quorum, allowed, expires_at, usable_until, replaced_by, used, ended, ending, .. } =
        approval;
    fmt::from_fn(move |f| {
        write!(f, "{status}")?;
        if let Some(used) = used {
            return write!(f, " for effect {} at {}", used.key, used.at);
        }
        if let Some(id) = replaced_by {
            return write!(f, " by {id}");
        }
        if *ended {
            return write!(f, " when the run ended: nothing comes of it any more");
        }
        if let Some(until) = usable_until {
            return write!(f, ", may be used until {until}");
        }
        if *ending && expires_at.0 > now {
            return write!(f, ", but the run is about to end: no answer is taken any more");
        }
        if approval.is_open() {
            write!(f, " until {expires_at}, {allowed} of {quorum} have allowed it")?;
        } else if expires_at.0 <= now {
            write!(f, ", no answer was taken from {expires_at} on")?;
        }
        Ok(())
    })
}

fn write_deciders(f: &mut fmt::Formatter<'_>, approval: &ApprovalView, now: Timestamp) -> fmt::Result {
    line(f, "for", harmless(approval.deciders(now)))?;
    escalates(approval, now).iter().try_for_each(|later| line(f, "", later))
}

/// Who may decide later, too.
pub(crate) fn escalates(approval: &ApprovalView, now: Timestamp) -> Option<impl fmt::Display> {
    let EscalationView { at, to } = approval.escalation.as_ref().filter(|escalation| escalation.at.0 > now)?;
    let to: Vec<String> = to.iter().map(|who| Text(who).to_string()).collect();
    Some(format!("and from {at} on {}, too", to.join(" or ")))
}

/// The commands to answer it.
pub(crate) fn how_to_answer(approval: &ApprovalView, flag: &str) -> String {
    let ApprovalView { run, id, .. } = approval;
    let who = format!("{flag} {run} {id} --by WHO --role ROLE");
    let (approve, reject) = (command(format_args!("approve{who}")), command(format_args!("reject{who} --why …")));
    format!("{approve} or {reject}")
}

impl fmt::Display for Text<'_, AnswerView> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AnswerView { by, roles, why, at, answer: _ } = self.0;
        write!(f, "by {}", harmless(by))?;
        if !roles.is_empty() {
            write!(f, " ({})", harmless(roles.join(", ")))?;
        }
        write!(f, " at {at}: {}", harmless(why.as_deref().unwrap_or("no reason given")))
    }
}

impl fmt::Display for Text<'_, AuthorityView> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            AuthorityView::Person(name) => write!(f, "{}", harmless(name)),
            AuthorityView::Role(role) => write!(f, "role {}", harmless(role)),
        }
    }
}
