//! Makes the test vectors anew. What changed is to be reviewed like any other difference.

use std::process::ExitCode;

use tenure_tests::vectors;

fn main() -> ExitCode {
    match vectors::accept(&vectors::files(), &vectors::folder()) {
        Ok(changed) if changed.is_empty() => println!("no vector changed"),
        Ok(changed) => println!("changed: {}", changed.join(", ")),
        Err(error) => {
            eprintln!("{}: {error}", vectors::folder().display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
