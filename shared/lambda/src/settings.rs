//! What the environment says. All that is wrong with it is told at once.

use core::time::Duration;
use std::env;
use std::sync::Arc;

use stepwell_aws::AwsSettings;
use stepwell_core::decide::Rules;
use stepwell_core::limits::ROLES_MAX;
use stepwell_core::link::LinkKeys;
use stepwell_http::jwt::{Issuer, JwtTokens};
use stepwell_http::{Access, is_role};

use crate::jwks::Jwks;

/// How long a lease lasts, in whole seconds; optional.
const LEASE_VARIABLE: &str = "STEPWELL_LEASE_SECONDS";

/// Who may use the API: `name:role+role=<SHA-256 of the key>`, apart by commas; optional.
const KEYS_VARIABLE: &str = "STEPWELL_API_KEYS";

/// What signs links and sessions: `id=<hexadecimal digits>`, apart by commas, the one that signs first; optional.
const LINK_KEYS_VARIABLE: &str = "STEPWELL_LINK_KEYS";

/// Whose tokens are taken, for whom they have to be, and where the keys are that have signed them: all or none.
const ISSUER_VARIABLES: [&str; 3] = ["STEPWELL_JWT_ISSUER", "STEPWELL_JWT_AUDIENCE", "STEPWELL_JWKS_URL"];

/// Which claim of a token has the roles; optional.
const CLAIM_VARIABLE: &str = "STEPWELL_JWT_ROLES_CLAIM";

/// What roles for this API begin with in a token; optional.
const PREFIX_VARIABLE: &str = "STEPWELL_JWT_ROLES_PREFIX";

/// The roles of whoever signs requests for AWS, apart by `+`; optional.
const IAM_VARIABLE: &str = "STEPWELL_IAM_ROLES";

/// Where the outside finds the API, if not at the function's own address; optional.
const BASE_URL_VARIABLE: &str = "STEPWELL_BASE_URL";

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

/// Who may use the API, and how it is reached.
#[derive(Default)]
pub(crate) struct Doors {
    pub(crate) access: Access,
    pub(crate) iam_roles: Vec<String>,
    pub(crate) base_url: Option<String>,
}

impl Doors {
    /// As this lookup says. What is wrong is added to `problems`, and repeats no secret.
    pub(crate) fn read(lookup: impl Fn(&str) -> Option<String>, problems: &mut Vec<String>) -> Option<Self> {
        let before = problems.len();
        let access = access(&lookup, problems);
        let roles = lookup(IAM_VARIABLE).unwrap_or_else(|| "admin".into());
        let iam_roles: Vec<String> = roles.trim().split('+').map(str::to_owned).collect();
        if iam_roles.len() > ROLES_MAX || !iam_roles.iter().all(|role| is_role(role)) {
            problems.push(format!(
                "{IAM_VARIABLE} is {roles:?}: give at most {ROLES_MAX} roles, apart by '+', such as operator"
            ));
        }
        let base_url = lookup(BASE_URL_VARIABLE).map(|url| url.trim().trim_end_matches('/').to_owned());
        if let Some(url) =
            base_url.as_ref().filter(|url| !url.starts_with("https://") || url.contains(['?', '#', '@', ' ']))
        {
            problems.push(format!("{BASE_URL_VARIABLE} is {url:?}: give an address that begins with https://"));
        }
        (problems.len() == before).then_some(Self { access, iam_roles, base_url })
    }
}

fn access(lookup: impl Fn(&str) -> Option<String>, problems: &mut Vec<String>) -> Access {
    let mut access = match lookup(KEYS_VARIABLE).map(|keys| Access::from_text(&keys)) {
        None => Access::none(),
        Some(Ok(access)) => access,
        Some(Err(error)) => {
            problems.push(format!("{KEYS_VARIABLE}: {error}"));
            Access::none()
        }
    };
    match lookup(LINK_KEYS_VARIABLE).map(|keys| LinkKeys::from_text(&keys)) {
        None => {}
        Some(Ok(keys)) => access = access.with_link_keys(keys),
        Some(Err(error)) => problems.push(format!("{LINK_KEYS_VARIABLE}: {error}")),
    }
    match tokens(lookup) {
        Ok(None) => {}
        Ok(Some(tokens)) => access = access.with_tokens(Arc::new(tokens)),
        Err(problem) => problems.push(problem),
    }
    access
}

