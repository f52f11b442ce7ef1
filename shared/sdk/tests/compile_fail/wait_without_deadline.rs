//! `.without_deadline()`, or a time, is missing.
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
    type Output = ();

    fn begin(&self, (): ()) -> (At, ()) {
        (At::Draft, ())
    }

    async fn step(&self, at: At, (): &mut (), _cx: &Cx) -> StepResult<Self> {
        Ok(match at {
            At::Draft => wait(At::Decide).for_signal(APPROVAL),
            At::Decide => complete(()),
        })
    }
}

fn main() {}
