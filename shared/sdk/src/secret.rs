//! Secrets: values that a workflow needs, and that are never written down.

use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::io::Write as _;
use std::sync::{Arc, Once, PoisonError, RwLock, RwLockReadGuard};

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A shorter text is found by chance in any other.
const BYTES_MIN: usize = 8;

/// Secrets that are covered after they were dropped: the ones made last.
const DROPPED_MAX: usize = 64;

/// A value that a workflow needs and nobody may read: an API key, a password. It shows as its name, wherever it is printed.
///
/// Keep it in the workflow, not in the state:
///
/// ```
/// use stepwell::prelude::*;
///
/// struct Mailer { key: Secret }
///
/// impl Mailer {
///     fn from_env() -> Result<Self, stepwell::SecretError> {
///         Ok(Self { key: Secret::from_env("mail-api-key", "MAIL_API_KEY")? })
///     }
/// }
///
/// # async fn post(key: &str, text: &str) -> Result<String, CallError> { Ok(text.to_string()) }
/// impl Workflow for Mailer {
/// #   const NAME: &'static str = "mailer";
/// #   type Input = String;
/// #   type State = String;
/// #   type Step = ();
/// #   type Output = String;
/// #   fn begin(&self, text: String) -> ((), String) { ((), text) }
///     async fn step(&self, (): (), text: &mut String, cx: &Cx) -> StepResult<Self> {
///         let mail = cx.effect("mail").idempotent().call(|_| post(self.key.expose(), text)).await?;
///         Ok(complete(mail))
///     }
/// }
///
/// let key = Secret::new("mail-api-key", "k-51f7c0a9")?;
/// assert_eq!(format!("{key} {key:?}"), "[secret mail-api-key] [secret mail-api-key]");
/// let error = StepError::retry(format!("401 for Bearer {}", key.expose()));
/// assert_eq!(error.to_string(), "error: 401 for Bearer [secret mail-api-key]");
/// # Ok::<(), stepwell::SecretError>(())
/// ```
///
/// In what is stored it does not compile:
///
/// ```compile_fail,E0277
/// # use stepwell::prelude::*;
/// #[derive(Serialize, Deserialize)]
/// struct State { key: Secret }
/// ```
///
/// # What is covered
/// From the moment it is made, its text is searched for in what leaves a step, as it is, percent-encoded, in base64 (also
/// as a part of it, as in `Authorization: Basic`), and with its quotes and backslashes escaped:
///
/// - The messages and codes of [`StepError`](crate::StepError), [`CallError`](crate::CallError) and
///   [`EffectError`](crate::EffectError), the evidence of unknown outcomes, panic messages, and what is said of values that
///   do not fit: the text is replaced by the secret's name. A panic message that holds it is printed without it, too. (So the
///   first secret sets a panic hook, which leaves all other panics to the hook before it. Set your own before that.)
/// - The state, the step, the output, log entries, blobs and the results of effects are not altered. The step fails, for
///   good, and says which secret is where.
///
/// An error is often stored after the step's own variables are gone, so a secret stays covered when it was dropped, until
/// 64 more have been made.
///
/// # What is not covered
/// - What the author logs, prints or sends himself.
/// - Inputs and signals: they are written before a step sees them. So is the result of an effect that fetches a token, if
///   it is made a secret only after that; fetch a token within the call that uses it.
/// - A part of the secret, or another form: reversed, hashed, in hexadecimal digits, cut off.
/// - Processes that have not made the secret.
/// - The memory of the process, core dumps and swap. The text is not zeroed when it is dropped: the environment, the
///   client that sends it and the search for it have copies.
#[derive(Clone)]
pub struct Secret<T = String> {
    value: T,
    covered: Arc<Covered>,
}

