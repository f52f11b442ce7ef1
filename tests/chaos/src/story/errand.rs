//! The workflow of the story: one effect of each class, a wait for signals, an approval, a timer, and something to take back.

use std::io;
use std::net::SocketAddr;
use std::time::UNIX_EPOCH;

use stepwell::prelude::*;
use stepwell::{Call, Next};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::ledger::{Kind, Word};

/// How long a worker holds a run after its last sign of life.
pub const LEASE: Duration = Duration::from_millis(600);

/// How long one call to the outside may take. Shorter than a lease, so that a fresh lease covers it as it is.
pub const DEADLINE: Duration = Duration::from_millis(400);

/// For how long after its deadline a call may still land: longer than the proxy holds one back, and than any process is frozen.
pub const SETTLE: Duration = Duration::from_secs(2);

/// Who may allow what is sent.
pub const REVIEWER: &str = "reviewer";

/// A word on the side: an errand takes as many as come before it is told to go.
pub const NOTE: Signal<u64> = Signal::new("note");

/// The word that an errand waits for.
pub const GO: Signal<u64> = Signal::new("go");

/// An errand of this number sends nothing unless somebody allows it.
pub const fn needs_leave(number: u64) -> bool {
    number.is_multiple_of(4)
}

/// What an errand of this number reserves is taken back if it is cancelled.
const fn takes_back(number: u64) -> bool {
    number.is_multiple_of(2)
}

/// All workflows of the story. `me` names the worker to the outside.
pub fn registry(outside: SocketAddr, me: &str) -> Registry {
    Registry::new().with(Errand { outside, me: me.to_owned() })
}

/// The workflow.
pub struct Errand {
    outside: SocketAddr,
    me: String,
}

/// What to do: the input.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// Which errand it is.
    pub number: u64,
    /// Something to carry along. A long one makes input and state blobs.
    pub text: String,
}

/// What an errand knows: its state, and in the end its result.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Known {
    /// Which errand it is.
    pub number: u64,
    /// What it carries along.
    pub text: String,
    /// What it has read.
    pub looked: Option<u64>,
    /// The answer to what the outside dedupes.
    pub reserved: Option<u64>,
    /// The answer to what the outside can be asked about.
    pub paid: Option<u64>,
    /// The answer to what the outside does each time it is told to.
    pub sent: Option<u64>,
    /// Whether nobody allowed that.
    pub rejected: bool,
    /// Notes that it has taken, in that order.
    pub notes: Vec<u64>,
    /// Words to go that it has taken.
    pub went: Vec<u64>,
    /// Until when it was to rest, in milliseconds since 1970.
    rests_until: u64,
    /// Whether it was woken before that.
    pub woken_early: bool,
}

/// Where an errand stands.
#[derive(Debug, Serialize, Deserialize)]
pub enum At {
    /// Reads.
    Look,
    /// Does what the outside dedupes.
    Reserve,
    /// Takes that back.
    Release,
    /// Does what the outside can be asked about.
    Pay,
    /// Takes signals.
    Listen,
    /// Does what the outside promises nothing about.
    Send,
    /// Has rested, and ends.
    End,
}

impl Workflow for Errand {
    const NAME: &'static str = "errand";
    type Input = Order;
    type State = Known;
    type Step = At;
    type Output = Known;

    fn begin(&self, Order { number, text }: Order) -> (At, Known) {
        (At::Look, Known { number, text, ..Known::default() })
    }

