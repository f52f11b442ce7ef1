//! What facts mean: pure functions, one for each thing that was looked at.

mod functions;

use std::time::Duration;

use stepwell_core::stored::FORMAT;

use super::facts::{Attempt, Gap, Ground, Index, Keys, Part, Projection, Queue, Seen, Skew, Stack, Stored, Table};
use super::{Finding, Status};
use crate::item::name;
use crate::keys;

/// A clock may differ by this much.
const SKEW_MAX: Duration = Duration::from_secs(30);
/// By more than this, leases mean nothing, and AWS begins to refuse what is signed.
const SKEW_BAD: Duration = Duration::from_mins(5);

/// Receives before SQS takes a message away: throttled deliveries count, too.
const RECEIVES_MIN: u64 = 10;

/// A long weekend.
const DEAD_LETTERS_KEPT_MIN: Duration = Duration::from_hours(4 * 24);

/// Times the runner's time-out that a message must stay hidden, as AWS advises.
const VISIBILITY_TIMES: u32 = 6;

const DEPLOY: &str = "deploy the stack again from its template, or correct the name, the region or the account";
const CONSOLE: &str = "look at it by hand";

impl Finding {
    fn new(check: &str, status: Status, found: impl Into<String>, mend: Option<String>) -> Self {
        Self { check: check.to_owned(), status, found: found.into(), mend }
    }

    fn ok(check: &str, found: impl Into<String>) -> Self {
        Self::new(check, Status::Ok, found, None)
    }

    fn unknown(check: &str, found: impl Into<String>, mend: impl Into<String>) -> Self {
        Self::new(check, Status::Unknown, found, Some(mend.into()))
    }

    fn warn(check: &str, found: impl Into<String>, mend: impl Into<String>) -> Self {
        Self::new(check, Status::Warn, found, Some(mend.into()))
    }

    fn fail(check: &str, found: impl Into<String>, mend: impl Into<String>) -> Self {
        Self::new(check, Status::Fail, found, Some(mend.into()))
    }

    /// For something that was not seen.
    fn gap(check: &str, gap: &Gap) -> Self {
        match gap {
            Gap::NotThere(words) => Self::fail(check, words, DEPLOY),
            Gap::NotPermitted(words) => {
                Self::unknown(check, format!("not permitted: {words}"), format!("allow it, or {CONSOLE}"))
            }
            Gap::NotSupported(words) => Self::unknown(check, format!("not supported here: {words}"), CONSOLE),
            Gap::BadCredentials(words) => {
                Self::fail(check, words, "renew the credentials, and check that the machine's clock is right")
            }
            Gap::NoAnswer(words) => {
                Self::fail(check, format!("no answer: {words}"), "check the network, the region and the endpoint")
            }
        }
    }
}

/// What has to be there before anything can be asked.
pub(super) fn ground(ground: &Ground) -> Vec<Finding> {
    let Ground { missing, region, credentials } = ground;
    let settings = if missing.is_empty() {
        Finding::ok("settings", "the table, the queues and the bucket are named")
    } else {
        let found = format!("not set: {}", missing.join(", "));
        Finding::fail("settings", found, "set these variables: the stack's outputs have their values")
    };
    let region = match region {
        Some(region) => Finding::ok("region", region),
        None => Finding::fail("region", "none is set", "set AWS_REGION to the region of the stack"),
    };
    let credentials = match credentials {
        Ok(()) => Finding::ok("credentials", "found"),
        Err(why) => {
            Finding::fail("credentials", format!("not found: {why}"), "log in, or set AWS_PROFILE or AWS_ACCESS_KEY_ID")
        }
    };
    vec![settings, region, credentials]
}

