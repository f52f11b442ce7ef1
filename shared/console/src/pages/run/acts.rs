//! What a person can do with a run as it stands.

use maud::{Markup, html};
use stepwell_core::{Revision, RunId};
use stepwell_http::view::Value;

use crate::parts::form::{Form, Goes, JsonField, button, grave, why};
use crate::parts::json::pretty;

/// The largest state that a page brings along to be edited. A larger one is patched.
const EDITED_BYTES_MAX: usize = 64 * 1024;

/// What an act needs to know of a run.
#[derive(Clone)]
pub(crate) struct Subject {
    pub(crate) run: RunId,
    pub(crate) revision: Revision,
    /// How it stands, as far as acts go.
    pub(crate) stands: Stands,
    /// Whether it is about to end, or has taken back what it has done: then nobody repairs it.
    pub(crate) is_ending: bool,
    /// The signals that it waits for.
    pub(crate) signals: Vec<String>,
    /// What it knows: its input while it has not begun, else its state.
    pub(crate) knows: Option<Value>,
    /// Whether it has begun: then it has a step to be moved from.
    pub(crate) has_begun: bool,
    pub(crate) may: May,
}

/// What whoever looks may do with a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct May {
    pub(crate) operate: bool,
    pub(crate) repair: bool,
}

/// How a run stands, as far as acts go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stands {
    /// It goes on by itself, or when a signal comes.
    Live,
    /// It stands still. `code` says why.
    Parked { code: &'static str },
    /// It has failed. Where nothing was taken back, it can go on.
    Failed { can_go_on: bool },
    /// It has ended otherwise.
    Ended,
}

/// One act: its heading and its form.
struct Act {
    name: &'static str,
    summary: &'static str,
    form: Markup,
}

/// Every act that makes sense, those first that help most. Nothing where there is none.
pub(crate) fn acts(subject: &Subject) -> Markup {
    let acts = of(subject);
    let left_out = match subject.stands {
        Stands::Ended | Stands::Failed { can_go_on: false } => false,
        Stands::Live | Stands::Parked { .. } | Stands::Failed { can_go_on: true } => {
            !(subject.may.operate && subject.may.repair)
        }
    };
    html! {
        @if left_out || !acts.is_empty() {
            div.acts {
                @for Act { name, summary, form } in acts {
                    details.act-box id={ (name) "-" (subject.run) "-box" } { summary { (summary) } (form) }
                }
                @if left_out { p.note { "Your roles let you do no more than this here." } }
            }
        }
    }
}

fn of(subject: &Subject) -> Vec<Act> {
    let mut acts = Vec::new();
    let (operate, repair) = (subject.may.operate, subject.may.repair);
    match subject.stands {
        Stands::Live => {
            if operate && !subject.is_ending {
                acts.extend([signal(subject), pause(subject), cancel(subject)]);
            }
        }
        Stands::Parked { code } => {
            if operate {
                acts.push(resume(subject, code));
                acts.extend((code == "undo").then(|| let_stand(subject)));
            }
            if !subject.is_ending {
                acts.extend(repairs(subject));
                acts.extend(operate.then(|| cancel(subject)));
                acts.extend(repair.then(|| discard(subject)));
            }
        }
        Stands::Failed { can_go_on: true } => {
            acts.extend(operate.then(|| retry(subject)));
            acts.extend(repairs(subject));
        }
        Stands::Ended | Stands::Failed { can_go_on: false } => {}
    }
    acts
}

/// What mends a run: it stays parked, or is.
fn repairs(subject: &Subject) -> Vec<Act> {
    let mut acts = Vec::new();
    if subject.may.repair {
        acts.push(edit(subject));
        acts.extend(subject.has_begun.then(|| step(subject)));
    }
    acts
}

/// What differs from act to act.
struct Terms<'a> {
    name: &'static str,
    summary: &'static str,
    route: &'static str,
    label: &'a str,
    done: &'a str,
    confirm: Option<&'a str>,
    is_bound: bool,
    fields: Markup,
    buttons: Markup,
}

fn act(subject: &Subject, terms: Terms<'_>) -> Act {
    let Terms { name, summary, route, label, done, confirm, is_bound, fields, buttons } = terms;
    let id = id(name, subject);
    let form = Form {
        id: &id,
        path: format!("/v1/runs/{}/{route}", subject.run),
        at: is_bound.then_some(subject.revision),
        confirm: confirm.map(str::to_owned),
        then: None,
        done,
        label,
        fields,
        buttons,
    };
    Act { name, summary, form: form.show() }
}

