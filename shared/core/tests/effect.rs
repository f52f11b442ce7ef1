//! Effects' keys and words, as people copy and read them.

use stepwell_core::{Class, EffectKey};

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