/// Everything that was seen of a stack.
pub(super) fn stack(stack: &Stack) -> Vec<Finding> {
    let mut findings = vec![clock(&stack.clock)];
    findings.extend(table(&stack.settings.table, &stack.table));
    // What is not there has no settings: one finding says so.
    if !is_gone(&stack.table) {
        findings.extend([expiry(&stack.expiry), backups(&stack.backups)]);
    }
    findings.extend(queue(stack));
    findings.extend(dead_letters(&stack.queue, &stack.dead_letters));
    findings.push(match &stack.bucket {
        Ok(()) => Finding::ok("bucket", format!("{} is there", stack.settings.bucket)),
        Err(gap) => Finding::gap("bucket", gap),
    });
    if !is_gone(&stack.bucket) {
        findings.extend([closed(&stack.closed), encryption(&stack.encryption)]);
    }
    findings.extend(functions::all(stack));
    findings.extend(stack.attempts.iter().map(attempt));
    findings.push(stored(&stack.stored));
    findings
}

fn is_gone<T>(seen: &Seen<T>) -> bool {
    matches!(seen, Err(Gap::NotThere(_)))
}

fn clock(seen: &Seen<Skew>) -> Finding {
    let (apart, way) = match seen {
        Ok(Skew::Ahead(apart)) => (*apart, "ahead of"),
        Ok(Skew::Behind(apart)) => (*apart, "behind"),
        Err(gap) => return Finding::gap("clock", gap),
    };
    let found = format!("{} s {way} that of AWS", apart.as_secs());
    let mend = "set this machine's clock, and let it be kept (NTP): leases are held against it";
    match apart {
        apart if apart > SKEW_BAD => Finding::fail("clock", found, mend),
        apart if apart > SKEW_MAX => Finding::warn("clock", found, mend),
        _ => Finding::ok("clock", found),
    }
}

fn table(name: &str, seen: &Seen<Table>) -> Vec<Finding> {
    let table = match seen {
        Ok(table) => table,
        Err(gap) => return vec![Finding::gap("table", gap)],
    };
    let mut findings = vec![match table.status.as_str() {
        "ACTIVE" => Finding::ok("table", format!("{name} is there")),
        "UPDATING" => Finding::warn("table", format!("{name} is being changed"), "wait until that is done"),
        status => Finding::fail("table", format!("{name} is {status}"), "wait until it is ACTIVE, or bring it back"),
    }];
    findings.push(keys_of("table-keys", "the table", &table.keys, &Keys::of(name::PARTITION, name::SORT), table));
    let due = Keys::of(name::DUE_SHARD, name::DUE_PLACE);
    let list = Keys::of(name::LIST_SHARD, name::LIST_PLACE);
    for (name, keys) in [(keys::DUE_INDEX, due), (keys::LIST_INDEX, list)] {
        let check = format!("index-{name}");
        findings.push(match table.indexes.get(name) {
            Some(found) => index(&check, name, found, &keys, table),
            None => {
                Finding::fail(&check, format!("the table has no index {name}"), format!("add it: {}", words(&keys)))
            }
        });
    }
    findings.push(if table.on_demand {
        Finding::ok("table-billing", "on demand")
    } else {
        let found = "provisioned: writes over what is provisioned are refused, and runs wait";
        Finding::warn("table-billing", found, "set the billing mode to on demand, or watch its throttling")
    });
    findings
}

fn words(Keys { partition, sort }: &Keys) -> String {
    format!("partition key {partition}, sort key {sort}, both text (S)")
}

fn keys_of(check: &str, what: &str, found: &Keys, wanted: &Keys, table: &Table) -> Finding {
    let kind = |name: &String| table.types.get(name).map_or("?", String::as_str);
    if found == wanted && [&found.partition, &found.sort].iter().all(|name| kind(name) == "S") {
        return Finding::ok(check, words(found));
    }
    let Keys { partition, sort } = found;
    let seen = format!("{what} has partition key {partition} ({}), sort key {sort} ({})", kind(partition), kind(sort));
    Finding::fail(check, seen, format!("keys cannot be changed: make it anew with {}", words(wanted)))
}

