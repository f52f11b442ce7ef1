//! A relay of a few lines, which goes wrong where it is told to.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Where a conversation can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The client has connected.
    Greeting,
    /// EHLO.
    Hello,
    /// MAIL.
    From,
    /// RCPT.
    To,
    /// DATA, before the text.
    Data,
    /// The text has come, with its end.
    Text,
}

impl Stage {
    pub(crate) const ALL: [Self; 6] = [Self::Greeting, Self::Hello, Self::From, Self::To, Self::Data, Self::Text];
}

/// What it does there, instead of what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Says(&'static str),
    Closes,
    Stalls,
}

#[derive(Default)]
struct Seen {
    commands: Vec<String>,
    mails: Vec<String>,
    stalls_at_quit: bool,
}

/// Listens until it is dropped.
pub(crate) struct Relay {
    port: u16,
    seen: Arc<Mutex<Seen>>,
    serving: JoinHandle<()>,
}

impl Relay {
    pub(crate) async fn start(wrong: Option<(Stage, Act)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::<Mutex<Seen>>::default();
        let seen_by_it = Arc::clone(&seen);
        let serving = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let seen = Arc::clone(&seen_by_it);
                // It ends when the client has left, too.
                connections.spawn(async move { talk(stream, wrong, &seen).await.unwrap_or_default() });
            }
        });
        Self { port, seen, serving }
    }

    pub(crate) fn that_stalls_at_quit(self) -> Self {
        self.seen.lock().unwrap().stalls_at_quit = true;
        self
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn commands(&self) -> Vec<String> {
        self.seen.lock().unwrap().commands.clone()
    }

    /// The texts that have come to their end, whatever was said of them.
    pub(crate) fn mails(&self) -> Vec<String> {
        self.seen.lock().unwrap().mails.clone()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn talk(stream: TcpStream, wrong: Option<(Stage, Act)>, seen: &Mutex<Seen>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut stage, mut reply) = (Stage::Greeting, "220 ready");
    loop {
        match wrong.filter(|(at, _)| *at == stage).map(|(_, act)| act) {
            None => {}
            Some(Act::Says(words)) => reply = words,
            Some(Act::Closes) => return Ok(()),
            Some(Act::Stalls) => std::future::pending().await,
        }
        stream.write_all(format!("{reply}\r\n").as_bytes()).await?;
        if stage == Stage::Data && reply.starts_with("354") {
            let mut text = String::new();
            while !text.ends_with("\r\n.\r\n") {
                if stream.read_line(&mut text).await? == 0 {
                    return Ok(());
                }
            }
            seen.lock().unwrap().mails.push(text);
            (stage, reply) = (Stage::Text, "250 taken as 17");
            continue;
        }
        let mut command = String::new();
        if stream.read_line(&mut command).await? == 0 {
            return Ok(());
        }
        let command = command.trim_end().to_owned();
        seen.lock().unwrap().commands.push(command.clone());
        (stage, reply) = match command.split(' ').next() {
            Some("EHLO") => (Stage::Hello, "250-relay\r\n250 8BITMIME"),
            Some("MAIL") => (Stage::From, "250 ok"),
            Some("RCPT") => (Stage::To, "250 ok"),
            Some("DATA") => (Stage::Data, "354 go on"),
            _ if seen.lock().unwrap().stalls_at_quit => std::future::pending().await,
            _ => return Ok(()),
        };
    }
}
