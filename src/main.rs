//! The program `cairn`.

/// Buffers of a megabyte come and go all the time; this allocator keeps their pages.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cairn::cli::main()
}
