//! A client of the API as small as can be: one request a connection, and patience.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// For how long one request may take. A frozen server is asked again.
const LIMIT: Duration = Duration::from_secs(2);

/// For how long somebody insists on an answer.
const PATIENCE: Duration = Duration::from_secs(90);

/// Asks the API behind a proxy.
#[derive(Clone, Copy, Debug)]
pub struct Http {
    api: SocketAddr,
}

/// What the API has answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Value,
}

impl Answer {
    /// Whether it is done.
    pub fn is_done(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The code of a problem.
    pub fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }

    /// Whether asking again may be answered otherwise.
    fn is_passing(&self) -> bool {
        self.status >= 500 || self.status == 429 || matches!(self.code(), "bad-body" | "not-json" | "moved-on")
    }
}

impl Http {
    /// Asks there.
    pub const fn new(api: SocketAddr) -> Self {
        Self { api }
    }

    /// Looks once.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn get(&self, path: &str) -> io::Result<Answer> {
        self.once("GET", path, None, None).await
    }

    /// Asks once.
    ///
    /// # Errors
    /// Those of the connection: it may have been heard.
    pub async fn post(&self, path: &str, body: &Value) -> io::Result<Answer> {
        self.once("POST", path, None, Some(body)).await
    }

    /// Asks until it is answered for good.
    ///
    /// # Errors
    /// When nobody answers for too long.
    pub async fn insist(&self, path: &str, key: Option<&str>, body: &Value) -> io::Result<Answer> {
        let since = Instant::now();
        loop {
            let answer = self.once("POST", path, key, Some(body)).await;
            match answer {
                Ok(answer) if !answer.is_passing() => return Ok(answer),
                answer if since.elapsed() > PATIENCE => {
                    let why = format!("POST {path} was not answered for {PATIENCE:?}, the last time with {answer:?}");
                    return Err(io::Error::other(why));
                }
                Ok(_) | Err(_) => tokio::time::sleep(Duration::from_millis(fastrand::u64(20..200))).await,
            }
        }
    }

    async fn once(&self, method: &str, path: &str, key: Option<&str>, body: Option<&Value>) -> io::Result<Answer> {
        match tokio::time::timeout(LIMIT, self.ask(method, path, key, body)).await {
            Ok(answer) => answer,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    async fn ask(&self, method: &str, path: &str, key: Option<&str>, body: Option<&Value>) -> io::Result<Answer> {
        let key = key.map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
        let body = body.map(Value::to_string).unwrap_or_default();
        let (host, length) = (self.api, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n{key}\r\n{body}"
        );
        let mut stream = TcpStream::connect(self.api).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        read(&answer).ok_or_else(|| io::Error::other("the answer was cut off"))
    }
}

/// Reads an answer, if it is whole.
fn read(answer: &[u8]) -> Option<Answer> {
    let answer = str::from_utf8(answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: usize = length?.1.trim().parse().ok()?;
    (body.len() == length).then_some(Answer { status, body: serde_json::from_str(body).ok()? })
}
