//! What the tests and the example stand on: one world in memory, workflows that can be brought into each status, and the console
//! before the API.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use serde_json::{Value, json};
use stepwell::prelude::*;
use stepwell_core::decide::{Approve, Rules};
use stepwell_core::{ApprovalId, Json, Reviewer, RunId, SignalName, WorkerId, WorkflowName};
use stepwell_engine::{Ack, Client, Engine, Ports, Settings, SignalRequest, StartRequest, TurnTime};
use stepwell_http::{Access, Api, Site};
use stepwell_local::memory::Memory;
use stepwell_ports::RunQueue;
use stepwell_ports::system::{SystemClock, SystemIds};

const ANSWER: Signal<String> = Signal::new("answer");

/// Asks, and ends with the answer.
pub(crate) struct Desk;

#[derive(Serialize, Deserialize)]
pub(crate) struct Question {
    text: String,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum At {
    Ask,
    Answered,
    Turn,
}

impl Workflow for Desk {
    const NAME: &'static str = "desk";
    const MAX_STEPS: u64 = 5;
    type Input = Question;
    type State = Question;
    type Step = At;
    type Output = String;

    fn begin(&self, input: Question) -> (At, Question) {
        (At::Ask, input)
    }

    fn signals() -> Signals {
        Signals::none().and(ANSWER)
    }

    async fn step(&self, at: At, question: &mut Question, cx: &Cx) -> StepResult<Self> {
        Ok(match at {
            At::Ask => wait(At::Answered).for_signal(ANSWER).within(hours(6)),
            At::Turn => goto(At::Turn),
            At::Answered => match cx.take(ANSWER).await?.as_deref() {
                Some("turn") => goto(At::Turn),
                Some("fail") => {
                    return Err(StepError::terminal(format!("no answer to {}", question.text)).with_code("closed"));
                }
                answer => complete(answer.unwrap_or_default().to_owned()),
            },
        })
    }
}

/// How long a payment may be on its way.
const PAY_DEADLINE: Duration = Duration::from_millis(20);

/// Pays each of its input once, and never hears whether that has happened.
pub(crate) struct Till;

#[derive(Serialize, Deserialize)]
pub(crate) enum Pay {
    Pay,
}

impl Workflow for Till {
    const NAME: &'static str = "till";
    type Input = Vec<String>;
    type State = Vec<String>;
    type Step = Pay;
    type Output = Vec<Option<String>>;

    fn begin(&self, input: Vec<String>) -> (Pay, Vec<String>) {
        (Pay::Pay, input)
    }

