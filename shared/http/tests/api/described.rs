//! The description and the API say the same: every answer of every test here is held against it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, OnceLock};

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use jsonschema::Validator;
use serde_json::{Value, json};
use stepwell_http::{Access, Actor};

use crate::bed::{Bed, request};

/// The description, and what was made of its schemas.
pub(crate) struct Described {
    document: Value,
    validators: Mutex<BTreeMap<String, &'static Validator>>,
}

/// What was sent, and what has come back.
pub(crate) struct Exchange<'a> {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) sent: Bytes,
    pub(crate) status: StatusCode,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) bytes: &'a Bytes,
}

/// The description, which is the same in every bed.
pub(crate) async fn described(bed: &Bed) -> &'static Described {
    static DESCRIBED: OnceLock<Described> = OnceLock::new();
    if let Some(described) = DESCRIBED.get() {
        return described;
    }
    let actor = Actor { name: "reader".into(), roles: vec!["admin".into()] };
    let request = Request::get("/v1/openapi.json").extension(actor).body(Body::empty()).unwrap();
    let response = bed.respond(request).await;
    assert_eq!(response.status(), StatusCode::OK);
    let document = serde_json::from_slice(&to_bytes(response.into_body(), usize::MAX).await.unwrap()).unwrap();
    DESCRIBED.get_or_init(|| Described { document, validators: Mutex::default() })
}

impl Described {
    /// The path's pattern, and what there is at it. Words are matched before parameters.
    fn find(&self, path: &str) -> Option<(&str, &Value)> {
        let asked: Vec<&str> = path.split('/').collect();
        let fits = |pattern: &str| {
            let words: Vec<&str> = pattern.split('/').collect();
            words.len() == asked.len()
                && words
                    .iter()
                    .zip(&asked)
                    .all(|(word, asked)| word == asked || word.starts_with('{') && !asked.is_empty())
        };
        let found = self.document["paths"].as_object().unwrap().iter().filter(|(pattern, _)| fits(pattern));
        found.min_by_key(|(pattern, _)| pattern.matches('{').count()).map(|(pattern, item)| (&**pattern, item))
    }

    fn validator(&self, key: String, schema: &Value) -> &'static Validator {
        self.validators.lock().unwrap().entry(key).or_insert_with(|| {
            let mut schema = schema.clone();
            schema["components"] = self.document["components"].clone();
            // They are as many as the description has answers, and live as long as the tests.
            Box::leak(Box::new(
                jsonschema::draft202012::options().should_validate_formats(true).build(&schema).unwrap(),
            ))
        })
    }

    /// Makes sure that the answer is one of those that the description has for this operation, and that a body that was taken is as
    /// it says.
    #[track_caller]
    pub(crate) fn check(&self, exchange: &Exchange<'_>) {
        let Exchange { method, path, sent, status, headers, bytes } = exchange;
        let Some((pattern, item)) = self.find(path) else { return };
        let word = if *method == Method::HEAD { "get".into() } else { method.as_str().to_lowercase() };
        let Some(operation) = item.get(&word) else { return };
        let at = format!("{method} {pattern} {status}");
        let answer =
            operation["responses"].get(status.as_str()).unwrap_or_else(|| panic!("{at} is not described: {bytes:?}"));
        match answer.get("content").and_then(Value::as_object) {
            None => assert!(bytes.is_empty(), "{at} has a body: {bytes:?}"),
            Some(_) if *method == Method::HEAD => assert!(bytes.is_empty(), "{at} has a body: {bytes:?}"),
            Some(content) => {
                let kind = headers["content-type"].to_str().unwrap();
                let schema = content.get(kind).unwrap_or_else(|| panic!("{at} is of the type {kind}"));
                self.holds(&at, &schema["schema"], bytes);
            }
        }
        if let (true, Some(body)) = (status.is_success(), operation.get("requestBody")) {
            self.holds(&format!("{at} takes"), &body["content"]["application/json"]["schema"], sent);
        }
    }

    #[track_caller]
    fn holds(&self, at: &str, schema: &Value, bytes: &Bytes) {
        let value: Value = serde_json::from_slice(bytes).unwrap();
        let errors: Vec<String> = self
            .validator(at.to_owned(), schema)
            .iter_errors(&value)
            .map(|error| format!("{error} at {}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{at}: {errors:?} in {}", value.to_string().chars().take(500).collect::<String>());
    }

    fn operations(&self) -> impl Iterator<Item = (&str, &str, &Value)> {
        let paths = self.document["paths"].as_object().unwrap().iter();
        paths.flat_map(|(path, item)| {
            item.as_object().unwrap().iter().map(|(method, operation)| (&**path, &**method, operation))
        })
    }
}

/// A path of this pattern.
fn of_pattern(pattern: &str) -> String {
    let words = [("{run}", "r1"), ("{id}", "0011223344556677"), ("{key}", "00112233445566778899aabbccddeeff")];
    words.iter().fold(pattern.to_owned(), |path, (word, with)| path.replace(word, with))
}