fn id(name: &str, subject: &Subject) -> String {
    format!("{name}-{}", subject.run)
}

fn signal(subject: &Subject) -> Act {
    let id = id("signal", subject);
    let first = subject.signals.first().map(String::as_str).unwrap_or_default();
    let payload = JsonField {
        form: &id,
        name: "payload",
        label: "What it says, as JSON",
        hint: "If it does not fit, you are told where, and nothing is sent.",
        text: "null",
        goes: Goes::Plain,
    };
    let fields = html! {
        p.field {
            label for={ (id) "-name" } { "Signal" }
            @if subject.signals.len() > 1 {
                select id={ (id) "-name" } name="name" {
                    @for name in &subject.signals { option value=(name) { (name) } }
                }
            } @else {
                input id={ (id) "-name" } name="name" type="text" required maxlength="64" value=(first) spellcheck="false";
            }
        }
        (payload.show())
    };
    act(
        subject,
        Terms {
            name: "signal",
            summary: "Send a signal",
            route: "signals",
            label: "Send a signal",
            done: "The signal is delivered.",
            confirm: None,
            is_bound: false,
            fields,
            buttons: button("Send"),
        },
    )
}

fn pause(subject: &Subject) -> Act {
    let id = id("pause", subject);
    act(
        subject,
        Terms {
            name: "pause",
            summary: "Pause",
            route: "pause",
            label: "Pause the run",
            done: "The run stands still, or will once the step that runs has ended.",
            confirm: None,
            is_bound: false,
            fields: why(
                &id,
                false,
                "It stands still at once, or when the step that runs has ended, until somebody resumes it.",
            ),
            buttons: button("Pause"),
        },
    )
}

fn cancel(subject: &Subject) -> Act {
    let id = id("cancel", subject);
    act(
        subject,
        Terms {
            name: "cancel",
            summary: "Cancel",
            route: "cancel",
            label: "Cancel the run",
            done: "The end of the run is asked for.",
            confirm: Some(
                "This ends the run for good. What it has done is taken back where the workflow says how; the rest stands.",
            ),
            is_bound: false,
            fields: why(&id, false, "It stands in the run's history and certificate."),
            buttons: grave("Cancel the run"),
        },
    )
}

fn resume(subject: &Subject, code: &str) -> Act {
    let hint = match code {
        "budget" => "It may spend more then, as much as the reason says. If the input was wrong, edit it instead.",
        "step-limit" => "The run gets as many steps again as it was allowed.",
        "paused" => "It goes on where it stands.",
        "unknown-outcome" => "Say first how the effect ended: without that it parks again.",
        _ => "Mend first what it was parked for: otherwise it parks again.",
    };
    let id = id("resume", subject);
    act(
        subject,
        Terms {
            name: "resume",
            summary: "Resume",
            route: "resume",
            label: "Resume the run",
            done: "The run goes on.",
            confirm: None,
            is_bound: false,
            fields: why(&id, false, hint),
            buttons: button("Resume"),
        },
    )
}

fn retry(subject: &Subject) -> Act {
    let id = id("retry", subject);
    act(
        subject,
        Terms {
            name: "retry",
            summary: "Try again",
            route: "retry",
            label: "Try the failed step again",
            done: "The run goes on where it has failed.",
            confirm: None,
            is_bound: false,
            fields: why(&id, false, "It goes on with the step that has failed. What is recorded is not done twice."),
            buttons: button("Try again"),
        },
    )
}

fn let_stand(subject: &Subject) -> Act {
    let id = id("let-stand", subject);
    act(
        subject,
        Terms {
            name: "let-stand",
            summary: "Let the effect stand",
            route: "let-stand",
            label: "Let the effect stand that cannot be taken back",
            done: "The effect stands, and the run goes on with the one before it.",
            confirm: Some(
                "The effect is not taken back by the run any more: it stands, or you have taken it back by hand.",
            ),
            is_bound: false,
            fields: why(&id, true, "What was done instead, or why it may stand."),
            buttons: grave("Let it stand"),
        },
    )
}