/// Whose tokens are taken, if anybody's are.
fn tokens(lookup: impl Fn(&str) -> Option<String>) -> Result<Option<JwtTokens>, String> {
    let of_issuer = |name: &str| lookup(name).map(|value| value.trim().to_owned());
    let (issuer, audience, url) = match ISSUER_VARIABLES.map(of_issuer) {
        [Some(issuer), Some(audience), Some(url)] => (issuer, audience, url),
        [None, None, None] => return Ok(None),
        _ => return Err(format!("{} belong together: give all of them or none", ISSUER_VARIABLES.join(", "))),
    };
    let mut issuer = Issuer::new(issuer, audience);
    if let Some(claim) = of_issuer(CLAIM_VARIABLE) {
        issuer.roles_claim = claim;
    }
    issuer.roles_prefix = of_issuer(PREFIX_VARIABLE).unwrap_or_default();
    let source = Jwks::at(&url).map_err(|problem| format!("{}: {problem}", ISSUER_VARIABLES[2]))?;
    Ok(Some(JwtTokens::new(issuer, Arc::new(source))))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn complete(name: &str) -> Option<String> {
        let needed = ["STEPWELL_TABLE", "STEPWELL_QUEUE_URL", "STEPWELL_DEAD_LETTER_URL", "STEPWELL_BUCKET"];
        needed.contains(&name).then(|| format!("value of {name}"))
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
        let Doors { access, iam_roles, base_url } = Doors::read(complete, &mut problems).unwrap();
        assert_eq!((iam_roles, base_url), (vec!["admin".to_owned()], None));
        assert!(format!("{access:?}").contains("tokens: false"), "{access:?}");
        assert_eq!(problems, Vec::<String>::new());
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let lookup = |name: &str| match name {
            LEASE_VARIABLE => Some("half a minute".into()),
            KEYS_VARIABLE => Some("s3cret".into()),
            LINK_KEYS_VARIABLE => Some("k1=s3cret".into()),
            "STEPWELL_JWT_ISSUER" => Some("https://login.example.org".into()),
            IAM_VARIABLE => Some("admin+".into()),
            BASE_URL_VARIABLE => Some("http://runs.example.org".into()),
            _ => None,
        };
        let mut problems = Vec::new();
        assert_eq!(Settings::read(lookup, &mut problems), None);
        assert!(Doors::read(lookup, &mut problems).is_none());
        let told = problems.join("; ");
        assert!(!told.contains("s3cret"), "{told}");
        for named in [LINK_KEYS_VARIABLE, ISSUER_VARIABLES[0], IAM_VARIABLE, BASE_URL_VARIABLE] {
            assert!(told.contains(named), "{named}: {told}");
        }
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

    #[test]
    fn an_issuer_is_taken_whole_and_its_keys_come_over_tls() {
        let with = |url: &'static str| {
            move |name: &str| match name {
                "STEPWELL_JWT_ISSUER" => Some("https://login.example.org".into()),
                "STEPWELL_JWT_AUDIENCE" => Some("stepwell".into()),
                "STEPWELL_JWKS_URL" => Some(url.into()),
                LINK_KEYS_VARIABLE => Some(format!("k1={}", "0f".repeat(32))),
                IAM_VARIABLE => Some("operator@refund+finance".into()),
                BASE_URL_VARIABLE => Some("https://runs.example.org/".into()),
                _ => None,
            }
        };
        let mut problems = Vec::new();
        let doors = Doors::read(with("https://login.example.org/keys"), &mut problems).unwrap();
        assert_eq!(doors.iam_roles, ["operator@refund", "finance"]);
        assert_eq!(doors.base_url.as_deref(), Some("https://runs.example.org"));
        let shown = format!("{:?}", doors.access);
        assert!(shown.contains("tokens: true") && shown.contains("k1") && !shown.contains("0f0f"), "{shown}");
        for url in ["http://login.example.org/keys", "ftp://x", "login", "http://127.0.0.1.example.org/"] {
            assert!(Doors::read(with(url), &mut problems).is_none(), "{url}");
        }
        assert!(problems.iter().all(|problem| problem.contains("STEPWELL_JWKS_URL")), "{problems:?}");
    }
}
