//! The admin UI: serves the files of the folder `page`.

use axum::{Router, routing::get};
use http::{HeaderName, header};

use super::RESOURCE_POLICY;

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// Files of the admin UI: path, media type and content.
const ASSETS: [(&str, &str, &str); 11] = [
    ("/", HTML, include_str!("page/index.html")),
    ("/page/page.css", STYLE, include_str!("page/page.css")),
    ("/page/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
    ("/page/page.js", SCRIPT, include_str!("page/page.js")),
    ("/page/common.js", SCRIPT, include_str!("page/common.js")),
    ("/page/plots.js", SCRIPT, include_str!("page/plots.js")),
    ("/page/routes.js", SCRIPT, include_str!("page/routes.js")),
    ("/page/failures.js", SCRIPT, include_str!("page/failures.js")),
    ("/page/upstreams.js", SCRIPT, include_str!("page/upstreams.js")),
    ("/page/configuration.js", SCRIPT, include_str!("page/configuration.js")),
    ("/page/playground.js", SCRIPT, include_str!("page/playground.js")),
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
    ASSETS.into_iter().fold(Router::new(), |router, (path, media_type, text)| {
        let serve = move || async move {
            // Another version of the program has another page.
            let own = [(header::CONTENT_TYPE, media_type), (header::CACHE_CONTROL, "no-cache")];
            (SECURITY_HEADERS, own, text)
        };
        router.route(path, get(serve))
    })
}
