//! Serves the console on this machine, with runs in every status, to look at. It takes a port and serves whoever comes.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "an example may stop, and say so")]

use serde_json::json;
use stepwell_core::decide::Pause;
use stepwell_http::{Access, Actor};

#[path = "../tests/console/bed.rs"]
mod bed;

#[tokio::main]
async fn main() {
    let port: u16 = std::env::args().nth(1).and_then(|port| port.parse().ok()).unwrap_or(4790);
    let bed = bed::Bed::new();
    bed.answered("Is it open?", "yes").await;
    bed.answered("Is it still open?", "fail").await;
    bed.answered("Round and round?", "turn").await;
    bed.waiting("What is the word?").await;
    bed.waiting("\u{202e}gpj.exe <script>alert(1)</script> \0 \"quoted\"").await;
    let paused = bed.waiting("May it go on?").await;
    bed.client.pause(&paused, &Pause { by: "key:ann".into(), why: Some("the shop is closed".into()) }).await.unwrap();
    bed.asking("a broken cup").await;
    let refunded = bed.asking("a broken plate").await;
    bed.decide(&refunded, true, "it was broken").await;
    let rejected = bed.asking("nothing").await;
    bed.decide(&rejected, false, "nothing was broken").await;
    let stuck = bed.asking("stuck").await;
    bed.decide(&stuck, false, "too much").await;
    bed.unknown("ann").await;
    let cancelled = bed.asking("cancelled").await;
    bed.client.cancel(&cancelled, "key:ann", Some("the customer has called".into())).await.unwrap();
    bed.work().await;
    bed.start("adder", json!([5, 7, 11, 13])).await;
    bed.start("adder", json!((0..500).collect::<Vec<u32>>())).await;
    let actor = Actor { name: "local:ann".into(), roles: vec!["admin".into(), "finance".into()] };
    let app = bed.app(Access::local(actor, port));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    tokio::spawn(async move {
        loop {
            bed.work().await;
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    });
    eprintln!("http://localhost:{port}/");
    axum::serve(listener, app).await.unwrap();
}
