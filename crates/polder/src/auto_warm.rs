//! Loading and saving the list of resident pages without being asked (`warm.rs`).

use std::sync::{Arc, Weak};

use polder_pool::Translation;

use crate::engine::Engine;

/// From now on the list is loaded and saved in the background. Without a thread neither is done.
pub(crate) fn watch<T: Translation>(engine: &Arc<Engine<T>>) {
    let warm = &engine.warm;
    if !warm.wants_thread() {
        return;
    }
    let theirs = Arc::downgrade(engine);
    let run = move || theirs.upgrade().iter().for_each(|engine| engine.warm.run(&engine.pool));
    let armed = warm.worker.arm("polder-warm", run);
    if warm.writes {
        let theirs = Arc::downgrade(engine);
        engine.pool.tell_of_frames_taken(move || frames_taken(&theirs));
    }
    if warm.has_list_to_load() && armed.is_ok() {
        // Else the list stays for the next opening.
        let _ = warm.worker.wake();
    }
}

/// Many frames were taken: what is resident is not what it was. Waits for nothing.
fn frames_taken<T: Translation>(engine: &Weak<Engine<T>>) {
    if let Some(engine) = engine.upgrade()
        && engine.warm.is_due()
    {
        // The next one tries it again.
        let _ = engine.warm.worker.wake();
    }
}

#[cfg(test)]
mod tests;
