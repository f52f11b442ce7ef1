//! Signed links: only what was signed here is believed, for what it was signed, until it expires.

use proptest::prelude::*;
use stepwell_core::link::{
    LINK_KEY_BYTES_MAX, Link, LinkError, LinkKeys, LinkKeysError, Nonce, Purpose, TOKEN_BYTES_MAX, Target,
};
use stepwell_core::{ApprovalId, Digest, RunId, SignalName, Timestamp, Visit};

const OLD: &str = "old=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const NEW: &str = "new=ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const NOW: Timestamp = Timestamp(1_000);

fn keys(text: &str) -> LinkKeys {
    LinkKeys::from_text(text).unwrap()
}

fn approval(run: &str) -> Link {
    let target = Target::Approval {
        id: ApprovalId::parse("0123456789abcdef").unwrap(),
        fingerprint: Digest::of(b"7 euros"),
        person: "ann@example.org".into(),
        maker: "key:ann".into(),
    };
    Link { run: RunId::new(run).unwrap(), target, expires: Timestamp(2_000), nonce: Nonce::of([7; 16]) }
}

fn signal(visit: u64) -> Link {
    let target = Target::Signal { name: SignalName::new("delivered").unwrap(), visit: Visit(visit) };
    Link { target, ..approval("r1") }
}

#[test]
fn what_was_signed_is_read_until_it_expires() {
    for link in [approval("r1"), signal(4)] {
        let token = keys(OLD).sign(&link).unwrap();
        assert_eq!(keys(OLD).verify(&token, NOW), Ok(link.clone()));
        assert_eq!(keys(OLD).verify(&token, Timestamp(1_999)), Ok(link.clone()));
        for late in [2_000, u64::MAX] {
            assert_eq!(keys(OLD).verify(&token, Timestamp(late)), Err(LinkError::Expired { at: Timestamp(2_000) }));
        }
        assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)), "{token}");
    }
}

#[test]
fn a_token_is_the_hmac_that_others_compute() {
    // printf 'stepwell link v1\0k.e30' | openssl dgst -sha256 -mac hmac -macopt hexkey:000102…1f -binary | basenc --base64url
    let keys = keys(&OLD.replace("old", "k"));
    assert_eq!(keys.seal(Purpose::Link, b"{}").unwrap(), "k.e30.u0mfzVB-UdD2dwkQwqLUFxgkHBZHMnARR5DCVRiAUqQ");
}

#[test]
fn the_first_key_signs_and_all_of_them_verify() {
    let link = approval("r1");
    let old = keys(OLD).sign(&link).unwrap();
    let both = keys(&format!("{NEW},{OLD}"));
    assert_eq!(both.verify(&old, NOW), Ok(link.clone()));
    let new = both.sign(&link).unwrap();
    assert!(new.starts_with("new."));
    assert_eq!(keys(NEW).verify(&new, NOW), Ok(link));
    assert_eq!(keys(NEW).verify(&old, NOW), Err(LinkError::UnknownKey));
    // The same id with another key is no way in either.
    assert_eq!(keys(&NEW.replace("new", "old")).verify(&old, NOW), Err(LinkError::Altered));
}

#[test]
fn no_part_of_one_token_goes_with_another() {
    let keys = keys(&format!("{OLD},{NEW}"));
    let (one, other) = (keys.sign(&approval("r1")).unwrap(), keys.sign(&approval("r2")).unwrap());
    let parts = |token: &str| token.split('.').map(str::to_owned).collect::<Vec<_>>();
    let (one, other) = (parts(&one), parts(&other));
    let mixed = format!("{}.{}.{}", one[0], other[1], one[2]);
    assert_eq!(keys.verify(&mixed, NOW), Err(LinkError::Altered));
    let elsewhere = format!("new.{}.{}", one[1], one[2]);
    assert_eq!(keys.verify(&elsewhere, NOW), Err(LinkError::Altered));
}

#[test]
fn a_token_is_good_for_one_purpose() {
    let keys = keys(OLD);
    let session = keys.seal(Purpose::Session, &serde_json::to_vec(&approval("r1")).unwrap()).unwrap();
    assert_eq!(keys.verify(&session, NOW), Err(LinkError::Altered));
    let link = keys.sign(&approval("r1")).unwrap();
    assert_eq!(keys.unseal(Purpose::Session, &link), Err(LinkError::Altered));
    assert!(keys.unseal(Purpose::Session, &session).is_ok());
}