fn index(check: &str, index: &str, found: &Index, wanted: &Keys, table: &Table) -> Finding {
    let keys = keys_of(check, &format!("index {index}"), &found.keys, wanted, table);
    if keys.status != Status::Ok {
        return keys;
    }
    let includes: &[&str] = if index == keys::LIST_INDEX { &[name::WORKFLOW] } else { &[] };
    let has = |attribute: &&str| match &found.projection {
        Projection::All => true,
        Projection::Keys => false,
        Projection::Include(names) => names.iter().any(|name| name == attribute),
    };
    let is_more = match &found.projection {
        Projection::All => true,
        Projection::Keys => false,
        Projection::Include(names) => names.len() > includes.len(),
    };
    let only =
        if includes.is_empty() { "the keys only".to_owned() } else { format!("the keys and {}", includes.join(", ")) };
    let anew = format!("delete the index, and make it anew with {only}");
    if !includes.iter().all(has) {
        return Finding::fail(check, format!("index {index} does not hold {}", includes.join(", ")), anew);
    }
    if is_more {
        return Finding::warn(
            check,
            format!("index {index} holds more than {only}: each step pays for writing it"),
            anew,
        );
    }
    if found.status != "ACTIVE" {
        return Finding::warn(
            check,
            format!("index {index} is {}: it does not show all runs yet", found.status),
            "wait",
        );
    }
    Finding::ok(check, format!("{}, with {only}", words(&found.keys)))
}

fn expiry(seen: &Seen<Option<String>>) -> Finding {
    const ATTRIBUTE: &str = "ttl";
    match seen {
        Ok(Some(attribute)) if attribute == ATTRIBUTE => Finding::ok("table-expiry", "items expire by `ttl`"),
        Ok(Some(other)) => {
            let found = format!("items expire by `{other}`, which is none of its times: runs may be deleted");
            Finding::fail("table-expiry", found, "switch time to live off, then on for `ttl`")
        }
        Ok(None) => {
            Finding::warn("table-expiry", "items do not expire: runs are kept for ever", "set time to live to `ttl`")
        }
        Err(gap) => Finding::gap("table-expiry", gap),
    }
}

fn backups(seen: &Seen<bool>) -> Finding {
    match seen {
        Ok(true) => Finding::ok("table-backups", "the table can be brought back to any point in time"),
        Ok(false) => {
            let found = "point-in-time recovery is off: what is deleted by mistake is gone";
            Finding::warn("table-backups", found, "switch point-in-time recovery on")
        }
        Err(gap) => Finding::gap("table-backups", gap),
    }
}

fn queue(stack: &Stack) -> Vec<Finding> {
    let queue = match &stack.queue {
        Ok(queue) => queue,
        Err(gap) => return vec![Finding::gap("queue", gap)],
    };
    let there = Finding::ok("queue", format!("{} is there, with about {} messages", queue.arn, queue.messages));
    vec![there, visibility(stack, queue), redrive(queue, &stack.dead_letters)]
}

fn visibility(stack: &Stack, queue: &Queue) -> Finding {
    let check = "queue-visibility";
    let runner = stack.functions.iter().find(|function| function.part == Part::Runner);
    let hidden = format!("a message that was taken is hidden for {} s", queue.visibility.as_secs());
    let timeout = if let Some(Ok(settings)) = runner.map(|runner| &runner.seen) {
        settings.timeout
    } else {
        let mend = format!("hold it against the runner's time-out: {VISIBILITY_TIMES} times that, or more");
        return Finding::unknown(check, format!("{hidden}; the runner's time-out was not seen"), mend);
    };
    let found = format!("{hidden}; the runner's time-out is {} s", timeout.as_secs());
    let wanted = timeout * VISIBILITY_TIMES;
    let mend = format!("set the queue's visibility time-out to {} s or more", wanted.as_secs());
    match queue.visibility {
        hidden if hidden < timeout => Finding::fail(check, found, mend),
        hidden if hidden < wanted => Finding::warn(check, found, mend),
        _ => Finding::ok(check, found),
    }
}

fn redrive(queue: &Queue, dead_letters: &Seen<Queue>) -> Finding {
    let check = "queue-redrive";
    let mend = format!("set the queue's redrive policy: to the dead-letter queue, after {RECEIVES_MIN} receives");
    let Some(redrive) = &queue.redrive else {
        return Finding::fail(check, "a message that kills its function comes again until it expires", mend);
    };
    let found = format!("to {} after {} receives", redrive.target, redrive.receives_max);
    match dead_letters {
        Ok(dead_letters) if dead_letters.arn != redrive.target => {
            let found = format!("{found}, but the dead-letter queue of the settings is {}", dead_letters.arn);
            Finding::fail(check, found, mend)
        }
        Ok(_) | Err(_) if redrive.receives_max < RECEIVES_MIN => {
            Finding::warn(check, format!("{found}: throttled deliveries count as receives"), mend)
        }
        Ok(_) | Err(_) => Finding::ok(check, found),
    }
}

