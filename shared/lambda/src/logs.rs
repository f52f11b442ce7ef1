//! Logs, on stdout: JSON lines as Lambda takes them, never a payload. `STEPWELL_LOG` says which.

use std::{env, io};

use tracing_subscriber::EnvFilter;

/// The variable that says what is logged.
const FILTER_VARIABLE: &str = "STEPWELL_LOG";

/// What is logged where nobody says otherwise.
const USUAL: &str = "info";

/// Libraries, by the beginning of their names, whose finer levels show the bodies of events and requests. These directives are
/// the more special ones, so a level for everything does not reach them.
const QUIET: [&str; 4] = ["aws_=info", "lambda_=info", "hyper=info", "h2=info"];

/// Starts them.
pub(crate) fn start() {
    let filter = filter(env::var(FILTER_VARIABLE).ok().as_deref());
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stdout);
    // A line that cannot be written must not panic in the middle of a turn.
    let logs = logs.log_internal_errors(false);
    // One span is enough: it has the request. What an event says lies in `fields`, where metric filters look for it.
    logs.json().with_current_span(true).with_span_list(false).init();
}

/// What cannot be read as a filter does not keep a function from its work.
fn filter(asked: Option<&str>) -> EnvFilter {
    let asked = asked.map(str::trim).filter(|asked| !asked.is_empty());
    let filter = asked.and_then(|asked| EnvFilter::try_new(asked).ok()).unwrap_or_else(|| EnvFilter::new(USUAL));
    QUIET.iter().filter_map(|quiet| quiet.parse().ok()).fold(filter, EnvFilter::add_directive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_asked_for_libraries_do_not_show_payloads() {
        for asked in [None, Some("trace"), Some(" "), Some("=no=filter=")] {
            let filter = filter(asked).to_string();
            assert_eq!(filter.matches("=info").count(), QUIET.len(), "{filter}");
        }
        assert!(filter(Some("stepwell_engine=debug,warn")).to_string().contains("stepwell_engine=debug"));
        assert!(filter(Some("=no=filter=")).to_string().split(',').any(|directive| directive == USUAL));
    }
}
