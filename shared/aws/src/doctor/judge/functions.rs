//! What the facts about the functions mean.

use super::super::facts::{Function, Gap, Mapping, Part, Seen, Settings, Stack};
use crate::doctor::Finding;
use crate::{AwsSettings, BUCKET_VARIABLE, DEAD_LETTER_VARIABLE, QUEUE_VARIABLE, TABLE_VARIABLE};

/// Everything about what works the queue.
pub(super) fn all(stack: &Stack) -> Vec<Finding> {
    let mappings = match &stack.mappings {
        Ok(mappings) => mappings,
        // The queue itself has its finding.
        Err(Gap::NotThere(_)) => return Vec::new(),
        Err(gap) => return vec![Finding::gap("runner", gap)],
    };
    if mappings.is_empty() {
        let found = "no function takes messages from the queue: runs stand still unless a `worker --aws` runs";
        return vec![Finding::warn("runner", found, "deploy the runner, or let a worker run")];
    }
    let mut findings: Vec<Finding> = mappings.iter().flat_map(mapping).collect();
    findings.extend(stack.loops.iter().map(|(part, seen)| allowed(*part, seen)));
    findings.extend(stack.functions.iter().map(|one| function(one, &stack.settings)));
    findings
}

fn mapping(mapping: &Mapping) -> Vec<Finding> {
    let Mapping { function, state, partial_failures, concurrency_max } = mapping;
    let enabled = match state.as_str() {
        "Enabled" => Finding::ok("runner", format!("{function} takes messages from the queue")),
        "Creating" | "Enabling" | "Updating" => {
            Finding::warn("runner", format!("its event source for {function} is {state}"), "wait until it is Enabled")
        }
        state => {
            let found = format!("its event source for {function} is {state}: no message reaches it");
            Finding::fail("runner", found, "enable the event source mapping")
        }
    };
    let partial = if *partial_failures {
        Finding::ok("runner-batches", "one bad message does not bring its batch back")
    } else {
        let found = "one bad message brings its whole batch back";
        Finding::fail("runner-batches", found, "set ReportBatchItemFailures on the event source mapping")
    };
    let concurrency = if let Some(most) = concurrency_max {
        Finding::ok("runner-concurrency", format!("at most {most} batches at once"))
    } else {
        let found = "unbounded: many runs at once take the whole account's concurrency";
        Finding::warn("runner-concurrency", found, "set MaximumConcurrency on the event source mapping")
    };
    vec![enabled, partial, concurrency]
}

/// AWS takes a function for an endless loop that sends to the queue which wakes it, as a long run does.
fn allowed(part: Part, seen: &Seen<bool>) -> Finding {
    let check = format!("loop{}", part.suffix());
    match seen {
        Ok(true) => Finding::ok(&check, "allowed: a run may go through its queue for as long as it takes"),
        Ok(false) => {
            let found = "not allowed: AWS drops a run's message after about 16, and the sweeper has to find the run";
            Finding::fail(&check, found, "set the function's recursive loop detection to Allow")
        }
        Err(gap) => Finding::gap(&check, gap),
    }
}

fn function(function: &Function, settings: &AwsSettings) -> Finding {
    let Function { name, part, seen } = function;
    let check = format!("function{}", part.suffix());
    let found = match seen {
        Ok(found) => found,
        Err(gap) => return Finding::gap(&check, gap),
    };
    let Settings { runtime, architecture, state, last_update, modified, timeout, .. } = found;
    if last_update != "Successful" && last_update != "unknown" {
        let words = format!("the last update of {name} is {last_update}");
        return if last_update == "InProgress" {
            Finding::warn(&check, words, "wait until it is done")
        } else {
            Finding::fail(&check, words, "look at its reason, then deploy the stack again")
        };
    }
    if state == "Failed" {
        return Finding::fail(&check, format!("{name} is {state}"), "look at its reason, then deploy the stack again");
    }
    let astray = astray(*part, found, settings);
    if !astray.is_empty() {
        let words = format!("{name} works on another stack: {}", astray.join(", "));
        return Finding::fail(&check, words, "deploy the stack again, or correct the settings of this environment");
    }
    let seconds = timeout.as_secs();
    Finding::ok(&check, format!("{name}, {runtime} on {architecture}, time-out {seconds} s, changed {modified}"))
}

/// Variables that say something else than the settings.
fn astray(part: Part, found: &Settings, settings: &AwsSettings) -> Vec<String> {
    let AwsSettings { table, queue_url, dead_letter_url, bucket, kms_key: _ } = settings;
    let wanted = [
        (TABLE_VARIABLE, table),
        (QUEUE_VARIABLE, queue_url),
        (DEAD_LETTER_VARIABLE, dead_letter_url),
        (BUCKET_VARIABLE, bucket),
    ];
    // The runner cannot work without them; of the others each is asked only for what it has.
    let is_needed = part == Part::Runner;
    let astray = wanted.into_iter().filter_map(|(name, wanted)| match found.variables.get(name) {
        Some(value) if value == wanted => None,
        Some(value) => Some(format!("{name} is {value}, not {wanted}")),
        None => is_needed.then(|| format!("{name} is not set")),
    });
    astray.collect()
}
