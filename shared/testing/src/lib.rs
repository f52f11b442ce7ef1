//! # stepwell-testing: what an author tests a workflow with
//!
//! **What lives here:** the crash matrix of a user's own workflow ([`crash_everywhere`]): its run is played without faults, then again
//! in a fresh world for each fault at each call that its worker makes, and what reached the outside how often is counted by effect;
//! and a small [`World`] in memory whose time jumps, to drive one run by hand.
//!
//! **What must not live here:** faults and doubles of ports (they are the testkit's), anything that a workflow itself needs (that is
//! the SDK's), and any decision about a run: all of it is the engine's, as in production.
//!
//! ```
//! use stepwell::prelude::*;
//! use stepwell_testing::crash_everywhere;
//!
//! /// The outside: here a list in memory, in your tests whatever you call.
//! #[derive(Default)]
//! struct Press { printed: std::sync::Mutex<Vec<String>> }
//!
//! impl Press {
//!     async fn print(&self, key: &str) -> Result<u32, std::io::Error> {
//!         let mut printed = self.printed.lock().unwrap();
//!         if !printed.iter().any(|before| before == key) {
//!             printed.push(key.to_owned());
//!         }
//!         Ok(7)
//!     }
//! }
//!
//! #[derive(Serialize, Deserialize)]
//! enum At { Print }
//!
//! struct Poster { press: Press }
//!
//! impl Workflow for Poster {
//!     const NAME: &'static str = "poster";
//!     type Input = String;
//!     type State = String;
//!     type Step = At;
//!     type Output = u32;
//!
//!     fn begin(&self, title: String) -> (At, String) {
//!         (At::Print, title)
//!     }
//!
//!     async fn step(&self, At::Print: At, title: &mut String, cx: &Cx) -> StepResult<Self> {
//!         let print = cx.effect("print").key(&*title).idempotent();
//!         Ok(complete(print.call(|call| self.press.print(call.key())).await?))
//!     }
//! }
//!
//! let report = crash_everywhere(|| Poster { press: Press::default() })
//!     .input("spring")
//!     .check(|poster| match poster.press.printed.lock().unwrap().len() {
//!         1 => Ok(()),
//!         posters => Err(format!("{posters} posters were printed")),
//!     })
//!     .run()?;
//! println!("{report}");
//! report.assert_no_surprises();
//! // Its worker has died between the press and the commit, and it was printed again, under the same key.
//! assert_eq!(report.effect("print").unwrap().most, 2);
//! # Ok::<(), stepwell_testing::CrashTestError>(())
//! ```
//!
//! What is seen of an effect is what its author says of it: its key, and its parameters where they were given
//! [`with`](stepwell::Effect::with). What a closure sends beside them shows in the result, or in what [`CrashTest::check`] finds.

mod bed;
mod calls;
mod crash;
mod error;
mod fault;
mod judge;
mod person;
mod report;
mod world;

pub use crash::{CrashTest, crash_everywhere, crash_registered};
pub use error::{CrashTestError, WorldError};
pub use fault::Fault;
pub use person::{Rest, Unknown};
pub use report::{EffectRow, FaultRow, Question, Report, Surprise};
pub use stepwell_core::decide::Resolution;
pub use world::World;

/// What a person says who has seen that an effect has happened, and what it answered.
///
/// ```
/// # use stepwell_testing::{Resolution, happened};
/// assert!(matches!(happened(&"receipt-7"), Resolution::Succeeded(_)));
/// ```
pub fn happened<T: serde::Serialize>(answer: &T) -> Resolution {
    // What cannot be written as JSON cannot have been an answer.
    let problem = |error| Resolution::Failed(format!("the answer cannot be written as JSON: {error}"));
    stepwell_core::Json::of(answer)
        .map_or_else(problem, |answer| Resolution::Succeeded(stepwell_core::Payload::Inline(answer)))
}
