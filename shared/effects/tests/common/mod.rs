//! The engine's side of one step, as small as it can be: it never stands in the way of a call.
#![allow(clippy::unwrap_used, reason = "a helper of tests: its panic is the report")]

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use stepwell::host::{
    BlobRef, Claim, EffectKey, EffectRecord, Host, HostError, Intent, Json, LogId, Reached, Visit, Visiting,
    WorkflowName,
};
use stepwell::{Cx, EffectError, RunId, Timestamp};

/// Time is real: so are the servers.
struct Unhindered;

#[async_trait]
impl Host for Unhindered {
    fn now(&self) -> Timestamp {
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap();
        Timestamp(u64::try_from(since.as_millis()).unwrap())
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    async fn hold_until(&self, _: Timestamp) -> Result<(), HostError> {
        Ok(())
    }

    async fn intend(&self, _: Vec<EffectRecord>, _: &EffectKey, _: Timestamp) -> Result<Intent, HostError> {
        Ok(Intent::Written)
    }

    async fn claim(&self, _: &EffectKey) -> Result<Claim, HostError> {
        Ok(Claim::Mine)
    }

    fn is_cancelled(&self) -> bool {
        false
    }

    async fn put_blob(&self, _: Vec<u8>) -> Result<BlobRef, HostError> {
        Err(HostError::Passing("no step here has blobs".into()))
    }

    async fn get_blob(&self, _: &BlobRef) -> Result<Vec<u8>, HostError> {
        Err(HostError::Passing("no step here has blobs".into()))
    }

    async fn read_log(&self, _: LogId, _: u64, _: u64) -> Result<Vec<Json>, HostError> {
        Err(HostError::Passing("no step here has logs".into()))
    }

    async fn find_effect(&self, _: &EffectKey) -> Result<Option<EffectRecord>, HostError> {
        Ok(None)
    }
}

/// The context of an attempt that finds this journal.
pub(crate) fn attempt(journal: Vec<EffectRecord>) -> Cx {
    let visiting = Visiting {
        run: RunId::new("r").unwrap(),
        workflow: WorkflowName::new("shop").unwrap(),
        visit: Visit(1),
        failed_attempts: 0,
        earlier_try: None,
        letters: Vec::new(),
        journal,
        ledger: Vec::new(),
        has_spilled: false,
        logs: 0,
        approvals: Vec::new(),
        undoing: None,
        undo_count: 0,
        counts_effects: false,
        reached: Reached::Park,
    };
    Cx::new(visiting, Arc::new(Unhindered))
}

/// What the step learns of a call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Learnt {
    NotDone(String),
    Refused(String),
    Unknown(String),
    /// Of class `once`: a person is asked.
    Unsettled,
}

impl Learnt {
    pub(crate) fn from(error: &EffectError) -> Self {
        let code = |code: &Option<String>| code.clone().unwrap_or_default();
        match error {
            EffectError::NotDone { code: known, .. } => Self::NotDone(code(known)),
            EffectError::Refused { code: known, .. } => Self::Refused(code(known)),
            EffectError::Unknown { code: known, .. } => Self::Unknown(code(known)),
            EffectError::Unsettled(_) => Self::Unsettled,
            other => panic!("no call was made: {other}"),
        }
    }
}
