//! What persons do to the run of the tiny world: pause it, edit it, move it, give it up, try it again, at any moment.

use stepwell_core::decide::{Pause, Repair, discard, edit, move_to, pause, retry, wake};
use stepwell_core::mailbox::PAUSE;
use stepwell_core::write::{Refusal, Write};
use stepwell_core::{Json, Letter};

use super::{World, Wrong};
use crate::make;
use crate::make::dice::Dice;

impl World {
    /// Asks for a pause. Between the letter and what parks the run anything may happen; with a sweeper, whoever asks may die there.
    pub(super) fn pause(&mut self, dice: &mut Dice) -> Result<(), Wrong> {
        self.park(dice)?;
        let act = Pause { by: "ann".into(), why: None };
        let id = format!("p{}", dice.pick(8));
        let letter = Letter { payload: act.payload().unwrap(), ..make::letter(&id, PAUSE) };
        let request = self.request(Write::Signal(Box::new(letter)));
        if !matches!(self.write(&request)?, Ok(_) | Err(Refusal::Duplicate))
            || (self.settings.sweeper && dice.pick(3) == 0)
        {
            return Ok(());
        }
        self.parks = pause(&self.run, self.now).map_err(|refused| refused.to_string())?;
        match self.parks {
            Some(_) if dice.pick(2) == 0 => Ok(()),
            Some(_) => self.park(dice),
            None => {
                self.send_from_outside(wake(&self.run, self.now), dice);
                Ok(())
            }
        }
    }

    /// Writes what parks the run, if it is still as it was. Else a worker was faster, and finds the letter.
    pub(super) fn park(&mut self, dice: &mut Dice) -> Result<(), Wrong> {
        let Some(amend) = self.parks.take() else { return Ok(()) };
        let request = self.request(Write::Amend(Box::new(amend)));
        if self.write(&request)?.is_err() {
            self.send_from_outside(wake(&self.run, self.now), dice);
        }
        Ok(())
    }

    pub(super) fn repair(&mut self, dice: &mut Dice) -> Result<(), Wrong> {
        let act = Repair { at: self.run.progress.revision, by: "ann".into(), why: "so".into() };
        let (run, now) = (&self.run, self.now);
        let state = make::inline(&serde_json::json!({"n": dice.pick(9)}));
        let decided = match dice.pick(5) {
            0 => edit(run, state, None, &act, now).ok().map(|amend| (amend, None)),
            1 => move_to(run, Json::of("Moved").unwrap(), &act, now).ok().map(|amend| (amend, None)),
            2 => discard(run, &act, now).ok().map(|amend| (amend, None)),
            _ => retry(run, "ann", None, now).ok().map(|(amend, send)| (amend, Some(send))),
        };
        let Some((amend, send)) = decided else { return Ok(()) };
        let request = self.request(Write::Amend(Box::new(amend)));
        if self.write(&request)?.is_ok() {
            self.send_from_outside(send, dice);
        }
        Ok(())
    }
}
