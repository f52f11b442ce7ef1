//! Claims: of all runs that want one effect's key, one owns it, and the others learn which.

use std::sync::Arc;

use stepwell_core::decide::DueRun;
use stepwell_core::{EffectKey, RunId, Scope, WorkflowName};
use stepwell_ports::{Claim, Claimant, Claimed, ListQuery, StoreError};
use tokio::sync::Barrier;

use super::bed::{Bed, END, run};

fn key(name: &str) -> EffectKey {
    EffectKey::derive(&run("r"), &WorkflowName::new("refund").unwrap(), "refund", Scope::Business(name))
}

fn claim(name: &str, by: &str) -> Claim {
    Claim { key: key(name), by: run(by).into(), instead_of: None }
}

fn take_over(name: &str, by: &str, from: &str) -> Claim {
    Claim { instead_of: Some(run(from).into()), ..claim(name, by) }
}

async fn is(bed: &Bed<'_>, claim: &Claim, expected: &Claimed) {
    let answer = bed.store.claim(claim).await;
    assert_eq!(answer.as_ref(), Ok(expected), "the answer to {claim:?}");
}

async fn is_mine(bed: &Bed<'_>, claim: &Claim) {
    is(bed, claim, &Claimed::Mine).await;
}

/// What another run is told, which changes nothing.
async fn owns(bed: &Bed<'_>, name: &str, owner: &str) {
    is(bed, &claim(name, "bystander"), &Claimed::Of(run(owner).into())).await;
}

pub(super) async fn the_first_claim_owns_the_key(bed: &Bed<'_>) {
    bed.started("r1").await;
    is_mine(bed, &claim("order-7", "r1")).await;
    owns(bed, "order-7", "r1").await;
    // Nobody looks whether the run is there.
    is_mine(bed, &claim("order-8", "unknown")).await;
    owns(bed, "order-8", "unknown").await;
}

pub(super) async fn a_repeated_claim_is_granted_again(bed: &Bed<'_>) {
    for _ in 0..3 {
        is_mine(bed, &claim("order-7", "r1")).await;
    }
    is_mine(bed, &take_over("order-7", "r1", "r2")).await;
    is_mine(bed, &take_over("order-7", "r1", "r1")).await;
    owns(bed, "order-7", "r1").await;
}

pub(super) async fn another_run_learns_who_owns_the_key(bed: &Bed<'_>) {
    is_mine(bed, &claim("order-7", "r1")).await;
    for other in ["r2", "r", "r11", "R1"] {
        is(bed, &claim("order-7", other), &Claimed::Of(run("r1").into())).await;
    }
    is_mine(bed, &claim("order-7", "r1")).await;
}

pub(super) async fn a_key_is_taken_over_from_its_owner_alone(bed: &Bed<'_>) {
    is_mine(bed, &claim("order-7", "r1")).await;
    for from in ["r3", "r2", "r"] {
        is(bed, &take_over("order-7", "r2", from), &Claimed::Of(run("r1").into())).await;
    }
    owns(bed, "order-7", "r1").await;
    for _ in 0..2 {
        is_mine(bed, &take_over("order-7", "r2", "r1")).await;
    }
    is(bed, &claim("order-7", "r1"), &Claimed::Of(run("r2").into())).await;
    is(bed, &take_over("order-7", "r3", "r1"), &Claimed::Of(run("r2").into())).await;
    is_mine(bed, &claim("order-7", "r2")).await;
    // And back, and from nobody.
    is_mine(bed, &take_over("order-7", "r1", "r2")).await;
    owns(bed, "order-7", "r1").await;
    is_mine(bed, &take_over("order-8", "r2", "r1")).await;
    owns(bed, "order-8", "r2").await;
}

pub(super) async fn a_later_life_is_another_claimant(bed: &Bed<'_>) {
    let again = |life| Claimant { run: run("r1"), life };
    let by = |claimant: &Claimant, from: Option<&Claimant>| Claim {
        by: claimant.clone(),
        instead_of: from.cloned(),
        ..claim("order-7", "r1")
    };
    is_mine(bed, &by(&again(0), None)).await;
    // It is told of its own earlier life, and takes the key on from that.
    is(bed, &by(&again(1), None), &Claimed::Of(again(0))).await;
    is_mine(bed, &by(&again(1), Some(&again(0)))).await;
    // Whoever has seen the end of the earlier life comes too late.
    is(bed, &take_over("order-7", "r2", "r1"), &Claimed::Of(again(1))).await;
    is(bed, &by(&again(0), None), &Claimed::Of(again(1))).await;
    is_mine(bed, &by(&again(1), None)).await;
    is_mine(bed, &by(&run("r2").into(), Some(&again(1)))).await;
    is(bed, &by(&again(u32::MAX), Some(&again(1))), &Claimed::Of(run("r2").into())).await;
    is_mine(bed, &by(&again(u32::MAX), Some(&run("r2").into()))).await;
    is(bed, &claim("order-7", "r2"), &Claimed::Of(again(u32::MAX))).await;
}

