//! An effect whose key is unique across runs: whose it is.

use serde::de::DeserializeOwned;
use stepwell_core::{Outcome, RunId};

use crate::EffectError;
use crate::host::Claim;
use crate::known::{Known, misused};

impl Known<'_> {
    /// Makes sure that no other run makes an effect whose key is unique across runs. Answers the result if another has made it.
    pub(crate) async fn claim<T: DeserializeOwned>(&self) -> Result<Option<T>, EffectError> {
        if !self.across_runs || self.cx.host.is_cancelled() {
            return Ok(None);
        }
        let taken = |run: &RunId, how: &str| EffectError::Taken {
            name: self.name.into(),
            run: run.clone(),
            how: how.into(),
            policy: self.retry.clone(),
        };
        let (run, record) = match self.cx.host.claim(self.key).await? {
            Claim::Mine => return Ok(None),
            Claim::TakenBack { run } => return Err(taken(&run, "has made it and takes it back")),
            Claim::Of { run, record } => (run, record),
        };
        let taken = |how| taken(&run, how);
        let Some(record) = record else { return Err(taken("has not made it yet")) };
        if record.parameters != self.parameters {
            return Err(misused(self.name, format!("run {run} uses the same key with other parameters")));
        }
        match &record.outcome {
            Outcome::Succeeded(payload) => {
                let result = self.read(payload).await?;
                // It has happened, if not here: what came before a point of no return stays, and nothing of it is this run's to take
                // back or to pay.
                self.note_made_elsewhere(&record)?;
                self.cx.record().used.effects_skipped += 1;
                Ok(Some(result))
            }
            Outcome::Failed(_) => Err(taken("was refused")),
            Outcome::Unknown { .. } => Err(taken("may have made it")),
        }
    }
}