/// Why there is no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The environment variable is not set.
    #[error("secret {name}: the environment variable {variable} is not set; set it to the secret's value")]
    NotSet {
        /// Which secret.
        name: &'static str,
        /// Which variable.
        variable: String,
    },
    /// The environment variable is no UTF-8 text.
    #[error("secret {name}: the environment variable {variable} is no UTF-8 text; encode it, in base64 say")]
    NotText {
        /// Which secret.
        name: &'static str,
        /// Which variable.
        variable: String,
    },
    /// It is too short to be told from other text.
    #[error(
        "secret {0} is shorter than {BYTES_MIN} bytes, and would be found by chance in other text; use a longer one"
    )]
    TooShort(&'static str),
}

impl<T: AsRef<str>> Secret<T> {
    /// This value, under a name that may be shown. White space around it counts as no part of the secret.
    ///
    /// # Errors
    /// [`SecretError::TooShort`] under 8 bytes.
    pub fn new(name: &'static str, value: T) -> Result<Self, SecretError> {
        let text = value.as_ref().trim();
        if text.len() < BYTES_MIN {
            return Err(SecretError::TooShort(name));
        }
        let covered = cover(name, text);
        Ok(Self { value, covered })
    }
}

impl Secret {
    /// The value of an environment variable.
    ///
    /// # Errors
    /// When the variable is not set, is no text, or [too short](Secret::new).
    pub fn from_env(name: &'static str, variable: &str) -> Result<Self, SecretError> {
        use std::env::VarError;
        match std::env::var(variable) {
            Ok(value) => Self::new(name, value),
            Err(VarError::NotPresent) => Err(SecretError::NotSet { name, variable: variable.into() }),
            Err(VarError::NotUnicode(_)) => Err(SecretError::NotText { name, variable: variable.into() }),
        }
    }
}

impl<T> Secret<T> {
    /// The value, to be used and not kept.
    pub fn expose(&self) -> &T {
        &self.value
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.covered.name
    }
}

impl<T> fmt::Display for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[secret {}]", self.name())
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What may be written down though it is a secret: nothing. The bound is there for what the compiler says then.
#[diagnostic::on_unimplemented(
    message = "a secret cannot be stored",
    label = "this would write the secret down",
    note = "keep the `Secret` in the workflow itself (a field of the type that implements `Workflow`), not in what is stored of a run: its state, step, input and output, log entries, blobs, results of effects"
)]
pub trait MayBeStored {}

// On `T`: of a bound on the secret itself the compiler would say serde's words, not ours.
impl<T: MayBeStored> Serialize for Secret<T> {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(S::Error::custom("a secret cannot be stored"))
    }
}

impl<'de, T: MayBeStored> Deserialize<'de> for Secret<T> {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(D::Error::custom("a secret cannot be stored"))
    }
}

/// The text with the name of each [`Secret`] in its place. The messages of errors and panics have gone through this before
/// they are stored; a program may use it for what it writes elsewhere. Costs one atomic load as long as there is no secret,
/// and some 5 ms a MiB and secret when there is one.
///
/// ```
/// let key = stepwell::Secret::new("mail-api-key", "k-51f7c0a9")?;
/// assert_eq!(stepwell::redact("GET /?key=k%2D51f7c0a9"), "GET /?key=[secret mail-api-key]");
/// # Ok::<(), stepwell::SecretError>(())
/// ```
pub fn redact(text: impl Into<String>) -> String {
    let text: String = text.into();
    let Some(covered) = covered() else { return text };
    let mut found: Vec<_> = found(text.as_bytes(), &covered).collect();
    if found.is_empty() {
        return text;
    }
    found.sort_by_key(|(range, _)| range.start);
    let (mut clean, mut from) = (Vec::with_capacity(text.len()), 0);
    for (Range { start, end }, name) in found {
        // One that begins within another is a part of it, or goes on where it ends.
        if start >= from {
            clean.extend_from_slice(&text.as_bytes()[from..start]);
            clean.extend_from_slice(format!("[secret {name}]").as_bytes());
        }
        from = from.max(end);
    }
    clean.extend_from_slice(&text.as_bytes()[from..]);
    String::from_utf8_lossy(&clean).into_owned()
}

