//! This machine's clock beside that of AWS: each answer says when it was given.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::BeforeDeserializationInterceptorContextRef;
use aws_smithy_runtime_api::client::interceptors::{Intercept, dyn_dispatch_hint};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::DateTime;
use aws_smithy_types::config_bag::ConfigBag;
use aws_smithy_types::date_time::Format;

use super::super::facts::{Gap, Seen, Skew};

/// Reads the `Date` of an answer, refusals among them.
#[derive(Clone, Debug, Default)]
pub(super) struct Dates(Arc<Mutex<Option<Skew>>>);

impl Dates {
    pub(super) fn skew(&self) -> Seen<Skew> {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.ok_or_else(|| Gap::NotSupported("no answer of the table's service had a date".into()))
    }
}

#[dyn_dispatch_hint]
impl Intercept for Dates {
    fn name(&self) -> &'static str {
        "Dates"
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let date = context.response().headers().get("date");
        if let Some(skew) = date.and_then(|date| skew(SystemTime::now(), date)) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(skew);
        }
        Ok(())
    }
}

/// The date has whole seconds, cut off: a difference of less than one is none.
fn skew(here: SystemTime, date: &str) -> Option<Skew> {
    let there = DateTime::from_str(date, Format::HttpDate).ok()?;
    let there = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(there.secs()).ok()?);
    Some(match here.duration_since(there) {
        Ok(ahead) => Skew::Ahead(ahead.saturating_sub(Duration::from_secs(1))),
        Err(error) => Skew::Behind(error.duration()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_held_against_the_clock() {
        let date = "Tue, 14 Nov 2023 22:13:20 GMT";
        let at = |millis| skew(SystemTime::UNIX_EPOCH + Duration::from_millis(millis), date);
        assert_eq!(at(1_700_000_000_900), Some(Skew::Ahead(Duration::ZERO)));
        assert_eq!(at(1_700_000_041_000), Some(Skew::Ahead(Duration::from_secs(40))));
        assert_eq!(at(1_699_999_600_000), Some(Skew::Behind(Duration::from_secs(400))));
        assert_eq!(skew(SystemTime::now(), "yesterday"), None);
    }
}
