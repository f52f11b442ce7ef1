//! A stack that is well, and each thing about it that can be wrong.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::collections::BTreeMap;

use super::super::facts::{Function, Mapping, Redrive, Settings};
use super::*;
use crate::{AwsSettings, TABLE_VARIABLE};

/// As the template makes it.
fn well() -> Stack {
    let settings = AwsSettings {
        table: "t".into(),
        queue_url: "https://q".into(),
        dead_letter_url: "https://d".into(),
        bucket: "b".into(),
        kms_key: None,
    };
    let queue = |arn: &str, redrive| Queue {
        arn: arn.into(),
        visibility: Duration::from_mins(6),
        retention: Duration::from_hours(96),
        redrive,
        messages: 0,
    };
    let redrive = Redrive { target: "arn:d".into(), receives_max: 10 };
    let names = ["pk", "sk", "gd", "da", "gl", "la"];
    let index = |keys, projection| Index { status: "ACTIVE".into(), keys, projection };
    let due = index(Keys::of("gd", "da"), Projection::Keys);
    let list = index(Keys::of("gl", "la"), Projection::Include(vec!["w".into()]));
    let mapping = Mapping {
        function: "s-runner".into(),
        state: "Enabled".into(),
        partial_failures: true,
        concurrency_max: Some(10),
    };
    let variables = [("STEPWELL_TABLE", "t"), ("STEPWELL_QUEUE_URL", "https://q")];
    let variables = variables.into_iter().chain([("STEPWELL_DEAD_LETTER_URL", "https://d"), ("STEPWELL_BUCKET", "b")]);
    let set_up = Settings {
        runtime: "provided.al2023".into(),
        architecture: "arm64".into(),
        state: "Active".into(),
        last_update: "Successful".into(),
        modified: "today".into(),
        timeout: Duration::from_mins(1),
        variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
    };
    let function = |part: Part| Function { name: format!("s{}", part.suffix()), part, seen: Ok(set_up.clone()) };
    Stack {
        settings,
        clock: Ok(Skew::Ahead(Duration::ZERO)),
        table: Ok(Table {
            status: "ACTIVE".into(),
            keys: Keys::of("pk", "sk"),
            types: names.map(|name| (name.to_owned(), "S".to_owned())).into(),
            indexes: BTreeMap::from([("due".to_owned(), due), ("list".to_owned(), list)]),
            on_demand: true,
        }),
        expiry: Ok(Some("ttl".into())),
        backups: Ok(true),
        queue: Ok(queue("arn:q", Some(redrive))),
        dead_letters: Ok(queue("arn:d", None)),
        bucket: Ok(()),
        closed: Ok(true),
        encryption: Ok("AES256".into()),
        mappings: Ok(vec![mapping]),
        functions: Part::ALL.map(function).into(),
        loops: [Part::Runner, Part::DeadLetter].map(|part| (part, Ok(true))).into(),
        attempts: vec![Attempt { check: "may-write", what: "dynamodb:UpdateItem", seen: Ok(()), needed: true }],
        stored: Stored::Read(2),
    }
}

fn table(stack: &mut Stack) -> &mut Table {
    stack.table.as_mut().unwrap()
}

fn index_of<'a>(stack: &'a mut Stack, name: &str) -> &'a mut Index {
    table(stack).indexes.get_mut(name).unwrap()
}

fn queue_of(stack: &mut Stack) -> &mut Queue {
    stack.queue.as_mut().unwrap()
}

fn letters(stack: &mut Stack) -> &mut Queue {
    stack.dead_letters.as_mut().unwrap()
}

fn mapping(stack: &mut Stack) -> &mut Mapping {
    &mut stack.mappings.as_mut().unwrap()[0]
}

fn runner(stack: &mut Stack) -> &mut Settings {
    stack.functions[0].seen.as_mut().unwrap()
}

fn no_permission() -> Gap {
    Gap::NotPermitted("AccessDenied".into())
}