/// Refuses to store what holds a secret.
pub(crate) fn refuse_secrets(what: &str, text: &[u8]) -> Result<(), String> {
    let Some(covered) = covered() else { return Ok(()) };
    match found(text, &covered).next() {
        None => Ok(()),
        Some((_, name)) => {
            Err(format!("{what} holds secret {name} in plain: keep the Secret in the workflow, not in what is stored"))
        }
    }
}

/// What is searched for.
struct Covered {
    name: &'static str,
    /// The text itself, then others that give it away.
    forms: Vec<String>,
}

/// Every secret that is held by anybody, and those dropped last.
static COVERED: RwLock<Vec<Arc<Covered>>> = RwLock::new(Vec::new());

/// How many there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn cover(name: &'static str, text: &str) -> Arc<Covered> {
    watch_panics();
    let mut all = COVERED.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.iter().find(|known| known.name == name && known.forms[0] == text) {
        return Arc::clone(known);
    }
    let covered = Arc::new(Covered { name, forms: forms(text) });
    all.push(Arc::clone(&covered));
    let is_dropped = |covered: &Arc<Covered>| Arc::strong_count(covered) == 1;
    if all.iter().filter(|covered| is_dropped(covered)).count() > DROPPED_MAX
        && let Some(oldest) = all.iter().position(is_dropped)
    {
        all.remove(oldest);
    }
    // Who is to see the secret was given it, and so sees this.
    COUNT.store(all.len(), Ordering::Relaxed);
    covered
}

/// `None` when there is nothing to search for.
fn covered() -> Option<RwLockReadGuard<'static, Vec<Arc<Covered>>>> {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    Some(COVERED.read().unwrap_or_else(PoisonError::into_inner))
}

/// A panic message is printed before anybody can catch the panic.
fn watch_panics() {
    static WATCHING: Once = Once::new();
    // A thread that panics cannot set a hook.
    if std::thread::panicking() {
        return;
    }
    WATCHING.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let Some(text) = panic.payload_as_str().filter(|text| refuse_secrets("it", text.as_bytes()).is_err())
            else {
                return before(panic);
            };
            let thread = std::thread::current();
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            let text = format!("thread '{}' panicked at {place}:\n{text}", thread.name().unwrap_or("<unnamed>"));
            // Where nothing can be printed, nothing can be done about it.
            let _ = writeln!(std::io::stderr(), "{}", redact(text));
        }));
    });
}

/// The text, and the characters of base64 that no neighbour has a bit in: for each of the three places at which it can begin
/// there, in both alphabets.
fn forms(text: &str) -> Vec<String> {
    let mut forms = vec![text.to_owned()];
    for offset in 0..3 {
        let base64 = base64_core(text.as_bytes(), offset);
        let url_safe = base64.replace('+', "-").replace('/', "_");
        if url_safe != base64 {
            forms.push(url_safe);
        }
        forms.push(base64);
    }
    forms
}

fn base64_core(text: &[u8], offset: usize) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes = [&[0; 2][..offset], text].concat();
    let bit = |at: usize| bytes[at / 8] >> (7 - at % 8) & 1;
    let sextet = |first: usize| (first..first + 6).fold(0, |sextet, at| sextet << 1 | bit(at));
    let whole = (offset * 8).div_ceil(6)..bytes.len() * 8 / 6;
    whole.map(|at| char::from(ALPHABET[usize::from(sextet(at * 6))])).collect()
}

/// Where in a text which secret is.
fn found<'a>(text: &'a [u8], covered: &'a [Arc<Covered>]) -> impl Iterator<Item = (Range<usize>, &'static str)> + 'a {
    covered.iter().flat_map(move |secret| {
        let ends = move |at: usize| secret.forms.iter().find_map(|form| length(&text[at..], form.as_bytes()));
        (0..text.len()).filter_map(move |at| Some((at..at + ends(at)?, secret.name)))
    })
}

