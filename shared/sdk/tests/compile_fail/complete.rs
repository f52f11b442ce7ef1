//! What the other programs here would be, with nothing forgotten.
use stepwell::prelude::*;

const APPROVAL: Signal<bool> = Signal::new("approval");

struct Brief;

#[derive(Serialize, Deserialize)]
enum At {
    Draft,
    Ask,
    Decide,
    Unreserve,
}

impl Workflow for Brief {
    const NAME: &'static str = "brief";
    type Input = ();
    type State = ();
    type Step = At;
    type Output = String;

    fn begin(&self, (): ()) -> (At, ()) {
        (At::Draft, ())
    }

    async fn step(&self, at: At, (): &mut (), cx: &Cx) -> StepResult<Self> {
        Ok(match at {
            At::Draft => wait(At::Decide).for_signal(APPROVAL).without_deadline(),
            At::Ask => wait(At::Decide).for_approval(Approval::of("refund", &7).by(role("finance")).within(days(3))),
            At::Unreserve => undone(),
            At::Decide => {
                let seat = cx.effect("seat").key(7).across_runs().idempotent().undo(&At::Unreserve);
                seat.call(async |_| Ok::<_, CallError>(())).await?;
                cx.effect("letter").key(7).once().call(async |_| Ok::<_, CallError>(())).await?;
                complete(cx.effect("fetch").read().call(|_| fetch("https://example.com")).await?)
            }
        })
    }
}

async fn fetch(url: &str) -> Result<String, CallError> {
    Ok(url.to_string())
}

fn main() {
    let _registry = Registry::new().with(Brief);
}