pub(super) async fn claims_of_several_keys_are_apart(bed: &Bed<'_>) {
    let names = ["order-7", "order-70", "order", "7", ""];
    for (number, name) in names.iter().enumerate() {
        is_mine(bed, &claim(name, &format!("r{number}"))).await;
    }
    for (number, name) in names.iter().enumerate() {
        owns(bed, name, &format!("r{number}")).await;
    }
}

pub(super) async fn the_end_of_the_owner_ends_no_claim(bed: &Bed<'_>) {
    let held = bed.held("r1").await;
    is_mine(bed, &claim("order-7", "r1")).await;
    bed.handed_off(&held, bed.completed()).await;
    owns(bed, "order-7", "r1").await;
}

pub(super) async fn of_many_claims_at_once_one_wins(bed: &Bed<'_>) {
    for round in 0..5 {
        let name = format!("order-{round}");
        let claims: Vec<Claim> = (0..8).map(|number| claim(&name, &format!("r{number}"))).collect();
        let winner = the_winner(bed, &claims).await;
        owns(bed, &name, winner.as_str()).await;
    }
}

pub(super) async fn of_many_take_overs_at_once_one_wins(bed: &Bed<'_>) {
    let mut owner = run("r");
    is_mine(bed, &claim("order-7", "r")).await;
    for round in 0..5 {
        let by = |number| format!("r{round}-{number}");
        let claims: Vec<Claim> = (0..8).map(|number| take_over("order-7", &by(number), owner.as_str())).collect();
        owner = the_winner(bed, &claims).await;
        owns(bed, "order-7", owner.as_str()).await;
    }
}

/// Makes all claims at once. One is granted, and all the others are told whose the key is: the run that is the answer.
async fn the_winner(bed: &Bed<'_>, claims: &[Claim]) -> RunId {
    let gate = Arc::new(Barrier::new(claims.len()));
    let begin = |claim: &Claim| {
        let (store, gate, claim) = (bed.store.clone(), gate.clone(), claim.clone());
        tokio::spawn(async move {
            gate.wait().await;
            // A backend that is busy is asked again, as a caller would.
            for _ in 0..100 {
                match store.claim(&claim).await {
                    Ok(claimed) => return claimed,
                    Err(StoreError::Throttled(_)) => tokio::task::yield_now().await,
                    Err(error) => panic!("{claim:?}: {error}"),
                }
            }
            panic!("busy a hundred times: {claim:?}");
        })
    };
    let made: Vec<_> = claims.iter().map(begin).collect();
    let (mut winners, mut told) = (Vec::new(), Vec::new());
    for (claim, answer) in claims.iter().zip(made) {
        match answer.await.expect("a claim that answers") {
            Claimed::Mine => winners.push(claim.by.run.clone()),
            Claimed::Of(owner) => told.push(owner.run),
        }
    }
    assert_eq!(winners.len(), 1, "of {} one is granted, not those of {winners:?}", claims.len());
    let winner = winners.remove(0);
    assert!(told.iter().all(|owner| *owner == winner), "it is {winner}'s, the others are told {told:?}");
    winner
}

pub(super) async fn a_claim_shows_in_no_listing(bed: &Bed<'_>) {
    let started = bed.started("r1").await;
    for (number, by) in ["r1", "unknown"].into_iter().enumerate() {
        is_mine(bed, &claim(&format!("order-{number}"), by)).await;
    }
    let due: Vec<DueRun> = DueRun::of(&started).into_iter().collect();
    bed.shows("due runs", &due, async || bed.due(END, 10).await).await;
    let query = ListQuery { limit: 10, ..ListQuery::default() };
    let listed = async || bed.list(&query).await.into_iter().map(|found| found.run).collect::<Vec<_>>();
    bed.shows("all runs", &vec![run("r1")], listed).await;
    assert_eq!(bed.load(&run("r1")).await, Some(started), "the owner's checkpoint stays as it is");
    assert_eq!(bed.load(&run("unknown")).await, None);
    assert_eq!(bed.store.effect(&run("r1"), &key("order-0")).await, Ok(None), "it is no effect of the run");
}
