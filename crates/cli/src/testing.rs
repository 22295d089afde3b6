//! Objects and a style for tests.

use crate::args::Form;
use crate::find::Found;
use crate::output::Style;

/// The moment of all tests.
pub const NOW: &str = "2026-01-02T03:10:00Z";

/// A table without colours.
pub const PLAIN: Style = Style { form: Form::Table, color: false, titles: true };

/// A Framework of `data/`.
pub fn found(file: &str) -> Found {
    let path = format!("{}/data/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    Found::read(serde_saphyr::from_str(&text).unwrap()).unwrap()
}
