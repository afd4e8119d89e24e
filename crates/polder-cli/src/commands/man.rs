//! `polder man`: the manual pages.

use std::fs;

use clap::CommandFactory;

use crate::args::{Cli, ManArgs};
use crate::failure::Failure;
use crate::output;

pub fn run(args: &ManArgs) -> Result<(), Failure> {
    let dir = args.dir.display();
    let written = fs::create_dir_all(&args.dir)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), &args.dir));
    written.map_err(Failure::io(format!("cannot write to {dir}")))?;
    output::print(&format!("manual pages are in {dir}: read them with `man -l {dir}/polder.1`"))
}
