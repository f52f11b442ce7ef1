//! The body of a queue's message.

use core::str;

use stepwell_core::Message;

/// What can be read is written the same way again, and nothing else is.
pub fn message(bytes: &[u8]) {
    let Ok(body) = str::from_utf8(bytes) else { return };
    match Message::parse(body) {
        Ok(message) => {
            let text = message.to_text();
            assert_eq!(Message::parse(&text).as_ref(), Ok(&message), "{text}");
            // What a message holds besides is not read: it may be a number of any size.
            if let Ok(json) = serde_json::from_str::<serde_json::Value>(body) {
                assert_eq!(json["run"], message.run.as_str());
                assert_eq!(json["ticket"], message.ticket.0);
            }
        }
        // It goes to a log and to the dead letters: it may repeat a name, and no more of what somebody has sent.
        Err(error) => assert!(error.to_string().len() < 512 + 6 * body.len(), "{error}"),
    }
}
