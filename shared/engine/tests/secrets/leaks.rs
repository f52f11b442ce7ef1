//! A workflow that gives its secret away in every way it can, and what is searched for then. On its own, since each backend is searched.

use std::sync::Arc;
use std::time::Duration;

use stepwell::prelude::*;
use stepwell_core::{Checkpoint, Json, Phase, Revision, RunId, WorkerId, WorkflowName};
use stepwell_engine::{Client, Engine, Ports, Settings, SignalRequest, StartRequest, Worker, WorkerSettings};

/// What is searched for: no encoding but base64 changes a character of it.
const MARKER: &str = "zebraMarker5129707";

/// The secret around it has characters that have to be encoded.
const SECRET: &str = "k+/\"zebraMarker5129707\"&%25";

const GO: Signal<String> = Signal::new("go");

/// How it gets out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Way {
    Message,
    Code,
    Source,
    LocalSecret,
    AfterASignal,
    Panic,
    PanicInACall,
    PanicWithALocalSecret,
    PanicElsewhere,
    NotDone,
    Refused,
    CallCode,
    Unknown,
    UnknownRead,
    OnceUnknown,
    CannotTell,
    Result,
    LargeResult,
    State,
    LargeState,
    NextStep,
    FirstStep,
    Output,
    LogEntry,
    Blob,
    Approval,
    Undo,
}

/// Those in a text that somebody reads: it is kept, without the secret.
pub(crate) const TEXTS: [Way; 16] = [
    Way::Message,
    Way::Code,
    Way::Source,
    Way::LocalSecret,
    Way::AfterASignal,
    Way::Panic,
    Way::PanicInACall,
    Way::PanicWithALocalSecret,
    Way::PanicElsewhere,
    Way::NotDone,
    Way::Refused,
    Way::CallCode,
    Way::Unknown,
    Way::UnknownRead,
    Way::OnceUnknown,
    Way::CannotTell,
];

/// Those in a value of the run: it is refused.
pub(crate) const VALUES: [Way; 10] = [
    Way::Result,
    Way::LargeResult,
    Way::State,
    Way::LargeState,
    Way::NextStep,
    Way::Output,
    Way::LogEntry,
    Way::Blob,
    Way::Approval,
    Way::Undo,
];

struct Leaks {
    key: Secret,
}

#[derive(Serialize, Deserialize)]
struct Found {
    way: Way,
    text: String,
    notes: Log<String>,
}

#[derive(Debug, thiserror::Error)]
#[error("while talking to the outside")]
struct Talking {
    source: std::io::Error,
}

impl Leaks {
    /// The secret as other software writes it, beside words that tell the test that this was looked at.
    fn leak(&self, way: Way) -> String {
        leak(way, self.key.expose())
    }

    fn values(&self, found: &mut Found) {
        match found.way {
            Way::State => found.text = self.leak(found.way),
            Way::LargeState => found.text = "x".repeat(300_000) + &self.leak(found.way),
            Way::LogEntry => found.notes.push(self.leak(found.way)),
            _ => {}
        }
    }

    async fn calls(&self, way: Way, cx: &Cx) -> Result<String, StepError> {
        let leak = self.leak(way);
        let effect = cx.effect("call").key(1).deadline(Duration::from_millis(50));
        Ok(match way {
            Way::PanicInACall => {
                effect.read().call(async |_| -> Result<String, CallError> { panic!("{leak}") }).await?
            }
            Way::NotDone => effect.idempotent().call(async |_| Err(CallError::retry(leak))).await?,
            Way::Refused => effect.idempotent().call(async |_| Err(CallError::refused(leak))).await?,
            Way::CallCode => effect.idempotent().call(async |_| Err(CallError::refused("no").with_code(leak))).await?,
            Way::Unknown => effect.idempotent().call(async |_| Err(CallError::unknown(leak))).await?,
            Way::UnknownRead => effect.read().call(async |_| Err(std::io::Error::other(leak))).await?,
            Way::OnceUnknown => effect.once().call(async |_| Err(CallError::unknown(leak))).await?,
            Way::CannotTell => {
                let ask = async |_| Ok::<_, CallError>(Asked::CannotTell(leak));
                let effect = effect.reconcile(ask).settle_delay(Duration::ZERO);
                effect.call(async |_| Err(CallError::unknown("no answer"))).await?
            }
            Way::Undo => effect.idempotent().undo(&leak).call(async |_| Ok::<_, CallError>("done".into())).await?,
            Way::Result => effect.idempotent().call(async |_| Ok::<_, CallError>(leak)).await?,
            Way::LargeResult => {
                let page = "x".repeat(300_000) + &leak;
                effect.idempotent().call(async |_| Ok::<_, CallError>(page)).await?
            }
            _ => String::new(),
        })
    }

    async fn errors(&self, way: Way) -> Result<(), StepError> {
        let leak = self.leak(way);
        match way {
            Way::Message => return Err(StepError::terminal(leak)),
            Way::Code => return Err(StepError::terminal("no").with_code(leak)),
            Way::Source => return Err(Talking { source: std::io::Error::other(leak) }.into()),
            Way::LocalSecret => {
                let local = Secret::new("local", format!("{MARKER}-local-1")).unwrap();
                std::fs::read(local.expose()).map_err(|_| std::io::Error::other(self::leak(way, local.expose())))?;
            }
            Way::Panic => panic!("{leak}"),
            Way::PanicWithALocalSecret => {
                let local = Secret::new("local", format!("{MARKER}-local-2")).unwrap();
                panic!("{}", self::leak(way, local.expose()))
            }
            Way::PanicElsewhere => tokio::spawn(async move { panic!("{leak}") }).await?,
            _ => {}
        }
        Ok(())
    }
}

