//! A server of a few lines, which does to a request what it is told.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// What becomes of a request that has been read to its end.
pub(crate) enum Answer {
    /// It is answered with these bytes. They may be wrong: then the connection ends behind them.
    Says(String),
    /// The connection ends.
    Closes,
    /// These bytes, and then nothing, for ever.
    Stalls(&'static str),
}

/// A whole reply: status line and further headers, body.
pub(crate) fn reply(head: &str, body: &str) -> Answer {
    Answer::Says(format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
}

/// The value of a header of a request.
pub(crate) fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    request
        .lines()
        .find_map(|line| line.split_once(": ").filter(|(known, _)| known.eq_ignore_ascii_case(name))?.1.into())
}

/// Listens until it is dropped.
pub(crate) struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

impl Server {
    /// `answer` is given the request and how many came before it.
    pub(crate) async fn start(answer: impl Fn(usize, &str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (requests, answer) = (Arc::new(Mutex::new(Vec::new())), Arc::new(answer));
        let seen = Arc::clone(&requests);
        let serving = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                connections.spawn(async move { serve(stream, &seen, &*answer).await });
            }
        });
        Self { port, requests, serving }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// All that were read to their end, in order.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(mut stream: TcpStream, seen: &Mutex<Vec<String>>, answer: &(dyn Fn(usize, &str) -> Answer + Sync)) {
    while let Some(request) = read(&mut stream).await {
        let number = {
            let mut seen = seen.lock().unwrap();
            seen.push(request.clone());
            seen.len() - 1
        };
        match answer(number, &request) {
            Answer::Says(text) => {
                // The client may have left.
                let _ = stream.write_all(text.as_bytes()).await;
                let body = text.split_once("\r\n\r\n").map_or(0, |(_, body)| body.len());
                if header(&text, "content-length") != Some(body.to_string().as_str()) {
                    return;
                }
            }
            Answer::Closes => return,
            Answer::Stalls(text) => {
                let _ = stream.write_all(text.as_bytes()).await;
                std::future::pending::<()>().await;
            }
        }
    }
}

/// A request with its body; `None` when the client has left, or speaks something else.
async fn read(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = header(head, "content-length").map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return Some(text.into_owned());
            }
        }
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&buffer[..read]);
        // The first byte of a TLS handshake: this server has nothing to say to it.
        if bytes.first() == Some(&0x16) {
            return None;
        }
    }
}