/// What is not as it should be, once a stack that is well was changed so.
fn judged(change: impl FnOnce(&mut Stack)) -> Vec<(String, Status)> {
    let mut changed = well();
    change(&mut changed);
    let findings = stack(&changed).into_iter();
    let bad: Vec<Finding> = findings.filter(|finding| finding.status != Status::Ok).collect();
    assert!(bad.iter().all(|finding| finding.mend.is_some()), "each says what to do: {bad:?}");
    bad.into_iter().map(|finding| (finding.check, finding.status)).collect()
}

#[test]
fn a_stack_as_the_template_makes_it_is_well() {
    assert_eq!(judged(|_| {}), []);
    let findings = stack(&well());
    let mut checks: Vec<&str> = findings.iter().map(|finding| finding.check.as_str()).collect();
    checks.sort_unstable();
    let number = checks.len();
    checks.dedup();
    assert_eq!((checks.len(), number), (27, 27), "each thing once: {checks:?}");
}

/// A change of one fact, and the one finding that it makes.
type Row = (fn(&mut Stack), &'static str, Status);

#[test]
fn each_fact_that_is_wrong_makes_its_finding() {
    let rows: Vec<Row> = vec![
        (|s| s.clock = Ok(Skew::Ahead(Duration::from_secs(30))), "", Status::Ok),
        (|s| s.clock = Ok(Skew::Behind(Duration::from_secs(31))), "clock", Status::Warn),
        (|s| s.clock = Ok(Skew::Ahead(Duration::from_secs(301))), "clock", Status::Fail),
        (|s| s.clock = Err(Gap::NotSupported("no date".into())), "clock", Status::Unknown),
        (|s| table(s).status = "UPDATING".into(), "table", Status::Warn),
        (|s| table(s).status = "DELETING".into(), "table", Status::Fail),
        (|s| table(s).keys = Keys::of("id", "sk"), "table-keys", Status::Fail),
        (|s| drop(table(s).types.insert("sk".into(), "N".into())), "table-keys", Status::Fail),
        (|s| drop(table(s).indexes.remove("due")), "index-due", Status::Fail),
        (|s| index_of(s, "due").keys = Keys::of("gl", "la"), "index-due", Status::Fail),
        (|s| index_of(s, "due").projection = Projection::All, "index-due", Status::Warn),
        (|s| index_of(s, "list").status = "CREATING".into(), "index-list", Status::Warn),
        (|s| index_of(s, "list").projection = Projection::Keys, "index-list", Status::Fail),
        (|s| index_of(s, "list").projection = Projection::Include(vec!["p".into()]), "index-list", Status::Fail),
        (|s| index_of(s, "list").projection = Projection::All, "index-list", Status::Warn),
        (|s| table(s).on_demand = false, "table-billing", Status::Warn),
        (|s| s.expiry = Ok(None), "table-expiry", Status::Warn),
        (|s| s.expiry = Ok(Some("lu".into())), "table-expiry", Status::Fail),
        (|s| s.backups = Ok(false), "table-backups", Status::Warn),
        (|s| s.backups = Err(no_permission()), "table-backups", Status::Unknown),
        (|s| queue_of(s).visibility = Duration::from_secs(359), "queue-visibility", Status::Warn),
        (|s| queue_of(s).visibility = Duration::from_secs(59), "queue-visibility", Status::Fail),
        (|s| queue_of(s).redrive = None, "queue-redrive", Status::Fail),
        (|s| queue_of(s).redrive.as_mut().unwrap().receives_max = 9, "queue-redrive", Status::Warn),
        (|s| queue_of(s).redrive.as_mut().unwrap().target = "arn:x".into(), "queue-redrive", Status::Fail),
        (|s| letters(s).messages = 1, "dead-letters", Status::Warn),
        (|s| letters(s).retention = Duration::from_hours(95), "dead-letters-kept", Status::Warn),
        (|s| queue_of(s).retention = Duration::from_hours(97), "dead-letters-kept", Status::Warn),
        (|s| s.closed = Ok(false), "bucket-public", Status::Warn),
        (|s| s.encryption = Err(Gap::NotThere("none".into())), "bucket-encryption", Status::Warn),
        (|s| s.encryption = Err(no_permission()), "bucket-encryption", Status::Unknown),
        (|s| mapping(s).state = "Disabled".into(), "runner", Status::Fail),
        (|s| mapping(s).state = "Enabling".into(), "runner", Status::Warn),
        (|s| mapping(s).partial_failures = false, "runner-batches", Status::Fail),
        (|s| mapping(s).concurrency_max = None, "runner-concurrency", Status::Warn),
        (|s| s.loops[0].1 = Ok(false), "loop-runner", Status::Fail),
        (|s| s.loops[1].1 = Err(no_permission()), "loop-dead-letter", Status::Unknown),
        (|s| s.mappings = Err(no_permission()), "runner", Status::Unknown),
        (|s| runner(s).last_update = "Failed".into(), "function-runner", Status::Fail),
        (|s| runner(s).last_update = "InProgress".into(), "function-runner", Status::Warn),
        (|s| runner(s).state = "Failed".into(), "function-runner", Status::Fail),
        (|s| drop(runner(s).variables.insert(TABLE_VARIABLE.into(), "x".into())), "function-runner", Status::Fail),
        (|s| drop(runner(s).variables.remove(TABLE_VARIABLE)), "function-runner", Status::Fail),
        (|s| s.functions[2].seen = Err(Gap::NotThere("gone".into())), "function-sweeper", Status::Fail),
        (|s| s.attempts[0].seen = Err(no_permission()), "may-write", Status::Fail),
        (|s| s.attempts[0].seen = Err(Gap::NotSupported("odd".into())), "may-write", Status::Unknown),
        (|s| (s.attempts[0].seen, s.attempts[0].needed) = (Err(no_permission()), false), "may-write", Status::Warn),
        (|s| s.stored = Stored::Unreadable("format 2".into()), "stored", Status::Fail),
        (|s| s.stored = Stored::NotRead("busy".into()), "stored", Status::Unknown),
    ];
    for (number, (change, check, status)) in rows.into_iter().enumerate() {
        let found = judged(change);
        let wanted = if status == Status::Ok { vec![] } else { vec![(check.to_owned(), status)] };
        assert_eq!(found, wanted, "row {number}");
    }
}

#[test]
fn what_is_gone_is_told_once() {
    let gone = || Gap::NotThere("no such thing".into());
    let table = judged(|s| (s.table, s.expiry, s.backups) = (Err(gone()), Err(gone()), Err(gone())));
    assert_eq!(table, [("table".to_owned(), Status::Fail)]);
    let bucket = judged(|s| (s.bucket, s.closed, s.encryption) = (Err(gone()), Err(gone()), Err(gone())));
    assert_eq!(bucket, [("bucket".to_owned(), Status::Fail)]);
    let queue = judged(|s| {
        (s.queue, s.mappings) = (Err(gone()), Err(gone()));
        (s.functions, s.loops) = (Vec::new(), Vec::new());
    });
    assert_eq!(queue, [("queue".to_owned(), Status::Fail)]);
}

#[test]
fn without_functions_a_worker_has_to_be_there() {
    let found = judged(|s| {
        s.mappings = Ok(Vec::new());
        (s.functions, s.loops) = (Vec::new(), Vec::new());
    });
    assert_eq!(found, [("queue-visibility".to_owned(), Status::Unknown), ("runner".to_owned(), Status::Warn)]);
}

#[test]
fn a_service_that_cannot_be_spoken_to_fails() {
    for gap in [Gap::BadCredentials("expired".into()), Gap::NoAnswer("timed out".into())] {
        assert_eq!(judged(|s| s.bucket = Err(gap)), [("bucket".to_owned(), Status::Fail)]);
    }
}

#[test]
fn the_ground_is_told_before_anything_is_asked() {
    let told = |missing, region: Option<&str>, credentials| {
        let findings = ground(&Ground { missing, region: region.map(str::to_owned), credentials });
        findings.iter().map(|finding| finding.status).collect::<Vec<_>>()
    };
    assert_eq!(told(vec![], Some("r"), Ok(())), [Status::Ok; 3]);
    assert_eq!(told(vec![TABLE_VARIABLE], None, Err("none".into())), [Status::Fail; 3]);
}
