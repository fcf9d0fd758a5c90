//! The page: what the browser is given as it stands in the folder beside this file.

use axum::body::Body;
use http::{HeaderName, HeaderValue, Response, header};

/// One file of the page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asset {
    path: &'static str,
    media_type: &'static str,
    text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// All of them.
static ASSETS: [Asset; 11] = [
    Asset { path: "/", media_type: HTML, text: include_str!("page/index.html") },
    Asset { path: "/page/page.css", media_type: STYLE, text: include_str!("page/page.css") },
    Asset { path: "/page/icon.svg", media_type: "image/svg+xml", text: include_str!("page/icon.svg") },
    Asset { path: "/page/page.js", media_type: SCRIPT, text: include_str!("page/page.js") },
    Asset { path: "/page/common.js", media_type: SCRIPT, text: include_str!("page/common.js") },
    Asset { path: "/page/plots.js", media_type: SCRIPT, text: include_str!("page/plots.js") },
    Asset { path: "/page/routes.js", media_type: SCRIPT, text: include_str!("page/routes.js") },
    Asset { path: "/page/failures.js", media_type: SCRIPT, text: include_str!("page/failures.js") },
    Asset { path: "/page/upstreams.js", media_type: SCRIPT, text: include_str!("page/upstreams.js") },
    Asset { path: "/page/configuration.js", media_type: SCRIPT, text: include_str!("page/configuration.js") },
    Asset { path: "/page/workbench.js", media_type: SCRIPT, text: include_str!("page/workbench.js") },
];

/// Who may have an answer in a page of theirs (Fetch, "Cross-Origin-Resource-Policy header").
pub(super) const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// What keeps the page to itself: nothing is loaded from elsewhere, no script stands in the document, nobody frames it.
const GUARDS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (RESOURCE_POLICY, "same-origin"),
];

impl Asset {
    /// What stands at a path.
    pub(super) fn at(path: &str) -> Option<&'static Self> {
        ASSETS.iter().find(|asset| asset.path == path)
    }

    pub(super) fn answer(&self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.text));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.media_type));
        // Another version of the program has another page.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        for (name, value) in GUARDS {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }
}
