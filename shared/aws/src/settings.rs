//! The names of what was made for this backend, and where they come from.

use std::env;

/// The names of what was made for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsSettings {
    /// The table.
    pub table: String,
    /// URL of the queue of messages.
    pub queue_url: String,
    /// URL of its dead-letter queue.
    pub dead_letter_url: String,
    /// The bucket of blobs.
    pub bucket: String,
    /// ARN of the key that blobs are encrypted with; the bucket's own setting where there is none.
    pub kms_key: Option<String>,
}

/// Settings that are not there. Set the variables: the stack's outputs have their values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    /// The variables that are missing or empty.
    pub missing: Vec<&'static str>,
}

impl core::fmt::Display for SettingsError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let missing = self.missing.join(", ");
        write!(
            f,
            "not set: {missing}; they name the table, the queues and the bucket, and the stack's outputs have them"
        )
    }
}

impl std::error::Error for SettingsError {}

/// The variable that names the table.
pub const TABLE_VARIABLE: &str = "STEPWELL_TABLE";
/// The variable with the queue's URL.
pub const QUEUE_VARIABLE: &str = "STEPWELL_QUEUE_URL";
/// The variable with the dead-letter queue's URL.
pub const DEAD_LETTER_VARIABLE: &str = "STEPWELL_DEAD_LETTER_URL";
/// The variable that names the bucket.
pub const BUCKET_VARIABLE: &str = "STEPWELL_BUCKET";
/// The variable with the ARN of the key for blobs; it may be missing.
pub const KMS_KEY_VARIABLE: &str = "STEPWELL_KMS_KEY";

impl AwsSettings {
    /// As this process's environment says: `STEPWELL_TABLE`, `STEPWELL_QUEUE_URL`, `STEPWELL_DEAD_LETTER_URL`,
    /// `STEPWELL_BUCKET`, and `STEPWELL_KMS_KEY` where blobs have a key of their own.
    ///
    /// # Errors
    /// With the names of all variables that are missing.
    pub fn from_env() -> Result<Self, SettingsError> {
        Self::from_lookup(|name| env::var(name).ok())
    }

    /// As this lookup says, which is asked for each variable of [`AwsSettings::from_env`].
    ///
    /// # Errors
    /// With the names of all variables that are missing.
    ///
    /// # Examples
    /// ```
    /// use stepwell_aws::AwsSettings;
    ///
    /// let missing = AwsSettings::from_lookup(|name| (name != "STEPWELL_BUCKET").then(|| "x".into())).unwrap_err();
    /// assert_eq!(missing.missing, ["STEPWELL_BUCKET"]);
    /// ```
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        let mut missing = Vec::new();
        let known = |name: &str| lookup(name).filter(|value| !value.is_empty());
        let mut needed = |name| {
            known(name).unwrap_or_else(|| {
                missing.push(name);
                String::new()
            })
        };
        let settings = Self {
            table: needed(TABLE_VARIABLE),
            queue_url: needed(QUEUE_VARIABLE),
            dead_letter_url: needed(DEAD_LETTER_VARIABLE),
            bucket: needed(BUCKET_VARIABLE),
            kms_key: known(KMS_KEY_VARIABLE),
        };
        if missing.is_empty() { Ok(settings) } else { Err(SettingsError { missing }) }
    }
}
