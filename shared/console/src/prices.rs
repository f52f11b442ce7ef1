//! What runs would have cost on AWS, roughly, by the list prices that the docs use.

use std::sync::LazyLock;

use maud::{Markup, html};
use serde::Deserialize;

/// Memory of the function that runs steps, in GB, as the template sets it unless told otherwise.
const GB: f64 = 0.25;

/// A list of prices, in US$.
#[derive(Deserialize)]
struct Prices {
    date: String,
    region: String,
    dynamodb: Table,
    lambda: Functions,
}

#[derive(Deserialize)]
struct Table {
    write_units_per_million: f64,
}

#[derive(Deserialize)]
struct Functions {
    x86_64_per_gb_second: f64,
}

/// `None` would be a defect of the file, which a test reads.
static PRICES: LazyLock<Option<Prices>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../../infra/prices.json")).ok());

/// What this many writes of this many bytes together, and this time in steps, would have cost.
pub(crate) fn estimate(writes: u64, bytes: u64, step_ms: u64) -> String {
    PRICES.as_ref().map_or_else(|| "unknown".into(), |prices| money(prices.of(writes, bytes, step_ms)))
}

/// What the estimate rests on.
pub(crate) fn basis() -> Markup {
    html! {
        @if let Some(Prices { date, region, .. }) = PRICES.as_ref() {
            span.note { "at list prices of " (date) ", " (region) ": writes to the table, and time in steps at " (GB) " GB. Queue, reads, logs and what steps call are not in it." }
        }
    }
}

impl Prices {
    #[allow(clippy::cast_precision_loss, reason = "an estimate needs no more than 52 bits")]
    fn of(&self, writes: u64, bytes: u64, step_ms: u64) -> f64 {
        // A write is one unit for each started kilobyte.
        let units = writes.max(bytes.div_ceil(1_024)) as f64;
        let table = units * self.dynamodb.write_units_per_million / 1e6;
        table + step_ms as f64 / 1e3 * GB * self.lambda.x86_64_per_gb_second
    }
}

fn money(dollars: f64) -> String {
    if dollars < 0.01 { format!("US$ {dollars:.6}") } else { format!("US$ {dollars:.2}") }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read_and_multiplied() {
        let prices = PRICES.as_ref().unwrap();
        let million = prices.of(1_000_000, 0, 0);
        assert!((million - prices.dynamodb.write_units_per_million).abs() < 1e-9);
        // Larger checkpoints are more units.
        assert!((prices.of(1, 10 * 1_024, 0) - 10.0 * prices.of(1, 0, 0)).abs() < 1e-12);
        let hour = prices.of(0, 0, 3_600_000);
        assert!((hour - 900.0 * prices.lambda.x86_64_per_gb_second).abs() < 1e-9);
        assert_eq!((money(0.000_001_2), money(1.5)), ("US$ 0.000001".into(), "US$ 1.50".into()));
    }
}
