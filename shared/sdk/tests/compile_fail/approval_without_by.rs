//! `.by(role(..))`, or a person, is missing.
use stepwell::prelude::*;

fn main() {
    let _asked = Approval::of("refund", &7).within(days(3));
}