/// How much of the start of a text stands for this, encoded or not.
fn length(text: &[u8], form: &[u8]) -> Option<usize> {
    let begins = text.first() == form.first() || matches!(text.first(), Some(b'%' | b'\\'));
    if !begins {
        return None;
    }
    if text.starts_with(form) {
        return Some(form.len());
    }
    // A percent sign is one, or it never is.
    let escaped = |percent: fn(&[u8], u8) -> Option<usize>| {
        form.iter().try_fold(0, |at, byte| Some(at + encoded(text.get(at..)?, *byte, percent)?))
    };
    escaped(|_, byte| (byte == b'%').then_some(0)).or_else(|| escaped(percent))
}

/// How much of the start of a text stands for one byte: itself, percent-encoded (maybe more than once), or escaped as in JSON
/// or Rust's `Debug` (maybe within another).
fn encoded(text: &[u8], byte: u8, percent: fn(&[u8], u8) -> Option<usize>) -> Option<usize> {
    match text {
        [b'%', rest @ ..] => percent(rest, byte).map(|digits| 1 + digits),
        [b'\\', b'\\', ..] if byte == b'\\' => Some(2),
        [b'\\', ..] => {
            let slashes = text.iter().take_while(|byte| **byte == b'\\').count();
            escape(&text[slashes..], byte).map(|rest| slashes + rest).or_else(|| (byte == b'\\').then_some(1))
        }
        [b'+', ..] if byte == b' ' => Some(1),
        [first, ..] => (*first == byte).then_some(1),
        [] => None,
    }
}

fn percent(digits: &[u8], byte: u8) -> Option<usize> {
    // `%25` is a percent sign: that of an encoding before.
    let again = digits.chunks(2).take_while(|pair| *pair == b"25").count() * 2;
    let mut ends = (0..=again).step_by(2);
    ends.find(|at| digits.get(*at..at + 2).and_then(hex) == Some(u32::from(byte))).map(|at| at + 2)
}

fn escape(text: &[u8], byte: u8) -> Option<usize> {
    let (first, rest) = text.split_first()?;
    match (first, byte) {
        (b'n', b'\n') | (b'r', b'\r') | (b't', b'\t') => Some(1),
        (b'u', _) if rest.get(..4).and_then(hex) == Some(u32::from(byte)) && byte.is_ascii() => Some(5),
        (first, _) => (*first == byte && byte.is_ascii_punctuation()).then_some(1),
    }
}

