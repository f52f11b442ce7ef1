//! What names, times and other words of the core look like, for the API's description. The core itself knows nothing of it.

use std::borrow::Cow;

use stepwell_core::Phase as CorePhase;
use stepwell_core::limits::{NAME_CHARS_MAX, WORDS_BYTES_MAX};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    KnownFormat, Object, ObjectBuilder, OneOf, OneOfBuilder, Schema, SchemaFormat, SchemaType, Type,
};
use utoipa::{PartialSchema, ToSchema};

/// Letters, digits and marks, as the core checks them.
const NAME: &str = "^[A-Za-z0-9_][A-Za-z0-9_.:-]*$";

/// Types that stand for others in the description: each is a component of its name, or stands in its place where it is used.
macro_rules! stands_for {
    ($($(#[$doc:meta])* $name:ident = $schema:expr;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                Schema::from($schema).into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        }
    )*};
}

stands_for! {
    /// Names one run.
    RunId = name("Names one run.");
    /// Names a workflow.
    WorkflowName = name("Names a workflow.");
    /// Names a signal.
    SignalName = name("Names a signal that the workflow accepts.");
    /// Names one delivery of a signal.
    SignalId = name("Names one signal: a second delivery of the same id is the same signal.");
    /// Names an approval.
    ApprovalId = text("Names an approval of a run. It is bound to what is asked.", 16, 16, Some("^[0-9a-f]{16}$"));
    /// Names an effect.
    EffectKey = text("By which an effect is known, here and by the other side.", 32, 32, Some("^[0-9a-f]{32}$"));
    /// A digest.
    Fingerprint = text("A SHA-256 digest, in hexadecimal digits.", 64, 64, Some("^[0-9a-f]{64}$"));
    /// Words that a person has to give.
    Why = text(
        "Why, for people: it goes into the history. At most 1024 bytes of UTF-8, and not blank.",
        1,
        WORDS_BYTES_MAX,
        Some(r"\S"),
    );
    /// Words that a person may give.
    Words = text("Words for people. At most 1024 bytes of UTF-8.", 0, WORDS_BYTES_MAX, None);
    /// A point in time.
    Time = time();
    /// Where a run stands.
    Phase = phases("Where a run stands.", |_| true);
    /// Where a run of a list stands.
    ListedPhase = phases("Where a run of a list stands.", |phase| phase != CorePhase::Cancelling);
    /// One server-sent event.
    RunEvent = run_event();
    /// One operation of a JSON patch.
    PatchOperation = patch_operation();
    /// A number that no run gets beyond.
    Revision = revision();
}

fn text(description: &str, least: usize, most: impl Into<Option<usize>>, pattern: Option<&str>) -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(description))
        .min_length((least > 0).then_some(least))
        .max_length(most.into())
        .pattern(pattern)
        .build()
}

fn name(description: &str) -> Object {
    text(description, 1, NAME_CHARS_MAX, Some(NAME))
}

fn time() -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .description(Some("A point in time, in RFC 3339."))
        .build()
}

fn phases(description: &str, which: fn(CorePhase) -> bool) -> Object {
    let words = CorePhase::ALL.into_iter().filter(|phase| which(*phase)).map(CorePhase::as_str);
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).description(Some(description)).build()
}

fn revision() -> Object {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(Some(0.0))
        .maximum(Some(i64::MAX))
        .description(Some("How many commits a run has seen."))
        .build()
}

/// What a client reads of an event: its data is text that is JSON.
fn run_event() -> Object {
    let word = |description: &str| ObjectBuilder::new().schema_type(Type::String).description(Some(description));
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some("A run that stands otherwise than was told."))
        .property("event", word("What has happened.").enum_values(Some(["run"])))
        .property("id", word("The run's entity tag, without its quotes."))
        .property("data", word("A `RunView`.").content_media_type("application/json"))
        .required("event")
        .required("id")
        .required("data")
        .build()
}

/// As RFC 6902 has it; what is more than an operation needs is let be.
fn patch_operation() -> OneOf {
    let operation = |words: &[&str], needs: &[&str]| {
        let word = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words.iter().copied()));
        let pointer = || text("A JSON pointer (RFC 6901).", 0, None, Some("^(/([^/~]|~[01])*)*$"));
        let mut object =
            ObjectBuilder::new().schema_type(Type::Object).property("op", word).property("path", pointer());
        for need in ["op", "path"].iter().chain(needs) {
            object = object.required(*need);
        }
        if needs.contains(&"from") {
            object = object.property("from", pointer());
        }
        object
    };
    OneOfBuilder::new()
        .item(operation(&["add", "replace", "test"], &["value"]))
        .item(operation(&["move", "copy"], &["from"]))
        .item(operation(&["remove"], &[]))
        .description(Some("One operation of a JSON patch (RFC 6902)."))
        .build()
}

/// Whatever JSON there is.
pub(crate) fn any(description: &str) -> RefOr<Schema> {
    let schema = ObjectBuilder::new().schema_type(SchemaType::AnyValue).description(Some(description)).build();
    Schema::Object(schema).into()
}
