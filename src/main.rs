//! The program `cairn`.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
