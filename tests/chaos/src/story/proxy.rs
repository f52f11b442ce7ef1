//! A TCP proxy that delays, loses and breaks off what goes through it, as a seed decides.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The longest that it holds something back.
const DELAY_MAX: Duration = Duration::from_millis(200);

/// For how long it stays silent when it has lost something.
const SILENCE: Duration = Duration::from_secs(3);

/// What becomes of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It is held back.
    Delayed,
    /// Its answer is held back.
    AnsweredLate,
    /// The connection breaks before it is passed on.
    Reset,
    /// It is passed on, and the connection breaks before the answer.
    AnswerLost,
    /// It is lost, and nobody says so.
    Lost,
    /// It is passed on, and the answer is lost, and nobody says so.
    Silent,
    /// The line is cut: no connection at all.
    Refused,
}

impl Fate {
    const DRAWN: [Self; 6] =
        [Self::Delayed, Self::AnsweredLate, Self::Reset, Self::AnswerLost, Self::Lost, Self::Silent];

    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Delayed, Self::AnsweredLate, Self::Reset, Self::AnswerLost, Self::Lost, Self::Silent, Self::Refused];

    /// The words for it, in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Delayed => "request delayed",
            Self::AnsweredLate => "answer delayed",
            Self::Reset => "reset before the request",
            Self::AnswerLost => "reset before the answer",
            Self::Lost => "request lost",
            Self::Silent => "answer lost",
            Self::Refused => "no connection",
        }
    }
}

/// What a proxy does to what goes through it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weather {
    /// This share of requests has a fate.
    Odds(f64),
    /// The line is cut.
    Cut,
}

/// The proxy. Ends when it is dropped.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
    serving: JoinHandle<()>,
}

struct Shared {
    upstream: SocketAddr,
    weather: Weather,
    rng: fastrand::Rng,
    counts: BTreeMap<Fate, u64>,
}

impl Shared {
    fn count(&mut self, fate: Fate) -> Fate {
        *self.counts.entry(fate).or_default() += 1;
        fate
    }

    fn draw(&mut self) -> Option<(Fate, Duration)> {
        let fate = match self.weather {
            Weather::Cut => Fate::Reset,
            Weather::Odds(odds) if self.rng.f64() < odds => self.rng.choice(Fate::DRAWN)?,
            Weather::Odds(_) => return None,
        };
        Some((self.count(fate), DELAY_MAX.mul_f64(self.rng.f64())))
    }
}

impl Proxy {
    /// Listens on loopback, on any port, and passes on to there.
    ///
    /// # Errors
    /// Those of the network.
    pub async fn listen(upstream: SocketAddr, seed: u64) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (weather, rng) = (Weather::Odds(0.0), fastrand::Rng::with_seed(seed));
        let shared = Arc::new(Mutex::new(Shared { upstream, weather, rng, counts: BTreeMap::new() }));
        let sharing = Arc::clone(&shared);
        let serving = tokio::spawn(async move {
            loop {
                if let Ok((client, _)) = listener.accept().await {
                    tokio::spawn(pass(client, Arc::clone(&sharing)));
                }
            }
        });
        Ok(Self { address, shared, serving })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on it passes on to there.
    pub fn pass_on_to(&self, upstream: SocketAddr) {
        lock(&self.shared).upstream = upstream;
    }

    /// From now on the weather is this.
    pub fn weather(&self, weather: Weather) {
        lock(&self.shared).weather = weather;
    }

    /// How often each fate has met somebody.
    pub fn count(&self, fate: Fate) -> u64 {
        lock(&self.shared).counts.get(&fate).copied().unwrap_or_default()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn pass(mut client: TcpStream, shared: Arc<Mutex<Shared>>) -> io::Result<()> {
    let upstream = {
        let mut shared = lock(&shared);
        if shared.weather == Weather::Cut {
            shared.count(Fate::Refused);
            return client.set_zero_linger();
        }
        shared.upstream
    };
    let Ok(mut server) = TcpStream::connect(upstream).await else { return client.set_zero_linger() };
    // Both write once and wait for the other: what is small must not wait for more.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut asked, mut answered) = (vec![0; 16 * 1024], vec![0; 16 * 1024]);
    let mut of_answer = None;
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let bytes = &asked[..read.unwrap_or(0)];
                if bytes.is_empty() {
                    return Ok(());
                }
                let drawn = lock(&shared).draw();
                match drawn {
                    None => {}
                    Some((Fate::Delayed, delay)) => tokio::time::sleep(delay).await,
                    Some((Fate::Reset | Fate::Refused, _)) => return client.set_zero_linger(),
                    Some((Fate::Lost, _)) => {
                        drop(server);
                        tokio::time::sleep(SILENCE).await;
                        return Ok(());
                    }
                    Some(of) => of_answer = Some(of),
                }
                server.write_all(bytes).await?;
            }
            read = server.read(&mut answered) => {
                let bytes = &answered[..read.unwrap_or(0)];
                if bytes.is_empty() {
                    return Ok(());
                }
                match of_answer.take() {
                    Some((Fate::AnswerLost, _)) => return client.set_zero_linger(),
                    Some((Fate::Silent, _)) => {
                        tokio::time::sleep(SILENCE).await;
                        return Ok(());
                    }
                    Some((Fate::AnsweredLate, delay)) => tokio::time::sleep(delay).await,
                    Some(_) | None => {}
                }
                client.write_all(bytes).await?;
            }
        }
    }
}
