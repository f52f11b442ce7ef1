//! The words that a person reads where something is refused: what, where, and what to do.

use stepwell::RegistryProblem;
use stepwell_core::{Revision, RunId, WorkflowName};
use stepwell_engine::{ClientError, EngineError, Remedy};

#[test]
fn a_registry_that_cannot_be_used_is_told_with_all_its_problems() {
    let twice = RegistryProblem::Twice(WorkflowName::new("brief").unwrap());
    let signal = RegistryProblem::SignalTwice { workflow: "refund", signal: "go" };
    assert_eq!(
        EngineError::Registry(vec![twice, signal]).to_string(),
        "the registry cannot be used: two workflows are registered under the name brief: rename one of them; \
         workflow refund accepts two signals named go: rename one of them"
    );
}

#[test]
fn a_state_that_was_not_kept_is_told_from_one_that_is_yet_to_come() {
    let told = |revision: u64| {
        let (revision, newest) = (Revision(revision), Revision(7));
        ClientError::NotKept { run: RunId::new("r").unwrap(), revision, newest }.to_string()
    };
    for was in [6, 7] {
        let words = "its workflow keeps no states, or a step changed too much";
        assert_eq!(told(was), format!("run r is at revision 7: what it knew at revision {was} was not kept: {words}"));
    }
    assert_eq!(told(8), "run r is at revision 7: it has not come to revision 8 yet");
}

#[test]
fn what_can_be_done_has_a_word_each() {
    let words = [Remedy::Retry, Remedy::FixTheInput, Remedy::CallAPerson].map(Remedy::as_str);
    assert_eq!(words, ["retry", "fix-the-input", "call-a-person"]);
}
