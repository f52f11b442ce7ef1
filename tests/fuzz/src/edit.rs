//! The JSON patch of a repair.

use std::cell::LazyCell;
use std::str;

use serde::Deserialize;
use serde_json::{Value, json};
use stepwell::Blob;
use stepwell_core::decide::{Pause, repair::known};
use stepwell_core::limits::VALUE_BYTES_MAX;
use stepwell_core::{BlobRef, Json, Phase, RunId, WorkflowName, invariants};
use stepwell_engine::{Edit, Edited, Remedy, StartRequest};
use stepwell_ports::BlobStore;

use crate::world::World;

thread_local! {
    static WORLD: LazyCell<World> = LazyCell::new(World::new);
}

/// A patch is applied, or nothing is changed. What the run knows afterwards is what was said, and no other run's blob.
///
/// The first byte says whether the run has begun. In the rest, `{key}`, `{size}`, `{hash}` and `{HASH}` stand for another run's blob.
pub fn edit(bytes: &[u8]) {
    let Some((begun, patch)) = bytes.split_first() else { return };
    let Ok(patch) = str::from_utf8(patch) else { return };
    WORLD.with(|world| {
        world.renew();
        world.runtime.block_on(tried(world, begun % 2 == 1, patch));
    });
}

async fn tried(world: &World, begun: bool, patch: &str) {
    let workflow = WorkflowName::new("notes").unwrap();
    let [run, other] = ["own", "other"].map(|key| RunId::for_key(&workflow, key));
    let memory = world.behind.memory();
    let own = memory.put(&run, b"\"what is mine\"").await.unwrap();
    let foreign = memory.put(&other, b"\"what is another's\"").await.unwrap();
    let hash = foreign.sha256.to_string();
    let patch = patch.replace("{key}", &foreign.key).replace("{size}", &foreign.size.to_string());
    let patch = patch.replace("{HASH}", &hash.to_uppercase()).replace("{hash}", &hash);
    let Ok(patch) = Json::from_text(patch.trim().to_owned()) else { return };
    let known_first = json!({"n": 1, "text": "hello", "list": [1, 2.5, {"a": null}], "blob": own, "": {"~/": true}});
    let input = Json::of(&known_first).unwrap();
    let request = StartRequest { workflow, input: input.clone(), key: Some("own".into()) };
    assert_eq!(world.client.start(request).await.unwrap().run, run);
    if begun {
        world.work(4).await;
    }
    world.client.pause(&run, &Pause { by: "ann".into(), why: None }).await.unwrap();
    let before = world.client.get(&run).await.unwrap();
    let at = before.progress.revision;
    let act = Edit { at, patch: patch.clone(), by: "ann".into(), why: "a typing error".into() };
    match world.client.edit(&run, act).await {
        Ok(edited) => {
            let after = world.client.get(&run).await.unwrap();
            assert_eq!((after.progress.revision, edited.revision), (at.next(), at.next()));
            assert_eq!(after.progress.status.phase(), Phase::Parked);
            assert_eq!(invariants::check(&after), Ok(()));
            assert_eq!(world.client.value(known(&after)).await.unwrap(), edited.value);
            applied(world, &run, &known_first, &edited, &own).await;
        }
        Err(error) => {
            assert_eq!(error.remedy(), Remedy::FixTheInput, "{error}");
            assert_eq!(world.client.get(&run).await.unwrap(), before, "{error}");
        }
    }
}

async fn applied(world: &World, run: &RunId, before: &Value, edited: &Edited, own: &BlobRef) {
    assert!(edited.value.text().len() <= VALUE_BYTES_MAX);
    let value: Value = edited.value.parse().expect("it is JSON");
    let mut found = Vec::new();
    blobs(&value, &mut found);
    assert!(found.iter().all(|blob| blob == own), "it refers to another run's blob: {found:?}");
    // The history leads back to what it knew.
    let state = world.client.state_at(run, edited.revision).await.unwrap();
    assert_eq!(state.after, edited.value);
    if let Some(kept) = state.before {
        assert_eq!(kept.parse::<Value>().expect("it is JSON"), *before);
    }
}

/// Ways in which a workflow may read a reference.
#[derive(Deserialize)]
struct Flat {
    #[serde(flatten)]
    blob: BlobRef,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Either {
    Blob(BlobRef),
    #[serde(rename_all = "lowercase")]
    Other {
        _n: u64,
        _other: String,
    },
}

/// Every reference that something in this value can be read as, by whatever way.
fn blobs(value: &Value, found: &mut Vec<BlobRef>) {
    let text = value.to_string();
    found.extend(BlobRef::deserialize(value).ok());
    found.extend(serde_json::from_str::<BlobRef>(&text).ok());
    found.extend(serde_json::from_str::<Flat>(&text).ok().map(|flat| flat.blob));
    found.extend(serde_json::from_str::<Either>(&text).ok().and_then(|either| match either {
        Either::Blob(blob) => Some(blob),
        Either::Other { .. } => None,
    }));
    if let Ok(blob) = serde_json::from_str::<Blob<Value>>(&text) {
        found.extend(serde_json::to_value(&blob).ok().and_then(|blob| serde_json::from_value(blob).ok()));
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| blobs(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| blobs(field, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
