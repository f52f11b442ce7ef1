//! The stored form: what is written is read back, unknown attributes survive, newer formats are refused.

use stepwell_core::stored::{Unknown, decode, encode};
use stepwell_core::write::{Start, Write, WriteRequest, apply};
use stepwell_core::{Checkpoint, Digest, Json, Payload, RunId, Timestamp, WorkflowName, WriteId};

fn started() -> Checkpoint {
    let start = Start {
        workflow: WorkflowName::new("brief").unwrap(),
        version: 1,
        input: Payload::Inline(Json::of(&serde_json::json!({"goal": "win"})).unwrap()),
        input_digest: Digest::of(b"input"),
        step_limit: 1000,
    };
    let request = WriteRequest {
        run: RunId::new("run-1").unwrap(),
        id: WriteId(7),
        now: Timestamp(1_000),
        write: Write::Start(Box::new(start)),
    };
    apply(None, &request).unwrap()
}

#[test]
fn what_is_written_is_read_back() {
    let checkpoint = started();
    let bytes = encode(&checkpoint, &Unknown::new()).unwrap();
    let (read, unknown) = decode(&bytes).unwrap();
    assert_eq!(read, checkpoint);
    assert!(unknown.is_empty());
}

#[test]
fn attributes_of_newer_code_survive_older_code() {
    let text = String::from_utf8(encode(&started(), &Unknown::new()).unwrap()).unwrap();
    let newer = text.replacen('{', r#"{"q":[1,{"deep":true}],"#, 1);
    let (checkpoint, unknown) = decode(newer.as_bytes()).unwrap();
    let again = String::from_utf8(encode(&checkpoint, &unknown).unwrap()).unwrap();
    assert!(again.contains(r#""q":[1,{"deep":true}]"#), "{again}");
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let text = String::from_utf8(encode(&started(), &Unknown::new()).unwrap()).unwrap();
    let error = decode(text.replacen(r#""f":1"#, r#""f":2"#, 1).as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "the checkpoint has format 2, this code reads up to 1: deploy the newer code");
}

#[test]
fn damaged_bytes_are_an_error_not_a_panic() {
    let bytes = encode(&started(), &Unknown::new()).unwrap();
    for cut in 0..bytes.len() {
        assert!(decode(&bytes[..cut]).is_err(), "cut at {cut}");
    }
}
