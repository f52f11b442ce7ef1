//! Why runs end or stop as they do.

use stepwell_core::{ParkReason, Phase, Status};

use super::{Evidence, Findings, phase};
use crate::Wrong;
use crate::dice::Deploy;
use crate::tape::{Answer, Asked};

/// A run fails because the outside or a person has said so, and is cancelled because somebody has asked.
pub(super) fn ended_for_cause(evidence: &Evidence) -> Vec<Wrong> {
    let mut found = Findings::other();
    for end in &evidence.finals {
        let run = &end.checkpoint.run;
        let asked = |wanted: fn(&Asked) -> bool| {
            let mut ops = evidence.recorded.ops.iter().filter(|op| op.run == *run);
            ops.any(|op| wanted(&op.asked) && !matches!(op.answer, Answer::Refused(_)))
        };
        if phase(end) == Phase::Failed {
            let refused = evidence.recorded.calls.iter().any(|call| call.run == *run && call.refused);
            let caused = refused || asked(|asked| matches!(asked, Asked::Resolve(_, "failed")));
            found.must(caused, || format!("{run} has failed without cause: {:?}", end.checkpoint.progress.status));
        }
        if phase(end) == Phase::Cancelled {
            found.must(asked(|asked| *asked == Asked::Cancel), || format!("{run} is cancelled, and nobody asked"));
        }
    }
    found.found()
}

/// No workflow of the world outgrows a limit or loses its data, and only where processes run different code does one not know a step.
pub(super) fn parked_for_cause(evidence: &Evidence) -> Vec<Wrong> {
    let mut found = Findings::other();
    let mixed = evidence.temper.deploys.iter().any(|(_, deploy)| *deploy != Deploy::First);
    for seen in &evidence.recorded.writes {
        let was = seen.before.as_ref().map(|before| before.progress.status.phase());
        let Status::Parked { reason, .. } = &seen.after.progress.status else { continue };
        if was == Some(Phase::Parked) {
            continue;
        }
        let caused = match reason {
            ParkReason::Data { .. } | ParkReason::StepLimit { .. } | ParkReason::Budget(_) => false,
            ParkReason::Incompatible { .. } => mixed,
            ParkReason::UnknownOutcome { .. }
            | ParkReason::Poison { .. }
            | ParkReason::Undo { .. }
            | ParkReason::Paused { .. } => true,
        };
        found.must(caused, || format!("{}: it is parked at {} without cause: {reason}", seen.request.run, seen.at));
    }
    found.found()
}
