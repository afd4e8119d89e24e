//! `polder tables`: what tables there are.

use serde_json::{Value, json};

use super::Context;
use super::stat::figures;
use crate::args::StoreArgs;
use crate::failure::Failure;
use crate::opening::with_store_to_read;
use crate::output::{Columns, Side};
use crate::text;
use crate::units::{bytes, count};

pub fn run(context: &Context, args: &StoreArgs) -> Result<(), Failure> {
    let figures = with_store_to_read(args, figures)?;
    let text = match of(&figures) {
        [] => "there are no tables yet".to_owned(),
        _ => lines(&figures).join("\n"),
    };
    context.print(&json!({ "tables": figures["tables"] }), &text)
}

/// The tables of the store whose figures these are.
pub fn of(figures: &Value) -> &[Value] {
    figures["tables"].as_array().map_or(&[], Vec::as_slice)
}

/// The figures of each of them, for people.
pub fn lines(figures: &Value) -> Vec<String> {
    let number = |of: &Value, name: &str| of[name].as_u64().unwrap_or(0);
    let mut columns = Columns::new(&[Side::Left, Side::Right, Side::Right, Side::Right]);
    columns.row(["table", "entries", "pages", "size"].map(String::from));
    for table in of(figures) {
        let name = text::key(table["name"].as_str().unwrap_or("").as_bytes());
        let [entries, pages] = ["entries", "pages"].map(|name| number(table, name));
        let size = bytes(pages * number(figures, "page_size_bytes"));
        columns.row([name, count(entries), count(pages), size]);
    }
    columns.lines()
}
