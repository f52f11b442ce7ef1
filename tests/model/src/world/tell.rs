//! Actions and states in words.

use stepwell_core::Status;

use super::outside::Person;
use super::parts::units;
use super::steps::{Effect, Ending, How};
use super::{Action, Doing, Doubted, Reply, State};

fn ticket(age: u8) -> &'static str {
    match age {
        0 => "the current ticket",
        1 => "the ticket before",
        _ => "an old ticket",
    }
}

fn reply(reply: Reply) -> &'static str {
    match reply {
        Reply::Heard => "",
        Reply::Lost => ", and the answer is lost",
        Reply::Late => ", but the write is late",
    }
}

fn ending(ending: Ending) -> String {
    let how = match ending.how {
        How::Goto => "goes on".to_owned(),
        How::Wait { on } => match (on, ending.until) {
            (0, Some(until)) => format!("waits for a timer in {until} units"),
            (_, Some(until)) => format!("waits for a signal, or a timer in {until} units"),
            (_, None) => "waits for a signal".to_owned(),
        },
        How::Complete => "completes".to_owned(),
        How::Retry => "fails and is to be tried again".to_owned(),
        How::Park => "needs a person".to_owned(),
    };
    let took = if ending.took == 0 { "" } else { ", having taken a letter" };
    let effect = match ending.effect {
        Effect::AsHeld | Effect::Succeeded | Effect::Unknown | Effect::NotSent => "",
        Effect::TakenAsFailed => ", taking its open effect as failed",
    };
    format!("{how}{took}{effect}")
}

/// One action, as the state before it stands.
pub(super) fn action(state: &State, action: &Action) -> String {
    let name = |worker: usize| state.names[worker];
    match *action {
        Action::Receive { worker, entry } => {
            let entry = &state.queue[entry];
            let again = if entry.holders == 0 { "" } else { ", which another works on" };
            format!("worker {} receives a message with {}{again}", name(worker), ticket(entry.age))
        }
        Action::Acquire { worker, reply: heard } => {
            format!("worker {} tries to acquire the run{}", name(worker), reply(heard))
        }
        Action::Commit { worker, ended, go_on, reply: heard } => {
            let on = if go_on { ", holding on" } else { "" };
            let (before, end) = match (&state.workers[worker].doing, ended) {
                (_, Some(ended)) => ("runs the step, which ", Some(ended)),
                (Doing::Commit { ended, .. }, None) => ("commits: its step ", *ended),
                (_, None) => ("commits", None),
            };
            match end {
                Some(end) => format!("worker {} {before}{}{on}{}", name(worker), ending(end), reply(heard)),
                None => format!("worker {} commits without running the step{}", name(worker), reply(heard)),
            }
        }
        Action::Intend { worker, reply: heard } => {
            format!("worker {} is about to call the outside{}", name(worker), reply(heard))
        }
        Action::Call { worker, is_heard } => {
            let heard = if is_heard { "and it answers" } else { "and hears nothing" };
            format!("worker {} calls the outside, {heard}", name(worker))
        }
        Action::Again { worker } => format!("worker {} sends its write again", name(worker)),
        Action::Renew { worker } => format!("worker {} renews its lease", name(worker)),
        Action::Send { worker } => match state.workers[worker].doing {
            Doing::Send { age, delay, .. } => {
                format!("worker {} sends a message with {}, to come in {delay} units", name(worker), ticket(age))
            }
            _ => format!("worker {} sends", name(worker)),
        },
        Action::Delete { worker } => format!("worker {} deletes its message", name(worker)),
        Action::Crash { worker } => format!("worker {} dies; its message comes again", name(worker)),
        Action::Errand { errand } => {
            format!("somebody outside sends a message with {}", ticket(state.errands[errand]))
        }
        Action::SenderDies { .. } => "somebody outside dies before sending a message".to_owned(),
        Action::Time => "time passes".to_owned(),
        Action::Copy { .. } => "the queue doubles a message".to_owned(),
        Action::Signal { signal } => format!("signal {} is sent", signal + 1),
        Action::Cancel => "somebody cancels the run".to_owned(),
        Action::Pause => "somebody asks for a pause".to_owned(),
        Action::Person(person) => match person {
            Person::Resume => "a person resumes the run",
            Person::SaysSucceeded => "a person says that the effect has succeeded",
            Person::SaysFailed => "a person says that the effect has failed",
            Person::SaysTryAgain => "a person says that the effect is to be tried again",
            Person::SignsOff => "a person signs the effect off",
        }
        .to_owned(),
        Action::Sweep => "the sweeper sends a message".to_owned(),
    }
}

/// A state from which no end can be reached.
pub(super) fn stuck(state: &State) -> String {
    let status = match &state.run.progress.status {
        Status::Waiting(wait) => {
            let until = wait.until.map_or_else(String::new, |until| format!(", for {} units more", units(until)));
            format!("waiting, {} letters in the mailbox{until}", state.run.mailbox.letters.len())
        }
        status => status.phase().to_string(),
    };
    let working = state.workers.iter().filter(|worker| !matches!(worker.doing, Doing::Idle)).count();
    let doubts = state
        .workers
        .iter()
        .filter(|worker| matches!(&worker.doing, Doing::Again(doubt) if matches!(doubt.what, Doubted::Commit { .. })));
    format!(
        "stuck: the run is {status}; {} messages in the queue, {working} workers at work ({} in doubt)",
        state.queue.len(),
        doubts.count()
    )
}
