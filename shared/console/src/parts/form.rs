//! Forms that the script sends to the API as JSON. Each says where to, with what, and what has to be confirmed.

use maud::{Markup, html};
use stepwell_core::Revision;

/// A form. Its fields are named as in the body that the API takes.
pub(crate) struct Form<'a> {
    /// Names it in the page: letters, digits, `-`.
    pub(crate) id: &'a str,
    /// The API's path.
    pub(crate) path: String,
    /// The revision that it was made for, where the API wants to know.
    pub(crate) at: Option<Revision>,
    /// What to ask before it is sent.
    pub(crate) confirm: Option<String>,
    /// Where to go once it is done, by the script's word for it; `None`: the page stays.
    pub(crate) then: Option<&'static str>,
    /// What is said once it is done.
    pub(crate) done: &'a str,
    /// What it does, as a heading of its buttons for screen readers.
    pub(crate) label: &'a str,
    pub(crate) fields: Markup,
    pub(crate) buttons: Markup,
}

impl Form<'_> {
    pub(crate) fn show(self) -> Markup {
        let Self { id, path, at, confirm, then, done, label, fields, buttons } = self;
        let if_match = at.map(|at| format!("\"{at}\"", at = at.0));
        html! {
            form.act id=(id) aria-label=(label) autocomplete="off" data-method="POST" data-path=(path) data-done=(done)
                data-if-match=[if_match] data-confirm=[confirm] data-then=[then] {
                (fields)
                p.error id={ (id) "-error" } role="alert" tabindex="-1" hidden {}
                p.buttons { (buttons) }
            }
        }
    }
}

/// A button that sends. Without the script nothing can be sent, so the script switches it on.
pub(crate) fn button(words: &str) -> Markup {
    html! { button type="submit" data-needs-script disabled { (words) } }
}

/// A button that sends what cannot be taken back, or a "no".
pub(crate) fn grave(words: &str) -> Markup {
    html! { button.grave type="submit" data-needs-script disabled { (words) } }
}

/// A button that sends this value with the rest.
pub(crate) fn choice(name: &str, value: &str, words: &str, grave: bool) -> Markup {
    html! {
        button class=[grave.then_some("grave")] type="submit" name=(name) value=(value) data-needs-script disabled {
            (words)
        }
    }
}

/// A line of text.
pub(crate) struct Line<'a> {
    pub(crate) form: &'a str,
    pub(crate) name: &'a str,
    pub(crate) label: &'a str,
    pub(crate) hint: &'a str,
    pub(crate) required: bool,
}

impl Line<'_> {
    pub(crate) fn show(self) -> Markup {
        let Self { form, name, label, hint, required } = self;
        let id = format!("{form}-{name}");
        html! {
            p.field {
                label for=(id) { (label) @if !required { " " span.optional { "(optional)" } } }
                input id=(id) name=(name) type="text" required[required] maxlength="1024"
                    aria-describedby=[(!hint.is_empty()).then(|| format!("{id}-hint"))];
                @if !hint.is_empty() { span.hint id={ (id) "-hint" } { (hint) } }
            }
        }
    }
}

/// Why somebody acts.
pub(crate) fn why(form: &str, required: bool, hint: &str) -> Markup {
    Line { form, name: "why", label: "Why", hint, required }.show()
}

/// Why somebody decides as they do, where there are several buttons: Enter makes a line there, and presses none of them.
pub(crate) fn why_of_choice(form: &str, hint: &str) -> Markup {
    html! {
        p.field {
            label for={ (form) "-why" } { "Why " span.optional { "(optional)" } }
            textarea id={ (form) "-why" } name="why" rows="2" maxlength="1024" aria-describedby={ (form) "-why-hint" } {}
            span.hint id={ (form) "-why-hint" } { (hint) }
        }
    }
}

/// How the text of a JSON field goes into the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goes {
    /// As the value of its name.
    Plain,
    /// As a patch that puts it in the place of the whole.
    Replace,
}

/// Several lines of JSON.
pub(crate) struct JsonField<'a> {
    pub(crate) form: &'a str,
    pub(crate) name: &'a str,
    pub(crate) label: &'a str,
    pub(crate) hint: &'a str,
    pub(crate) text: &'a str,
    pub(crate) goes: Goes,
}

impl JsonField<'_> {
    pub(crate) fn show(self) -> Markup {
        let Self { form, name, label, hint, text, goes } = self;
        let id = format!("{form}-{name}");
        let rows = text.lines().count().clamp(2, 20);
        let goes = match goes {
            Goes::Plain => "json",
            Goes::Replace => "replace",
        };
        html! {
            p.field {
                label for=(id) { (label) }
                textarea id=(id) name=(name) rows=(rows) data-goes=(goes) spellcheck="false" autocapitalize="off"
                    aria-describedby={ (id) "-hint" } { (text) }
                span.hint id={ (id) "-hint" } { (hint) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_says_all_that_the_script_needs_and_escapes_it() {
        let fields = html! {
            (why("f", true, ""))
            (JsonField { form: "f", name: "patch", label: "Patch", hint: "", text: "</textarea>\"", goes: Goes::Plain }.show())
        };
        let form = Form {
            id: "f",
            path: "/v1/runs/r1/edit".into(),
            at: Some(Revision(12)),
            confirm: Some("\"><script>".into()),
            then: None,
            done: "Edited",
            label: "Edit",
            fields,
            buttons: button("Edit"),
        };
        let shown = form.show().into_string();
        for part in [
            r#"data-path="/v1/runs/r1/edit""#,
            r#"data-if-match="&quot;12&quot;""#,
            r#"data-confirm="&quot;&gt;&lt;script&gt;""#,
            r#"<label for="f-why">Why</label>"#,
            "&lt;/textarea&gt;",
            r#"id="f-error" role="alert""#,
        ] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
    }

    #[test]
    fn the_reason_of_a_choice_is_no_line_that_enter_would_send() {
        let shown = why_of_choice("f", "Say it").into_string();
        for part in
            [r#"<label for="f-why">"#, r#"<textarea id="f-why" name="why""#, r#"<span class="hint" id="f-why-hint">"#]
        {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        assert!(!shown.contains("<input"), "{shown}");
    }
}
