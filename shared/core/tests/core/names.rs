//! Names and ids from outside: what is one, what is none and why, and that each reads back as it was printed.

use stepwell_core::limits::NAME_CHARS_MAX;
use stepwell_core::{LogId, NameError, RunId};

fn wrong(name: &str) -> NameError {
    RunId::new(name).unwrap_err()
}

#[test]
fn a_name_is_letters_digits_and_some_marks_within() {
    let longest = "x".repeat(NAME_CHARS_MAX);
    for name in ["a", "7", "_", "order-7", "a.b:c_d-e", "Z9", &longest] {
        let id = RunId::new(name).unwrap();
        assert_eq!((id.as_str(), id.to_string().as_str(), name.parse()), (name, name, Ok(id.clone())));
        assert_eq!(format!("{id:?}"), format!("RunId({name})"));
    }
}

#[test]
fn what_is_no_name_is_refused_with_what_is_wrong() {
    let what = "run id";
    assert_eq!(wrong(""), NameError::Empty { what });
    // Characters, not bytes.
    for (name, chars) in [("x", NAME_CHARS_MAX + 1), ("é", NAME_CHARS_MAX + 1)] {
        assert_eq!(wrong(&name.repeat(chars)), NameError::TooLong { what, chars });
    }
    for found in ['.', '-', ':'] {
        let name = format!("{found}a");
        assert_eq!(wrong(&name), NameError::Start { what, name, found });
    }
    for found in ['/', ' ', '\n', 'é', '\u{202e}', '%', '\\', '*', '@'] {
        let name = format!("a{found}b");
        assert_eq!(wrong(&name), NameError::Character { what, name, found });
    }
    let longest = "é".repeat(NAME_CHARS_MAX);
    assert_eq!(wrong(&longest), NameError::Character { what, name: longest, found: 'é' });
}

#[test]
fn a_stored_name_is_checked_as_one_from_outside_is() {
    assert_eq!(serde_json::from_str::<RunId>(r#""r-1""#).unwrap(), RunId::new("r-1").unwrap());
    let error = serde_json::from_str::<RunId>(r#""../r""#).unwrap_err().to_string();
    assert!(error.contains("starts with '.'"), "{error}");
}

#[test]
fn a_log_is_named_by_its_number() {
    assert_eq!(LogId(7).to_string(), "7");
}
