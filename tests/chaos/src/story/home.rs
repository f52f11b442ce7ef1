//! Where the runs of the story are, as each process opens it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use stepwell_core::Timestamp;
use stepwell_core::limits::PAGE_MAX;
use stepwell_engine::Ports;
use stepwell_local::{Local, OpenError, Options};
use stepwell_ports::system::{SystemClock, SystemIds};
use stepwell_ports::{Clock, QueueError};
use stepwell_testkit::broken::Broken;

/// The word for a stack on AWS, which the environment names.
pub const AWS: &str = "aws";

/// Names an engine that is broken on purpose: then the story has to fail.
pub const BROKEN: &str = "STEPWELL_CHAOS_BROKEN";

/// Where the runs are.
#[derive(Clone, Debug)]
pub enum Home {
    /// In a folder on this machine.
    Folder(PathBuf),
    /// In a stack on AWS.
    #[cfg(feature = "aws")]
    Aws(stepwell_aws::Aws),
}

/// Why it cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// The folder.
    #[error(transparent)]
    Folder(#[from] OpenError),
    /// The environment does not name the stack.
    #[cfg(feature = "aws")]
    #[error(transparent)]
    Settings(#[from] stepwell_aws::SettingsError),
    /// The dead letters.
    #[error(transparent)]
    Letters(#[from] QueueError),
    /// There is no such broken engine.
    #[error("{BROKEN} is {0}, and there is no such broken engine; there are: {known}", known = Broken::ALL.map(Broken::name).join(", "))]
    NoSuchBroken(String),
}

impl Home {
    /// As a process is told: a folder, or [`AWS`].
    ///
    /// # Errors
    /// Where the environment does not name the stack.
    #[cfg_attr(not(feature = "aws"), allow(clippy::unused_async, reason = "on AWS there is something to wait for"))]
    pub async fn read(word: &str) -> Result<Self, HomeError> {
        #[cfg(feature = "aws")]
        if word == AWS {
            return Ok(Self::Aws(stepwell_aws::Aws::connect(stepwell_aws::AwsSettings::from_env()?).await));
        }
        Ok(Self::Folder(word.into()))
    }

    /// As a process is to be told.
    pub fn word(&self) -> String {
        match self {
            Self::Folder(dir) => dir.display().to_string(),
            #[cfg(feature = "aws")]
            Self::Aws(_) => AWS.to_owned(),
        }
    }

    /// Messages that were given up, in words.
    ///
    /// # Errors
    /// Where they cannot be looked at.
    #[cfg_attr(not(feature = "aws"), allow(clippy::unused_async, reason = "on AWS there is something to wait for"))]
    pub async fn dead_letters(&self) -> Result<Vec<String>, HomeError> {
        match self {
            Self::Folder(dir) => {
                let letters = Local::open(dir, Arc::new(SystemClock), Options::default())?.dead_letters(PAGE_MAX)?;
                Ok(letters.into_iter().map(|letter| format!("{} ({})", letter.body, letter.reason)).collect())
            }
            #[cfg(feature = "aws")]
            Self::Aws(aws) => {
                let found = aws.dead_letters().receive(10, Duration::from_secs(10), Duration::from_secs(1)).await?;
                Ok(found.iter().map(|letter| format!("{:?}", letter.message)).collect())
            }
        }
    }

    /// Opens it.
    ///
    /// # Errors
    /// Where the folder cannot be opened.
    pub fn open(&self) -> Result<Ports, HomeError> {
        let (clock, ids) = (Arc::new(SystemClock), Arc::new(SystemIds));
        match self {
            Self::Folder(dir) => {
                let local = Local::open(dir, clock.clone(), Options::default())?;
                Ok(Ports { store: local.store(), queue: local.queue(), blobs: local.blobs(), clock, ids })
            }
            #[cfg(feature = "aws")]
            Self::Aws(aws) => Ok(Ports { store: aws.store(), queue: aws.queue(), blobs: aws.blobs(), clock, ids }),
        }
    }
}

/// The broken engine that [`BROKEN`] names, if it names one.
///
/// # Errors
/// Where there is none of that name.
pub fn broken() -> Result<Option<Broken>, HomeError> {
    let Some(name) = std::env::var(BROKEN).ok().filter(|name| !name.is_empty()) else { return Ok(None) };
    Broken::by_name(&name).map(Some).ok_or(HomeError::NoSuchBroken(name))
}

/// These ports, or what the broken engine that [`BROKEN`] names makes of them. For the processes, never for who looks at the end.
///
/// # Errors
/// Where it names none.
pub fn as_told(ports: Ports) -> Result<Ports, HomeError> {
    let Some(broken) = broken()? else { return Ok(ports) };
    let Ports { store, queue, blobs, clock, ids } = ports;
    Ok(Ports { store: broken.store(store), queue: broken.queue(queue), blobs: broken.blobs(blobs), clock, ids })
}

/// A clock that is ahead: what a sweeper sees that comes this much later.
pub(super) struct Ahead(pub(super) Duration);

#[async_trait::async_trait]
impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        SystemClock.now().plus(self.0)
    }

    async fn sleep(&self, duration: Duration) {
        SystemClock.sleep(duration).await;
    }
}
