//! What every page has to be, for the tests of all of them.

/// Checks that a document has its title, one heading and landmarks, and nothing that the policy of its contents forbids.
#[track_caller]
pub(crate) fn is_sound(page: &str) {
    let count = |part: &str| page.matches(part).count();
    assert_eq!(count("<h1"), 1, "one h1: {page}");
    let head = page.split("</head>").next().unwrap_or_default();
    // Pictures have titles of their own.
    assert_eq!(head.matches("<title>").count(), 1, "{head}");
    for once in ["<html lang=\"en\">", "<header", "<main id=\"main\"", "<footer", "class=\"skip\" href=\"#main\""] {
        assert_eq!(count(once), 1, "{once} once: {page}");
    }
    assert!(!page.contains("<title> "), "{page}");
    // The one script and the one style sheet come from this host.
    assert_eq!(count("<script"), 1, "{page}");
    assert_eq!(count("<script type=\"module\" src=\"/assets/console-"), 1, "{page}");
    assert_eq!((count("<style"), count("<link rel=\"stylesheet\" href=\"/assets/console-")), (0, 1), "{page}");
    for (number, tag) in tags(page).enumerate() {
        for attribute in attributes(tag) {
            assert!(!attribute.starts_with("on") && attribute != "style", "tag {number}, {attribute}: {tag}");
        }
        assert!(!tag.contains("javascript:"), "{tag}");
    }
    ids_are_unique(page);
    labels_have_their_fields(page);
}

/// What stands between `<` and `>`. Text is escaped, so it has neither.
fn tags(page: &str) -> impl Iterator<Item = &str> {
    page.split('<').skip(1).filter_map(|rest| rest.split('>').next())
}

/// The names of a tag's attributes.
fn attributes(tag: &str) -> Vec<String> {
    let mut outside = String::new();
    for (place, part) in tag.split('"').enumerate() {
        if place % 2 == 0 {
            outside.push_str(part);
            outside.push(' ');
        }
    }
    let words = outside.split_whitespace().skip(1);
    words.map(|word| word.trim_end_matches('=').to_lowercase()).collect()
}

fn values(page: &str, name: &str) -> Vec<String> {
    let start = format!(" {name}=\"");
    let rest = page.split(start.as_str()).skip(1);
    rest.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

#[track_caller]
fn ids_are_unique(page: &str) {
    let mut ids = values(page, "id");
    ids.sort();
    for pair in ids.windows(2) {
        assert_ne!(pair[0], pair[1], "an id that is there twice");
    }
}

#[track_caller]
fn labels_have_their_fields(page: &str) {
    let ids = values(page, "id");
    let mut named = values(page, "for");
    for names in ["aria-labelledby", "aria-describedby"] {
        named.extend(values(page, names).iter().flat_map(|value| value.split(' ')).map(str::to_owned));
    }
    for name in named {
        assert!(ids.contains(&name), "nothing has the id {name}");
    }
}

#[test]
fn what_is_forbidden_is_found() {
    let found = |tag: &str| attributes(tag);
    assert_eq!(found(r#"a href="x onclick=" onclick="y" style="z""#), ["href", "onclick", "style"]);
    assert_eq!(found("button disabled"), ["disabled"]);
}
