//! Which checkpoint may follow which: the rules of a run's chain.