#[test]
fn what_is_no_token_is_unreadable() {
    let keys = keys(OLD);
    let token = keys.sign(&approval("r1")).unwrap();
    let cut = &token[..token.rfind('.').unwrap()];
    let long = format!("old.{}.{}", "A".repeat(TOKEN_BYTES_MAX), "A".repeat(43));
    let signed_but_no_link = keys.seal(Purpose::Link, br#"{"r":"r1"}"#).unwrap();
    let padded = format!("{token}=");
    for text in ["", ".", "old", cut, &long, "old.%%.%%", &padded, "ü.ü.ü", &signed_but_no_link] {
        assert_eq!(keys.verify(text, NOW), Err(LinkError::Unreadable), "{text}");
    }
    for text in ["..", ".e30.AAAA", "nobody.e30.AAAA"] {
        assert_eq!(keys.verify(text, NOW), Err(LinkError::UnknownKey), "{text}");
    }
    for text in ["old.e30.", "old.e30.AAAA"] {
        assert_eq!(keys.verify(text, NOW), Err(LinkError::Altered), "{text}");
    }
}

#[test]
fn one_that_would_be_too_long_is_not_made() {
    let person = "n".repeat(TOKEN_BYTES_MAX);
    let target = Target::Approval {
        id: ApprovalId::parse("0123456789abcdef").unwrap(),
        fingerprint: Digest::of(b"7 euros"),
        person,
        maker: "key:ann".into(),
    };
    assert!(keys(OLD).sign(&Link { target, ..approval("r1") }).unwrap_err().bytes > TOKEN_BYTES_MAX);
}

#[test]
fn a_second_use_of_a_signal_link_is_the_same_signal() {
    let (one, again) = (signal(1), signal(1));
    assert_eq!(one.signal_id(), again.signal_id());
    let other = Link { nonce: Nonce::of([8; 16]), ..signal(1) };
    assert_ne!(one.signal_id().unwrap(), other.signal_id().unwrap());
}

#[test]
fn keys_that_cannot_be_used_are_refused_and_never_repeated() {
    use LinkKeysError::{BadId, BadKey, None, Twice};
    let hex = &OLD[4..];
    let cases = [
        (String::new(), None),
        (" \n".into(), None),
        (hex.into(), BadId { entry: 1 }),
        (format!("={hex}"), BadId { entry: 1 }),
        (format!("a.b={hex}"), BadId { entry: 1 }),
        (format!("{}={hex}", "k".repeat(17)), BadId { entry: 1 }),
        (format!("{OLD},"), BadId { entry: 2 }),
        ("k=".into(), BadKey { entry: 1 }),
        (format!("k={}", &hex[2..]), BadKey { entry: 1 }),
        (format!("k={hex}0"), BadKey { entry: 1 }),
        (format!("k={hex}zz"), BadKey { entry: 1 }),
        (format!("k={}", "00".repeat(32)), BadKey { entry: 1 }),
        (format!("k={}", "01".repeat(LINK_KEY_BYTES_MAX + 1)), BadKey { entry: 1 }),
        (format!("{OLD},{OLD}"), Twice { first: 1, entry: 2 }),
        (format!("{OLD},k={hex}"), Twice { first: 1, entry: 2 }),
    ];
    for (text, expected) in cases {
        let error = LinkKeys::from_text(&text).unwrap_err();
        assert_eq!(error, expected, "{text}");
        assert!(!error.to_string().contains(&hex[..8]), "{error}");
    }
    assert!(LinkKeys::from_text(&format!("k={}", "01".repeat(LINK_KEY_BYTES_MAX))).is_ok());
    assert_eq!(format!("{:?}", keys(&format!("{NEW},{OLD}"))), r#"["new", "old"]"#);
}

proptest! {
    #[test]
    fn no_altered_token_verifies(at in any::<prop::sample::Index>(), with in any::<char>(), cut in any::<bool>()) {
        let keys = keys(&format!("{OLD},{NEW}"));
        let token = keys.sign(&approval("r1")).unwrap();
        let at = at.index(token.len());
        let mut altered = token.clone();
        if cut {
            altered.remove(at);
        } else {
            altered.replace_range(at..=at, &with.to_string());
        }
        prop_assume!(altered != token);
        prop_assert!(keys.verify(&altered, NOW).is_err(), "{altered}");
    }

    #[test]
    fn no_other_character_of_the_alphabet_does_either(at in any::<prop::sample::Index>(), with in "[A-Za-z0-9_.-]") {
        let keys = keys(OLD);
        let token = keys.sign(&signal(1)).unwrap();
        let at = at.index(token.len());
        let mut altered = token.clone();
        altered.replace_range(at..=at, &with);
        prop_assume!(altered != token);
        prop_assert!(keys.verify(&altered, NOW).is_err(), "{altered}");
    }

    #[test]
    fn no_text_at_all_brings_it_down(text in "\\PC{0,80}") {
        prop_assert!(keys(OLD).verify(&text, NOW).is_err());
    }
}

#[test]
fn the_longest_token_that_may_be_made_can_be_read() {
    let keys = keys(OLD);
    let longest = (0..TOKEN_BYTES_MAX).rev().map(|bytes| vec![7; bytes]).find_map(|payload| {
        let token = keys.seal(Purpose::Link, &payload).ok()?;
        Some((payload, token))
    });
    let (payload, token) = longest.unwrap();
    assert_eq!(token.len(), TOKEN_BYTES_MAX);
    assert_eq!(keys.unseal(Purpose::Link, &token), Ok(payload));
}

#[test]
fn a_nonce_is_its_hexadecimal_digits() {
    assert_eq!(Nonce::of([0x0a; 16]).as_str(), "0a".repeat(16));
}
