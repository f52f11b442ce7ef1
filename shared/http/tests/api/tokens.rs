//! Tokens of an issuer: only those that it signed, for this API, in time, with a key and an algorithm of its own choice.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use axum::body::Body;
use axum::http::Request;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use stepwell_core::Timestamp;
use stepwell_http::jwt::{Issuer, JwtTokens, KeySource};
use stepwell_http::{Access, Limits};
use stepwell_testkit::VirtualClock;

use crate::bed::{Answer, Bed};

const ISSUER: &str = "https://login.example.org/";
const AUDIENCE: &str = "stepwell";
const START: Timestamp = Timestamp(4_444_444 * 900_000);
const NOW: u64 = START.0 / 1_000;

/// A key of the issuer's.
struct Key {
    id: &'static str,
    algorithm: Algorithm,
    signing: EncodingKey,
    /// Its public part, where the library cannot work it out.
    public: Option<Value>,
}

impl Key {
    fn new(id: &'static str, algorithm: Algorithm) -> Self {
        let random = SystemRandom::new();
        let mut public = None;
        let signing = match algorithm {
            Algorithm::RS256 => {
                let pair = aws_lc_rs::rsa::KeyPair::generate(KeySize::Rsa2048).unwrap();
                let der: aws_lc_rs::encoding::Pkcs8V1Der<'_> = pair.as_der().unwrap();
                EncodingKey::from_rsa_der(&pkcs1(der.as_ref()))
            }
            Algorithm::ES256 => EncodingKey::from_ec_der(
                EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap().as_ref(),
            ),
            Algorithm::EdDSA => {
                let der = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
                let pair = Ed25519KeyPair::from_pkcs8(der.as_ref()).unwrap();
                public = Some(json!({"kty": "OKP", "crv": "Ed25519", "x": base64(pair.public_key().as_ref())}));
                EncodingKey::from_ed_der(der.as_ref())
            }
            other => panic!("{other:?}"),
        };
        Self { id, algorithm, signing, public }
    }

    fn jwk(&self) -> Value {
        let worked_out =
            || serde_json::to_value(Jwk::from_encoding_key(&self.signing, self.algorithm).unwrap()).unwrap();
        let mut jwk = self.public.clone().unwrap_or_else(worked_out);
        (jwk["kid"], jwk["use"]) = (json!(self.id), json!("sig"));
        jwk
    }

    fn sign(&self, claims: &Value) -> String {
        let header = Header { kid: Some(self.id.into()), ..Header::new(self.algorithm) };
        jsonwebtoken::encode(&header, claims, &self.signing).unwrap()
    }
}

/// The key within its wrapping.
fn pkcs1(pkcs8: &[u8]) -> Vec<u8> {
    // Version, algorithm and the head of the octet string take 26 bytes for a key of 2,048 bits.
    pkcs8[26..].to_vec()
}

/// The issuer's answers, and how often it was asked.
#[derive(Default)]
struct Source {
    keys: Mutex<Option<String>>,
    asked: AtomicUsize,
}

#[async_trait]
impl KeySource for Source {
    async fn fetch(&self) -> Result<Vec<u8>, String> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(10)).await;
        self.keys.lock().unwrap().clone().map(String::into_bytes).ok_or_else(|| "it is down".into())
    }
}

impl Source {
    fn tell(&self, keys: &[&Key]) {
        self.tell_text(Some(json!({"keys": keys.iter().map(|key| key.jwk()).collect::<Vec<_>>()}).to_string()));
    }

