//! Who writes the brief: a model behind a trait, or a plain template that needs no network.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::web::Finding;

/// What a brief is written from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Material {
    /// What the reader wants to decide.
    pub goal: String,
    /// What was found, one for each vendor.
    pub findings: Vec<Finding>,
}

/// Why there is no draft, cut by what the workflow may do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WriteError {
    /// Nothing was written; may be repeated.
    #[error("no draft was written: {why}; ask again later")]
    NotWritten {
        /// What was found.
        why: String,
    },
    /// Nothing was written, and repeating will not help.
    #[error("no draft can be written: {why}; change the material")]
    Refused {
        /// What was found.
        why: String,
    },
    /// A draft may have been written (and paid for), but did not arrive.
    #[error("a draft may have been written: {why}; ask again under the same key")]
    Unknown {
        /// What was found.
        why: String,
    },
}

/// Writes a competitive brief. Object safe, so that a workflow holds an `Arc<dyn Writer>`.
#[async_trait]
pub trait Writer: Send + Sync {
    /// Who writes, in words for the reader of the brief, such as a model's name.
    fn name(&self) -> &str;

    /// Writes the brief as plain text. `key` names this one draft: asked twice under it, a model behind an API that knows
    /// idempotency keys works, and is paid, once.
    async fn write(&self, key: &str, material: &Material) -> Result<String, WriteError>;
}

/// Puts the findings into a fixed form. It repeats what the pages say and judges nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct TemplateWriter;

#[async_trait]
impl Writer for TemplateWriter {
    fn name(&self) -> &'static str {
        "template, offline"
    }

    /// The same material gives the same text, so the key is not needed.
    async fn write(&self, _key: &str, material: &Material) -> Result<String, WriteError> {
        if material.findings.is_empty() {
            return Err(WriteError::Refused { why: "there are no findings".to_owned() });
        }
        let mut parts = vec![format!("Competitive brief: {}\n", material.goal)];
        parts.extend(material.findings.iter().map(section));
        let gaps: String = material.findings.iter().filter_map(gap).collect();
        if !gaps.is_empty() {
            parts.push(format!("Open questions, as the pages do not say:\n{gaps}"));
        }
        let by = self.name();
        parts.push(format!("Written by: {by}. It repeats what the vendors say; nobody has checked it.\n"));
        Ok(parts.join("\n"))
    }
}

fn section(finding: &Finding) -> String {
    let lines = said(finding).into_iter().filter_map(|(label, value)| Some(format!("  {label}: {}\n", value?)));
    format!("{} ({})\n{}", title(finding), finding.source, lines.collect::<String>())
}

fn gap(finding: &Finding) -> Option<String> {
    let missing = said(finding).into_iter().filter(|(_, value)| value.is_none());
    let missing: Vec<&str> = missing.map(|(label, _)| label).collect();
    (!missing.is_empty()).then(|| format!("- {}: {}\n", title(finding), missing.join(", ")))
}

fn title(finding: &Finding) -> &str {
    finding.product.as_deref().unwrap_or(&finding.vendor)
}

/// What a brief says of a vendor, in the order of reading.
fn said(finding: &Finding) -> [(&'static str, Option<String>); 5] {
    let list = |items: &Option<Vec<String>>, between| items.as_ref().map(|items| items.join(between));
    [
        ("price", finding.price.clone()),
        ("regions", list(&finding.regions, ", ")),
        ("trial", finding.trial.clone()),
        ("strengths", list(&finding.strengths, "; ")),
        ("weaknesses", list(&finding.weaknesses, "; ")),
    ]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::brief::web::Page;

    fn finding(vendor: &str, text: &str) -> Finding {
        let url = format!("http://vendors.test/{vendor}");
        Finding::from_page(&Page { vendor: vendor.to_owned(), url, text: text.to_owned() })
    }

    #[tokio::test]
    async fn the_template_repeats_what_was_found_and_names_what_was_not() {
        let full = "# Full\nPrice: EUR 1\nRegions: EU, US\nTrial: a day\n## Strengths\n- fast\n- small\n## Weaknesses\n- new\n";
        let findings = vec![finding("full", full), finding("bare", "## Strengths\n- quiet\n")];
        let writer: Arc<dyn Writer> = Arc::new(TemplateWriter);
        let material = Material { goal: "find a tool".to_owned(), findings };
        let text = writer.write("key", &material).await.unwrap();
        let expected = "\
Competitive brief: find a tool

Full (http://vendors.test/full)
  price: EUR 1
  regions: EU, US
  trial: a day
  strengths: fast; small
  weaknesses: new

bare (http://vendors.test/bare)
  strengths: quiet

Open questions, as the pages do not say:
- bare: price, regions, trial, weaknesses

Written by: template, offline. It repeats what the vendors say; nobody has checked it.
";
        assert_eq!(text, expected);
        assert_eq!(writer.write("other key", &material).await.unwrap(), expected);
    }

    #[tokio::test]
    async fn nothing_found_is_refused() {
        let material = Material { goal: "find a tool".to_owned(), findings: Vec::new() };
        let refused = TemplateWriter.write("key", &material).await;
        assert!(matches!(refused, Err(WriteError::Refused { .. })));
    }
}
