//! Requests to the client, each written down with its begin, its end and its answer: what a definite answer says has to be true.

use std::sync::Arc;

use stepwell_core::RunId;
use stepwell_engine::{Client, ClientError, Remedy};

use crate::dice::secs;
use crate::story::short;
use crate::tape::{Answer, Asked, Op, Who};
use crate::world::World;

/// Tries of one who insists; there is an answer long before, unless the engine is broken.
const TRIES: u32 = 200;

impl World {
    /// Asks once, as a process of its own that may die meanwhile.
    pub(crate) async fn ask<T>(
        &self,
        who: &Who,
        run: &RunId,
        asked: Asked,
        call: impl AsyncFn(&Client) -> Result<T, ClientError>,
        read: impl Fn(&T) -> Answer,
    ) -> Answer {
        let may_die = matches!(asked, Asked::Start | Asked::Signal(_) | Asked::Cancel | Asked::Get);
        let gate = self.client_gate(who, may_die);
        let client = self.client(who, &gate);
        let at = self.tape.now();
        let answer = match gate.fuse().while_alive(call(&client)).await {
            Some(Ok(answer)) => read(&answer),
            // Somebody else was faster, or this very request was, and its reply got lost.
            Some(Err(ClientError::MovedOn(_))) | None => Answer::Unknown,
            Some(Err(error)) => match error.remedy() {
                Remedy::Retry => Answer::Unknown,
                Remedy::FixTheInput | Remedy::CallAPerson => Answer::Refused(error.code()),
            },
        };
        self.tape.count(match &answer {
            Answer::Unknown => "requests without an answer",
            Answer::New | Answer::Again | Answer::Done | Answer::Stands(..) | Answer::Refused(_) => "requests answered",
        });
        if asked != Asked::Get {
            self.tape.tell(who, || format!("asks {} for {asked:?}: {answer:?}", short(run.as_str())));
        }
        let (until, by) = (self.tape.now(), Arc::clone(who));
        self.tape.recorded().ops.push(Op { by, run: run.clone(), asked, at, until, answer: answer.clone() });
        answer
    }

    /// Asks until there is an answer.
    pub(crate) async fn insist<T>(
        &self,
        who: &Who,
        run: &RunId,
        asked: Asked,
        call: impl AsyncFn(&Client) -> Result<T, ClientError>,
        read: impl Fn(&T) -> Answer,
    ) -> Answer {
        for _ in 0..TRIES {
            let answer = self.ask(who, run, asked.clone(), &call, &read).await;
            if answer != Answer::Unknown {
                return answer;
            }
            self.dice.pause(secs(20)).await;
        }
        Answer::Unknown
    }
}

/// Done now, or before.
pub(crate) fn new(new: bool) -> Answer {
    if new { Answer::New } else { Answer::Again }
}
