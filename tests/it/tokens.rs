//! Tokens (JWT) that another server signs: valid ones, and forgeries; client certificates.

use std::{
    net::SocketAddr,
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use glossator::config::{self, Sources};
use ring::{
    hmac,
    rand::SystemRandom,
    rsa,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
        RSA_PSS_SHA256, RsaEncoding,
    },
};
use serde_json::{Value, json};

use crate::support::{Client, Loaded, Program, Response, Scripted, Step, response, soon};

pub(crate) const ISSUER: &str = "https://login.test";
pub(crate) const RESOURCE: &str = "https://tools.test/mcp";

/// Server that signs tokens, with a key of each kind.
pub(crate) struct Login {
    edwards: Ed25519KeyPair,
    curve: EcdsaKeyPair,
}

impl Login {
    pub(crate) fn new() -> Self {
        let random = SystemRandom::new();
        let edwards = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let curve = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self {
            edwards: Ed25519KeyPair::from_pkcs8(edwards.as_ref()).unwrap(),
            curve: EcdsaKeyPair::from_pkcs8(algorithm, curve.as_ref(), &random).unwrap(),
        }
    }

    pub(crate) fn jwks(&self) -> String {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let point = self.curve.public_key().as_ref();
        json!({ "keys": [
            { "kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": encode(self.edwards.public_key().as_ref()) },
            { "kty": "EC", "crv": "P-256", "kid": "ec", "use": "sig", "alg": "ES256",
              "x": encode(&point[1..33]), "y": encode(&point[33..]) },
        ] })
        .to_string()
    }