    async fn step(&self, at: At, known: &mut Known, cx: &Cx) -> StepResult<Self> {
        let number = known.number;
        match at {
            At::Look => {
                let look = cx.effect("look").read().deadline(DEADLINE);
                known.looked = Some(look.call(|call| self.act(Kind::Read, number, cx, call)).await?);
                Ok(goto(At::Reserve))
            }
            At::Reserve => {
                let reserve = cx.effect("reserve").key(number).idempotent().with(&number).deadline(DEADLINE);
                let reserve = if takes_back(number) { reserve.undo(&At::Release) } else { reserve };
                known.reserved = Some(reserve.call(|call| self.act(Kind::Idempotent, number, cx, call)).await?);
                Ok(goto(At::Pay))
            }
            At::Release => {
                let release = cx.effect("release").key(number).idempotent().with(&number).deadline(DEADLINE);
                release.call(|call| self.act(Kind::Release, number, cx, call)).await?;
                Ok(undone())
            }
            At::Pay => {
                let pay = cx.effect("pay").key(number).reconcile(async |call| self.ask(call).await);
                let pay = pay.settle_delay(SETTLE).with(&number).deadline(DEADLINE);
                known.paid = Some(pay.call(|call| self.act(Kind::Reconcilable, number, cx, call)).await?);
                Ok(goto(At::Listen))
            }
            At::Listen => listen(known, cx).await,
            At::Send => self.send(known, cx).await,
            At::End => {
                known.woken_early = now_ms() < known.rests_until;
                Ok(complete(core::mem::take(known)))
            }
        }
    }

    fn policy(&self, _at: &At) -> StepPolicy {
        // Whatever breaks is mended soon; the run has to go on all the same.
        StepPolicy::default().retry(RetryPolicy::default().max_attempts(10_000).every(Duration::from_millis(80)))
    }

    fn signals() -> stepwell::Signals {
        stepwell::Signals::none().and(NOTE).and(GO)
    }
}

/// Takes one note a step, and goes on once it is told to go.
async fn listen(known: &mut Known, cx: &Cx) -> StepResult<Errand> {
    if let Some(note) = cx.take(NOTE).await? {
        known.notes.push(note);
    }
    let Some(go) = cx.take(GO).await? else {
        return Ok(wait(At::Listen).for_signal(GO).or(NOTE).without_deadline());
    };
    known.went.push(go);
    if !needs_leave(known.number) {
        return Ok(goto(At::Send));
    }
    let leave = Approval::of("send", &known.number).by(role(REVIEWER));
    Ok(wait(At::Send).for_approval(leave.within(hours(1))))
}

impl Errand {
    async fn send(&self, known: &mut Known, cx: &Cx) -> StepResult<Self> {
        let number = known.number;
        let send = cx.effect("send").key(number).once().deadline(DEADLINE);
        let send = if needs_leave(number) {
            if let Decision::Rejected { .. } = cx.approval("send")? {
                known.rejected = true;
                return Ok(rest(known));
            }
            send.approved_by("send", &number)
        } else {
            send.with(&number)
        };
        known.sent = match send.call(|call| self.act(Kind::Once, number, cx, call)).await {
            Ok(answer) => Some(answer),
            // A person has found out that it did not happen.
            Err(EffectError::Refused { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(rest(known))
    }

    async fn act(&self, kind: Kind, number: u64, cx: &Cx, call: Call<'_>) -> Result<u64, CallError> {
        let until = now_ms() + u64::try_from(call.deadline().as_millis()).unwrap_or(u64::MAX);
        let (from, run, key) = (self.me.clone(), cx.run().clone(), call.key().to_owned());
        let answer = say(self.outside, &Word::Act { kind, from, run, number, key, until }).await?;
        answer.ok_or_else(|| CallError::unknown("the outside has answered nothing"))
    }

    async fn ask(&self, call: Call<'_>) -> Result<Asked<u64>, CallError> {
        let answer = say(self.outside, &Word::Ask { key: call.key().to_owned() }).await?;
        Ok(answer.map_or(Asked::Absent, Asked::Happened))
    }
}

/// Rests before it ends.
fn rest(known: &mut Known) -> Next<At, Known> {
    let millis = 50 + known.number % 8 * 50;
    known.rests_until = now_ms() + millis;
    wait(At::End).lasting(Duration::from_millis(millis))
}

/// Now, in milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    let now = UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// Says a word to the outside and waits for its answer. Only without a connection it is certain that nothing was heard.
async fn say(outside: SocketAddr, word: &Word) -> Result<Option<u64>, CallError> {
    let mut stream = TcpStream::connect(outside).await.map_err(CallError::retry)?;
    let line = serde_json::to_string(word).map_err(CallError::refused)? + "\n";
    stream.write_all(line.as_bytes()).await?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).await?;
    if !answer.ends_with('\n') {
        return Err(io::Error::other("the answer was cut off").into());
    }
    Ok(serde_json::from_str(&answer)?)
}