fn edit(subject: &Subject) -> Act {
    let known = subject.knows.as_ref().and_then(|value| match value {
        Value::Here(json) if json.text().len() <= EDITED_BYTES_MAX => Some(pretty(json.text())),
        Value::Here(_) | Value::Apart { .. } | Value::Lost { .. } => None,
    });
    let what = if subject.has_begun { "state" } else { "input" };
    let whole = known.map(|text| whole(subject, what, &text));
    let patch = patch(subject);
    let form = html! {
        @match whole {
            Some(whole) => {
                p { strong { "Give the whole " (what) " anew" } }
                (whole.form)
                details.sub id={ "patch-" (subject.run) "-box" } { summary { "Or say only what changes, as a JSON patch" } (patch.form) }
            }
            None => {
                p.note { "The " (what) " is too large to be edited as a whole here: say what changes." }
                (patch.form)
            }
        }
    };
    let summary = if subject.has_begun { "Edit the state" } else { "Edit the input" };
    Act { name: "edit", summary, form }
}

fn whole(subject: &Subject, what: &str, text: &str) -> Act {
    let id = id("whole", subject);
    let value = JsonField {
        form: &id,
        name: "patch",
        label: "New value",
        hint: "It takes the place of the whole. Nothing is written if the run has moved on since.",
        text,
        goes: Goes::Replace,
    };
    let fields = html! { (value.show()) (why(&id, true, "It stands in the run's history.")) };
    act(
        subject,
        Terms {
            name: "whole",
            summary: "",
            route: "edit",
            label: &format!("Give the {what} anew"),
            done: "The run knows this now. It stays parked: resume it when it is right.",
            confirm: None,
            is_bound: true,
            fields,
            buttons: button("Write it"),
        },
    )
}

fn patch(subject: &Subject) -> Act {
    let id = id("patch", subject);
    let patch = JsonField {
        form: &id,
        name: "patch",
        label: "JSON patch (RFC 6902)",
        hint: "A list of operations. A test first makes sure that you edit what you have seen.",
        text: "[\n  {\"op\": \"replace\", \"path\": \"/name\", \"value\": \"new\"}\n]",
        goes: Goes::Plain,
    };
    let fields = html! { (patch.show()) (why(&id, true, "It stands in the run's history.")) };
    act(
        subject,
        Terms {
            name: "patch",
            summary: "",
            route: "edit",
            label: "Apply a JSON patch",
            done: "The run knows this now. It stays parked: resume it when it is right.",
            confirm: None,
            is_bound: true,
            fields,
            buttons: button("Apply it"),
        },
    )
}

fn step(subject: &Subject) -> Act {
    let id = id("move", subject);
    let to = JsonField {
        form: &id,
        name: "to",
        label: "Step, as JSON",
        hint: "As the workflow writes its steps: a name such as \"Pay\", or {\"Release\": {\"order\": 7}} for one with data.",
        text: "",
        goes: Goes::Plain,
    };
    let fields = html! { (to.show()) (why(&id, true, "It stands in the run's history.")) };
    act(
        subject,
        Terms {
            name: "move",
            summary: "Move to another step",
            route: "move",
            label: "Move the run to another step",
            done: "The run stands at that step. It stays parked: resume it to go on from there.",
            confirm: Some(
                "The run will go on from this step. The step that it stands at is left out. Effects with a key are not made twice; others are made again if their step runs again.",
            ),
            is_bound: true,
            fields,
            buttons: grave("Move it"),
        },
    )
}

fn discard(subject: &Subject) -> Act {
    let id = id("discard", subject);
    act(
        subject,
        Terms {
            name: "discard",
            summary: "Discard",
            route: "discard",
            label: "Give the run up",
            done: "The run has ended.",
            confirm: Some(
                "This gives the run up: it ends as failed. What it has done stands, nothing is taken back. To have it taken back, cancel the run.",
            ),
            is_bound: true,
            fields: why(&id, true, "It stands in the run's history."),
            buttons: grave("Discard the run"),
        },
    )
}

