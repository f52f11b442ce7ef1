//! A signed link, and the keys that sign.

use std::cell::LazyCell;
use std::str;

use stepwell_core::link::{Link, LinkError, LinkKeys, Nonce, Purpose, TOKEN_BYTES_MAX, Target};
use stepwell_core::{ApprovalId, Digest, RunId, SignalName, Timestamp, Visit};

use crate::world::SIGNING;

/// Before every link's end.
const NOW: Timestamp = Timestamp(1_000);

struct Signed {
    keys: LinkKeys,
    /// Tokens that are good, some of them for a session.
    tokens: Vec<(Purpose, String)>,
}

thread_local! {
    static SIGNED: LazyCell<Signed> = LazyCell::new(signed);
}

/// Nothing that was not signed here is believed: the first byte says what is tried with the others.
pub fn link(bytes: &[u8]) {
    let Some((how, rest)) = bytes.split_first() else { return };
    SIGNED.with(|signed| match how % 4 {
        0 => strange(signed, rest),
        1 => changed(signed, rest),
        2 => made(signed, rest),
        _ => keys(rest),
    });
}

/// Any text.
fn strange(signed: &Signed, bytes: &[u8]) {
    let Ok(token) = str::from_utf8(bytes) else { return };
    nothing(signed, token);
}

/// A good token, with one change: where, which and with what the bytes say.
fn changed(signed: &Signed, bytes: &[u8]) {
    let &[which, high, low, how, ref with @ ..] = bytes else { return };
    let (_, good) = &signed.tokens[usize::from(which) % signed.tokens.len()];
    let at = usize::from(u16::from_be_bytes([high, low])) % (good.len() + 1);
    let mut token = good.clone().into_bytes();
    match how % 5 {
        0 => token.truncate(at),
        1 => drop(token.splice(at..at, with.iter().copied())),
        2 => drop(token.splice(at..(at + with.len()).min(good.len()), with.iter().copied())),
        3 if at < token.len() => drop(token.remove(at)),
        4 if at + 1 < token.len() => token.swap(at, at + 1),
        _ => {}
    }
    let Ok(token) = str::from_utf8(&token) else { return };
    if token != good {
        nothing(signed, token);
    }
}

/// It is none of those that were signed, and does nothing.
fn nothing(signed: &Signed, token: &str) {
    if signed.tokens.iter().any(|(_, good)| good == token) {
        return;
    }
    for purpose in [Purpose::Link, Purpose::Session] {
        let found = signed.keys.unseal(purpose, token);
        assert!(matches!(found, Err(LinkError::Unreadable | LinkError::UnknownKey | LinkError::Altered)), "{token:?}");
    }
    assert!(signed.keys.verify(token, Timestamp(0)).is_err(), "{token:?}");
}

/// A link of whatever words and numbers is good until its end, for what it is for, with the keys that signed it.
fn made(signed: &Signed, bytes: &[u8]) {
    let Some((&expires, rest)) = bytes.split_first_chunk::<8>() else { return };
    let Ok(text) = str::from_utf8(rest) else { return };
    let expires = Timestamp(u64::from_be_bytes(expires));
    let (person, maker) = text.split_once('\n').unwrap_or((text, ""));
    let link = Link { expires, ..of_approval(person, maker) };
    let Ok(token) = signed.keys.sign(&link) else {
        assert!(text.len() > TOKEN_BYTES_MAX / 16, "a short name does not fit");
        return;
    };
    assert!(token.len() <= TOKEN_BYTES_MAX && token.bytes().all(|byte| byte.is_ascii_graphic()));
    let over = Err(LinkError::Expired { at: expires });
    assert_eq!(signed.keys.verify(&token, expires), over);
    match expires.0.checked_sub(1) {
        Some(before) => assert_eq!(signed.keys.verify(&token, Timestamp(before)).as_ref(), Ok(&link)),
        None => assert_eq!(signed.keys.verify(&token, Timestamp(0)), over),
    }
    assert_eq!(signed.keys.unseal(Purpose::Session, &token), Err(LinkError::Altered));
    let other = LinkKeys::from_text(&SIGNING.replace("=00", "=ff")).unwrap();
    assert_eq!(other.verify(&token, Timestamp(0)), Err(LinkError::Altered));
}

/// Keys can be read or not. Those that can sign what they verify; no error repeats one, and nothing shows one.
fn keys(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    match LinkKeys::from_text(text) {
        Ok(keys) => {
            let link = of_approval("bea", "ann");
            let token = keys.sign(&link).unwrap();
            assert_eq!(keys.verify(&token, NOW).as_ref(), Ok(&link));
            assert!(!secrets(text).any(|secret| format!("{keys:?}").contains(secret)));
        }
        Err(error) => assert!(!secrets(text).any(|secret| error.to_string().contains(secret)), "{error}"),
    }
}

/// What may be a key.
fn secrets(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', '=']).filter(|part| part.len() > 31 && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn signed() -> Signed {
    let keys = LinkKeys::from_text(SIGNING).unwrap();
    let signal = Target::Signal { name: SignalName::new("delivered").unwrap(), visit: Visit(3) };
    let links = [of_approval("bea@example.org", "key:ann"), Link { target: signal, ..of_approval("", "") }];
    let mut tokens: Vec<(Purpose, String)> =
        links.iter().map(|link| (Purpose::Link, keys.sign(link).unwrap())).collect();
    tokens.push((Purpose::Session, keys.seal(Purpose::Session, br#"{"n":"ann","x":2000}"#).unwrap()));
    tokens.push((Purpose::Link, keys.seal(Purpose::Link, b"").unwrap()));
    Signed { keys, tokens }
}

fn of_approval(person: &str, maker: &str) -> Link {
    let id = ApprovalId::parse("0123456789abcdef").unwrap();
    let (fingerprint, person, maker) = (Digest::of(b"7 EUR"), person.to_owned(), maker.to_owned());
    let target = Target::Approval { id, fingerprint, person, maker };
    Link { run: RunId::new("order-7").unwrap(), target, expires: Timestamp(2_000), nonce: Nonce::of([7; 16]) }
}
