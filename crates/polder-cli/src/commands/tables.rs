//! `polder tables`: what tables there are.

use serde_json::json;

use super::{Context, figures};
use crate::args::StoreArgs;
use crate::failure::Failure;
use crate::opening::with_store_to_read;

pub fn run(context: &Context, args: &StoreArgs) -> Result<(), Failure> {
    let figures = with_store_to_read(args, figures::of)?;
    let text = match figures::tables(&figures) {
        [] => "there are no tables yet".to_owned(),
        _ => figures::lines_of_tables(&figures).join("\n"),
    };
    context.print(&json!({ "tables": figures["tables"] }), &text)
}