    async fn step(&self, _: Pay, whom: &mut Vec<String>, cx: &Cx) -> StepResult<Self> {
        let mut paid = Vec::new();
        for name in whom.iter() {
            let pay = cx.effect("pay").key(name).once().deadline(PAY_DEADLINE);
            let evidence = format!("the line broke for {name}");
            paid.push(pay.call(async |_| Err::<Option<String>, _>(CallError::unknown(evidence))).await);
        }
        Ok(complete(paid.into_iter().collect::<Result<_, _>>()?))
    }
}

/// Reserves, asks, refunds; and takes the reservation back.
pub(crate) struct Cashier;

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Refund {
    order: u32,
    cents: u64,
    note: String,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Give {
    Reserve,
    Ask,
    Pay,
    Unreserve { order: u32 },
}

impl Workflow for Cashier {
    const NAME: &'static str = "cashier";
    type Input = Refund;
    type State = Refund;
    type Step = Give;
    type Output = String;

    fn begin(&self, refund: Refund) -> (Give, Refund) {
        (Give::Reserve, refund)
    }

    fn budget() -> Budget {
        Budget::none().of_run("cents", 100_000).attempts(90)
    }

    async fn step(&self, at: Give, refund: &mut Refund, cx: &Cx) -> StepResult<Self> {
        Ok(match at {
            Give::Reserve => {
                let reserve = cx.effect("reserve").key(refund.order).idempotent();
                let reserve = reserve.costs("cents", refund.cents).undo(&Give::Unreserve { order: refund.order });
                reserve.call(async |_| Ok::<_, CallError>("reserved".to_owned())).await?;
                goto(Give::Ask)
            }
            Give::Ask => wait(Give::Pay).for_approval(
                Approval::of("refund", refund)
                    .by(role("finance"))
                    .or(person("key:ann"))
                    .escalate_after(days(1), role("cfo"))
                    .within(days(3)),
            ),
            Give::Pay => match cx.approval("refund")? {
                Decision::Approved { .. } => {
                    let pay = cx.effect("refund").key(refund.order).once().approved_by("refund", refund);
                    complete(pay.call(async |call| Ok::<_, CallError>(format!("paid {}", call.key()))).await?)
                }
                Decision::Rejected { by, reason } => {
                    return Err(StepError::terminal(format!("{by} says no: {reason}")));
                }
                Decision::Expired | Decision::Open => return Err(StepError::terminal("nobody has decided")),
            },
            Give::Unreserve { order } if refund.note == "stuck" => {
                return Err(StepError::terminal(format!("the shop has closed, with order {order}")));
            }
            Give::Unreserve { .. } => undone(),
        })
    }
}

/// Adds up, a number a step, and keeps its states.
pub(crate) struct Adder;

#[derive(Serialize, Deserialize)]
pub(crate) struct Sum {
    left: Vec<u64>,
    sum: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Add {
    Add,
}

impl Workflow for Adder {
    const NAME: &'static str = "adder";
    const KEEPS_STATES: bool = true;
    const MAX_STEPS: u64 = 20_000;
    type Input = Vec<u64>;
    type State = Sum;
    type Step = Add;
    type Output = u64;

    fn begin(&self, left: Vec<u64>) -> (Add, Sum) {
        (Add::Add, Sum { left, sum: 0 })
    }

    async fn step(&self, _: Add, sum: &mut Sum, _: &Cx) -> StepResult<Self> {
        if sum.left.is_empty() {
            return Ok(complete(sum.sum));
        }
        sum.sum += sum.left.remove(0);
        Ok(goto(Add::Add))
    }
}

/// Keeps each text of its input in a blob, and waits for an answer.
pub(crate) struct Scribe;

#[derive(Serialize, Deserialize)]
pub(crate) struct Page {
    texts: Vec<String>,
    blobs: Vec<Blob<String>>,
    /// What somebody has sent.
    sent: Value,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Script {
    Write,
    Written,
}

const READ: Signal<String> = Signal::new("read");

impl Workflow for Scribe {
    const NAME: &'static str = "scribe";
    const KEEPS_STATES: bool = true;
    type Input = (Vec<String>, Value);
    type State = Page;
    type Step = Script;
    type Output = ();

    fn begin(&self, (texts, sent): (Vec<String>, Value)) -> (Script, Page) {
        (Script::Write, Page { texts, blobs: Vec::new(), sent })
    }

    fn signals() -> Signals {
        Signals::none().and(READ)
    }

    async fn step(&self, at: Script, page: &mut Page, cx: &Cx) -> StepResult<Self> {
        Ok(match at {
            Script::Write => {
                for text in core::mem::take(&mut page.texts) {
                    page.blobs.push(cx.blob(&text).await?);
                }
                wait(Script::Written).for_signal(READ).within(hours(6))
            }
            Script::Written => complete(()),
        })
    }
}

/// One world.
pub(crate) struct Bed {
    pub(crate) memory: Arc<Memory>,
    ports: Ports,
    pub(crate) client: Client,
}

impl Bed {
    pub(crate) fn new() -> Self {
        let memory = Arc::new(Memory::new(Arc::new(SystemClock)));
        let ports = Ports {
            store: memory.clone(),
            queue: memory.clone(),
            blobs: memory.clone(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(SystemIds),
        };
        let client = Client::new(ports.clone(), registry());
        Self { memory, ports, client }
    }

    /// The API and the console before it.
    pub(crate) fn app(&self, access: Access) -> Router {
        let api = Api { client: self.client.clone(), access, site: Site::default() };
        let console = stepwell_console::router(&api);
        stepwell_http::router(api).merge(console)
    }

    pub(crate) async fn start(&self, workflow: &str, input: Value) -> RunId {
        let (workflow, input) = (WorkflowName::new(workflow).unwrap(), Json::of(&input).unwrap());
        let started = self.client.start(StartRequest { workflow, input, key: None }).await.unwrap();
        self.work().await;
        started.run
    }

    pub(crate) async fn signal(&self, run: &RunId, payload: &str) {
        let (name, payload) = (SignalName::new("answer").unwrap(), Json::of(payload).unwrap());
        self.client.signal(SignalRequest { run: run.clone(), name, payload, id: None }).await.unwrap();
        self.work().await;
    }

    /// A run that waits for an answer.
    pub(crate) async fn waiting(&self, text: &str) -> RunId {
        self.start("desk", json!({"text": text})).await
    }

    /// One that was given this answer.
    pub(crate) async fn answered(&self, text: &str, answer: &str) -> RunId {
        let run = self.waiting(text).await;
        self.signal(&run, answer).await;
        run
    }

    /// One that waits for an approval.
    pub(crate) async fn asking(&self, note: &str) -> RunId {
        self.start("cashier", json!({"order": 7, "cents": 90_000, "note": note})).await
    }

    /// One that is parked since nobody knows whether these were paid.
    pub(crate) async fn unknown(&self, whom: &str) -> RunId {
        let run = self.start("till", json!([whom])).await;
        tokio::time::sleep(PAY_DEADLINE * 2).await;
        run
    }

    /// Somebody of the finance department answers what a run asks.
    pub(crate) async fn decide(&self, run: &RunId, allows: bool, why: &str) {
        let asked: ApprovalId = self.client.get(run).await.unwrap().progress.approvals[0].id.clone();
        let reviewer = Reviewer { name: "key:fay".into(), roles: vec!["finance".into()] };
        let act = Approve { approval: asked, reviewer, allows, why: Some(why.into()) };
        self.client.approve(run, &act).await.unwrap();
        self.work().await;
    }

    /// Works until no message is there.
    pub(crate) async fn work(&self) {
        let settings = Settings { worker: WorkerId::new("w").unwrap(), rules: Rules::default() };
        let engine = Engine::new(self.ports.clone(), registry(), settings).unwrap();
        while let Some(delivery) = self.memory.receive(1, Duration::from_mins(1), Duration::ZERO).await.unwrap().pop() {
            match engine.turn(&delivery.message, &TurnTime::of(Duration::from_mins(1))).await {
                Ack::Delete => self.memory.delete(&[delivery.receipt]).await.unwrap(),
                Ack::Bury(reason) => panic!("{reason}"),
                Ack::Leave => {}
            }
        }
    }
}

fn registry() -> Arc<Registry> {
    Arc::new(Registry::new().with(Desk).with(Till).with(Cashier).with(Adder).with(Scribe))
}
