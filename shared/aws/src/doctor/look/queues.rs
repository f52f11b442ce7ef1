//! A queue, as SQS describes it.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName;
use serde_json::Value;

use super::gap;
use crate::Aws;
use crate::doctor::facts::{Queue, Redrive, Seen};

type Attributes = HashMap<QueueAttributeName, String>;

pub(super) async fn look(aws: &Aws, url: &str) -> Seen<Queue> {
    let get = aws.queue.client.get_queue_attributes().queue_url(url).attribute_names(QueueAttributeName::All);
    let answer = get.send().await.map_err(|error| gap(&error, "GetQueueAttributes", &format!("queue {url}")))?;
    Ok(described(&answer.attributes.unwrap_or_default()))
}

fn described(attributes: &Attributes) -> Queue {
    let number = |name| attributes.get(&name).and_then(|text| text.parse().ok()).unwrap_or(0);
    let seconds = |name| Duration::from_secs(number(name));
    Queue {
        arn: attributes.get(&QueueAttributeName::QueueArn).cloned().unwrap_or_default(),
        visibility: seconds(QueueAttributeName::VisibilityTimeout),
        retention: seconds(QueueAttributeName::MessageRetentionPeriod),
        redrive: attributes.get(&QueueAttributeName::RedrivePolicy).and_then(|policy| redrive(policy)),
        messages: number(QueueAttributeName::ApproximateNumberOfMessages)
            + number(QueueAttributeName::ApproximateNumberOfMessagesNotVisible)
            + number(QueueAttributeName::ApproximateNumberOfMessagesDelayed),
    }
}

/// The number is a number, or its digits as a text: it comes back as it was set.
fn redrive(policy: &str) -> Option<Redrive> {
    let policy: Value = serde_json::from_str(policy).ok()?;
    let receives = &policy["maxReceiveCount"];
    let receives_max = receives.as_u64().or_else(|| receives.as_str()?.parse().ok())?;
    Some(Redrive { target: policy["deadLetterTargetArn"].as_str()?.to_owned(), receives_max })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_read_from_its_attributes() {
        let attributes = [
            (QueueAttributeName::QueueArn, "arn:q"),
            (QueueAttributeName::VisibilityTimeout, "90"),
            (QueueAttributeName::MessageRetentionPeriod, "345600"),
            (QueueAttributeName::ApproximateNumberOfMessages, "3"),
            (QueueAttributeName::ApproximateNumberOfMessagesDelayed, "4"),
            (QueueAttributeName::RedrivePolicy, r#"{"deadLetterTargetArn":"arn:d","maxReceiveCount":"10"}"#),
        ];
        let queue = described(&attributes.map(|(name, value)| (name, value.to_owned())).into());
        assert_eq!(queue.arn, "arn:q");
        assert_eq!((queue.visibility, queue.retention), (Duration::from_secs(90), Duration::from_hours(96)));
        assert_eq!(queue.messages, 7);
        assert_eq!(queue.redrive, Some(Redrive { target: "arn:d".into(), receives_max: 10 }));
        let plain = redrive(r#"{"deadLetterTargetArn":"arn:d","maxReceiveCount":3}"#);
        assert_eq!(plain.map(|redrive| redrive.receives_max), Some(3));
        assert_eq!(redrive("{}"), None);
    }
}
