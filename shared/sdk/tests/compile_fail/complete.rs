//! What the other programs here would be, with nothing forgotten.
use stepwell::prelude::*;

const APPROVAL: Signal<bool> = Signal::new("approval");

struct Brief;

#[derive(Serialize, Deserialize)]
enum At {
    Draft,
    Decide,
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
            At::Decide => complete(cx.effect("fetch").read().call(|_| fetch("https://example.com")).await?),
        })
    }
}

async fn fetch(url: &str) -> Result<String, CallError> {
    Ok(url.to_string())
}

fn main() {
    let _registry = Registry::new().with(Brief);
}
