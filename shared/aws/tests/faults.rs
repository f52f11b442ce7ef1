//! What a caller is told when DynamoDB cannot be reached, is slow, busy, or refuses: a server of our own plays each part.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use stepwell_aws::sdk::config::profile::ProfileFileCredentialsProvider;
use stepwell_aws::sdk::config::{BehaviorVersion, Region};
use stepwell_aws::sdk::dynamodb::config::{Builder, Credentials, ProvideCredentials};
use stepwell_aws::sdk::types::timeout::TimeoutConfig;
use stepwell_aws::{Aws, AwsSettings, sdk};
use stepwell_core::write::{Renew, Write, WriteRequest};
use stepwell_core::{Fence, RunId, Timestamp, WriteId};
use stepwell_ports::{StoreError, Written};

/// How the server takes one attempt.
#[derive(Clone, Copy)]
enum Part {
    /// Reads it and closes the connection.
    Close,
    /// Reads it and says nothing.
    Silence,
    /// Answers with a status and a code.
    Say(u16, &'static str),
}

const BUSY: Part = Part::Say(400, "ProvisionedThroughputExceededException");
const DONE: Part = Part::Say(400, "ConditionalCheckFailedException");

/// Plays these parts, one for each attempt, the last one for ever. The answer is its port.
fn play(parts: &'static [Part]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut silent = Vec::new();
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            read_request(&mut stream);
            match *parts.get(number).or(parts.last()).unwrap() {
                Part::Close => drop(stream),
                Part::Silence => silent.push(stream),
                Part::Say(status, code) => {
                    let body = format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{code}","message":"a word"}}"#);
                    let length = body.len();
                    let head = format!("HTTP/1.1 {status} X\r\ncontent-type: application/x-amz-json-1.0\r\n");
                    let tail = format!("content-length: {length}\r\nconnection: close\r\n\r\n{body}");
                    stream.write_all((head + &tail).as_bytes()).unwrap();
                }
            }
        }
    });
    port
}

fn read_request(stream: &mut TcpStream) {
    let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&seen).to_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() >= length.trim().parse().unwrap() {
                return;
            }
        }
        match stream.read(&mut buffer).unwrap() {
            0 => return,
            count => seen.extend_from_slice(&buffer[..count]),
        }
    }
}

async fn renew(port: u16) -> Result<Written, StoreError> {
    renew_as(port, Credentials::new("test", "test", None, None, "test")).await
}

async fn renew_as(port: u16, who: impl ProvideCredentials + 'static) -> Result<Written, StoreError> {
    let shared = sdk::config::defaults(BehaviorVersion::v2026_01_12())
        .region(Region::new("us-east-1"))
        .credentials_provider(who)
        .endpoint_url(format!("http://127.0.0.1:{port}"))
        .load()
        .await;
    let timeouts = TimeoutConfig::builder().read_timeout(Duration::from_millis(200)).build();
    let dynamodb = sdk::dynamodb::Client::from_conf(Builder::from(&shared).timeout_config(timeouts).build());
    let settings = AwsSettings {
        table: "runs".into(),
        queue_url: String::new(),
        dead_letter_url: String::new(),
        bucket: String::new(),
        kms_key: None,
    };
    let (sqs, s3) = (sdk::sqs::Client::new(&shared), sdk::s3::Client::new(&shared));
    let write = Write::Renew(Renew { fence: Fence(1), until: Timestamp(1) });
    let request = WriteRequest { run: RunId::new("r").unwrap(), id: WriteId(1), now: Timestamp(0), write };
    Aws::with_clients(dynamodb, sqs, s3, settings).store().write(&request).await
}

fn words(answer: &Result<Written, StoreError>) -> String {
    match answer {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn nobody_listens_and_nothing_was_written() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let answer = renew(port).await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    assert!(words(&answer).contains("UpdateItem on table runs"), "{answer:?}");
    assert!(words(&answer).contains("check the network"), "{answer:?}");
}

#[tokio::test]
async fn without_credentials_nothing_is_sent() {
    let nobody = ProfileFileCredentialsProvider::builder().profile_name("nobody-has-this-profile").build();
    let answer = renew_as(play(&[DONE]), nobody).await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_unknown() {
    let answer = renew(play(&[Part::Close])).await;
    assert!(matches!(answer, Err(StoreError::Unknown(_))), "{answer:?}");
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_unknown() {
    let answer = renew(play(&[Part::Silence])).await;
    assert!(matches!(answer, Err(StoreError::Unknown(_))), "{answer:?}");
}

#[tokio::test]
async fn a_service_that_failed_is_unknown() {
    let answer = renew(play(&[Part::Say(500, "InternalServerError")])).await;
    assert!(matches!(answer, Err(StoreError::Unknown(_))), "{answer:?}");
}

#[tokio::test]
async fn a_busy_table_has_written_nothing() {
    let answer = renew(play(&[BUSY])).await;
    assert!(matches!(answer, Err(StoreError::Throttled(_))), "{answer:?}");
}

/// The SDK tries again by itself. That the last try was refused says nothing of the first.
#[tokio::test]
async fn a_busy_table_after_a_broken_answer_is_unknown() {
    for first in [Part::Close, Part::Silence, Part::Say(500, "InternalServerError")] {
        let parts: &'static [Part] = Box::leak(Box::new([first, BUSY]));
        let answer = renew(play(parts)).await;
        assert!(matches!(answer, Err(StoreError::Unknown(_))), "{answer:?}");
    }
}

#[tokio::test]
async fn an_answer_after_a_broken_one_is_the_answer() {
    let answer = renew(play(&[Part::Close, DONE])).await;
    assert_eq!(answer, Ok(Written::Refused(None)));
}

#[tokio::test]
async fn what_a_person_can_put_right_is_said() {
    let cases: [(&'static [Part], &str); 3] = [
        (&[Part::Say(400, "AccessDeniedException")], "check that the role may UpdateItem on table runs"),
        (&[Part::Say(400, "ResourceNotFoundException")], "check the name and the region of table runs"),
        (&[Part::Say(400, "ExpiredTokenException")], "check the credentials and the machine's clock"),
    ];
    for (parts, advice) in cases {
        let answer = renew(play(parts)).await;
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
        assert!(words(&answer).contains(advice), "{answer:?}");
    }
}

#[tokio::test]
async fn what_is_wrong_is_not_tried_again() {
    let answer = renew(play(&[Part::Say(400, "ValidationException"), DONE])).await;
    assert!(matches!(answer, Err(StoreError::Invalid(_))), "{answer:?}");
}
