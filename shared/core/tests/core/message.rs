//! The queue message: its body as others write it, and what is none.

use stepwell_core::message::MessageError;
use stepwell_core::{Message, RunId, Ticket};

#[test]
fn a_body_is_read_as_it_was_sent() {
    let message = Message { run: RunId::new("run-1").unwrap(), ticket: Ticket(7) };
    let body = r#"{"v":1,"run":"run-1","ticket":7}"#;
    assert_eq!(message.to_text(), body);
    assert_eq!(Message::parse(body), Ok(message));
}

#[test]
fn what_is_no_message_says_so() {
    assert_eq!(Message::parse(r#"{"v":2,"run":"run-1","ticket":7}"#), Err(MessageError::Version(2)));
    assert_eq!(Message::parse(r#"{"v":2}"#), Err(MessageError::Version(2)), "whatever else it holds");
    for body in ["", "{}", "[]", r#"{"v":1}"#, r#"{"v":1,"run":"../r","ticket":7}"#, r#"{"v":1,"run":"r","ticket":-1}"#]
    {
        assert!(matches!(Message::parse(body), Err(MessageError::Form(_))), "{body}");
    }
}
