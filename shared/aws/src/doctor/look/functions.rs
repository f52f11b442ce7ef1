//! The functions, as Lambda describes them.

use std::time::Duration;

use aws_sdk_lambda::Client;
use aws_sdk_lambda::operation::get_function_configuration::GetFunctionConfigurationOutput;
use aws_sdk_lambda::types::{EventSourceMappingConfiguration, FunctionResponseType, RecursiveLoop};
use futures_util::future::join_all;

use super::gap;
use crate::doctor::facts::{Function, Mapping, Part, Seen, Settings};
use crate::{BUCKET_VARIABLE, DEAD_LETTER_VARIABLE, KMS_KEY_VARIABLE, QUEUE_VARIABLE, TABLE_VARIABLE};

/// What takes messages from the queue of this ARN.
pub(super) async fn mappings(lambda: &Client, queue_arn: &str) -> Seen<Vec<Mapping>> {
    let list = lambda.list_event_source_mappings().event_source_arn(queue_arn).send().await;
    let answer = list.map_err(|error| gap(&error, "ListEventSourceMappings", &format!("queue {queue_arn}")))?;
    Ok(answer.event_source_mappings().iter().map(mapping).collect())
}

/// All functions of a stack.
pub(super) async fn all(lambda: &Client, stack: &str) -> Vec<Function> {
    join_all(Part::ALL.map(|part| function(lambda, stack, part))).await
}

/// Whether the two functions that send to the queue may be woken by what they have sent, for ever.
pub(super) async fn loops(lambda: &Client, stack: &str) -> Vec<(Part, Seen<bool>)> {
    let loops = [Part::Runner, Part::DeadLetter].map(|part| async move {
        let name = format!("{stack}{}", part.suffix());
        let get = lambda.get_function_recursion_config().function_name(&name).send().await;
        let seen = match get {
            Ok(answer) => Ok(answer.recursive_loop == Some(RecursiveLoop::Allow)),
            Err(error) => Err(gap(&error, "GetFunctionRecursionConfig", &format!("function {name}"))),
        };
        (part, seen)
    });
    join_all(loops).await
}

async fn function(lambda: &Client, stack: &str, part: Part) -> Function {
    let name = format!("{stack}{}", part.suffix());
    let get = lambda.get_function_configuration().function_name(&name).send().await;
    let seen = match get {
        Ok(answer) => Ok(settings(&answer)),
        Err(error) => Err(gap(&error, "GetFunctionConfiguration", &format!("function {name}"))),
    };
    Function { name, part, seen }
}

fn mapping(mapping: &EventSourceMappingConfiguration) -> Mapping {
    Mapping {
        function: function_name(mapping.function_arn().unwrap_or_default()).to_owned(),
        state: mapping.state().unwrap_or_default().to_owned(),
        partial_failures: mapping.function_response_types().contains(&FunctionResponseType::ReportBatchItemFailures),
        concurrency_max: mapping.scaling_config().and_then(aws_sdk_lambda::types::ScalingConfig::maximum_concurrency),
    }
}

/// `arn:aws:lambda:<region>:<account>:function:<name>`, and a version or alias after that.
fn function_name(arn: &str) -> &str {
    arn.split(':').nth(6).unwrap_or(arn)
}

fn settings(function: &GetFunctionConfigurationOutput) -> Settings {
    let variables = function.environment().and_then(|environment| environment.variables());
    // No others: some are secrets.
    let ours = [TABLE_VARIABLE, QUEUE_VARIABLE, DEAD_LETTER_VARIABLE, BUCKET_VARIABLE, KMS_KEY_VARIABLE];
    let ours = ours.iter().filter_map(|name| Some((*name).to_owned()).zip(variables?.get(*name).cloned()));
    let text = |text: Option<&str>| text.unwrap_or("unknown").to_owned();
    Settings {
        runtime: text(function.runtime().map(aws_sdk_lambda::types::Runtime::as_str)),
        architecture: text(function.architectures().first().map(aws_sdk_lambda::types::Architecture::as_str)),
        state: text(function.state().map(aws_sdk_lambda::types::State::as_str)),
        last_update: text(function.last_update_status().map(aws_sdk_lambda::types::LastUpdateStatus::as_str)),
        modified: text(function.last_modified()),
        timeout: Duration::from_secs(function.timeout().and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0)),
        variables: ours.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_named_by_its_arn() {
        for (arn, name) in [
            ("arn:aws:lambda:us-east-1:000000000000:function:stepwell-dev-runner", "stepwell-dev-runner"),
            ("arn:aws:lambda:us-east-1:000000000000:function:stepwell-dev-runner:live", "stepwell-dev-runner"),
            ("stepwell-dev-runner", "stepwell-dev-runner"),
        ] {
            assert_eq!(function_name(arn), name);
        }
    }
}
