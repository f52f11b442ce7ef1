//! The outside: a service that acts, forgets, stalls and loses answers, and keeps an honest book of what it was asked and did.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stepwell::CallError;
use stepwell_core::time::millis;
use stepwell_core::{RunId, Timestamp};
use stepwell_testkit::broken::SECRET;
use stepwell_testkit::faults::Gate;
use tokio::sync::oneshot;

use crate::dice::{Dice, LANDS_LATE, Temper, secs};
use crate::tape::{Call, Promise, Tape, Who};

/// For so long the outside dedupes a key of [`Request::window`] at least.
pub(crate) const WINDOW: Duration = secs(90);

/// After that and a while: a request that landed late is still deduped.
const WINDOW_HELD: Duration = secs(100);

/// The service.
pub(crate) struct Outside {
    pub(crate) tape: Arc<Tape>,
    dice: Dice,
    temper: Arc<Temper>,
    /// When each key acted.
    acts: Mutex<BTreeMap<String, Vec<Timestamp>>>,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug)]
enum Luck {
    /// It acts after this long, and answers.
    Answered(Duration),
    /// It acts, and the answer gets lost.
    AnswerLost(Duration),
    /// It gets lost, and its caller hears that the connection has broken.
    RequestLost,
    /// It gets lost, and its caller hears nothing.
    Swallowed,
    /// It acts after this long, and its caller hears nothing.
    Stalls(Duration),
    /// It is told to come again, and has done nothing.
    Busy,
    /// It is refused for good.
    Refused,
}

impl Luck {
    const fn fault(self) -> Option<&'static str> {
        match self {
            Self::Answered(_) => None,
            Self::AnswerLost(_) => Some("outside: answer lost after it has acted"),
            Self::RequestLost => Some("outside: connection broken before it has acted"),
            Self::Swallowed => Some("outside: request swallowed"),
            Self::Stalls(_) => Some("outside: stalled beyond the deadline"),
            Self::Busy => Some("outside: busy"),
            Self::Refused => Some("outside: refused"),
        }
    }
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) run: RunId,
    pub(crate) name: &'static str,
    pub(crate) key: String,
    pub(crate) keyed: bool,
    pub(crate) promise: Promise,
    /// It dedupes for [`WINDOW`] only.
    pub(crate) window: bool,
    pub(crate) parameters: String,
    pub(crate) deadline: Duration,
}

impl Outside {
    pub(crate) fn new(tape: Arc<Tape>, dice: Dice, temper: Arc<Temper>) -> Self {
        Self { tape, dice, temper, acts: Mutex::default() }
    }

