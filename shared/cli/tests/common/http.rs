//! Just enough of an HTTP client to ask a server on this machine.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

/// What a server has answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The body, which has to be JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Asks a server on loopback. A header that is given counts instead of the usual one of its name.
pub(crate) fn ask(url: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let address = url.strip_prefix("http://").unwrap();
    let length = body.len().to_string();
    let usual = [("host", address), ("connection", "close"), ("content-length", &length)];
    let is_given = |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
    let all = usual.iter().filter(|(name, _)| !is_given(name)).chain(headers);
    let head: Vec<String> = all.map(|(name, value)| format!("{name}: {value}")).collect();
    let request = format!("{method} {path} HTTP/1.1\r\n{}\r\n\r\n{body}", head.join("\r\n"));
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_lowercase(), body: body.to_owned() }
}

/// Sends JSON, as a program does.
pub(crate) fn send(url: &str, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    let headers = [&[("content-type", "application/json")], headers].concat();
    ask(url, "POST", path, &headers, &body.to_string())
}

/// Looks at a path.
pub(crate) fn get(url: &str, path: &str) -> Answer {
    ask(url, "GET", path, &[], "")
}
