//! What the environment says. All that is wrong with it is told at once.

use core::time::Duration;
use std::env;

use stepwell_aws::AwsSettings;
use stepwell_core::decide::Rules;
use stepwell_http::Access;

/// How long a lease lasts, in whole seconds; optional.
const LEASE_VARIABLE: &str = "STEPWELL_LEASE_SECONDS";

/// Who may use the API: `name=<SHA-256 of the key>`, or `name:role+role=<…>`, apart by commas; optional.
const KEYS_VARIABLE: &str = "STEPWELL_API_KEYS";

/// Seconds that a lease may last. A shorter one is renewed all the time; a longer one keeps a run whose holder died.
const LEASE_SECONDS: core::ops::RangeInclusive<u64> = 5..=900;

/// What every function needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) aws: AwsSettings,
    pub(crate) rules: Rules,
}

/// What the variable of this name says, if it is there and says anything.
pub(crate) fn environment(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}

impl Settings {
    /// As this lookup says. What is wrong is added to `problems`.
    pub(crate) fn read(lookup: impl Fn(&str) -> Option<String>, problems: &mut Vec<String>) -> Option<Self> {
        let aws = AwsSettings::from_lookup(&lookup).map_err(|error| problems.push(error.to_string())).ok();
        let lease = lease(lookup(LEASE_VARIABLE)).map_err(|problem| problems.push(problem)).ok();
        Some(Self { aws: aws?, rules: Rules { lease: lease?, ..Rules::default() } })
    }
}

fn lease(value: Option<String>) -> Result<Duration, String> {
    let Some(value) = value else { return Ok(Rules::default().lease) };
    match value.trim().parse() {
        Ok(seconds) if LEASE_SECONDS.contains(&seconds) => Ok(Duration::from_secs(seconds)),
        Ok(_) | Err(_) => {
            let (least, most) = LEASE_SECONDS.into_inner();
            Err(format!("{LEASE_VARIABLE} is {value:?}: give whole seconds, {least} to {most}"))
        }
    }
}

/// Whose keys open the API. What is wrong is added to `problems`.
pub(crate) fn access(lookup: impl Fn(&str) -> Option<String>, problems: &mut Vec<String>) -> Option<Access> {
    let Some(keys) = lookup(KEYS_VARIABLE) else { return Some(Access::none()) };
    Access::from_text(&keys).map_err(|error| problems.push(format!("{KEYS_VARIABLE}: {error}"))).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn complete(name: &str) -> Option<String> {
        let optional = [LEASE_VARIABLE, KEYS_VARIABLE, stepwell_aws::KMS_KEY_VARIABLE];
        (!optional.contains(&name)).then(|| format!("value of {name}"))
    }

    fn with(value: &str) -> impl Fn(&str) -> Option<String> {
        move |name| if name == LEASE_VARIABLE { Some(value.to_owned()) } else { complete(name) }
    }

    #[test]
    fn what_is_needed_is_read_and_the_rest_has_defaults() {
        let mut problems = Vec::new();
        let settings = Settings::read(complete, &mut problems).unwrap();
        assert_eq!((settings.rules, settings.aws.kms_key), (Rules::default(), None));
        assert_eq!(settings.aws.table, "value of STEPWELL_TABLE");
        let settings = Settings::read(with("45"), &mut problems).unwrap();
        assert_eq!(settings.rules.lease, Duration::from_secs(45));
        assert!(access(complete, &mut problems).is_some());
        assert_eq!(problems, Vec::<String>::new());
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let lookup = |name: &str| match name {
            LEASE_VARIABLE => Some("half a minute".into()),
            KEYS_VARIABLE => Some("ann".into()),
            _ => None,
        };
        let mut problems = Vec::new();
        assert_eq!(Settings::read(lookup, &mut problems), None);
        assert!(access(lookup, &mut problems).is_none());
        let told = problems.join("; ");
        for named in ["STEPWELL_TABLE", "STEPWELL_QUEUE_URL", "STEPWELL_BUCKET", LEASE_VARIABLE, KEYS_VARIABLE] {
            assert!(told.contains(named), "{named}: {told}");
        }
    }

    #[test]
    fn a_lease_has_to_be_a_sensible_number() {
        for value in ["4", "901", "-1", "30s", "9999999999999999999999"] {
            let mut problems = Vec::new();
            assert_eq!(Settings::read(with(value), &mut problems), None, "{value}");
            assert_eq!(problems.len(), 1);
        }
    }
}