    fn acts(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Vec<Timestamp>>> {
        self.acts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What its book says of a key: what it answered first.
    pub(crate) fn found(&self, key: &str) -> Option<String> {
        self.acts().get(key).filter(|acts| !acts.is_empty()).map(|_| receipt(key, 1))
    }

    fn in_trouble(&self) -> bool {
        self.tape.elapsed() < self.temper.calm && self.dice.chance(self.temper.outside)
    }

    fn luck(&self, request: &Request) -> Luck {
        let soon = self.dice.within(if self.dice.chance(200) { request.deadline / 2 } else { secs(2) });
        if !self.in_trouble() {
            return Luck::Answered(soon);
        }
        // Within its deadline, or somewhat later: nobody listens any more.
        let late = Duration::from_millis(self.dice.upto(millis(request.deadline + LANDS_LATE)));
        match self.dice.upto(100) {
            0..25 => Luck::AnswerLost(soon),
            25..40 => Luck::RequestLost,
            40..55 => Luck::Swallowed,
            55..75 => Luck::Stalls(late),
            75..90 => Luck::Busy,
            90..93 => Luck::Refused,
            _ => Luck::Answered(late),
        }
    }

    /// Acts, or answers as before where it dedupes.
    fn act(&self, request: &Request, number: usize) -> String {
        let now = self.tape.now();
        let mut acts = self.acts();
        let of_key = acts.entry(request.key.clone()).or_default();
        let dedupes = match (request.promise, of_key.last()) {
            (Promise::Read | Promise::Reconcilable | Promise::Once, _) | (Promise::Idempotent, None) => false,
            (Promise::Idempotent, Some(last)) => !request.window || now.since(*last) <= WINDOW_HELD,
        };
        if !dedupes {
            of_key.push(now);
            if let Some(call) = self.tape.recorded().calls.get_mut(number) {
                call.acted = Some(now);
            }
        }
        self.tape.tell("outside", || {
            let how = if dedupes { "knows the key" } else { "acts" };
            format!("{how}: {} {} (act {})", request.name, crate::story::short(&request.key), of_key.len())
        });
        receipt(&request.key, of_key.len())
    }

    fn note(&self, by: &Who, request: &Request, luck: Luck) -> usize {
        let refused = matches!(luck, Luck::Refused);
        let declined = refused || matches!(luck, Luck::Busy);
        let Request { run, name, key, keyed, promise, parameters, .. } = request.clone();
        let mut recorded = self.tape.recorded();
        let at = self.tape.now();
        recorded.calls.push(Call {
            at,
            by: by.clone(),
            run,
            name,
            key,
            keyed,
            promise,
            parameters,
            acted: None,
            declined,
            refused,
        });
        recorded.calls.len() - 1
    }
}

fn receipt(key: &str, act: usize) -> String {
    format!("{}-{act}", crate::story::short(key))
}

/// The outside, as one worker reaches it.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) outside: Arc<Outside>,
    pub(crate) who: Who,
    pub(crate) gate: Arc<Gate>,
}

impl Caller {
    /// Calls. What was sent goes its own way, whether or not the caller still listens. A worker does not stand still between its last
    /// look at the clock and the send (see the crate's page); it does while it waits for the answer.
    pub(crate) async fn call(&self, request: Request) -> Result<String, CallError> {
        if self.gate.fuse().is_burnt() {
            return pending().await;
        }
        let Outside { tape, .. } = &*self.outside;
        let luck = self.outside.luck(&request);
        let number = self.outside.note(&self.who, &request, luck);
        tape.count("calls to the outside");
        tape.tell(&self.who, || format!("calls {} {}", request.name, crate::story::short(&request.key)));
        if let Some(fault) = luck.fault() {
            tape.fault("outside", fault);
        }
        let answer = match luck {
            Luck::Answered(after) => self.acts(request, number, after).await,
            Luck::AnswerLost(after) => {
                self.acts(request, number, after).await?;
                Err(CallError::unknown(format!("connection reset, sent with token {SECRET}")))
            }
            Luck::RequestLost => Err(CallError::unknown(format!("connection refused for token={SECRET}"))),
            Luck::Swallowed => pending().await,
            Luck::Stalls(after) => {
                let _ = self.acts(request, number, after).await;
                pending().await
            }
            Luck::Busy => Err(CallError::retry(format!("503 for Bearer {SECRET}"))),
            Luck::Refused => Err(CallError::refused(format!("422 for Bearer {SECRET}"))),
        };
        self.gate.thawed().await;
        answer
    }

    async fn acts(&self, request: Request, number: usize, after: Duration) -> Result<String, CallError> {
        let (tell, told) = oneshot::channel();
        let outside = Arc::clone(&self.outside);
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            // Nobody may listen any more.
            let _ = tell.send(outside.act(&request, number));
        });
        told.await.map_err(|_| CallError::unknown("the world has ended"))
    }

    /// Asks whether a key has happened.
    pub(crate) async fn ask(&self, key: &str) -> Result<Option<String>, CallError> {
        let Outside { tape, .. } = &*self.outside;
        tape.count("questions to the outside");
        tokio::time::sleep(self.outside.dice.within(secs(2))).await;
        self.gate.thawed().await;
        if self.outside.in_trouble() {
            tape.fault("outside", "outside: does not say");
            return Err(CallError::unknown("the book is closed"));
        }
        Ok(self.outside.found(key))
    }
}