/// What would help a parked run, by the code of what it was parked for.
pub(crate) fn helps(code: &str) -> Option<&'static str> {
    Some(match code {
        "unknown-outcome" => "Find out whether the effect has happened, and say so. The run then goes on by itself.",
        "poison" => {
            "Its step kills the worker. Mend the code, or edit what the run knows, then resume. If it is not needed any more, discard it."
        }
        "incompatible" => {
            "Deploy code that knows the run's version and step, then resume; or move it to a step that there is."
        }
        "step-limit" => {
            "Look whether it goes round in circles. If that is right, resume: it may make as many steps again."
        }
        "data" => "Mend what is missing or altered, or edit what the run knows, then resume.",
        "budget" => {
            "If it may spend that, resume: that allows it. If what it works on is wrong, edit it, then resume: that allows nothing more. Else cancel it."
        }
        "undo" => "Mend what stands in the way, then resume; or take the effect back by hand and let it stand.",
        "paused" => "Somebody has paused it. Resume it when it may go on.",
        _ => return None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use stepwell_core::Json;

    use super::*;

    fn subject(stands: Stands) -> Subject {
        Subject {
            run: RunId::new("r1").unwrap(),
            revision: Revision(12),
            stands,
            is_ending: false,
            signals: vec!["answer".into()],
            knows: Some(Value::Here(Json::from_text(r#"{"n":1e400,"t":"</textarea>"}"#.into()).unwrap())),
            has_begun: true,
            may: May { operate: true, repair: true },
        }
    }

    /// The routes that the forms lead to.
    fn routes(subject: &Subject) -> Vec<String> {
        let shown = acts(subject).into_string();
        let paths = shown.split("data-path=\"/v1/runs/r1/").skip(1);
        paths.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
    }

    #[test]
    fn each_status_offers_what_helps_there() {
        let parked = |code| Stands::Parked { code };
        assert_eq!(routes(&subject(Stands::Live)), ["signals", "pause", "cancel"]);
        assert_eq!(routes(&subject(parked("data"))), ["resume", "edit", "edit", "move", "cancel", "discard"]);
        let undoing = Subject { is_ending: true, ..subject(parked("undo")) };
        assert_eq!(routes(&undoing), ["resume", "let-stand"]);
        assert_eq!(routes(&subject(Stands::Failed { can_go_on: true })), ["retry", "edit", "edit", "move"]);
        assert_eq!(routes(&subject(Stands::Failed { can_go_on: false })), [""; 0]);
        assert_eq!(routes(&subject(Stands::Ended)), [""; 0]);
        let fresh = Subject { has_begun: false, ..subject(parked("data")) };
        assert_eq!(routes(&fresh), ["resume", "edit", "edit", "cancel", "discard"]);
        assert_eq!(routes(&Subject { is_ending: true, ..subject(Stands::Live) }), [""; 0]);
    }

    #[test]
    fn nobody_is_offered_what_they_may_not_do() {
        let parked = subject(Stands::Parked { code: "data" });
        assert_eq!(
            routes(&Subject { may: May { operate: true, repair: false }, ..parked.clone() }),
            ["resume", "cancel"]
        );
        assert_eq!(
            routes(&Subject { may: May { operate: false, repair: true }, ..parked.clone() }),
            ["edit", "edit", "move", "discard"]
        );
        let nothing = Subject { may: May { operate: false, repair: false }, ..parked };
        assert_eq!(routes(&nothing), [""; 0]);
        assert!(acts(&nothing).into_string().contains("Your roles"));
    }

    #[test]
    fn repairs_are_bound_to_the_revision_and_grave_acts_are_confirmed() {
        let shown = acts(&subject(Stands::Parked { code: "undo" })).into_string();
        let forms: Vec<&str> = shown.split("<form").skip(1).filter_map(|rest| rest.split('>').next()).collect();
        let (mut bound, mut confirmed) = (Vec::new(), Vec::new());
        for form in &forms {
            let route = form.split("/v1/runs/r1/").nth(1).unwrap().split('"').next().unwrap();
            bound.extend(form.contains("data-if-match=\"&quot;12&quot;\"").then_some(route));
            confirmed.extend(form.contains("data-confirm").then_some(route));
        }
        assert_eq!(bound, ["edit", "edit", "move", "discard"]);
        assert_eq!(confirmed, ["let-stand", "move", "cancel", "discard"]);
    }

    #[test]
    fn what_is_edited_is_there_to_the_letter() {
        let shown = acts(&subject(Stands::Parked { code: "data" })).into_string();
        assert!(
            shown.contains("{\n  &quot;n&quot;: 1e400,\n  &quot;t&quot;: &quot;&lt;/textarea&gt;&quot;\n}</textarea>"),
            "{shown}"
        );
        let large = Json::of(&"x".repeat(EDITED_BYTES_MAX)).unwrap();
        let large = Subject { knows: Some(Value::Here(large)), ..subject(Stands::Parked { code: "data" }) };
        let shown = acts(&large).into_string();
        assert!(shown.contains("too large") && shown.contains("JSON patch") && shown.len() < EDITED_BYTES_MAX);
    }

    #[test]
    fn every_reason_has_its_help() {
        for code in ["unknown-outcome", "poison", "incompatible", "step-limit", "data", "budget", "undo", "paused"] {
            assert!(helps(code).is_some(), "{code}");
        }
    }
}