    fn tell_text(&self, text: Option<String>) {
        *self.keys.lock().unwrap() = text;
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn bed_of(issuer: Issuer) -> (Bed, Arc<Source>) {
    let source = Arc::new(Source::default());
    let tokens = Arc::new(JwtTokens::new(issuer, source.clone()));
    let clock = Arc::new(VirtualClock::starting_at(START));
    (Bed::with(Access::none().with_tokens(tokens).with_clock(clock).with_limits(Limits::none())), source)
}

fn bed() -> (Bed, Arc<Source>) {
    bed_of(Issuer::new(ISSUER, AUDIENCE))
}

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": NOW + 3_600, "roles": ["viewer"]})
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

async fn get(bed: &Bed, token: &str) -> Answer {
    let request = Request::get("/v1/runs").header("authorization", format!("Bearer {token}"));
    bed.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn a_token_of_the_issuer_lets_in_with_its_roles() {
    for algorithm in [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA] {
        let ((bed, source), key) = (bed(), Key::new("k1", algorithm));
        source.tell(&[&key]);
        let answer = get(&bed, &key.sign(&claims())).await;
        assert_eq!(answer.status, 200, "{algorithm:?}: {answer:?}");
        get(&bed, &key.sign(&with("roles", json!(["finance"])))).await.is_problem(403, "no-permission");
        get(&bed, &key.sign(&with("roles", json!([])))).await.is_problem(403, "no-permission");
        assert_eq!(get(&bed, &key.sign(&with("aud", json!(["other", AUDIENCE])))).await.status, 200);
    }
    let ((bed, source), key) = (bed(), Key::new("k1", Algorithm::EdDSA));
    source.tell(&[&key]);
    // What it does is noted under the subject.
    let token = key.sign(&with("roles", json!(["operator"])));
    let post = |path: String, body: Value| {
        let request = Request::post(path).header("authorization", format!("bearer {token}"));
        bed.send(request.header("content-type", "application/json").body(Body::from(body.to_string())).unwrap())
    };
    let run = post("/v1/runs".into(), crate::bed::start("?", 1)).await.body["run"].as_str().unwrap().to_owned();
    let cancelled = post(format!("/v1/runs/{run}/cancel"), json!({})).await;
    assert!(cancelled.body.to_string().contains("jwt:ann"), "{cancelled:?}");
}

#[tokio::test(start_paused = true)]
async fn roles_come_from_the_claim_and_the_prefix_that_are_set() {
    let key = Key::new("k1", Algorithm::EdDSA);
    let cases = [
        ("scope", "stepwell:", json!({"scope": "openid stepwell:viewer admin"}), 200),
        ("scope", "stepwell:", json!({"scope": "openid viewer admin"}), 403),
        ("realm_access.roles", "", json!({"realm_access": {"roles": ["viewer"]}}), 200),
        ("https://example.org/roles", "", json!({"https://example.org/roles": ["viewer"]}), 200),
        ("groups", "", json!({"roles": ["viewer"]}), 403),
        ("groups", "", json!({"groups": {"viewer": true}}), 403),
        ("groups", "", json!({"groups": [["viewer"], 7, null, "view er"]}), 403),
        (
            "groups",
            "",
            json!({"groups": (0..17).map(|n| format!("r{n}")).chain(["viewer".into()]).collect::<Vec<_>>()}),
            401,
        ),
        (
            "groups",
            "here-",
            json!({"groups": (0..17).map(|n| format!("r{n}")).chain(["here-viewer".into()]).collect::<Vec<_>>()}),
            200,
        ),
    ];
    for (claim, prefix, more, status) in cases {
        let issuer = Issuer { roles_claim: claim.into(), roles_prefix: prefix.into(), ..Issuer::new(ISSUER, AUDIENCE) };
        let (bed, source) = bed_of(issuer);
        source.tell(&[&key]);
        let mut claims = claims();
        claims.as_object_mut().unwrap().remove("roles");
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(get(&bed, &key.sign(&claims)).await.status, status, "{claim} {more}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_for_others_or_out_of_time_is_refused() {
    let ((bed, source), key) = (bed(), Key::new("k1", Algorithm::ES256));
    source.tell(&[&key]);
    let without = |name: &str| {
        let mut claims = claims();
        claims.as_object_mut().unwrap().remove(name);
        claims
    };
    let refused = [
        with("iss", json!("https://evil.example/")),
        with("iss", json!("https://login.example.org")),
        with("aud", json!("other")),
        with("aud", json!(["other"])),
        with("aud", json!([])),
        with("exp", json!(NOW - 60)),
        with("exp", json!("tomorrow")),
        with("exp", Value::Null),
        with("nbf", json!(NOW + 62)),
        with("sub", json!("")),
        with("sub", json!(" ann")),
        with("sub", json!("a\u{0}b")),
        with("sub", json!("n".repeat(201))),
        without("iss"),
        without("aud"),
        without("exp"),
        without("sub"),
    ];
    for claims in refused {
        get(&bed, &key.sign(&claims)).await.is_problem(401, "unauthenticated");
    }
    for claims in [with("exp", json!(NOW - 58)), with("nbf", json!(NOW + 58)), with("exp", json!(9_999_999_999.5))] {
        assert_eq!(get(&bed, &key.sign(&claims)).await.status, 200, "{claims}");
    }
    let token = key.sign(&claims());
    assert_eq!(get(&bed, &token).await.status, 200);
    tokio::time::advance(Duration::from_secs(3_600 + 61)).await;
    get(&bed, &token).await.is_problem(401, "unauthenticated");
}

fn encode(value: &Value) -> String {
    use base64ct::{Base64UrlUnpadded, Encoding as _};
    Base64UrlUnpadded::encode_string(value.to_string().as_bytes())
}

#[tokio::test(start_paused = true)]
async fn no_token_chooses_how_it_is_checked() {
    let (bed, source) = bed();
    let (rsa, ec) = (Key::new("rsa", Algorithm::RS256), Key::new("ec", Algorithm::ES256));
    let (shared, encrypts) = (b"a secret that everybody can read", Key::new("enc", Algorithm::RS256));
    let oct = json!({"kty": "oct", "kid": "oct", "k": base64(shared), "alg": "HS256"});
    let mut all = vec![rsa.jwk(), ec.jwk(), oct, encrypts.jwk()];
    all[3]["use"] = json!("enc");
    source.tell_text(Some(json!({ "keys": all }).to_string()));
    assert_eq!(get(&bed, &rsa.sign(&claims())).await.status, 200);
    let hs = |id: &str, secret: &[u8]| {
        let header = Header { kid: Some(id.into()), ..Header::new(Algorithm::HS256) };
        jsonwebtoken::encode(&header, &claims(), &EncodingKey::from_secret(secret).unwrap()).unwrap()
    };
    let modulus = rsa.jwk()["n"].as_str().unwrap().to_owned();
    let signed = rsa.sign(&claims());
    let (head, signature) = signed.rsplit_once('.').unwrap();
    let payload = head.split_once('.').unwrap().1;
    let forged = [
        // None at all.
        format!("{}.{}.", encode(&json!({"alg": "none", "kid": "rsa"})), encode(&claims())),
        format!("{}.{}.", encode(&json!({"alg": "None", "kid": "rsa", "typ": "JWT"})), encode(&claims())),
        format!("{}.{payload}.{signature}", encode(&json!({"alg": "HS256", "kid": "rsa"}))),
        // A public key as a shared secret, and a shared secret in a public set.
        hs("rsa", modulus.as_bytes()),
        hs("rsa", rsa.jwk().to_string().as_bytes()),
        hs("oct", shared),
        // The key of one algorithm under the name of another.
        Key::new("rsa", Algorithm::ES256).sign(&claims()),
        Key::new("ec", Algorithm::RS256).sign(&claims()),
        format!("{}.{payload}.{signature}", encode(&json!({"alg": "RS512", "kid": "rsa"}))),
        format!("{}.{payload}.{signature}", encode(&json!({"alg": "PS256", "kid": "rsa"}))),
        // Its own key in its own head.
        format!("{}.{payload}.{signature}", encode(&json!({"alg": "RS256", "jwk": rsa.jwk()}))),
        format!("{}.{payload}.{signature}", encode(&json!({"alg": "RS256", "kid": "rsa", "crit": ["exp"]}))),
        // Other claims under the same signature, no key, the wrong one, one for other uses.
        format!("{}.{}.{signature}", head.split_once('.').unwrap().0, encode(&with("sub", json!("bob")))),
        format!("{head}."),
        head.to_owned(),
        Key::new("rsa", Algorithm::RS256).sign(&claims()),
        Key::new("nobody", Algorithm::RS256).sign(&claims()),
        encrypts.sign(&claims()),
        format!("{signed}.{signature}"),
        "a".repeat(20_000),
        "..".into(),
    ];
    for (at, token) in forged.iter().enumerate() {
        let answer = get(&bed, token).await;
        assert_eq!(answer.status, 401, "{at}: {answer:?}");
        answer.is_problem(401, "unauthenticated");
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64ct::{Base64UrlUnpadded, Encoding as _};
    Base64UrlUnpadded::encode_string(bytes)
}

#[tokio::test(start_paused = true)]
async fn keys_are_kept_and_a_new_one_is_asked_for_now_and_then() {
    let (bed, source) = bed();
    let (old, new) = (Key::new("old", Algorithm::EdDSA), Key::new("new", Algorithm::EdDSA));
    source.tell(&[&old]);
    let (by_old, by_new) = (old.sign(&claims()), new.sign(&claims()));
    for _ in 0..20 {
        assert_eq!(get(&bed, &by_old).await.status, 200);
    }
    assert_eq!(source.asked(), 1);
    // Names that anybody makes up do not make it ask each time.
    for _ in 0..20 {
        get(&bed, &by_new).await.is_problem(401, "unauthenticated");
    }
    assert_eq!(source.asked(), 1);
    source.tell(&[&old, &new]);
    tokio::time::advance(Duration::from_secs(31)).await;
    assert_eq!((get(&bed, &by_new).await.status.as_u16(), source.asked()), (200, 2));
    assert_eq!((get(&bed, &by_old).await.status.as_u16(), source.asked()), (200, 2));
    // One that the issuer has withdrawn is good for ten minutes at most.
    source.tell(&[&new]);
    tokio::time::advance(Duration::from_mins(10)).await;
    get(&bed, &by_old).await.is_problem(401, "unauthenticated");
    assert_eq!((get(&bed, &by_new).await.status.as_u16(), source.asked()), (200, 3));
}

#[tokio::test(start_paused = true)]
async fn an_issuer_that_does_not_answer_shuts_nobody_out_at_once() {
    let (bed, source) = bed();
    let key = Key::new("k1", Algorithm::EdDSA);
    let token = key.sign(&with("exp", json!(NOW + 1_000_000)));
    get(&bed, &token).await.is_problem(503, "no-issuer");
    get(&bed, &token).await.is_problem(503, "no-issuer");
    assert_eq!(source.asked(), 1);
    for text in ["", "{}", r#"{"keys": 7}"#, &"x".repeat(300_000)] {
        source.tell_text(Some(text.into()));
        tokio::time::advance(Duration::from_secs(31)).await;
        get(&bed, &token).await.is_problem(503, "no-issuer");
    }
    source.tell(&[&key]);
    tokio::time::advance(Duration::from_secs(31)).await;
    assert_eq!(get(&bed, &token).await.status, 200);
    source.tell_text(None);
    tokio::time::advance(Duration::from_hours(23)).await;
    assert_eq!(get(&bed, &token).await.status, 200);
    tokio::time::advance(Duration::from_hours(2)).await;
    get(&bed, &token).await.is_problem(503, "no-issuer");
}

#[tokio::test(start_paused = true)]
async fn many_at_once_ask_once() {
    let (bed, source) = bed();
    let key = Key::new("k1", Algorithm::EdDSA);
    source.tell(&[&key]);
    let token = key.sign(&claims());
    let asked = (0..20).map(|_| get(&bed, &token));
    for answer in futures_util::future::join_all(asked).await {
        assert_eq!(answer.status, 200);
    }
    assert_eq!(source.asked(), 1);
}