impl Workflow for Leaks {
    const NAME: &'static str = "leaks";
    type Input = Way;
    type State = Found;
    type Step = String;
    type Output = String;

    fn begin(&self, way: Way) -> (String, Found) {
        let first = if way == Way::FirstStep { self.leak(way) } else { "first".into() };
        (first, Found { way, text: String::new(), notes: Log::new() })
    }

    async fn step(&self, at: String, found: &mut Found, cx: &Cx) -> StepResult<Self> {
        let way = found.way;
        self.errors(way).await?;
        self.calls(way, cx).await?;
        self.values(found);
        match way {
            Way::AfterASignal => match cx.take(GO).await? {
                Some(words) => return Err(StepError::terminal(format!("{words}: {}", self.leak(way)))),
                None => return Ok(wait("second".into()).for_signal(GO).without_deadline()),
            },
            Way::Blob => drop(cx.blob::<str, String>(&self.leak(way)).await?),
            Way::Approval => {
                let asked = Approval::of("act", &self.leak(way)).by(role("anybody"));
                return Ok(wait("second".into()).for_approval(asked.within(hours(1))));
            }
            Way::Output => return Ok(complete(self.leak(way))),
            Way::NextStep if at == "first" => return Ok(goto(self.leak(way))),
            _ => {}
        }
        Ok(if at == "second" { complete("nothing".into()) } else { goto("second".into()) })
    }

    fn policy(&self, _: &String) -> StepPolicy {
        StepPolicy::default().retry(RetryPolicy::default().max_attempts(3).every(Duration::from_millis(1)))
    }

    fn signals() -> Signals {
        Signals::none().and(GO)
    }
}

fn leak(way: Way, secret: &str) -> String {
    let percent = secret
        .bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") });
    let percent: String = percent.collect();
    let [a, b, c] = ["", "u:", "me:"].map(|user| base64(&format!("{user}{secret}")));
    format!("seen {way:?} {secret} {secret:?} GET /?key={percent} Basic {a} {b} {c}")
}

fn base64(text: &str) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: Vec<u8> = text.bytes().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    let sextet = |bits: &[u8]| (0..6).fold(0, |sextet, at| sextet << 1 | usize::from(bits.get(at) == Some(&1)));
    bits.chunks(6).map(|bits| char::from(ALPHABET[sextet(bits)])).collect()
}

/// The marker, and the characters of its base64 that no neighbour has a part in.
pub(crate) fn traces() -> Vec<String> {
    let inner = |before: &str| {
        let all = base64(&format!("{before}{MARKER}"));
        all[before.len() * 2..all.len() - 2].to_owned()
    };
    vec![MARKER.to_owned(), inner(""), inner("-"), inner("--")]
}

pub(crate) fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

pub(crate) fn registry() -> Registry {
    Registry::new().with(Leaks { key: Secret::new("marker-key", SECRET.into()).unwrap() })
}

/// Lets every run come to its end, or to a person.
async fn settled(client: &Client, run: &RunId) -> Checkpoint {
    for _ in 0..3_000 {
        let checkpoint = client.get(run).await.unwrap();
        match checkpoint.progress.status.phase() {
            Phase::Completed | Phase::Failed | Phase::Parked => return checkpoint,
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    panic!("run {run} does not end")
}

/// Lets all of it out, on this backend. Answers what the engine tells of each run.
pub(crate) async fn leak_all(ports: Ports) -> Vec<(Way, String)> {
    let registry = Arc::new(registry());
    let settings = Settings { worker: WorkerId::new("w").unwrap(), rules: stepwell_core::decide::Rules::default() };
    let engine = Engine::new(ports.clone(), Arc::clone(&registry), settings).unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let working = tokio::spawn(Worker::new(engine, WorkerSettings::default()).run(async { drop(stopped.await) }));

    let client = Client::new(ports, registry);
    let mut runs = Vec::new();
    for way in TEXTS.into_iter().chain(VALUES).chain([Way::FirstStep]) {
        let workflow = WorkflowName::new(Leaks::NAME).unwrap();
        let request = StartRequest { workflow, input: Json::of(&way).unwrap(), key: None };
        let run = client.start(request).await.unwrap().run;
        if way == Way::AfterASignal {
            let (name, payload) = (stepwell_core::SignalName::new(GO.name()).unwrap(), Json::of("it answers").unwrap());
            client.signal(SignalRequest { run: run.clone(), name, payload, id: None }).await.unwrap();
        }
        runs.push((way, run));
    }
    let mut told = Vec::new();
    for (way, run) in runs {
        let checkpoint = settled(&client, &run).await;
        let history = client.history(&run, Revision(0)).await.unwrap();
        told.push((way, format!("{checkpoint:?} {history:?}")));
    }
    stop.send(()).unwrap();
    working.await.unwrap();
    told
}

/// Checks that all was tried and is told without the secret, and that nothing that was written anywhere has it.
pub(crate) fn check(told: &[(Way, String)], written: &[(String, Vec<u8>)]) {
    for (way, told) in told {
        let seen = format!("seen {way:?} [secret ");
        match way {
            way if TEXTS.contains(way) => assert!(told.contains(&seen), "{way:?} was not tried: {told}"),
            way if VALUES.contains(way) => assert!(told.contains("holds secret marker-key in plain"), "{told}"),
            _ => assert!(told.contains("step: \"seen FirstStep [secret marker-key]"), "{told}"),
        }
        // What is searched below is where all this lies, and as it is.
        let stored = if VALUES.contains(way) { "holds secret marker-key in plain".to_owned() } else { seen };
        assert!(written.iter().any(|(_, bytes)| holds(bytes, &stored)), "{way:?}");
    }
    for (place, bytes) in written {
        for trace in traces() {
            assert!(!holds(bytes, &trace), "{place} holds {trace}");
        }
    }
}
