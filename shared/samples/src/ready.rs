//! Ready-made inputs: what to start a sample with to see a run stand so, and what a person can do about it then.
//!
//! `stepwell dev --help` lists them, and `stepwell dev` starts those that [`Ready::is_shown`].

use stepwell::Workflow as _;

use crate::brief::CompetitiveBrief;
use crate::countdown::Countdown;
use crate::hello::Greeter;
use crate::parcel::Parcels;
use crate::refund::Refunds;

/// An input, and where a run with it comes to.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// Of which workflow.
    pub workflow: &'static str,
    /// The input, as JSON.
    pub input: &'static str,
    /// Where a run with it comes to.
    pub leads_to: &'static str,
    /// What a person can do then.
    pub then: &'static str,
    /// Whether `stepwell dev` starts it by itself.
    pub is_shown: bool,
}

/// All of them, the one first that waits for an approval.
pub const INPUTS: [Ready; 8] = [
    Ready {
        workflow: Refunds::NAME,
        input: r#"{"order": "sofa-90000", "reason": "arrived broken"}"#,
        leads_to: "waits for an approval by role finance",
        then: "approve it and it completes, or reject it and it fails",
        is_shown: true,
    },
    Ready {
        workflow: Parcels::NAME,
        input: r#"{"order": "lamp-4500", "town": "Farhaven", "grams": 1200}"#,
        leads_to: "is parked with an unknown effect: the carrier's answer was lost",
        then: r#"resolve it as succeeded with {"pickup": "pickup-1"}, or try again (that books a second van)"#,
        is_shown: true,
    },
    Ready {
        workflow: Parcels::NAME,
        input: r#"{"order": "vase-3000", "town": "Tarnwick", "grams": 120000}"#,
        leads_to: "is parked over its budget: the weight has two zeros too many",
        then: r#"edit it with [{"op": "replace", "path": "/grams", "value": 1200}] and resume it"#,
        is_shown: true,
    },
    Ready {
        workflow: Parcels::NAME,
        input: r#"{"order": "desk-40000", "town": "Fernpass", "grams": 900}"#,
        leads_to: "fails after three attempts: the road is closed",
        then: "retry it: the road is open by then",
        is_shown: true,
    },
    Ready {
        workflow: CompetitiveBrief::NAME,
        input: r#"{"goal": "choose a tool that reads our invoices", "vendors": ["velloria", "tarnwick"], "to": "board@example.com"}"#,
        leads_to: "waits for the signal approval",
        then: r#"send it {"approved": true, "by": "you"}, pause it, or cancel it"#,
        is_shown: true,
    },
    Ready {
        workflow: Greeter::NAME,
        input: r#"{"name": "Ada"}"#,
        leads_to: "completes after a second",
        then: "look at its steps and its result",
        is_shown: true,
    },
    Ready {
        workflow: Refunds::NAME,
        input: r#"{"order": "yacht-500000", "reason": "too long"}"#,
        leads_to: "waits for an approval, and is parked over its budget once it is given",
        then: "cancel it: what it holds is let go first",
        is_shown: false,
    },
    Ready {
        workflow: Countdown::NAME,
        input: r#"{"from": 20000}"#,
        leads_to: "completes after 20000 steps, half a minute or so",
        then: "watch it live, and pause it on the way",
        is_shown: false,
    },
];

#[cfg(test)]
mod tests {
    use stepwell::host::{Json, WorkflowName};

    use super::*;

    #[test]
    fn each_fits_its_workflow() {
        let registry = crate::registry(&crate::Outside::default()).unwrap();
        for Ready { workflow, input, .. } in INPUTS {
            let hosted = registry.get(&WorkflowName::new(workflow).unwrap()).unwrap();
            hosted.check_input(&Json::from_text(input.to_owned()).unwrap()).unwrap();
        }
    }
}