#[tokio::test(start_paused = true)]
async fn the_description_is_whole() {
    let bed = Bed::new();
    let described = described(&bed).await;
    let document = &described.document;
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1."), "{}", document["openapi"]);
    assert_eq!(document["servers"], json!([{"url": "https://runs.example.com"}]));
    assert_eq!(document["security"], json!([{"key": []}, {"token": []}]));
    let tags: BTreeSet<&str> =
        document["tags"].as_array().unwrap().iter().map(|tag| tag["name"].as_str().unwrap()).collect();
    let used = described.operations().flat_map(|(_, _, operation)| operation["tags"].as_array().unwrap());
    assert_eq!(used.map(|tag| tag.as_str().unwrap()).collect::<BTreeSet<_>>(), tags);
    let mut ids = BTreeSet::new();
    for (path, method, operation) in described.operations() {
        let at = format!("{method} {path}");
        assert!(ids.insert(operation["operationId"].as_str().unwrap().to_owned()), "{at}");
        assert!(!operation["summary"].as_str().unwrap().is_empty(), "{at}");
        assert!(operation.get("x-problems").is_none(), "{at}");
        let is_open = operation.get("security") == Some(&json!([{}]));
        assert_eq!(is_open, matches!(path, "/v1/health" | "/v1/session"), "{at}");
        assert!(is_open || operation["responses"].get("401").is_some(), "{at}");
        assert_eq!(operation.get("requestBody").is_some(), method == "post", "{at}");
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            assert!(parameter["schema"].get("type").is_some(), "{at}: {parameter}");
            assert!(parameter["description"].is_string(), "{at}: {parameter}");
        }
        for name in path.split('/').filter_map(|word| word.strip_prefix('{')?.strip_suffix('}')) {
            let named = |parameter: &&Value| parameter["name"] == name && parameter["in"] == "path";
            assert!(operation["parameters"].as_array().unwrap().iter().any(|parameter| named(&parameter)), "{at}");
        }
    }
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for (name, schema) in schemas.iter().filter(|(name, _)| name.ends_with("Body")) {
        assert_eq!(schema["additionalProperties"], false, "{name}");
    }
    let text = document.to_string();
    let refs = text.split(r##""$ref":"#/components/schemas/"##).skip(1).map(|rest| rest.split('"').next().unwrap());
    let refs: BTreeSet<&str> = refs.collect();
    let known: BTreeSet<&str> = schemas.keys().map(String::as_str).collect();
    assert_eq!(refs, known, "each schema is used, and each that is used is there");
}

#[tokio::test(start_paused = true)]
async fn every_route_is_described_and_no_other() {
    let bed = Bed::new();
    let described = described(&bed).await;
    // A router tells its patterns to whoever debugs it.
    let told = format!("{:?}", bed.app);
    let routes: BTreeSet<&str> = told.split('"').filter(|word| word.starts_with("/v1/")).collect();
    let paths: BTreeSet<&str> = described.document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(routes, paths);
    let mut methods: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (path, method, _) in described.operations() {
        methods.entry(path).or_default().insert(method.to_uppercase());
    }
    for (path, mut known) in methods {
        if known.contains("GET") {
            known.insert("HEAD".into());
        }
        let mut refused = 0;
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"] {
            let (is_known, asked_for_a_body) = (known.contains(method), method != "HEAD");
            let method: Method = method.parse().unwrap();
            let asked = request(method.clone(), &of_pattern(path)).body(Body::empty()).unwrap();
            let answer = bed.send(asked).await;
            assert_eq!(answer.status != StatusCode::METHOD_NOT_ALLOWED, is_known, "{method} {path}: {answer:?}");
            if !is_known {
                if asked_for_a_body {
                    answer.is_problem(405, "wrong-method");
                }
                let allow: BTreeSet<String> =
                    answer.headers["allow"].to_str().unwrap().split(',').map(|word| word.trim().to_owned()).collect();
                assert_eq!(allow, known, "{path}");
                refused += 1;
            }
        }
        assert!(refused > 0, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_description_is_for_those_who_are_known() {
    let bed = Bed::with(Access::none());
    let request = Request::get("/v1/openapi.json").body(Body::empty()).unwrap();
    bed.send(request).await.is_problem(401, "unauthenticated");
    let bed = Bed::new();
    let first = bed.get("/v1/openapi.json").await;
    assert_eq!((first.status, &first.headers["content-type"]), (StatusCode::OK, &"application/json".parse().unwrap()));
    let again = request_known(&bed, "/v1/openapi.json", first.headers["etag"].to_str().unwrap()).await;
    assert_eq!(again.status, StatusCode::NOT_MODIFIED);
}

async fn request_known(bed: &Bed, path: &str, tag: &str) -> crate::bed::Answer {
    bed.send(request(Method::GET, path).header("if-none-match", tag).body(Body::empty()).unwrap()).await
}

/// Each problem says in the description what it is and what to do, under the status that the table gives it.
#[tokio::test(start_paused = true)]
async fn every_code_is_told_with_what_to_do() {
    let bed = Bed::new();
    let described = described(&bed).await;
    let codes =
        described.document["components"]["schemas"]["Problem"]["properties"]["code"]["enum"].as_array().unwrap();
    let mut told = BTreeSet::new();
    for (path, method, operation) in described.operations() {
        for (status, answer) in operation["responses"].as_object().unwrap() {
            let Some(problem) = answer["content"].get("application/problem+json") else {
                assert!(status.parse::<u16>().unwrap() < 400, "{method} {path} {status}");
                continue;
            };
            for code in problem["schema"]["allOf"][1]["properties"]["code"]["enum"].as_array().unwrap() {
                let description = answer["description"].as_str().unwrap();
                assert!(description.contains(&format!("`{}`: ", code.as_str().unwrap())), "{description}");
                assert!(codes.contains(code), "{code}");
                told.insert(code.as_str().unwrap());
            }
        }
    }
    let all: BTreeSet<&str> = codes.iter().filter_map(Value::as_str).collect();
    let of_no_route: Vec<&str> = all.difference(&told).copied().collect();
    // Links tell theirs on pages, for people.
    let elsewhere = ["bad-link", "link-expired", "link-over", "link-used", "no-such-route", "wrong-method"];
    assert_eq!(of_no_route, elsewhere, "each other code of the table belongs to some route");
}
