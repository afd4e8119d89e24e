//! Polder's workloads on Polder: see `polder-bench --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    polder_bench::run("polder-bench", &polder_bench::engine::built_in())
}
