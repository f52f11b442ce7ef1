//! The style sheet, the script and the icon: in the program, under names that change with what is in them.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use stepwell_core::Digest;

/// Whoever has one may keep it: another content has another name.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

pub(crate) struct Asset {
    /// Such as `console-0123456789abcdef.css`.
    name: String,
    kind: &'static str,
    bytes: &'static [u8],
}

pub(crate) static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("console", "css", "text/css; charset=utf-8", include_bytes!("assets/console.css")));
pub(crate) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("console", "js", "text/javascript; charset=utf-8", include_bytes!("assets/console.js"))
});
pub(crate) static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icon", "svg", "image/svg+xml", include_bytes!("assets/icon.svg")));

impl Asset {
    fn new(stem: &str, ending: &str, kind: &'static str, bytes: &'static [u8]) -> Self {
        Self { name: format!("{stem}-{}.{ending}", Digest::of(bytes).short(16)), kind, bytes }
    }

    /// Its address.
    pub(crate) fn url(&self) -> String {
        format!("/assets/{}", self.name)
    }
}

/// `GET /assets/{name}`: open to all, since they tell nothing about any run.
pub(crate) async fn serve(Path(name): Path<String>) -> Response {
    match [&STYLE, &SCRIPT, &ICON].into_iter().find(|asset| asset.name == name) {
        Some(asset) => ([(CONTENT_TYPE, asset.kind), (CACHE_CONTROL, FOR_EVER)], asset.bytes).into_response(),
        None => (StatusCode::NOT_FOUND, [(CONTENT_TYPE, "text/plain")], "there is no such asset").into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that a browser loads as script, uncompressed.
    const SCRIPT_BYTES_MAX: usize = 100 * 1024;

    #[test]
    fn the_script_is_small() {
        assert!(SCRIPT.bytes.len() < SCRIPT_BYTES_MAX, "{}", SCRIPT.bytes.len());
    }

    #[test]
    fn another_content_has_another_name() {
        let name = |bytes| Asset::new("a", "css", "text/css", bytes).name;
        assert_ne!(name(b"a {}"), name(b"b {}"));
        assert_eq!(name(b"a {}").len(), "a-0123456789abcdef.css".len());
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere() {
        for asset in [&STYLE, &SCRIPT, &ICON] {
            let text = String::from_utf8_lossy(asset.bytes).replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("http:") && !text.contains("https:") && !text.contains("@import"), "{}", asset.name);
        }
    }
}
