//! The processes that the chaos tests kill. A user's own project would have a program like it: its own workflows, a
//! worker, and something that starts runs.
//!
//! ```text
//! chaos-process work  <folder> <outside> <name>
//! chaos-process tell  <folder> <outside> <seed> <keys>
//! chaos-process write <folder> <outside> <name>
//!
//! chaos-process errands <home> <outside> <name>
//! chaos-process sweep   <home> <name>
//! chaos-process api     <home> <port>
//! ```
//!
//! The last three are those of the story; a home is a folder, or `aws`. Where `STEPWELL_CHAOS_BROKEN` names an engine that is broken
//! on purpose, all but `tell` run on that one.

use std::error::Error;
use std::future::pending;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stepwell_chaos::flows::{self, Text, Wanted};
use stepwell_chaos::outside::{Word, say};
use stepwell_chaos::place::Place;
use stepwell_chaos::process::end_with_starter;
use stepwell_chaos::story::errand;
use stepwell_chaos::story::home::{Home, as_told};
use stepwell_chaos::story::serve;
use stepwell_core::{Json, RunId, SignalId, SignalName, WorkflowName};
use stepwell_engine::{SignalRequest, Worker, WorkerSettings};

type Ended = Result<(), Box<dyn Error + Send + Sync>>;

/// Tasks that start runs at once, in `write`.
const WRITERS: usize = 16;

/// The outside of processes that run no step.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9);

fn main() -> Ended {
    end_with_starter();
    // On a full disk a log is no reason to end.
    let logs = tracing_subscriber::fmt().with_env_filter("warn").with_ansi(false).log_internal_errors(false);
    logs.with_writer(io::stderr).init();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match words.as_slice() {
            ["work", dir, outside, me] => {
                let place = open(dir, outside, me)?;
                work(&place, me).await
            }
            ["tell", dir, outside, seed, keys] => {
                let place = open(dir, outside, "teller")?;
                tell(&place, outside.parse()?, seed.parse()?, keys.parse()?).await
            }
            ["write", dir, outside, me] => {
                let place = Arc::new(open(dir, outside, me)?);
                let writers = (0..WRITERS).map(|number| tokio::spawn(write(Arc::clone(&place), number)));
                let writers: Vec<_> = writers.collect();
                work(&place, me).await?;
                for writer in writers {
                    writer.await??;
                }
                Ok(())
            }
            ["errands", home, outside, me] => {
                let ports = as_told(Home::read(home).await?.open()?)?;
                serve::work(ports, errand::registry(outside.parse()?, me), me).await
            }
            ["sweep", home, me] => {
                let ports = as_told(Home::read(home).await?.open()?)?;
                serve::sweep(ports, errand::registry(NOWHERE, me), me).await
            }
            ["api", home, port] => {
                let ports = as_told(Home::read(home).await?.open()?)?;
                serve::api(ports, errand::registry(NOWHERE, "api"), port.parse()?).await
            }
            _ => Err("work, tell, write, errands, sweep or api: see the source".into()),
        }
    })
}

fn open(dir: &str, outside: &str, me: &str) -> Result<Place, Box<dyn Error + Send + Sync>> {
    let outside: SocketAddr = outside.parse()?;
    let mut place = Place::open(Path::new(dir), flows::registry(outside, me))?;
    if me != "teller" {
        place.change_ports(as_told)?;
    }
    Ok(place)
}

/// Works for ever.
async fn work(place: &Place, me: &str) -> Ended {
    let settings = WorkerSettings {
        // Few, and short turns: every kill hits runs in the middle of a step, and hand-offs are frequent.
        concurrency: 4,
        turn: Duration::from_millis(300),
        wait: Duration::from_millis(200),
        sweep_every: Duration::from_secs(1),
        grace: Duration::from_secs(1),
    };
    Worker::new(place.engine(me)?, settings).run(pending()).await;
    Ok(())
}

/// Starts a run for each key and sends it its signals, key by key in an order of its own. Whatever another one like it
/// has done before comes again, under the same keys and ids. A run that is there already and gets signals is not always
/// started again: a signal that comes again has to make good by itself what was interrupted.
async fn tell(place: &Place, outside: SocketAddr, seed: u64, keys: u64) -> Ended {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut order: Vec<u64> = (0..keys).collect();
    rng.shuffle(&mut order);
    for number in order {
        let (key, parts) = (format!("key-{number}"), flows::parts_of(number));
        let mut run = RunId::for_key(&WorkflowName::new("gatherer")?, &key);
        if parts == 0 || rng.bool() || place.client.get(&run).await.is_err() {
            let started = place.start("gatherer", &Wanted { parts }, Some(key.clone())).await?;
            run = started.run;
            say(outside, &Word::Started { key, run: run.clone(), new: started.new }).await?;
        }
        let mut order: Vec<u64> = (0..parts).collect();
        rng.shuffle(&mut order);
        for part in order {
            let id = Some(SignalId::new(format!("part-{part}"))?);
            let (name, payload) = (SignalName::new(flows::PART.name())?, Json::of(&part)?);
            let answer = place.client.signal(SignalRequest { run: run.clone(), name, payload, id }).await?;
            say(outside, &Word::Sent { run: run.clone(), part, new: answer.new }).await?;
        }
    }
    Ok(())
}

/// Starts runs for ever, and says on stdout which were answered, each with the length of its text.
async fn write(place: Arc<Place>, number: usize) -> Ended {
    for round in 0.. {
        // Every fourth is too long to stay in the checkpoint.
        let length = if round % 4 == 3 { 6_000 } else { 200 } + number;
        let text = Text { lines: 3, text: "x".repeat(length) };
        match place.start("keeper", &text, None).await {
            Ok(started) => writeln!(io::stdout().lock(), "{} {length}", started.run)?,
            Err(error) => tracing::warn!(%error, "not started"),
        }
    }
    Ok(())
}
