//! `polder vector drop`: a collection with all that is in it.

use super::Context;
use crate::args::VectorArgs;
use crate::commands::drop::drop_from;
use crate::failure::Failure;

pub fn run(context: &Context, args: &VectorArgs) -> Result<(), Failure> {
    let name = &args.collection;
    drop_from(context, &args.store, name, |store| Ok(store.drop_collection(name)?))
}
