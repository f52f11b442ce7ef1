//! Workflows to have runs of: one that comes to each status as it is told, and one that knows whatever it is told.

use std::sync::Arc;

use serde_json::Value;
use stepwell::Registry;
use stepwell::prelude::*;

const ANSWER: Signal<String> = Signal::new("answer");

/// How long a payment may be on its way.
pub(crate) const PAY_DEADLINE: Duration = Duration::from_secs(30);

pub(crate) fn registry() -> Arc<Registry> {
    Arc::new(Registry::new().with(Desk).with(Notes))
}

/// Does what its input says.
struct Desk;

/// What a run of [`Desk`] is to come to.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum What {
    Wait,
    Ask,
    Pay,
    Fail,
    Stuck,
    End,
}

#[derive(Serialize, Deserialize)]
struct Case {
    what: What,
    text: String,
}

#[derive(Serialize, Deserialize)]
enum At {
    Open,
    Do,
    Answered,
    Decided,
    Close { what: String },
}

impl Workflow for Desk {
    const NAME: &'static str = "desk";
    const MAX_STEPS: u64 = 20;
    const KEEPS_STATES: bool = true;
    type Input = Case;
    type State = Case;
    type Step = At;
    type Output = String;

    fn begin(&self, input: Case) -> (At, Case) {
        (At::Open, input)
    }

    fn signals() -> Signals {
        Signals::none().and(ANSWER)
    }

    fn budget() -> Budget {
        Budget::none().of_run("cents", 1_000).attempts(20)
    }

    async fn step(&self, at: At, case: &mut Case, cx: &Cx) -> StepResult<Self> {
        Ok(match (at, case.what) {
            (At::Open, _) => {
                let open = cx.effect("open").key("desk").idempotent().costs("cents", 10);
                let open = open.undo(&At::Close { what: "desk".into() });
                open.call(async |_| Ok::<_, CallError>("opened".to_owned())).await?;
                goto(At::Do)
            }
            (At::Do, What::Wait) => wait(At::Answered).for_signal(ANSWER).without_deadline(),
            (At::Do, What::Ask) => {
                let asked = Approval::of("refund", &case.text).by(role("finance")).or(person("bea@example.org"));
                wait(At::Decided).for_approval(asked.by_link().within(days(3)))
            }
            (At::Do, What::Pay) => {
                let pay = cx.effect("pay").key("order-7").once().deadline(PAY_DEADLINE);
                pay.call(async |_| Err::<(), _>(CallError::unknown("the line broke"))).await?;
                complete("paid".into())
            }
            (At::Do, What::Fail | What::Stuck) => return Err(StepError::terminal("the desk is closed")),
            (At::Do, What::End) => complete(case.text.clone()),
            (At::Answered, _) => {
                case.text = cx.take(ANSWER).await?.unwrap_or_default();
                complete(case.text.clone())
            }
            (At::Decided, _) => match cx.approval("refund")? {
                Decision::Approved { .. } => complete("approved".into()),
                Decision::Open | Decision::Rejected { .. } | Decision::Expired => {
                    return Err(StepError::terminal("not approved"));
                }
            },
            (At::Close { what }, What::Stuck) => return Err(StepError::terminal(format!("{what} is stuck"))),
            (At::Close { .. }, _) => undone(),
        })
    }
}

/// Waits, and knows any JSON.
struct Notes;

#[derive(Serialize, Deserialize)]
enum Read {
    Wait,
    Read,
}

impl Workflow for Notes {
    const NAME: &'static str = "notes";
    const KEEPS_STATES: bool = true;
    type Input = Value;
    type State = Value;
    type Step = Read;
    type Output = Value;

    fn begin(&self, input: Value) -> (Read, Value) {
        (Read::Wait, input)
    }

    fn signals() -> Signals {
        Signals::none().and(ANSWER)
    }

    async fn step(&self, at: Read, notes: &mut Value, _: &Cx) -> StepResult<Self> {
        Ok(match at {
            Read::Wait => wait(Read::Read).for_signal(ANSWER).without_deadline(),
            Read::Read => complete(notes.clone()),
        })
    }
}
