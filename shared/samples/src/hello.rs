//! The smallest workflow with a pause in it: it greets, sleeps for a second without a worker, and takes its leave.

use stepwell::prelude::*;

/// Whom to greet: the input.
#[derive(Debug, Serialize, Deserialize)]
pub struct Greet {
    /// The name.
    pub name: String,
}

/// What the run knows.
#[derive(Debug, Serialize, Deserialize)]
pub struct Hello {
    name: String,
    said: Vec<String>,
}

/// Where the run stands.
#[derive(Debug, Serialize, Deserialize)]
pub enum At {
    /// Says hello, then waits.
    Greet,
    /// Says goodbye.
    Leave,
}

/// The workflow `hello`. Its result is what was said, line by line.
#[derive(Clone, Copy, Debug)]
pub struct Greeter;

impl Workflow for Greeter {
    const NAME: &'static str = "hello";
    type Input = Greet;
    type State = Hello;
    type Step = At;
    type Output = Vec<String>;

    fn begin(&self, Greet { name }: Greet) -> (At, Hello) {
        (At::Greet, Hello { name, said: Vec::new() })
    }

    async fn step(&self, at: At, hello: &mut Hello, _cx: &Cx) -> StepResult<Self> {
        let name = &hello.name;
        Ok(match at {
            At::Greet => {
                hello.said.push(format!("Hello, {name}."));
                wait(At::Leave).lasting(seconds(1))
            }
            At::Leave => {
                hello.said.push(format!("Goodbye, {name}."));
                complete(std::mem::take(&mut hello.said))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::drive::{Drive, Stop};

    #[tokio::test]
    async fn it_greets_waits_a_second_and_takes_its_leave() {
        let mut run = Drive::start(&Registry::new().with(Greeter), "hello", &json!({"name": "Ada"}));
        assert_eq!(run.go().await, Stop::Sleeps(seconds(1)));
        assert_eq!(run.go().await, Stop::Completed(json!(["Hello, Ada.", "Goodbye, Ada."])));
        assert_eq!(run.steps(), ["Greet", "Leave"]);
    }
}