    /// Token with this header and these claims, signed by `sign`.
    fn token(header: &Value, claims: &Value, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", encode(header), encode(claims));
        let signature = sign(message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    pub(crate) fn by_edwards(&self, claims: &Value) -> String {
        let header = json!({ "alg": "EdDSA", "kid": "ed" });
        Self::token(&header, claims, |message| self.edwards.sign(message).as_ref().to_vec())
    }

    fn by_curve(&self, claims: &Value) -> String {
        let header = json!({ "alg": "ES256", "typ": "at+jwt", "kid": "ec" });
        let sign = |message: &[u8]| self.curve.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec();
        Self::token(&header, claims, sign)
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// RSA key of RFC 7515, appendix A.2, which is public: modulus, private exponent, and its five parts.
const RSA: [&str; 7] = [
    "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ",
    "Eq5xpGnNCivDflJsRQBXHx1hdR1k6Ulwe2JZD50LpXyWPEAeP88vLNO97IjlA7_GQ5sLKMgvfTeXZx9SE-7YwVol2NXOoAJe46sui395IW_GO-pWJ1O0BkTGoVEn2bKVRUCgu-GjBVaYLU6f3l9kJfFNS3E0QbVdxzubSu3Mkqzjkn439X0M_V51gfpRLI9JYanrC4D4qAdGcopV_0ZHHzQlBjudU2QvXt4ehNYTCBr6XCLQUShb1juUO1ZdiYoFaFQT5Tw8bGUl_x_jTj3ccPDVZFD9pIuhLhBOneufuBiB4cS98l2SR_RQyGWSeWjnczT0QU91p1DhOVRuOopznQ",
    "4BzEEOtIpmVdVEZNCqS7baC4crd0pqnRH_5IB3jw3bcxGn6QLvnEtfdUdiYrqBdss1l58BQ3KhooKeQTa9AB0Hw_Py5PJdTJNPY8cQn7ouZ2KKDcmnPGBY5t7yLc1QlQ5xHdwW1VhvKn-nXqhJTBgIPgtldC-KDV5z-y2XDwGUc",
    "uQPEfgmVtjL0Uyyx88GZFF1fOunH3-7cepKmtH4pxhtCoHqpWmT8YAmZxaewHgHAjLYsp1ZSe7zFYHj7C6ul7TjeLQeZD_YwD66t62wDmpe_HlB-TnBA-njbglfIsRLtXlnDzQkv5dTltRJ11BKBBypeeF6689rjcJIDEz9RWdc",
    "BwKfV3Akq5_MFZDFZCnW-wzl-CCo83WoZvnLQwCTeDv8uzluRSnm71I3QCLdhrqE2e9YkxvuxdBfpT_PI7Yz-FOKnu1R6HsJeDCjn12Sk3vmAktV2zb34MCdy7cpdTh_YVr7tss2u6vneTwrA86rZtu5Mbr1C1XsmvkxHQAdYo0",
    "h_96-mK1R_7glhsum81dZxjTnYynPbZpHziZjeeHcXYsXaaMwkOlODsWa7I9xXDoRwbKgB719rrmI2oKr6N3Do9U0ajaHF-NKJnwgjMd2w9cjz3_-kyNlxAr2v4IKhGNpmM5iIgOS1VZnOZ68m6_pbLBSp3nssTdlqvd0tIiTHU",
    "IYd7DHOhrWvxkwPQsRM2tOgrjbcrfvtQJipd-DlcxyVuuM9sQLdgjVk2oy26F0EmpScGLq2MowX7fhd_QJQ3ydy5cY7YIBi87w93IKLEdfnbJtoOPLUW0ITrJReOgo1cq9SbsxYawBgfp_gh6A5603k2-ZQwVK0JKSHuLFkuQ3U",
];

/// Valid claims with some others.
pub(crate) fn claims(more: Value) -> Value {
    let mut claims =
        json!({ "iss": ISSUER, "aud": [RESOURCE], "exp": now() + 300, "sub": "ada", "scope": "read" });
    for (name, value) in more.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
}

fn file(upstream: SocketAddr, jwks: &str) -> String {
    format!(
        "server: {{ auth: {{ resource: {RESOURCE}, jwt: {{ issuer: {ISSUER}, jwks: {jwks:?} }} }} }}
upstreams: {{ old: 'http://{upstream}' }}
clients: {{ robot: {{ jwt_subjects: [svc-7], scopes: [write] }} }}
defaults: {{ scopes: [read] }}
routes:
  get_thing: {{ description: x, request: GET old/thing, forward_headers: [authorization], rest: GET /thing }}
  set_thing: {{ description: x, request: PUT old/thing, scopes: [write] }}
"
    )
}

fn load(text: &str) -> config::Loaded {
    config::load(&Sources::from_text("a.yaml", text)).unwrap_or_else(|problems| panic!("{problems}"))
}

async fn served(login: &Login) -> (Scripted, Loaded) {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "well")).await;
    let served = Loaded::start(&load(&file(upstream.address, &login.jwks()))).await;
    (upstream, served)
}

async fn get(served: &Loaded, token: &str) -> Response {
    send(served, "GET /thing", token).await
}

async fn send(served: &Loaded, line: &str, token: &str) -> Response {
    let header = format!("Authorization: Bearer {token}");
    let headers: &[&str] = if token.is_empty() { &[] } else { &[&header] };
    Client::connect(served.address).await.send(line, headers, "").await
}

#[tokio::test]
async fn a_valid_token_is_accepted_and_not_forwarded() {
    let login = Login::new();
    let (upstream, served) = served(&login).await;
    // The newer name of the same algorithm (RFC 9864).
    let by_newer_name = Login::token(&json!({ "alg": "Ed25519" }), &claims(json!({})), |message| {
        login.edwards.sign(message).as_ref().to_vec()
    });
    let older = [login.by_edwards(&claims(json!({}))), login.by_curve(&claims(json!({ "aud": RESOURCE })))];
    for token in older.into_iter().chain([by_newer_name]) {
        for _ in 0..2 {
            let response = get(&served, &token).await;
            assert_eq!(
                (response.status, response.tool_text().as_str()),
                (200, "well"),
                "{}",
                response.text()
            );
        }
    }
    let reader = login.by_edwards(&claims(json!({})));
    let rejected = send(&served, "POST /tools/set_thing", &reader).await;
    assert_eq!(rejected.status, 403);
    assert!(rejected.header("www-authenticate").unwrap().contains("scope=\"read write\""));
    let robot = login.by_curve(&claims(json!({ "sub": "svc-7", "scope": null })));
    assert_eq!(send(&served, "POST /tools/set_thing", &robot).await.status, 200);
    assert_eq!(get(&served, &robot).await.status, 403, "it has what the file says, and no more");
    let state = upstream.state();
    assert!(state.requests.iter().all(|request| request.header("authorization").is_empty()));
}

#[tokio::test]
async fn invalid_tokens_are_rejected() {
    let (login, other) = (Login::new(), Login::new());
    let (upstream, served) = served(&login).await;
    let good = claims(json!({}));
    let signed = login.by_edwards(&good);
    let (message, _) = signed.rsplit_once('.').unwrap();
    let public = login.edwards.public_key().as_ref().to_vec();
    let mac = |key: &[u8]| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        move |message: &[u8]| hmac::sign(&key, message).as_ref().to_vec()
    };
    let forged =
        |header: Value| Login::token(&header, &good, |message| other.edwards.sign(message).as_ref().to_vec());
    let jwk = json!({ "kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode(other.edwards.public_key().as_ref()) });
    let mut swapped: Vec<String> = signed.split('.').map(str::to_owned).collect();
    swapped[1] = URL_SAFE_NO_PAD.encode(claims(json!({ "scope": "read write" })).to_string());
    for (what, token) in [
        ("no signature", format!("{message}.")),
        ("alg none", Login::token(&json!({ "alg": "none" }), &good, |_| Vec::new())),
        ("alg nOnE", Login::token(&json!({ "alg": "nOnE", "kid": "ed" }), &good, |_| Vec::new())),
        (
            "HMAC with the public key",
            Login::token(&json!({ "alg": "HS256", "kid": "ed" }), &good, mac(&public)),
        ),
        (
            "HMAC with the list of keys",
            Login::token(&json!({ "alg": "HS256" }), &good, mac(login.jwks().as_bytes())),
        ),
        (
            "another kind of signature",
            Login::token(&json!({ "alg": "ES256", "kid": "ed" }), &good, |message| {
                login.edwards.sign(message).as_ref().to_vec()
            }),
        ),
        (
            "one that is not taken here",
            Login::token(&json!({ "alg": "RS512", "kid": "ed" }), &good, |_| vec![0; 256]),
        ),
        ("a key of somebody else", forged(json!({ "alg": "EdDSA", "kid": "ed" }))),
        ("a key that it brings", forged(json!({ "alg": "EdDSA", "jwk": jwk }))),
        (
            "a key from elsewhere",
            forged(json!({ "alg": "EdDSA", "kid": "x", "jku": format!("http://{}/", upstream.address) })),
        ),
        ("a path for a key id", forged(json!({ "alg": "EdDSA", "kid": "../../../../dev/null" }))),
        ("SQL for a key id", forged(json!({ "alg": "EdDSA", "kid": "x' UNION SELECT 'key" }))),
        ("crit", forged(json!({ "alg": "EdDSA", "kid": "ed", "crit": ["exp"] }))),
        ("other claims", swapped.join(".")),
        ("another audience", login.by_edwards(&claims(json!({ "aud": "https://other.test/mcp" })))),
        ("no audience", login.by_edwards(&claims(json!({ "aud": null })))),
        ("another issuer", login.by_edwards(&claims(json!({ "iss": "https://evil.test" })))),
        ("almost the issuer", login.by_edwards(&claims(json!({ "iss": format!("{ISSUER}/") })))),
        ("expired", login.by_edwards(&claims(json!({ "exp": now() - 60 })))),
        ("without an end", login.by_edwards(&claims(json!({ "exp": null })))),
        ("not yet", login.by_edwards(&claims(json!({ "nbf": now() + 600 })))),
        ("of nobody", login.by_edwards(&claims(json!({ "sub": null })))),
        ("huge", login.by_edwards(&claims(json!({ "x": "y".repeat(20_000) })))),
        ("cut off", signed[..signed.len() - 4].to_owned()),
        ("padded", format!("{signed}==")),
        ("twice", format!("{signed}.{signed}")),
        ("no JSON", format!("{}.e30.e30", URL_SAFE_NO_PAD.encode("{"))),
    ] {
        let response = get(&served, &token).await;
        assert_eq!(response.status, 401, "{what}: {}", response.text());
        let response_text = format!("{}{}", response.head, response.text());
        assert!(
            response_text.contains("error=\"invalid_token\"") && !response_text.contains("eyJ"),
            "{what}: {response_text}"
        );
    }
    let in_query = send(&served, &format!("GET /thing?access_token={signed}"), "").await;
    assert_eq!(in_query.status, 401);
    assert_eq!(upstream.state().connections, 0, "nobody was asked for a key, or for anything else");
    assert_eq!(get(&served, &signed).await.status, 200);
}

#[tokio::test]
async fn clients_learn_the_authorization_servers() {
    let login = Login::new();
    let (_upstream, served) = served(&login).await;
    let place = "resource_metadata=\"https://tools.test/.well-known/oauth-protected-resource/mcp\"";
    let rejected = send(&served, "GET /tools", "").await;
    let challenge = rejected.header("www-authenticate").unwrap();
    assert_eq!(challenge, format!("Bearer scope=\"read\", {place}"));
    for path in ["", "/mcp"] {
        let line = format!("GET /.well-known/oauth-protected-resource{path}");
        let metadata = send(&served, &line, "").await.json();
        assert_eq!(metadata["resource"], RESOURCE);
        assert_eq!(metadata["authorization_servers"], json!([ISSUER]));
        assert_eq!(metadata["scopes_supported"], json!(["read", "write"]));
        assert_eq!(metadata["bearer_methods_supported"], json!(["header"]));
    }
    let elsewhere = send(&served, "GET /.well-known/oauth-protected-resource/other", "").await;
    assert_eq!(elsewhere.status, 401);
    // A client that requests a token with only the missing scope must keep the scopes it had.
    let token = login.by_edwards(&claims(json!({ "scope": "read openid offline_access" })));
    let forbidden = send(&served, "POST /tools/set_thing", &token).await;
    let challenge = forbidden.header("www-authenticate").unwrap();
    assert_eq!(forbidden.status, 403);
    assert!(challenge.contains("error=\"insufficient_scope\"") && challenge.contains(place), "{challenge}");
    assert!(challenge.contains("scope=\"read write\""), "{challenge}");
}

#[tokio::test]
async fn jwks_are_fetched_and_kept_while_the_server_is_down() {
    let login = Login::new();
    let jwks = login.jwks();
    let server = Scripted::start(move |request| {
        let body = match request.line() {
            "GET /jwks HTTP/1.1" => jwks.clone(),
            "GET /huge HTTP/1.1" => format!("{{\"keys\": [], \"x\": \"{}\"}}", "y".repeat(300 << 10)),
            "GET /slow HTTP/1.1" => return vec![Step::Close],
            _ => "<html>".to_owned(),
        };
        vec![Step::Send(response("200 OK", "application/json", &body))]
    })
    .await;
    let upstream = Scripted::answering(response("200 OK", "text/plain", "well")).await;
    let token = login.by_curve(&claims(json!({})));
    for (path, status) in [("/jwks", 200), ("/huge", 503), ("/slow", 503), ("/none", 503)] {
        let jwks = format!("http://{}{path}", server.address);
        let served = Loaded::start(&load(&file(upstream.address, &jwks))).await;
        let requests_before = server.state().requests.len();
        let response = get(&served, &token).await;
        assert_eq!(response.status, status, "{path}: {}", response.text());
        assert_eq!(response.header("retry-after").is_some(), status == 503);
        let other = login.by_edwards(&claims(json!({})));
        let both = tokio::join!(get(&served, &token), get(&served, &other));
        assert_eq!((both.0.status, both.1.status), (status, status));
        assert_eq!(server.state().requests.len(), requests_before + 1, "once for all of them");
    }
}

#[tokio::test]
async fn a_token_is_verified_with_its_declared_rsa_algorithm() {
    let [n, d, p, q, dp, dq, q_inverse] = RSA.map(|part| URL_SAFE_NO_PAD.decode(part).unwrap());
    let public = rsa::PublicKeyComponents { n: n.clone(), e: vec![1, 0, 1] };
    let components = rsa::KeyPairComponents { public_key: public, d, p, q, dP: dp, dQ: dq, qInv: q_inverse };
    let pair = rsa::KeyPair::from_components(&components).unwrap();
    let sign = |encoding: &'static dyn RsaEncoding, message: &[u8]| {
        let mut signature = vec![0; pair.public().modulus_len()];
        pair.sign(encoding, &SystemRandom::new(), message, &mut signature).unwrap();
        signature
    };
    let jwks = |more: &str| {
        format!(r#"{{"keys": [{{"kty": "RSA", "kid": "r", "n": "{}", "e": "AQAB"{more}}}]}}"#, RSA[0])
    };
    let token = |algorithm: &str, encoding: &'static dyn RsaEncoding| {
        let header = json!({ "alg": algorithm, "kid": "r" });
        Login::token(&header, &claims(json!({})), |message| sign(encoding, message))
    };
    let mac = hmac::Key::new(hmac::HMAC_SHA256, &n);
    let by_modulus = Login::token(&json!({ "alg": "HS256", "kid": "r" }), &claims(json!({})), |message| {
        hmac::sign(&mac, message).as_ref().to_vec()
    });
    let all = |file: String| file.replace("issuer:", "algorithms: [RS256, PS256], issuer:");
    let upstream = Scripted::answering(response("200 OK", "text/plain", "well")).await;
    let file = |jwks: &str| file(upstream.address, jwks);
    for (file, rs, ps) in [
        (file(&jwks("")), 200, 401),
        (all(file(&jwks(""))), 200, 200),
        (all(file(&jwks(r#", "alg": "PS256""#))), 401, 200),
    ] {
        let served = Loaded::start(&load(&file)).await;
        for (what, token, status) in [
            ("RS256", token("RS256", &RSA_PKCS1_SHA256), rs),
            ("PS256", token("PS256", &RSA_PSS_SHA256), ps),
            ("another padding", token("RS256", &RSA_PSS_SHA256), 401),
            ("another hash", token("RS384", &RSA_PKCS1_SHA256), 401),
            ("HMAC with the modulus", by_modulus.clone(), 401),
        ] {
            let response = get(&served, &token).await;
            assert_eq!(response.status, status, "{what}: {}", response.text());
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn keys_in_a_file_are_reloaded() {
    let folder = std::env::temp_dir().join(format!("glossator-it-tokens-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (before, after) = (Login::new(), Login::new());
    let upstream = Scripted::answering(response("200 OK", "text/plain", "well")).await;
    let keys = folder.join("jwks.json");
    std::fs::write(&keys, before.jwks()).unwrap();
    let text = file(upstream.address, &format!("file:{}", keys.display()));
    let text = text.replace("server: {", "server: { listen: '127.0.0.1:0', reload_interval: 100ms,");
    std::fs::write(folder.join("glossator.yaml"), text).unwrap();
    let mut program = Program::start_from(&folder.join("glossator.yaml"), &[]).await;
    let status = async |token: &str| {
        let header = format!("Authorization: Bearer {token}");
        Client::connect(program.address).await.send("GET /thing", &[&header], "").await.status
    };
    let [old, new] = [&before, &after].map(|login| login.by_edwards(&claims(json!({}))));
    assert_eq!((status(&old).await, status(&new).await), (200, 401));
    std::fs::write(&keys, after.jwks()).unwrap();
    soon("the new keys", async { while status(&new).await != 200 {} }).await;
    assert_eq!(status(&old).await, 401, "it was found good a moment ago, and its key is gone");
    std::fs::write(&keys, "no keys").unwrap();
    program.wait_for_log("config reload failed", 1).await;
    std::fs::remove_dir_all(folder).unwrap();
}
