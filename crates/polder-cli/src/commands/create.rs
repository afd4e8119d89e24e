//! `polder create`: a new store.

use polder::{OpenMode, Options};
use serde_json::json;

use super::Context;
use crate::args::CreateArgs;
use crate::failure::Failure;
use crate::opening::opened;
use crate::units::bytes;

pub fn run(context: &Context, args: &CreateArgs) -> Result<(), Failure> {
    let [budget, page_size] = [args.budget, args.page_size].map(|size| size.as_u64());
    let page_size = u32::try_from(page_size)
        .map_err(|_| Failure::Usage(format!("no page has {}", bytes(page_size))))?;
    let mut options = Options::new(&args.dir)
        .mode(OpenMode::Create)
        .memory_budget(budget)
        .page_size(page_size)
        .translation(args.translation);
    if let Some(limit) = args.log_limit {
        options = options.log_limit(limit.as_u64());
    }
    let log_limit = opened(options, |store| Ok(store.stats().log_limit_bytes))?;
    let dir = args.dir.display();
    let value = json!({
        "created": dir.to_string(),
        "memory_budget_bytes": budget,
        "log_limit_bytes": log_limit,
        "page_size_bytes": page_size,
    });
    let (page, budget) = (bytes(page_size.into()), bytes(budget));
    context.print(&value, &format!("created {dir}: pages of {page}, a memory budget of {budget}"))
}
