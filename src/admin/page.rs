//! The admin UI: serves the files of the folder `page`.

use axum::{Router, response::IntoResponse, routing::get};
use http::{HeaderName, header};

use super::RESOURCE_POLICY;

/// A file of the admin UI.
#[derive(Debug, Clone, Copy)]
struct Asset {
    path: &'static str,
    media_type: &'static str,
    text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

const ASSETS: [Asset; 11] = [
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
    Asset { path: "/page/playground.js", media_type: SCRIPT, text: include_str!("page/playground.js") },
];

/// Isolate the page: nothing is loaded from elsewhere, no script is inline, and no other page may frame it.
const SECURITY_HEADERS: [(HeaderName, &str); 6] = [
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

/// A router for all files.
pub(super) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    ASSETS.into_iter().fold(Router::new(), |router, asset| {
        router.route(asset.path, get(move || async move { asset.into_response() }))
    })
}

impl IntoResponse for Asset {
    fn into_response(self) -> axum::response::Response {
        // Another version of the program has another page.
        let own = [(header::CONTENT_TYPE, self.media_type), (header::CACHE_CONTROL, "no-cache")];
        (SECURITY_HEADERS, own, self.text).into_response()
    }
}
