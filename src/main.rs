//! The program `cairn`.

fn main() -> std::process::ExitCode {
    cairn::cli::main()
}
