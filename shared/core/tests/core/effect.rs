//! Effects' keys and words, as people copy and read them.

use crate::make::steps::done;
use crate::make::{T0, asked, effect, failure, refund};
use stepwell_core::history::LineOutcome;
use stepwell_core::{Class, EffectKey, EffectRecord, Json, Outcome};

#[test]
fn a_key_is_read_back_as_it_was_printed() {
    for text in ["0123456789abcdef0123456789abcdef", "ffffffffffffffffffffffffffffffff"] {
        assert_eq!(EffectKey::parse(text).map(|key| key.to_string()).as_deref(), Some(text));
    }
}

#[test]
fn what_is_no_key_is_not_taken() {
    let wrong = [
        "",
        "0123456789abcdef0123456789abcde",
        "0123456789abcdef0123456789abcdef0",
        "0123456789ABCDEF0123456789abcdef",
        "0123456789abcdefg123456789abcdef",
        "0123456789abcdef 123456789abcdef",
    ];
    for text in wrong {
        assert_eq!(EffectKey::parse(text), None, "{text:?}");
    }
}

#[test]
fn each_class_has_its_word() {
    let classes = [Class::Read, Class::Idempotent(None), Class::Idempotent(Some(1)), Class::Reconcilable, Class::Once];
    assert_eq!(classes.map(Class::as_str), ["read", "idempotent", "idempotent", "reconcilable", "once"]);
}

#[test]
fn a_key_says_in_a_failed_test_what_it_is() {
    let key = EffectKey::parse("0123456789abcdef0123456789abcdef").unwrap();
    assert_eq!(format!("{key:?}"), "EffectKey(0123456789abcdef0123456789abcdef)");
}

#[test]
fn each_outcome_has_its_word() {
    let unknown = Outcome::Unknown { since: T0, evidence: "lost".into() };
    let outcomes = [done(), Outcome::Failed(failure("no")), unknown];
    let words = ["succeeded", "failed", "unknown"];
    assert_eq!(outcomes.each_ref().map(Outcome::as_str), words);
    assert_eq!(outcomes.each_ref().map(|outcome| LineOutcome::from(outcome).as_str()), words, "in history, too");
}

/// A read needs none by its class; each of these alone makes it need one.
#[test]
fn an_intent_is_written_for_whatever_a_crash_would_make_unknown() {
    let read = || effect("look", Class::Read, done());
    let approval = asked(refund()).progress.approvals[0].id.clone();
    let of = |change: &dyn Fn(&mut EffectRecord)| {
        let mut record = read();
        change(&mut record);
        record.has_intent()
    };
    assert!(!of(&|_| ()), "nothing asks for it");
    assert!(of(&|record| record.class = Class::Once));
    assert!(of(&|record| record.approval = Some(approval.clone())));
    assert!(of(&|record| record.costs = [("cents".to_owned(), 1)].into()));
    assert!(of(&|record| record.undo = Some(Json::of("TakeBack").unwrap())));
    assert!(of(&|record| record.no_return = true));
}