fn dead_letters(queue: &Seen<Queue>, dead_letters: &Seen<Queue>) -> Vec<Finding> {
    let letters = match dead_letters {
        Ok(letters) => letters,
        Err(gap) => return vec![Finding::gap("dead-letters", gap)],
    };
    let depth = match letters.messages {
        0 => Finding::ok("dead-letters", "none"),
        number => {
            let found = format!("about {number} in {}", letters.arn);
            let mend =
                "the dead-letter function takes them: if they stay, look at its log, then at the runs that they name";
            Finding::warn("dead-letters", found, mend)
        }
    };
    let hours = |time: Duration| time.as_secs() / 3_600;
    let found = format!("they are kept for {} h", hours(letters.retention));
    // A dead letter's age counts from its first sending.
    let queue_keeps = queue.as_ref().map_or(Duration::ZERO, |queue| queue.retention);
    let wanted = DEAD_LETTERS_KEPT_MIN.max(queue_keeps);
    let kept = if letters.retention < wanted {
        let mend = format!("keep them for {} h or more, and no shorter than the queue keeps a message", hours(wanted));
        Finding::warn("dead-letters-kept", found, mend)
    } else {
        Finding::ok("dead-letters-kept", found)
    };
    vec![depth, kept]
}

fn closed(seen: &Seen<bool>) -> Finding {
    match seen {
        Ok(true) => Finding::ok("bucket-public", "public access is blocked"),
        Ok(false) => {
            let found = "public access is not blocked on the bucket itself";
            Finding::warn("bucket-public", found, "block all four kinds of public access")
        }
        Err(gap) => Finding::gap("bucket-public", gap),
    }
}

fn encryption(seen: &Seen<String>) -> Finding {
    match seen {
        Ok(algorithm) => Finding::ok("bucket-encryption", algorithm),
        Err(Gap::NotThere(words)) => {
            Finding::warn("bucket-encryption", words, "set a default encryption on the bucket")
        }
        Err(gap @ (Gap::NotPermitted(_) | Gap::NotSupported(_) | Gap::BadCredentials(_) | Gap::NoAnswer(_))) => {
            Finding::gap("bucket-encryption", gap)
        }
    }
}

/// What may not be tried is what a worker may not do.
fn attempt(Attempt { check, what, seen, needed }: &Attempt) -> Finding {
    match seen {
        Ok(()) => Finding::ok(check, *what),
        Err(Gap::NotPermitted(words)) if !needed => {
            Finding::warn(check, words, "nothing that works on runs needs it; what was tried here stays in the bucket")
        }
        Err(Gap::NotPermitted(words)) => {
            let mend = format!(
                "give {what} to whoever works with these credentials, and the use of the key where there is one"
            );
            Finding::fail(check, words, mend)
        }
        Err(gap @ (Gap::NotThere(_) | Gap::NotSupported(_) | Gap::BadCredentials(_) | Gap::NoAnswer(_))) => {
            Finding::gap(check, gap)
        }
    }
}

fn stored(stored: &Stored) -> Finding {
    let (check, version) = ("stored", env!("CARGO_PKG_VERSION"));
    match stored {
        Stored::Read(runs) => {
            let found = format!(
                "the newest {runs} runs were read; this is version {version}, which reads formats up to {FORMAT}"
            );
            Finding::ok(check, found)
        }
        Stored::Unreadable(words) => {
            Finding::fail(check, words, "if it is newer, use newer code; if it is damaged, bring it back from a backup")
        }
        Stored::NotRead(words) => Finding::unknown(check, words, "mend what else is found here, then look again"),
    }
}

#[cfg(test)]
mod tests;
