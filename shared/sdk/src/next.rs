//! How a step ends.

use core::time::Duration;

use stepwell_core::Timestamp;

use crate::approval::ApprovalRequest;
use crate::{Signal, StepError, Workflow};

/// What a step returns: where to go on, or an error.
pub type StepResult<W> = Result<Next<<W as Workflow>::Step, <W as Workflow>::Output>, StepError>;

/// Where a run goes on after a step. Made with [`goto`], [`wait`] and [`complete`].
#[derive(Debug)]
pub struct Next<S, O>(pub(crate) Kind<S, O>);

#[derive(Debug)]
pub(crate) enum Kind<S, O> {
    Goto(S),
    Wait { at: S, on: Vec<&'static str>, until: Until, ask: Option<Box<ApprovalRequest>> },
    Undone,
    Complete(O),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    Forever,
    Time(Timestamp),
    After(Duration),
}

/// Goes on with this step.
pub fn goto<S, O>(at: S) -> Next<S, O> {
    Next(Kind::Goto(at))
}

/// Ends the run with this result.
pub fn complete<S, O>(output: O) -> Next<S, O> {
    Next(Kind::Complete(output))
}

/// Ends a step that takes an effect back ([`Effect::undo`](crate::Effect::undo)): it is taken back. The run goes on with the effect
/// before it, and then ends.
pub fn undone<S, O>() -> Next<S, O> {
    Next(Kind::Undone)
}

/// Goes on with this step once a signal arrives or a time comes. Nothing runs meanwhile, however long that is.
///
/// ```
/// use stepwell::prelude::*;
/// const ANSWER: Signal<bool> = Signal::new("answer");
/// # enum At { Decide }
/// let by_signal: stepwell::Next<At, ()> = wait(At::Decide).for_signal(ANSWER).within(days(3));
/// let by_time: stepwell::Next<At, ()> = wait(At::Decide).lasting(hours(1));
/// ```
///
/// A wait for a signal has no end until one is given; "none" has to be written:
///
/// ```compile_fail,E0308
/// use stepwell::prelude::*;
/// const ANSWER: Signal<bool> = Signal::new("answer");
/// # enum At { Decide }
/// let forgotten: stepwell::Next<At, ()> = wait(At::Decide).for_signal(ANSWER);
/// ```
pub fn wait<S>(at: S) -> WaitBuilder<S> {
    WaitBuilder { at }
}

/// A wait in the making: for what?
#[must_use = "say what to wait for"]
#[derive(Debug)]
pub struct WaitBuilder<S> {
    at: S,
}

impl<S> WaitBuilder<S> {
    /// For a signal. One that has arrived before counts.
    pub fn for_signal<T>(self, signal: Signal<T>) -> WaitSignals<S> {
        WaitSignals { at: self.at, on: vec![signal.name()] }
    }

    /// For an approval: asks for it, and goes on when it is decided or has expired. [`Cx::approval`](crate::Cx::approval) then says how.
    pub fn for_approval<O>(self, asked: ApprovalRequest) -> Next<S, O> {
        Next(Kind::Wait { at: self.at, on: Vec::new(), until: Until::Forever, ask: Some(Box::new(asked)) })
    }

    /// Until this time. A time that has passed is no wait.
    pub fn until<O>(self, time: Timestamp) -> Next<S, O> {
        Next(Kind::Wait { at: self.at, on: Vec::new(), until: Until::Time(time), ask: None })
    }

    /// For this long.
    pub fn lasting<O>(self, duration: Duration) -> Next<S, O> {
        Next(Kind::Wait { at: self.at, on: Vec::new(), until: Until::After(duration), ask: None })
    }
}

/// A wait for signals in the making: until when?
#[must_use = "say until when: `within`, `until` or `without_deadline`"]
#[derive(Debug)]
pub struct WaitSignals<S> {
    at: S,
    on: Vec<&'static str>,
}

impl<S> WaitSignals<S> {
    /// Or for this signal, whichever comes first.
    pub fn or<T>(mut self, signal: Signal<T>) -> Self {
        self.on.push(signal.name());
        self
    }

    /// Or for this approval, whichever is decided or arrives first.
    pub fn or_approval<O>(self, asked: ApprovalRequest) -> Next<S, O> {
        Next(Kind::Wait { at: self.at, on: self.on, until: Until::Forever, ask: Some(Box::new(asked)) })
    }

    /// At most this long. The step then finds no signal to take.
    pub fn within<O>(self, duration: Duration) -> Next<S, O> {
        Next(Kind::Wait { at: self.at, on: self.on, until: Until::After(duration), ask: None })
    }

    /// At most until this time.
    pub fn until<O>(self, time: Timestamp) -> Next<S, O> {
        Next(Kind::Wait { at: self.at, on: self.on, until: Until::Time(time), ask: None })
    }

    /// For as long as it takes.
    pub fn without_deadline<O>(self) -> Next<S, O> {
        Next(Kind::Wait { at: self.at, on: self.on, until: Until::Forever, ask: None })
    }
}
