//! Progress for people: a bar on a terminal, an occasional line elsewhere.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::client::progress::{Phase, Progress};
use indicatif::{BinaryBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Where nobody watches a bar, a line is written this often.
const EVERY: Duration = Duration::from_secs(5);

/// Shows progress on standard error.
pub(super) struct Shown {
    state: Mutex<State>,
}

struct State {
    terminal: bool,
    phase: &'static str,
    /// Bytes are counted; rounds otherwise.
    bytes: bool,
    bar: Option<ProgressBar>,
    total: u64,
    /// Where and when the current phase began, for its rate.
    start: (u64, Instant),
    last_line: Instant,
}

impl Shown {
    /// Finds out who watches.
    pub(super) fn new() -> Self {
        let now = Instant::now();
        let terminal = std::io::stderr().is_terminal();
        let state = State { terminal, phase: "", bytes: true, bar: None, total: 0, start: (0, now), last_line: now };
        Self { state: Mutex::new(state) }
    }

    /// Removes the bar.
    pub(super) fn clear(&self) {
        if let Some(bar) = self.state().bar.take() {
            bar.finish_and_clear();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for Shown {
    fn begin(&self, phase: Phase, total: u64, done: u64) {
        let mut state = self.state();
        let now = Instant::now();
        state.phase = match phase {
            Phase::Verify => "verifying",
            Phase::Send => "sending",
            Phase::Finish => "finishing",
            Phase::Receive => "receiving",
            Phase::Audit => "auditing",
        };
        state.bytes = phase != Phase::Audit;
        (state.total, state.start, state.last_line) = (total, (done, now), now);
        if let Some(bar) = state.bar.take() {
            bar.finish_and_clear();
        }
        if state.terminal {
            state.bar = Some(bar(&state, done));
        } else if matches!(phase, Phase::Send | Phase::Receive) {
            line(&match done {
                0 => format!("{} {}", state.phase, BinaryBytes(total)),
                _ => {
                    format!("{} {}, of which {} are there already", state.phase, BinaryBytes(total), BinaryBytes(done))
                }
            });
        }
    }

    fn at(&self, done: u64) {
        let mut state = self.state();
        if let Some(bar) = &state.bar {
            bar.set_position(done);
        } else if state.last_line.elapsed() >= EVERY {
            state.last_line = Instant::now();
            line(&told(&state, done));
        }
    }

    fn note(&self, text: &str) {
        match &self.state().bar {
            Some(bar) => bar.suspend(|| line(text)),
            None => line(text),
        }
    }
}

fn bar(state: &State, done: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(state.total), ProgressDrawTarget::stderr());
    let template = if state.bytes {
        "{msg:9}  {bar:32}  {binary_bytes} of {binary_total_bytes}  {binary_bytes_per_sec}  {eta} left"
    } else {
        "{msg:9}  {bar:32}  {pos} of {len} rounds  {per_sec}  {eta} left"
    };
    // The template is a constant; if it were wrong, the plain bar would do.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_message(state.phase);
    bar.set_position(done);
    bar.reset_eta();
    bar
}

fn told(state: &State, done: u64) -> String {
    let percent = done.saturating_mul(100).checked_div(state.total).unwrap_or(100);
    let (begun, since) = state.start;
    let moved = done.saturating_sub(begun);
    let milliseconds = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
    let rate = moved.saturating_mul(1000) / milliseconds;
    let left = state.total.saturating_sub(done).checked_div(rate);
    let left = left.map_or_else(String::new, |seconds| format!(", {seconds} s left"));
    if !state.bytes {
        return format!("{} {done} of {} rounds ({percent} %), {rate}/s{left}", state.phase, state.total);
    }
    format!(
        "{} {} of {} ({percent} %), {}/s{left}",
        state.phase,
        BinaryBytes(done),
        BinaryBytes(state.total),
        BinaryBytes(rate)
    )
}

fn line(text: &str) {
    // Nobody may be listening; that is no reason to stop.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
