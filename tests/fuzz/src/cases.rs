//! A run in each status.

use serde_json::json;
use std::time::Duration;
use stepwell_core::decide::Pause;
use stepwell_core::link::{Link, LinkKeys, Nonce, Target};
use stepwell_core::write::{Acquire, Write, WriteRequest};
use stepwell_core::{Json, Lease, RunId, WorkerId, WorkflowName, WriteId};
use stepwell_engine::{SignalRequest, StartRequest};
use stepwell_ports::{CheckpointStore, Clock};

use crate::sample::PAY_DEADLINE;
use crate::world::{SIGNING, World};

/// What a request may speak of, by the names that stand for it.
pub(crate) type Words = Vec<(&'static str, String)>;

/// Makes the run that this letter stands for, in an empty world.
pub(crate) async fn case(world: &World, letter: u8) -> Words {
    let what = match letter {
        b'f' | b'w' | b'p' | b'h' => "wait",
        b'a' => "ask",
        b'u' => "pay",
        b'x' => "fail",
        b's' => "stuck",
        b'c' => "end",
        _ => return vec![("{run}", "nobody".into()), ("{tag}", "\"1\"".into())],
    };
    let input = json!({"what": what, "text": "hello"});
    let workflow = WorkflowName::new("desk").unwrap();
    let request = StartRequest { workflow, input: Json::of(&input).unwrap(), key: Some("case".into()) };
    let run = world.client.start(request).await.unwrap().run;
    if letter != b'f' {
        world.work(20).await;
    }
    match letter {
        b'p' => {
            world.client.pause(&run, &Pause { by: "ann".into(), why: None }).await.unwrap();
        }
        b'h' => hold(world, &run).await,
        b'u' => tokio::time::advance(PAY_DEADLINE).await,
        _ => {}
    }
    words(world, run).await
}

/// A worker has it, and does nothing with it.
async fn hold(world: &World, run: &RunId) {
    let (name, payload) = ("answer".parse().unwrap(), Json::of("yes").unwrap());
    world.client.signal(SignalRequest { run: run.clone(), name, payload, id: None }).await.unwrap();
    let (now, memory) = (world.behind.now(), world.behind.memory());
    let ticket = memory.load(run).await.unwrap().unwrap().progress.ticket;
    let lease = Lease { owner: WorkerId::new("w2").unwrap(), since: now, until: now.plus(Duration::from_mins(1)) };
    let write = Write::Acquire(Acquire { ticket, lease });
    memory.write(&WriteRequest { run: run.clone(), id: WriteId(u64::MAX), now, write }).await.unwrap();
}

async fn words(world: &World, run: RunId) -> Words {
    let checkpoint = world.client.get(&run).await.unwrap();
    let progress = &checkpoint.progress;
    let mut words = vec![("{tag}", format!("\"{}\"", progress.revision))];
    let keys = LinkKeys::from_text(SIGNING).unwrap();
    let expires = world.behind.now().plus(Duration::from_hours(1));
    let mut links = Vec::new();
    if let Some(approval) = progress.approvals.first() {
        words.push(("{approval}", approval.id.to_string()));
        let (id, fingerprint) = (approval.id.clone(), approval.fingerprint);
        let (person, maker) = ("bea@example.org".to_owned(), "ann".to_owned());
        links.push(("{token}", Target::Approval { id, fingerprint, person, maker }));
    }
    links.push(("{callback}", Target::Signal { name: "answer".parse().unwrap(), visit: progress.visit }));
    for (word, target) in links {
        let link = Link { run: run.clone(), target, expires, nonce: Nonce::of([7; 16]) };
        words.push((word, keys.sign(&link).unwrap()));
    }
    if let Some(record) = progress.journal.iter().chain(&progress.ledger).find(|record| record.is_open()) {
        words.push(("{key}", record.key.to_string()));
    }
    words.push(("{run}", run.to_string()));
    words
}
