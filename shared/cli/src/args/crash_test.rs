//! The arguments of a crash test.

use clap::Args;
use stepwell_core::{SignalName, WorkflowName};

const EXAMPLE: &str = r#"Examples:
  stepwell crash-test hello --input '{"name": "Ada"}'
  stepwell crash-test refund --input '{"order": "sofa-90000", "reason": "broken"}' --approve
  stepwell crash-test competitive-brief --input @brief.json --signal approval='{"approved": true, "by": "you"}' --ignore /duplicate"#;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct CrashTest {
    /// Of which workflow
    pub(crate) workflow: WorkflowName,
    /// The input: JSON, @FILE, or - for stdin [default: null]
    #[arg(long, value_name = "JSON")]
    pub(crate) input: Option<String>,
    /// A signal that is sent once the run waits for it: JSON or @FILE; give it again for the next one
    #[arg(long = "signal", value_name = "NAME=JSON", value_parser = signal)]
    pub(crate) signals: Vec<(SignalName, String)>,
    /// Give whatever approval the run asks for; without this nobody answers
    #[arg(long)]
    pub(crate) approve: bool,
    /// A part of the result that may differ from world to world, such as /duplicate; give it again for each
    #[arg(long = "ignore", value_name = "POINTER")]
    pub(crate) ignored: Vec<String>,
    /// Let something go wrong at this many calls of the worker at most, spread evenly
    #[arg(long, value_name = "CALLS", default_value_t = 500, value_parser = super::at_least_one)]
    pub(crate) at_most: usize,
}

fn signal(text: &str) -> Result<(SignalName, String), String> {
    let (name, payload) =
        text.split_once('=').ok_or("give a name and what it says, as in approval='{\"approved\": true}'")?;
    let name = SignalName::new(name).map_err(|error| error.to_string())?;
    Ok((name, payload.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_a_name_and_what_it_says() {
        let (name, payload) = signal(r#"approval={"why": "a=b"}"#).unwrap();
        assert_eq!((name.as_str(), payload.as_str()), ("approval", r#"{"why": "a=b"}"#));
        assert!(signal("approval").is_err() && signal("=1").is_err());
    }
}
