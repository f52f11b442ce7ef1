//! A secret would be stored in plain.
use stepwell::prelude::*;

#[derive(Serialize, Deserialize)]
struct State {
    key: Secret,
}

fn main() {}