fn hex(digits: &[u8]) -> Option<u32> {
    let digits =
        std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
    u32::from_str_radix(digits?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_its_name_and_nothing_else() {
        let secret = Secret::new("shown", "k-shown-1").unwrap();
        assert_eq!(format!("{secret} {secret:?} {secret:#?}"), "[secret shown] [secret shown] [secret shown]");
        assert_eq!((*secret.expose(), secret.name()), ("k-shown-1", "shown"));
    }

    #[test]
    fn what_cannot_be_a_secret_is_refused_without_being_shown() {
        assert!(Secret::new("pin", " 8 chars!\n").is_ok());
        let error = Secret::new("pin", "7 chars\n").unwrap_err();
        assert_eq!(error, SecretError::TooShort("pin"));
        assert!(!error.to_string().contains("7 chars"), "{error}");
        let error = Secret::from_env("pin", "STEPWELL_TEST_NO_SUCH_VARIABLE").unwrap_err().to_string();
        assert!(error.contains("secret pin") && error.contains("STEPWELL_TEST_NO_SUCH_VARIABLE is not set"), "{error}");
        // Cargo sets it for every test.
        let secret = Secret::from_env("manifest", "CARGO_MANIFEST_DIR").unwrap();
        assert_eq!(secret.expose(), env!("CARGO_MANIFEST_DIR"));
    }

    #[test]
    fn a_text_is_redacted_in_every_form() {
        let _secret = Secret::new("forms", "fö+rm/\"s\\ 51%25x\n").unwrap();
        for (form, of) in [
            ("fö+rm/\"s\\ 51%25x", "as it is"),
            ("f%C3%B6%2Brm%2F%22s%5C%2051%2525x", "percent-encoded"),
            ("f%c3%b6%2brm/%22s%5c%2051%2525x", "in lower case, and less of it"),
            ("f%C3%B6%2Brm%2F%22s%5C+51%2525x", "in a form's fields"),
            (r#"fö+rm/\"s\\ 51%25x"#, "in JSON"),
            (r"fö+rm\/\u0022s\\ 51%25x", "in JSON, differently"),
        ] {
            assert_eq!(redact(format!("a {form} b {form}")), "a [secret forms] b [secret forms]", "{of}");
        }
        let _secret = Secret::new("again", "again/and=again").unwrap();
        assert_eq!(redact("again%25252Fand%252525252525253Dagain"), "[secret again]", "encoded again and again");
        assert_eq!(redact("fö+rm/ 51%25x % \\ %2 \\u00 100%"), "fö+rm/ 51%25x % \\ %2 \\u00 100%");
    }

    #[test]
    fn base64_is_redacted_wherever_in_it_the_secret_begins() {
        let _secret = Secret::new("base64", "k?-base64~~key").unwrap();
        // What an encoder of others makes of it: plain, safe in URLs, percent-encoded.
        for (text, base64) in [
            ("k?-base64~~key", "az8tYmFzZTY0fn5rZXk="),
            ("u:k?-base64~~key!", "dTprPy1iYXNlNjR+fmtleSE="),
            ("us:k?-base64~~key", "dXM6az8tYmFzZTY0fn5rZXk="),
            ("x:k?-base64~~key", "eDprPy1iYXNlNjR-fmtleQ"),
            ("abck?-base64~~key", "YWJjaz8tYmFzZTY0fn5rZXk%3D"),
            ("ak?-base64~~key", "YWs%2FLWJhc2U2NH5%2Ba2V5"),
        ] {
            let clean = redact(format!("Basic {base64}"));
            assert!(clean.contains("[secret base64]"), "{text}: {clean}");
            assert!(clean.len() < "Basic [secret base64]".len() + 9, "{text}: {clean}");
        }
    }

    #[test]
    fn secrets_within_each_other_leave_no_rest() {
        let _long = Secret::new("long", "prefix-within-suffix").unwrap();
        let _short = Secret::new("within", "-within-").unwrap();
        let _beside = Secret::new("beside", "suffix-beside").unwrap();
        assert_eq!(redact("prefix-within-suffix"), "[secret long]");
        assert_eq!(redact("x-within-y"), "x[secret within]y");
        assert_eq!(redact("prefix-within-suffix-beside."), "[secret long].");
    }

    #[test]
    fn what_holds_a_secret_is_refused_by_name() {
        let secret = Secret::new("refused", "k-refused-1").unwrap();
        assert_eq!(refuse_secrets("the state", b"{\"key\":\"k-refused-2\"}"), Ok(()));
        let error = refuse_secrets("the state", format!("{{\"key\":\"{}\"}}", secret.expose()).as_bytes()).unwrap_err();
        assert_eq!(
            error,
            "the state holds secret refused in plain: keep the Secret in the workflow, not in what is stored"
        );
    }

    #[test]
    fn a_dropped_secret_stays_covered_for_a_while_and_a_held_one_for_ever() {
        let held = Secret::new("held", "k-held-forever").unwrap();
        drop(Secret::new("dropped", "k-dropped-early").unwrap());
        assert_eq!(redact("k-dropped-early"), "[secret dropped]");
        // The same again is no further one. Other tests make some, too.
        for number in 0..10_000 {
            drop(Secret::new("same", "k-the-same-one").unwrap());
            if number % 100 == 0 {
                drop(Secret::new("many", format!("k-many-{number:04}")).unwrap());
            }
        }
        assert_eq!(redact("k-dropped-early"), "k-dropped-early");
        assert_eq!(redact("k-held-forever k-many-9900"), "[secret held] [secret many]");
        assert!(COUNT.load(Ordering::Relaxed) < DROPPED_MAX + 32);
        drop(held);
    }
}
