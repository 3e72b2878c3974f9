//! Where a test lets the process die: between two steps of something that must not be done by halves.
//!
//! Only a program that is built with debug assertions knows these places.

/// The variable that names the place.
#[cfg(debug_assertions)]
const VARIABLE: &str = "CAIRN_CRASH_AT";

/// Dies as by SIGKILL if this is the place.
#[cfg(debug_assertions)]
pub(crate) fn crash_point(place: &str) {
    use std::sync::OnceLock;
    static WANTED: OnceLock<Option<String>> = OnceLock::new();
    if WANTED.get_or_init(|| std::env::var(VARIABLE).ok()).as_deref() == Some(place) {
        // Whether the signal was sent makes no difference to what comes next.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        loop {
            std::thread::park();
        }
    }
}

/// Nothing.
#[cfg(not(debug_assertions))]
pub(crate) const fn crash_point(_: &str) {}
